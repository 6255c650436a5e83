"""Laws of the posterior of the length of an exact process: quadrature of its formula, stated lengths, files, refusals."""

import types
from functools import partial

import numpy as np
import pytest

import probreg as pr
from probreg.errors import Incompatible
from probreg.inference import METHODS, Integrate
from probreg.inference.exact.evidence_problem import EvidenceProblem, with_values
from probreg.inference.exact.process_surface import ProcessSurface
from probreg.kernels import RBF, Matern, basis
from probreg.kernels.anchored import root_at_rows
from probreg.model.off_span import off_span
from probreg.priors import GaussianProcess, HalfNormal, LogNormal, Normal

from .cases import Array

RNG = np.random.default_rng(5)
X = np.array([0.0, 0.4, 0.9, 1.0, 1.0, 1.7, 2.1, 2.2, 3.0, 3.3, 4.1, 4.6])
Z = RNG.uniform(0.0, 2.0, 12)
DATA = {"x": X, "z": Z, "y": np.sin(2.0 * X) + 0.5 * Z + 0.3 * RNG.standard_normal(12)}
NEW = {"x": np.array([1.0, 1.3, 4.9, 12.0]), "z": np.array([0.0, 1.0, 0.5, 1.0])}
SIGMA = 0.35
AMPLITUDE, LENGTH = HalfNormal(1.5), LogNormal(0.5, location=-0.3)
UNKNOWN = GaussianProcess(amplitude=AMPLITUDE, length=LENGTH)


def model_of(process=UNKNOWN, formula="y ~ z + gp(x)", **more) -> pr.Model:
    return pr.Model.from_formula(
        formula, DATA, **({"prior": {"gp(x)": process}, "aux": {"sigma": SIGMA}} | more)
    )


@pytest.fixture(scope="module")
def fitted() -> pr.Fit:
    return pr.fit(model_of(), Integrate(draws=1500), seed=2)


def given(
    rows: dict[str, Array], amplitude: float, length: float
) -> tuple[float, Array, Array]:
    """log p(y | theta), and mean and covariance at rows: y ~ N(F b, V) with b flat."""
    k = lambda a, b: amplitude**2 * np.exp(-0.5 * (a[:, None] - b) ** 2 / length**2)
    F, G = (np.column_stack([np.ones(len(r["x"])), r["z"]]) for r in (DATA, rows))
    V, y = k(X, X) + SIGMA**2 * np.eye(12), DATA["y"]
    W = np.linalg.inv(V)
    A = F.T @ W @ F
    b = np.linalg.solve(A, F.T @ W @ y)
    r = y - F @ b
    log_p = -0.5 * (
        10 * np.log(2 * np.pi)
        + np.linalg.slogdet(V)[1]
        + np.linalg.slogdet(A)[1]
        + r @ W @ r
    )
    K = k(rows["x"], X)
    R = G - K @ W @ F
    return (
        log_p,
        G @ b + K @ W @ r,
        k(rows["x"], rows["x"]) - K @ W @ K.T + R @ np.linalg.solve(A, R.T),
    )


def by_grid(rows: dict[str, Array]) -> tuple[float, Array, Array]:
    """log p(y), and mean and standard deviation at rows, by a plain grid over the logs of amplitude and length."""
    axes = np.linspace(-3.5, 2.5, 70), np.linspace(-2.6, 2.2, 70)
    theta = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], 1)
    each = [given(rows, *np.exp(t)) for t in theta]
    prior = (
        AMPLITUDE.log_prob(np.exp(theta[:, 0]))
        + LENGTH.log_prob(np.exp(theta[:, 1]))
        + theta.sum(1)
    )
    value = np.array([e[0] for e in each]) + prior
    w = np.exp(value - value.max())
    log_p = float(value.max() + np.log(w.sum() * np.prod([a[1] - a[0] for a in axes])))
    w, mean = w / w.sum(), np.array([e[1] for e in each])
    second = np.array([np.diagonal(e[2]) for e in each]) + mean**2
    return log_p, w @ mean, np.sqrt(w @ second - (w @ mean) ** 2)


@pytest.mark.slow
def test_at_the_rows_the_moments_are_those_of_quadrature(fitted):
    _, mean, sd = by_grid(DATA)
    S, F, tol = fitted.solution, fitted.model.design.X, 4.0 / 1024
    np.testing.assert_allclose((F @ S.beta)[:, 0], mean, atol=tol * sd.min())
    np.testing.assert_allclose(
        np.sqrt(np.einsum("ij,jk,ik->i", F, S.scale.matrix(), F)), sd, rtol=tol
    )


@pytest.mark.slow
def test_off_the_rows_predictions_are_those_of_quadrature(fitted):
    """Of 6,000 draws: four standard errors of a mean are 0.05 standard deviations, of a standard deviation 4 percent."""
    _, mean, sd = by_grid(NEW)
    drawn = fitted.predictive(NEW).means()
    np.testing.assert_allclose((drawn.mean(0) - mean) / sd, 0.0, atol=0.05)
    # the tails of the amplitude are long
    np.testing.assert_allclose(drawn.std(0), sd, rtol=0.05)
    found = fitted.predict(NEW)
    np.testing.assert_allclose(found["mean"], drawn.mean(0), rtol=1e-12)
    new = (found["new_upper"] - found["new_lower"]).values
    assert (new > (found["mean_upper"] - found["mean_lower"]).values).all()


@pytest.mark.slow
def test_each_draw_goes_on_as_the_process_of_its_own_length(fitted):
    draws = fitted.solution.draws.flat
    (process,) = off_span(fitted.model, draws, SIGMA).processes
    rows = np.array([[1.3], [12.0], [0.4]])
    X = np.zeros((3, 1 + max(process.columns)))
    X[:, process.columns] = process.basis.values(rows)
    design = types.SimpleNamespace(inputs={process.key: rows}, X=X)
    mean, variance = process.moments(design)
    A = process.basis.anchors
    for s in (0, 777):
        k = RBF(draws["length[gp(x)]"][s])
        weights = k(rows[:2], A) @ np.linalg.inv(k(A))
        np.testing.assert_allclose(
            mean[s, :2, 0], weights @ draws["beta"][s, 2:, 0], rtol=1e-6, atol=1e-7
        )
        left = draws["amplitude[gp(x)]"][s] ** 2 * (
            1.0 - (weights * k(rows[:2], A)).sum(1)
        )
        np.testing.assert_allclose(variance[s, :2], left, rtol=1e-6, atol=1e-9)
    assert not mean[:, 2].any()
    assert not variance[:, 2].any()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"weights": np.r_[np.ones(6), np.full(6, 2.0)]},
        {"weights": pr.weights.precision(Z + 0.5)},
    ],
)
def test_given_its_hyperparameters_a_process_is_the_one_of_a_stated_length(more):
    formula, prior = "y ~ s(z, k=4) + gp(x{})", {"s(z, k=4)": Normal(HalfNormal(1.0))}
    unknown = with_values(
        model_of(formula=formula.format(""), prior={"gp(x)": UNKNOWN, **prior}, **more)
    )
    surface = EvidenceProblem(unknown, False).surface
    assert isinstance(surface, ProcessSurface)
    order = [n for g in surface.groups.groups for n in g.hyper]
    values = {"tau": 0.8, "amplitude": 1.2, "length": 0.7}
    mean, root = surface.conditional(np.log([values[n] for n in order]))
    stated = {"gp(x, length=0.7)": Normal(1.2), "s(z, k=4)": Normal(0.8)}
    fit = pr.fit(model_of(formula=formula.format(", length=0.7"), prior=stated, **more))
    F, G = unknown.design.X, fit.model.design.X
    np.testing.assert_allclose(F @ mean, (G @ fit.solution.beta)[:, 0], atol=1e-8)
    np.testing.assert_allclose(
        F @ root @ root.T @ F.T, G @ fit.solution.scale.matrix() @ G.T, atol=1e-8
    )


@pytest.mark.slow
def test_effects_and_curves_of_a_length_that_is_nearly_known_are_those_of_a_stated_one():
    """4,000 draws: standard deviations to four of their own standard errors, 5 percent; means to 0.07 of them."""
    near = GaussianProcess(
        amplitude=LogNormal(1e-4, location=0.2),
        length=LogNormal(1e-4, location=np.log(0.7)),
    )
    drawn = pr.fit(model_of(near), Integrate(nodes=64), seed=4)
    stated = pr.fit(
        model_of(
            formula="y ~ z + gp(x, length=0.7)",
            prior={"gp(x, length=0.7)": Normal(np.exp(0.2))},
        )
    )
    rows = {"x": np.array([1.0, 1.3, 4.7]), "z": np.ones(3)}
    far = partial(
        pr.comparisons, variables={"x": (12.0, 12.1)}, data={"x": [0.0], "z": [1.0]}
    )
    slopes = partial(pr.slopes, variables="x", data=rows, by="x")
    for verb in (
        far,
        slopes,
        partial(pr.slopes, variables="x"),
        partial(pr.predictions, data=rows),
    ):
        one, other = verb(drawn).table, verb(stated).table
        np.testing.assert_allclose(one["sd"], other["std_error"], rtol=0.05)
        np.testing.assert_allclose(
            (one["estimate"] - other["estimate"]) / other["std_error"], 0.0, atol=0.07
        )
    for derivative in (False, True):
        one = drawn.smooth("gp(x)", at=rows["x"], derivative=derivative)
        other = stated.smooth("gp(x)", at=rows["x"], derivative=derivative)
        np.testing.assert_allclose(one["sd"], other["sd"], rtol=0.05)
        np.testing.assert_allclose(
            (one["estimate"] - other["estimate"]) / other["sd"], 0.0, atol=0.07
        )
    assert drawn.smooths["edf"].item() == pytest.approx(
        stated.smooths["edf"].item(), rel=1e-3
    )


@pytest.mark.slow
def test_a_posterior_of_an_exact_length_comes_back_from_its_file(fitted, tmp_path):
    with pytest.warns(pr.ProbregWarning, match="the file holds rows of x"):
        back = pr.load_fit(fitted.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(
        back.predictive(NEW).means(), fitted.predictive(NEW).means()
    )
    assert np.isfinite(fitted.tree["log_prior"].to_dataset().to_array()).all()


def test_what_needs_columns_elsewhere_says_so(fitted):
    with pytest.raises(
        Incompatible,
        match=r"an update by other rows needs the columns of gp\(x\) at other rows",
    ):
        fitted.update({**NEW, "y": np.zeros(4)})


def test_the_density_of_values_is_normal_with_the_covariance_of_the_process(fitted):
    prior = GaussianProcess(Matern(0.8, nu=0.5), AMPLITUDE, LENGTH)
    of = with_values(model_of(prior)).joint.blocks[-1].prior
    f = RNG.standard_normal((3, of.size, 2))
    at = {"amplitude": np.array([1.3, 1.3, 0.7]), "length": np.array([0.8, 0.8, 2.0])}
    expected = []
    for s in range(3):
        K = at["amplitude"][s] ** 2 * Matern(at["length"][s], nu=0.5)(of.basis.anchors)
        parts = [
            -0.5 * (v @ np.linalg.solve(K, v) + np.linalg.slogdet(2 * np.pi * K)[1])
            for v in f[s].T
        ]
        expected.append(sum(parts))
    np.testing.assert_allclose(of.log_prob_given(f, at), expected, rtol=1e-10)
    drawn = of.sample(np.random.default_rng(0), (1000, of.size, 1))[..., 0]
    assert np.square(drawn).mean() == pytest.approx(1.5**2, rel=0.2)  # E amplitude^2


def test_the_root_at_rows_is_that_of_the_covariance():
    made, F, places = root_at_rows(RBF(2.0), X[:, None])
    np.testing.assert_allclose(F @ F.T, RBF(2.0)(X), atol=1e-14)
    np.testing.assert_allclose(made.columns_at(X), F, atol=1e-7)
    assert made.size < len(X)
    assert len(places) == made.size == np.linalg.matrix_rank(RBF(2.0)(X), tol=1e-14)
    assert basis(RBF(2.0), X).size <= made.size + 1


@pytest.mark.slow
def test_posterior_takes_it_and_others_say_what_does(fitted):
    found = pr.fit(model_of(), METHODS["posterior"](draws=100), seed=2)
    assert found.method.name == "integrate"
    assert found.solution.status.good
    assert found.aux["sigma"] == SIGMA
    with pytest.raises(
        Incompatible, match=r"the amplitude of gp\(x\) has an improper prior"
    ):
        pr.fit(model_of(GaussianProcess(length=LENGTH)), "posterior")


@pytest.mark.parametrize("method", ["integrate", "posterior"])
def test_bases_of_few_anchors_are_refused(method):
    few = model_of(
        formula="y ~ z + gp(x, basis='cholesky')",
        prior={"gp(x, basis='cholesky')": UNKNOWN},
    )
    with pytest.raises(
        Incompatible,
        match=r"(?s)cannot estimate the length of gp.*use evidence, or basis='hsgp'",
    ):
        pr.fit(few, method)


COUNTS = {
    **DATA,
    "k": np.array([2, 1, 4, 3, 2, 0, 1, 0, 1, 3, 2, 0]),
    "b": np.array([1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0]),
}
COUNTS["c"] = np.array(list("abcabacabcab"))


def of_counts(likelihood: str, basis: str, process) -> pr.Model:
    y = {"poisson": "k", "bernoulli": "b", "categorical": "c"}[likelihood]
    prior = {"z": Normal(1.0), f"gp(x, {basis})": process}
    return pr.Model.from_formula(
        f"{y} ~ z + gp(x, {basis})", COUNTS, likelihood=likelihood, prior=prior
    )


@pytest.mark.parametrize(
    "likelihood", ["poisson", pytest.param("categorical", marks=pytest.mark.slow)]
)
def test_other_likelihoods_at_a_length_that_is_nearly_known_are_those_of_a_stated_one(
    likelihood,
):
    near = GaussianProcess(
        amplitude=LogNormal(1e-4, location=0.2),
        length=LogNormal(1e-4, location=np.log(0.7)),
    )
    drawn = pr.fit(
        of_counts(likelihood, "basis='exact'", near), Integrate(nodes=64), seed=4
    )
    stated = pr.fit(
        of_counts(likelihood, "length=0.7", Normal(np.exp(0.2))), "importance", seed=3
    )
    assert drawn.solution.status.good
    one, other = (fit.predictive(NEW).means() for fit in (drawn, stated))
    sd = other.std(0)
    # of some 2,000 independent draws each
    np.testing.assert_allclose((one.mean(0) - other.mean(0)) / sd, 0.0, atol=0.1)
    np.testing.assert_allclose(one.std(0), sd, rtol=0.12)


@pytest.mark.slow
def test_counts_have_the_posterior_of_many_sines():
    """Sines are off by less than 1 percent of k within their quantiles of the length."""
    exact, sines = (
        pr.fit(
            of_counts("poisson", f"basis='{basis}'", UNKNOWN),
            Integrate(nodes=64, draws=2000),
            seed=5,
        )
        for basis in ("exact", "hsgp")
    )
    one, other = (fit.predictive(DATA).means() for fit in (exact, sines))
    np.testing.assert_allclose(
        (one.mean(0) - other.mean(0)) / other.std(0), 0.0, atol=0.1
    )
    np.testing.assert_allclose(one.std(0), other.std(0), rtol=0.1)
    for a, b in zip(exact.solution.draws.hyper, sines.solution.draws.hyper):
        p, q = exact.solution.draws.flat[a], sines.solution.draws.flat[b]
        assert p.mean() == pytest.approx(q.mean(), abs=0.1 * q.std())
        assert p.std() == pytest.approx(q.std(), rel=0.1)


def test_two_processes_the_first_with_fewer_columns_than_rows() -> None:
    model = model_of(
        formula="y ~ gp(z) + gp(x)", prior={"gp(z)": UNKNOWN, "gp(x)": UNKNOWN}
    )
    sizes = lambda of: [len(t.columns) for t in of.design.recipe.processes.values()]
    assert sizes(model)[0] < 12
    assert sizes(with_values(model)) == [12, 11]


def test_pivots_that_are_mostly_rounding_are_left_out() -> None:
    x = np.sort(np.random.default_rng(4).uniform(0.0, 5.0, 30))[:, None]
    made, F, _ = root_at_rows(RBF(1.1975970244272824), x)
    far = np.linspace(-3.0, 8.0, 400)[:, None]
    assert made.kernel.diagonal(far) - np.square(made.values(far)).sum(
        1
    ) == pytest.approx(made.residual_variance(far), abs=1e-12)
    np.testing.assert_allclose(F @ F.T, RBF(1.1975970244272824)(x), atol=1e-12)
