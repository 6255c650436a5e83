"""What a user does with a fit whose columns are not written out, against the same fit of columns that are."""

from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.data import implicit_columns
from probreg.priors import LKJ, Covariance, HalfNormal

N = 100


def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    g, x, z = rng.integers(0, 12, N), rng.normal(size=N), rng.normal(size=N)
    y = 1 + x + rng.normal(size=12)[g] + 0.5 * rng.normal(size=N)
    return {
        "y": y,
        "b": (y > 1).astype(int),
        "x": x,
        "z": z,
        "g": np.array([f"g{i:02d}" for i in g]),
    }


DATA = data()
KNOWN = {name: v[:5] for name, v in DATA.items()}
NEW = {**KNOWN, "g": np.array(["g00", "new", "g01", "g02", "newer"])}
FORMULA = {"y": "y ~ x + z + (x | g)", "b": "b ~ x + z + (1 | g)"}
METHODS = {
    "REML": pr.Evidence(),
    "ML": pr.Evidence(criterion="ML"),
    "posterior": pr.Integrate(nodes=256, draws=50),
}


def fitted(response: str, method: str) -> pr.Fit:
    likelihood = {"y": "gaussian", "b": "bernoulli"}[response]
    prior: dict[str, Any] = {}
    if method == "posterior":
        prior = {
            "prior": {
                FORMULA[response].split("(")[1][:-1]: Covariance(
                    sd=HalfNormal(1.0), cor=LKJ(2.0)
                )
            }
        }
    made = pr.Model.from_formula(
        FORMULA[response], DATA, likelihood=likelihood, **prior
    )
    return pr.fit(made, METHODS[method])


WALK: dict[str, Any] = {
    "print": lambda fit: str(fit) and fit._repr_html_(),
    "summary": lambda fit: str(fit.summary()),
    "compare": lambda fit: str(pr.compare({"a": fit, "b": fit})),
    "compare_models": lambda fit: str(pr.compare_models({"a": fit, "b": fit})),
    "effects": lambda fit: str(fit.effects("g")),
    "known": lambda fit: fit.predict(KNOWN, groups="known", prob=0.9),
    "new": lambda fit: fit.predict(NEW, groups="new", prob=0.9),
    "typical": lambda fit: fit.predict(NEW, groups="typical", prob=0.9),
    "aux_interval": lambda fit: fit.aux_interval("sd(Intercept | g)", 0.9),
    "check": lambda fit: str(pr.check(fit.model)),
    "diagnose": lambda fit: str(pr.diagnose(fit)),
    "predictions": lambda fit: str(pr.predictions(fit)),
    "comparisons": lambda fit: str(pr.comparisons(fit, "x")),
    "slopes": lambda fit: str(pr.slopes(fit, "x")),
    "hypothesis": lambda fit: str(pr.hypothesis(fit, "x = 0")),
}


@pytest.mark.parametrize(
    ("response", "method"),
    [
        ("y", "REML"),
        pytest.param("y", "posterior", marks=pytest.mark.slow),
        pytest.param("b", "ML", marks=pytest.mark.slow),
    ],
)
def test_every_step_goes_on(response, method, monkeypatch, tmp_path):
    wanted = fitted(response, method)
    monkeypatch.setattr(implicit_columns, "MIN_IMPLICIT_BYTES", 1000)
    fit = fitted(response, method)
    assert fit.model.design.is_lazy
    for name, step in WALK.items():
        try:
            step(fit)
        except (pr.errors.DataError, pr.errors.Incompatible) as error:
            raise AssertionError(f"{name}: {error}") from error
    for groups, rows in (("known", KNOWN), ("typical", NEW)):
        found, same = (
            each.predict(rows, groups=groups)["mean"] for each in (fit, wanted)
        )
        # a posterior has draws, the same by the same seed but for rounding
        np.testing.assert_allclose(np.asarray(found), np.asarray(same), atol=1e-3)
    back = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(
        np.asarray(back.solution.beta), np.asarray(fit.solution.beta)
    )
    str(back)


@pytest.mark.slow
def test_a_step_that_would_write_them_out_says_how_large_they_are(monkeypatch):
    monkeypatch.setattr(implicit_columns, "MIN_IMPLICIT_BYTES", 1000)
    fit = fitted("y", "REML")
    # of columns of the head fewer are asked for
    monkeypatch.setattr(implicit_columns, "MAX_DENSE_BYTES", 8 * N * 27 - 1)
    for name in (
        "print",
        "summary",
        "effects",
        "known",
        "typical",
        "new",
        "aux_interval",
        "predictions",
        "comparisons",
        "slopes",
    ):
        WALK[name](fit)
    with pytest.raises(pr.errors.DataError, match=r"rows of 27 columns take .*kB"):
        WALK["diagnose"](fit)
