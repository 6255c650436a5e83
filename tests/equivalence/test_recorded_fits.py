"""Compare some 430 small fits with their numbers in `data/recorded_fits.json`.

`python -m tests.equivalence.test_recorded_fits [TEXT]` fits all cases again, or those with this text in their names, and
writes the file. An earlier version of this package computed the numbers: the tests find changes, but do not show that the
numbers are right.
"""

import contextlib
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg import priors
from probreg.data.formula import layout
from probreg.priors import Reference

FILE = Path(__file__).parent / "data" / "recorded_fits.json"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning"),
]

# ---- rows ------------------------------------------------------------------------------


@cache
def rows(n: int = 80, seed: int = 11) -> pd.DataFrame:
    """Predictors, factors, weights and a response for every likelihood."""
    rng = np.random.default_rng(seed)
    index = np.arange(n)
    x, z = rng.uniform(-2.0, 2.0, n), rng.normal(size=n)
    g, h = index % 10, index // 2 % 4
    slopes = rng.normal(size=(10, 2)) * [0.7, 0.4]
    eta = (
        0.4 + 0.6 * x - 0.3 * z + slopes[g, 0] + slopes[g, 1] * x + 0.5 * np.sin(2 * x)
    )
    eta += np.array([0.0, 0.6, -0.5, 0.2])[h]
    probability = 1.0 / (1.0 + np.exp(-eta))
    mean = np.exp(0.5 * eta + 0.5)
    shares = np.stack([np.ones(n), np.exp(eta), np.exp(0.3 - 0.5 * eta)], axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(5, p) for p in shares])
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "u": rng.normal(size=n),
            "v": 0.8 * x + 0.6 * rng.normal(size=n),
            "f": np.array(list("abc"))[rng.integers(0, 3, n)],
            "g": np.array([f"g{k}" for k in g]),
            "h": np.array([f"h{k}" for k in h]),
            "site": np.array([f"s{k}" for k in g // 2]),
            "freq": rng.integers(1, 4, n),
            "prec": rng.uniform(0.5, 2.0, n),
            "off": 0.3 * rng.normal(size=n),
            "y": eta + 0.7 * rng.normal(size=n),
            "t": eta + 0.6 * rng.standard_t(4, size=n),
            "b": (rng.random(n) < probability).astype(int),
            "hits": rng.binomial(6, probability),
            "six": np.full(n, 6),
            "count": rng.poisson(mean),
            "over": rng.negative_binomial(2.0, 2.0 / (2.0 + mean)),
            "c": np.array(list("klm"))[counts.argmax(axis=1)],
            "c1": counts[:, 0],
            "c2": counts[:, 1],
            "c3": counts[:, 2],
            "poor": 3 + index % 2,
            "apart": (x > 0.1).astype(int),
            "nearly": np.where(np.abs(x - 0.1) < 0.05, index % 2, x > 0.1).astype(int),
            "apart3": np.array(list("klm"))[(x > -0.5).astype(int) + (x > 0.7)],
            "twice": 2.0 * x - 1.0,
        }
    )


@cache
def wide_rows() -> pd.DataFrame:
    rng = np.random.default_rng(12)
    X = rng.normal(size=(24, 40))
    eta = X[:, :3] @ [1.0, -1.0, 0.5]
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(40)])
    return table.assign(
        y=eta + 0.5 * rng.normal(size=24),
        b=(eta + rng.logistic(size=24) > 0).astype(int),
        count=rng.poisson(np.exp(0.4 * eta)),
        c=np.array(list("klm"))[np.clip(np.round(eta) + 1, 0, 2).astype(int)],
    )


NEW = pd.DataFrame(
    {
        "x": [-1.0, 0.2, 1.5],
        "z": [0.3, -0.8, 0.0],
        "u": [0.1, 0.2, -0.5],
        "v": [-0.6, 0.1, 1.0],
        "f": ["a", "b", "c"],
        "g": ["g0", "g3", "g7"],
        "h": ["h0", "h1", "h3"],
        "site": ["s0", "s1", "s3"],
        "off": [0.0, 0.1, -0.2],
        "twice": [-3.0, -0.6, 2.0],
        "six": [6, 6, 6],
    }
)

# ---- what is recorded ------------------------------------------------------------------


def values_of(table: Any) -> list[float]:
    return [float(v) for v in np.asarray(table, float).ravel()]


def scalars(values: Any) -> dict[str, float]:
    return {str(name): float(v) for name, v in dict(values).items()}


def predictions(fit: pr.Fit, new: Any) -> dict[str, list[float]]:
    table = fit.predict(new)
    names = [name for name in table if str(name).startswith("mean")]
    return {str(name): values_of(table[name]) for name in names}


STATS = ("log_evidence", "log_likelihood_of_scales", "rank")


def summarise(fit: pr.Fit, *, new: Any = NEW, profiles: tuple[str, ...] = ()) -> dict:
    """Return the numbers of a fit by field; a result that raises is the exception's name."""
    solution = fit.solution
    record: dict[str, Any] = {
        "aux": scalars(fit.aux),
        "aux_sd": scalars(solution.aux_sd),
        "hyper": {name: list(map(float, v)) for name, v in solution.hyper.items()},
        "scales": scalars(solution.scales.values if solution.scales else {}),
        "status": solution.status.name,
        "stats": {k: float(v) for k, v in solution.stats.items() if k in STATS},
    }
    if solution.not_estimable is not None:
        record["not_estimable"] = values_of(solution.not_estimable)
    if not any(term.basis.holds_rows for term in fit.model.design.recipe.processes.values()):  # fmt: skip
        # coefficients of an exact process along small eigenvalues depend on the BLAS kernel
        record["coef"] = values_of(fit.coef)
        record["std_error"] = or_exception(lambda: values_of(fit.std_error))
    later: dict[str, Callable[[], Any]] = {
        "log_likelihood": lambda: float(fit.log_likelihood),
        "predictions": lambda: predictions(fit, new),
    }
    if "coef" in profiles:
        later["profile_coef"] = lambda: values_of(
            [fit.interval(0.9, "profile")[end] for end in ("lower", "upper")]
        )
    for name in profiles:
        if name != "coef":
            later[f"profile_{name}"] = partial(
                lambda name: list(map(float, fit.aux_interval(name, 0.9))), name
            )
    for name, compute in later.items():
        record[name] = or_exception(compute)
    return record


def or_exception(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except (pr.ProbregError, np.linalg.LinAlgError) as error:
        return type(error).__name__


Case = Callable[[], Any]
CASES: dict[str, Case] = {}


def add(
    name: str,
    formula: str,
    method: Any = "auto",
    *,
    data: Callable[[], pd.DataFrame] = rows,
    new: Any = NEW,
    profiles: tuple[str, ...] = (),
    **settings: Any,
) -> None:
    """Add the fit of a formula."""

    def case() -> Any:
        fit = pr.fit(pr.Model.from_formula(formula, data(), **settings), method, seed=1)
        return summarise(fit, new=new, profiles=profiles)

    assert name not in CASES
    CASES[name] = case


def result(name: str) -> Callable[[Case], Case]:
    """Add the numbers that a function returns."""

    def register(case: Case) -> Case:
        assert name not in CASES
        CASES[name] = case
        return case

    return register


# ---- modes of smooth likelihoods -------------------------------------------------------

RESPONSES: dict[str, tuple[str, Any]] = {
    "gaussian": ("y", "gaussian"),
    "student": ("t", "student"),
    "student nu": ("t", pr.StudentT(nu=4.0)),
    "huber": ("t", "huber"),
    "power": ("t", pr.likelihoods.PowerNoise(p=1.5)),
    "bernoulli": ("b", "bernoulli"),
    "binomial": ("p(hits, six)", "binomial"),
    "poisson": ("count", "poisson"),
    "negative binomial": ("over", "negative_binomial"),
    "categorical": ("c", "categorical"),
    "symmetric": ("c", pr.Categorical(symmetric=True)),
    "multinomial": ("counts(c1, c2, c3)", "multinomial"),
}
MODE_PRIORS: dict[str, Any] = {
    "flat": pr.Flat(),
    "normal": pr.Normal(0.5),
    "student": priors.StudentT(0.8, nu=5.0),
    "mapping": {"x": pr.Normal(0.3, location=0.2), "z": pr.Flat()},
}
for _name, (_response, _likelihood) in RESPONSES.items():
    _noise = _name in ("gaussian", "student", "student nu", "huber", "power")
    for _prior_name, _prior in MODE_PRIORS.items():
        if _noise and _prior_name == "student":
            _prior = pr.Normal(0.6, sigma_units=True)
        if _name == "symmetric" and _prior_name in ("student", "mapping"):
            continue
        _settings = {"likelihood": _likelihood, "prior": _prior}
        add(f"{_name}, {_prior_name}", f"{_response} ~ x + z + f", **_settings)
        _weights: Any = "freq"
        if _name == "gaussian" and _prior_name != "flat":
            _weights = pr.weights.precision("prec")
        add(
            f"{_name}, {_prior_name}, weights and offset",
            f"{_response} ~ x * z",
            weights=_weights,
            offset=None if _likelihood in ("categorical", "multinomial") or _name == "symmetric" else "off",
            **_settings,
        )  # fmt: skip
add("newton, gaussian", "y ~ x + z", "newton")
add("sampling weights", "b ~ x + z", likelihood="bernoulli", weights=pr.weights.sampling("prec"))  # fmt: skip
add("weak prior", "b ~ x + f", likelihood="bernoulli", prior="weak")
add("jeffreys", "b ~ x + z", likelihood="bernoulli", prior=priors.Jeffreys())
add("g prior", "y ~ x + z", prior=priors.GPrior(20.0))
add("jeffreys, softmax", "c ~ x", likelihood="categorical", prior=priors.Jeffreys())
add("cauchy", "b ~ x + z", likelihood="bernoulli", prior=priors.Cauchy(2.5, scaled=True))  # fmt: skip
add("prior of sigma", "y ~ x", aux={"sigma": pr.HalfNormal(0.5)})
add("prior of alpha", "over ~ x", likelihood="negative_binomial", aux={"alpha": priors.Exponential(2.0)})  # fmt: skip
add("sigma held", "y ~ x", aux={"sigma": 0.8})
add("poly and bs", "y ~ poly(x, 3) + bs(z, df=5)")
add("cr", "count ~ cr(x, df=4) + scale(z)", likelihood="poisson")
add("multivariate normal", "y ~ 0 + x + z", prior=pr.Normal(precision_matrix=((2.0, 0.6), (0.6, 1.5))))  # fmt: skip

# ---- levels as codes -------------------------------------------------------------------


@contextlib.contextmanager
def factors_stay_codes() -> Iterator[None]:
    before = layout.MIN_CODED_LEVELS, layout.MIN_CODED_NUMBERS
    layout.MIN_CODED_LEVELS, layout.MIN_CODED_NUMBERS = 4, 1
    try:
        yield
    finally:
        layout.MIN_CODED_LEVELS, layout.MIN_CODED_NUMBERS = before


def codes(response: str, terms: str, likelihood: Any, prior: Any) -> Any:
    with factors_stay_codes():
        model = pr.Model.from_formula(f"{response} ~ {terms}", rows(), likelihood=likelihood, prior=prior)  # fmt: skip
    assert not isinstance(model.design.X, np.ndarray)
    return summarise(pr.fit(model))


for _name in ("gaussian", "bernoulli", "poisson", "negative binomial"):
    for _terms in ("x + C(g)", "x + C(g) + C(h)", "0 + C(g) + x:z"):
        for _prior_name in ("flat", "normal"):
            CASES[f"codes, {_name}, {_terms}, {_prior_name}"] = partial(
                codes, RESPONSES[_name][0], _terms, RESPONSES[_name][1], MODE_PRIORS[_prior_name]
            )  # fmt: skip
CASES["codes, student"] = partial(codes, "t", "x + C(g)", pr.StudentT(nu=4.0), pr.Flat())  # fmt: skip
CASES["codes, huber"] = partial(codes, "t", "x + C(g)", "huber", pr.Flat())

# ---- odd designs -----------------------------------------------------------------------

for _name, _settings in {
    "gaussian": {},
    "bernoulli": {"likelihood": "bernoulli"},
    "poisson": {"likelihood": "poisson"},
    "softmax": {"likelihood": "categorical"},
}.items():
    _response = {"gaussian": "y", "bernoulli": "b", "poisson": "count", "softmax": "c"}[_name]  # fmt: skip
    _terms = " + ".join(f"x{j}" for j in range(40))
    add(f"wide, {_name}", f"{_response} ~ {_terms}", data=wide_rows, new=wide_rows().iloc[:3], prior=pr.Normal(0.3), **_settings)  # fmt: skip
    add(f"rank deficient, {_name}", f"{_response} ~ x + twice + z", **_settings)
_wide = "y ~ " + " + ".join(f"x{j}" for j in range(40))
for _name, _settings in {
    "flat": {},
    "sigma units": {"prior": pr.Normal(0.4, sigma_units=True)},
    "one scale": {"prior": pr.Normal(Reference()), "aux": {"sigma": 0.5}},
    "lasso": {"prior": pr.Laplace(0.1), "aux": {"sigma": 0.5}},
}.items():
    add(f"wide, {_name}", _wide, data=wide_rows, new=wide_rows().iloc[:3], **_settings)
add("wide, conjugate", _wide, "conjugate", data=wide_rows, new=wide_rows().iloc[:3], prior=pr.Normal(0.4, sigma_units=True))  # fmt: skip
for _name, _response, _likelihood in (
    ("complete", "apart", "bernoulli"),
    ("quasi", "nearly", "bernoulli"),
    ("softmax", "apart3", "categorical"),
):
    add(f"separated, {_name}", f"{_response} ~ x + z", likelihood=_likelihood)
    add(f"separated, {_name}, normal", f"{_response} ~ x + z", likelihood=_likelihood, prior=pr.Normal(2.0))  # fmt: skip
add("separated by a level", "b ~ x + f", data=lambda: rows().assign(b=np.where(rows()["f"] == "a", 1, rows()["b"])), likelihood="bernoulli")  # fmt: skip
add("separated, firth", "apart ~ x + z", likelihood="bernoulli", prior=priors.Jeffreys())  # fmt: skip
add("no counts in a level", "count ~ x + f", data=lambda: rows().assign(count=np.where(rows()["f"] == "a", 0, rows()["count"])), likelihood="poisson")  # fmt: skip
add("alpha at zero", "poor ~ x", likelihood="negative_binomial")
add("alpha at zero, groups", "poor ~ x + (1 | g)", likelihood="negative_binomial")
add("nu at infinity", "y ~ x + z", likelihood="student")
add("no noise", "y ~ x", data=lambda: pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 3.0, 5.0, 7.0]}))  # fmt: skip
add("response far from zero", "y ~ x + z", data=lambda: rows().assign(y=rows()["y"] + 1e8))  # fmt: skip
add("column far from zero", "y ~ x + I(x**2)", data=lambda: rows().assign(x=rows()["x"] + 1e4), new=NEW.assign(x=NEW["x"] + 1e4))  # fmt: skip
add("column far from zero, poisson", "count ~ x", data=lambda: rows().assign(x=rows()["x"] + 1e4), new=NEW.assign(x=NEW["x"] + 1e4), likelihood="poisson")  # fmt: skip
add("Wampler 5", "y ~ x + I(x**2) + I(x**3) + I(x**4) + I(x**5)", data=lambda: pd.DataFrame({"x": np.arange(21.0), "y": sum(np.arange(21.0) ** k for k in range(6)) + 1e3 * np.cos(7.0 * np.arange(21.0))}))  # fmt: skip
add("no intercept, one column", "y ~ 0 + x", data=lambda: pd.DataFrame({"x": 60.0 + np.arange(11.0), "y": 130.0 + np.arange(11.0)}))  # fmt: skip
add("collinear to 1e-6", "y ~ x + w", data=lambda: rows().assign(w=rows()["x"] + 1e-6 * rows()["u"]), new=NEW.assign(w=NEW["x"] + 1e-6 * NEW["u"]))  # fmt: skip


def from_moments(formula: str, method: Any = "auto", **settings: Any) -> Any:
    model = pr.Model.from_formula(formula, rows(), weights="freq")
    return summarise(pr.fit(pr.Model.from_moments(model.moments, **settings), method, seed=1))  # fmt: skip


def from_files(formula: str, **settings: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        for k in range(2):
            rows().iloc[40 * k : 40 * k + 40].to_parquet(f"{folder}/part{k}.parquet")
        model = pr.Model.from_parquet(formula, folder, **settings)
        return summarise(pr.fit(model, seed=1))


def from_dask(formula: str, **settings: Any) -> Any:
    dd = pytest.importorskip("dask.dataframe")
    import dask

    with dask.config.set(scheduler="synchronous"):
        table = dd.from_pandas(rows(), npartitions=2)
        return summarise(pr.fit(pr.Model.from_dask(formula, table, **settings), seed=1))


for _name, _method, _settings in (
    ("flat", "auto", {}),
    ("normal", "auto", {"prior": pr.Normal(0.5)}),
    ("lasso", "auto", {"prior": pr.Laplace(0.1), "aux": {"sigma": 0.8}}),
    ("conjugate", "conjugate", {"prior": pr.Normal(0.5, sigma_units=True)}),
    ("one scale", "auto", {"prior": pr.Normal(Reference())}),
    ("newton", "newton", {}),
):
    CASES[f"moments, {_name}"] = partial(from_moments, "y ~ x * f + z", _method, **_settings)  # fmt: skip
for _name, _formula, _settings in (
    ("gaussian", "y ~ x * f + z", {}),
    ("bernoulli", "b ~ x + f", {"likelihood": "bernoulli"}),
    ("negative binomial", "over ~ x + C(h)", {"likelihood": "negative_binomial", "weights": "freq"}),
    ("softmax", "c ~ x + center(z)", {"likelihood": "categorical", "prior": pr.Normal(1.0)}),
    ("groups", "y ~ x + (x | g)", {}),
    ("smooth", "count ~ s(x)", {"likelihood": "poisson"}),
):  # fmt: skip
    CASES[f"files, {_name}"] = partial(from_files, _formula, **_settings)
    if _name in ("gaussian", "groups"):
        CASES[f"dask, {_name}"] = partial(from_dask, _formula, **_settings)

# ---- the Gaussian evidence -------------------------------------------------------------

TERMS = {
    "(1|g)": ("x + z + (1 | g)", {}),
    "(x|g)": ("x + z + (x | g)", {}),
    "(x||g)": ("x + (x || g)", {}),
    "crossed": ("x + (1 | g) + (1 | h)", {}),
    "nested": ("x + (1 | site / g)", {}),
    "slopes, crossed": ("z + (x | g) + (1 | h)", {}),
    "s": ("z + s(x)", {}),
    "two s": ("s(x) + s(z, k=6)", {}),
    "s by f": ("f + s(x, by=f, k=5)", {}),
    "t2": ("t2(x, z, k=4)", {}),
    "gp hsgp": ("z + gp(x, basis='hsgp', length=0.8)", {}),
    "gp cholesky": ("z + gp(x, basis='cholesky', length=0.8)", {}),
    "ridge": ("x + z + u + v", {"prior": pr.Normal(Reference())}),
    "sigma units": ("x + z + u + v", {"prior": pr.Normal(Reference(), sigma_units=True)}),
    "s and groups": ("s(x) + (1 | g)", {}),
    "prior of sd": ("x + (1 | g)", {"prior": {"1 | g": pr.Covariance(sd=pr.HalfNormal(0.5))}}),
    "LKJ": ("x + (x | g)", {"prior": {"x | g": pr.Covariance(sd=pr.HalfNormal(1.0), cor=pr.LKJ(2.0))}}),
}  # fmt: skip
for _name, (_terms, _settings) in TERMS.items():
    for _criterion in ("REML", "ML"):
        _method = pr.Evidence(criterion=_criterion)
        add(f"{_name}, {_criterion}", f"y ~ {_terms}", _method, weights="freq", **_settings)  # fmt: skip
        if _name != "gp cholesky":
            CASES[f"{_name}, {_criterion}, moments"] = partial(from_moments, f"y ~ {_terms}", _method, **_settings)  # fmt: skip
for _criterion in ("REML", "ML"):
    _method = pr.Evidence(criterion=_criterion)
    add(f"gp exact, {_criterion}", "y ~ z + gp(x)", _method)
    add(f"gp exact, stated length, {_criterion}", "y ~ z + gp(x, length=0.7, kernel='matern52')", _method)  # fmt: skip
    add(f"gp hsgp, unknown length, {_criterion}", "y ~ z + gp(x, basis='hsgp', length=0.8)", _method, prior={"gp(x)": priors.GaussianProcess(length=priors.LogNormal(0.5))})  # fmt: skip
    add(f"gp cholesky, unknown length, {_criterion}", "y ~ gp(x, basis='cholesky')", _method)  # fmt: skip
    add(f"vanished scale, {_criterion}", "u ~ x + (1 | g)", _method)
    add(f"correlation at one, {_criterion}", "y ~ x + (x | g)", _method, data=partial(rows, 30, 3))  # fmt: skip
    add(f"precisions, {_criterion}", "y ~ x + (1 | g)", _method, weights=pr.weights.precision("prec"), offset="off")  # fmt: skip
    add(f"sigma held, {_criterion}", "y ~ x + (1 | g)", _method, aux={"sigma": 0.7})
    add(f"ard, {_criterion}", "y ~ x + z + u + v", pr.Evidence(criterion=_criterion, per_column=True), prior=pr.Normal(Reference()))  # fmt: skip
add("g prior of unknown g", "y ~ x + z + u", "evidence", prior=priors.GPrior(pr.priors.HalfCauchy(10.0)))  # fmt: skip
add("R2", "y ~ x + z + u", "evidence", prior=priors.R2(1.0, 1.0))
add("gp of two inputs", "y ~ gp(x, z, length=[0.9, 1.2])")
add("gp periodic", "y ~ gp(x, kernel='periodic', period=3.1, length=1.0)")
add("gp rational quadratic", "y ~ gp(x, kernel='rational_quadratic', length=1.0)")

# ---- the Laplace evidence --------------------------------------------------------------

for _name in ("bernoulli", "binomial", "poisson", "negative binomial", "student nu"):
    for _terms, _criterion in (
        ("x + (1 | g)", "REML"),
        ("z + (x | g)", "ML"),
        ("z + s(x, k=7)", "REML"),
        ("gp(x, basis='hsgp', length=0.8)", "ML"),
    ):
        _response, _likelihood = RESPONSES[_name]
        add(f"{_name}, {_terms}, {_criterion}", f"{_response} ~ {_terms}", pr.Evidence(criterion=_criterion), likelihood=_likelihood)  # fmt: skip
for _criterion in ("REML", "ML"):
    _method = pr.Evidence(criterion=_criterion)
    add(f"softmax groups, {_criterion}", "c ~ x + (1 | h)", _method, likelihood="categorical")  # fmt: skip
    add(f"bernoulli, crossed, {_criterion}", "b ~ x + (1 | g) + (1 | h)", _method, likelihood="bernoulli", weights="freq", offset="off")  # fmt: skip
    add(f"poisson, s and groups, {_criterion}", "count ~ s(x, k=6) + (1 | g)", _method, likelihood="poisson")  # fmt: skip
    add(f"bernoulli, ridge, {_criterion}", "b ~ x + z + u + v", _method, likelihood="bernoulli", prior=pr.Normal(Reference()))  # fmt: skip
    add(f"poisson, exact gp, {_criterion}", "count ~ gp(x)", _method, likelihood="poisson")  # fmt: skip
    add(f"vanished scale, poisson, {_criterion}", "poor ~ x + (1 | g)", _method, likelihood="poisson")  # fmt: skip
add("student groups, unknown nu", "t ~ x + (1 | g)", likelihood="student")
add("huber groups", "t ~ x + (1 | g)", likelihood="huber")
for _name in ("bernoulli", "poisson"):
    for _points in (5, 15):
        add(f"{_name}, {_points} points", f"{RESPONSES[_name][0]} ~ x + (1 | g)", pr.Evidence(criterion="ML", points=_points), likelihood=RESPONSES[_name][1])  # fmt: skip

# ---- posteriors without chains ---------------------------------------------------------


def posterior(formula: str, method: Any, **settings: Any) -> Any:
    """Record means and standard deviations; fewer draws than the default leave them exact for a Gaussian model."""
    fit = pr.fit(pr.Model.from_formula(formula, rows(), **settings), method, seed=1)
    draws = fit.solution.posterior
    return {
        "posterior_mean": values_of(fit.coef),
        "posterior_sd": values_of(fit.std_error),
        "scalars": {name: values_of(v) for name, v in fit.solution.scalars.items() if name not in draws.hyper},
        "status": fit.solution.status.name,
        "stats": {k: float(v) for k, v in fit.solution.stats.items() if k in STATS},
    }  # fmt: skip


_HALF, _SD = pr.HalfNormal(1.0), {"1 | g": pr.Covariance(sd=pr.HalfNormal(1.0))}
for _name, _formula, _method, _settings in (
    ("conjugate", "y ~ x + z", "conjugate", {"prior": pr.Normal(1.0, sigma_units=True)}),
    ("conjugate, flat", "y ~ x * f", "conjugate", {"weights": "freq"}),
    ("conjugate, sigma", "y ~ x", "conjugate", {"aux": {"sigma": 0.8}, "prior": pr.Normal(1.0)}),
    ("conjugate, g prior", "y ~ x + z", "conjugate", {"prior": priors.GPrior(30.0)}),
    ("quadrature", "y ~ x + z", "quadrature", {"prior": pr.Normal(0.5)}),
    ("quadrature, half normal", "y ~ x + z", "quadrature", {"prior": pr.Normal(0.5), "aux": {"sigma": _HALF}}),
    ("integrate, one scale", "y ~ x + z + u", "integrate", {"prior": pr.Normal(_HALF)}),
    ("integrate, s", "y ~ s(x, k=6)", "integrate", {"prior": {"s(x, k=6)": pr.Normal(_HALF)}}),
    ("integrate, groups", "y ~ x + (1 | g)", "integrate", {"prior": _SD}),
    ("integrate, slopes", "y ~ x + (x | g)", "integrate", {"prior": {"x | g": pr.Covariance(sd=_HALF, cor=pr.LKJ(2.0))}}),
    ("integrate, gp", "y ~ gp(x, basis='hsgp', length=0.8)", "integrate", {"prior": {"gp(x)": priors.GaussianProcess(amplitude=_HALF, length=priors.LogNormal(0.5))}}),
    ("integrate, poisson groups", "count ~ x + (1 | g)", "integrate", {"prior": _SD, "likelihood": "poisson"}),
    ("integrate, bernoulli ridge", "b ~ x + z", "integrate", {"prior": pr.Normal(_HALF), "likelihood": "bernoulli"}),
    ("integrate, student", "t ~ x + (1 | g)", "integrate", {"prior": _SD, "likelihood": pr.StudentT(nu=4.0)}),
):  # fmt: skip
    CASES[f"posterior, {_name}"] = partial(posterior, _formula, _method, **_settings)

# ---- penalised modes -------------------------------------------------------------------

_groups = priors.GroupLaplace(0.15, groups=(("x", "v"), ("z", "u")))
for _name, _settings in {
    "lasso": {"prior": pr.Laplace(0.1)},
    "elastic net": {"prior": priors.ElasticNet(0.1, ratio=0.6)},
    "group lasso": {"prior": _groups},
    "L0.5": {"prior": priors.ExponentialPower(0.3, q=0.5)},
    "L1.5": {"prior": priors.ExponentialPower(0.3, q=1.5)},
}.items():
    _terms = "x + z + u + v"
    add(f"{_name}, gaussian", f"y ~ {_terms}", aux={"sigma": 0.8}, **_settings)
    add(f"{_name}, unknown sigma", f"y ~ {_terms}", **_settings)
    add(f"{_name}, scaled", f"y ~ {_terms}", aux={"sigma": 0.8}, prior=type(_settings["prior"])(**({"q": 1.5} if "1.5" in _name else {"groups": _groups.groups} if "group" in _name else {}), scale=0.2, scaled=True))  # fmt: skip
    for _likelihood in ("bernoulli", "poisson", "categorical", "negative binomial"):
        add(f"{_name}, {_likelihood}", f"{RESPONSES[_likelihood][0]} ~ {_terms}", likelihood=RESPONSES[_likelihood][1], **_settings)  # fmt: skip
add("lasso, symmetric softmax", "c ~ x + z + u", likelihood=pr.Categorical(symmetric=True), prior=pr.Laplace(0.1))  # fmt: skip
add("lasso, proximal newton", "y ~ x + z + u", "proximal_newton", prior=pr.Laplace(0.1), aux={"sigma": 0.8})  # fmt: skip
add("lasso, weights", "y ~ x + z + u", prior=pr.Laplace(0.1, location=0.2), aux={"sigma": 0.8}, weights="freq", offset="off")  # fmt: skip
for _name, _likelihood in {
    "quantile 0.5": pr.likelihoods.Quantile(tau=0.5),
    "quantile 0.9": pr.likelihoods.Quantile(tau=0.9),
    "absolute": "absolute",
    "epsilon": pr.likelihoods.EpsilonInsensitive(epsilon=0.3),
}.items():
    add(f"{_name}, flat", "t ~ x + z", likelihood=_likelihood)
    add(f"{_name}, normal", "t ~ x + z", likelihood=_likelihood, prior=pr.Normal(0.5))


@result("svr of a kernel")
def _() -> Any:
    data = rows()
    fit = pr.svr(data[["x"]].to_numpy(), data["t"].to_numpy(), C=1.0, epsilon=0.2, kernel="rbf")  # fmt: skip
    return {"values": values_of(fit.predict(NEW[["x"]].to_numpy())["mean"])}


@result("kernel ridge")
def _() -> Any:
    data = rows()
    fit = pr.kernel_ridge(data[["x", "z"]].to_numpy(), data["y"].to_numpy(), kernel="rbf", lam=0.4)  # fmt: skip
    return summarise(fit, new=NEW[["x", "z"]].to_numpy())


for _name, _settings in {
    "from ridge, sklearn": {"prior": pr.Normal.from_ridge(alpha=4.0, of="sklearn")},
    "from ridge, logistic": {"prior": pr.Normal.from_ridge(C=0.25, of="sklearn", likelihood="bernoulli"), "likelihood": "bernoulli"},
}.items():  # fmt: skip
    add(_name, f"{'b' if 'likelihood' in _settings else 'y'} ~ x + z", **_settings)


@result("from lasso, glmnet")
def _() -> Any:
    model = pr.Model.from_formula("y ~ x + z + u + v", rows(), aux={"sigma": 0.8})
    prior = pr.Laplace.from_lasso(lam=0.1, of="glmnet", model=model, standardize=True)
    return summarise(pr.fit(model.with_prior(prior)))


@result("from elastic net, glmnet softmax")
def _() -> Any:
    model = pr.Model.from_formula("c ~ x + z + u", rows(), likelihood=pr.Categorical(symmetric=True))  # fmt: skip
    prior = priors.ElasticNet.from_elastic_net(lam=0.05, alpha=0.5, of="glmnet", model=model, standardize=True)  # fmt: skip
    return summarise(pr.fit(model.with_prior(prior)))


# ---- profiles, tests, leave-one-out, paths ---------------------------------------------

add("profile, gaussian", "y ~ x + z", profiles=("coef", "sigma"))
add("profile, poisson", "count ~ x + z", likelihood="poisson", profiles=("coef",))
add("profile, bernoulli", "b ~ x + z", likelihood="bernoulli", prior=pr.Normal(2.0), profiles=("coef",))  # fmt: skip
add("profile, negative binomial", "over ~ x", likelihood="negative_binomial", profiles=("coef", "alpha"))  # fmt: skip
add("profile, student", "t ~ x", likelihood="student", profiles=("coef", "sigma"))
add("profile, softmax", "c ~ x", likelihood="categorical", profiles=("coef",))
add("profile, firth", "apart ~ x", likelihood="bernoulli", prior=priors.Jeffreys(), profiles=("coef",))  # fmt: skip
add("profile, (x | g)", "y ~ x + (x | g)", profiles=("sd(Intercept | g)", "sd(x | g)", "cor(Intercept, x | g)", "sigma"))  # fmt: skip
add("profile, (x | g), ML", "y ~ x + (x | g)", pr.Evidence(criterion="ML"), profiles=("coef", "sd(x | g)", "sigma"))  # fmt: skip
add("profile, poisson groups", "count ~ x + (1 | g)", pr.Evidence(criterion="ML"), likelihood="poisson", profiles=("sd(Intercept | g)",))  # fmt: skip


def hypothesis(null: str, formula: str, method: Any = "auto", **settings: Any) -> Any:
    fit = pr.fit(pr.Model.from_formula(formula, rows(), **settings), method, seed=1)
    tests = pr.hypothesis(fit, null).tests
    return {name: [t.statistic, t.p, *t.df] for name, t in tests.items()}


for _name, _null, _formula, _settings in (
    ("gaussian", "x = 0", "y ~ x + z", {}),
    ("gaussian, two", "x = z, u = 0", "y ~ x + z + u", {}),
    ("poisson", "x = 0.3", "count ~ x + z", {"likelihood": "poisson"}),
    ("bernoulli, normal", "x = 0, z = 0", "b ~ x + z", {"likelihood": "bernoulli", "prior": pr.Normal(1.0)}),
    ("negative binomial", "x = 0", "over ~ x", {"likelihood": "negative_binomial"}),
    ("student", "x = 0", "t ~ x + z", {"likelihood": pr.StudentT(nu=4.0)}),
    ("groups", "x = 0", "y ~ x + (1 | g)", {}),
    ("slopes", "z = 0", "y ~ x + z + (x | g)", {}),
    ("groups, ML", "x = 0", "y ~ x + (1 | g)", {"method": pr.Evidence(criterion="ML")}),
    ("poisson groups", "x = 0", "count ~ x + (1 | g)", {"likelihood": "poisson", "method": pr.Evidence(criterion="ML")}),
    ("scale", "sd(Intercept | g) = 0", "y ~ x + (1 | g)", {}),
):  # fmt: skip
    CASES[f"hypothesis, {_name}"] = partial(hypothesis, _null, _formula, **_settings)


def leave_one_out(formula: str, method: Any = "auto", leave_out: str | None = None, **settings: Any) -> Any:  # fmt: skip
    fit = pr.fit(pr.Model.from_formula(formula, rows(40), **settings), method, seed=1)
    table = pr.compare_models({"fit": fit}, leave_out=leave_out).table
    return {name: float(table[name].iloc[0]) for name in ("elpd_loo", "se_loo")}


for _name, _formula, _settings in (
    ("gaussian", "y ~ x + z", {}),
    ("ridge", "y ~ x + z", {"prior": pr.Normal(0.5)}),
    ("conjugate", "y ~ x + z", {"method": "conjugate"}),
    ("poisson", "count ~ x + z", {"likelihood": "poisson"}),
    ("negative binomial", "over ~ x", {"likelihood": "negative_binomial"}),
    ("softmax", "c ~ x", {"likelihood": "categorical"}),
    ("lasso", "y ~ x + z + u", {"prior": pr.Laplace(0.1), "aux": {"sigma": 0.8}}),
    ("quantile", "t ~ x", {"likelihood": "quantile"}),
    ("groups", "y ~ x + (1 | g)", {}),
    ("left-out groups", "y ~ x + (1 | g)", {"leave_out": "g"}),
    ("poisson groups", "count ~ x + (1 | g)", {"likelihood": "poisson"}),
    ("s", "y ~ s(x, k=6)", {}),
):  # fmt: skip
    CASES[f"leave-one-out, {_name}"] = partial(leave_one_out, _formula, **_settings)


def explained(formula: str, one: Any, two: Any, **settings: Any) -> Any:
    """Record the shares of the difference between two priors or methods."""
    fits = []
    for choice in (one, two):
        model = pr.Model.from_formula(formula, rows(), **settings)
        if isinstance(choice, priors.Prior | dict):
            fits.append(pr.fit(model.with_prior(choice), seed=1))
        else:
            fits.append(pr.fit(model, choice, seed=1))
    shares = pr.explain(*fits).shares
    return {"shares": values_of(shares["shift"]), "log_se": values_of(shares["log_se"])}


_two = {"x": pr.Normal(0.2), "z": pr.Normal(0.4)}
for _name, _formula, _one, _two_fits, _settings in (
    ("gaussian", "y ~ x + z", pr.Flat(), _two, {}),
    ("bernoulli", "b ~ x + z", pr.Flat(), _two, {"likelihood": "bernoulli"}),
    ("poisson", "count ~ x + z", pr.Normal(1.0), _two, {"likelihood": "poisson"}),
    ("student prior", "b ~ x + z", pr.Flat(), priors.StudentT(0.3, nu=4.0), {"likelihood": "bernoulli"}),
    ("sigma units", "y ~ x + z", pr.Flat(), pr.Normal(0.2, sigma_units=True), {}),
    ("REML and ML", "y ~ x + (1 | g)", pr.Evidence(), pr.Evidence(criterion="ML"), {}),
    ("closed form and conjugate", "y ~ x + z", "closed_form", "conjugate", {}),
):  # fmt: skip
    CASES[f"explain, {_name}"] = partial(explained, _formula, _one, _two_fits, **_settings)  # fmt: skip


def scale_path(formula: str, prior: Any, **settings: Any) -> Any:
    model = pr.Model.from_formula(formula, rows(), prior=prior, **settings)
    found = pr.path(model, [0.1, 0.5, 1.0, 4.0])
    return {"coef": values_of(found.coef), "df": values_of(found.data["df"])}


for _name, _formula, _prior, _settings in (
    ("ridge", "y ~ x + z + u", pr.Normal(0.5), {}),
    ("lasso", "y ~ x + z + u", pr.Laplace(0.1), {"aux": {"sigma": 0.8}}),
    ("logistic ridge", "b ~ x + z", pr.Normal(0.5), {"likelihood": "bernoulli"}),
    ("logistic lasso", "b ~ x + z + u", pr.Laplace(0.1), {"likelihood": "bernoulli"}),
    ("softmax", "c ~ x + z", pr.Normal(0.5), {"likelihood": "categorical"}),
):
    CASES[f"path, {_name}"] = partial(scale_path, _formula, _prior, **_settings)


def tuned(by: str, formula: str, prior: Any, **settings: Any) -> Any:
    model = pr.Model.from_formula(formula, rows(), prior=prior, **settings)
    found = pr.tune(model, by, scales=[0.1, 0.3, 1.0, 3.0])
    return {"table": values_of(found.table.select_dtypes("number"))}


for _name, _by, _formula, _prior, _settings in (
    ("cv, ridge", "cv", "y ~ x + z + u", pr.Normal(0.5), {}),
    ("loo, ridge", "loo", "y ~ x + z + u", pr.Normal(0.5), {}),
    ("cv, logistic", "cv", "b ~ x + z", pr.Normal(0.5), {"likelihood": "bernoulli"}),
    ("evidence", "evidence", "y ~ x + z + u", pr.Normal(0.5), {}),
    ("aic, lasso", "aic", "y ~ x + z + u", pr.Laplace(0.1), {"aux": {"sigma": 0.8}}),
):
    CASES[f"tune, {_name}"] = partial(tuned, _by, _formula, _prior, **_settings)


@result("covariances")
def _() -> Any:
    fit = pr.fit(pr.Model.from_formula("count ~ x + z", rows(), likelihood="poisson"))
    kinds = {
        k: fit.covariance(k) for k in ("observed", "expected", "HC0", "HC1", "HC3")
    }
    kinds["cluster"] = fit.covariance("cluster", groups="g", data=rows())
    kinds["HAC"] = fit.covariance("HAC", lags=3)
    return {k: values_of(np.sqrt(np.diag(V))) for k, V in kinds.items()}


@result("covariances of groups")
def _() -> Any:
    fit = pr.fit(pr.Model.from_formula("count ~ x + (1 | g)", rows(), likelihood="poisson"))  # fmt: skip
    kinds = {k: fit.covariance(k) for k in ("joint", "conditional")}
    return {k: values_of(np.sqrt(np.diag(V))) for k, V in kinds.items()}


@result("effects of groups")
def _() -> Any:
    fit = pr.fit(pr.Model.from_formula("y ~ x + (x | g)", rows()))
    table = fit.effects("g")
    return {k: values_of(table[k]) for k in ("estimate", "pooling") if k in table}


@result("slopes")
def _() -> Any:
    fit = pr.fit(pr.Model.from_formula("b ~ x * f", rows(), likelihood="bernoulli"))
    table = pr.slopes(fit).table
    columns = ("estimate", "std_error", "lower", "upper")  # p-values were added later
    return {k: values_of(table[k]) for k in columns}


@result("bands of smooths")
def _() -> Any:
    fit = pr.fit(pr.Model.from_formula("y ~ z + s(x)", rows()))
    table = fit.smooth("s(x)", at=[-1.0, 0.0, 1.0])
    return {k: values_of(table[k]) for k in ("estimate", "sd", "lower")}


@result("new groups")
def _() -> Any:
    fit = pr.fit(pr.Model.from_formula("y ~ x + (x | g)", rows()))
    table = fit.predict(NEW.assign(g="other"), groups="new")
    return {k: values_of(table[k]) for k in table if str(k).startswith("mean")}


# ---- compare ---------------------------------------------------------------------------

# in standard errors, between kernels of BLAS: without and with a search over scales
COEF, SEARCHED = 1e-7, 1e-6
RELATIVE = 1e-6  # of the largest number in a list, for all else; measured: 4e-7


def differences(found: Any, recorded: Any, tolerance: Any = 0.0, at: str = "") -> list[str]:  # fmt: skip
    """Return where two records differ; `tolerance` is absolute, one number or one for each value of a list."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        if found.keys() != recorded.keys():
            return [f"{at}: names {sorted(found)}, recorded {sorted(recorded)}"]
        return [
            line
            for name in found
            for line in differences(found[name], recorded[name], tolerance_of(name, recorded), f"{at} {name}")
        ]  # fmt: skip
    if isinstance(found, list) and isinstance(recorded, list) and len(found) == len(recorded):  # fmt: skip
        allowed = np.broadcast_to(tolerance, len(found))
        pairs = enumerate(zip(found, recorded, allowed))
        return [line for k, (a, b, t) in pairs for line in differences(a, b, t, f"{at}[{k}]")]  # fmt: skip
    if isinstance(found, float | int) and isinstance(recorded, float | int):
        if abs(found - recorded) <= tolerance + 2e-12 * abs(recorded):
            return []
        return [f"{at}: {found!r}, recorded {recorded!r}, allowed {tolerance:.1e}"]
    return [] if found == recorded else [f"{at}: {found!r}, recorded {recorded!r}"]


def numbers(values: Any) -> np.ndarray:
    values = values if isinstance(values, list) else [values]
    return np.array([v if isinstance(v, float | int) else 0.0 for v in values])


def tolerance_of(name: str, record: dict[str, Any]) -> Any:
    """Return the absolute tolerance of a field, or one for each of its values."""
    size = np.abs(numbers(record[name])).max(initial=0.0)
    unit = unit_of_coefficients(record)
    if name in COEFFICIENTS and unit is not None:
        direct = name == "coef" and not record["scales"]
        return unit * (COEF if direct else SEARCHED)
    return RELATIVE * size


COEFFICIENTS = {"coef": "std_error", "posterior_mean": "posterior_sd"}


def unit_of_coefficients(record: dict[str, Any]) -> np.ndarray | None:
    """Return the standard error of each coefficient, the largest for one with hardly any; None if they are not recorded."""
    for name, spread in COEFFICIENTS.items():
        errors = numbers(record.get(spread))
        if errors.any() and len(errors) == len(record.get(name, ())):
            return np.where(errors > 1e-6 * errors.max(), errors, errors.max())
    return None


@cache
def recorded_fits() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def test_every_case_is_recorded() -> None:
    assert sorted(recorded_fits()) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_fit_gives_the_recorded_numbers(name: str) -> None:
    found = differences(rounded(record_case(name)), recorded_fits()[name])
    assert not found, "\n".join(found)


def test_a_move_of_1e_5_standard_errors_is_a_difference() -> None:
    n_moved = 0
    for name, record in recorded_fits().items():
        unit = unit_of_coefficients(record) if isinstance(record, dict) else None
        if unit is None:
            continue
        (field,) = COEFFICIENTS.keys() & record.keys()
        values = record[field]
        for j, value in enumerate(values):
            if isinstance(value, str) or 1e-5 * unit[j] < 1e-11 * abs(value):
                continue  # not estimable, or beyond the digits of the file
            moved = [*values[:j], value + 1e-5 * unit[j], *values[j + 1 :]]
            assert differences({**record, field: moved}, record), (name, j)
            n_moved += 1
    assert n_moved > 2000


def record_case(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return or_exception(CASES[name])


def rounded(value: Any) -> Any:
    """The value with 12 significant digits; what is not finite as text."""
    if isinstance(value, dict):
        return {name: rounded(v) for name, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    return value


def record(part: str = "") -> None:
    """Fit the cases with this text in their names, and write the file with them."""
    found = recorded_fits() if part else {}
    found |= {name: rounded(record_case(name)) for name in CASES if part in name}
    lines = [f"{json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in sorted(CASES)]  # fmt: skip
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record(*sys.argv[1:])
