"""`lam=` and `radius=` of penalised recipes: against scikit-learn, a constrained optimum by SLSQP, and the KKT conditions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge

import probreg as pr
from probreg.inference.penalized.degrees import diagonal_of_shrinkage

RNG = np.random.default_rng(3)
N = 90
X = RNG.normal(size=(N, 4)) * [1.0, 5.0, 1.0, 0.3] + [0.0, 100.0, -2.0, 0.0]
Y = 50.0 + X @ [1.0, -0.1, 0.5, 2.0] + RNG.normal(size=N)
EVENT = (RNG.random(N) < expit(X[:, 0] + X[:, 2] + 2.0)).astype(int)
SD = X.std(axis=0, ddof=1)

RECIPES: dict[str, tuple[Callable[..., pr.Fit], Callable[[np.ndarray], float]]] = {
    "ridge": (pr.ridge, lambda b: float(np.sqrt(b @ b))),
    "lasso": (pr.lasso, lambda b: float(np.abs(b).sum())),
    "elastic_net": (
        lambda *args, **options: pr.elastic_net(*args, ratio=0.3, **options),
        lambda b: float(0.3 * np.abs(b).sum() + 0.35 * b @ b),
    ),
    "bridge": (
        lambda *args, **options: pr.bridge(*args, q=1.5, **options),
        lambda b: float(np.sum(np.abs(b) ** 1.5) ** (2 / 3)),
    ),
}
each_recipe = pytest.mark.parametrize("name", RECIPES)


def slopes(fit: pr.Fit) -> np.ndarray:
    return np.asarray(fit.coef.values[1:])


def loss(b: np.ndarray, Z: np.ndarray, family: str) -> tuple[float, np.ndarray]:
    """RSS or -2 log L of (intercept, b), and its gradient."""
    eta = b[0] + Z @ b[1:]
    if family == "gaussian":
        value, slope = float(np.sum((Y - eta) ** 2)), -2.0 * (Y - eta)
    else:
        value = 2.0 * float(np.sum(np.logaddexp(0.0, eta) - EVENT * eta))
        slope = 2.0 * (expit(eta) - EVENT)
    return value, np.r_[slope.sum(), Z.T @ slope]


def test_lam_is_the_weight_of_scikit_learn() -> None:
    lam, tight = 7.0, {"tol": 1e-12, "max_iter": 100_000}
    alpha = lam / (2 * N)
    pairs = [
        (pr.ridge(X, Y, lam=lam), Ridge(alpha=lam)),
        (pr.lasso(X, Y, lam=lam), Lasso(alpha=alpha, **tight)),
        (pr.lasso(X, Y, lam=lam, aux={"sigma": 3.0}), Lasso(alpha=alpha, **tight)),
        (pr.elastic_net(X, Y, lam=lam, ratio=0.3), ElasticNet(alpha=alpha, l1_ratio=0.3, **tight)),
    ]  # fmt: skip
    for fit, peer in pairs:
        assert_allclose(slopes(fit), peer.fit(X, Y).coef_, rtol=1e-7, atol=1e-9)


def test_lam_of_classes_is_one_over_c() -> None:
    Z = X - X.mean(axis=0)
    peer = LogisticRegression(C=1 / 3.0, tol=1e-10, max_iter=10_000).fit(Z, EVENT)
    fit = pr.ridge(Z, EVENT, likelihood="bernoulli", lam=3.0)
    assert_allclose(slopes(fit), peer.coef_[0], rtol=1e-5)
    assert_allclose(fit.model.joint.blocks[1].prior.scale, 3.0**-0.5)


@each_recipe
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_radius_is_the_constrained_optimum(
    name: str, scaled: bool, family: str
) -> None:
    recipe, norm = RECIPES[name]
    y = Y if family == "gaussian" else EVENT
    units = SD if scaled else np.ones(4)
    Z = (X - X.mean(axis=0)) / units
    radius = 0.4
    fit = recipe(X, y, radius=radius, scaled=scaled, likelihood=family)
    b = slopes(fit) * units
    assert_allclose(norm(b), radius, rtol=1e-8)
    start = np.r_[y.mean(), np.full(4, 0.01)]
    optimum = minimize(
        loss, start, args=(Z, family), jac=True, method="SLSQP",
        constraints=[{"type": "ineq", "fun": lambda v: radius - norm(v[1:])}], options={"ftol": 1e-15, "maxiter": 200},
    )  # fmt: skip
    intercept = fit.coef.values[0] + X.mean(axis=0) @ slopes(fit)
    ours = np.r_[intercept, b]
    # SLSQP stops at kinks with five digits: no feasible point may be better than ours
    assert norm(optimum.x[1:]) < radius * (1 + 1e-6)
    assert loss(ours, Z, family)[0] <= optimum.fun * (1 + 1e-7)
    assert_allclose(ours, optimum.x, atol=1e-3)
    # the dual lam is the weight of the same fit
    lam = dict(fit.notes[0].values)["lam"]
    same = recipe(X, y, lam=lam, scaled=scaled, likelihood=family)
    assert_allclose(same.coef, fit.coef, rtol=1e-9, atol=1e-12)


def test_the_lasso_meets_the_kkt_conditions() -> None:
    fit = pr.lasso(X, Y, radius=1.2)
    lam = dict(fit.notes[0].values)["lam"]
    gradient = loss(fit.coef.values, X, "gaussian")[1][1:]
    zero = slopes(fit) == 0
    assert zero.any()
    assert (np.abs(gradient[zero]) <= lam).all()
    assert_allclose(gradient[~zero], -lam * np.sign(slopes(fit)[~zero]), rtol=1e-6)


def test_the_prior_of_a_lam_is_stated_at_the_joint_sigma() -> None:
    fit = pr.lasso(X, Y, lam=30.0)
    sigma = fit.aux["sigma"]
    (prior,) = fit.model.stated_priors
    assert_allclose(2.0 * sigma / prior.scale, 30.0, rtol=1e-7)
    # sigma^2 = y'(y - fitted) / (n + k) at the joint mode over log sigma
    assert_allclose(sigma**2, (Y - Y.mean()) @ (Y - fit.fitted.values) / (N + 4))


@each_recipe
def test_a_wide_ball_has_maximum_likelihood(name: str) -> None:
    recipe, _ = RECIPES[name]
    fit = recipe(X, Y, radius=100.0)
    assert fit.model.flat
    assert_allclose(fit.coef, pr.ols(X, Y).coef)
    assert dict(fit.notes[0].values)["radius"] == 100.0


@each_recipe
def test_more_columns_than_rows(name: str) -> None:
    recipe, norm = RECIPES[name]
    wide, y = RNG.normal(size=(6, 20)), RNG.normal(size=6)
    fit = recipe(wide, y, radius=0.1)
    assert_allclose(norm(slopes(fit)), 0.1, rtol=1e-8)
    with pytest.raises(pr.Incompatible, match="has no effect"):
        recipe(wide, y, radius=1e4)


def test_separated_classes_have_a_fit_in_a_ball() -> None:
    x = np.array([-2.0, -1.0, 1.0, 2.0])
    fit = pr.ridge(x, (x > 0).astype(int), likelihood="bernoulli", radius=3.0)
    assert_allclose(fit.coef[1], 3.0)


def test_columns_of_very_different_units() -> None:
    units = np.array([1e6, 1.0, 1e-5, 1.0])
    norm = float(np.linalg.norm(pr.ols(X * units, Y).coef[1:]))
    fit = pr.ridge(X * units, Y, radius=0.999 * norm)
    assert_allclose(np.linalg.norm(slopes(fit)), 0.999 * norm)


@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_ridge_in_a_ball(weighted: bool) -> None:
    x = np.linspace(0.0, 6.0, 40)
    y = np.sin(x) + 0.1 * RNG.normal(size=40)
    counts = np.where(x > 3.0, 2, 1) if weighted else None
    options: dict[str, Any] = {"kernel": pr.kernels.RBF(1.0), "intercept": False, "weights": counts}  # fmt: skip
    fit = pr.kernel_ridge(x, y, radius=1.3, **options)
    lam = dict(fit.notes[0].values)["lam"]
    peer = KernelRidge(alpha=lam, kernel="rbf", gamma=0.5)
    peer.fit(x[:, None], y, sample_weight=counts)
    assert_allclose(fit.fitted, peer.predict(x[:, None]), rtol=1e-7)
    K = pr.kernels.RBF(1.0)(x)
    assert_allclose(peer.dual_coef_ @ K @ peer.dual_coef_, 1.3**2, rtol=1e-7)
    with pytest.raises(pr.Incompatible, match="has no effect"):
        pr.kernel_ridge(x, y, radius=1e12, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pr.ridge(X, Y), "exactly one of scale=, lam=, radius=; got none"),
        (lambda: pr.lasso(X, Y, lam=1.0, radius=1.0), "got lam, radius"),
        (lambda: pr.kernel_ridge(X, Y, kernel="rbf"), "exactly one of lam=, radius="),
        (lambda: pr.ridge(X, Y, lam=1.0, sigma_units=True), "models without sigma_units="),
        (lambda: pr.lasso(X, Y, lam=1.0, aux={"sigma": pr.HalfNormal(1.0)}), "sigma held fixed or without a prior"),
        (lambda: pr.ridge("y ~ s(x)", {"x": X[:, 0], "y": Y}, lam=1.0), "smooth functions"),
    ],
)  # fmt: skip
def test_errors(call: Callable[[], object], message: str) -> None:
    with pytest.raises(pr.Incompatible, match=message):
        call()


def test_equal_columns_without_a_prior_share_one_degree_of_freedom():
    H = np.array([[1.0, 1.0, 0.2], [1.0, 1.0, 0.2], [0.2, 0.2, 1.0]])
    P = np.diag([0.0, 0.0, 1e-3])
    found = diagonal_of_shrinkage(H, P)
    one = diagonal_of_shrinkage(H[1:, 1:], P[1:, 1:])  # without the second column
    assert_allclose(found, [0.5 * one[0], 0.5 * one[0], one[1]], rtol=1e-9)
    direct = np.diagonal(np.linalg.solve(H[1:, 1:] + P[1:, 1:], H[1:, 1:]))
    assert_allclose(one, direct, rtol=1e-12)


@pytest.mark.parametrize("strength", ["scale", "lam", "radius"])
def test_a_penalty_without_a_mode_is_refused_and_not_sampled(strength) -> None:
    X = np.arange(12.0).reshape(6, 2) % 5
    y = [1.0, 3.0, 2.0, 5.0, 4.0, 6.0]
    loss = pr.likelihoods.Quantile(0.3)
    with pytest.raises(pr.Incompatible, match="mode of a quantile"):
        pr.lasso(X, y, likelihood=loss, **{strength: 1.0})
    assert pr.ridge(X, y, likelihood=loss, **{strength: 1.0}).target == "mode"


@pytest.mark.parametrize(
    ("recipe", "of"), [(pr.ridge, "kernel ball"), (pr.lasso, "l1 ball")]
)
def test_the_bound_of_a_ball_is_that_of_its_radius_if_it_does_not_bind(
    recipe: Any, of: str
) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, (400, 3))
    y = np.clip(0.5 + x @ [0.2, -0.1, 0.0] + 0.05 * rng.normal(size=400), 0, 1)
    given = {"intercept": False, "offset": np.full(400, 0.5)}
    widths = []
    for radius in (0.05, 0.5):
        fit = recipe(x, y, radius=radius, **given)
        found = pr.guarantee(fit, y_range=(0.0, 1.0), row_norm=2.0)
        (line,) = [b for b in found.lines if b.theorem == f"{of}, r = 2"]
        widths.append(line.bound.complexity)
    assert dict(fit.notes[0].values)["lam"] == 0.0
    assert_allclose(widths[1], 10 * widths[0])


@pytest.mark.parametrize(
    "recipe", [partial(pr.elastic_net, ratio=0.5), partial(pr.bridge, q=1.5), pr.ols]
)
def test_a_model_without_an_intercept_is_not_asked_to_leave_it_out(recipe: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, (40, 2))
    ball = {} if recipe is pr.ols else {"radius": 100.0}
    for intercept in (True, False):
        fit = recipe(x, x[:, 0] / 2, intercept=intercept, **ball)
        found = pr.guarantee(fit, y_range=(-1.0, 1.0))
        text = " ".join(str(found).split())
        assert ("leave the intercept" in text) == intercept
        assert ("use ridge or lasso" in text) != intercept
