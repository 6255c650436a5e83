"""Stochastic gradients against what they approximate: Newton's mode, the online learner, the spread over repeated streams."""

import numpy as np
import pytest

import probreg as pr
from probreg.data.checked_arrays import full_weights
from probreg.inference import LMS, SGD, Perceptron, Status
from probreg.inference.modes.epochs import PassData, aux_mode_at
from probreg.inference.uncertainty.covariance import covariance_of_kind
from probreg.online import State, lms, run, widrow_hoff_pass
from tests.conftest import covering

PRIORS = {
    "flat": pr.Flat(),
    "normal": pr.Normal(0.7),
    "located": pr.Normal((0.5, 1.2), location=(0.3, -0.2)),
    "units": pr.Normal(0.9, location=0.2, sigma_units=True),
}
LIKELIHOODS = {
    "gaussian": pr.Gaussian(),
    "student": pr.StudentT(nu=3.5),
    "bernoulli": pr.Bernoulli(),
    "categorical": pr.Categorical(),
    "symmetric": pr.Categorical(symmetric=True),
    "poisson": pr.Poisson(),
}


def rows(name, n=150, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 30.0] + [0.0, 400.0]
    likelihood = LIKELIHOODS[name]
    eta = (X - [0.0, 400.0]) @ (
        np.array([[0.5], [-0.015]]) * np.linspace(1.0, -0.5, likelihood.width)
    ) + 0.2
    return X, likelihood.sample(rng, eta, **dict.fromkeys(likelihood.nuisance, 0.8))


def model_of(name, prior="flat", **more):
    X, y = rows(name, **{k: more.pop(k) for k in ("n", "seed") if k in more})
    return pr.Model.from_arrays(
        X, y, likelihood=LIKELIHOODS[name], prior=PRIORS[prior], **more
    )


PAIRS = [
    (name, prior)
    for name in LIKELIHOODS
    for prior in PRIORS
    if not (prior == "units" and name not in ("gaussian", "student"))
    and (name, prior) != ("symmetric", "located")
]


def distance(fit, mode):
    """Mahalanobis distance of the coefficients to Newton's, in standard errors of the latter."""
    d = (fit.solution.beta - mode.solution.beta).ravel()
    return float(np.sqrt(d @ np.linalg.solve(mode.solution.scale.matrix(), d)))


@pytest.mark.parametrize(
    ("name", "prior", "settings"),
    covering(
        [(*pair, settings) for settings in ({}, {"batch": 8}) for pair in PAIRS],
        lambda name, prior, settings: (name, *settings),
        lambda name, prior, settings: prior,
        one_in=9,
    ),
)
def test_sgd_ends_where_newton_does_within_what_it_promises(name, prior, settings):
    model = model_of(name, prior)
    fit, mode = pr.fit(model, SGD(**settings), seed=3), pr.fit(model, "newton")
    assert fit.solution.status is Status.CONVERGED
    assert fit.solution.stats["distance"] < SGD.accuracy
    # the decrement is the distance for a quadratic; a cubic term bends it by some d^2
    assert distance(fit, mode) < SGD.accuracy * 1.1
    for a, value in fit.solution.aux.items():
        assert value == pytest.approx(mode.solution.aux[a], rel=0.02)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_all_rows_in_a_step_are_gradient_descent_which_ends_at_the_mode(name):
    model = model_of(name)
    fit, mode = pr.fit(model, SGD(batch=150, tol=1e-3), seed=3), pr.fit(model, "newton")
    assert fit.solution.status is Status.CONVERGED
    assert distance(fit, mode) < 1e-3 * 1.1
    # there is no noise to average away: order and averaging change nothing but rounding
    last = pr.fit(model, SGD(batch=150, tol=1e-3, average=False), seed=4)
    assert distance(last, fit) < 1e-6
    with pytest.warns(
        pr.ProbregWarning, match=r"short of the maximum.*at a distance of"
    ):
        assert (
            pr.fit(model, SGD(batch=150, tol=1e-3, epochs=2)).solution.status
            is Status.SHORT
        )


@pytest.mark.filterwarnings("ignore:sgd")
@pytest.mark.slow
def test_the_average_is_nearer_than_the_last_iterate():
    model = model_of("bernoulli", n=600)
    for seed in range(3):
        last, mean = (
            pr.fit(model, SGD(average=a, epochs=64, tol=1e-9), seed=seed)
            for a in (False, True)
        )
        assert mean.solution.stats["distance"] < 0.5 * last.solution.stats["distance"]


@pytest.mark.parametrize("prior", covering(PRIORS))
def test_lms_ends_at_the_mode_within_what_it_promises(prior):
    model = model_of("gaussian", prior)
    assert (
        distance(pr.fit(model, "lms", seed=1), pr.fit(model, "newton")) < LMS.accuracy
    )
    closer = pr.fit(model, LMS(tol=0.02, epochs=5000), seed=1)
    assert distance(closer, pr.fit(model, "newton")) < 0.02


@pytest.mark.parametrize("n", [60, 900], ids=["pure", "compiled"])
def test_one_pass_of_lms_is_the_average_of_the_online_learner(n):
    model = model_of("gaussian", n=n)
    d = model.design
    U = (d.X - d.X.mean(0)) / np.where(d.X.std(0) > 0, d.X.std(0), 1.0)
    U[:, 0] = 1.0
    order = np.random.default_rng(7).permutation(n)
    step, start = 0.8 / (U**2).sum(1).max(), np.array([d.y.mean(), 0.0, 0.0])
    path = run(lms(step), U[order], d.y[order], state=State(start))
    with pytest.warns(pr.ProbregWarning, match="lms: short of the maximum"):
        fit = pr.fit(model, LMS(rate=0.8, epochs=1), seed=7)
    with pytest.warns(pr.ProbregWarning, match="sgd: short of the maximum"):
        same = pr.fit(model, SGD(rate=0.8, epochs=1, batch=1), seed=7)
    # sums in another order: rounding of some n steps
    np.testing.assert_allclose(
        d.basis.T_inverse @ fit.solution.beta[:, 0], path.average(), rtol=1e-10
    )
    np.testing.assert_allclose(same.solution.beta, fit.solution.beta, rtol=1e-10)


def streams(n, runs):
    """Rows whose noise grows with |x|: the sandwich of the slope is three times its inverse curvature."""
    for seed in range(runs):
        rng = np.random.default_rng([11, seed])
        x = rng.normal(size=n)
        yield (
            seed,
            pr.Model.from_arrays(x, 0.1 + 0.2 * x + np.abs(x) * rng.normal(size=n)),
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lms")
def test_the_plug_in_covariance_is_that_of_the_one_pass_average_over_repeated_streams():
    runs = 100
    fits = [pr.fit(m, LMS(epochs=1, rate=0.5), seed=s) for s, m in streams(2000, runs)]
    found = np.array([f.solution.beta[:, 0] for f in fits])
    plug_in = np.mean([f.covariance("HC0").values for f in fits], axis=0)
    # a variance of 100 draws has an error of 14 %, three of which are 42 %; the start, forgotten, adds some 1 / (step n) = 3 %
    np.testing.assert_allclose(
        np.diagonal(np.cov(found.T)), np.diagonal(plug_in), rtol=0.45
    )
    assert (
        np.abs(found.mean(0) - [0.1, 0.2]).max()
        < 4 * np.sqrt(plug_in.max() / runs) + 1e-3
    )
    classical = np.mean(
        [pr.fit(f.model).covariance().values for f in fits[:20]], axis=0
    )
    # E x^4 = 3, which least squares does not see
    assert plug_in[1, 1] / classical[1, 1] == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "poisson", "categorical"])
def test_the_sandwich_is_the_sum_of_outer_products_between_inverse_curvatures(name):
    w = np.arange(150) % 3 + 1.0
    model = model_of(name, "normal", weights=w)
    fit = pr.fit(model, "sgd")
    beta, aux = fit.solution.beta, fit.solution.aux
    H = model.value_grad_hessian(beta, **aux).curvature
    k = beta.size
    local = model.likelihood.value_grad_hessian(
        model.design.observed, model.eta(beta), **aux
    )
    m = beta.shape[1]
    s = np.hstack(
        [
            np.einsum("np,nk->npk", model.design.X, local.gradient[:, :m]).reshape(
                150, k
            ),
            local.gradient[:, m:],
        ]
    )
    cov = np.linalg.inv(H) @ (s.T * w) @ s @ np.linalg.inv(H)
    se = np.sqrt(np.diagonal(cov))
    # inverted on raw columns, of condition near 1e9
    scores = covariance_of_kind(model, fit.solution, "HC0").matrix
    np.testing.assert_allclose(
        scores.matrix() / np.outer(se, se)[:k, :k],
        (cov / np.outer(se, se))[:k, :k],
        atol=1e-6,
    )


@pytest.mark.parametrize("method", ["sgd", "lms"])
def test_errors_of_least_squares_are_classical_with_t(method):
    rng = np.random.default_rng(3)
    x = rng.normal(size=15)
    model = pr.Model.from_arrays(x, 1.0 + 2.0 * x + rng.normal(size=15))
    exact, near = pr.fit(model), pr.fit(model, method, seed=1)
    # the residual sum of squares is larger by the squared distance in standard errors, 0.1^2 / 13 at most
    np.testing.assert_allclose(near.std_error, exact.std_error, rtol=1e-3)
    widths = [
        (f.interval(0.9)["upper"] - f.interval(0.9)["lower"]) / f.std_error
        for f in (exact, near)
    ]
    np.testing.assert_allclose(*widths, rtol=1e-12)
    assert near.interval(0.9).attrs["covariance"] == "classical"


@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_errors_of_other_likelihoods_are_those_of_newton(name):
    model = model_of(name, "normal")
    np.testing.assert_allclose(
        pr.fit(model, "sgd").std_error, pr.fit(model, "newton").std_error, rtol=0.02
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("method", "n"), [(LMS(epochs=32), 12), (SGD(epochs=32), 50)])
def test_intervals_of_a_gaussian_cover(method, n):
    """Of 20 samples 95 % +- 14.6 % cover (three standard errors)."""
    hits = 0
    for seed in range(20):
        rng = np.random.default_rng([17, n, seed])
        x = rng.normal(size=n)
        fit = pr.fit(
            pr.Model.from_arrays(x, 1.0 + 2.0 * x + rng.normal(size=n)),
            method,
            seed=seed,
        )
        ends = fit.interval(0.95)
        hits += float(ends["lower"][1]) < 2.0 < float(ends["upper"][1])
    assert hits / 20 == pytest.approx(0.95, abs=0.146)


@pytest.mark.slow
def test_exact_data_have_no_standard_errors():
    model = pr.Model.from_arrays([[2.0], [3.0], [4.0]], [5.0, 7.0, 9.0], columns=["x"])
    fit = pr.fit(model, "sgd", seed=1)
    assert fit.solution.status is Status.CONVERGED
    np.testing.assert_allclose(fit.coef, [1.0, 2.0], atol=1e-7)
    assert fit.summary()["statistic"].isna().all()


@pytest.mark.parametrize(("name", "prior"), [p for p in PAIRS if p[0] != "symmetric"])
def test_the_steps_of_a_pass_add_up_to_the_gradient(name, prior):
    """A row of weight w counts w times, and the shares of the prior make the prior."""
    n = 150
    w = np.random.default_rng(0).integers(1, 5, n)
    model = model_of(name, prior, weights=w, offset=0.3 * np.cos(np.arange(n)))
    T, part = model.design.basis.T, PassData.of(model)
    gamma = np.random.default_rng(1).normal(size=model.shape)
    aux = dict.fromkeys(model.likelihood.nuisance, 0.6)
    total = sum(
        part.slope(part.rows.part(slice(i, i + 7)), gamma, aux) for i in range(0, n, 7)
    )
    pull = part.prior(aux)
    total = total + (0.0 if pull is None else n * pull.at(gamma))
    exact = T.T @ model.gradient(T @ gamma, **aux).reshape(gamma.shape)
    np.testing.assert_allclose(
        total * w.mean(), exact, rtol=1e-8, atol=1e-8 * np.abs(exact).max()
    )


@pytest.mark.parametrize(
    ("name", "prior"), [p for p in PAIRS if p[0] in ("gaussian", "student")]
)
@pytest.mark.parametrize(
    ("sigma", "start"),
    [
        (None, -9.0),
        (pr.priors.HalfCauchy(0.3), 9.0),
        (pr.priors.InverseGamma(2.5, 0.6), 9.0),
    ],
    ids=["flat", "cauchy", "gamma"],
)
def test_sigma_is_the_maximum_at_the_coefficients(name, prior, sigma, start):
    model = model_of(name, prior, aux={} if sigma is None else {"sigma": sigma})
    gamma = np.array([[0.3], [0.5], [-0.4]])
    beta = model.design.basis.T @ gamma
    found = float(np.exp(aux_mode_at(model, gamma, np.array([start]))[0]))
    assert model.value_grad_hessian(beta, sigma=found).gradient[-1] == pytest.approx(
        0.0, abs=1e-7
    )
    if name == "gaussian" and sigma is None and prior != "units":
        residuals = model.design.y - model.eta(beta)[:, 0]
        assert found == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=1e-10)


@pytest.mark.parametrize("size", [1e200, np.inf])
def test_coefficients_that_diverge_leave_the_scale_where_it_is(size):
    """At 1e200 the curvature over the scale is not finite."""
    model = model_of("student", "flat", aux={})
    with np.errstate(all="ignore"):
        found = aux_mode_at(model, np.full((3, 1), size), np.array([0.4]))
    np.testing.assert_array_equal(found, 0.4)


def test_what_is_kept_of_the_passes():
    fit = pr.fit(model_of("poisson"), "sgd")
    trace, n = fit.solution.trace, int(fit.solution.stats["passes"])
    assert {len(v) for v in trace.values()} == {n}
    assert set(trace) == {"log_posterior", "norm", "step", "distance"}
    checked = np.flatnonzero(np.isfinite(trace["distance"])) + 1
    # stages as long as all before them
    assert checked.tolist() == [2**k for k in range(len(checked))]
    assert (
        trace["distance"][-1] == fit.solution.stats["distance"] < trace["distance"][0]
    )
    assert trace["log_posterior"][-1] > trace["log_posterior"][0]


def test_lms_stands_beside_the_closed_form_and_the_posterior():
    model = model_of("gaussian")
    fits = {
        "closed form": pr.fit(model),
        "LMS": pr.fit(model, "lms"),
        "posterior": pr.fit(model, "conjugate"),
    }
    table = pr.compare(fits)
    shift = table.data["difference"].sel(fit="LMS", param=["Intercept", "x1", "x2"])
    assert 0 < float(np.abs(shift).max()) < 0.1
    assert "lms" in str(table)


@pytest.mark.slow
def test_an_infinite_maximum_is_noticed():
    x = np.r_[-2.0:-1.0:20j, 1.0:2.0:20j]
    with pytest.warns(
        pr.ProbregWarning, match=r"no maximum likelihood estimate exists.*x1"
    ):
        fit = pr.fit(
            pr.Model.from_arrays(x, (x > 0).astype(int), likelihood="bernoulli"), "sgd"
        )
    assert fit.solution.status is Status.NO_MAXIMUM
    assert np.isnan(fit.std_error).all()


# ---- perceptron ----------------------------------------------------------------------------------------------------


def classes(gap, n=80, **more):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2)) * [1.0, 20.0] + [3.0, -50.0]
    score = (X[:, 0] - 3.0) + (X[:, 1] + 50.0) / 20.0
    keep = np.abs(score) > gap
    y = score > 0 if gap else (score + rng.normal(size=n)) > 0
    return pr.Model.from_arrays(
        X[keep], np.where(y, "yes", "no")[keep], likelihood="bernoulli", **more
    )


@pytest.mark.parametrize("gap", [0.3, 1.0])
def test_a_perceptron_separates_what_can_be_separated(gap):
    model = classes(gap)
    fit = pr.fit(model, "perceptron")
    side = np.where(model.design.y > 0.5, 1.0, -1.0)
    np.testing.assert_array_equal(np.sign(model.design.X @ fit.coef.values), side)
    s, basis = fit.solution, model.design.basis
    assert s.status is Status.SEPARATED
    assert np.isnan(fit.std_error).all()
    U, gamma = basis.rows(model.design.X), basis.T_inverse @ s.beta[:, 0]
    margin = (side * (U @ gamma)).min() / np.linalg.norm(gamma)
    assert s.stats["margin"] == pytest.approx(margin, rel=1e-9)
    # Novikoff: R^2 / (best margin)^2, and the margin found is no better than the best
    assert 0 < s.stats["mistakes"] <= (U**2).sum(1).max() / margin**2
    assert s.stats["mistakes"] == s.trace["mistakes"].sum()
    assert s.trace["mistakes"][-1] == 0


def test_a_perceptron_that_cannot_separate_says_so_and_still_points_the_right_way():
    model = classes(0.0)
    with pytest.warns(
        pr.ProbregWarning,
        match=r"classes not separated.*after 50 passes and \d+ mistakes",
    ):
        fit = pr.fit(model, Perceptron(epochs=50))
    assert fit.solution.status is Status.UNSEPARATED
    assert fit.solution.stats["margin"] < 0
    wrong = np.sum(
        np.sign(model.design.X @ fit.coef.values)
        != np.where(model.design.y > 0.5, 1.0, -1.0)
    )
    assert wrong == fit.solution.stats["wrong"]
    best = np.sum(
        np.sign(model.design.X @ pr.fit(model, "newton").coef.values)
        != np.where(model.design.y > 0.5, 1, -1)
    )
    # a tenth of the rows more than the logistic boundary gets wrong
    assert wrong <= best + 8


def test_weights_do_not_change_what_can_be_separated():
    w = np.random.default_rng(0).integers(1, 5, classes(0.3).design.n)
    assert pr.fit(classes(0.3), "perceptron").solution.status is Status.SEPARATED
    X, y = classes(0.3).design.X[:, 1:], classes(0.3).design.y
    weighted = pr.Model.from_arrays(X, y.astype(int), likelihood="bernoulli", weights=w)
    assert pr.fit(weighted, "perceptron").solution.stats["wrong"] == 0


def test_a_perceptron_is_summarised_compared_and_saved(tmp_path):
    model = classes(0.3)
    fit = pr.fit(model, "perceptron")
    assert fit.summary()["std_error"].isna().all()
    assert "perceptron" in repr(fit)
    again = pr.load_fit(fit.save(tmp_path / "p.nc"))
    np.testing.assert_array_equal(again.coef, fit.coef)
    assert "sampling" not in fit.tree
    assert "perceptron" in str(
        pr.compare(
            {"ridge": pr.fit(model.with_prior(pr.Normal(2.0))), "perceptron": fit}
        )
    )


@pytest.mark.filterwarnings("ignore:lms. short of the maximum")
@pytest.mark.parametrize(
    ("weighted", "rate"), [(None, 0.3), ("copies", 1.0), ("precision", 0.3)]
)
def test_lms_carries_the_bound_of_its_passes(rate, weighted, tmp_path):
    """The passes again by hand, from the seed: what they suffered, and Widrow-Hoff's sum for the answer as comparator."""
    X, y = rows("gaussian")
    w = np.random.default_rng(3).integers(1, 4, len(y)) if weighted else None
    p = np.ones(len(y)) if weighted != "precision" else w / 2.0
    w = pr.weights.precision(p) if weighted == "precision" else w
    fit = pr.fit(
        pr.Model.from_arrays(X, y, weights=w),
        LMS(rate=rate, epochs=2, tol=1e-9),
        seed=5,
    )
    promise, data = fit.guarantee(), PassData.of(fit.model).rows
    assert promise.applies
    assert promise.cumulative_loss <= promise.bound < 8 * promise.cumulative_loss
    assert promise.rounds == 2 * len(y)
    theirs = float(
        full_weights(data.weights, len(y))
        @ (p * (data.y - data.X @ gamma_of(fit)) ** 2)
    )
    unit = fit.model.design.total / len(y)
    assert promise.comparator_loss == pytest.approx(2 * unit * theirs, rel=1e-12)
    # k = 2 - step r^2 is 2 - rate in both passes, and the bound is at least that of no distance, 4 L_u / k^2
    assert promise.bound >= 2 * unit * 4 * theirs / (2 - rate) ** 2
    assert promise.assumptions[0].met == pytest.approx(rate, rel=1e-12)
    again = pr.load_fit(fit.save(tmp_path / "fit.nc")).guarantee()
    assert (again.cumulative_loss, again.bound) == (
        promise.cumulative_loss,
        promise.bound,
    )
    with pytest.raises(
        pr.Incompatible, match="on a new row: these are the passes of a fit"
    ):
        _ = promise.risk


def gamma_of(fit):
    return np.linalg.solve(fit.model.design.basis.T, fit.solution.beta[:, 0])


def test_the_bound_of_one_pass_is_kept_and_attained():
    """Any step below 2 / r^2; and where y flips and a step of 1 lands on each, no smaller constant would do."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        x, y = rng.normal(size=(20, 2)), rng.standard_t(2, 20)
        r2 = (x**2).sum(1).max()
        step, u = rng.uniform(0.05, 1.95) / r2, rng.normal(size=2)
        path = run(lms(step), x, y)
        assert path.loss <= widrow_hoff_pass(
            ((x @ u - y) ** 2).sum(), u @ u, step, r2
        ) * (1 + 1e-9)
    flips = np.where(np.arange(1000) % 2, 1.0, -1.0)
    # each prediction is the last y: errors of 2 where u = 0 has 1
    path = run(lms(1.0), np.ones((1000, 1)), flips)
    assert path.loss > 0.995 * widrow_hoff_pass(1000.0, 0.0, 1.0, 1.0)


def test_a_perceptron_carries_novikoffs_bound():
    for more in ({}, {"weights": np.arange(60) % 3 + 1}):
        fit = pr.fit(classes(0.3, **more), "perceptron", seed=2)
        promise = fit.guarantee()
        assert promise.applies
        assert (
            0
            < promise.cumulative_loss
            == fit.solution.stats["mistakes"]
            <= promise.bound
            < np.inf
        )
        design = fit.model.design
        moves = design.basis.rows(design.X) * (
            1 if design.weights is None else design.weights[:, None]
        )
        u, side = promise.comparator, np.where(design.observed > 0.5, 1, -1)
        # the margin is 1 / ||u||
        assert (side * (moves @ u)).min() == pytest.approx(1, rel=1e-6)
        assert promise.bound == pytest.approx(
            (moves**2).sum(1).max() * (u @ u), rel=1e-9
        )
    with pytest.warns(pr.ProbregWarning, match="classes not separated"):
        mixed = pr.fit(classes(0.0), Perceptron(epochs=5), seed=2).guarantee()
    assert not mixed.applies
    assert "NOT MET: some u separates the classes" in str(mixed)


def test_a_fit_without_a_theorem_says_so():
    model = model_of("gaussian", "normal", aux={"sigma": 1.0})
    with pytest.raises(pr.Incompatible, match=r"lms .*with a prior"):
        pr.fit(model, "lms", seed=1).guarantee()
    with pytest.raises(pr.Incompatible, match="newton has no guarantee"):
        pr.fit(model, "newton").guarantee()
