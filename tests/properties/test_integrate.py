"""The posterior under unknown prior scales: beta integrated given them, the scales by weighted nodes."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

import probreg as pr
from probreg.errors import Incompatible, NotConverged
from probreg.inference import Integrate
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.gaussian_surface import GaussianSurface, _compress_columns
from probreg.inference.modes.level_newton import Inverse
from tests.reference.chains import moments_of_chains

data = np.random.default_rng(5)
X = data.normal(size=(50, 6))
X[:, 1:3] += X[:, :1]
NAMES = [f"x{i}" for i in range(6)]
beta = np.array([0.8, -0.5, 0.0, 0.3, -1.0, 0.4])
Y = {
    "gaussian": 2.0 + X @ beta + data.normal(size=50),
    "bernoulli": (X @ beta + data.logistic(size=50) > 0).astype(int),
    "poisson": data.poisson(np.exp(0.4 + 0.4 * X @ beta)),
    "negative_binomial": data.poisson(
        np.exp(0.4 + 0.4 * X @ beta) * data.gamma(3.0, 1 / 3, 50)
    ),
    "categorical": np.argmax(
        np.column_stack([X[:, 0], X[:, 4], 0 * X[:, 0]]) + data.gumbel(size=(50, 3)), 1
    ),
    "student": 2.0 + X @ beta + data.standard_t(4, size=50),
}
AUX = {
    "negative_binomial": {"alpha": pr.HalfNormal(1.0)},
    "student": {"sigma": pr.HalfNormal(3.0)},
}
HALF = pr.Normal(pr.HalfNormal(1.0))
HALF_2 = pr.HalfNormal(2.0)


def model_of(likelihood: str, prior=HALF, columns: int = 6, **more) -> pr.Model:
    aux = more.pop("aux", AUX.get(likelihood, {}))
    return pr.Model.from_arrays(
        X[:, :columns],
        Y[likelihood],
        columns=NAMES[:columns],
        likelihood=likelihood,
        prior=prior,
        aux=aux,
        **more,
    )


def test_one_scale_with_sigma_held_is_a_one_dimensional_integral() -> None:
    model = model_of("gaussian", aux={"sigma": 1.0})
    problem = EvidenceProblem(model, per_column=False)
    theta = np.linspace(-12.0, 4.0, 4001)[:, None]
    weight = np.exp((value := problem.surface.values(theta)) - logsumexp(value))
    tau = np.exp(theta[:, 0])
    found = pr.fit(model, Integrate(nodes=4096), seed=1).solution
    # of draws, which follow the weights to within one of each node
    mean_of_tau, sd_of_tau = found.scalars["tau"]
    assert mean_of_tau == pytest.approx(weight @ tau, rel=1e-2)
    assert sd_of_tau == pytest.approx(
        np.sqrt(weight @ tau**2 - (weight @ tau) ** 2), rel=2e-2
    )
    at = [pr.fit(model.with_prior(pr.Normal(t)), "conjugate") for t in tau[1500::50]]
    thin = weight[1500::50] / weight[1500::50].sum()
    mean = sum(w * fit.coef.values for w, fit in zip(thin, at))
    square = sum(
        w * (fit.std_error.values**2 + fit.coef.values**2) for w, fit in zip(thin, at)
    )
    np.testing.assert_allclose(found.beta[:, 0], mean, atol=2e-3)
    np.testing.assert_allclose(
        np.sqrt(found.scale.diagonal()), np.sqrt(square - mean**2), rtol=2e-3
    )


def test_the_evidence_is_the_integral_over_the_scales() -> None:
    model = model_of("gaussian", aux={"sigma": pr.HalfNormal(2.0)}, intercept=False)
    surface = EvidenceProblem(model, per_column=False).surface
    u, v = np.meshgrid(np.linspace(-9, 3, 241), np.linspace(-2, 2, 161), indexing="ij")
    area = (12 / 240) * (4 / 160)
    by_grid = logsumexp(
        surface.values(np.column_stack([u.ravel(), v.ravel()]))
    ) + np.log(area)
    stats = pr.fit(model, "integrate", seed=2).solution.stats
    assert stats["log_evidence"] == pytest.approx(
        by_grid, abs=6 * stats["log_evidence_se"]
    )
    assert stats["log_evidence_se"] < 0.01


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson"])
def test_values_of_many_nodes_are_those_of_one_by_one(likelihood: str) -> None:
    prior = {
        ("x0", "x1"): HALF,
        ("x3", "x4"): pr.Normal(pr.HalfNormal(2.0)),
        "x5": pr.Normal(0.7),
    }
    surface = EvidenceProblem(model_of(likelihood, prior), per_column=False).surface
    theta = data.normal(size=(5, 3 if likelihood == "gaussian" else 2))
    np.testing.assert_allclose(
        surface.values(theta), [surface(t).value for t in theta], rtol=1e-10
    )


@pytest.mark.slow
def test_nodes_of_many_rows_take_modes_that_weights_do_not_tell_from_better_ones() -> (
    None
):
    """Their evidence is that of exact modes to 1e-6."""
    rows = data.normal(size=(12_000, 3))
    y = (rows @ beta[:3] + data.logistic(size=12_000) > 0).astype(int)
    model = pr.Model.from_arrays(rows, y, likelihood="bernoulli", prior=HALF)
    surface, again = (
        EvidenceProblem(model, per_column=False).surface for _ in range(2)
    )
    theta = np.array([[-0.3], [1.2], [-2.5]])
    np.testing.assert_allclose(
        surface.values(theta), [again(t).value for t in theta], atol=1e-6
    )
    found = pr.fit(model, Integrate(draws=100), seed=3).solution
    assert found.stats["k_hat_joint"] < 0.5
    mode = pr.fit(model.with_prior(pr.Normal(0.7)))
    np.testing.assert_allclose(
        found.beta, mode.solution.beta, atol=0.1 * mode.std_error.values.max()
    )


def test_given_the_scales_beta_is_the_conjugate_posterior() -> None:
    prior = {
        ("x0", "x1"): HALF,
        ("x3", "x4"): pr.Normal(pr.HalfNormal(2.0), sigma_units=True),
    }
    model = model_of("gaussian", prior)
    surface = EvidenceProblem(model, per_column=False).surface
    assert isinstance(surface, GaussianSurface)
    tau, sigma = np.array([0.6, 1.7]), 1.3
    beta, scale = surface.estimate(np.log([*tau, sigma]))
    mean, covariance = beta[:, 0], scale.matrix()
    plain = {
        ("x0", "x1"): pr.Normal(tau[0]),
        ("x3", "x4"): pr.Normal(tau[1], sigma_units=True),
    }
    exact = pr.fit(model.with_prior(plain).with_aux(sigma=sigma), "conjugate")
    np.testing.assert_allclose(mean, exact.coef, rtol=1e-9)
    np.testing.assert_allclose(covariance, exact.covariance(), rtol=1e-8, atol=1e-12)


def test_draws_have_the_moments_that_are_reported() -> None:
    found = pr.fit(model_of("gaussian"), Integrate(draws=5000), seed=3).solution
    draws = found.posterior["beta"].reshape(-1, 7)
    sd = np.sqrt(found.scale.diagonal())
    assert np.abs((draws.mean(0) - found.beta[:, 0]) / sd).max() < 0.04
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.04)
    np.testing.assert_allclose(
        np.corrcoef(draws.T), found.scale.matrix() / np.outer(sd, sd), atol=0.04
    )


def test_intervals_are_quantiles_of_the_mixture_over_the_nodes() -> None:
    found = pr.fit(model_of("gaussian"), Integrate(draws=20_000), seed=3)
    draws = found.solution.posterior["beta"].reshape(-1, 7)
    lower, upper = np.quantile(draws, [0.05, 0.95], axis=0)
    ends = found.interval(0.9)
    width = upper - lower
    assert (np.abs(ends["lower"] - lower) < 0.02 * width).all()
    assert (np.abs(ends["upper"] - upper) < 0.02 * width).all()


def nine_scales() -> pr.Model:
    rows = np.random.default_rng(0)
    Z, names = rows.normal(size=(80, 18)), [f"z{i}" for i in range(18)]
    signal = np.repeat([0.0, 0.1, 0.3, 0.5, 1.0, 0.0, 0.2, 2.0, 0.4], 2) * rows.choice(
        [-1, 1], 18
    )
    y = 1.0 + Z @ signal + rows.normal(size=80)
    prior = {tuple(names[i : i + 2]): HALF for i in range(0, 18, 2)}
    return pr.Model.from_arrays(Z, y, columns=names, prior=prior, aux={"sigma": HALF_2})


def models_of_chains() -> dict[str, pr.Model]:
    """Models of which the sampler of all coordinates has run long chains."""
    return {
        name: model_of(name, columns=3 if name == "categorical" else 6) for name in Y
    }


@pytest.mark.parametrize(
    ("likelihood", "nodes"),
    [
        ("gaussian", None),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("poisson", None),
                ("negative_binomial", None),
                ("student", None),
                ("categorical", 256),
            )
        ),
    ],
)
def test_integrate_agrees_with_chains_of_all_coordinates(
    likelihood: str, nodes: int | None
) -> None:
    model = models_of_chains()[likelihood]
    ours = pr.fit(model, Integrate(draws=4000, nodes=nodes), seed=1)
    theirs = moments_of_chains(likelihood, model, ours)
    sd = theirs.std_error
    # means within 0.05 sd and sds within 5 %, and Monte Carlo errors of 10,000 correlated draws, 0.015 sd and 1 %
    assert float(np.abs((ours.coef - theirs.coef) / sd).max()) < 0.05 + 0.03
    assert float(np.abs(ours.std_error / sd - 1.0).max()) < 0.05 + 0.02
    for name, (value, spread) in theirs.scalars.items():
        assert ours.solution.scalars[name][0] == pytest.approx(value, abs=0.1 * spread)


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform() -> None:
    model = pr.Model.from_arrays(
        X[:15, :3],
        Y["gaussian"][:15],
        prior=HALF,
        aux={"sigma": pr.HalfNormal(1.0)},
        intercept=False,
    )
    found = pr.sbc(model, Integrate(nodes=256, draws=100, chains=1), 150, seed=4)
    assert found.uniform
    assert sum(found.failures.values()) <= 2  # refused by k-hat of so few nodes


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform_under_an_unknown_length() -> None:
    x = np.linspace(0.0, 2.0, 15)
    prior = {
        "Intercept": pr.Normal(1.0),
        "gp(x)": pr.priors.GaussianProcess(
            amplitude=pr.HalfNormal(1.0), length=pr.priors.LogNormal(0.3, location=-0.2)
        ),
    }
    model = pr.Model.from_formula(
        "y ~ gp(x, basis='hsgp')",
        {"x": x, "y": np.sin(3 * x)},
        prior=prior,
        aux={"sigma": pr.priors.LogNormal(0.4, location=-1.0)},
    )
    found = pr.sbc(model, Integrate(nodes=256, draws=100, chains=1), 24, seed=4)
    assert found.uniform
    assert sum(found.failures.values()) <= 2  # refused by k-hat of so few nodes


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            lambda: model_of("gaussian", pr.Normal(1.0)),
            "averages over unknown prior scales",
        ),
        (
            lambda: model_of("gaussian", pr.Normal(pr.priors.Reference())),
            "improper prior, so the posterior is improper",
        ),
        (
            lambda: model_of("gaussian", pr.Laplace(pr.HalfNormal(1.0))),
            "scales to be those of normal priors",
        ),
        (
            lambda: model_of("gaussian", pr.Normal(pr.priors.Uniform(0.1, 2.0))),
            "has bounded support; use nuts",
        ),
    ],
)
def test_what_it_cannot_integrate_is_refused_with_what_can(model, said: str) -> None:
    with pytest.raises(Incompatible, match=said):
        pr.fit(model(), "integrate")


def test_nodes_that_do_not_settle_are_refused_with_what_to_do(monkeypatch) -> None:
    # near zero by the prior, of size one by the data: two modes each
    far = pr.Normal(pr.priors.HalfCauchy(1e-3))
    model = model_of("gaussian", {"x0": far, "x1": far})
    # by nodes about where the first found the mass
    assert pr.fit(model, "integrate", seed=0).solution.stats["k_hat"] < 0.67
    monkeypatch.setattr("probreg.inference.exact.integrate._ROUNDS", 0)
    with pytest.raises(
        NotConverged,
        match=r"k-hat 1\.\d+ of 1,024 nodes is above 0\.67.*method='nuts'",
    ):
        pr.fit(model, "integrate", seed=0)


def test_nodes_are_counted_as_they_are_laid() -> None:
    stats = pr.fit(model_of("gaussian"), Integrate(nodes=1000), seed=0).solution.stats
    assert stats["nodes"] == 1024  # four sequences of a power of two each


def test_more_than_eight_scales_are_left_to_the_sampler() -> None:
    with pytest.raises(Incompatible, match=r"at most 8 unknown scales.* has 10.*nuts"):
        pr.fit(nine_scales(), "integrate", seed=4)


def test_posterior_takes_it_where_a_scale_is_unknown() -> None:
    found = pr.fit(model_of("gaussian", columns=3), "posterior", seed=1)
    assert found.method.name == "integrate"
    assert "posterior took integrate: " in str(found.notes[0])
    alone = pr.fit(model_of("gaussian", columns=3), "integrate", seed=1)
    np.testing.assert_array_equal(
        found.solution.posterior["beta"], alone.solution.posterior["beta"]
    )


@pytest.mark.slow
def test_draws_that_no_weights_vouch_for_have_no_good_status_and_no_evidence(
    monkeypatch,
) -> None:
    monkeypatch.setattr("probreg.inference.exact.nodes._JOINT", 50)
    rows = np.random.default_rng(0)
    wide = rows.normal(size=(80, 60))
    z = (wide[:, 0] + rows.logistic(size=80) > 0).astype(int)
    model = pr.Model.from_arrays(
        wide, z, likelihood="bernoulli", prior=HALF, intercept=False
    )
    with pytest.warns(
        pr.errors.ProbregWarning,
        match="60 coefficients",
    ):
        found = pr.fit(model, Integrate(draws=100), seed=1)
    assert not found.solution.status.good
    assert "log_evidence" not in found.solution.stats


@pytest.mark.slow
def test_weights_that_are_refused_leave_an_approximation_and_say_so() -> None:
    rows = np.random.default_rng(1)
    # separated: a posterior far from a normal in every direction
    wide = rows.normal(size=(20, 45))
    z = (3 * wide[:, 0] + rows.logistic(size=20) > 0).astype(int)
    prior = pr.Normal(pr.HalfNormal(3.0))
    model = pr.Model.from_arrays(
        wide, z, likelihood="bernoulli", prior=prior, intercept=False
    )
    with pytest.warns(
        pr.errors.ProbregWarning,
        match="weighed jointly with the scales they have k-hat",
    ):
        found = pr.fit(model, Integrate(draws=100), seed=1)
    assert found.solution.stats["k_hat_joint"] > 0.7
    assert "log_evidence" not in found.solution.stats


def test_columns_that_reproduce_the_response_are_refused_unless_they_scale_with_sigma() -> (
    None
):
    rows = np.random.default_rng(2)
    square, y = rows.normal(size=(8, 9)), rows.normal(size=8)
    raw = pr.Model.from_arrays(square, y, prior=HALF)
    for method in ("integrate", "nuts"):
        with pytest.raises(
            Incompatible, match=f"{method}.*reproduce the response exactly"
        ):
            pr.fit(raw, method)
    assert (
        Integrate().obstacle(
            raw.with_prior(pr.Normal(pr.HalfNormal(1.0), sigma_units=True))
        )
        is None
    )


@pytest.mark.parametrize(
    "likelihood", ["negative_binomial", "student", "categorical", "poisson"]
)
def test_the_mean_given_the_scales_moves_by_the_slope_of_the_curvature(
    likelihood: str,
) -> None:
    model = model_of(likelihood, columns=3)
    surface = EvidenceProblem(model, per_column=False, method="integrate").surface
    problem = EvidenceProblem(model, per_column=False, method="integrate")
    theta = np.full(len(surface.priors), -0.3)
    at, given = surface.mode(theta), problem.model_at(theta)
    width = surface.layout.border
    found = surface.layout.beta_of(at.roots, at.x)[..., 0]
    point = np.concatenate([found.ravel(), at.x[1][width:, 0]])

    def half_log_det(x: np.ndarray) -> float:
        aux = dict(zip(model.unknown, np.exp(x[width:]).tolist()))
        coefficients = x[:width].reshape(found.shape)
        return 0.5 * np.linalg.slogdet(raw_curvature(given, coefficients, aux))[1]

    slopes = [
        (half_log_det(point + e) - half_log_det(point - e)) / 2e-4
        for e in 1e-4 * np.eye(len(point))
    ]
    _, slopes_of_roots = surface._log_det_gradient(at, Inverse(*at.H.inverse()))
    moves = surface.dense_rows.to_raw @ at.roots.times_border(np.eye(len(point)))[0]
    np.testing.assert_allclose(
        slopes_of_roots[1][:, 0], moves.T @ slopes, rtol=1e-5, atol=1e-6
    )


def raw_curvature(
    model: pr.Model, beta: np.ndarray, aux: dict[str, float]
) -> np.ndarray:
    return model.value_grad_hessian(beta, **aux).curvature


@pytest.mark.slow
def test_posterior_goes_on_to_the_sampler_where_nodes_do_not_settle() -> None:
    far, rows = pr.Normal(pr.priors.HalfCauchy(1e-3)), np.random.default_rng(1)
    # the scales of four columns from six rows: some zero, some large, in several ways
    few = rows.normal(size=(6, 4))
    y = few @ [3.0, 0.5, 0.0, 0.0] + rows.normal(size=6)
    model = pr.Model.from_arrays(
        few, y, columns=NAMES[:4], prior=dict.fromkeys(NAMES[:4], far)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its chains have a hard posterior too
        found = pr.fit(model, pr.Posterior(draws=50), seed=0)
    assert found.method.name == "nuts"
    assert "integrate: k-hat" in str(found.notes[0])


@pytest.mark.parametrize(("shape", "rank"), [((40, 100), 40), ((200, 100), 3)])
def test_fewer_columns_have_the_same_square(shape, rank):
    """Of more columns than rows, and of columns that depend on one another."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    fewer = _compress_columns(W)
    assert fewer.shape[1] == rank
    np.testing.assert_allclose(fewer @ fewer.T, W @ W.T, rtol=1e-9, atol=1e-9)
