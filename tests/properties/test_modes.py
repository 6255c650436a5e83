"""Laws of modes under priors with kinks: certificates computed afresh, limits that other methods know, paths that are fits."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import probreg as pr
from probreg import priors
from probreg.inference import (
    METHODS,
    CoordinateDescent,
    Method,
    ProximalNewton,
    Status,
    default_scales,
    mode_path,
)
from probreg.inference.penalized import coordinate_loops
from probreg.inference.penalized.degrees import degrees_of_freedom
from probreg.inference.penalized.nonsmooth import SearchCoordinates, start_of
from probreg.inference.penalized.paths import rescale_model
from probreg.inference.penalized.penalty import KinkedPenalty, minimise
from probreg.likelihoods import SmoothLikelihood
from probreg.priors import (
    ElasticNet,
    ExponentialPower,
    GroupLaplace,
    Laplace,
    Normal,
    ProximalPrior,
)

from .cases import (
    DATA_DEPENDENT_PRIORS,
    LIKELIHOOD_CASES,
    PRIOR_CASES,
    Array,
    accepted,
    auxiliaries,
    covering,
    gradient,
    likelihood_kind,
    model_for,
    models_of,
    named,
    recipe_of,
    rows_for,
)

KINKED = [p for p in PRIOR_CASES if isinstance(p, ProximalPrior)]
MIXED: list[Any] = [
    {"x1": Laplace(0.07), ("x2", "x3"): Normal(0.4)},
    {"Intercept": ElasticNet(0.2, ratio=0.4), "x2": priors.StudentT(0.6, nu=5.0)},
    {
        ("x1", "x3"): GroupLaplace(0.2, groups=((0, 1),)),
        "x2": ElasticNet(0.2, ratio=0.6),
        "Intercept": Normal(2.0),
    },
    {
        "x1": Laplace(0.3, sigma_units=True),
        "x2": Normal(0.5, sigma_units=True),
        "x3": ExponentialPower(0.2, q=1.4),
    },
]
METHODS_HERE: list[Method] = [CoordinateDescent(), ProximalNewton()]


CASES = [
    (model, k)
    for model in models_of([*KINKED, *DATA_DEPENDENT_PRIORS, *MIXED])
    for k in METHODS_HERE
    if k.obstacle(model) is None
]
# Quick are each method with each kind of likelihood, with each prior, and with each treatment of sigma.
over = pytest.mark.parametrize(
    ("model", "method"),
    covering(
        CASES,
        lambda m, k: (k.name, likelihood_kind(m.likelihood)),
        lambda m, k: (k.name, named(m.prior)),
        lambda m, k: (k.name, *map(type, m.aux.values())),
        one_in=72,
    ),
)


def smooth_log_density(model: pr.Model, x: Array) -> float:
    """log posterior over (vec beta, log aux), without the log prior of the blocks that have kinks."""
    k = model.shape[0] * model.shape[1]
    beta, aux = (
        x[:k].reshape(model.shape),
        {a: float(np.exp(v)) for a, v in zip(model.unknown, x[k:])},
    )
    known = {**model.fixed, **aux}
    total = float(model.log_posterior(beta, **aux)) + x[k:].sum()
    return total - sum(
        float(b.prior.log_prob(beta[list(b.columns)], unit(model, b, known)))
        for b in kinked(model)
    )


def kinked(model: pr.Model) -> list[Any]:
    return [b for b in model.joint.blocks if isinstance(b.prior, ProximalPrior)]


def unit(model: pr.Model, block: Any, known: dict[str, float]) -> float:
    return model.likelihood.noise(known) if block.prior.sigma_units else 1.0


def sigma_slope(model: pr.Model, beta: Array, known: dict[str, float]) -> float:
    """d/d log sigma of the log prior of the kinked blocks in its units: -(beta - a)' slope - q m, off the kinks."""
    total = 0.0
    for b in kinked(model):
        if b.prior.sigma_units:
            at = beta[list(b.columns)]
            r = at - np.broadcast_to(b.prior.location, len(at))[:, None]
            low, high = b.prior.subgradient(at, model.likelihood.noise(known))
            total += (
                float(
                    np.where(
                        r == 0,
                        0.0,
                        r * np.where(np.isfinite(low), (low + high) / 2, 0.0),
                    ).sum()
                )
                - r.size
            )
    return total


def certificate(fit: pr.Fit) -> Array:
    """The distance of zero from the subdifferential over (vec beta, log aux), in conditional standard errors."""
    model, s = fit.model, fit.solution
    k, known = s.beta.size, fit.aux
    x = np.r_[s.beta.ravel(), np.log([s.aux[a] for a in model.unknown])]
    flat = model.with_prior(pr.Flat())
    se = 1 / np.sqrt(
        np.abs(np.diagonal(flat.value_grad_hessian(s.beta, **s.aux).curvature))
    )
    g = (
        -gradient(lambda t: smooth_log_density(model, x + se * t), np.zeros(len(x)))
        / se
    )
    low, high = np.zeros(len(x)), np.zeros(len(x))
    for b in kinked(model):
        at = np.array(b.columns)[:, None] * model.shape[1] + np.arange(model.shape[1])
        ends = b.prior.subgradient(s.beta[list(b.columns)], unit(model, b, known))
        low[at], high[at] = ends
        for of in b.prior.members(len(at)) if isinstance(b.prior, GroupLaplace) else ():
            for predictor in range(model.shape[1]):
                j = at[of, predictor]
                # at the kink: what a point of the ball D u, |u| <= 1, leaves of the slope
                if (low[j] != high[j]).any():
                    D = 1 / (
                        np.broadcast_to(b.prior.scales, len(at))[of]
                        * unit(model, b, known)
                    )
                    low[j] = high[j] = -g[j] / max(np.linalg.norm(g[j] / D), 1.0)
    if model.noise_unknown:
        g[k + model.unknown.index(model.noise_scale)] -= sigma_slope(
            model, s.beta, known
        )
    return np.maximum(np.maximum(g + low, -(g + high)), 0.0) * se


@over
def test_a_mode_has_a_certificate(model, method):
    """Zero is in the subdifferential of the negative log posterior by the prior's own subgradient and numerical slopes of
    the rest, and no point nearby is better."""
    fit = pr.fit(model, method)
    assert fit.solution.status is Status.CONVERGED
    # both methods stop within 1e-8 standard errors; differences of a log posterior of size 100 cost 1e-11 / 2e-3
    # where the second derivative jumps, differences over 2e-3 standard errors are off by its share of the rows
    assert certificate(fit).max() < (1e-5 if model.likelihood.name == "huber" else 1e-7)
    assert fit.solution.stats["kkt"] <= 1e-8
    rng, top = (
        np.random.default_rng(0),
        total(model, fit.solution.beta, fit.solution.aux),
    )
    for size in (1e-4, 1e-2, 0.1):
        for _ in range(8):
            beta = fit.solution.beta + size * rng.standard_normal(model.shape)
            aux = {
                a: v * np.exp(size * rng.standard_normal())
                for a, v in fit.solution.aux.items()
            }
            assert total(model, beta, aux) <= top + 1e-9


def total(model: pr.Model, beta: Array, aux: dict[str, float]) -> float:
    return float(model.log_posterior(beta, **aux)) + float(
        sum(np.log(v) for v in aux.values())
    )


@pytest.mark.parametrize(
    ("model", "method"),
    covering(
        CASES[::7],
        lambda m, k: likelihood_kind(m.likelihood),
        lambda m, k: k.name,
        one_in=128,
    ),
)
def test_the_mode_has_no_standard_errors_and_all_that_reads_it_copes(
    model, method, tmp_path
):
    fit = pr.fit(model, method)
    assert np.isnan(fit.solution.scale.matrix()).all()
    table = fit.summary()
    assert table["estimate"].notna().all()
    # what is held is known exactly
    unknown = table[table["std_error"] != 0.0]
    assert len(unknown) >= fit.solution.beta.size
    assert unknown[["std_error", "lower", "upper"]].isna().all(axis=None)
    with pytest.raises(pr.Incompatible, match="no standard errors"):
        fit.interval()
    assert any("no standard errors" in n for n in map(str, fit.solution.notes))
    found = fit.predict()
    assert np.isfinite(found["mean"]).all()
    assert np.isnan(found["mean_lower"]).all()
    assert "sampling" not in fit.tree
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    assert_allclose(again.coef, fit.coef, rtol=0)
    assert fit.covariance().isnull().all()


# ---- the form of kinks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", KINKED, ids=named)
def test_kinks_are_the_log_density_up_to_a_constant(prior):
    kinks, rng = prior.kinks(3), np.random.default_rng(2)
    label = np.arange(3)
    for g in kinks.groups:
        label[g] = g[0]
    center = np.broadcast_to(np.asarray(prior.location, dtype=float), 3)
    penalty = KinkedPenalty(
        kinks.metric, np.full(3, kinks.exponent), kinks.ridge, center, label
    )
    beta = rng.normal(size=(6, 3))
    total = [penalty.value(b) + float(prior.log_prob(b[:, None])) for b in beta]
    assert_allclose(total, total[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("prior", KINKED, ids=named)
@pytest.mark.parametrize("step", [0.04, 0.7, 11.0])
def test_descent_on_a_diagonal_quadratic_is_the_proximal_map(prior, step):
    kinks = prior.kinks(3)
    label = np.arange(3)
    for g in kinks.groups:
        label[g] = g[0]
    center = np.broadcast_to(np.asarray(prior.location, dtype=float), 3)
    penalty = KinkedPenalty(
        kinks.metric, np.full(3, kinks.exponent), kinks.ridge, center, label
    )
    rng, G = np.random.default_rng(3), np.eye(3) / step
    for at in 2.0 * rng.normal(size=(3, 3)):
        u = penalty.sweep(G, at / step, at, 1e-12)
        value = ((u - at) ** 2).sum() / (2 * step) + penalty.value(u)
        assert penalty.distance((u - at) / step, u).max() * np.sqrt(step) < 1e-9
        for scale in (1e-3, 0.1, 1.0):
            near = u + scale * rng.normal(size=(50, 3)) * (rng.random((50, 3)) < 0.5)
            near = np.r_[near, [center]]
            others = [
                ((v - at) ** 2).sum() / (2 * step) + penalty.value(v) for v in near
            ]
            assert value <= min(others) + 1e-9


def test_descent_solves_a_group_with_a_ridge_in_one_pass(monkeypatch):
    """A group is minimised exactly given the others, so that a group alone needs one pass, and another to confirm it."""
    rng = np.random.default_rng(7)
    X, center = rng.normal(size=(12, 3)), np.array([0.2, -0.1, 0.4])
    penalty = KinkedPenalty(
        np.array([2.0, 1.0, 3.0]),
        np.ones(3),
        np.array([0.5, 4.0, 9.0]),
        center,
        np.zeros(3, int),
    )
    passes = []
    descend = coordinate_loops.descend
    monkeypatch.setattr(
        coordinate_loops,
        "descend",
        lambda *arguments: (passes.append(1), descend(*arguments)),
    )
    G, c = X.T @ X, 12.0 * rng.normal(size=3)
    x = penalty.sweep(G, c, rng.normal(size=3), 1e-10)
    assert not penalty.at_kink(x).any()
    assert penalty.distance(G @ x - c, x).max() < 1e-9
    assert len(passes) == 2


# ---- identities ----------------------------------------------------------------------------------------------------


def orthonormal(n: int = 40) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    Q = np.linalg.qr(np.c_[np.ones(n), rng.normal(size=(n, 4))])[0][:, 1:]
    return Q, Q @ [2.0, -0.3, 0.9, 0.0] + 0.3 * rng.normal(size=n) + 4.0


@pytest.mark.parametrize("method", METHODS_HERE, ids=named)
def test_on_orthonormal_columns_the_lasso_is_a_soft_threshold(method):
    Q, y = orthonormal()
    fit = pr.fit(
        pr.Model.from_arrays(Q, y, prior=Laplace(1.6), aux={"sigma": 0.8}), method
    )
    z = Q.T @ y
    assert_allclose(
        fit.coef[1:],
        np.sign(z) * np.maximum(np.abs(z) - 0.64 / 1.6, 0),
        rtol=1e-9,
        atol=1e-12,
    )
    assert (fit.coef.values[1:][np.abs(z) < 0.4] == 0).all()


@pytest.mark.parametrize(
    "likelihood",
    covering(
        [
            v
            for v in LIKELIHOOD_CASES
            if isinstance(v, SmoothLikelihood) and not getattr(v, "symmetric", False)
        ],
        likelihood_kind,
    ),
)
@pytest.mark.parametrize("units", [False, True])
def test_limits_of_the_elastic_net_and_the_bridge(likelihood, units):
    if units and likelihood.noise_scale is None:
        return
    ridge = pr.fit(
        model_for(likelihood, Normal(0.3, location=0.1, sigma_units=units)), "newton"
    )
    lasso = pr.fit(
        model_for(likelihood, Laplace(0.1, location=0.1, sigma_units=units)),
        "proximal_newton",
    )
    for prior, same in (
        (ElasticNet(0.3, ratio=0.0, location=0.1, sigma_units=units), ridge),
        (
            ExponentialPower(0.3 * np.sqrt(2), q=2.0, location=0.1, sigma_units=units),
            ridge,
        ),
        (ElasticNet(0.1, ratio=1.0, location=0.1, sigma_units=units), lasso),
        (ExponentialPower(0.1, q=1.0, location=0.1, sigma_units=units), lasso),
        (ExponentialPower(0.1, q=1.0 + 1e-9, location=0.1, sigma_units=units), lasso),
    ):
        fit = pr.fit(model_for(likelihood, prior), "proximal_newton")
        # exponents 1e-9 apart move log p, and with it the mode, by some 1e-9
        assert_allclose(fit.coef, same.coef, rtol=1e-6, atol=1e-7)
        assert_allclose(list(fit.aux.values()), list(same.aux.values()), rtol=1e-6)


GAUSSIAN = [(m, k) for m, k in CASES if k.name == "coordinate_descent"]


@pytest.mark.parametrize(
    "model",
    covering(
        [m for m, _ in GAUSSIAN],
        lambda m: named(m.prior),
        lambda m: tuple(map(type, m.aux.values())),
        one_in=16,
    ),
)
def test_two_methods_find_one_mode(model):
    one, two = pr.fit(model, "coordinate_descent"), pr.fit(model, "proximal_newton")
    assert_allclose(one.coef, two.coef, rtol=1e-7, atol=1e-8)
    assert_allclose(list(one.aux.values()), list(two.aux.values()), rtol=1e-8)
    assert ((one.solution.beta == 0) == (two.solution.beta == 0)).all()


@pytest.mark.parametrize(
    ("likelihood", "prior", "method"),
    covering(
        [
            (v, prior, k)
            for v, prior, k in itertools.product(
                LIKELIHOOD_CASES,
                [
                    Laplace(0.1),
                    ElasticNet(0.1, ratio=0.6, location=0.1),
                    ExponentialPower(0.2, q=0.6),
                ],
                METHODS_HERE,
            )
            if (m := accepted(v, prior)) is not None and k.obstacle(m) is None
        ],
        likelihood_kind,
        lambda v, prior, k: (named(prior), k.name),
        one_in=24,
    ),
)
def test_a_weight_is_a_number_of_copies(likelihood, prior, method):
    X, y = rows_for(likelihood)
    w = np.arange(len(y)) % 4
    again, options = (
        np.repeat(np.arange(len(y)), w),
        recipe_of(likelihood) | {"prior": prior},
    )
    a = pr.Model.from_arrays(X, y, weights=w, **options)
    one, two = (
        pr.fit(m, method)
        for m in (a, pr.Model.from_arrays(X[again], y[again], **options))
    )
    assert_allclose(one.coef, two.coef, rtol=1e-7, atol=1e-9)
    assert_allclose(list(one.aux.values()), list(two.aux.values()), rtol=1e-8)
    assert one.log_likelihood == pytest.approx(two.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("units", [False, True])
def test_sigma_of_the_joint_mode_solves_its_equation(units):
    """N sigma^2 = A + B sigma: N counts rows and coefficients in units of sigma, A squares, B the l1 sum in units."""
    prior = ElasticNet(0.2, ratio=0.7, sigma_units=units)
    fit = pr.fit(model_for(pr.Gaussian(), prior), "coordinate_descent")
    d, s = fit.model.design, fit.aux["sigma"]
    rss = ((d.observed - d.X @ fit.coef.values) ** 2).sum()
    b = fit.coef.values[1:] / 0.2
    N, A, B = (
        (60 + 3, rss + 0.3 * b @ b, 0.7 * np.abs(b).sum()) if units else (60, rss, 0.0)
    )
    assert N * s**2 == pytest.approx(A + B * s, rel=1e-9)


# ---- rows, moments, many columns -----------------------------------------------------------------------------------


def wide(n: int, p: int, seed: int = 1) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 0.6 * rng.normal(size=(n, 1)) + rng.uniform(-3, 3, p)
    return X, X[:, :3] @ [2.0, -1.5, 1.0] + rng.normal(size=n)


@pytest.mark.parametrize(("n", "p"), [(80, 400), (700, 310), (80, 40)])
@pytest.mark.parametrize(
    "prior",
    [Laplace(0.05), ElasticNet(0.05, ratio=0.8), Laplace(0.1, sigma_units=True)],
    ids=named,
)
def test_rows_and_working_sets_end_at_the_certificate(n, p, prior):
    """More columns than rows, and columns past what moments serve: certificates from the rows alone."""
    X, y = wide(n, p)
    held = {} if prior.sigma_units else {"sigma": 1.0}
    fit = pr.fit(
        pr.Model.from_arrays(X, y, prior=prior, aux=held, weights=np.arange(n) % 3 + 1)
    )
    assert fit.method.name == "coordinate_descent"
    d, s = fit.model.design, fit.aux["sigma"]
    b = fit.coef.values
    g = d.X.T @ (d.weights * (d.observed - d.X @ b)) / s**2
    low, high = prior.subgradient(b[1:, None], s if prior.sigma_units else 1.0)
    off = np.r_[
        abs(g[0]), np.maximum(np.maximum(low[:, 0] - g[1:], g[1:] - high[:, 0]), 0)
    ]
    assert (off / np.sqrt((d.weights @ d.X**2) / s**2)).max() < 1e-8
    assert (b == 0).sum() > 0.1 * p


@pytest.mark.parametrize("seed", [1, 3])
def test_a_weak_lasso_of_more_columns_than_rows_is_exact(seed):
    """The Hessian over the coefficients off zero is singular on the way to the mode, which is unique and has at most n of them."""
    rng = np.random.default_rng(seed)
    n, scale = 30, 50.0
    X = rng.normal(size=(n, 100))
    y = X[:, :4] @ [3.0, -2.0, 1.0, 1.0] + rng.normal(size=n)
    fit = pr.fit(
        pr.Model.from_arrays(X, y, prior=pr.priors.Laplace(scale), aux={"sigma": 1.0})
    )
    beta = fit.solution.beta[:, 0]
    slope = X.T @ (y - beta[0] - X @ beta[1:])
    is_zero = beta[1:] == 0.0
    assert np.count_nonzero(~is_zero) < n
    np.testing.assert_allclose(
        slope[~is_zero], np.sign(beta[1:][~is_zero]) / scale, rtol=1e-9
    )
    assert np.abs(slope[is_zero]).max() <= 1.0 / scale


def test_moments_alone_give_the_mode(tmp_path):
    X, y = wide(80, 40)
    model = pr.Model.from_arrays(X, y, prior=Laplace(0.05))
    fit = pr.fit(model)
    bare = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert bare.model.design.n == 0
    assert_allclose(pr.fit(bare.model).coef, fit.coef, rtol=1e-9, atol=1e-12)
    assert_allclose(
        mode_path(bare.model, 1.0).beta[0, :, 0], fit.coef, rtol=1e-8, atol=1e-11
    )
    with pytest.raises(pr.DataError, match="saved without its rows"):
        mode_path(bare.model.with_prior(ExponentialPower(1.0, q=1.5)), 1.0)


def test_columns_that_are_combinations():
    """Copies share what a lasso gives to one; what flat columns span is flat's own, and flat copies are not identified."""
    X, y = wide(60, 3)
    double = np.c_[X, X[:, 0]]
    for method in METHODS_HERE:
        one = pr.fit(
            pr.Model.from_arrays(X, y, prior=Laplace(0.05), aux={"sigma": 1.0}), method
        )
        two = pr.fit(
            pr.Model.from_arrays(double, y, prior=Laplace(0.05), aux={"sigma": 1.0}),
            method,
        )
        assert two.coef.values[1] + two.coef.values[4] == pytest.approx(
            one.coef.values[1], rel=1e-8
        )
        constant = np.c_[X, np.full(60, 2.0)]
        three = pr.fit(
            pr.Model.from_arrays(constant, y, prior=Laplace(0.05), aux={"sigma": 1.0}),
            method,
        )
        assert three.coef.values[4] == 0.0
        assert_allclose(three.coef[:4], one.coef, rtol=1e-8)
        free = pr.Model.from_arrays(
            double, y, prior={"x2": Laplace(0.05)}, aux={"sigma": 1.0}
        )
        with pytest.warns(pr.ProbregWarning, match="not identified.*x4 = x1"):
            fit = pr.fit(free, method)
        assert np.isnan(fit.coef.sel(coef=["x1", "x4"])).all()
        assert np.isfinite(fit.coef.sel(coef=["Intercept", "x2", "x3"])).all()


def test_a_density_that_rises_without_end_is_refused():
    X, y = wide(20, 40)
    model = pr.Model.from_arrays(X, y, prior=Laplace(5.0))
    with pytest.raises(pr.NotConverged, match="sigma runs to 0"):
        pr.fit(model)
    assert pr.fit(model.with_prior(Laplace(0.2, sigma_units=True))).solution.status.good


def test_a_saturated_fit_has_its_certificate():
    """In units of an unknown sigma and with far more columns than rows the mode takes as many of them as there are rows,
    where the system of the active ones is singular on the way."""
    X, y = wide(30, 250)
    fit = pr.fit(pr.Model.from_arrays(X, y, prior=Laplace(0.1, sigma_units=True)))
    assert fit.solution.status is Status.CONVERGED
    assert (fit.coef[1:] != 0).sum() <= 30


# ---- modes that are local, data that are separated -----------------------------------------------------------------


def test_a_cusp_says_that_its_mode_is_local_and_comes_again():
    model = model_for(pr.Bernoulli(), ExponentialPower(0.3, q=0.5))
    one, two = pr.fit(model), pr.fit(model)
    np.testing.assert_array_equal(one.coef, two.coef)
    assert any("local" in n and "cusp" in n for n in map(str, one.solution.notes))
    zero = pr.fit(model.with_prior(ExponentialPower(1e-3, q=0.5))).solution.beta
    assert (zero[1:] == 0).all()
    rng = np.random.default_rng(0)
    for size in (
        1e-12,
        1e-8,
        1e-6,
    ):  # zero is a local mode of any cusp, though not the highest
        near = zero + size * np.r_[0, rng.normal(size=3)][:, None]
        assert model.log_posterior(near) < model.log_posterior(zero)
    assert not any(
        "local" in n
        for n in map(str, pr.fit(model.with_prior(Laplace(0.3))).solution.notes)
    )


def test_separated_data_have_a_mode_and_flat_separated_columns_do_not():
    x = np.r_[-np.ones(10), np.ones(10)] * np.linspace(1, 2, 20)
    z = np.random.default_rng(3).normal(size=20)
    model = pr.Model.from_arrays(
        np.c_[x, z],
        (x > 0).astype(int),
        likelihood="bernoulli",
        columns=["x", "z"],
        prior=Laplace(1.0),
    )
    assert np.isfinite(pr.fit(model).coef).all()
    with pytest.warns(
        pr.ProbregWarning, match="no maximum likelihood estimate exists.*separation.*x"
    ):
        fit = pr.fit(model.with_prior({"z": Laplace(1.0)}))
    assert np.isnan(fit.coef.sel(coef="x"))


def test_auto_goes_down_the_ladder():
    def chosen(likelihood: Any, prior: Any, **more: Any) -> str:
        return METHODS["auto"]().choose(model_for(likelihood, prior, **more))[0].name

    assert chosen(pr.Gaussian(), Laplace(0.1)) == "coordinate_descent"
    assert chosen(pr.Gaussian(), ExponentialPower(0.1, q=1.5)) == "proximal_newton"
    assert chosen(pr.Poisson(), ElasticNet(0.1)) == "proximal_newton"
    assert chosen(pr.Poisson(), Normal(0.1)) == "newton"
    assert chosen(pr.Gaussian(), Laplace(pr.HalfNormal(1.0))) == "nuts"


# ---- paths ---------------------------------------------------------------------------------------------------------

PATHS = [
    (pr.Gaussian(), Normal(0.5), {"sigma": 0.7}),
    (pr.Gaussian(), Normal(0.5, location=0.2, sigma_units=True), {}),
    (pr.Gaussian(), Normal(0.5), {}),
    (pr.Gaussian(), Laplace(0.2), {"sigma": 0.7}),
    (pr.Gaussian(), ElasticNet(0.2, ratio=0.4), {}),
    (pr.Gaussian(), Laplace(0.2, sigma_units=True, location=0.1), {}),
    (pr.Gaussian(), {"x1": Laplace(0.2), "x2": Normal(0.3)}, {}),
    (pr.Gaussian(), ExponentialPower(0.2, q=1.5), {}),
    (pr.Bernoulli(), Laplace(0.2), {}),
    (pr.Bernoulli(), ExponentialPower(0.2, q=0.6), {}),
    (pr.Poisson(), ElasticNet(0.2), {}),
    (pr.Poisson(), Normal(0.2), {}),
    (pr.Categorical(), Laplace(0.2), {}),
    (pr.StudentT(), Laplace(0.2), {}),
]


@pytest.mark.parametrize(("likelihood", "prior", "aux"), PATHS, ids=named)
def test_a_path_is_its_fits_one_by_one(likelihood, prior, aux):
    model = model_for(likelihood, prior, aux=aux, weights=np.arange(60) % 3 + 1)
    scales = default_scales(model, 7)[[6, 0, 3]]
    path = mode_path(model, scales)
    assert all(s.good for s in path.status)
    for i in range(len(scales)):
        fit = pr.fit(path.model(i))
        assert_allclose(path.beta[i], fit.solution.beta, rtol=1e-6, atol=1e-7)
        for a in model.unknown:
            assert path.aux[a][i] == pytest.approx(fit.aux[a], rel=1e-7)
        assert path.log_lik[i] == pytest.approx(fit.log_likelihood, rel=1e-8)
        assert path.df[i] == pytest.approx(
            degrees_of_freedom(fit.model, fit.solution.beta, **fit.solution.aux),
            abs=1e-5,
        )
    assert path.df[1] < path.df[2] < path.df[0] + 1e-9


@pytest.mark.parametrize(
    "prior",
    [Laplace(0.2), ElasticNet(0.2, ratio=0.7), Laplace(0.2, scaled=True)],
    ids=named,
)
@pytest.mark.parametrize("likelihood", [pr.Gaussian(), pr.Poisson()], ids=named)
def test_default_scales_start_where_the_first_coefficient_leaves(likelihood, prior):
    model = model_for(likelihood, prior)
    scales = default_scales(model, 50)
    path = mode_path(model, [scales[0], 1.001 * scales[0]])
    assert (path.beta[0, 1:] == 0).all()
    assert (path.beta[1, 1:] != 0).sum() == 1
    assert scales[-1] == pytest.approx(1000 * scales[0], rel=1e-6)


def test_degrees_of_freedom_are_the_trace_of_the_smoother():
    model = model_for(pr.Gaussian(), Normal(0.4), aux={"sigma": 0.7})
    X, P = model.design.X, np.diag([0, 1, 1, 1]) / 0.4**2 * 0.49
    H = X @ np.linalg.solve(X.T @ X + P, X.T)
    assert mode_path(model, 1.0).df[0] == pytest.approx(np.trace(H), rel=1e-10)
    net = model.with_prior(ElasticNet(0.4, ratio=0.8))
    beta = pr.fit(net).coef.values
    A = X[:, beta != 0]
    P = np.diag(np.r_[0, np.full(A.shape[1] - 1, 0.2 / 0.4**2 * 0.49)])
    H = A @ np.linalg.solve(A.T @ A + P, A.T)
    assert mode_path(net, 1.0).df[0] == pytest.approx(np.trace(H), rel=1e-9)


def test_paths_refuse_what_has_none():
    with pytest.raises(pr.Incompatible, match="all priors of this model are flat"):
        mode_path(model_for(pr.Gaussian()), [1.0])
    with pytest.raises(pr.Incompatible, match="unknown scale"):
        mode_path(model_for(pr.Gaussian(), Laplace(pr.HalfNormal(1.0))), [1.0])
    with pytest.raises(pr.DataError, match="positive finite"):
        mode_path(model_for(pr.Gaussian(), Laplace(1.0)), [1.0, -2.0])
    assert rescale_model(model_for(pr.Gaussian(), Laplace(1.0)), 3.0).prior == Laplace(
        3.0
    )
    assert auxiliaries(pr.Gaussian()) == {"sigma": 0.7}


# ---- the inner problem ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior",
    [
        Laplace(0.2, location=0.1),
        ElasticNet(0.3, ratio=0.6),
        ExponentialPower(0.3, q=1.4),
        ExponentialPower(0.3, q=0.5),
    ],
    ids=named,
)
@pytest.mark.parametrize("width", [1, 2])
def test_no_point_near_the_minimum_of_the_inner_problem_is_lower(prior, width):
    likelihood = pr.Gaussian() if width == 1 else pr.Categorical()
    search = SearchCoordinates(
        model_for(likelihood, prior, aux=auxiliaries(likelihood))
    )
    x = start_of(search, None)
    at, penalty = search.at(x), search.penalty
    G, c = at.curvature, at.curvature @ x - at.gradient
    least, kkt = minimise(G, c, penalty, x, tol=1e-10)
    assert kkt <= 1e-10
    top = 0.5 * least @ G @ least - c @ least + penalty.value(least)
    for step in 1e-3 * np.random.default_rng(0).standard_normal((20, len(x))):
        near = least + step
        assert 0.5 * near @ G @ near - c @ near + penalty.value(near) > top


@pytest.mark.parametrize("seed", [77, 111])
def test_newton_ends_where_the_terms_of_the_log_likelihood_cancel(seed):
    """Counts up to 1e12: the terms of log p cancel, so that its value cannot judge the last steps."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=480), rng.normal(size=480)
    y = rng.poisson(np.exp(13.0 + x + 0.8 * x**2).clip(max=1e12))
    fit = pr.fit(
        pr.Model.from_arrays(np.c_[x, z], y.astype(float), likelihood="poisson"),
        "newton",
    )
    assert fit.solution.status.good
    assert fit.solution.stats["steps"] < 30


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "student"])
def test_a_tolerance_below_rounding_ends_at_rounding(likelihood):
    fit = pr.fit(model_for(pr.LIKELIHOODS[likelihood]()), pr.Newton(tol=1e-18))
    assert fit.solution.status.good
    assert fit.solution.stats["steps"] < 40
    assert fit.solution.stats["decrement"] < 1e-10
