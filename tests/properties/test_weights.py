"""Laws of weights: what a kind of weight says of a row holds in every door, method, density and number by row."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

import probreg as pr
from probreg.data import Moments
from probreg.diagnostics.simulation.simulate import simulate_response
from probreg.priors import Normal

N = 24
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2))
W = np.round(RNG.gamma(2.0, 0.7, N) + 0.05, 3)
Y = 0.5 + X @ [1.0, -0.7] + RNG.normal(size=N) / np.sqrt(W)
OFFSET = 0.2 * np.cos(np.arange(N))
LIKELIHOODS = [pr.Gaussian(), pr.StudentT(4.0)]
named = {"ids": lambda v: v.name if hasattr(v, "name") else str(v)}


def model(likelihood=LIKELIHOODS[0], w=W, **options):
    return pr.Model.from_arrays(
        X,
        Y,
        columns=["a", "b"],
        likelihood=likelihood,
        offset=OFFSET,
        weights=pr.weights.precision(w),
        **options,
    )


# ---- precision: y_i ~ p(. | eta_i, sigma / sqrt(w_i)) ------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
def test_the_density_is_that_of_each_rows_own_noise_scale(likelihood):
    m, beta = model(likelihood), np.array([[0.3], [0.8], [-0.5]])
    each = [
        likelihood.log_prob(
            Y[i : i + 1], m.eta(beta)[i : i + 1], sigma=0.9 / np.sqrt(W[i])
        )[0]
        for i in range(N)
    ]
    np.testing.assert_allclose(m.pointwise(beta, sigma=0.9), each, rtol=1e-13)
    assert m.log_lik(beta, sigma=0.9) == pytest.approx(sum(each), rel=1e-13)
    mass = quad(lambda y: np.exp(likelihood.log_prob(np.array([y]), np.zeros((1, 1)), **likelihood.at_rows({"sigma": 0.9}, W[:1])))[0], -np.inf, np.inf)[0]  # fmt: skip
    assert mass == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
def test_derivatives_are_those_of_the_density(likelihood):
    m, point, h = (
        model(likelihood, prior=Normal(1.5)),
        np.array([0.3, 0.8, -0.5, np.log(0.9)]),
        1e-5,
    )

    def value(p):
        return float(
            m.log_lik(p[:3, None], sigma=np.exp(p[3]))
            + m.log_prior(p[:3, None], sigma=np.exp(p[3]))
            + p[3]
        )

    local = m.value_grad_hessian(point[:3, None], sigma=float(np.exp(point[3])))
    for i, e in enumerate(np.eye(4)):
        assert local.gradient[i] == pytest.approx(
            (value(point + h * e) - value(point - h * e)) / (2 * h), rel=1e-6
        )
        up, down = (
            m.value_grad_hessian(
                (point + s * h * e)[:3, None],
                sigma=float(np.exp((point + s * h * e)[3])),
            )
            for s in (1, -1)
        )
        np.testing.assert_allclose(
            local.curvature[i],
            (down.gradient - up.gradient) / (2 * h),
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
def test_compiled_sums_and_samplers_have_the_same_density(likelihood, monkeypatch):
    from probreg.inference.sampling.density import SampledDensity
    from probreg.model import likelihood_sums as sums

    m, beta = model(likelihood, prior=Normal(1.5)), RNG.normal(size=(5, 3, 1))
    sigma = np.linspace(0.5, 1.5, 5)
    plain, slopes = (
        m.log_lik(beta, sigma=sigma),
        m.in_frame(beta[0], m.design.frame, {"sigma": 0.8}, curved=False),
    )
    monkeypatch.setattr(sums, "COMPILED", 1)
    np.testing.assert_allclose(m.log_lik(beta, sigma=sigma), plain, rtol=1e-12)
    np.testing.assert_allclose(
        m.in_frame(beta[0], m.design.frame, {"sigma": 0.8}, curved=False).gradient,
        slopes.gradient,
        rtol=1e-10,
        atol=1e-12,
    )
    dense = SampledDensity.of(m)
    z = 0.3 * RNG.normal(size=4)
    at = dense.unfold(z)
    jacobian = np.log(at["sigma"])
    assert dense.log_prob(z)[0] == pytest.approx(
        float(m.log_posterior(at["beta"], sigma=at["sigma"]) + jacobian)
    )


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
def test_pymc_says_the_same_density(likelihood):
    pytest.importorskip("pymc")
    m = model(likelihood, prior=Normal(1.5), aux={"sigma": 0.8})
    graph = m.to_pymc()
    beta = np.array([0.1, 0.7, -0.4])
    there = graph.compile_logp(mode="FAST_COMPILE")
    ours = float(m.log_lik(beta[:, None]) + m.joint.log_prob(beta[:, None], 0.8))
    assert there(dict(zip(["Intercept", "a", "b"], beta))) == pytest.approx(
        ours, rel=1e-9
    )  # the digits of PyMC's gammaln


def scaled(**options):
    """The same Gaussian model as rows times the roots of their precisions."""
    root = np.sqrt(W)[:, None]
    rows = np.hstack([np.ones((N, 1)), X]) * root
    return pr.Model.from_arrays(
        rows,
        (Y - OFFSET) * root[:, 0],
        columns=["one", "a", "b"],
        intercept=False,
        **options,
    )


@pytest.mark.parametrize(
    "method", ["closed_form", "newton", "conjugate", "quadrature", "laplace"]
)
def test_gaussian_answers_are_those_of_rows_times_their_roots(method):
    prior = {
        "a": Normal(0.8, sigma_units=method == "conjugate"),
        "b": Normal(0.8, sigma_units=method == "conjugate"),
    }
    prior = {} if method in ("closed_form", "newton") else prior
    one, other = (
        pr.fit(m, method, seed=1)
        for m in (model(prior=prior or pr.Flat()), scaled(prior=prior or pr.Flat()))
    )
    np.testing.assert_allclose(one.coef, other.coef.values, rtol=1e-7)
    np.testing.assert_allclose(
        one.covariance(), other.covariance().values, rtol=1e-6, atol=1e-12
    )
    assert one.aux["sigma"] == pytest.approx(other.aux["sigma"], rel=1e-7)


def test_the_evidence_is_a_density_of_y():
    """log p(y) of y* = sqrt(w) y is that of y less sum log(w) / 2, however it is found."""
    aux = {"sigma": pr.priors.InverseGamma(3.0, 2.0)}
    prior = {c: Normal(0.8, sigma_units=True) for c in ("Intercept", "a", "b")}
    one = model(prior=prior, aux=aux)
    root = np.sqrt(W)[:, None]
    two = pr.Model.from_arrays(
        np.hstack([np.ones((N, 1)), X]) * root, (Y - OFFSET) * root[:, 0], columns=["Intercept_", "a", "b"], intercept=False,
        prior={c: Normal(0.8, sigma_units=True) for c in ("Intercept_", "a", "b")}, aux=aux,
    )  # fmt: skip
    gain = 0.5 * np.log(W).sum()
    for method in ("conjugate", "quadrature"):
        found = [pr.fit(m, method).solution.stats["log_evidence"] for m in (one, two)]
        assert found[0] == pytest.approx(found[1] + gain, rel=1e-9)
    held = [
        pr.fit(m.with_aux(sigma=0.7), "conjugate").solution.stats["log_evidence"]
        for m in (one, two)
    ]
    assert held[0] == pytest.approx(held[1] + gain, rel=1e-9)
    near = pr.fit(one, pr.Importance(draws=2000), seed=1).solution.stats
    exact = pr.fit(one, "conjugate").solution.stats["log_evidence"]
    assert near["log_evidence"] == pytest.approx(
        exact, abs=6 * near["log_evidence_se"] + 1e-3
    )


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
def test_a_precision_of_one_is_no_weight(likelihood):
    one = pr.fit(model(likelihood, w=np.ones(N)))
    none = pr.fit(
        pr.Model.from_arrays(
            X, Y, columns=["a", "b"], likelihood=likelihood, offset=OFFSET
        )
    )
    np.testing.assert_allclose(one.coef, none.coef, rtol=1e-9)
    np.testing.assert_allclose(one.covariance(), none.covariance(), rtol=1e-7)
    assert one.log_likelihood == pytest.approx(none.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
def test_the_unit_of_precisions_moves_sigma_alone(likelihood):
    one, other = pr.fit(model(likelihood)), pr.fit(model(likelihood, w=100.0 * W))
    np.testing.assert_allclose(other.coef, one.coef, rtol=1e-7)
    np.testing.assert_allclose(other.std_error, one.std_error, rtol=1e-6)
    assert other.aux["sigma"] == pytest.approx(10.0 * one.aux["sigma"], rel=1e-7)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-10)


def test_moments_of_precisions_merge_split_and_are_saved():
    columns = ("a", "b")
    whole = Moments.of(X, Y, precision=W, columns=columns)
    parts = [
        Moments.of(X[s], Y[s], precision=W[s], columns=columns)
        for s in (slice(9), slice(9, None))
    ]
    for found in (parts[0] + parts[1], Moments.from_arrays(whole.to_arrays())):
        np.testing.assert_allclose(
            np.abs(found.factor.astype(float)),
            np.abs(whole.factor.astype(float)),
            rtol=1e-9,
        )
        assert (found.n, found.weight) == (N, N)
        assert found.log_precision == pytest.approx(np.log(W).sum())
        np.testing.assert_allclose(found.scale, X.std(0), rtol=1e-12)
    rest = whole - parts[1]
    assert rest.log_precision == pytest.approx(np.log(W[:9]).sum())
    assert (rest.n, rest.weight) == (9, 9)
    np.testing.assert_allclose(
        rest.least_squares()[0], parts[0].least_squares()[0], rtol=1e-8
    )


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
def test_every_door_gives_one_answer(likelihood, tmp_path):
    here = pr.fit(model(likelihood))
    frame = {"y": Y, "a": X[:, 0], "b": X[:, 1], "w": W, "o": OFFSET}
    kind = {"likelihood": likelihood, "offset": "o"}
    lines = [
        ",".join(frame),
        *(",".join(repr(float(v[i])) for v in frame.values()) for i in range(N)),
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    blocks = [(X[s], Y[s], W[s], OFFSET[s]) for s in (slice(10), slice(10, None))]
    doors = [
        pr.Model.from_formula(
            "y ~ a + b", frame, weights=pr.weights.precision("w"), **kind
        ),
        pr.Model.from_formula(
            "y ~ a + b", frame, weights=pr.weights.precision(W), **kind
        ),
        pr.Model.from_files(
            "y ~ a + b",
            tmp_path / "rows.csv",
            weights=pr.weights.precision("w"),
            **kind,
        ),
        pr.Model.from_blocks(
            blocks,
            columns=["a", "b"],
            likelihood=likelihood,
            weights=pr.weights.precision,
        ),
        here.model.at(X, Y, weights=pr.weights.precision(W), offset=OFFSET),
    ]
    for other in doors:
        found = pr.fit(other)
        np.testing.assert_allclose(found.coef, here.coef, rtol=1e-7)
        np.testing.assert_allclose(found.std_error, here.std_error, rtol=1e-6)
        assert found.log_likelihood == pytest.approx(here.log_likelihood, rel=1e-9)
        assert found.model.design.total == N


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
@pytest.mark.parametrize("rows", [True, False])
def test_the_kind_is_saved(likelihood, rows, tmp_path):
    fit = pr.fit(model(likelihood))
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=rows))
    assert again.model.design.weight_kind == "precision"
    assert again.log_likelihood == pytest.approx(fit.log_likelihood, rel=1e-12)
    if rows:
        np.testing.assert_array_equal(again.model.design.precision, W)
        np.testing.assert_allclose(
            pr.residuals(again, "pearson"), pr.residuals(fit, "pearson"), rtol=1e-12
        )


def test_an_update_is_the_fit_of_all_rows_and_keeps_the_kind():
    whole = pr.fit(model(), "conjugate")
    some, rest = slice(0, 15), slice(15, N)
    first = pr.Model.from_arrays(
        X[some],
        Y[some],
        columns=["a", "b"],
        offset=OFFSET[some],
        weights=pr.weights.precision(W[some]),
    )
    after = pr.fit(first, "conjugate").update(
        X[rest], Y[rest], offset=OFFSET[rest], weights=pr.weights.precision(W[rest])
    )
    np.testing.assert_allclose(after.coef, whole.coef, rtol=1e-8)
    np.testing.assert_allclose(after.covariance(), whole.covariance(), rtol=1e-7)
    with pytest.raises(
        pr.DataError, match="weights of one kind: precision before and frequency now"
    ):
        pr.fit(first, "conjugate").update(
            X[rest], Y[rest], offset=OFFSET[rest], weights=np.ones(N - 15)
        )


@pytest.mark.parametrize("method", ["auto", "conjugate"])
def test_leaving_a_row_out_is_a_fit_without_it(method):
    """The closed forms against fits without each row, and the predictive density of the row's own noise."""
    fit = pr.fit(model(), method)
    found = pr.compare_models([fit]).pointwise.values[:, 0]
    for i in (0, 7, int(np.argmax(W)), int(np.argmin(W))):
        rest = pr.fit(
            replace(
                fit.model, design=fit.model.design.take(np.delete(np.arange(N), i))
            ),
            method,
        )
        one = rest.predictive(
            X[i : i + 1],
            offset=OFFSET[i : i + 1],
            weights=pr.weights.precision(W[i : i + 1]),
        )
        if method == "auto":
            assert found[i] == pytest.approx(
                float(one.log_prob(Y[i : i + 1])[0]), rel=1e-7
            )
        else:
            assert found[i] == pytest.approx(
                float(one.log_prob(Y[i : i + 1])[0]), abs=0.05
            )  # 4,000 draws


def test_new_rows_have_sigma_unless_they_say_otherwise():
    fit = pr.fit(model(aux={"sigma": 0.8}))
    new, shift = X[:3] + 0.1, np.zeros(3)
    z = 1.959963984540054
    plain = fit.predict(new, offset=shift)
    heavy = fit.predict(
        new, offset=shift, weights=pr.weights.precision([4.0, 4.0, 4.0])
    )
    for found, noise in ((plain, 0.64), (heavy, 0.16)):
        spread = ((found["new_upper"] - found["mean"]) / z) ** 2 - (
            (found["mean_upper"] - found["mean"]) / z
        ) ** 2
        np.testing.assert_allclose(spread, noise, rtol=1e-9)
    own = fit.predict()
    spread = ((own["new_upper"] - own["mean"]) / z) ** 2 - (
        (own["mean_upper"] - own["mean"]) / z
    ) ** 2
    np.testing.assert_allclose(spread, 0.64 / W, rtol=1e-8)


def test_residuals_are_in_the_units_of_each_rows_noise():
    fit = pr.fit(model())
    e = pr.residuals(fit)
    np.testing.assert_allclose(
        pr.residuals(fit, "pearson"), e * np.sqrt(W) / fit.aux["sigma"], rtol=1e-10
    )
    np.testing.assert_allclose(
        pr.residuals(fit, "deviance"), e * np.sqrt(W) / fit.aux["sigma"], rtol=1e-9
    )
    found = pr.influence_measures(fit)
    assert float(found["leverage"].max()) < 1.0
    assert float(found["leverage"].sum()) == pytest.approx(3.0)
    assert np.isfinite(found["cook"]).all()


def test_simulated_responses_have_each_rows_noise():
    precise = model(w=np.full(N, 1e16))
    eta = precise.eta(np.ones(precise.shape))
    rng = np.random.default_rng(0)
    simulated = simulate_response(precise, eta, {"sigma": 1.0}, rng)
    np.testing.assert_allclose(simulated.design.y, eta[:, 0], atol=1e-6)


# ---- sampling: sum_i w_i log p_i, w summing to n -----------------------------------------------------------------------


def test_sampling_weights_have_no_unit_and_sandwich_errors():
    one, other = (
        pr.fit(pr.Model.from_arrays(X, Y, weights=pr.weights.sampling(u * W)))
        for u in (1.0, 1e6)
    )
    A = np.c_[np.ones(N), X]
    bread = np.linalg.inv((A * W[:, None]).T @ A)
    beta = bread @ (A * W[:, None]).T @ Y
    S = (A * (W * (Y - A @ beta))[:, None]).T @ (A * (W * (Y - A @ beta))[:, None])
    V = N / (N - 1.0) * bread @ S @ bread
    for fit in (one, other):
        np.testing.assert_allclose(fit.coef, beta, rtol=1e-10)
        np.testing.assert_allclose(fit.covariance(), V, rtol=1e-8)
        assert fit.model.design.total == pytest.approx(N)
    np.testing.assert_allclose(one.covariance("HC1"), V * (N - 1) / (N - 3), rtol=1e-8)
    np.testing.assert_allclose(
        one.covariance("cluster", groups=np.arange(N), small_sample="none"),
        V * (N - 1) / N,
        rtol=1e-8,
    )


def test_blocks_normalise_sampling_weights_to_the_number_of_rows():
    here = pr.fit(
        pr.Model.from_arrays(
            X, Y, weights=pr.weights.sampling(W), likelihood=pr.StudentT()
        )
    )
    blocks = [(X[s], Y[s], W[s]) for s in (slice(10), slice(10, None))]
    for likelihood in (pr.StudentT(), pr.Gaussian()):
        here = pr.fit(
            pr.Model.from_arrays(
                X, Y, weights=pr.weights.sampling(W), likelihood=likelihood
            )
        )
        there = pr.fit(
            pr.Model.from_blocks(
                blocks, weights=pr.weights.sampling, likelihood=likelihood
            )
        )
        np.testing.assert_allclose(there.coef, here.coef, rtol=1e-7)
        np.testing.assert_allclose(there.covariance(), here.covariance(), rtol=1e-6)
        assert there.model.design.total == N
        (total,) = there.model.design.sum_over_rows(lambda rows: (rows.weights.sum(),))
        assert total == pytest.approx(N)


SAMPLED = pr.fit(
    pr.Model.from_arrays(X, Y, columns=["a", "b"], weights=pr.weights.sampling(W))
)
SAMPLED_BLOCKS = pr.fit(pr.Model.from_blocks([(X, Y, W)], weights=pr.weights.sampling))
REFUSED = {
    "posterior": lambda: pr.fit(SAMPLED.model, "posterior"),
    "nuts": lambda: pr.fit(SAMPLED.model, "nuts"),
    "conjugate": lambda: pr.fit(SAMPLED.model, "conjugate"),
    "evidence": lambda: pr.fit(
        SAMPLED.model.with_prior(pr.Normal(pr.priors.Reference())), "evidence"
    ),
    "bootstrap": lambda: pr.fit(SAMPLED.model, "bootstrap"),
    "log-likelihood": lambda: SAMPLED.log_likelihood,
    "likelihood ratio": lambda: pr.compare_models([SAMPLED], test="lr"),
    "AIC": lambda: SAMPLED.aic,
    "null deviance": lambda: SAMPLED.null_deviance,
    "null deviance of blocks": lambda: SAMPLED_BLOCKS.null_deviance,
    "predictive": lambda: SAMPLED.predictive([[0.0, 0.0]]),
    "profile": lambda: SAMPLED.interval(kind="profile"),
    "score": lambda: SAMPLED.interval(kind="score"),
    "HC2": lambda: SAMPLED.covariance("HC2"),
    "classical": lambda: SAMPLED.covariance("classical"),
    "observed": lambda: SAMPLED.covariance("observed"),
    "diagnostics": lambda: pr.diagnose(SAMPLED),
    "measures": lambda: pr.influence_measures(SAMPLED),
    "choice": lambda: pr.tune(SAMPLED.model.with_prior(Normal(1.0)), "loo"),
    "path": lambda: pr.path(SAMPLED.model.with_prior(Normal(1.0))),
    "coverage": lambda: pr.coverage(SAMPLED.model, SAMPLED),
    "pymc": lambda: SAMPLED.model.to_pymc(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_a_likelihood_is_refused_in_one_sentence(what):
    with pytest.raises(
        pr.Incompatible,
        match="sampling weights make a pseudo-likelihood, which is no probability",
    ):
        REFUSED[what]()


def test_what_sampling_weights_do_have():
    assert set(SAMPLED.predict([[0.1, 0.2]]).data_vars) == {
        "mean",
        "mean_std_error",
        "mean_lower",
        "mean_upper",
    }
    assert SAMPLED.interval().attrs["kind"] == "wald"
    assert SAMPLED.interval().attrs["covariance"] == "sampling-weighted"
    assert list(pr.hypothesis(SAMPLED, "a = 0").tests) == ["chi2"] or "chi2" in str(
        pr.hypothesis(SAMPLED, "a = 0")
    )
    assert pr.residuals(SAMPLED).shape == (N,)
    assert "sandwich of the sampling weights" in repr(SAMPLED)
    assert "unbiased" not in repr(SAMPLED)


def test_a_sampled_fit_is_saved_with_its_errors(tmp_path):
    again = pr.load_fit(SAMPLED.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(again.std_error, SAMPLED.std_error)
    assert again.covariance().attrs == SAMPLED.covariance().attrs
    with pytest.raises(pr.Incompatible, match="pseudo-likelihood"):
        _ = again.log_likelihood


# ---- rows of weight 0 --------------------------------------------------------------------------------------------------

KINDS = {
    "frequency": lambda w: w,
    "precision": lambda w: pr.weights.precision(w * 0.7),
    "sampling": lambda w: pr.weights.sampling(w * 0.7),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_0_keep_their_place_and_count_nowhere(kind):
    w = np.arange(N) % 4.0
    idle = np.flatnonzero(w == 0)
    y = Y.copy()
    y[idle[0]] = -9999.0
    with_zeros = pr.fit(pr.Model.from_arrays(X, y, weights=KINDS[kind](w)))
    without = pr.fit(
        pr.Model.from_arrays(X[w > 0], Y[w > 0], weights=KINDS[kind](w[w > 0]))
    )
    np.testing.assert_allclose(with_zeros.coef, without.coef, rtol=1e-12)
    np.testing.assert_allclose(
        with_zeros.covariance(), without.covariance(), rtol=1e-10
    )
    assert with_zeros.solution.df == without.solution.df
    assert with_zeros.model.design.total == without.model.design.total
    labels = np.arange(N)
    for found in (pr.residuals(with_zeros), with_zeros.predict()["mean"]):
        assert found["obs"].values.tolist() == labels.tolist()
    e = pr.residuals(with_zeros).values
    assert np.isnan(e[idle]).all()
    np.testing.assert_allclose(
        e, y - with_zeros.predict()["mean"], rtol=1e-9, atol=1e-9
    )
    if kind != "sampling":
        one, two = (pr.compare_models([f]).table.iloc[0] for f in (with_zeros, without))
        for name in ("AIC", "AICc", "BIC", "elpd_loo"):
            assert one[name] == pytest.approx(two[name], rel=1e-10)
        found = pr.influence_measures(with_zeros)
        assert found["obs"].values.tolist() == labels.tolist()
        assert (found["leverage"].values[idle] == 0).all()
        np.testing.assert_allclose(
            np.delete(found["leverage"].values, idle),
            pr.influence_measures(without)["leverage"],
            rtol=1e-9,
        )
        assert np.isfinite(np.delete(found["cook"].values, idle)).all()
        assert not [f for f in pr.diagnose(with_zeros) if "nan" in f.sentence]
    groups = np.arange(N) // 3
    np.testing.assert_allclose(
        with_zeros.covariance("cluster", groups=groups),
        without.covariance("cluster", groups=groups[w > 0]),
        rtol=1e-10,
    )


def test_rows_of_weight_0_are_saved_with_the_rows(tmp_path):
    w = np.arange(N) % 4
    fit = pr.fit(pr.Model.from_arrays(X, Y, weights=w))
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    np.testing.assert_allclose(pr.residuals(again), pr.residuals(fit), rtol=1e-12)


def test_bic_takes_the_log_of_the_number_of_observations():
    """Of frequencies their sum and not the rows, of precisions the rows and not their sum; rows of weight 0 are none."""
    counts = np.arange(N) % 4
    for weights, n in (
        (counts, counts.sum()),
        (pr.weights.precision(counts / 3.0), (counts > 0).sum()),
    ):
        fit = pr.fit(pr.Model.from_arrays(X, Y, weights=weights))
        row = pr.compare_models([fit]).table.iloc[0]
        assert row["BIC"] == pytest.approx(
            4 * np.log(n) - 2 * fit.log_likelihood, rel=1e-12
        )
        assert row["AICc"] == pytest.approx(
            8 - 2 * fit.log_likelihood + 2 * 4 * 5 / (n - 5), rel=1e-12
        )


def test_a_path_takes_the_log_of_the_number_of_observations_too():
    """BIC along a path: -2 log p + k log n, n the sum of frequencies, or the rows that have a precision."""
    counts = np.arange(N) % 4
    for weights, n in (
        (counts, counts.sum()),
        (pr.weights.precision(counts / 3.0), (counts > 0).sum()),
    ):
        m = pr.Model.from_arrays(
            X, Y, weights=weights, prior=Normal(1.0), aux={"sigma": 1.0}
        )
        data = pr.path(m, [0.5, 2.0]).data
        likelihood, df = data["log_likelihood"].values, data["df"].values
        np.testing.assert_allclose(
            data["BIC"].values, df * np.log(n) - 2.0 * likelihood, rtol=1e-10
        )


@pytest.mark.parametrize("target", ["mode", "posterior"])
def test_rows_are_left_out_at_their_own_noise(target):
    """The closed form of loo against fits without each row, on the scale of the rows' own noise."""
    m = model(prior={"a": Normal(0.8), "b": Normal(0.8)}, aux={"sigma": 0.9})
    if target == "mode":
        found = pr.tune(m, "loo", scales=[1.0]).table["score"]
    else:
        found = -pr.compare_models([pr.fit(m, "conjugate")]).table["elpd_loo"] / N
    total = 0.0
    for i in range(N):
        rest = replace(m, design=m.design.take(np.delete(np.arange(N), i)))
        fit = pr.fit(rest, "closed_form" if target == "mode" else "conjugate")
        x = np.r_[1.0, X[i]]
        spread = 0.81 / W[i] + (
            x @ fit.covariance().values @ x if target == "posterior" else 0.0
        )
        e = Y[i] - OFFSET[i] - x @ fit.coef.values
        total += 0.5 * (np.log(2 * np.pi * spread) + e * e / spread)
    assert float(found.iloc[0]) == pytest.approx(total / N, rel=1e-7)


@pytest.mark.parametrize("method", ["sgd", "lms"])
def test_passes_end_at_the_mode(method):
    fit, mode = pr.fit(model(), method), pr.fit(model(), "newton")
    assert np.abs((fit.coef - mode.coef) / mode.std_error).max() < 0.1


@pytest.mark.parametrize("kind", ["pairs", "residual", "parametric"])
def test_replicates_have_the_noise_of_their_rows(kind):
    """The spread of a bootstrap is near that of the model, whose errors are right here; equal noise would be far off."""
    w = np.where(np.arange(200) % 2, 100.0, 0.5)
    x = np.where(np.arange(200) % 2, 0.3, 1.0) * np.cos(np.arange(200))
    y = 1.0 + x + np.random.default_rng(1).normal(size=200) / np.sqrt(w)
    m = pr.Model.from_arrays(x, y, weights=pr.weights.precision(w))
    plain, found = (
        pr.fit(m),
        pr.fit(m, pr.Bootstrap("closed_form", kind=kind, reps=200)),
    )
    # 200 replicates, and the sampling of y
    np.testing.assert_allclose(found.std_error, plain.std_error, rtol=0.25)


def test_a_lasso_is_that_of_the_rows_times_their_roots():
    """KKT: w-weighted residuals on a column meet the penalty where the coefficient is off zero."""
    m = model(prior={"a": pr.Laplace(0.4), "b": pr.Laplace(0.4)}, aux={"sigma": 0.9})
    for method in ("coordinate_descent", "proximal_newton"):
        beta = pr.fit(m, method).coef.values
        e = W * (Y - OFFSET - np.c_[np.ones(N), X] @ beta) / 0.81
        assert np.abs(e.sum()) < 1e-5
        np.testing.assert_allclose(X.T @ e, np.sign(beta[1:]) / 0.4, rtol=1e-5)


def test_the_spread_of_a_column_counts_its_rows():
    """The standard deviations behind scaled=True, sd(y) / sd(x): divisor n - 1, n the sum of frequencies; precisions count
    each row once."""
    counts, x = np.array([1, 3, 2, 1]), np.array([0.0, 1.0, 4.0, 9.0])
    y, each = np.array([0.0, 2.0, 3.0, 5.0]), np.ones(4, dtype=int)
    for weights, often in (
        (counts, counts),
        (None, each),
        (pr.weights.precision([0.1, 5.0, 2.0, 1.0]), each),
    ):
        bound = pr.Model.from_arrays(
            x, y, columns=["x"], prior=Normal(2.0, scaled=True), weights=weights
        )
        scale = float(
            np.std(np.repeat(x, often), ddof=1) / np.std(np.repeat(y, often), ddof=1)
        )
        same = pr.Model.from_arrays(
            x, y, columns=["x"], prior={"x": Normal(2.0 / scale)}, weights=weights
        )
        beta = np.array([[0.3], [1.1]])
        assert float(bound.log_prior(beta, sigma=1.0)) == pytest.approx(
            float(same.log_prior(beta, sigma=1.0)), rel=1e-12
        )


def test_the_divisor_of_a_spread_is_one_less_than_the_observations():
    """Without a noise scale nothing cancels it: scaled=True divides by sd(x) with divisor n - 1, n the sum of frequencies."""
    counts, x, y = (
        np.array([1, 3, 2, 1]),
        np.array([0.0, 1.0, 4.0, 9.0]),
        np.array([0, 2, 3, 5]),
    )
    for weights, often in ((counts, counts), (None, np.ones(4, dtype=int))):
        options = {"columns": ["x"], "likelihood": "poisson", "weights": weights}
        bound = pr.Model.from_arrays(x, y, prior=Normal(2.0, scaled=True), **options)
        same = pr.Model.from_arrays(
            x,
            y,
            prior={"x": Normal(2.0 / np.std(np.repeat(x, often), ddof=1))},
            **options,
        )
        beta = np.array([[0.3], [1.1]])
        assert float(bound.log_prior(beta)) == pytest.approx(
            float(same.log_prior(beta)), rel=1e-12
        )


def test_leave_one_out_repeats_the_rows_or_multiplies_them(monkeypatch):
    """A row of weight 3 is three terms; where rows are too many to repeat, one term of three times the size."""
    from probreg.fits import inference_data as tree

    w = np.arange(N) % 3 + 1
    fit = pr.fit(pr.Model.from_arrays(X, Y, weights=w))
    each = pr.compare_models([fit]).pointwise.values[:, 0]
    assert len(each) == w.sum()
    monkeypatch.setattr(tree, "MAX_OBSERVATIONS", 1.0)
    rows = pr.compare_models([pr.fit(fit.model)]).pointwise.values[:, 0]
    assert len(rows) == N
    first = np.r_[0, np.cumsum(w)[:-1]]
    np.testing.assert_allclose(rows, w * each[first], rtol=1e-12)
    assert rows.sum() == pytest.approx(each.sum(), rel=1e-12)


# ---- bias and variance under precisions ------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", LIKELIHOODS, **named)
def test_bias_and_variance_have_the_noise_of_each_row(likelihood):
    """Var(y_i) = sigma^2 / w_i; in closed form the variance of weighted least squares, and by simulation the same."""
    m = pr.Model.from_arrays(
        X, Y, columns=["a", "b"], likelihood=likelihood, weights=pr.weights.precision(W),
        prior={"a": Normal(0.7), "b": Normal(0.7)}, aux={"sigma": 0.9},
    )  # fmt: skip
    beta = np.array([0.5, 1.0, -0.7])
    reps = 200 if likelihood.name == "gaussian" else 20
    drawn = pr.bias_variance(m, beta, method="newton", reps=reps)
    factor = 1.0 if likelihood.name == "gaussian" else 2.0  # nu / (nu - 2)
    np.testing.assert_allclose(drawn.data["noise"], factor * 0.81 / W, rtol=1e-12)
    new = pr.bias_variance(m, beta, X[:2], method="newton", reps=2).data["noise"]
    np.testing.assert_allclose(new, factor * 0.81, rtol=1e-12)
    if likelihood.name == "student":
        return
    A = np.c_[np.ones(N), X]
    S = A @ np.linalg.solve(
        A.T @ (W[:, None] * A) + np.diag([0.0, 1, 1]) * 0.81 / 0.49, A.T * W
    )
    exact = pr.bias_variance(m, beta)
    assert exact.how == "closed form"
    np.testing.assert_allclose(exact.data["variance"], (S**2) @ (0.81 / W), rtol=1e-8)
    np.testing.assert_allclose(
        exact.data["bias"], S @ A @ beta - A @ beta, rtol=1e-7, atol=1e-10
    )
    assert float(exact.average["df"]) == pytest.approx(np.trace(S), rel=1e-7)
    off = (drawn.data["variance"] - exact.data["variance"]) / drawn.data["variance_se"]
    assert np.abs(off).max() < 5.0


def test_frequencies_beyond_the_integers_of_numpy_have_criteria():
    data = {"y": [1.0, 3.0, 2.0, 5.0], "x": [0.0, 1.0, 2.0, 3.0], "w": [10.0**19] * 4}
    fit = pr.fit(pr.Model.from_formula("y ~ x", data, weights="w"))
    assert np.isfinite([fit.aic, fit.bic]).all()
    assert str(fit)


def test_a_new_row_of_precision_zero_has_the_noise_of_precision_one():
    rng = np.random.default_rng(3)
    data = {
        "y": rng.normal(size=30),
        "x": rng.normal(size=30),
        "w": rng.uniform(1, 3, 30),
    }
    fit = pr.fit(
        pr.Model.from_formula("y ~ x", data, weights=pr.weights.precision("w"))
    )
    ends = fit.predictive({"x": [0.5, 0.5], "w": [0.0, 1.0]}).interval(0.9)
    np.testing.assert_allclose([e[0] for e in ends], [e[1] for e in ends])
