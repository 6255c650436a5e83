"""The prior predictive: its draws are those of the priors and the likelihood, and its sentences are quantiles in outcome units."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import probreg as pr
from probreg.model.prior_predictive import improper_coefficients
from tests.properties.texts import unfolded

RNG = np.random.default_rng(2)
X = RNG.normal(size=(50, 2)) * [1.0, 4.0]
PROPER = {"Intercept": pr.Normal(0.5), "a": pr.Normal(0.7), "b": pr.Laplace(0.1)}


def model(y, likelihood, prior=PROPER, **more):
    return pr.Model.from_arrays(
        X, y, columns=["a", "b"], likelihood=likelihood, prior=prior, **more
    )


def test_a_step_of_the_logit_moves_a_probability_by_at_most_tanh_of_a_quarter():
    m = model(RNG.integers(0, 2, 50), "bernoulli", pr.Normal(0.7))
    found = m.prior_predictive(2).moves
    for j, move in enumerate(found):
        step = 0.7 * X[:, j].std(ddof=1)
        assert move.sd == pytest.approx(X[:, j].std(ddof=1))
        assert move.most == pytest.approx(
            np.tanh(stats.norm.ppf(0.975) * step / 4), rel=1e-10
        )
        assert move.error == 0.0
        assert move.typical == pytest.approx(
            np.tanh(stats.norm.ppf(0.75) * step / 4), rel=1e-10
        )
    # no base and no smaller step does more
    eta = np.linspace(-6, 6, 2001)
    d = 1.7
    assert (
        np.ptp([1 / (1 + np.exp(-eta - d)) - 1 / (1 + np.exp(-eta))], axis=1).max()
        <= np.tanh(d / 4) + 1e-12
    )
    assert (1 / (1 + np.exp(-eta - d)) - 1 / (1 + np.exp(-eta))).max() == pytest.approx(
        np.tanh(d / 4), abs=1e-5
    )


def test_a_step_of_an_ordinal_response_moves_a_probability():
    m = model(np.arange(50) % 3, pr.Ordinal(levels=(0, 1, 2)), pr.Normal(0.7))
    logit = model(np.arange(50) % 2, "bernoulli", pr.Normal(0.7))
    pairs = zip(m.prior_predictive(2).moves, logit.prior_predictive(2).moves)
    assert all(move.most == of_logit.most for move, of_logit in pairs)


def test_outcomes_of_a_model_with_a_formula_for_sigma_have_its_scale():
    formulas = {"y": "y ~ x", "log sigma": "~ x"}
    scale = {"log sigma: Intercept": pr.Normal(0.1), "log sigma: x": pr.Normal(0.5)}
    prior = {"Intercept": pr.Normal(0.1), "x": pr.Normal(0.1)} | scale
    table = {"x": X[:, 0], "y": X[:, 1]}
    found = pr.Model.from_formula(formulas, table, prior=prior).prior_predictive(4000)
    log_sigma = found.beta[:, 2:, 0] @ np.c_[np.ones(50), X[:, 0]].T
    residual = (found.y - found.mean) / np.exp(log_sigma)
    np.testing.assert_allclose(residual.std(), 1.0, rtol=0.01)


def test_a_probability_that_moves_by_nearly_one_is_not_said_to_move_by_one():
    y = (RNG.random(50) < 0.5).astype(int)
    for likelihood in ("bernoulli", "categorical"):
        said = " ".join(
            unfolded(model(y, likelihood, pr.Normal(1000.0)).prior_predictive(200))
        )
        assert "typically above 0.999" in said
        assert "typically 1" not in said
    line = model(RNG.normal(size=50), "gaussian", pr.Normal(1.0)).prior_predictive(200)
    assert "above" not in str(line)  # only shares are below 1


def test_a_softmax_probability_moves_by_the_largest_difference_between_classes():
    y = np.array(["u", "v", "w"])[np.r_[0, 1, 2, RNG.integers(0, 3, 47)]]
    found = model(y, "categorical", pr.Normal(0.7)).prior_predictive(20_000).moves[0]
    W = np.c_[
        np.zeros(20_000),
        np.random.default_rng(5).normal(size=(20_000, 2)) * 0.7 * X[:, 0].std(ddof=1),
    ]
    assert found.most == pytest.approx(
        np.quantile(np.tanh(np.ptp(W, 1) / 4), 0.95), rel=0.03
    )
    assert f"; by 20000 draws, ± {found.error:.2g}" in found.sentence
    assert 0 < found.error < 0.005


def test_counts_are_multiplied_and_noise_is_added_in_units_of_y():
    counts = model(RNG.poisson(2.0, 50), "poisson").prior_predictive(20_000)
    assert counts.moves[0].most == pytest.approx(
        np.exp(stats.norm.ppf(0.975) * 0.7 * X[:, 0].std(ddof=1)), rel=1e-10
    )
    assert "multiplies or divides the mean of y" in counts.moves[0].sentence
    line = model(RNG.normal(size=50), "gaussian", pr.Normal(0.7)).prior_predictive(
        20_000
    )
    assert line.moves[0].most == pytest.approx(
        stats.norm.ppf(0.975) * 0.7 * X[:, 0].std(ddof=1), rel=1e-10
    )
    units = model(
        RNG.normal(size=50), "gaussian", pr.Normal(0.7, sigma_units=True)
    ).prior_predictive(20_000)
    assert units.moves[0].most == pytest.approx(line.moves[0].most, rel=1e-10)
    assert "sigma with prior probability" in units.moves[0].sentence


def test_outcomes_have_the_variance_of_coefficients_and_noise():
    m = model(RNG.normal(size=50), "gaussian", aux={"sigma": pr.HalfNormal(0.8)})
    found = m.prior_predictive(20_000, seed=3)
    exact = 0.5**2 + (0.7 * X[:, 0]) ** 2 + 2 * (0.1 * X[:, 1]) ** 2 + 0.8**2
    # five standard errors of a heavy-tailed sum
    np.testing.assert_allclose(found.y.var(0), exact, rtol=0.12)
    np.testing.assert_allclose(
        found.mean, (m.design.X @ found.beta)[..., 0], rtol=1e-12
    )
    assert "prior predictive outcomes, 20000 draws: 95 % between" in repr(found)


def test_what_a_flat_prior_withholds_is_said():
    y = RNG.integers(0, 2, 50)
    found = model(y, "bernoulli", pr.Normal(0.7)).prior_predictive()
    assert found.mean is None
    assert found.y is None
    assert "Intercept without a proper prior" in repr(found)
    assert np.isnan(found.beta[:, 0]).all()
    assert "no column has a proper prior" in repr(
        model(y, "bernoulli", pr.Flat()).prior_predictive()
    )
    improper = model(RNG.normal(size=50), "gaussian").prior_predictive()
    assert improper.mean is not None
    assert improper.y is None
    assert "sigma without a proper prior" in repr(improper)
    for bad in ({"draws": 1}, {"prob": 95}):
        with pytest.raises(pr.DataError):
            model(y, "bernoulli").prior_predictive(**bad)


def test_each_column_has_a_sentence_and_a_note_says_why_there_are_no_means():
    few = model(RNG.normal(size=50), "gaussian", pr.Normal(0.7)).prior_predictive(50)
    *rows, note = unfolded(few)
    assert rows == [m.sentence for m in few.moves]
    assert note == (
        "note: no means or outcomes: Intercept, sigma without a proper prior, such as prior={'Intercept': Normal(2.5)} and "
        "aux={'sigma': HalfNormal(1.0)}"
    )
    (alone, *_) = unfolded(
        pr.Model.from_arrays(X[:, 0], X[:, 1], prior=pr.Normal(1.0)).prior_predictive(
            50
        )
    )
    assert alone.startswith("one sd of x1 (")
    relative = model(
        RNG.normal(size=50), "gaussian", pr.Normal(0.7, sigma_units=True)
    ).prior_predictive(50)
    assert "sigma without a proper prior" in unfolded(relative)[-1]


def test_effects_and_processes_without_a_prior_are_named_by_their_term_with_a_prior():
    data = {
        "y": np.arange(12.0),
        "x": np.tile([0.0, 1.0, 3.0], 4),
        "g": [*"aaabbbcccddd"],
    }
    given = {"Intercept": pr.Normal(1.0)}
    aux = {"sigma": pr.HalfNormal(1.0)}
    for term in ("(x | g)", "gp(x)"):
        bare = pr.Model.from_formula(f"y ~ {term}", data, prior=given, aux=aux)
        (note,) = bare.prior_predictive(20).notes
        name, _, advice = note.rpartition(" without a proper prior, such as prior=")
        assert name.endswith(f": {term}")
        written = eval(advice, {k: getattr(pr, k) for k in pr.__all__})
        assert list(written) == [term]
        assert bare.with_prior(given | written).prior_predictive(20).y is not None


def test_correlations_without_a_prior_have_that_of_a_posterior():
    data = {
        "y": np.arange(12.0),
        "x": np.tile([0.0, 1.0, 3.0], 4),
        "g": [*"aaabbbcccddd"],
    }
    drawn = []
    for cor in (None, pr.LKJ(1.0)):
        prior = {"(x | g)": pr.Covariance(pr.HalfNormal(1.0), cor=cor)}
        m = pr.Model.from_formula(
            "y ~ 0 + (x | g)", data, prior=prior, aux={"sigma": 1.0}
        )
        drawn.append(m.prior_predictive(20).y)
    np.testing.assert_array_equal(*drawn)


def test_the_same_seed_gives_the_same_draws():
    m = model(RNG.integers(0, 2, 50), "bernoulli")
    a, b, c = (m.prior_predictive(50, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.y, b.y)
    assert (a.beta != c.beta).any()
    assert "prior predictive shares of the classes: 0: " in repr(a)


@pytest.mark.parametrize(
    "likelihood", ["gaussian", "student", "bernoulli", "poisson", "categorical"]
)
def test_an_offset_moves_the_predictor_of_every_draw(likelihood):
    y = {
        "bernoulli": np.arange(50) % 2,
        "poisson": np.arange(50) % 4,
        "categorical": np.arange(50) % 3,
    }
    offset = np.linspace(-3.0, 2.0, 50)
    aux = {"sigma": pr.HalfNormal(0.8)} if likelihood in ("gaussian", "student") else {}
    kept, moved = (
        model(y.get(likelihood, X[:, 0]), likelihood, aux=aux, **o).prior_predictive(
            200, seed=3
        )
        for o in ({}, {"offset": offset})
    )
    np.testing.assert_array_equal(moved.beta, kept.beta)
    width = kept.beta.shape[2]
    eta = np.einsum("nj,sjm->snm", np.c_[np.ones(50), X], kept.beta) + np.repeat(
        offset[:, None], width, 1
    )
    known = {k: v[:, None] for k, v in moved.aux.items()}
    np.testing.assert_allclose(
        moved.mean, moved.likelihood.mean(eta, **known), rtol=1e-12
    )  # another order of sums
    if likelihood in ("gaussian", "student"):  # the same noise about another mean
        np.testing.assert_allclose(moved.y, kept.y + offset, rtol=1e-12, atol=1e-12)
    else:
        assert not np.array_equal(moved.y, kept.y)


KNOWN = {  # prior, and the distribution of |w| by scipy
    "laplace": (pr.Laplace(0.4), stats.expon(scale=0.4)),
    "cauchy": (pr.priors.Cauchy(0.4), stats.halfcauchy(scale=0.4)),
    "student": (pr.priors.StudentT(0.4, nu=3.0), None),
    "bridge": (pr.priors.ExponentialPower(0.4, q=0.5), stats.gennorm(0.5, scale=0.4)),
    "located": (pr.Normal(0.4, location=0.9), stats.foldnorm(0.9 / 0.4, scale=0.4)),
    "net": (pr.priors.ElasticNet(0.4, ratio=0.0), stats.foldnorm(0.0, scale=0.4)),
    "correlated": (
        pr.Normal(precision_matrix=((8.0, 3.0), (3.0, 4.0))),
        stats.foldnorm(0.0, scale=(4 / 23) ** 0.5),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_prior_says_in_outcome_units_is_its_quantile(name):
    prior, law = KNOWN[name]
    m = model(
        X @ [1.0, 0.2],
        "gaussian",
        {("a", "b"): prior, "Intercept": pr.Normal(1.0)},
        aux={"sigma": 1.0},
    )
    for prob in (0.5, 0.95, 0.999):
        found = m.prior_predictive(2, prob=prob).moves[0]
        if law is None:  # t with 3 degrees of freedom, of scale 0.4 each
            exact = [stats.t(3, scale=0.4).ppf((1 + v) / 2) for v in (0.5, prob)]
        else:
            half = name == "bridge"
            exact = [law.ppf((1 + v) / 2 if half else v) for v in (0.5, prob)]
        assert np.array([found.typical, found.most]) / found.sd == pytest.approx(
            exact, rel=1e-9
        )
        assert found.error == 0.0
        assert "draws" not in found.sentence


TAILS = [
    pr.Laplace(),
    pr.priors.ElasticNet(ratio=0.6),
    pr.priors.ExponentialPower(q=1.4),
    pr.priors.StudentT(nu=2.5),
]


@pytest.mark.parametrize("prior", TAILS, ids=lambda p: p.name)
def test_a_tail_is_the_integral_of_the_density(prior):
    density = lambda r: np.exp(prior.standard_log_prob(r))
    assert prior.standard_tail(0.7) == pytest.approx(quad(density, 0.7, np.inf)[0])


@pytest.mark.parametrize("unknown", ["scale", "sigma"])
def test_an_unknown_scale_is_drawn(unknown):
    """A normal of which the squared scale is inverse gamma is Student's t."""
    if unknown == "scale":
        prior = pr.Normal(pr.priors.InverseGamma(1.5, 1.5 * 0.16))
    else:
        prior = pr.Normal(0.8, sigma_units=True)
    aux = {"sigma": pr.priors.InverseGamma(1.5, 1.5 * 0.25)}
    found = model(X @ [1.0, 0.2], "gaussian", prior, aux=aux).prior_predictive(20_000)
    move = found.moves[0]
    exact = stats.t(3, scale=0.4).ppf(0.975) * move.sd
    assert move.most == pytest.approx(exact, abs=5 * move.error)
    assert 0 < move.error < 0.1 * exact


def test_the_error_of_draws_is_that_of_their_quantile():
    """Over repeated runs of a softmax the quantiles spread as each of them says of itself."""
    y = np.array(["u", "v", "w"])[np.r_[0, 1, 2, RNG.integers(0, 3, 47)]]
    m = model(y, "categorical", pr.Normal(0.7))
    runs = [m.prior_predictive(400, seed=s).moves[0] for s in range(60)]
    spread = np.std([r.most for r in runs], ddof=1)
    # a sd of 60 values: 9 %; the rest is ranks
    assert np.mean([r.error for r in runs]) == pytest.approx(spread, rel=0.4)


def test_a_simulation_names_a_smooth_function_by_its_term():
    """In place of each of its columns; the line of the function is a column with a flat prior."""
    data = {"y": np.arange(12.0), "x": np.sqrt(np.arange(12.0))}
    bare = pr.Model.from_formula("y ~ s(x)", data, aux={"sigma": pr.HalfNormal(1.0)})
    assert improper_coefficients(bare.joint, bare.design) == {
        "Intercept": "Normal(2.5)",
        "s(x)[line]": "Normal(2.5)",
        "s(x)": "Normal(HalfNormal(1.0))",
    }
    with pytest.raises(pr.Incompatible, match=r"Intercept, s\(x\)\[line\], s\(x\)\."):
        pr.sbc(bare, "laplace", reps=1)
