"""Yesterday's posterior as today's prior, and rows as moments that add up."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.inference import Method
from probreg.inference.exact.conjugate import posterior_as_prior
from probreg.priors import MultivariateNormal

RNG = np.random.default_rng(11)
X = RNG.normal(size=(60, 2)) * [1.0, 3.0] + [2.0, -1.0]
NAMES = ["a", "b"]
RESPONSES = {
    "gaussian": X @ [0.5, -0.2] + 1.0 + 0.7 * RNG.normal(size=60),
    "bernoulli": (RNG.random(60) < 1 / (1 + np.exp(-X @ [0.8, 0.3]))).astype(int),
    "poisson": RNG.poisson(np.exp(0.3 * X[:, 0])),
    "categorical": np.array(["u", "v", "w"])[np.r_[0, 1, 2, RNG.integers(0, 3, 57)]],
}


def model(likelihood, rows=slice(None), **more):
    y = RESPONSES[likelihood]
    options = {"likelihood": likelihood, "columns": NAMES, **more}
    return pr.Model.from_arrays(X[rows], y[rows], **options)


A, B = slice(0, 35), slice(35, 60)


@pytest.mark.parametrize(
    ("prior", "aux"),
    [
        (pr.Flat(), {}),
        (pr.Normal(0.6, sigma_units=True), {}),
        (
            pr.Normal(0.6, location=0.2, sigma_units=True),
            {"sigma": pr.priors.InverseGamma(2.0, 0.5)},
        ),
        (pr.Normal(0.6), {"sigma": 0.7}),
        ({("Intercept", "a"): pr.Normal((2.0, 0.3), sigma_units=True)}, {}),
    ],
    ids=["flat", "units", "inverse gamma", "held", "block"],
)
def test_conjugate_updates_are_the_posterior_of_all_rows(prior, aux):
    part = pr.fit(model("gaussian", A, prior=prior, aux=aux), "conjugate")
    after = part.update(X[B], RESPONSES["gaussian"][B])
    whole = pr.fit(model("gaussian", prior=prior, aux=aux), "conjugate")
    np.testing.assert_allclose(after.coef, whole.coef, rtol=1e-10)
    np.testing.assert_allclose(after.covariance(), whole.covariance(), rtol=1e-9)
    assert after.solution.df == (
        None if aux == {"sigma": 0.7} else pytest.approx(whole.solution.df, rel=1e-12)
    )
    for name, value in whole.solution.aux.items():
        assert after.solution.aux[name] == pytest.approx(value, rel=1e-10)
    assert "is the prior here, exactly" in after.described["notes"][0]


def test_evidence_of_an_update_is_that_of_the_new_rows_given_the_old():
    """p(y_b | y_a) = p(y_a, y_b) / p(y_a)."""
    prior = {("Intercept", "a", "b"): pr.Normal(0.6, sigma_units=True)}
    aux = {"sigma": pr.priors.InverseGamma(2.0, 0.5)}
    part, whole = (
        pr.fit(model("gaussian", rows, prior=prior, aux=aux), "conjugate")
        for rows in (A, slice(None))
    )
    after = part.update(X[B], RESPONSES["gaussian"][B])
    evidence = [f.solution.stats["log_evidence"] for f in (part, after, whole)]
    assert evidence[1] == pytest.approx(evidence[2] - evidence[0], rel=1e-9)


@pytest.mark.parametrize(
    "likelihood", ["gaussian", "bernoulli", "poisson", "categorical"]
)
def test_other_posteriors_are_carried_on_as_a_normal_and_say_so(likelihood):
    y = RESPONSES[likelihood]
    part = pr.fit(model(likelihood, A, prior=pr.Normal(1.5)), "laplace")
    after = part.update(X[B], y[B])
    whole = pr.fit(model(likelihood, prior=pr.Normal(1.5)), "laplace")
    # the log posterior is nearly quadratic here: a quarter of a standard deviation is what skewness leaves
    assert float(np.abs((after.coef - whole.coef) / whole.std_error).max()) < 0.3
    np.testing.assert_allclose(after.std_error / whole.std_error, 1.0, atol=0.15)
    assert (
        "approximately: normal with its mean and covariance"
        in after.described["notes"][0]
    )
    prior = after.model.joint.blocks[0].prior
    assert isinstance(
        prior, MultivariateNormal if likelihood == "categorical" else pr.Normal
    )
    assert ("lognormal" in after.described["notes"][0]) == (likelihood == "gaussian")


def test_a_prior_of_unknown_scale_is_carried_on_without_its_scale():
    """By `integrate`, which needs an unknown scale, and so not for the rows after."""
    y = RESPONSES["gaussian"]
    chosen = {
        "prior": pr.Normal(pr.HalfNormal(1.0)),
        "aux": {"sigma": pr.HalfNormal(2.0)},
    }
    part = pr.fit(model("gaussian", A, **chosen), "integrate", seed=1)
    after = part.update(X[B], y[B])
    assert after.method.name == "quadrature"
    assert "; tau is in its covariance and not carried on" in str(after.notes[-1])
    whole = pr.fit(model("gaussian", **chosen), "integrate", seed=1)
    assert float(np.abs((after.coef - whole.coef) / whole.std_error).max()) < 0.2
    np.testing.assert_allclose(after.std_error / whole.std_error, 1.0, atol=0.1)


def test_an_update_does_not_lose_the_standard_deviation_of_effects():
    data = {"k": [0, 2, 1, 5, 4, 3], "g": list("aabbcc")}
    poisson = pr.Model.from_formula(
        "k ~ 1 + (1 | g)",
        data,
        likelihood="poisson",
        prior={"(1 | g)": pr.Normal(pr.HalfNormal(1.0))},
    )
    part = pr.fit(poisson, "integrate", seed=1)
    with pytest.raises(
        pr.Incompatible,
        match=r"lose the standard deviations of \(1 \| g\).*fit all rows together",
    ):
        part.update(data)


class Students(Method):
    """A posterior with Student-t marginals that is not of the conjugate family, so that it is carried on as a normal."""

    name, target = "students", "posterior"

    def obstacle(self, model):
        return None

    def solve(self, model, rng):
        return pr.Conjugate(draws=200).solve(model, rng)


def test_a_posterior_with_student_marginals_is_carried_on_with_its_covariance():
    """df / (df - 2) times its squared scale: for 8 rows and 3 columns 5 / 3."""
    few = slice(0, 8)
    part = pr.fit(model("gaussian", few), Students(), seed=1)
    assert part.solution.df == 5
    prior = next(
        iter(posterior_as_prior(part.model, part.method, part.solution).prior.values())
    )
    covariance = np.linalg.inv(prior.precision(3))
    np.testing.assert_allclose(
        covariance, part.solution.scale.matrix() * 5 / 3, rtol=1e-9
    )
    np.testing.assert_allclose(covariance, part.covariance(), rtol=1e-9)
    with pytest.raises(pr.DataError, match="1 degrees of freedom and no covariance"):
        pr.fit(model("gaussian", slice(0, 4)), Students(), seed=1).update(
            X[B], RESPONSES["gaussian"][B]
        )


def test_sigma_is_carried_on_by_the_moments_of_its_logarithm():
    part = pr.fit(model("gaussian", A, prior=pr.Normal(1.5)), "laplace")
    prior = part.update(X[B], RESPONSES["gaussian"][B]).model.aux_prior("sigma")
    log_sigma = np.log(part.solution.draws["sigma"])
    assert isinstance(prior, pr.priors.LogNormal)
    assert (prior.location, prior.scale) == (
        pytest.approx(log_sigma.mean()),
        pytest.approx(log_sigma.std()),
    )


def test_a_table_is_read_with_the_formula_that_was_learned():
    table = {
        "y": RESPONSES["gaussian"],
        "g": np.array(["p", "q", "r"])[np.arange(60) % 3],
        "b": X[:, 1],
    }
    cut = lambda rows: {k: v[rows] for k, v in table.items()}
    formula, options = "y ~ g + center(b)", {"prior": pr.Normal(0.5, sigma_units=True)}
    after = pr.fit(
        pr.Model.from_formula(formula, cut(A), **options), "conjugate"
    ).update(cut(B))
    # centred at the mean of the first rows: the same columns throughout
    mean = X[A][:, 1].mean()
    shifted = dict(table, b=X[:, 1] - mean)
    whole = pr.fit(pr.Model.from_formula("y ~ g + b", shifted, **options), "conjugate")
    np.testing.assert_allclose(after.coef.values, whole.coef.values, rtol=1e-10)


def test_models_can_be_given_and_have_to_match():
    part = pr.fit(model("gaussian", A), "conjugate")
    np.testing.assert_allclose(
        part.update(model("gaussian", B)).coef,
        part.update(X[B], RESPONSES["gaussian"][B]).coef,
        rtol=1e-12,
    )
    with pytest.raises(pr.DataError, match="same columns and the same likelihood"):
        part.update(model("bernoulli", B))
    with pytest.raises(pr.DataError, match="pass y="):
        part.update(X[B])
    with pytest.raises(pr.DataError, match="25 new rows and 3 responses"):
        part.update(X[B], [1.0, 2.0, 3.0])
    with pytest.raises(pr.Incompatible, match="newton gives a point estimate"):
        pr.fit(model("bernoulli", A), "newton").update(X[B], RESPONSES["bernoulli"][B])
    with pytest.raises(pr.DataError, match="zebra"):
        pr.fit(model("categorical", A, prior=pr.Normal(1.0)), "laplace").update(
            X[B][:1], ["zebra"]
        )


def test_weights_update_as_copies():
    w = np.arange(25) % 3 + 1
    part = pr.fit(model("gaussian", A), "conjugate")
    one = part.update(X[B], RESPONSES["gaussian"][B], weights=w)
    two = part.update(np.repeat(X[B], w, 0), np.repeat(RESPONSES["gaussian"][B], w))
    np.testing.assert_allclose(one.covariance(), two.covariance(), rtol=1e-10)


def test_moments_merge_and_subtract():
    part, other, whole = (model("gaussian", rows) for rows in (A, B, slice(None)))
    merged = part.design.moments + other.design.moments
    for m in (merged, merged - other.design.moments):
        rows = whole if m is merged else part
        fitted = pr.fit(
            dataclasses.replace(
                rows,
                design=dataclasses.replace(
                    rows.design, X=np.zeros((0, 3)), y=np.zeros(0), kept=m
                ),
            )
        )
        np.testing.assert_allclose(fitted.coef, pr.fit(rows).coef, rtol=1e-9)
        np.testing.assert_allclose(fitted.std_error, pr.fit(rows).std_error, rtol=1e-8)


def test_a_fit_that_was_updated_is_saved_and_read(tmp_path):
    for likelihood, method in (("gaussian", "conjugate"), ("categorical", "laplace")):
        part = pr.fit(
            model(
                likelihood,
                A,
                prior=pr.Normal(1.0, sigma_units=likelihood == "gaussian"),
            ),
            method,
        )
        after = part.update(X[B], RESPONSES[likelihood][B])
        again = pr.load_fit(after.save(tmp_path / f"{likelihood}.nc", rows=True))
        np.testing.assert_allclose(again.coef, after.coef)
        assert again.model.joint.blocks[0].prior == after.model.joint.blocks[0].prior


# ---- the prior of all coefficients together -----------------------------------------------------------------------------

MEAN = ((0.3, -0.1), (0.0, 0.4))
PRECISION = np.array(
    [
        [2.0, 0.3, 0.0, 0.1],
        [0.3, 1.5, 0.2, 0.0],
        [0.0, 0.2, 1.2, -0.3],
        [0.1, 0.0, -0.3, 0.9],
    ]
)


def test_the_multivariate_normal_is_scipys():
    prior, b = MultivariateNormal(MEAN, precision=PRECISION), RNG.normal(size=(5, 2, 2))
    theirs = stats.multivariate_normal(np.ravel(MEAN), np.linalg.inv(PRECISION))
    np.testing.assert_allclose(
        prior.log_prob(b), theirs.logpdf(b.reshape(5, 4)), rtol=1e-12
    )
    draws = prior.sample(np.random.default_rng(0), (20_000, 2, 2)).reshape(-1, 4)
    # five standard errors
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(PRECISION), atol=0.06)
    g, H = prior.derivatives(b[0])
    np.testing.assert_allclose(H, PRECISION)
    np.testing.assert_allclose(g, -PRECISION @ (b[0] - MEAN).ravel())
    import pytensor.tensor as pt

    x = pt.matrix()
    assert float(
        prior.potential(x).eval({x: b[0]}, mode="FAST_COMPILE")
    ) == pytest.approx(float(prior.log_prob(b[0])))
    assert pr.PRIORS.from_spec(pr.PRIORS.to_spec(prior)) == prior


def test_a_multivariate_normal_of_the_wrong_shape_is_refused():
    with pytest.raises(pr.DataError, match="goes with a precision"):
        MultivariateNormal(MEAN, precision=np.eye(3))
    with pytest.raises(pr.DataError, match="positive definite"):
        MultivariateNormal(MEAN, precision=-np.eye(4))
    with pytest.raises(pr.DataError, match="stated for 2 columns"):
        model("categorical", prior=MultivariateNormal(MEAN, precision=np.eye(4)))


def test_a_symmetric_softmax_of_two_classes_is_carried_on():
    y = RESPONSES["bernoulli"]
    options = {
        "likelihood": pr.Categorical(levels=(0, 1), symmetric=True),
        "prior": pr.Normal(1.5),
        "columns": NAMES,
    }
    part, whole = (
        pr.fit(pr.Model.from_arrays(X[r], y[r], **options), "laplace")
        for r in (A, slice(None))
    )
    after = part.update(X[B], y[B])
    assert float(np.abs((after.coef - whole.coef) / whole.std_error).max()) < 0.3
