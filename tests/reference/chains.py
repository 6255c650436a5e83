"""Posterior moments of long chains, run once and kept: what other methods are held against without sampling again.

`python -m tests.reference.chains` runs the chains that are asked for in CHAINS and writes what they found; it takes minutes.
"""

import hashlib
import importlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

import probreg as pr

FILE = Path(__file__).parent / "data" / "chains" / "moments.json"

# module and function of each: it returns {name: model}
CHAINS = {"tests.properties.test_integrate": "models_of_chains"}


@dataclass(frozen=True)
class Moments:
    """Means and standard deviations of coefficients, in the shape of the fit's, and of scalars: {name: (mean, sd)}."""

    coef: xr.DataArray
    std_error: xr.DataArray
    scalars: dict[str, tuple[float, float]]


def digest(model: pr.Model) -> str:
    """What the chains were run on: columns and responses to 12 digits, and the prior in words."""
    numbers = np.concatenate([np.ravel(model.design.X), np.ravel(model.design.y)])
    text = " ".join(f"{v:.12g}" for v in numbers) + repr(model.prior)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def moments_of_chains(name: str, model: pr.Model, like: pr.Fit) -> Moments:
    """The moments that the file has for this model, with the labels of `like`; an error where the model is another one."""
    found = json.loads(FILE.read_text())[name]
    assert found["digest"] == digest(model), (
        f"{name}: the model has changed; run python -m tests.reference.chains"
    )
    scalars = {key: (mean, sd) for key, (mean, sd) in found["scalars"].items()}
    return Moments(
        like.coef.copy(data=found["coef"]),
        like.coef.copy(data=found["std_error"]),
        scalars,
    )


def main() -> None:
    found = {}
    for module, function in CHAINS.items():
        for name, model in getattr(importlib.import_module(module), function)().items():
            with warnings.catch_warnings():
                # a few steps diverge where a scale is small
                warnings.simplefilter("ignore")
                fit = pr.fit(model, pr.NUTS(draws=2500, target_accept=0.95), seed=2)
            found[name] = {
                "digest": digest(model),
                "draws": 4 * 2500,
                "r_hat": float(fit.summary()["r_hat"].max()),
                "coef": np.round(fit.coef.values, 8).tolist(),
                "std_error": np.round(fit.std_error.values, 8).tolist(),
                "scalars": {
                    key: [round(v, 8) for v in pair]
                    for key, pair in fit.solution.scalars.items()
                },
            }
            print(name, found[name]["r_hat"], flush=True)  # noqa: T201
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
