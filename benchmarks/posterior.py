"""Posteriors by exact formulas, importance sampling and NUTS against Bambi, warm: `python benchmarks/posterior.py [case ...]`.

Cases: gaussian (1e5 x 10), logistic (1e4 x 10), large (logistic, 1e5 x 20), softmax (1e4 x 10, four classes), groups (logistic, 1e4 rows of 100
groups with an unknown standard deviation); all without a name.
Everybody draws 4 chains of 1000. Everybody has fitted the same model to 1000 of the rows before, in the same process, so
that imports and caches are warm; what is timed is the whole way from arrays (or a table) to draws. Min ESS is the least bulk
effective sample size of a slope, for importance sampling that of its weights. `--alone` leaves Bambi out.
"""

import logging
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from scipy.special import expit
from side_by_side import OURS, in_turn, installed, machine

import probreg as pr

P = 10
# prior sd of every coefficient in the logistic models, on standardised columns
SCALE = 2.5
SAMPLERS = ("pymc", "nutpie")


@dataclass(frozen=True)
class Draws:
    """Draws of the slopes (chain, draw, k), and the effective sample size where their method knows it."""

    slopes: np.ndarray
    known_ess: float | None = None

    @property
    def mean(self) -> np.ndarray:
        return self.slopes.mean((0, 1))

    @property
    def sd(self) -> np.ndarray:
        return self.slopes.std((0, 1))

    @property
    def min_ess(self) -> float:
        from arviz_stats.base import array_stats

        if self.known_ess is not None:
            return self.known_ess
        return min(
            float(array_stats.ess(self.slopes[..., j], method="bulk"))
            for j in range(self.slopes.shape[-1])
        )


Way = Callable[[np.ndarray, np.ndarray], Draws]


def columns(n: int, p: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, p))
    Z[:, 1:] += 0.5 * Z[:, :-1]
    return Z / Z.std(0)


def gaussian(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = columns(n, p, 4)
    return X, 1.0 + X @ rng.uniform(-1, 1, p) + 2.0 * rng.standard_normal(n)


def bernoulli(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = columns(n, p, 6)
    return X, (rng.random(n) < expit(X @ rng.uniform(-1, 1, p) - 0.5)).astype(int)


def categorical(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = columns(n, p, 8)
    return X, (X @ rng.uniform(-1, 1, (p, 4)) + rng.gumbel(size=(n, 4))).argmax(1)


def ours(X: np.ndarray, y: np.ndarray, method: Any, **model: Any) -> Draws:
    found = pr.fit(pr.Model.from_arrays(X, y, **model), method, seed=1).solution
    beta = found.draws["beta"][..., 1:, :]
    return Draws(beta.reshape(*beta.shape[:2], -1), found.stats.get("ess"))


def bambi(
    X: np.ndarray, y: np.ndarray, family: str, scale: float | None, sampler: str
) -> Draws:
    """PyMC takes half of the logical cores when not told, so it is told to take all; nutpie does so by itself."""
    import bambi as bmb
    import pandas as pd

    names = [f"x{j + 1}" for j in range(X.shape[1])]
    table = pd.DataFrame(X, columns=names).assign(
        y=pd.Categorical(y) if family == "categorical" else y
    )
    priors = (
        None
        if scale is None
        else {c: bmb.Prior("Normal", mu=0, sigma=scale) for c in names}
    )
    model = bmb.Model(f"y ~ {' + '.join(names)}", table, family=family, priors=priors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(
            draws=1000,
            tune=1000,
            chains=4,
            cores=os.cpu_count(),
            random_seed=1,
            progressbar=False,
            inference_method=sampler,
        )
    # (chain, draw, p) or (chain, draw, p, m)
    slopes = np.stack([found["posterior"][c].values for c in names], 2)
    return Draws(slopes.reshape(*slopes.shape[:2], -1))


def peers(
    family: str, scale: float | None = None, samplers: tuple[str, ...] = SAMPLERS
) -> dict[str, Way]:
    """Bambi with each of its samplers."""
    if not installed("bambi") or "--alone" in sys.argv:
        return {}
    return {
        f"Bambi, {s}": partial(bambi, family=family, scale=scale, sampler=s)
        for s in samplers
    }


def warm(
    X: np.ndarray, y: np.ndarray, own: dict[str, Way], others: dict[str, Way]
) -> None:
    for way in (own | others).values():
        # imports and the caches of compiled code, in seconds and not minutes
        way(X[:1000], y[:1000])
    full = {name: partial(way, X, y) for name, way in others.items()}
    calls = {name: partial(way, X, y) for name, way in own.items()}
    timed = in_turn(calls | full, 3, fewer=dict.fromkeys(full, 1))
    best = max(
        (t.result.min_ess / t.median for name, t in timed.items() if name in full),
        default=np.nan,
    )
    first = next(iter(full), None)
    heads = "".join(f"{'/ ' + name.split()[-1]:>10}" for name in full)
    print(
        f"  {'':<22}{'seconds':>9}{heads}{'min ESS':>9}{'ESS/s':>9}{'/ best':>8}  agreement with {first}"
    )
    for name, t in timed.items():
        ratios = "".join(f"{t.median / timed[f].median:>10.4f}" for f in full)
        agree = (
            ""
            if first is None or name == first
            else difference(t.result, timed[first].result)
        )
        speed = t.result.min_ess / t.median
        print(
            f"  {name:<22}{t.median:>9.3f}{ratios}{t.result.min_ess:>9.0f}{speed:>9.0f}{speed / best:>8.1f}  {agree}"
        )


def difference(ours: Draws, peer: Draws) -> str:
    """Monte Carlo alone leaves means some 0.03 sd and sds some 2 % apart."""
    shift = np.max(np.abs(ours.mean - peer.mean) / peer.sd)
    ratio = ours.sd / peer.sd
    return (
        f"means within {shift:.3f} sd; sd ratios {ratio.min():.3f} to {ratio.max():.3f}"
    )


def rows_do_not_matter() -> None:
    """NUTS of a Gaussian model sees the rows through their moments."""
    print(f"\nGaussian NUTS by number of rows, p = {P} (seconds)")
    print(f"  {'n':>10}{'moments':>10}{'nuts given moments':>20}")
    for n in (1_000, 10_000, 100_000, 1_000_000):
        model = pr.Model.from_arrays(*gaussian(n, P))
        start = perf_counter()
        model.design.moments  # noqa: B018  computed here and kept
        moments = perf_counter() - start
        runs = in_turn({OURS: lambda m=model: pr.fit(m, "nuts", seed=1)}, 3)[OURS]
        print(f"  {n:>10,}{moments:>10.4f}{runs.median:>20.3f}")


def of_gaussian() -> None:
    X, y = gaussian(100_000, P)
    print(
        f"\nGaussian, n = {len(X):,}, p = {P}; ours with flat priors, Bambi with its default (wide) ones"
    )
    half = {"aux": {"sigma": pr.priors.HalfCauchy(2.5)}}
    own: dict[str, Way] = {
        "conjugate": partial(ours, method="conjugate"),
        "quadrature, HalfCauchy": partial(ours, method="quadrature", **half),
        "nuts, HalfCauchy": partial(ours, method="nuts", **half),
    }
    warm(X, y, own, peers("gaussian"))
    rows_do_not_matter()


def of_classes(
    likelihood: str, X: np.ndarray, y: np.ndarray, samplers: tuple[str, ...] = SAMPLERS
) -> None:
    print(
        f"\n{likelihood}, n = {len(X):,}, p = {X.shape[1]}, {y.max() + 1} classes; Normal(0, {SCALE}) on the slopes"
    )
    fit = partial(ours, likelihood=likelihood, prior=pr.Normal(SCALE))
    own: dict[str, Way] = {
        "nuts": partial(fit, method="nuts"),
        "importance": partial(fit, method="importance"),
    }
    warm(X, y, own, peers(likelihood, SCALE, samplers))


def grouped(n: int, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """One column and the number of the group; a binary response."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal(n)
    g = rng.integers(0, groups, n)
    eta = 0.5 * x - 0.3 + 0.8 * rng.standard_normal(groups)[g]
    return np.column_stack([x, g]), (rng.random(n) < expit(eta)).astype(int)


def groups_by_nuts(X: np.ndarray, y: np.ndarray) -> Draws:
    table = {"x": X[:, 0], "g": X[:, 1].astype(int).astype(str), "y": y}
    prior = {
        "x": pr.Normal(SCALE),
        "(1 | g)": pr.Covariance(pr.priors.HalfNormal(SCALE)),
    }
    model = pr.Model.from_formula(
        "y ~ x + (1 | g)", table, likelihood="bernoulli", prior=prior
    )
    posterior = pr.fit(model, "nuts", seed=1).tree["posterior"]
    names = ("x", "sd(Intercept | g)")
    return Draws(np.stack([posterior[name].values for name in names], 2))


def groups_by_bambi(X: np.ndarray, y: np.ndarray, sampler: str) -> Draws:
    import bambi as bmb
    import pandas as pd

    table = pd.DataFrame({"x": X[:, 0], "g": X[:, 1].astype(int).astype(str), "y": y})
    sd = bmb.Prior("HalfNormal", sigma=SCALE)
    priors = {
        "x": bmb.Prior("Normal", mu=0, sigma=SCALE),
        "1|g": bmb.Prior("Normal", mu=0, sigma=sd),
    }
    model = bmb.Model("y ~ x + (1|g)", table, family="bernoulli", priors=priors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = model.fit(
            draws=1000, tune=1000, chains=4, cores=os.cpu_count(), random_seed=1, progressbar=False, inference_method=sampler,
        )["posterior"]  # fmt: skip
    return Draws(np.stack([posterior[name].values for name in ("x", "1|g_sigma")], 2))


def of_groups() -> None:
    X, y = grouped(10_000, 100)
    print(f"\nLogistic with 100 groups, n = {len(X):,}: the slope and the sd of groups")
    others: dict[str, Way] = {}
    if installed("bambi") and "--alone" not in sys.argv:
        others = {f"Bambi, {s}": partial(groups_by_bambi, sampler=s) for s in SAMPLERS}
    warm(X, y, {"nuts": groups_by_nuts}, others)


CASES: dict[str, Callable[[], None]] = {
    "groups": of_groups,
    "gaussian": of_gaussian,
    "logistic": lambda: of_classes("bernoulli", *bernoulli(10_000, P)),
    "softmax": lambda: of_classes(
        "categorical", *categorical(10_000, P), samplers=("nutpie",)
    ),
    "large": lambda: of_classes(
        "bernoulli", *bernoulli(100_000, 2 * P), samplers=("nutpie",)
    ),
}


def main() -> None:
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(
        f"Posteriors, 4 chains of 1000 draws. {machine('pymc', 'pytensor', 'nutpie', 'bambi', 'numba')}"
    )
    asked = [a for a in sys.argv[1:] if not a.startswith("-")]
    for name in asked or CASES:
        CASES[name]()


if __name__ == "__main__":
    main()
