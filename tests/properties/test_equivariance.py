"""Laws of equivariance: a change of rows, columns, units, offset or labels changes the answer as theory says and no more.

Methods that draw are compared by the moments they report, which carry no Monte Carlo error.
"""

import itertools
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Method
from probreg.likelihoods import Likelihood, ProximalLikelihood
from probreg.priors import Normal

from .cases import (
    ESTIMATORS,
    LIKELIHOOD_CASES,
    PRECISION,
    Array,
    accepted,
    auxiliaries,
    covering,
    likelihood_kind,
    model_for,
    named,
    recipe_of,
    rows_for,
)

# Newton stops at 1e-8 standard errors and takes one step more; both fits do.
RTOL, ATOL = 1e-7, 1e-9


def suited(prior: Any) -> list[tuple[Likelihood, Method]]:
    pairs = [(v, k, accepted(v, prior)) for v in LIKELIHOOD_CASES for k in ESTIMATORS]
    return [
        (v, k)
        for v, k, model in pairs
        if model is not None and k.obstacle(model) is None
    ]


FLAT, NORMAL = pr.Flat(), Normal((0.5, 0.9, 1.7))
KINDS = (
    likelihood_kind,
    lambda _, method: method.name,
)  # quick are each kind of likelihood and each method
flat = pytest.mark.parametrize(
    ("likelihood", "method"), covering(suited(FLAT), *KINDS, one_in=144)
)
normal = pytest.mark.parametrize(
    ("likelihood", "method"), covering(suited(NORMAL), *KINDS, one_in=144)
)


def build(likelihood: Likelihood, X: Array, y: Array, **more: Any) -> pr.Model:
    return pr.Model.from_arrays(X, y, **(recipe_of(likelihood) | more))


def moments(fit: pr.Fit) -> tuple[Array, Array]:
    """Coefficients (p, outcomes) and their covariance (p, outcomes, p, outcomes)."""
    beta = fit.coef.values.reshape(len(fit.coef), -1)
    return beta, fit.covariance().values.reshape(*beta.shape, *beta.shape)


def same_moments(fit: pr.Fit, beta: Array, cov: Array) -> None:
    """To rounding, or for a method that promises less, to twice its accuracy in standard errors."""
    found, spread = moments(fit)
    near, se = fit.method.accuracy, np.sqrt(np.einsum("iaia->ia", cov))
    np.testing.assert_allclose(found, beta, rtol=RTOL, atol=ATOL + 2 * near * se.max())
    np.testing.assert_allclose(
        spread, cov, rtol=10 * RTOL, atol=(ATOL + 2 * near) * np.abs(cov).max()
    )


def same_rest(a: pr.Fit, b: pr.Fit, scale: float = 1.0) -> None:
    near = a.method.accuracy
    for name in a.aux:
        assert a.aux[name] == pytest.approx(scale * b.aux[name], rel=RTOL + near)
    for name in a.solution.aux_sd:
        assert a.solution.aux_sd[name] == pytest.approx(
            scale * b.solution.aux_sd[name], rel=1e-5 + near
        )


@normal
def test_the_order_of_rows_changes_nothing(likelihood, method):
    X, y = rows_for(likelihood)
    order = np.random.default_rng(0).permutation(len(y))
    offset = (
        None if getattr(likelihood, "symmetric", False) else np.cos(np.arange(len(y)))
    )
    w = np.arange(len(y)) % 3 + 1
    one = pr.fit(
        build(likelihood, X, y, prior=NORMAL, offset=offset, weights=w), method
    )
    shuffled = None if offset is None else offset[order]
    two = pr.fit(
        build(
            likelihood,
            X[order],
            y[order],
            prior=NORMAL,
            offset=shuffled,
            weights=w[order],
        ),
        method,
    )
    # a seed draws row numbers, so that other rows stand in each replicate
    if method.name == "bootstrap":
        np.testing.assert_allclose(two.coef, one.coef, rtol=RTOL, atol=ATOL)
        return
    same_moments(two, *moments(one))
    same_rest(two, one)
    assert two.log_likelihood == pytest.approx(
        one.log_likelihood, rel=1e-9, abs=method.accuracy
    )


@normal
def test_the_order_of_columns_is_the_order_of_coefficients(likelihood, method):
    X, y = rows_for(likelihood)
    order = [2, 0, 1]
    one = pr.fit(build(likelihood, X, y, prior=NORMAL), method)
    moved = Normal(tuple(np.array(NORMAL.scale)[order]))
    names = [f"x{j + 1}" for j in order]
    two = pr.fit(build(likelihood, X[:, order], y, columns=names, prior=moved), method)
    assert list(two.coef["coef"].values) == ["Intercept", *names]
    np.testing.assert_allclose(
        two.coef.sel(coef=one.coef["coef"]), one.coef, rtol=RTOL, atol=ATOL
    )
    beta, cov = moments(one)
    at = [0, *(j + 1 for j in order)]
    same_moments(two, beta[at], cov[at][:, :, at])
    same_rest(two, one)


def moved_columns(fit: pr.Fit, shift: Array, scale: Array) -> tuple[Array, Array]:
    """The moments on columns shift + scale x."""
    beta, cov = moments(fit)
    T = np.diag(np.r_[1.0, 1 / scale])
    T[0, 1:] = -shift / scale
    return T @ beta, np.einsum("ij,jakb,lk->ialb", T, cov, T)


SHIFT, STRETCH = np.array([5.0, -300.0, 0.1]), np.array([1000.0, 1.0, 0.003])


@flat
def test_units_of_columns_are_units_of_coefficients(likelihood, method):
    X, y = rows_for(likelihood)
    one = pr.fit(build(likelihood, X, y), method)
    two = pr.fit(build(likelihood, SHIFT + STRETCH * X, y), method)
    beta, cov = moved_columns(one, SHIFT, STRETCH)
    found, spread = moments(two)
    se = np.sqrt(np.einsum("iaia->ia", cov))
    # in standard errors
    np.testing.assert_allclose((found - beta) / se, 0.0, atol=1e-6)
    shape = np.einsum("ia,kb->iakb", se, se)
    np.testing.assert_allclose((spread - cov) / shape, 0.0, atol=1e-6)
    same_rest(two, one)
    assert two.log_likelihood == pytest.approx(
        one.log_likelihood, rel=1e-9, abs=method.accuracy
    )


@normal
def test_priors_in_the_new_units_give_the_same_answer_in_them(likelihood, method):
    X, y = rows_for(likelihood)
    one = pr.fit(build(likelihood, X, y, prior=NORMAL), method)
    scaled = Normal(tuple(np.array(NORMAL.scale) / STRETCH))
    two = pr.fit(build(likelihood, SHIFT + STRETCH * X, y, prior=scaled), method)
    beta, cov = moved_columns(one, SHIFT, STRETCH)
    found, spread = moments(two)
    se = np.sqrt(np.einsum("iaia->ia", cov))
    np.testing.assert_allclose((found - beta) / se, 0.0, atol=1e-6)
    np.testing.assert_allclose(
        (spread - cov) / np.einsum("ia,kb->iakb", se, se), 0.0, atol=1e-6
    )
    same_rest(two, one)


@pytest.mark.parametrize(
    ("likelihood", "method", "aux", "prior"),
    covering(
        itertools.product(
            [v for v in LIKELIHOOD_CASES if v.noise_scale],
            ESTIMATORS,
            [{}, {"sigma": 0.7}],
            [FLAT, Normal(0.8, location=0.3, sigma_units=True)],
        ),
        lambda v, k, aux, p: v,
        lambda v, k, aux, p: k.name,
        lambda v, k, aux, p: (likelihood_kind(v), p.name, *aux),
        one_in=144,
    ),
)
def test_units_of_the_response_are_units_of_everything(likelihood, method, aux, prior):
    """y -> c y: coefficients, their errors and sigma are multiplied by c; a prior in units of sigma follows by itself."""
    c = 250.0
    X, y = rows_for(likelihood)
    one = build(likelihood, X, y, prior=prior, aux=aux)
    location = c * getattr(prior, "location", 0.0)
    new = (
        prior
        if prior == FLAT
        else Normal(prior.scale, location=location, sigma_units=True)
    )
    two = build(likelihood, X, c * y, prior=new, aux={k: c * v for k, v in aux.items()})
    if method.obstacle(one) is not None:
        assert method.obstacle(two) is not None
        return
    a, b = pr.fit(one, method), pr.fit(two, method)
    beta, cov = moments(a)
    same_moments(b, c * beta, c**2 * cov)
    same_rest(b, a, c)
    assert b.log_likelihood == pytest.approx(
        a.log_likelihood - len(y) * np.log(c), rel=1e-9
    )


@pytest.mark.parametrize(
    "prior", [Normal(0.8, location=0.3), Normal(precision_matrix=PRECISION)], ids=named
)
@pytest.mark.parametrize("method", ["newton", "quadrature", "laplace"])
def test_priors_of_sigma_in_the_new_units_follow(method, prior):
    c = 40.0
    X, y = rows_for(pr.Gaussian())
    moved = (
        Normal(0.8 * c, location=0.3 * c)
        if prior.precision_matrix is None
        else Normal(precision_matrix=tuple(map(tuple, np.array(PRECISION) / c**2)))
    )
    a = pr.fit(
        build(
            pr.Gaussian(), X, y, prior=prior, aux={"sigma": pr.priors.HalfCauchy(0.4)}
        ),
        method,
    )
    b = pr.fit(
        build(
            pr.Gaussian(),
            X,
            c * y,
            prior=moved,
            aux={"sigma": pr.priors.HalfCauchy(0.4 * c)},
        ),
        method,
    )
    beta, cov = moments(a)
    same_moments(b, c * beta, c**2 * cov)
    same_rest(b, a, c)


@flat
def test_an_offset_along_a_column_shifts_its_coefficient(likelihood, method):
    """eta = X beta + c x_2 has the same fit with beta_2 lower by c."""
    if getattr(likelihood, "symmetric", False):
        with pytest.raises(pr.Incompatible, match="symmetric softmax takes no offset"):
            model_for(likelihood, offset=np.ones(60))
        return
    X, y = rows_for(likelihood)
    c = np.linspace(0.7, -0.4, likelihood.width)
    one = pr.fit(build(likelihood, X, y), method)
    two = pr.fit(build(likelihood, X, y, offset=X[:, [1]] * c), method)
    beta, cov = moments(one)
    same_moments(two, beta - np.outer([0, 0, 1, 0], c), cov)
    same_rest(two, one)
    assert two.log_likelihood == pytest.approx(
        one.log_likelihood, rel=1e-9, abs=method.accuracy
    )
    # the same means and intervals at new rows, given their offset
    if method.target == "mode":
        new = X[:5] + 0.3
        left, right = one.predict(new), two.predict(new, offset=new[:, [1]] * c)
        for name in ("mean", "mean_lower", "mean_upper"):
            np.testing.assert_allclose(
                left[name], right[name], rtol=1e-6, atol=method.accuracy
            )
        with pytest.raises(pr.DataError, match="pass offset="):
            two.predict(new)


@pytest.mark.parametrize("method", ["newton", "laplace"])
@pytest.mark.parametrize("prior", [None, Normal(0.8)], ids=["flat", "normal"])
def test_swapping_the_event_flips_signs(method, prior):
    X, y = rows_for(pr.Bernoulli(levels=("no", "yes")))
    yes, no = (
        pr.Model.from_arrays(
            X, y, likelihood="bernoulli", event=e, prior=prior or pr.Flat()
        )
        for e in ("yes", "no")
    )
    a, b = pr.fit(yes, method), pr.fit(no, method)
    np.testing.assert_allclose(b.coef, -a.coef, rtol=RTOL)
    np.testing.assert_allclose(b.covariance(), a.covariance(), rtol=10 * RTOL)
    assert "P(y = yes)" in a.described["models"]
    assert "P(y = no)" in b.described["models"]
    if method == "newton":
        np.testing.assert_allclose(
            b.predict()["mean"], 1 - a.predict()["mean"], rtol=1e-8
        )
        np.testing.assert_allclose(
            b.predict()["mean_lower"], 1 - a.predict()["mean_upper"], rtol=1e-7
        )


def test_another_reference_class_is_a_difference_of_coefficients():
    X, y = rows_for(pr.Categorical(levels=("a", "b", "c")))
    fits = {
        r: pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical", reference=r))
        for r in "abc"
    }
    for r, fit in fits.items():
        assert r not in fit.coef["outcome"].values
        assert f"reference class {r}" in fit.described["models"]
        assert fit.log_likelihood == pytest.approx(fits["a"].log_likelihood, rel=1e-10)
        for name, value in fit.predict().data_vars.items():
            np.testing.assert_allclose(
                value, fits["a"].predict()[name], rtol=1e-6, err_msg=str(name)
            )
    ab, ba = fits["a"].coef.sel(outcome="b"), fits["b"].coef.sel(outcome="a")
    np.testing.assert_allclose(ab, -ba, rtol=RTOL, atol=ATOL)
    cb = fits["b"].coef.sel(outcome="c")
    np.testing.assert_allclose(
        fits["a"].coef.sel(outcome="c") - ab, cb, rtol=RTOL, atol=ATOL
    )
    V = fits["a"].covariance()
    contrast = [
        V.sel(param=f"x1: {i}", param_=f"x1: {j}").item() for i in "bc" for j in "bc"
    ]
    expected = np.sqrt(contrast[0] + contrast[3] - 2 * contrast[1])
    assert fits["b"].std_error.sel(coef="x1", outcome="c").item() == pytest.approx(
        expected, rel=1e-6
    )


@pytest.mark.parametrize("prior", [None, Normal(0.6)], ids=["flat", "normal"])
def test_renaming_classes_renames_outcomes(prior):
    """In the symmetric form even under a prior; the order in which levels sort must not matter."""
    likelihood = pr.Categorical(levels=("a", "b", "c"), symmetric=True)
    X, y = rows_for(likelihood)
    new = {"a": "z", "b": "m", "c": "k"}
    one = pr.fit(
        pr.Model.from_arrays(X, y, likelihood=likelihood, prior=prior or pr.Flat())
    )
    two = pr.fit(
        pr.Model.from_arrays(
            X,
            np.array([new[v] for v in y]),
            likelihood=pr.Categorical(symmetric=True),
            prior=prior or pr.Flat(),
        )
    )
    for old, name in new.items():
        np.testing.assert_allclose(
            two.coef.sel(outcome=name), one.coef.sel(outcome=old), rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(
            two.std_error.sel(outcome=name), one.std_error.sel(outcome=old), rtol=1e-6
        )
    np.testing.assert_allclose(
        two.predict()["mean"].sel(level=list("zmk")),
        one.predict()["mean"].sel(level=list("abc")),
        rtol=1e-7,
    )


@pytest.mark.parametrize(
    "likelihood", [v for v in LIKELIHOOD_CASES if v.noise_scale], ids=named
)
def test_shifting_the_response_shifts_the_intercept(likelihood):
    X, y = rows_for(likelihood)
    prior = Normal(0.8)
    a, b = (
        pr.fit(
            build(likelihood, X, y, prior=prior),
            "auto" if isinstance(likelihood, ProximalLikelihood) else "newton",
        ),
        pr.fit(
            build(likelihood, X, y + 1e4, prior=prior),
            "auto" if isinstance(likelihood, ProximalLikelihood) else "newton",
        ),
    )
    beta, cov = moments(a)
    same_moments(b, beta + 1e4 * np.eye(4)[:, [0]], cov)
    same_rest(b, a)
    assert auxiliaries(likelihood)
