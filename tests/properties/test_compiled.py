"""Laws of the compiled densities: each is the NumPy one, both are PyMC's, and the sampler climbs the posterior."""

import dataclasses
import functools
import itertools
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.compiled import (
    CompiledDensity,
    Work,
    build,
    entries_of,
    loops_of,
    order_by_zeros,
    tiles_of,
    work_of,
)
from probreg.compiled.density import with_functions
from probreg.compiled.loops import B
from probreg.errors import DataError, Incompatible
from probreg.inference.sampling.density import SampledDensity, compiled_obstacle
from probreg.inference.sampling.reparameterisation import reparameterise, whiten
from probreg.likelihoods import (
    DifferentiableLikelihood,
    ProximalLikelihood,
)
from probreg.priors import ExponentialPower, SmoothPrior
from probreg.priors.location_scale import LocationScale, SmoothLocationScale
from tests.pymc_density import density_of

from .cases import (
    AUX_CASES,
    LIKELIHOOD_CASES,
    PRIOR_CASES,
    SIGMA,
    Array,
    accepted,
    auxiliaries,
    case,
    covering,
    given_for,
    gradient,
    model_for,
    named,
    row_with_slopes,
)

COMPILED = [
    v
    for v in LIKELIHOOD_CASES
    if isinstance(v, DifferentiableLikelihood) and v.compiled_density is not None
]
# Each takes 3 s to compile: sums of one logarithm a tile and of rows. Rows with a nuisance parameter
# and tiles with several predictors are in test_compiled_sums.py.
KINDS = [pr.Bernoulli(), pr.Poisson(), pr.StudentT(nu=5.6)]
SAMPLED = [*KINDS, pr.Gaussian(), pr.Categorical(), pr.Categorical(symmetric=True)]


def quick_kind(likelihood: Any, *_: Any) -> str:
    """Its name, or that of another where it takes longer to compile: no kind of its own."""
    return "poisson" if likelihood.name == "categorical" else likelihood.name


# one row, a tile less one, a tile, a tile and one, two and a half
SIZES = [1, B - 1, B, B + 1, 5 * B // 2]
EPS = np.finfo(float).eps


# ---- exp, log, log1p ---------------------------------------------------------------------------------------------------


@functools.cache
def loop_of(name: str) -> Any:
    from numba import njit

    from probreg.compiled.elementary import VECTOR

    f = VECTOR[getattr(math, name)]

    @njit
    def loop(x: Array, out: Array) -> None:
        for i in range(x.size):
            out[i] = f(x[i])

    return loop


def over(name: str, x: Array) -> Array:
    out = np.empty_like(x)
    loop_of(name)(x, out)
    return out


RANGES = {
    "exp": [(-708.0, 709.7), (-1.0, 1.0), (-1e-9, 1e-9)],
    "log": [(1e-300, 1e300), (0.5, 2.0), (1.0 - 1e-6, 1.0 + 1e-6)],
    "expm1": [(-40.0, 0.0), (-1.0, 1.0), (-1e-9, 1e-9), (1.0, 700.0)],
    "log1p": [(0.0, 1.0), (0.0, 1e300), (-0.999, 0.0), (-1e-8, 1e-8)],
}


@pytest.mark.parametrize("name", RANGES)
def test_elementary_functions_err_by_few_units_in_the_last_place(name):
    rng = np.random.default_rng(0)
    for low, high in RANGES[name]:
        x = rng.uniform(low, high, 50_000)
        if high / max(abs(low), 1.0) > 1e100:
            x = np.exp(rng.uniform(-690.0, 690.0, 50_000))
        exact = getattr(np, name)(x.astype(np.longdouble))
        apart = np.abs(over(name, x) - exact) / np.spacing(np.abs(exact.astype(float)))
        assert float(apart.max()) < (4.0 if name == "expm1" else 2.0), (low, high)


def test_elementary_functions_at_the_ends():
    with np.errstate(all="ignore"):
        x = np.array([0.0, -0.0, np.inf, np.nan, -1.0, 709.8, 710.0, 1.0])
        np.testing.assert_array_equal(over("log", x[:5]), np.log(x[:5]))
        np.testing.assert_array_equal(over("log1p", x[:5]), np.log1p(x[:5]))
        np.testing.assert_allclose(over("exp", x), np.exp(x), rtol=2 * EPS)
        np.testing.assert_allclose(over("expm1", x), np.expm1(x), rtol=4 * EPS)
    assert 0.0 <= over("exp", np.array([-np.inf]))[0] < 3e-308
    assert 0.0 <= over("exp", np.array([-746.0]))[0] < 3e-308


# ---- compiled densities of likelihoods ---------------------------------------------------------------------------------


def rows(
    likelihood: Any, n: int, *, weighted: bool, offset: bool, p: int = 6
) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    X, m = rng.normal(size=(n, p)), likelihood.width
    beta = rng.normal(size=(p, m)) * 0.4
    w = rng.integers(0, 4, n).astype(float) if weighted else np.zeros(0)
    shift = rng.normal(size=(m, n)) * 0.3 if offset else np.zeros((0, n))
    eta = X @ beta + (shift.T if offset else 0.0)
    y = likelihood.sample(
        rng, eta, **auxiliaries(likelihood), **given_for(likelihood, len(eta))
    )
    t = np.array(likelihood.settings(**auxiliaries(likelihood)), dtype=float)
    return {"X": X, "y": y, "w": w, "offset": shift, "beta": beta, "t": t, "eta": eta}


def numpy_sums(likelihood: Any, r: dict[str, Any]) -> tuple[float, Array, Array]:
    w = r["w"] if len(r["w"]) else np.ones(len(r["y"]))
    aux = auxiliaries(likelihood)
    value = float(
        w
        @ (
            likelihood.log_prob(r["y"], r["eta"], **aux)
            - likelihood.base_measure(r["y"])
        )
    )
    slopes = r["X"].T @ (w[:, None] * likelihood.score(r["y"], r["eta"], **aux))
    over_aux = likelihood.value_grad_hessian(r["y"], r["eta"], **aux).gradient[
        :, likelihood.width :
    ]
    return value, slopes, (w[:, None] * over_aux).sum(0)


@pytest.mark.parametrize("likelihood", COMPILED, ids=named)
def test_the_plain_functions_of_a_density_are_the_numpy_density(likelihood):
    """As Python runs them, before any compiler: log density, slopes and second derivatives of each row."""
    r, density, m = (
        rows(likelihood, 40, weighted=False, offset=False),
        likelihood.compiled_density,
        likelihood.width,
    )
    aux, y, eta, t = auxiliaries(likelihood), r["y"], r["eta"], r["t"]
    exact = likelihood.value_grad_hessian(y, eta, **aux)
    pairs = [(c, d) for c in range(m) for d in range(c, m)]
    curvature = np.stack([exact.curvature[:, c, d] for c, d in pairs])
    log_p, slope, curve = (
        np.empty(40),
        np.zeros((m + len(likelihood.nuisance), 40)),
        curvature.copy(),
    )
    if density.tile is None:
        a = len(likelihood.nuisance)
        found = np.array(
            [row_with_slopes(density, y[i], eta[i, 0], t, a) for i in range(40)]
        )
        log_p, slope = found[:, 0], found[:, 1:].T
    else:
        density.tile(y, eta.T.copy(), t, log_p, slope)
        if density.hessian is not None:
            density.hessian(y, eta.T.copy(), t, curve := np.empty_like(curvature))
    close = {"rtol": 1e-11, "atol": 1e-11}  # of terms of order 1 to 10
    np.testing.assert_allclose(
        log_p, likelihood.log_prob(y, eta, **aux) - likelihood.base_measure(y), **close
    )
    np.testing.assert_allclose(slope, exact.gradient.T, **close)
    np.testing.assert_allclose(curve, curvature, **close)


@pytest.mark.parametrize(
    "likelihood",
    [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.slow)],
    ids=named,
)
def test_a_compiled_density_is_the_numpy_density(likelihood):
    """By every loop; the other densities are compared above as they are written, and below by one loop over their rows."""
    for n, some in itertools.product(SIZES, (False, True)):
        with case(n, some):
            compare_loops(likelihood, rows(likelihood, n, weighted=some, offset=some))
    compare_far_rows(likelihood)


def compare_loops(likelihood: Any, r: dict[str, Any]) -> None:
    n = len(r["y"])
    value, slopes, over_aux = numpy_sums(likelihood, r)
    loops, extra, beta = (
        loops_of(likelihood.compiled_density),
        len(likelihood.nuisance),
        r["beta"],
    )
    # sums of n terms in another order
    size = np.abs(value) + n
    close = {"rtol": 0, "atol": 50 * EPS * size}

    out = np.empty(beta.size + extra)
    tiles, columns = tiles_of(r["X"])
    found = loops.gradient(
        tiles,
        columns,
        r["y"],
        r["w"],
        r["offset"],
        beta,
        r["t"],
        out,
        *work_of(tiles.shape[2], beta.shape[1], extra),
    )
    np.testing.assert_allclose(found, value, **close)
    np.testing.assert_allclose(out[: beta.size], slopes.ravel(), **close)
    np.testing.assert_allclose(out[beta.size :], over_aux, **close)

    points = np.stack([np.ascontiguousarray(beta.T)] * 70)  # of several groups
    t = np.stack([r["t"]] * 70)
    log_p = np.empty((70, n))
    loops.values(r["X"], r["y"], r["offset"], points, t, log_p)
    total = (log_p * r["w"] if len(r["w"]) else log_p).sum(1)
    np.testing.assert_allclose(total, value, **close)


def far_rows(likelihood: Any) -> tuple[dict[str, Any], Array]:
    """Rows with |eta| up to 700, and their log densities: finite, or -inf."""
    r = rows(likelihood, 40, weighted=False, offset=False)
    r["beta"] = r["beta"] * 200.0
    r["eta"] = r["X"] @ r["beta"]
    with np.errstate(over="ignore"):
        exact = likelihood.log_prob(r["y"], r["eta"], **auxiliaries(likelihood))
        return r, exact - likelihood.base_measure(r["y"])


def compare_far_rows(likelihood: Any) -> None:
    r, exact = far_rows(likelihood)
    out = np.empty(r["beta"].size + len(likelihood.nuisance))
    tiles, columns = tiles_of(r["X"])
    found = loops_of(likelihood.compiled_density).gradient(
        tiles,
        columns,
        r["y"],
        r["w"],
        r["offset"],
        r["beta"],
        r["t"],
        out,
        *work_of(tiles.shape[2], r["beta"].shape[1], len(likelihood.nuisance)),
    )
    np.testing.assert_allclose(found, exact.sum(), rtol=1e-12)


def loop_over_rows(density: CompiledDensity) -> Any:
    """Compiled in a fraction of a second: log p of each row and its slopes, by the row or tile with the functions of compiled code."""
    from numba import njit

    compiled = functools.partial(njit, error_model="numpy", nogil=True)

    def by_tile(y: Array, eta: Array, t: Array, log_p: Array, slope: Array) -> None:
        tile(y, eta, t, log_p, slope)  # type: ignore[name-defined] # noqa: F821

    def by_row(y: Array, eta: Array, t: Array, log_p: Array, slope: Array) -> None:
        for i in range(len(y)):
            log_p[i], slope[0, i], over_aux = row(y[i], eta[0, i], t)  # type: ignore[name-defined] # noqa: F821
            slope[1:, i] = over_aux

    def by_row_with_slopes(
        y: Array, eta: Array, t: Array, log_p: Array, slope: Array
    ) -> None:
        over_aux = np.empty(len(slope) - 1)
        for i in range(len(y)):
            log_p[i], slope[0, i] = row(y[i], eta[0, i], t, over_aux)  # type: ignore[name-defined] # noqa: F821
            slope[1:, i] = over_aux

    loop = by_row_with_slopes if density.fills_slopes else by_row
    parts = {}
    for name, f in (("row", density.row), ("tile", density.tile)):
        if f is not None:
            parts[name] = compiled(build._vectorise_density(f))
            loop = by_tile if name == "tile" else loop
    return compiled(with_functions(loop, parts))


# Links are other functions in the same code.
BY_CODE = {v.compiled_density.functions[0].__code__: v for v in COMPILED}


@pytest.mark.slow
@pytest.mark.parametrize(
    "likelihood",
    [v for v in BY_CODE.values() if v.name != "categorical"],
    ids=named,
)
def test_compiled_rows_are_the_numpy_density_also_far_from_the_data(likelihood):
    loop = loop_over_rows(likelihood.compiled_density)

    def densities(r: dict[str, Any]) -> tuple[Array, Array]:
        out = np.empty(40), np.empty((likelihood.width + len(likelihood.nuisance), 40))
        loop(r["y"], r["eta"].T.copy(), r["t"], *out)
        return out

    near = rows(likelihood, 40, weighted=False, offset=False)
    exact = likelihood.value_grad_hessian(
        near["y"], near["eta"], **auxiliaries(likelihood)
    )
    np.testing.assert_allclose(
        densities(near)[1], exact.gradient.T, rtol=1e-11, atol=1e-11
    )
    far, log_p = far_rows(likelihood)
    np.testing.assert_allclose(densities(far)[0].sum(), log_p.sum(), rtol=1e-12)


# ---- compiled densities of priors --------------------------------------------------------------------------------------


def has_compiled_density(prior: Any) -> bool:
    by_matrix = getattr(prior, "precision_matrix", None) is not None
    return (
        isinstance(prior, LocationScale)
        and prior.compiled_density is not None
        and not by_matrix
    )


@pytest.mark.parametrize(
    "prior", [v for v in PRIOR_CASES if has_compiled_density(v)], ids=named
)
def test_the_compiled_density_of_a_prior_is_its_numpy_density(prior):
    rng = np.random.default_rng(1)
    theta, at, unit = rng.normal(size=5), np.array([3, 0, 4]), 1.7
    location, scale = (
        np.broadcast_to(v, 3).astype(float) for v in (prior.location, prior.scales)
    )
    out = np.zeros(5)
    args = (
        theta,
        at,
        np.ascontiguousarray(location),
        unit * scale,
        np.array(prior.settings, dtype=float),
        out,
    )
    value, over_unit = entries_of(prior.compiled_density)(*args)
    beta = theta[at][:, None]
    assert value == pytest.approx(float(prior.log_prob(beta, unit)), rel=1e-13)
    if isinstance(prior, SmoothPrior):
        slopes = prior.slopes(beta, unit)[0]
    else:
        slopes = -np.mean(prior.subgradient(beta, unit), axis=0)
    np.testing.assert_allclose(out[at], slopes[:, 0], rtol=1e-12)
    assert not out[[1, 2]].any()
    h = 1e-6
    rise = float(
        prior.log_prob(beta, unit * np.exp(h)) - prior.log_prob(beta, unit * np.exp(-h))
    ) / (2 * h)
    assert over_unit == pytest.approx(rise, abs=1e-7)


# ---- the density that is sampled ----------------------------------------------------------------------------------------


def sampled_compiled(likelihood: Any, prior: Any) -> pr.Model | None:
    model = accepted(likelihood, prior)
    return None if model is None or compiled_obstacle(model) else model


def affine_density_as_python_runs_it(model: pr.Model, dense: SampledDensity) -> Any:
    """The one function that the compiled chains call, before it is compiled; its loops over rows and entries are."""
    target = dense.target
    assert target is not None
    whole = build.plain_log_density(*target.parts)

    def log_prob(z: Array) -> tuple[float, Array]:
        slopes = np.empty(len(z))
        work = Work.of(target.data, target.width, target.nuisance)
        return whole(z, slopes, (target.data, work)), slopes

    return log_prob


def check(model: pr.Model) -> None:
    at = whiten(model)
    dense = SampledDensity.of(model, at)
    rng = np.random.default_rng(0)
    whole = (
        affine_density_as_python_runs_it(model, dense)
        if dense.target is not None
        else None
    )
    for _ in range(2):
        z = rng.normal(size=at.A.shape[1]) * (0.5 if at.whitened else 0.1)
        value, slopes = dense.log_prob(z)
        if whole is not None:
            found, over = whole(z)
            assert found == pytest.approx(value, rel=1e-11, abs=1e-9)
            np.testing.assert_allclose(over, slopes, rtol=1e-9, atol=1e-9)
        point = dense.unfold(z)
        beta, aux = point.pop("beta"), {a: float(v) for a, v in point.items()}
        exact = float(model.log_posterior(beta, **aux)) + sum(
            np.log(v) for v in aux.values()
        )
        assert value == pytest.approx(exact, rel=1e-11, abs=1e-9)
        # differences reach over kinks
        if isinstance(model.likelihood, ProximalLikelihood):
            continue
        differences = gradient(lambda v: np.array([dense.log_prob(v)[0]]), z).ravel()
        np.testing.assert_allclose(
            slopes,
            differences,
            rtol=1e-5,
            atol=1e-5 * max(1.0, np.abs(differences).max()),
        )


OWN = {"x1": pr.Normal(0.7), "x3": pr.priors.Cauchy(1.2)}
PAIRS = [
    (v, p)
    for v in LIKELIHOOD_CASES
    for p in (*PRIOR_CASES, OWN)
    if sampled_compiled(v, p) is not None
]


def test_every_smooth_likelihood_and_every_prior_with_a_compiled_density_is_sampled_by_it():
    """By a compiled density, or by the moments of least squares: neither is asked of a likelihood or a prior."""
    able = [v for v in LIKELIHOOD_CASES if v.least_squares or v in COMPILED]
    assert {v.name for v, _ in PAIRS} == {v.name for v in able}
    assert {p.name for _, p in PAIRS if p is not OWN} >= {
        p.name for p in PRIOR_CASES if has_compiled_density(p)
    } | {
        "flat",
        "normal",
    }


# Each prior is met in the quick part.
@pytest.mark.parametrize(
    ("likelihood", "prior"),
    covering(
        [
            (v, p)
            for v in SAMPLED
            for p in (*PRIOR_CASES, OWN)
            if sampled_compiled(v, p) is not None
        ],
        quick_kind,
        lambda _, prior: named(prior),
        name=named,
        one_in=12,
    ),
)
def test_the_sampled_density_is_the_log_posterior(likelihood, prior):
    check(model_for(likelihood, prior))
    more = (
        {"offset": np.linspace(-0.5, 0.5, 60)}
        if not getattr(likelihood, "symmetric", False)
        else {}
    )
    check(model_for(likelihood, prior, weights=np.arange(60) % 3 + 1.0, **more))


@pytest.mark.parametrize(
    ("likelihood", "parameter"),
    [
        pytest.param(pr.Gaussian(), "log sigma", marks=pytest.mark.slow),
        pytest.param(pr.likelihoods.Ordinal(), "log gap_2", marks=pytest.mark.slow),
        pytest.param(pr.likelihoods.Ordinal(), "log scale", marks=pytest.mark.slow),
    ],
)
def test_formulas_of_parameters_have_the_compiled_density_of_their_likelihood(
    likelihood, parameter
):
    rng = np.random.default_rng(6)
    x, z = rng.normal(size=(2, 40))
    y = likelihood.sample(rng, 0.3 * x[:, None], **auxiliaries(likelihood))
    data = {"x": x, "z": z, "y": y, "e": rng.uniform(0.5, 1.5, 40)}
    right = "~ 0 + z" if parameter == "log scale" else "~ z"
    model = pr.Model.from_formula(
        {"y": "y ~ x + offset(e)", parameter: right},
        data,
        likelihood=likelihood,
        prior=pr.Normal(1.3),
    )
    assert compiled_obstacle(model) is None
    check(model)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_another_order_keep_their_weights_and_offsets(weighted):
    """Rows of a factor are ordered by its levels."""
    rng = np.random.default_rng(2)
    x, e = rng.normal(size=(2, 60))
    data = {"x": x, "g": np.arange(60) % 4, "e": e, "y": rng.integers(2, size=60)}
    model = pr.Model.from_formula(
        "y ~ x + C(g) + offset(e)",
        data,
        likelihood="bernoulli",
        prior=pr.Normal(1.3),
        weights=np.arange(60) % 5 + 1.0 if weighted else None,
    )
    check(model)


CENSORED_ROWS = [
    ("cens(low, high) ~ x", pr.LogLogistic()),
    ("trunc(t, lower=0.01, upper=9) ~ x", pr.likelihoods.Exponential()),
    ("trunc(k, lower=1, upper=40) ~ x", pr.Poisson()),
    ({"k": "trunc(k, lower=1) ~ x", "log alpha": "~ x"}, pr.NegativeBinomial()),
    ("k ~ x", pr.likelihoods.Hurdle(pr.NegativeBinomial())),
    (
        {"k": "k ~ x", "log alpha": "~ x"},
        pr.likelihoods.ZeroInflated(pr.NegativeBinomial()),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("formula", "likelihood"), CENSORED_ROWS)
def test_rows_of_a_base_have_the_density_of_their_likelihood(formula, likelihood):
    rng = np.random.default_rng(8)
    x, t = rng.normal(size=50), rng.uniform(0.1, 3.0, 50)
    data = {"x": x, "t": t, "low": np.floor(t) + 0.05, "high": np.where(x > 0.0, np.ceil(t) + 0.1, np.inf),
            "k": 1 + rng.poisson(rng.gamma(0.5, 4.0, 50))}  # fmt: skip
    if "trunc" not in str(formula):
        data["k"] = data["k"] * (np.arange(50) % 3 > 0)
    model = pr.Model.from_formula(
        formula, data, likelihood=likelihood, prior=pr.Normal(1.3)
    )
    assert compiled_obstacle(model) is None
    check(model)


@pytest.mark.parametrize("sigma_units", [False, True])
def test_several_priors_with_one_compiled_density_are_one_sum(sigma_units):
    """Also where their scales are in units of a known noise scale."""
    prior = {
        "x1": pr.Laplace(0.7, sigma_units=sigma_units),
        "x2": pr.Laplace(1.9, location=-0.4, sigma_units=sigma_units),
        "x3": pr.Normal(0.8, sigma_units=sigma_units),
    }
    model = model_for(pr.StudentT(nu=4.0), prior, aux={"sigma": 2.3})
    assert SampledDensity.of(model, whiten(model)).target is not None
    check(model)


@pytest.mark.parametrize(
    ("likelihood", "aux"),
    covering(
        [
            (v, a)
            for v in SAMPLED
            for a in [*(a for a in AUX_CASES if not a.has_bounded_support), SIGMA]
            if v.nuisance
        ],
        quick_kind,
        lambda _, aux: named(aux),
        one_in=16,
    ),
)
def test_the_sampled_density_has_the_prior_of_a_nuisance_parameter(likelihood, aux):
    prior = pr.Normal(0.8, sigma_units=likelihood.noise_scale is not None)
    check(model_for(likelihood, prior, aux=dict.fromkeys(likelihood.nuisance, aux)))


@pytest.mark.parametrize(
    "likelihood",
    covering(SAMPLED, quick_kind, one_in=1),
)
def test_the_sampled_density_is_pymcs(likelihood):
    """The plain graph of `to_pymc`, in PyMC's own coordinates, differs by a constant (the density of its flat parts) at most."""
    model = model_for(
        likelihood,
        pr.Normal(0.8),
        aux={a: pr.HalfNormal(1.3) for a in likelihood.nuisance},
    )
    theirs = density_of(model.to_pymc())
    apart = []
    for k in range(3):
        x = np.random.default_rng(k).normal(size=theirs.size) * 0.3
        values = theirs.expand(x)
        shown = np.asarray(values["beta"]).reshape(model.shape[0], -1)
        beta = shown @ np.linalg.pinv(likelihood.contrast_matrix).T
        log_aux = [float(np.log(values[a])) for a in model.unknown]
        at = whiten(model)
        z = np.linalg.solve(at.A, np.r_[beta.ravel(), log_aux] - at.centre)
        apart.append(SampledDensity.of(model, at).log_prob(z)[0] - theirs.log_prob(x))
    np.testing.assert_allclose(apart, apart[0], rtol=1e-10, atol=1e-9)


@dataclasses.dataclass(frozen=True)
class LogisticPrior(SmoothLocationScale):
    """A prior of a user: smooth, without a compiled density."""

    scale: Any = 1.0
    location: Any = 0.0
    sigma_units: bool = False
    scaled: bool = False

    name = "logistic"

    def standard_log_prob(self, r):
        return -r - 2.0 * np.logaddexp(0.0, -r)

    def standard_slopes(self, r):
        p = 1.0 / (1.0 + np.exp(-r))
        return 1.0 - 2.0 * p, -2.0 * p * (1.0 - p)

    def standard_sample(self, rng, shape):
        return rng.logistic(size=shape)

    def pymc(self, unit=1.0):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("likelihood", "sigma_units"), [(pr.Gaussian(), True), (pr.Bernoulli(), False)]
)
def test_the_sampled_density_has_a_prior_that_is_not_compiled(likelihood, sigma_units):
    check(model_for(likelihood, LogisticPrior(0.3, 0.2, sigma_units)))


def test_whitened_coordinates_make_the_posterior_round():
    """Columns of scales 1e-3 to 1e3 with correlation 0.99: in z the curvature at the mode is the identity."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=400)
    X = np.stack(
        [
            1e3 * base,
            1e-3 * (base + 0.1 * rng.normal(size=400)),
            50.0 + rng.normal(size=400),
        ],
        1,
    )
    y = (rng.random(400) < 1 / (1 + np.exp(-base))).astype(int)
    model = pr.Model.from_arrays(X, y, likelihood="bernoulli")
    found = SampledDensity.of(model)
    assert found.at.whitened
    H = -gradient(lambda z: found.log_prob(z)[1], np.zeros(4))
    np.testing.assert_allclose(H, np.eye(4), atol=1e-4)


def test_whitened_coordinates_of_moments_make_the_posterior_round():
    """The same of least squares with sigma unknown, whose curvature over log sigma is 2 (n - p) where sigma^2 = RSS / (n - p)."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=400)
    X = np.stack(
        [
            1e3 * base,
            1e-3 * (base + 0.1 * rng.normal(size=400)),
            50.0 + rng.normal(size=400),
        ],
        1,
    )
    found = SampledDensity.of(
        pr.Model.from_arrays(X, 2.0 + base + 0.5 * rng.normal(size=400))
    )
    assert found.at.whitened
    H = -gradient(lambda z: found.log_prob(z)[1], np.zeros(5))
    np.testing.assert_allclose(H, np.diag([1.0, 1.0, 1.0, 1.0, 396 / 400]), atol=1e-6)


# ---- the compiled code ---------------------------------------------------------------------------------------------------


def _steep(y: float, eta: float, t: Array) -> tuple[float, float, float]:
    return -2.0 * eta, -2.0, 0.0


def test_tiles_of_ordered_rows_have_the_columns_of_few_groups(rng) -> None:
    """With 40 groups in 4 tiles, and one column that is always zero."""
    n, groups = 4 * B - 7, 40
    X = np.zeros((n, groups + 2))
    X[:, 0] = rng.standard_normal(n)
    X[np.arange(n), 2 + rng.integers(groups, size=n)] = 1.0
    order = order_by_zeros(X)
    assert sorted(order) == list(range(n))
    tiles, columns = tiles_of(X[order])
    assert tiles.shape[1] == columns.shape[1] <= 1 + groups // 4 + 2
    y = rng.integers(2, size=n).astype(float)
    beta = rng.standard_normal((groups + 2, 1))
    slopes = np.empty(groups + 2)
    value = loops_of(pr.Bernoulli.compiled_density).gradient(
        tiles, columns, y[order], np.zeros(0), np.zeros((0, n)), beta, np.zeros(0), slopes, *work_of(B, 1)
    )  # fmt: skip
    eta = X @ beta[:, 0]
    assert value == pytest.approx(float(y @ eta - np.logaddexp(0.0, eta).sum()))
    exact = X.T @ (y - 1.0 / (1.0 + np.exp(-eta)))
    np.testing.assert_allclose(slopes, exact, rtol=0, atol=1e-11)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_one_logarithm_a_tile_keeps_the_digits_of_one_a_row(n, weighted):
    """Where all rows are nearly certain, too, and the sum is of tiny numbers."""
    density, rng = pr.Bernoulli.compiled_density, np.random.default_rng(n)
    assert density is not None
    x, out, w = rng.uniform(0.5, 1.5, n), np.empty(1), rng.uniform(0.0, 2.0, n)
    for slant, missed in ((0.0, 0.5), (3.0, 0.1), (40.0, 0.0), (700.0, 0.5)):
        y = (rng.random(n) >= missed).astype(float)
        found = loops_of(density).gradient(
            *tiles_of(x[:, None]),
            y,
            w if weighted else np.zeros(0),
            np.zeros((0, n)),
            np.array([[slant]]),
            np.zeros(0),
            out,
            *work_of(min(B, n), 1),
        )
        away = (np.where(y > 0.5, -1.0, 1.0) * x * slant).astype(np.longdouble)
        exact = -(np.logaddexp(0, away) * (w if weighted else 1.0)).sum()
        assert found == pytest.approx(float(exact), rel=1e-13)


def test_a_changed_density_is_another_name_on_disk():
    """numba stores compiled code by name and file; the name changes with the density, its constants and its helpers."""
    from probreg.likelihoods import binomial

    def with_constant(value: float) -> CompiledDensity:
        code = _steep.__code__.replace(
            co_consts=tuple(
                value if c == -2.0 else c for c in _steep.__code__.co_consts
            )
        )
        return CompiledDensity(type(_steep)(code, _steep.__globals__))

    digest = build._digest
    assert digest(CompiledDensity(_steep)) == digest(with_constant(-2.0))
    assert digest(CompiledDensity(_steep)) != digest(with_constant(-3.0))
    assert digest(CompiledDensity(_steep)) != digest(pr.Bernoulli.compiled_density)
    assert (
        loops_of(pr.Bernoulli.compiled_density).gradient.py_func.__qualname__
        == f"gradient_{digest(pr.Bernoulli.compiled_density)}"
    )
    moved = type(binomial._evaluate_bernoulli_row)(
        binomial._evaluate_bernoulli_row.__code__,
        {**binomial._evaluate_bernoulli_row.__globals__, "log1p": 2.0},
    )
    assert digest(CompiledDensity(moved)) != digest(pr.Bernoulli.compiled_density)


@pytest.mark.slow
def test_compiled_code_is_found_again_by_the_next_process(tmp_path):
    code = (
        "import numpy as np\n"
        "from probreg.compiled import entries_of\n"
        "from probreg.priors import Laplace\n"
        "f = entries_of(Laplace.compiled_density)\n"
        "one = np.ones(1)\n"
        "f(one, np.zeros(1, dtype=int), one, one, np.zeros(0), np.zeros(1))\n"
        "print(sum(f.stats.cache_hits.values()), sum(f.stats.cache_misses.values()))\n"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    for hits_and_misses in (["0", "1"], ["1", "0"]):
        out = subprocess.run(
            command, env=env, capture_output=True, text=True, check=True
        ).stdout
        assert out.split() == hits_and_misses


# ---- engines -------------------------------------------------------------------------------------------------------------

SHORT = {"draws": 50, "tune": 50, "chains": 2}


def bernoulli(prior: Any) -> pr.Model:
    return model_for(pr.Bernoulli(), prior, n=40)


def test_what_has_no_compiled_density_is_sampled_by_pymc_and_printed_so():
    method, rng = pr.NUTS(**SHORT), np.random.default_rng(0)
    assert method.resolve(bernoulli(pr.Normal(1.0)), rng).method.name == "nuts"
    other = method.resolve(bernoulli(ExponentialPower(1.0, q=0.5)), rng)
    assert other.method == method.by_pymc
    assert "prior of x1, x2, x3" in str(other.notes[-1])


@pytest.mark.parametrize(
    ("likelihood", "prior", "aux", "words"),
    [
        (
            pr.Bernoulli(),
            ExponentialPower(1.0, q=0.5),
            {},
            "prior of x1, x2, x3",
        ),
        (
            pr.Gaussian(),
            pr.Normal(1.0),
            {"sigma": pr.priors.Uniform(0.1, 5.0)},
            "prior of sigma",
        ),
    ],
)
def test_the_reason_for_pymc_names_the_part(likelihood, prior, aux, words):
    assert words in (compiled_obstacle(model_for(likelihood, prior, aux=aux)) or "")


def test_pymc_has_the_settings_of_nuts_and_a_long_warm_up():
    settings = {"draws": 7, "chains": 3, "target_accept": 0.7, "progress": False}
    assert pr.NUTS(**settings).by_pymc == pr.PyMC(**settings)
    assert pr.NUTS(tune=2000, **settings).by_pymc.tune == 2000


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize("method", ["newton", "nuts"])
def test_answers_do_not_depend_on_threads(method):
    X = np.random.default_rng(0).normal(size=(30_000, 2))
    y = (X[:, 0] > np.random.default_rng(1).logistic(size=30_000)).astype(int)
    model = pr.Model.from_arrays(X, y, likelihood="bernoulli")
    how = pr.NUTS(draws=40, tune=60, chains=2) if method == "nuts" else method
    one, two = (pr.fit(model, how, threads=k) for k in (1, 2))
    np.testing.assert_array_equal(one.coef, two.coef)


@pytest.mark.parametrize("threads", [0, -1, 1.5])
def test_threads_are_counted_in_whole_numbers(threads):
    with pytest.raises(DataError, match="threads is a whole number of at least 1"):
        pr.fit(bernoulli(None), threads=threads)


def test_without_a_mode_to_whiten_by_the_columns_are_sampled_as_they_are():
    """A Cauchy prior on separated classes: the mode is far, the density proper."""
    X = np.arange(8.0)
    model = pr.Model.from_arrays(X, (X > 3.5).astype(int), likelihood="bernoulli", prior={
        "x1": pr.priors.Cauchy(1e4), "Intercept": pr.priors.Cauchy(1e4)})  # fmt: skip
    at = whiten(model)
    assert not at.whitened
    assert "14 steps" in at.notes[0]
    check(model)


def test_a_density_written_anew_does_not_keep_the_compiled_one_of_its_base():
    @dataclasses.dataclass(frozen=True)
    class Halved(pr.Poisson):
        def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
            return 0.5 * super().log_prob(y, eta, **aux)

    @dataclasses.dataclass(frozen=True)
    class Wide(pr.priors.Cauchy):
        def standard_log_prob(self, r: Array) -> Array:
            return 0.5 * super().standard_log_prob(r)

    @dataclasses.dataclass(frozen=True)
    class Named(pr.Poisson):
        pass

    assert Halved.compiled_density is None
    assert Wide.compiled_density is None
    assert Named.compiled_density is pr.Poisson.compiled_density
    assert "halved" not in (
        compiled_obstacle(model_for(pr.Poisson(), pr.Normal(1.0))) or ""
    )


# ---- several nuisance parameters -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "known", [{}, {"sigma": 0.8}, {"nu": 5.0}, {"sigma": 0.8, "nu": 5.0}]
)
def test_a_density_with_several_nuisance_parameters_is_sampled_by_compiled_code(known):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(700, 2))
    y = X.sum(1) + 0.7 * rng.standard_t(4.0, 700)
    model = pr.Model.from_arrays(
        X, y, likelihood=pr.StudentT(nu=None), prior=pr.Normal(2.0), aux=known
    )
    assert compiled_obstacle(model) is None
    check(model)


@pytest.mark.slow
def test_sums_with_slopes_over_several_nuisance_parameters():
    likelihood = pr.StudentT(nu=None)
    compare_loops(likelihood, rows(likelihood, 300, weighted=True, offset=True))


def _wrong(y: float, eta: float, t: Array) -> tuple[float, float, float]:
    return y * eta - math.exp(eta), y - 0.99 * math.exp(eta), 0.0


@pytest.mark.slow
def test_a_compiled_density_that_is_another_density_is_refused_before_it_is_sampled():
    """The slope is off by a hundredth of mu: a chain would climb it without complaint."""

    @dataclasses.dataclass(frozen=True)
    class Off(pr.Poisson):
        compiled_density = CompiledDensity(_wrong)

    X, y = np.linspace(-1.0, 1.0, 300)[:, None], np.arange(300) % 4
    for more in (
        {},
        {"weights": np.arange(300) % 3, "offset": np.linspace(0.0, 1.0, 300)},
    ):
        with pytest.raises(
            Incompatible,
            match=r"density of a poisson likelihood differs .* slopes that differ",
        ):
            SampledDensity.of(pr.Model.from_arrays(X, y, likelihood=Off(), **more))
        SampledDensity.of(pr.Model.from_arrays(X, y, likelihood=pr.Poisson(), **more))


def test_a_compiled_density_with_variables_of_a_function_around_it_is_named():
    def around(factor: float) -> Any:
        return lambda y, eta, t: (-factor * eta, -factor, 0.0)

    @dataclasses.dataclass(frozen=True)
    class Inner(pr.Poisson):
        compiled_density = CompiledDensity(around(2.0))

    model = pr.Model.from_arrays(np.arange(9.0), np.arange(9), likelihood=Inner())
    assert "cannot be compiled: <lambda> uses factor of the function around it" in (
        compiled_obstacle(model) or ""
    )
    assert "is no plain function" in (CompiledDensity(math.exp).unfit or "")


def test_without_a_folder_to_write_to_code_is_compiled_anew():
    """A function without a file stands for an installation where nothing can be written."""
    made: dict[str, Any] = {}
    exec(compile("def twice(x):\n    return 2.0 * x\n", "<nowhere>", "exec"), made)
    twice = build._store_function(made["twice"], {}, "test")
    assert twice(1.5) == 3.0
    assert type(twice._cache).__name__ == "NullCache"


_PAIR = (1.0, 2.0)


def _of_pair(y: float, eta: float, t: Array) -> tuple[float, float, float]:
    return _PAIR[0] * eta, _PAIR[1], 0.0


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (
            _of_pair,
            "_of_pair uses _PAIR, which is neither a number nor a function of math",
        ),
        (math.exp, "is no plain function"),
        (dataclasses.replace, "uses"),
    ],
)
def test_a_compiled_density_that_stored_code_could_not_be_told_from_is_refused(
    f, words
):
    with pytest.raises(Incompatible, match=words):
        loops_of(CompiledDensity(f))


def test_an_unknown_share_of_the_data_is_not_reported_as_zero(rng: np.random.Generator):
    X = rng.normal(size=(30, 2))
    model = pr.Model.from_arrays(X, X[:, 0], prior="horseshoe(1)", aux={"sigma": 1.0})
    scale = reparameterise(model).notes[-1]
    assert "non-centred" in scale
    assert "%" not in scale
