"""Off the rows of its basis a Gaussian process is what the process itself says: its variance, and its covariance between rows."""

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, voigt_profile
from scipy.stats import norm, t as student

import probreg as pr
from probreg.data.array_columns import design_of_kernel
from probreg.diagnostics.conformal import Split
from probreg.errors import DataError, Incompatible, ProbregWarning
from probreg.fits.effects_table import off_span_of
from probreg.kernels import RBF, CustomFunction, basis, sums
from probreg.kernels.sums import RowSums, covariance_left, root_left
from probreg.likelihoods import Gaussian
from probreg.model.model import Model
from probreg.model.off_span import equal_nodes, normal_nodes

X = np.array([0.0, 1.0, 2.0, 4.0])
TABLE = {"x": X, "y": np.array([0.0, 1.0, 0.0, 2.0])}
NEW = np.array([1.5, 3.0, 10.0])
ONE_SD = 2 * norm.cdf(1.0) - 1
# sqrt(k(s, s) - k(s, X) (K + lam I)^-1 k(X, s)) for k = exp(-(x - z)^2 / 2), from this formula
SD = {
    0.1: [0.285635203039, 0.601736742776, 1.0],
    1.0: [0.632006560882, 0.808967009162, 1.0],
}


def toy(lam=0.1, tau=1.0, words="", **more):
    more = {"aux": {"sigma": lam**0.5}, "prior": {"gp(x)": pr.Normal(tau)}} | more
    return Model.from_formula(f"y ~ 0 + gp(x, length=1.0{words})", TABLE, **more)


def of_array(lam=0.1):
    design = replace(design_of_kernel(X, RBF(1.0), intercept=False), y=TABLE["y"])
    return Model(design, Gaussian(), prior=pr.Normal(1.0), aux={"sigma": lam**0.5})


def classes(likelihood="bernoulli", levels=2, tau=2.0):
    x = np.arange(12.0)
    y = (np.arange(12) * 7 % 5 % levels).astype(
        float if likelihood == "poisson" else int
    )
    prior = {"gp(x)": pr.Normal(tau)}
    return Model.from_formula(
        "y ~ gp(x, length=1.0)", {"x": x, "y": y}, prior=prior, likelihood=likelihood
    )


def by_draws():
    """The exact posterior of the toy as draws alone, as a sampler would give it."""
    fit = pr.fit(toy(), "conjugate")
    return replace(
        fit,
        solution=replace(
            fit.solution, draws=replace(fit.solution.draws, elliptical=False)
        ),
    )


def spread(fit, new=NEW):
    """Half the interval of the mean that is one standard deviation wide on either side."""
    rows = new[:, None] if fit.model.design.columns[0] == "gp(x1)[1]" else {"x": new}
    said = fit.predict(rows, prob=ONE_SD)
    return (said["mean_upper"] - said["mean_lower"]).values / 2


def k(a, b):
    return np.exp(-0.5 * np.subtract.outer(a, b) ** 2)


def slope(a, b):
    return -np.subtract.outer(a, b) * k(a, b)


def posterior_covariance(left, right, across, lam=0.1):
    """Of l(f) with l'(f) given y: l l'k - l k(., X) (K + lam I)^-1 k(X, .) l'."""
    return across - left @ np.linalg.solve(k(X, X) + lam * np.eye(4), right.T)


# ---- one row at a time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", SD)
@pytest.mark.parametrize("method", ["closed_form", "conjugate"])
@pytest.mark.parametrize("make", [toy, of_array])
def test_a_prediction_far_from_the_data_is_as_uncertain_as_the_process(
    lam, method, make
):
    fit = pr.fit(make(lam), method)
    np.testing.assert_allclose(spread(fit), SD[lam], rtol=1e-10)


def test_at_the_rows_of_an_exact_basis_nothing_is_added():
    fit = pr.fit(toy())
    V = posterior_covariance(k(X, X), k(X, X), k(X, X))
    np.testing.assert_allclose(spread(fit, X), np.sqrt(np.diagonal(V)), rtol=1e-9)
    assert off_span_of(fit.model, fit.solution).variance(fit.model.design) is None


def test_a_new_observation_has_the_noise_and_the_process():
    fit = pr.fit(toy())
    said = fit.predict({"x": NEW}, prob=ONE_SD)
    np.testing.assert_allclose(
        (said["new_upper"] - said["new_lower"]).values / 2,
        np.sqrt(np.square(SD[0.1]) + 0.1),
        rtol=1e-10,
    )
    # a plug-in predictive: sigma^2 + v(x), v = k(x, x) - k(x, X) K^-1 k(X, x)
    v = 1.0 - np.diagonal(k(NEW, X) @ np.linalg.solve(k(X, X), k(X, NEW)))
    p = fit.predictive({"x": NEW})
    np.testing.assert_allclose(p.aux["sigma"][0], np.sqrt(0.1 + v), rtol=1e-10)
    np.testing.assert_allclose(
        p.sample(np.random.default_rng(0), 40_000).var(0), 0.1 + v, rtol=0.03
    )


def test_draws_say_the_same_as_the_closed_form():
    fit = by_draws()
    np.testing.assert_allclose(spread(fit), SD[0.1], rtol=0.08)
    p = fit.predictive({"x": NEW})
    np.testing.assert_allclose(
        p.sample(np.random.default_rng(0), 40_000).var(0),
        np.square(SD[0.1]) + 0.1,
        rtol=0.08,
    )
    # far away the process alone, in scores of variance 1
    assert p.means().std(0)[2] == pytest.approx(1.0, rel=1e-9)


def test_an_unknown_scale_has_a_residual_at_every_draw():
    fit = pr.fit(
        toy(prior={"gp(x)": pr.Normal(pr.priors.HalfNormal(1.0))}),
        pr.Integrate(draws=500, chains=2),
    )
    tau = fit.solution.draws.flat["tau[gp(x, length=1.0)]"]
    (process,) = off_span_of(fit.model, fit.solution).processes
    np.testing.assert_array_equal(process.scale, tau)
    # f(10) = tau z with z independent of tau
    assert fit.predictive({"x": [10.0]}).means().std() == pytest.approx(
        np.sqrt(np.mean(tau**2)), rel=0.1
    )


def test_a_scale_found_by_the_evidence_is_that_of_the_residual():
    fit = pr.fit(toy(prior={}))
    (block,) = fit.model.joint.blocks
    assert spread(fit)[2] == pytest.approx(block.prior.scale, rel=1e-9)


def test_a_prior_in_units_of_sigma_is_a_student_process():
    model = toy(prior={"gp(x)": pr.Normal(10**0.5, sigma_units=True)})
    np.testing.assert_allclose(spread(pr.fit(model, "conjugate")), SD[0.1], rtol=1e-10)
    free = pr.fit(
        toy(prior={"gp(x)": pr.Normal(10**0.5, sigma_units=True)}, aux={}), "conjugate"
    )
    s = free.solution
    # f(x) ~ t_df about the mean, scale^2 = (b / a) (1 / lam) (k - k'(K + lam I)^-1 k)
    scale = np.sqrt(10.0 * s.stats["sigma2_scale"]) * np.array(SD[0.1])
    np.testing.assert_allclose(
        spread(free), student.ppf((1 + ONE_SD) / 2, s.df) * scale, rtol=1e-9
    )
    found = pr.predictions(free, data={"x": NEW}, by="x").table
    np.testing.assert_allclose(
        found["sd"], scale * np.sqrt(s.df / (s.df - 2)), rtol=1e-9
    )


def test_a_ratio_of_means_has_the_sigma_of_each_draw():
    table = {"x": X, "y": 100.0 + TABLE["y"]}
    prior = {"gp(x)": pr.Normal(1.0, sigma_units=True)}
    fit = pr.fit(
        Model.from_formula("y ~ gp(x, length=1.0)", table, prior=prior), "conjugate"
    )
    found = pr.comparisons(
        fit, {"x": (10.0, 20.0)}, measure="ratio", data={"x": [0.0]}
    ).table
    # (b + r) / (b + r') is 1 + (r - r') / b nearly, each r ~ N(0, sigma^2)
    sigma = fit.solution.draws["sigma"].ravel()
    assert found["sd"].item() == pytest.approx(
        np.sqrt(2 * np.mean(sigma**2)) / 100.0, rel=0.15
    )


# ---- the mean is over the process -------------------------------------------------------------------------------------


def test_far_from_the_data_a_probability_is_that_of_the_prior():
    fit = pr.fit(classes())
    z, w = np.polynomial.hermite_e.hermegauss(200)
    prior = w @ expit(fit.coef.values[0] + 2.0 * z) / w.sum()
    far = {"x": [100.0]}
    assert fit.predict(far)["mean"].item() == pytest.approx(prior, abs=1e-9)
    assert fit.predictive(far).mean().item() == pytest.approx(prior, abs=1e-9)
    said = fit.predict(far)
    half = norm.ppf(0.975) * np.hypot(2.0, fit.std_error.values[0])
    ends = expit(fit.coef.values[0] + half * np.array([-1, 1]))
    np.testing.assert_allclose(
        [said["mean_lower"].item(), said["mean_upper"].item()], ends, rtol=1e-6
    )
    assert "gp(x, length=1.0) leave of the process" in said.attrs["kind"]


def test_far_from_the_data_a_posterior_probability_is_that_of_the_prior():
    fit = pr.fit(classes(), "laplace")
    z, w = np.polynomial.hermite_e.hermegauss(200)
    b = fit.solution.draws["beta"].reshape(-1, *fit.solution.beta.shape)[:, 0, 0]
    prior = (expit(b[:, None] + 2.0 * z) @ w / w.sum()).mean()
    assert fit.predict({"x": [100.0]})["mean"].item() == pytest.approx(prior, abs=0.01)


@pytest.mark.parametrize("method", ["newton", "laplace"])
def test_far_from_the_data_class_probabilities_are_those_of_the_prior(method):
    fit = pr.fit(classes("categorical", 3, tau=1.5), method)
    beta = (
        fit.solution.beta[None]
        if method == "newton"
        else fit.solution.draws.flat["beta"][::4]
    )
    eta = beta[:, 0] + 1.5 * np.random.default_rng(1).standard_normal((200, 1000, 2))
    prior = fit.model.likelihood.mean(eta).mean((0, 1))
    np.testing.assert_allclose(
        fit.predict({"x": [100.0]})["mean"][0], prior, atol=0.012
    )


def test_a_mean_of_counts_is_lognormal():
    fit = pr.fit(classes("poisson", 5, tau=0.5))
    b = fit.coef.values[0]
    assert fit.predict({"x": [100.0]})["mean"].item() == pytest.approx(
        np.exp(b + 0.125), rel=1e-9
    )
    p = fit.predictive({"x": [100.0]})
    q = p.quantile(0.9)
    assert p.cdf(q)[0] >= 0.9 > p.cdf(q - 1.0)[0]
    assert np.exp(p.log_prob(np.array([2.0])))[0] == pytest.approx(
        p.cdf(np.array([2.0]))[0] - p.cdf(np.array([1.0]))[0]
    )


# ---- rows together ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [toy, of_array])
@pytest.mark.parametrize("method", ["closed_form", "conjugate"])
def test_a_contrast_and_an_average_know_that_rows_go_together(make, method):
    name = "x" if make is toy else "x1"
    fit = pr.fit(make(), method)
    error = "std_error" if method == "closed_form" else "sd"
    apart = pr.comparisons(fit, {name: (10.0, 10.1)}, data={name: [0.0]}).table
    assert apart[error].item() == pytest.approx(0.099875130, abs=1e-8)
    mean = pr.predictions(fit, data={name: np.linspace(6, 10, 50)}).table
    assert mean[error].item() == pytest.approx(0.702796629, abs=1e-8)


def test_effects_have_the_covariance_of_the_process():
    fit = pr.fit(toy())
    found = pr.predictions(fit, data={"x": NEW}, by="x")
    np.testing.assert_allclose(
        found.covariance,
        posterior_covariance(k(NEW, X), k(NEW, X), k(NEW, NEW)),
        rtol=1e-9,
        atol=1e-12,
    )


def test_terms_add_what_each_of_them_leaves():
    rng = np.random.default_rng(4)
    table = {
        "x": np.arange(8.0),
        "z": 2.0 * rng.permutation(8),
        "y": rng.standard_normal(8),
    }
    prior = {"gp(x)": pr.Normal(1.5), "gp(z)": pr.Normal(0.7)}
    model = Model.from_formula(
        "y ~ 0 + gp(x, length=1.0) + gp(z, length=2.0)",
        table,
        prior=prior,
        aux={"sigma": 0.3},
    )
    new = {"x": np.array([1.0, 9.0, 9.1]), "z": np.array([18.0, 2.0, 2.5])}
    found = pr.predictions(pr.fit(model), data=new, by="x")

    def K(a, b):
        return 1.5**2 * k(a["x"], b["x"]) + 0.7**2 * k(a["z"] / 2, b["z"] / 2)

    exact = K(new, new) - K(new, table) @ np.linalg.solve(
        K(table, table) + 0.09 * np.eye(8), K(table, new)
    )
    np.testing.assert_allclose(found.covariance, exact, rtol=1e-9, atol=1e-11)


def test_slopes_have_the_derivatives_of_the_process():
    s = np.array([1.0, 1.5, 3.0])
    found = pr.slopes(pr.fit(toy()), data={"x": s}, by="x")
    second = (1.0 - np.subtract.outer(s, s) ** 2) * k(s, s)
    np.testing.assert_allclose(
        found.covariance,
        posterior_covariance(slope(s, X), slope(s, X), second),
        rtol=1e-7,
        atol=1e-9,
    )
    mean = slope(s, X) @ np.linalg.solve(k(X, X) + 0.1 * np.eye(4), TABLE["y"])
    np.testing.assert_allclose(found.table["estimate"], mean, rtol=1e-8)


def test_a_slope_in_another_variable_has_nothing_of_the_process():
    table = TABLE | {"z": np.array([1.0, 0.0, 2.0, 1.0])}
    model = Model.from_formula(
        "y ~ z + gp(x, length=1.0)",
        table,
        prior={"gp(x)": pr.Normal(1.0)},
        aux={"sigma": 0.3},
    )
    fit = pr.fit(model)
    found = pr.slopes(fit, "z", data={"x": NEW, "z": [0.0, 1.0, 2.0]}).table
    assert found["std_error"].item() == pytest.approx(
        fit.std_error.sel(coef="z").item(), rel=1e-9
    )


def test_draws_of_effects_go_together():
    fit = by_draws()
    apart = pr.comparisons(fit, {"x": (10.0, 10.1)}, data={"x": [0.0]}).table
    assert apart["sd"].item() == pytest.approx(0.099875130, rel=1e-3)
    found = pr.predictions(fit, data={"x": NEW}, by="x")
    exact = posterior_covariance(k(NEW, X), k(NEW, X), k(NEW, NEW))
    np.testing.assert_allclose(found.covariance, exact, atol=0.06)


@pytest.mark.parametrize("method", ["newton", "laplace"])
def test_effects_on_probabilities_are_over_the_joint_process(method):
    fit = pr.fit(classes(), method)
    far = {"x": [100.0]}
    alone, said = pr.predictions(fit, data=far).table, fit.predict(far)
    for effect, of_row in (
        ("estimate", "mean"),
        ("lower", "mean_lower"),
        ("upper", "mean_upper"),
    ):
        assert alone[effect].item() == pytest.approx(said[of_row].item(), abs=0.02)
    # f(100) - f(100.01) is nearly 0; of f(100) and f(200), which are independent, the difference is wide
    near = pr.comparisons(fit, {"x": (100.0, 100.01)}, data=far).table
    wide = pr.comparisons(fit, {"x": (100.0, 200.0)}, data=far).table
    assert (
        (near["upper"] - near["lower"]).item()
        < 0.02
        < 1.0
        < (wide["upper"] - wide["lower"]).item()
    )
    many = pr.predictions(fit, data={"x": 100.0 + 10.0 * np.arange(200)}).table
    assert (many["upper"] - many["lower"]).item() < 0.7 * (
        alone["upper"] - alone["lower"]
    ).item()


def test_slopes_of_a_probability_count_the_slope_of_the_process():
    fit = pr.fit(classes())
    found = pr.slopes(fit, data={"x": [100.0]}).table
    # d p / dx = p (1 - p) f', f and f' independent of one another far away, both N(0, 4)
    z = np.random.default_rng(2).standard_normal((2, 200_000))
    p = expit(fit.coef.values[0] + 2.0 * z[0])
    assert found["std_error"].item() == pytest.approx(
        (p * (1 - p) * 2.0 * z[1]).std(), rel=0.1
    )
    assert found["estimate"].item() == pytest.approx(0.0, abs=0.03)


# ---- sums over rows, by any route -------------------------------------------------------------------------------------


def test_blocks_and_a_root_of_low_rank_give_the_same_covariance(monkeypatch):
    from scipy.sparse import csc_array

    made, rng = basis(RBF(1.0), X), np.random.default_rng(0)
    rows = rng.uniform(-3, 8, (30, 1))
    A = rng.standard_normal((3, 30))
    exact = A @ made.residual_covariance(rows) @ A.T
    monkeypatch.setattr(sums, "_BLOCK", 7)
    np.testing.assert_allclose(
        covariance_left(made, RowSums.values(rows), csc_array(A)), exact, rtol=1e-10
    )
    monkeypatch.setattr(sums, "MOST_PAIRED", 10)
    np.testing.assert_allclose(
        covariance_left(made, RowSums.values(rows), csc_array(A)), exact, rtol=1e-6
    )
    G = root_left(made, RowSums.values(rows))
    assert len(G) < 30
    np.testing.assert_allclose(G.T @ G, made.residual_covariance(rows), atol=1e-8)


def test_rows_whose_covariance_has_no_low_rank_are_refused(monkeypatch):
    monkeypatch.setattr(sums, "_MOST_RANK", 5)
    with pytest.raises(
        DataError,
        match=r"9 rows are off the span .* rank above 5: ask for at most 5 rows",
    ):
        root_left(
            basis(RBF(1.0), X), RowSums.values(10.0 * np.arange(1.0, 10.0)[:, None])
        )


@pytest.mark.parametrize("kind", ["exact", "hsgp"])
def test_a_residual_at_another_length_is_that_of_a_basis_made_with_it(kind):
    settings = (
        {} if kind == "exact" else {"range": (-2, 12), "half_width": 20.0, "size": 25}
    )
    short, long = (basis(RBF(length), X, kind, **settings) for length in (0.7, 1.5))
    np.testing.assert_allclose(
        short.with_kernel(RBF(1.5)).residual_covariance(NEW),
        long.residual_covariance(NEW),
        atol=1e-12,
    )


# ---- nodes over the residual ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sd", [0.0, 1e-8, 0.3, 6.9, 7.1, 20.0, 1e3, 1e8])
def test_nodes_of_a_wide_normal_predictor_have_the_mean_of_a_dense_rule(sd):
    mean = np.array([-1e9, -300.0, -30.0, -5.0, 0.0, 0.3, 7.0, 60.0, 500.0, 1e9])
    eta, w = normal_nodes(mean, np.full(len(mean), sd))
    assert len(eta) < 4000
    found = ((w if w.ndim == 2 else w[:, None]) * expit(eta)).sum(0)
    # E expit(eta) = integral of expit'(u) Phi((mean - u) / sd) du; expit' is below 1e-19 outside
    u = np.linspace(-45.0, 45.0, 90_001)
    slope = expit(u) * expit(-u) * (u[1] - u[0])
    dense = expit(mean) if sd < 1e-3 else [slope @ norm.cdf((m - u) / sd) for m in mean]
    np.testing.assert_allclose(found, dense, atol=1e-10)
    if sd <= 20:
        found = (
            np.broadcast_to(w.T, eta.T.shape).T * np.exp(np.minimum(eta, 700.0))
        ).sum(0)
        np.testing.assert_allclose(found[3:7], np.exp(mean[3:7] + sd**2 / 2), rtol=1e-9)


@pytest.mark.parametrize("ratio", [0.1, 7.5, 80.0])
def test_equal_nodes_follow_noise_much_narrower_than_the_residual(ratio):
    z, w = equal_nodes(ratio)
    # noise of scale 1 / ratio added to a standard normal: Cauchy, whose sum with a normal has the Voigt profile
    y = np.array([0.0, 0.2, 2.5])
    found = w @ student.pdf((y - z[:, None]) * ratio, 1.0) * ratio
    np.testing.assert_allclose(found, voigt_profile(y, 1.0, 1.0 / ratio), rtol=1e-7)


@pytest.mark.parametrize(
    ("likelihood", "sd"),
    [
        ("bernoulli", 30.0),
        ("poisson", 1e5),
        ("negative_binomial", 1e8),
        ("student", 1e5),
        ("huber", 1e8),
        ("epsilon_insensitive", 1e5),
        ("categorical", 1e8),
        ("bernoulli", 1e8),
    ],
)
def test_a_process_of_any_scale_is_predicted_in_a_moment(likelihood, sd):
    x = np.arange(12.0)
    y = np.array([1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1])
    noise = {
        "negative_binomial": {"alpha": 0.5},
        "student": {"sigma": 0.3},
        "huber": {"sigma": 0.3},
        "epsilon_insensitive": {"scale": 0.3},
    }.get(likelihood, {})
    # the residual of another prior beside the same estimate
    model = Model.from_formula(
        "y ~ gp(x, length=1.0)",
        {"x": x, "y": y},
        likelihood=likelihood,
        aux=noise,
        prior={"gp(x)": pr.Normal(1.0)},
    )
    wide = model.with_prior({"gp(x)": pr.Normal(sd)})
    fit = replace(pr.fit(model), model=wide)
    start = time.process_time()
    found = fit.predict({"x": [3.0, 40.0, 50.0]})
    assert time.process_time() - start < 1.0
    assert not np.isnan(found["mean"].values).any()
    far = fit.predictive({"x": [40.0]})
    if likelihood in ("student", "huber", "epsilon_insensitive"):
        np.testing.assert_allclose(
            far.quantile(0.9) - far.quantile(0.5), sd * norm.ppf(0.9), rtol=2e-3
        )
        np.testing.assert_allclose(
            found["mean"].values[1], fit.solution.beta[0, 0], rtol=1e-6
        )
    elif likelihood == "bernoulli":
        # E expit(eta) is Phi(mean / sd) for an sd that is large against 1, within O(sd^-2)
        np.testing.assert_allclose(
            found["mean"].values[1],
            norm.cdf(fit.solution.beta[0, 0] / np.hypot(sd, np.pi / 3**0.5)),
            atol=1e-4,
        )
    elif likelihood != "categorical":
        with np.errstate(over="ignore"):
            assert found["mean"].values[1] == pytest.approx(
                np.exp(fit.solution.beta[0, 0] + sd**2 / 2), rel=1e-8
            )


# ---- other bases, files, refusals -------------------------------------------------------------------------------------


def test_bases_that_are_no_projection_add_what_they_lack():
    v = {}
    for kind in ("exact", "cholesky", "hsgp"):
        model = toy(
            words=f", basis='{kind}'"
            + (", range=(-1, 11), tol=0.1" if kind == "hsgp" else "")
        )
        found = off_span_of(model, pr.fit(model).solution).variance(
            model.design.at({"x": NEW})
        )
        v[kind] = None if found is None else found[0, :, 0]
    np.testing.assert_allclose(v["cholesky"], v["exact"], atol=1e-10)
    (term,) = toy(
        words=", basis='hsgp', range=(-1, 11), tol=0.1"
    ).design.recipe.processes.values()
    lacks = 1.0 - np.square(term.columns_at(NEW[:, None])).sum(1)
    np.testing.assert_allclose(v["hsgp"], np.maximum(lacks, 0.0), atol=1e-12)


@pytest.mark.slow
def test_sines_of_an_unknown_length_lack_at_every_draw_what_a_basis_of_its_length_lacks():
    prior = {
        "gp(x)": pr.priors.GaussianProcess(
            amplitude=pr.HalfNormal(2.0), length=pr.priors.LogNormal(0.5)
        )
    }
    made = "y ~ 0 + gp(x, basis='hsgp', range=(-1, 11), half_width=8, size=9)"
    fit = pr.fit(
        Model.from_formula(made, TABLE, prior=prior, aux={"sigma": 0.3}),
        pr.Integrate(draws=20, chains=2),
    )
    found = off_span_of(fit.model, fit.solution).variance(
        fit.model.design.at({"x": NEW})
    )
    (term,) = fit.model.design.recipe.processes.values()
    flat = fit.solution.draws.flat
    amplitude, length = (
        flat[next(name for name in flat if name.startswith(h))]
        for h in ("amplitude", "length")
    )
    v = [
        a**2 * term.basis.with_kernel(RBF(h)).residual_variance(NEW)
        for a, h in zip(amplitude, length)
    ]
    assert (found > 1e-4).any()
    np.testing.assert_allclose(found[..., 0], v, rtol=1e-8, atol=1e-8)
    average, far = (
        pr.predictions(fit, data={"x": x}).table["sd"].item() for x in (NEW, NEW[2:])
    )
    assert far == pytest.approx(
        fit.predictive({"x": NEW}).means()[:, 2].std(ddof=1), rel=0.25
    )
    assert average < far


def test_a_saved_fit_predicts_with_the_process(tmp_path):
    fits = [
        pr.fit(toy()),
        pr.fit(
            toy(prior={"gp(x)": pr.Normal(pr.priors.HalfNormal(1.0))}),
            pr.Integrate(draws=100),
        ),
    ]
    for fit in fits:
        with pytest.warns(ProbregWarning, match="holds rows of x"):
            loaded = pr.load_fit(fit.save(tmp_path / "fit.nc"))
        assert loaded.predict({"x": NEW}).equals(fit.predict({"x": NEW}))
        average = [pr.predictions(f, data={"x": NEW}).table for f in (fit, loaded)]
        assert average[0].equals(average[1])


def test_conformal_scores_know_how_wide_the_process_is():
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 10, 40))
    table = {"x": x, "y": np.sin(x) + 0.1 * rng.standard_normal(40)}
    model = Model.from_formula(
        "y ~ gp(x, length=1.0)",
        table,
        prior={"gp(x)": pr.Normal(1.0)},
        aux={"sigma": 0.1},
    )
    said = pr.conformal(pr.fit(model), prob=0.8, kind=Split(score="pit")).predict(
        {"x": [5.0, 50.0]}
    )
    wide = (said["upper"] - said["lower"]).values
    assert wide[1] > 3 * wide[0]


def test_a_prior_without_one_scale_says_nothing_off_its_rows():
    fit = pr.fit(toy(prior={"gp(x)": pr.Normal((1.0, 2.0, 1.0, 1.0))}))
    assert np.isfinite(fit.predict({"x": X})["mean"]).all()
    for ask in (
        lambda: fit.predict({"x": NEW}),
        lambda: pr.predictions(fit, data={"x": NEW}),
    ):
        with pytest.raises(
            Incompatible,
            match=r"gp\(x, length=1.0\): its prior is not normal with one scale",
        ):
            ask()


def test_a_negative_variance_that_is_no_rounding_is_an_error():
    # -1 at distance 1 in either direction: no covariance, which the rows 0 and 4 of the basis do not show
    wrong = CustomFunction(
        lambda x, z: np.where(
            np.abs(x - z.T) == 0, 1.0, np.where(np.abs(x - z.T) <= 2, -0.9, 0.0)
        )
    )
    made = basis(wrong, [0.0, 4.0], "exact")
    with pytest.raises(
        DataError, match=r"row 1 has k\(x, x\) = 1, and this basis explains 1.62 of it"
    ):
        made.residual_variance([10.0, 2.0])
