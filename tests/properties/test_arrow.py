"""Laws of the surfaces of varying effects, by the arrow: they are those of the same columns written out, with exact slopes."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import probreg as pr
from probreg.data import Frame
from probreg.data.grouped_columns import ArrowColumns, GroupColumns
from probreg.errors import Incompatible
from probreg.inference.covariance import ArrowCovariance
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.gaussian_surface import GaussianSurface, QuadratureSurface
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.model.model import Model
from probreg.priors import Covariance, Normal, StudentT

N = 60


def data() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    g, h = rng.integers(0, 6, N), rng.integers(0, 4, N)
    x, z = rng.normal(size=N), rng.uniform(0, 5, N)
    eta = (
        0.4 + 0.5 * x + np.sin(z) + rng.normal(size=6)[g] + 0.6 * rng.normal(size=4)[h]
    )
    return {
        "g": np.array(list("abcdef"))[g], "h": np.array(list("klmn"))[h], "x": x, "z": z,
        "y": eta + 0.7 * rng.normal(size=N), "b": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
        "k": rng.poisson(rng.gamma(2.0, np.exp(0.4 * eta + 0.5) / 2.0)), "c": np.array(["u", "v", "w"])[rng.integers(0, 3, N)],
        "o": rng.normal(size=N), "f": rng.integers(1, 4, N), "w": rng.uniform(0.5, 2.0, N),
    }  # fmt: skip


DATA = data()
DIAGONAL = {
    "one": ("x + (1 | g)", None),
    "slopes": ("x + (x || g)", {"x || g": Covariance(sd=pr.HalfNormal(2.0))}),
    "crossed": ("x + (x || h) + (1 | g)", {"x": Normal(pr.HalfNormal(1.0))}),
    "nested": ("(1 | g / h)", None),
    "same groups": ("x + (1 | g) + (0 + x | g)", None),
    "smooth": ("x + s(z, k=5) + (1 | g)", None),
    "known": (
        "x + z + (1 | g) + (1 | h)",
        {"x": Normal(0.7, location=0.2), "1 | h": Covariance(sd=0.4)},
    ),
    "no intercept": ("0 + x + (0 + x | g)", None),
}
RELATIVE = {
    "units of sigma": (
        "x + (1 | g) + (1 | h)",
        {"1 | g": Normal(pr.priors.Reference(), sigma_units=True)},
    )
}
WEIGHTED = [
    {},
    {"weights": DATA["f"], "offset": DATA["o"]},
    {"weights": pr.weights.precision(DATA["w"])},
]
SMOOTH = {
    "bernoulli": ("b", "bernoulli"), "poisson": ("k", "poisson"), "student": ("y", pr.StudentT(nu=4.0)),
    "negative binomial": ("k", "negative_binomial"), "categorical": ("c", "categorical"),
}  # fmt: skip


def model(response: str, likelihood: Any, name: str, **more: Any) -> Model:
    right, prior = (DIAGONAL | RELATIVE)[name]
    more = more if prior is None else {**more, "prior": prior}
    return Model.from_formula(
        f"{response} ~ {right}", DATA, likelihood=likelihood, **more
    )


def differences(f: Any, x: np.ndarray, h: float = 1e-3) -> np.ndarray:
    each = [
        8 * (f(x + h * e) - f(x - h * e)) - (f(x + 2 * h * e) - f(x - 2 * h * e))
        for e in np.eye(len(x))
    ]
    return np.array(each) / (12 * h)


def theta_of(surface: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(-0.3, 0.4, len(surface.priors))


@pytest.mark.parametrize(
    ("name", "criterion", "more"),
    [
        *(
            (name, "REML", WEIGHTED[i % 3])
            for i, name in enumerate(DIAGONAL | RELATIVE)
        ),
        *(("smooth", "ML", more) for more in WEIGHTED),
        ("units of sigma", "ML", {}),
    ],
)
def test_a_gaussian_evidence_is_that_of_columns_written_out(name, criterion, more):
    problem = EvidenceProblem(
        model("y", "gaussian", name, **more), False, criterion=criterion
    )
    f, dense = (
        problem.surface,
        GaussianSurface(problem.model, problem.groups, criterion),
    )
    assert f.layout.by_group
    theta = theta_of(f)
    at, by = f(theta), dense(theta)
    np.testing.assert_allclose(
        [at.value, at.evidence], [by.value, by.evidence], rtol=1e-10
    )
    np.testing.assert_allclose(at.gradient, by.gradient, atol=1e-8)
    both = np.array([theta, theta + 0.3])
    np.testing.assert_allclose(f.values(both), dense.values(both), rtol=1e-10)


def test_a_held_noise_and_an_intercept_with_a_prior():
    made = Model.from_formula(
        "y ~ x + (1 | g)",
        DATA,
        aux={"sigma": 0.7},
        prior={"Intercept": Normal(2.0, location=0.3), "x": Normal(1.0)},
    )
    problem = EvidenceProblem(made, False)
    at, by = (
        problem.surface(np.array([-0.4])),
        GaussianSurface(made, problem.groups)(np.array([-0.4])),
    )
    np.testing.assert_allclose(
        [at.value, *at.gradient], [by.value, *by.gradient], rtol=1e-10
    )
    np.testing.assert_allclose(at.effective, by.effective, rtol=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "name"),
    [
        *zip(SMOOTH, ["one", "crossed", "smooth", "known", "one"]),
        ("poisson", "known"),
        ("categorical", "crossed"),
    ],
)
def test_an_approximate_evidence_is_that_of_columns_written_out(likelihood, name):
    problem = EvidenceProblem(model(*SMOOTH[likelihood], name), False)
    f, dense = (
        problem.surface,
        LaplaceSurface(problem.model, problem.groups, by_group=False),
    )
    assert f.layout.by_group
    theta = theta_of(f)
    at, by = f(theta), dense(theta)
    # modes are those of two searches, to 1e-10 of a standard error
    np.testing.assert_allclose(at.value, by.value, rtol=1e-9)
    np.testing.assert_allclose(at.gradient, by.gradient, atol=1e-6)


@pytest.mark.parametrize("likelihood", ["bernoulli", "student", "categorical"])
def test_a_likelihood_of_scales_is_that_of_columns_written_out(likelihood):
    problem = EvidenceProblem(
        model(*SMOOTH[likelihood], "known"), False, criterion="ML"
    )
    f, dense = (
        problem.surface,
        LaplaceSurface(problem.model, problem.groups, "ML", by_group=False),
    )
    d = len(f.priors)
    theta = f.starts()[0] + 0.2
    at, (p, m) = f.mode(theta), problem.model.shape
    moved = at.roots.forth(at.x[0][None], at.x[1][None])
    beta = f.layout.coefficients(moved[0][0], moved[1][0])[:, 0].reshape(p, m)
    flat = np.linalg.solve(dense.layout.frame.T, beta[~problem.model.joint.informative])
    start, root = dense._frame
    same = np.append(theta[:d], np.linalg.solve(root, flat.ravel() - start))
    np.testing.assert_allclose(f(theta).value, dense(same).value, rtol=1e-9)


CORRELATED = [
    "x + (x | g)",
    "x + (x + z | g) + (1 | h)",
    "(1 | h) + x + s(z, k=5) + (x | g)",
]


@pytest.mark.parametrize(
    ("likelihood", "criterion", "right"),
    [
        *((("y", "gaussian"), "REML", right) for right in CORRELATED),
        (("y", "gaussian"), "ML", CORRELATED[2]),
        (SMOOTH["bernoulli"], "ML", CORRELATED[1]),
        (SMOOTH["poisson"], "REML", CORRELATED[2]),
        (SMOOTH["student"], "REML", CORRELATED[0]),
        (SMOOTH["student"], "ML", CORRELATED[2]),
    ],
    ids=str,
)
def test_slopes_are_differences(likelihood, criterion, right):
    made = Model.from_formula(
        f"{likelihood[0]} ~ {right}", DATA, likelihood=likelihood[1]
    )
    f = EvidenceProblem(made, False, criterion=criterion).surface
    theta = f.starts()[0] + np.random.default_rng(1).normal(
        0.0, 0.2, len(f.starts()[0])
    )
    gradient = differences(lambda t: f(t).value, theta)
    np.testing.assert_allclose(f(theta).gradient, gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("criterion", ["REML", "ML"])
def test_slopes_with_priors_that_are_not_normal(criterion):
    prior = {"x": StudentT(3.0, nu=0.5), "Intercept": Normal(3.0)}
    made = Model.from_formula("k ~ x + z + (x | g)", DATA, likelihood="negative_binomial", prior=prior,
                              aux={"alpha": pr.HalfNormal(1.0)})  # fmt: skip
    f = EvidenceProblem(made, False, criterion=criterion).surface
    theta = f.starts()[0] + 0.1
    np.testing.assert_allclose(
        f(theta).gradient,
        differences(lambda t: f(t).value, theta),
        rtol=1e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize("likelihood", [("y", "gaussian"), ("b", "bernoulli")], ids=str)
def test_a_correlation_of_zero_is_none(likelihood):
    both, apart = (
        EvidenceProblem(
            Model.from_formula(
                f"{likelihood[0]} ~ x + (x {bar} g)", DATA, likelihood=likelihood[1]
            ),
            False,
        )
        for bar in ("|", "||")
    )
    theta = np.array([-0.2, -0.5, -0.3])[: len(apart.surface.priors)]
    at, by = both.surface(np.insert(theta, 2, 0.0)), apart.surface(theta)
    np.testing.assert_allclose(at.value, by.value, rtol=1e-12)
    np.testing.assert_allclose(np.delete(at.gradient, 2), by.gradient, atol=1e-9)


def test_names_of_groups_change_nothing():
    other = {
        **DATA,
        "g": np.array([{"a": "q", "b": "a", "c": "z"}.get(v, v) for v in DATA["g"]]),
    }
    for response, likelihood in (("y", "gaussian"), ("b", "bernoulli")):
        f, g = (
            EvidenceProblem(
                Model.from_formula(
                    f"{response} ~ x + (x | g) + (1 | h)", d, likelihood=likelihood
                ),
                False,
            ).surface
            for d in (DATA, other)
        )
        theta = theta_of(f)
        np.testing.assert_allclose(f(theta).value, g(theta).value, rtol=1e-12)
        np.testing.assert_allclose(f(theta).gradient, g(theta).gradient, atol=1e-8)


# ---- moments --------------------------------------------------------------------------------------------------------


def columns(rows: slice = slice(None)) -> tuple[ArrowColumns, np.ndarray]:
    g, h = (np.unique(DATA[name], return_inverse=True)[1] for name in "gh")
    one, x = np.ones((N, 1)), DATA["x"][:, None]
    made = ArrowColumns(
        GroupColumns(g, np.hstack([one, x]), 6),
        (GroupColumns(h, one, 4),),
        np.hstack([x, DATA["z"][:, None], one]),
    )
    return made.part(rows), DATA["y"][rows]


def written(a: ArrowColumns) -> np.ndarray:
    def of(c: GroupColumns) -> np.ndarray:
        out = np.zeros((len(c.codes), c.groups, c.effects))
        out[np.arange(len(c.codes)), c.codes] = c.Z
        return out.reshape(len(c.codes), -1)

    return np.hstack([of(a.lead), *map(of, a.others), a.dense])


def test_products_are_those_of_columns_written_out():
    rng, (made, _) = np.random.default_rng(0), columns()
    X, G, K = written(made), 6, 2
    a, c = rng.normal(size=(G, K, 2)), rng.normal(size=(made.width, 2))
    np.testing.assert_allclose(made.times(a, c), X @ np.vstack([a.reshape(-1, 2), c]))
    V = rng.normal(size=(N, 3))
    above, below = made.cross(V)
    np.testing.assert_allclose(np.vstack([above.reshape(-1, 3), below]), X.T @ V)
    w = rng.normal(size=N)
    gram, H = made.gram(w), X.T @ (w[:, None] * X)
    at = np.arange(G * K).reshape(G, K)
    np.testing.assert_allclose(
        gram.lead, np.stack([H[np.ix_(i, i)] for i in at]), atol=1e-12
    )
    np.testing.assert_allclose(
        gram.cross.reshape(G * K, -1), H[: G * K, G * K :], atol=1e-12
    )
    np.testing.assert_allclose(gram.rest, H[G * K :, G * K :], atol=1e-12)
    S = rng.normal(size=(len(H), len(H)))
    S = S + S.T
    own, border = (
        np.stack([S[np.ix_(i, i)] for i in at]),
        S[: G * K, G * K :].reshape(G, K, -1),
    )
    np.testing.assert_allclose(
        made.leverage(own, border, S[G * K :, G * K :]),
        np.einsum("ni,ij,nj->n", X, S, X),
    )


def test_rows_of_new_groups_hold_zeros():
    made = Model.from_formula("y ~ x + (x | g)", DATA)
    term = made.design.recipe.grouped["(x | g)"]
    inputs = np.array([[1.0, 1.0, 2.0], [7.0, 1.0, 3.0]])
    assert not GroupColumns.of(term, inputs).Z[1].any()


# ---- quadrature, and the edges ---------------------------------------------------------------------------------------


def test_one_point_is_laplace_and_many_are_the_integral():
    made = Model.from_formula("b ~ x + (1 | g)", DATA, likelihood="bernoulli")
    laplace = EvidenceProblem(made, False, criterion="ML").surface
    theta = laplace.starts()[0] + 0.1
    one, many, more = (QuadratureSurface(made, laplace.groups, k) for k in (1, 15, 31))
    np.testing.assert_allclose(
        one.values(theta[None]), laplace.values(theta[None]), rtol=1e-12
    )
    np.testing.assert_allclose(
        many.values(theta[None]), more.values(theta[None]), rtol=1e-8
    )
    # sum over groups of log int prod_i p(y_i | u) phi(u) du by a grid
    at = laplace.mode(theta)
    u = np.linspace(-9, 9, 4001)
    lead, sd = laplace.layout.columns.lead, float(np.exp(theta[0]))
    flat = at.rows.z[:, 0] - sd * at.x[0][lead.codes, 0, 0]
    sign = 2 * made.design.observed - 1
    log_p = -np.logaddexp(0, -sign[:, None] * (flat[:, None] + sd * u))
    by_group = (
        np.array([log_p[lead.codes == g].sum(0) for g in range(6)])
        - 0.5 * u**2
        - 0.5 * np.log(2 * np.pi)
    )
    wanted = np.log(np.exp(by_group).sum(1) * (u[1] - u[0])).sum()
    np.testing.assert_allclose(more.values(theta[None])[0], wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("right", "more", "why"),
    [
        ("x + (1 | g)", {}, "criterion='ML'"),
        (
            "x + (1 | g) + (1 | h)",
            {"criterion": "ML"},
            "one effect of one grouping factor",
        ),
        ("x + (x | g)", {"criterion": "ML"}, "one effect of one grouping factor"),
    ],
)
def test_where_points_are_refused(right, more, why):
    made = Model.from_formula(f"b ~ {right}", DATA, likelihood="bernoulli")
    with pytest.raises(Incompatible, match=why):
        pr.fit(made, pr.Evidence(points=5, **more))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_covariance_at_its_edge_is_found_from_every_start(seed):
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(8), 10), rng.normal(size=80)
    y = 1 + x + rng.normal(size=80) + (seed % 4 == 1) * rng.normal(size=8)[g]
    problem = EvidenceProblem(
        Model.from_formula("y ~ x + (x | g)", {"y": y, "x": x, "g": g.astype(str)}),
        False,
    )
    top = problem.maximise(300)
    # signed roots have no edge: the highest of several climbs over (L11, L21, L22, log sigma)
    f = problem.surface

    def fall(v: np.ndarray) -> float:
        sd = np.hypot(v[1], v[2])
        t = np.arctanh(np.clip(v[1] / sd, -1 + 1e-13, 1 - 1e-13))
        return -float(
            f.values(
                np.array([[np.log(abs(v[0]) + 1e-12), np.log(sd + 1e-12), t, v[3]]])
            )[0]
        )

    best = min(
        minimize(
            fall,
            [*start, 0.0],
            method="Nelder-Mead",
            options={"maxiter": 600, "xatol": 1e-6, "fatol": 1e-8},
        ).fun
        for start in ([0.3, 0.2, 0.1], [0.3, -0.2, 0.1], [0.1, 0.02, 0.3])
    )
    assert top.at.value >= -best - 1e-6


@pytest.mark.parametrize("response", ["y", "b"])
def test_an_estimate_by_the_arrow_is_that_of_columns_written_out(response):
    likelihood = {"y": "gaussian", "b": "bernoulli"}[response]
    made = Model.from_formula(
        f"{response} ~ x + (x | g) + (1 | h)", DATA, likelihood=likelihood
    )
    problem = EvidenceProblem(made, False)
    top = problem.maximise(300)
    estimate = problem.surface.estimate(top.theta)
    wanted = pr.fit(made, pr.Evidence())
    np.testing.assert_allclose(estimate[0], wanted.solution.beta, atol=2e-5)
    # the estimate of the arrow is given the standard deviations, of which a GLMM's errors count the uncertainty
    given, _, _ = wanted.spread("conditional" if response == "b" else None)
    np.testing.assert_allclose(estimate[1].matrix(), given.matrix(), atol=2e-5)


def test_a_covariance_that_is_not_written_out():
    rng = np.random.default_rng(0)
    places = np.array([[3, 0], [1, 5]])
    blocks, low = rng.normal(size=(2, 2, 2)), rng.normal(size=(6, 2))
    V = ArrowCovariance(Frame.of_raw(6), 1, places=places, blocks=blocks, root=low)
    dense, B = V.matrix(), rng.normal(size=(6, 2))
    np.testing.assert_allclose(V.diagonal(), np.diagonal(dense))
    np.testing.assert_allclose(V.times(B), dense @ B)
    np.testing.assert_allclose(V.half(B.T) @ V.half(B.T).T, B.T @ dense @ B)
    np.testing.assert_allclose(V.scale_by(2.0).matrix(), 2.0 * dense)
    rows = np.array([1, 2, 5])
    np.testing.assert_allclose(V.block(rows), dense[np.ix_(rows, rows)])
    np.testing.assert_allclose(np.cov(V.draws(rng, 60_000).T), dense, atol=0.15)


def test_integrated_effects_are_those_of_columns_written_out(monkeypatch):
    prior = {
        "x || g": Covariance(sd=pr.HalfNormal(2.0)),
        "1 | h": Covariance(sd=pr.HalfNormal(1.0)),
    }
    made = Model.from_formula("y ~ x + (x || g) + (1 | h)", DATA, prior=prior)
    found = pr.fit(made, pr.Integrate(nodes=256)).solution
    never = property(lambda self: False, lambda self, value: None)
    monkeypatch.setattr(EvidenceProblem, "by_groups", never, raising=False)
    wanted = pr.fit(made, pr.Integrate(nodes=256)).solution
    # the same nodes, but for where two searches end
    np.testing.assert_allclose(found.beta, wanted.beta, atol=1e-3)
    np.testing.assert_allclose(found.scale.matrix(), wanted.scale.matrix(), atol=2e-3)
    for name in ("mean", "sd"):
        weight = found.posterior.marginals["weight"]
        mean = [weight @ s.posterior.marginals[name] for s in (found, wanted)]
        np.testing.assert_allclose(mean[0], mean[1], atol=1e-3)
    draws = found.posterior["beta"].reshape(-1, made.shape[0])
    sd = np.sqrt(found.scale.diagonal())
    # 4,000 draws: a mean is known to 0.016 standard deviations, a correlation to as much
    np.testing.assert_allclose((draws.mean(0) - found.beta[:, 0]) / sd, 0.0, atol=0.08)
    np.testing.assert_allclose(
        np.cov(draws.T) / np.outer(sd, sd),
        found.scale.matrix() / np.outer(sd, sd),
        atol=0.08,
    )


@pytest.mark.slow
def test_integrated_effects_of_another_likelihood_are_weighed(monkeypatch):
    prior = {"1 | g": Covariance(sd=pr.HalfNormal(2.0))}
    made = Model.from_formula(
        "b ~ x + (1 | g)", DATA, likelihood="bernoulli", prior=prior
    )
    found = pr.fit(made, "integrate").solution
    never = property(lambda self: False, lambda self, value: None)
    monkeypatch.setattr(EvidenceProblem, "by_groups", never, raising=False)
    wanted = pr.fit(made, "integrate").solution
    sd = np.sqrt(wanted.scale.diagonal())
    assert found.stats["k_hat_joint"] < 0.7
    # some 2,500 weighted points each
    np.testing.assert_allclose((found.beta - wanted.beta)[:, 0] / sd, 0.0, atol=0.12)
    np.testing.assert_allclose(np.sqrt(found.scale.diagonal()) / sd, 1.0, atol=0.12)


# ---- a border that is sparse -----------------------------------------------------------------------------------------

SPARSE = [
    *CORRELATED,
    "x + (1 | g) + (1 | h)",
    "x + (x || h) + (1 | g)",
    "x + (x | h) + (x | g) + s(z, k=5)",
    "0 + (1 | g) + (x | h)",
]


def both(
    monkeypatch: pytest.MonkeyPatch, right: str, criterion: str = "REML"
) -> tuple[GaussianSurface, GaussianSurface]:
    """The surface with a dense border, and with a sparse one."""
    made = Model.from_formula(f"y ~ {right}", DATA)
    dense, other = (
        EvidenceProblem(made, False, criterion=criterion).surface for _ in range(2)
    )
    assert not dense.sums.has_sparse_border
    monkeypatch.setattr("probreg.inference.exact.gaussian_sums.MIN_SPARSE_SIZE", 0)
    monkeypatch.setattr("probreg.inference.exact.gaussian_sums.MAX_SPARSE_SHARE", 1.0)
    assert other.sums.has_sparse_border
    return dense, other


@pytest.mark.parametrize(
    ("right", "criterion"),
    [*((right, "REML") for right in SPARSE), (SPARSE[2], "ML"), (SPARSE[4], "ML")],
)
def test_a_sparse_border_changes_nothing(monkeypatch, right, criterion):
    dense, other = both(monkeypatch, right, criterion)
    theta = dense.starts()[0] + np.random.default_rng(1).normal(
        0.0, 0.2, len(dense.starts()[0])
    )
    at, by = other(theta), dense(theta)
    for one, two in zip(at, by):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)
    several = np.array([theta, theta + 0.3])
    np.testing.assert_allclose(other.values(several), dense.values(several), rtol=1e-12)
    found, wanted = other.estimate(theta), dense.estimate(theta)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        found[1].matrix(), wanted[1].matrix(), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("right", SPARSE[-3:])
def test_draws_by_a_sparse_border_are_the_same(monkeypatch, right):
    dense, other = both(monkeypatch, right)
    theta = np.array([dense.starts()[0], dense.starts()[0] + 0.2])
    chosen, weight = np.array([0, 1, 1, 0, 1]), np.array([0.4, 0.6])
    found, wanted = (
        f.mixture(theta[[0, 1]], weight, chosen, np.random.default_rng(0))
        for f in (other, dense)
    )
    # draws at both nodes at once take their numbers in another order
    for name in ("mean", "node_mean", "node_sd"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(wanted, name), rtol=1e-8, atol=1e-11
        )
    many = other.mixture(
        theta, weight, np.repeat([0, 1], [8000, 12000]), np.random.default_rng(0)
    ).beta
    np.testing.assert_allclose(
        found.covariance.matrix(), wanted.covariance.matrix(), rtol=1e-8, atol=1e-11
    )
    sd = wanted.covariance.errors()
    np.testing.assert_allclose(
        (many.mean(0) - wanted.mean) / sd, 0.0, atol=5 / np.sqrt(20_000)
    )
    np.testing.assert_allclose(many.std(0) / sd, 1.0, atol=5 / np.sqrt(40_000))


def test_a_fit_of_many_rows_takes_few_gradients(monkeypatch):
    """One search where the noise is clear on the whole grid of starts, and no curvature by differences before it is asked for."""
    calls, gradient = [], GaussianSurface.__call__
    monkeypatch.setattr(
        GaussianSurface,
        "__call__",
        lambda self, theta: calls.append(theta) or gradient(self, theta),
    )
    rng = np.random.default_rng(0)
    g, x = np.repeat(np.arange(40), 50), rng.normal(size=2000)
    y = (
        1.0
        + x
        + rng.normal(size=40)[g]
        + 0.5 * rng.normal(size=40)[g] * x
        + rng.normal(size=2000)
    )
    fit = pr.fit(
        Model.from_formula("y ~ x + (x | g)", {"y": y, "x": x, "g": g.astype(str)})
    )
    assert len(calls) <= 12
    assert all(
        np.isfinite(error) for error in fit.solution.effect_scales.errors.values()
    )
    assert len(calls) > 12


def slopes_of(f: Any, theta: np.ndarray) -> np.ndarray:
    h = 1e-4
    return np.stack(
        [(f(theta + h * e) - f(theta - h * e)) / (2 * h) for e in np.eye(len(theta))],
        axis=-1,
    )


@pytest.mark.parametrize(
    ("formula", "prior"),
    [
        ("y ~ x + (x || g)", {"x || g": Covariance(sd={"Intercept": 0.4})}),
        ("y ~ x + (x || g)", {"x || g": Covariance(sd={"x": 0.4})}),
        ("y ~ gp(z, basis='hsgp')", {}),
        ("y ~ x", {"x": Normal(pr.HalfNormal(1.0))}),
    ],
)
def test_log_scales_of_a_prior_have_the_slopes_of_differences(formula, prior):
    model = Model.from_formula(formula, DATA, prior=prior)
    (g,) = EvidenceProblem(model, False).groups.groups
    q, theta = len(g.columns), 0.2 * np.cos(1.0 + np.arange(len(g.hyper)))
    assert g.prior is not None
    slopes = slopes_of(lambda t: g.prior.log_scales(t[None], q)[0], theta)
    large = g.prior.log_scales(theta[None], q)[0] > -15.0  # else rounding dominates
    found = g.prior.log_scale_slopes(theta, q)
    np.testing.assert_allclose(found[large], slopes[large], atol=1e-6)
    bends = slopes_of(lambda t: g.prior.log_scale_slopes(t, q), theta)
    found = g.prior.log_scale_curvature(theta, q)
    np.testing.assert_allclose(found[large], bends[large], atol=1e-5)


def test_log_scales_of_several_classes_are_those_of_their_roots():
    """Sines, whose scales differ, with one process for all classes."""
    formula, likelihood = "c ~ gp(z, basis='hsgp')", pr.Categorical(symmetric=True)
    model = Model.from_formula(formula, DATA, likelihood=likelihood)
    layout = EvidenceProblem(model, False).surface.layout
    (block,) = layout.blocks
    assert block.repeats == 2 * len(block.group.columns)
    theta = 0.2 * np.cos(1.0 + np.arange(len(layout.groups.priors)))

    def log_scales(t: np.ndarray) -> np.ndarray:
        return np.log(layout.roots(t[None]).roots[0].value[0][:, 0, 0])

    large = log_scales(theta) > -15.0  # rounding of smaller ones dominates
    slopes, curvature = layout.log_scale_derivatives(theta)
    np.testing.assert_allclose(slopes[block.place][large], slopes_of(log_scales, theta)[large], atol=1e-6)  # fmt: skip
    bends = slopes_of(lambda t: layout.log_scale_derivatives(t)[0], theta)
    np.testing.assert_allclose(curvature[block.place][large], bends[block.place][large], atol=1e-5)  # fmt: skip
