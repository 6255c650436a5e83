"""The group lasso by routes of its own: a smooth problem, closed forms, block conditions from the arrays, the lasso, quadrature."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq, minimize

import probreg as pr
from probreg.inference import default_scales, mode_path
from probreg.inference.penalized.degrees import degrees_of_freedom
from probreg.inference.penalized.penalty import KinkedPenalty
from probreg.priors import GroupLaplace

Array = np.ndarray
SIGMA = 0.8


def rows(
    n: int, sizes: tuple[int, ...], seed: int = 0, *, active: int = 2
) -> tuple[Array, Array, list[list[int]]]:
    """X with correlated columns, y of the first groups, and the places of each group."""
    rng, p = np.random.default_rng(seed), sum(sizes)
    X = (rng.normal(size=(n, p)) + 0.7 * rng.normal(size=(n, 1))) * rng.uniform(
        0.4, 2.5, p
    ) + rng.uniform(-2, 2, p)
    ends = np.cumsum([0, *sizes])
    groups = [list(range(a, b)) for a, b in itertools.pairwise(ends)]
    beta = np.zeros(p)
    beta[: ends[active]] = rng.normal(size=ends[active])
    return X, X @ beta + SIGMA * rng.normal(size=n), groups


def off_kkt(
    model: pr.Model, fit: pr.Fit, groups: list[list[int]], scale: float
) -> float:
    """How far zero is from the subdifferential, by the arrays: |slope_g| <= 1/s at zero, slope_g = -w_g / (s |w_g|) off it."""
    beta, d = fit.solution.beta, model.design
    eta = d.X @ beta[:, 0]
    residual = {
        "gaussian": lambda: (d.observed - eta) / SIGMA**2,
        "poisson": lambda: d.observed - np.exp(eta),
        "bernoulli": lambda: d.observed - 1 / (1 + np.exp(-eta)),
    }[model.likelihood.name]()
    slope, w = d.X.T @ residual, beta[1:, 0]
    out = [abs(slope[0])]
    for g in groups:
        length, pull = np.linalg.norm(w[g]), slope[1:][g] * scale
        out.append(
            max(np.linalg.norm(pull) - 1, 0.0)
            if length == 0
            else np.linalg.norm(pull - w[g] / length)
        )
    return float(max(out))


def response(y: Array, likelihood: str) -> Array:
    middle = (y - y.mean()) / y.std()
    return {
        "gaussian": y,
        "bernoulli": (middle > 0).astype(int),
        "poisson": np.round(np.exp(middle)).astype(int),
    }[likelihood]


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson"])
def test_many_groups_meet_the_conditions_of_each_block(likelihood):
    X, y, groups = rows(150, (1, 5, 3, 8, 2, 6) * 6, active=4)
    scale = {"gaussian": 0.02, "bernoulli": 0.15, "poisson": 0.1}[likelihood]
    aux = {"sigma": SIGMA} if likelihood == "gaussian" else {}
    model = pr.Model.from_arrays(
        X,
        response(y, likelihood),
        likelihood=likelihood,
        prior=GroupLaplace(scale, groups),
        aux=aux,
    )
    fit = pr.fit(model)
    assert off_kkt(model, fit, groups, scale) < 1e-6
    there = [bool(fit.solution.beta[1:, 0][g].any()) for g in groups]
    assert 0 < sum(there) < len(groups)


def test_more_columns_than_rows_and_moments_alone(tmp_path):
    X, y, groups = rows(60, (4,) * 90)
    fit = pr.fit(
        pr.Model.from_arrays(
            X, y, prior=GroupLaplace(0.02, groups), aux={"sigma": SIGMA}
        )
    )
    assert fit.method.name == "coordinate_descent"
    assert off_kkt(fit.model, fit, groups, 0.02) < 1e-6
    X, y, groups = rows(60, (3, 2, 2), active=1)
    fit = pr.fit(
        pr.Model.from_arrays(
            X,
            y,
            prior={
                "x1": pr.Laplace(0.5),
                tuple(f"x{j}" for j in range(2, 8)): GroupLaplace(
                    0.05, [[0, 1], [3, 5]]
                ),
            },
        )
    )
    bare = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert bare.model.design.n == 0
    assert_allclose(pr.fit(bare.model).coef, fit.coef, rtol=1e-9, atol=1e-12)


def test_a_certificate_is_the_distance_from_the_subdifferential():
    """Of norms of known metric: slopes and curvature by differences off the kinks, what the ball D u leaves at one."""
    D, ridge, center = (
        np.array([2.0, 0.5, 1.5, 0.0, 3.0]),
        np.array([0.0, 0.3, 0.0, 0.0, 0.2]),
        np.full(5, 0.1),
    )
    R = KinkedPenalty(D, np.ones(5), ridge, center, np.array([0, 0, 2, 3, 4]))
    x, h, E = np.array([0.7, -0.4, 0.1, 0.3, -0.2]), 1e-6, np.eye(5)
    off = [0, 1, 3, 4]
    assert R.at_kink(x).tolist() == [False, False, True, False, False]
    slope = [(R.value(x + h * e) - R.value(x - h * e)) / (2 * h) for e in E]
    assert_allclose(R.slope(x)[off], np.array(slope)[off], atol=1e-8)
    bend = np.array([(R.slope(x + h * e) - R.slope(x - h * e)) / (2 * h) for e in E])[
        np.ix_(off, off)
    ]
    assert_allclose(R.curvature_among(x, np.array(off)), bend, atol=1e-7)
    assert_allclose(R.hessian(x)[off], np.diagonal(bend), atol=1e-7)
    zero, g = center.copy(), np.array([1.2, -0.6, 1.4, 0.05, -3.5])
    b = np.linalg.norm(g[:2] / D[:2])  # 1.34: a third of it or so is left
    left = [*(np.abs(g[:2]) * (1 - 1 / b)), 0.0, 0.05, 0.5]
    assert_allclose(R.distance(g, zero), left, rtol=1e-12)
    assert R.whole(np.eye(5, dtype=bool)[1]).tolist() == [
        True,
        True,
        False,
        False,
        False,
    ]
    few = R.among(np.array([0, 1, 3]))
    assert few.value(x[[0, 1, 3]]) == pytest.approx(
        R.value(x) - R.value(np.array([0.1, 0.1, 0.1, 0.1, -0.2])), rel=1e-12
    )


@pytest.mark.parametrize(
    "settings",
    [{"sigma_units": True}, {"root_size": True, "scaled": True}, {"location": 0.3}],
)
def test_coordinate_descent_and_proximal_newton_find_one_mode(settings):
    X, y, groups = rows(50, (3, 1, 2, 1), seed=4)
    model = pr.Model.from_arrays(
        X, y, prior=GroupLaplace(0.3, groups, **settings), weights=np.arange(50) % 3
    )
    one, two = (
        pr.fit(model, method) for method in ("coordinate_descent", "proximal_newton")
    )
    assert_allclose(one.coef, two.coef, rtol=1e-7, atol=1e-8)
    assert one.aux["sigma"] == pytest.approx(two.aux["sigma"], rel=1e-8)


def test_the_mode_is_that_of_a_smooth_problem():
    """|w_g| = min (a^2 + |v|^2)/2 over w_g = a v: without a kink, by L-BFGS from several starts."""
    X, y, groups = rows(40, (3, 1, 4, 2), seed=3)
    Xc, yc, scale = X - X.mean(0), y - y.mean(), 0.05
    of = np.repeat(np.arange(4), [len(g) for g in groups])

    def objective(x: Array) -> tuple[float, Array]:
        a, v = x[:4], x[4:]
        r = yc - Xc @ (a[of] * v)
        slope = -Xc.T @ r / SIGMA**2
        into = np.bincount(of, slope * v)
        return 0.5 * r @ r / SIGMA**2 + 0.5 * x @ x / scale, np.r_[
            into + a / scale, slope * a[of] + v / scale
        ]

    rng = np.random.default_rng(0)
    found = [
        minimize(
            objective,
            rng.normal(size=14),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-11},
        )
        for _ in range(4)
    ]
    best = min(found, key=lambda one: one.fun).x
    fit = pr.fit(
        pr.Model.from_arrays(
            X, y, prior=GroupLaplace(scale, groups), aux={"sigma": SIGMA}
        )
    )
    assert_allclose(fit.coef[1:], best[:4][of] * best[4:], atol=1e-6)


def test_on_orthonormal_columns_a_group_is_thresholded_whole():
    rng = np.random.default_rng(5)
    Q = np.linalg.qr(np.c_[np.ones(40), rng.normal(size=(40, 6))])[0][:, 1:]
    y = Q @ [2.0, -0.3, 0.9, 0.0, 0.1, 0.2] + 0.3 * rng.normal(size=40) + 4.0
    groups, z = [[0, 1, 2], [3, 4], [5]], Q.T @ y
    fit = pr.fit(
        pr.Model.from_arrays(
            Q, y, prior=GroupLaplace(1.2, groups), aux={"sigma": SIGMA}
        )
    )
    expected = np.concatenate(
        [max(1 - SIGMA**2 / 1.2 / np.linalg.norm(z[g]), 0) * z[g] for g in groups]
    )
    assert_allclose(fit.coef[1:], expected, rtol=1e-9, atol=1e-12)


def test_one_group_of_all_columns_is_a_ridge_of_its_own_length():
    X, y, _ = rows(40, (4,), active=1)
    Xc, yc, scale = X - X.mean(0), y - y.mean(), 0.05

    def ridge(length: float) -> Array:
        return np.linalg.solve(
            Xc.T @ Xc + SIGMA**2 / scale / length * np.eye(4), Xc.T @ yc
        )

    length = brentq(lambda v: np.linalg.norm(ridge(v)) - v, 1e-6, 1e3, xtol=1e-15)
    fit = pr.fit(
        pr.Model.from_arrays(
            X, y, prior=GroupLaplace(scale, [[0, 1, 2, 3]]), aux={"sigma": SIGMA}
        )
    )
    assert_allclose(fit.coef[1:], ridge(length), rtol=1e-8)
    none = pr.fit(fit.model.with_prior(GroupLaplace(1e-4, [[0, 1, 2, 3]])))
    assert (none.coef[1:] == 0).all()


@pytest.mark.parametrize(
    "settings", [{}, {"scaled": True}, {"sigma_units": True, "location": 0.2}]
)
@pytest.mark.parametrize(
    "likelihood",
    ["gaussian", "student", "poisson", pr.NegativeBinomial(), pr.Categorical()],
)
def test_groups_of_one_column_are_the_lasso(likelihood: Any, settings: dict[str, Any]):
    X, y, _ = rows(50, (1, 1, 1, 1), seed=2)
    if settings.get("sigma_units") and likelihood not in ("gaussian", "student"):
        return
    given, more = (
        y,
        {"offset": 0.1 * np.cos(np.arange(50)), "weights": np.arange(50) % 3},
    )
    if likelihood not in ("gaussian", "student"):
        given = response(y, "poisson")
    if isinstance(likelihood, pr.NegativeBinomial):
        more["aux"] = {"alpha": 0.4}
    if isinstance(likelihood, pr.Categorical):
        given, more = np.minimum(given, 2), {}
    scale = 0.05 if settings else 0.2
    one, two = (
        pr.fit(
            pr.Model.from_arrays(X, given, likelihood=likelihood, prior=prior, **more),
            "proximal_newton",
        )
        for prior in (GroupLaplace(scale, **settings), pr.Laplace(scale, **settings))
    )
    assert_allclose(one.coef, two.coef, rtol=1e-7, atol=1e-8)
    assert_allclose(list(one.aux.values()), list(two.aux.values()), rtol=1e-7)


def test_a_rotation_of_the_columns_of_a_group_changes_no_prediction():
    X, y, groups = rows(60, (3, 2, 2))
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turned = np.c_[X[:, :3] @ turn, X[:, 3:]]
    one, two = (
        pr.fit(
            pr.Model.from_arrays(
                v, y, prior=GroupLaplace(0.1, groups, sigma_units=True)
            )
        )
        for v in (X, turned)
    )
    assert_allclose(
        one.model.design.X @ one.coef.values,
        two.model.design.X @ two.coef.values,
        rtol=1e-7,
    )
    assert one.aux["sigma"] == pytest.approx(two.aux["sigma"], rel=1e-8)


# ---- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [{}, {"sigma": SIGMA}])
@pytest.mark.parametrize("units", [False, True])
def test_a_path_begins_where_the_first_group_enters_and_is_made_of_fits(held, units):
    X, y, groups = rows(60, (3, 1, 4, 2))
    model = pr.Model.from_arrays(
        X,
        y,
        prior=GroupLaplace(0.1, groups, root_size=True, sigma_units=units),
        aux=held,
    )
    scales = default_scales(model, 12)
    found = mode_path(model, [*scales, scales[0] * 1.01])
    assert not found.beta[0, 1:].any()
    entered = [g for g in groups if found.beta[-1, 1:, 0][g].any()]
    # an unknown sigma falls with what enters, and lets in more
    assert len(entered) == 1 if held else entered
    assert (found.kkt <= 1e-8).all()
    fit = pr.fit(found.model(6))
    assert_allclose(found.beta[6, :, 0], fit.coef, rtol=1e-6, atol=1e-8)
    if held:  # the scale at which the largest |X_g'(y - mean)| / sigma^2 is root of size / scale
        pull = X.T @ (y - y.mean()) / SIGMA**2 * (SIGMA if units else 1.0)
        first = 1 / max(np.linalg.norm(pull[g]) / np.sqrt(len(g)) for g in groups)
        assert scales[0] * 0.1 == pytest.approx(first, rel=1e-6)


def test_degrees_of_freedom_are_the_divergence_of_the_fitted_values():
    X, y, groups = rows(16, (3, 1, 2, 2))
    model = pr.Model.from_arrays(
        X, y, prior=GroupLaplace(0.08, groups), aux={"sigma": SIGMA}
    )

    def fitted(at: Array) -> Array:
        fit = pr.fit(model.at(X, at))
        return fit.model.design.X @ fit.coef.values

    h, E = 1e-4, np.eye(16)
    divergence = sum(
        float(e @ (fitted(y + h * e) - fitted(y - h * e))) / (2 * h) for e in E
    )
    fit = pr.fit(model)
    df = degrees_of_freedom(model, fit.solution.beta, sigma=SIGMA)
    assert df == pytest.approx(divergence, abs=1e-5)
    assert mode_path(model, [1.0]).df[0] == pytest.approx(df, rel=1e-6)
    assert df < (fit.coef != 0).sum() - 0.1


@pytest.mark.slow
def test_a_scale_is_tuned_by_folds_and_by_leaving_one_out():
    X, y, groups = rows(30, (3, 2, 4), active=1)
    model = pr.Model.from_arrays(
        X, y, prior=GroupLaplace(0.1, groups), aux={"sigma": SIGMA}
    )
    found = {
        by: pr.tune(model, by, scales=[0.3, 1.0, 3.0], score="squared")
        for by in ("cv", "loo")
    }
    each = [
        mode_path(model.at(np.delete(X, i, 0), np.delete(y, i)), [0.3]).beta[0, :, 0]
        for i in range(30)
    ]
    exact = np.mean([(y[i] - b[0] - X[i] @ b[1:]) ** 2 for i, b in enumerate(each)])
    assert float(found["loo"].table["score"].iloc[0]) == pytest.approx(exact, rel=0.02)


# ---- penalties of other packages ------------------------------------------------------------------------------------------


def test_a_penalty_of_groups_is_refused():
    X, y, groups = rows(30, (2, 1))
    with pytest.raises(pr.Incompatible):
        pr.Model.from_arrays(
            X, y, prior=GroupLaplace(0.2, groups), aux={"sigma": 1.0}
        ).penalty()


# ---- files and posteriors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior",
    [
        GroupLaplace(0.2, [["x1", "x2"]], root_size=True),
        {"x1": pr.Normal(1.0), ("x2", "x3"): GroupLaplace(0.1, [[0, 1]])},
    ],
)
def test_a_saved_fit_has_its_groups(prior, tmp_path):
    X, y, _ = rows(30, (2, 1))
    fit = pr.fit(pr.Model.from_arrays(X, y, prior=prior))
    for kept in (True, False):
        again = pr.load_fit(fit.save(tmp_path / f"fit{kept}.nc", rows=kept))
        assert again.model.joint.blocks[-1].prior == fit.model.joint.blocks[-1].prior
        assert_allclose(again.coef, fit.coef, rtol=0)


def test_a_group_prior_is_refused_by_what_needs_a_curvature():
    X, y, _ = rows(30, (2, 1))
    for method in ("laplace", "importance"):
        with pytest.raises(pr.Incompatible, match="this model has: group_laplace"):
            pr.fit(pr.Model.from_arrays(X, y, prior=GroupLaplace(0.1)), method)


def moments(fit: pr.Fit) -> tuple[Array, Array]:
    draws = fit.solution.draws["beta"]
    flat = draws.reshape(-1, *draws.shape[2:])
    return flat.mean(0), flat.std(0)


@pytest.mark.slow
def test_draws_have_the_moments_of_a_quadrature():
    X, y, _ = rows(20, (2,), active=1)
    X, y = X - X.mean(0), y - y.mean()
    model = pr.Model.from_arrays(
        X, y, intercept=False, prior=GroupLaplace(0.1, [[0, 1]]), aux={"sigma": 3.0}
    )
    top = pr.fit(model.with_prior(pr.Flat()))
    grid = [
        np.linspace(-1, 1, 401) * 9 * s + c
        for s, c in zip(np.sqrt(np.diagonal(top.covariance())), top.coef.values)
    ]
    at = np.stack(np.meshgrid(*grid, indexing="ij"), -1)
    log_p = model.log_posterior(at[..., None])
    p = np.exp(log_p - log_p.max())
    mean = (p[..., None] * at).sum((0, 1)) / p.sum()
    sd = np.sqrt((p[..., None] * (at - mean) ** 2).sum((0, 1)) / p.sum())
    draws = moments(pr.fit(model, pr.NUTS(draws=400, tune=400), seed=1))
    # 1,600 draws, some 1,000 of them effective: four standard errors
    assert_allclose(draws[0][:, 0], mean, atol=0.12 * sd.max())
    assert_allclose(draws[1][:, 0], sd, rtol=0.12)


@pytest.mark.slow
def test_an_unknown_scale_is_sampled_with_its_groups():
    X, y, groups = rows(40, (3, 2, 2), active=1)
    model = pr.Model.from_arrays(X, y, prior=GroupLaplace(pr.HalfNormal(0.5), groups))
    fit = pr.fit(model, pr.NUTS(draws=200, tune=200, chains=2), seed=1)
    assert fit.solution.status.good
    assert set(fit.solution.draws.hyper) == {"tau"}
    wide: Any = fit.solution.draws["tau"]
    assert 0.05 < float(np.median(wide)) < 1.0
