"""Laws of explanations: shares of causes add up to what is explained, in every model, and each is what a formula says of it."""

import numpy as np
import pytest
from scipy.integrate import quad_vec

import probreg as pr
from probreg.comparison import shares as share_module
from probreg.comparison.differences import Cause
from probreg.comparison.prior_path import FIRST, PathPoint, PriorPath
from probreg.likelihoods import SmoothLikelihood

from .cases import LIKELIHOOD_CASES, aux_choices, covering, gradient, model_for, named

SMOOTH = [
    v
    for v in LIKELIHOOD_CASES
    if isinstance(v, SmoothLikelihood) and not v.expected_curvature
]
TIGHT = {"x1": pr.Normal(0.3), "x2": pr.Normal(0.2), "x3": pr.Normal(0.8)}
OTHER = {
    "x1": pr.Normal(0.3),
    ("x2", "x3"): pr.Normal(precision_matrix=((3.0, 1.0), (1.0, 2.0))),
}


def shares(a: pr.Fit, b: pr.Fit) -> tuple[np.ndarray, np.ndarray]:
    """Shifts and logs of SE ratios (param, cause) of an explanation by a path, which sum to what they explain."""
    found = pr.explain(a, b)
    assert not found.without_path
    # what they report is the mode of the path
    if {a.method.name, b.method.name} == {"newton"}:
        assert "convergence" not in found.shares["cause"]
    for quantity, total in (("shift", "difference"), ("log_se", "log_se_ratio")):
        s = found.shares
        assert float(np.abs(s[quantity].sum("cause") - s[total]).max()) < 1e-8
    direct = (b.coef - a.coef) / a.std_error
    np.testing.assert_allclose(
        found.shares["difference"].values[: direct.size],
        direct.values.T.ravel(),
        rtol=1e-10,
    )
    return found.shares["shift"].values, found.shares["log_se"].values


def fitted(likelihood, prior=None, method="newton", aux=None):
    return pr.fit(model_for(likelihood, prior, n=40, aux=aux or {}), method, seed=1)


@pytest.mark.parametrize(
    "likelihood",
    covering(
        # in these few rows the maximum has no extra zeros
        [v for v in SMOOTH if v.name != "zero_inflated"],
        lambda v: (v.width > 1, bool(v.nuisance)),
        one_in=80,
    ),
)
def test_shares_sum(likelihood):
    ml, tight, other = (fitted(likelihood, prior) for prior in (None, TIGHT, OTHER))
    assert not {*pr.explain(ml, tight).shares["cause"].values} ^ {
        "prior of x1",
        "prior of x2",
        "prior of x3",
    }
    shares(ml, tight)
    shares(tight, other)
    assert {*map(str, pr.explain(tight, other).shares["cause"].values)} == {
        "prior of x2, x3"
    }
    if not (likelihood.at_zero or likelihood.at_infinity):
        shares(ml, fitted(likelihood, TIGHT, "laplace"))


def test_shares_sum_with_weights():
    weights = np.arange(40) % 3 + 1
    ml, tight = (
        pr.fit(model_for(pr.Poisson(), prior, n=40, weights=weights), "newton")
        for prior in (None, TIGHT)
    )
    shares(ml, tight)


@pytest.mark.parametrize(
    "likelihood", covering([v for v in SMOOTH if v.nuisance], one_in=80)
)
def test_shares_sum_where_nuisance_parameters_have_priors_or_are_held(likelihood):
    units = likelihood.noise_scale is not None
    prior = {"x1": pr.Normal(0.3, sigma_units=units), "x2": pr.priors.Cauchy(0.8)}
    free, held, wide, narrow = aux_choices(likelihood)
    if isinstance(likelihood, pr.ZeroInflated):
        free = wide  # these rows have fewer zeros than the plain distribution
    name = likelihood.nuisance[-1]
    several = [
        fitted(likelihood, p, aux=aux)
        for p, aux in ((None, free), (prior, held), (prior, wide), (TIGHT, narrow))
    ]
    for one in several[1:]:
        shares(several[0], one)
    assert f"{name} fixed" in pr.explain(*several[:2]).shares["cause"]
    assert f"prior of {name}" in pr.explain(*several[2:]).shares["cause"]
    twice = fitted(likelihood, prior, aux={a: 1.9 * v for a, v in held.items()})
    shares(several[1], twice)


def gaussian(X, prior=None, sigma=0.7, seed=0):
    y = X @ np.arange(1.0, 1.0 + X.shape[1]) + np.random.default_rng(seed).normal(
        size=len(X)
    )
    return pr.Model.from_arrays(
        X, y, prior=prior or pr.Flat(), aux={"sigma": sigma}, intercept=False
    )


def test_shares_are_the_integrals_that_define_them(rng):
    """beta(t) = H^-1 (X'y / s^2 + t P c), H = X'X / s^2 + t P: of prior k H^-1 P_k (c - beta) and -(H^-1 P_k H^-1)_jj / (2 (H^-1)_jj)."""
    X = rng.normal(size=(30, 2)) @ [[1.0, 0.7], [0.0, 1.0]]
    m = gaussian(X)
    centre, P = np.array([0.5, -1.0]), np.diag([1 / 0.1**2, 1 / 0.3**2])
    b = m.with_prior(
        {"x1": pr.Normal(0.1, location=0.5), "x2": pr.Normal(0.3, location=-1.0)}
    )
    J, z = X.T @ X / 0.49, X.T @ m.design.y / 0.49

    def slopes(t):
        V = np.linalg.inv(J + t * P)
        beta = V @ (z + t * P @ centre)
        moves = V * np.diagonal(P) * (centre - beta)
        return np.array([moves, -0.5 * V**2 * np.diagonal(P) / np.diagonal(V)[:, None]])

    expected = quad_vec(slopes, 0.0, 1.0, epsabs=1e-13, epsrel=1e-13)[0]
    shift, log_se = shares(pr.fit(m), pr.fit(b))
    se = np.sqrt(np.diagonal(np.linalg.inv(J)))[:, None]
    np.testing.assert_allclose(shift, expected[0] / se, atol=1e-8)
    np.testing.assert_allclose(log_se, expected[1], atol=1e-8)


def test_of_orthogonal_columns_each_prior_moves_its_own_as_the_formula_says(rng):
    X = np.linalg.qr(rng.normal(size=(40, 2)))[0] * [5.0, 8.0]
    m = gaussian(X)
    ml, tight = (
        pr.fit(m),
        pr.fit(m.with_prior({"x1": pr.Normal(0.1), "x2": pr.Normal(0.2)})),
    )
    shift, log_se = shares(ml, tight)
    J, P = np.array([25.0, 64.0]) / 0.49, np.array([100.0, 25.0])
    np.testing.assert_allclose(
        shift, np.diag(-P / (J + P) * ml.coef.values * np.sqrt(J)), atol=1e-8
    )
    np.testing.assert_allclose(log_se, np.diag(-0.5 * np.log1p(P / J)), atol=1e-8)


def test_order_and_labels_change_nothing():
    model = model_for(pr.Bernoulli(), n=80)
    ml = pr.fit(model)
    one, other = (
        pr.fit(model.with_prior(p)) for p in (TIGHT, dict(reversed(TIGHT.items())))
    )
    forth, turned, back = (
        pr.explain(ml, one),
        pr.explain(ml, other),
        pr.explain(one, ml),
    )
    for quantity in ("shift", "log_se"):
        there, again = (
            forth.shares[quantity],
            turned.shares[quantity].sel(cause=forth.shares["cause"]),
        )
        np.testing.assert_allclose(there, again, atol=1e-8)
        unit = (
            (back.shares["baseline_se"] / forth.shares["baseline_se"])
            if quantity == "shift"
            else 1.0
        )
        np.testing.assert_allclose(
            there,
            -(back.shares[quantity] * unit)
            .sel(cause=there["cause"])
            .transpose(*there.dims),
            atol=1e-8,
        )


@pytest.mark.parametrize("scale", [1.0, 1e-5])
@pytest.mark.parametrize("likelihood", [pr.Gaussian(), pr.Poisson()], ids=named)
def test_one_prior_is_the_whole_however_strong(likelihood, scale):
    ml, tight = fitted(likelihood), fitted(likelihood, {"x1": pr.Normal(scale)})
    found = pr.explain(ml, tight).shares
    assert found["cause"].values.tolist() == ["prior of x1"]
    np.testing.assert_allclose(found["shift"][:, 0], found["difference"], atol=1e-8)
    np.testing.assert_allclose(found["log_se"][:, 0], found["log_se_ratio"], atol=1e-8)


@pytest.mark.parametrize(
    "likelihood",
    [pr.Bernoulli(), pr.NegativeBinomial(), pr.StudentT(4.0), pr.Categorical(), pr.Gaussian()],
    ids=named,
)  # fmt: skip
def test_slopes_along_the_path_are_those_of_modes_and_errors(likelihood):
    aux, prior = {}, pr.priors.Cauchy(0.4)
    if likelihood.least_squares:  # quadratic but for the prior of sigma
        aux, prior = {"sigma": pr.priors.HalfNormal(0.3)}, pr.Normal(0.4)
    a = model_for(likelihood, n=60, aux=aux)
    b = a.with_prior({"x1": prior, "x2": pr.Normal(0.4, location=0.2)})
    path = PriorPath.between(a, b, {"one": (1,), "two": (2,)}, a.unknown)
    start = np.zeros(path.report.shape[1])
    first = path.mode(start, FIRST)
    middle = path.mode(first.local.theta, PathPoint(0.5, 0.5))

    def at(t):
        w = PathPoint(0.5 - t[0], 0.5 + t[0])
        near = path.mode(middle.local.theta, w)
        return np.array([near.value, near.log_se])

    expected = gradient(at, np.zeros(1))[..., 0]
    slopes = path.slopes(middle)
    np.testing.assert_allclose(np.sum(slopes, axis=1), expected, rtol=1e-7, atol=1e-8)


def test_methods_have_their_steps():
    model = model_for(pr.Gaussian(), n=15, aux={})
    causes = {
        m: pr.explain(pr.fit(model), pr.fit(model, m, seed=2))
        .shares["cause"]
        .values.tolist()
        for m in ("closed_form", "conjugate")
    }
    assert causes == {"closed_form": [], "conjugate": ["small sample", "skewness"]}
    log_n = 0.5 * np.log(15 / 11)
    newton = pr.explain(pr.fit(model, "newton"), pr.fit(model, "closed_form"))
    np.testing.assert_allclose(
        newton.shares["log_se"].sel(cause="small sample")[:4], log_n, atol=1e-8
    )


@pytest.mark.parametrize(
    ("prior", "N", "g"),
    [(None, 20, 7), (pr.Normal(2.0, sigma_units=True), 26, 7), ("raw", 20, None)],
)
def test_degrees_of_freedom_of_sigma_are_no_skewness(rng, prior, N, g):
    """sigma^2 at the top of its own posterior is S / (N - g), and S / N at the mode of the joint one."""
    X, y = rng.normal(size=(20, 6)), rng.normal(size=20)
    m = pr.Model.from_arrays(X, y)
    ml = pr.fit(m, "newton")
    if prior == "raw":
        prior, Z = pr.Normal(0.2), np.column_stack([np.ones(20), X])
        J = Z.T @ Z / pr.fit(m.with_prior(prior), "newton").aux["sigma"] ** 2
        P = np.diag([0.0, *np.full(6, 0.2**-2.0)])
        g = 7 - np.trace(np.linalg.solve(J + P, P))
    post = pr.fit(m if prior is None else m.with_prior(prior), "quadrature", seed=1)
    mode = pr.fit(post.model, "newton")
    found = pr.explain(ml, post).shares.sel(param="sigma", cause="small sample")
    top, se = mode.aux["sigma"] * np.sqrt(N / (N - g)), ml.solution.aux_sd["sigma"]
    np.testing.assert_allclose(
        float(found["shift"]) * se, top - mode.aux["sigma"], rtol=1e-7
    )
    np.testing.assert_allclose(float(found["log_se"]), np.log(N / (N - g)), rtol=1e-7)
    shares(ml, post)


def test_a_prior_of_sigma_is_met_by_degrees_of_freedom_too(rng):
    """sigma^2 ~ InvGamma(a, b) in u = log sigma: -2 a u - b exp(-2 u), so that N - g is n + 2 a - k."""
    m = pr.Model.from_arrays(
        rng.normal(size=(20, 6)),
        rng.normal(size=20),
        aux={"sigma": pr.priors.InverseGamma(4.0, 3.0)},
    )
    mode, post = pr.fit(m, "newton"), pr.fit(m, "conjugate", seed=1)
    found = pr.explain(mode, post).shares.sel(param="sigma", cause="small sample")
    move = mode.aux["sigma"] * (np.sqrt(28 / 21) - 1)
    np.testing.assert_allclose(
        float(found["shift"]) * mode.solution.aux_sd["sigma"], move, rtol=1e-7
    )
    np.testing.assert_allclose(float(found["log_se"]), np.log(28 / 21), rtol=1e-7)


def test_a_far_mode_of_sigma_is_reached_by_steps_that_doubles_hold():
    """40 columns of 80 rows under tight priors: from sigma = 3.7 a Newton step in log sigma went below exp(-745)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 40))
    m = pr.Model.from_arrays(X, X.sum(axis=1) + rng.normal(size=80))
    ml, tight = pr.fit(m), pr.fit(m.with_prior(pr.Normal(0.3)))
    found = pr.explain(ml, tight)
    assert np.isfinite(found.shares["shift"]).all()
    np.testing.assert_allclose(
        found.shares["shift"].sum("cause"), found.shares["difference"], atol=1e-8
    )


@pytest.mark.parametrize("law", ["normal", "t9", "alternating"])
def test_the_error_of_a_standard_deviation_is_its_spread_over_repetitions(law):
    """Also of heavy tails, where (2 ESS)^(-1/2) falls short of it, and of chains whose squares, not values, are dependent."""
    rng, n = np.random.default_rng(3), 800

    def drawn():
        if law == "alternating":  # signs by lot, sizes by an autoregression of 0.9
            z = np.empty((n + 100, 2))
            z[0] = rng.normal(size=2)
            for i in range(1, len(z)):
                z[i] = 0.9 * z[i - 1] + np.sqrt(1 - 0.81) * rng.normal(size=2)
            return (np.exp(0.3 * z[100:]) * rng.choice([-1.0, 1.0], size=(n, 2))).T
        return (
            rng.standard_t(9, size=(2, n)) if law == "t9" else rng.normal(size=(2, n))
        )

    several = [drawn() for _ in range(150)]
    said = np.mean([share_module.error_of_log_sd(x) for x in several])
    assert said == pytest.approx(np.std([np.log(x.std()) for x in several]), rel=0.21)


@pytest.mark.slow
def test_few_draws_have_monte_carlo_error():
    model = model_for(pr.Gaussian(), TIGHT, n=15, aux={})
    with pytest.warns(pr.ProbregWarning):
        few = pr.fit(model, pr.NUTS(draws=20, tune=300, chains=2), seed=1)
    assert pr.explain(pr.fit(model, "quadrature"), few).largest("x1") in (
        "Monte Carlo error",
        "sampler",
    )


@pytest.mark.slow
def test_chance_is_a_cause_only_beside_an_exact_answer(rng):
    """Of a logit no formula tells whether a small gap is the skewness of its posterior or the chance of its draws."""
    x = rng.normal(size=40)
    seen = {}
    for likelihood, y in (
        ("bernoulli", (rng.random(40) < 0.5).astype(float)),
        ("gaussian", x + rng.normal(size=40)),
    ):
        model = pr.Model.from_arrays(
            x[:, None], y, columns=["b"], likelihood=likelihood
        ).with_prior(pr.Normal(0.3))
        base = pr.fit(model, "quadrature" if likelihood == "gaussian" else "newton")
        found = pr.explain(
            base, pr.fit(model, pr.NUTS(draws=500, tune=300, chains=4), seed=2)
        )
        own = [p for p in found.sizes.index if found.largest(p) == "Monte Carlo error"]
        seen[likelihood] = own
        assert found.chance_known == (likelihood == "gaussian")
    assert seen["bernoulli"]


def test_without_a_path_there_is_one_cause_and_a_reason():
    x = np.arange(12.0)
    model = pr.Model.from_arrays(
        x, (x > 5).astype(int), columns=["x"], likelihood="bernoulli"
    )
    with pytest.warns(pr.ProbregWarning):
        lost = pr.fit(model)
    found = pr.explain(lost, pr.fit(model.with_prior(pr.Normal(1.0))))
    assert found.without_path == "one of them has no estimate"
    assert found.missing == {
        "newton": "separation: complete separation by Intercept, x"
    }
    m = model_for(pr.Gaussian(), n=30, aux={})
    for other, why, cause in (
        (
            m.with_prior(pr.Laplace(0.1)),
            "a prior has a kink or an unknown scale",
            "prior",
        ),
        (
            pr.Model(m.design, pr.StudentT(3.0)),
            "the likelihoods differ",
            "likelihood and method",
        ),  # RSS / df in one
    ):
        found = pr.explain(pr.fit(m), pr.fit(other))
        assert (found.without_path, found.shares["cause"].values.tolist()) == (
            why,
            [cause],
        )
        np.testing.assert_allclose(
            found.shares["shift"][:, 0], found.shares["difference"]
        )
    with pytest.raises(pr.DataError, match="differ in their values of the response"):
        pr.explain(pr.fit(m), pr.fit(model_for(pr.Gaussian(), n=30, aux={}, seed=9)))
    with pytest.raises(
        pr.DataError, match="'z' is not a parameter of both fits: Intercept, x1"
    ):
        found.largest("z")


def test_a_prior_is_not_blamed_for_what_a_mean_or_degrees_of_freedom_do(rng):
    x = rng.normal(size=20)
    m = pr.Model.from_arrays(np.column_stack([x, 2.0 * x]), x + rng.normal(size=20))
    with pytest.warns(pr.ProbregWarning):
        ml = pr.fit(m)
    weak = m.with_prior("weak")
    mode, mean = pr.fit(weak), pr.fit(weak, "quadrature")
    # the prior does nothing to sigma
    assert abs(mode.aux["sigma"] - ml.aux["sigma"]) < 0.01 * ml.solution.aux_sd["sigma"]
    found = pr.explain(ml, mean)
    assert float(found.shares["difference"].sel(param="sigma")) > 0.3
    assert found.largest("sigma") == "prior and method"
    # the errors of ML are of RSS / (n - 2), those of the mode of RSS / n
    errors = pr.explain(ml, mode)
    ratio = float(np.exp(errors.shares["log_se_ratio"].sel(param="Intercept")))
    assert ratio == pytest.approx(np.sqrt(18 / 20), rel=0.01)
    assert errors.largest("Intercept") == "prior and method"


def test_a_cause_is_as_large_as_it_moves_an_end_of_an_interval():
    m = model_for(pr.Gaussian(), n=30, aux={})
    found = pr.explain(
        pr.fit(m, "newton"), pr.fit(m.with_prior({"x1": pr.Normal(0.05)}), "newton")
    )
    one = found.shares.sel(param="x1", cause="prior of x1")
    shift, log_se, r = (
        float(one["shift"]),
        float(one["log_se"]),
        float(np.exp(one["log_se_ratio"])),
    )
    # |r - 1| widths of 1.96 SE, shared as log r is
    size = abs(shift) + 1.96 * abs(log_se) * (r - 1.0) / np.log(r)
    assert r < 0.5
    np.testing.assert_allclose(found.sizes.loc["x1", "prior of x1"], size)


def test_prints_are_short_and_sentences_name_the_largest():
    rng = np.random.default_rng(1)
    model = pr.Model.from_arrays(
        rng.normal(size=(60, 18)), rng.normal(size=60), likelihood="gaussian"
    )
    found = pr.explain(
        pr.fit(model), pr.fit(model.with_prior(pr.Normal(0.1)), "quadrature")
    )
    lines = repr(found).split("\n")
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 110
    assert (
        f"prior of {found.largest('x3').removeprefix('prior of ')}"
        in found.sentences["x3"]
    )
    printed = {line.split()[0] for line in lines} & set(found.sentences)
    for text in (repr(found), found._repr_html_()):
        assert f"{len(found.sentences) - len(printed)} more" in text
    assert "<table" in found._repr_html_()


def test_what_has_no_estimate_or_no_error_is_said_in_words(rng):
    X = rng.normal(size=(40, 3)) @ [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    m = pr.Model.from_arrays(X, X[:, 0] + rng.normal(size=40))
    with pytest.warns(pr.ProbregWarning):
        alike = pr.fit(m)
    found = pr.explain(alike, pr.fit(m.with_prior(pr.Normal(1.0))))
    assert found.missing["closed_form"].startswith("identification: ")
    assert found.sentences["x3"] in repr(found)
    m = pr.Model.from_arrays(X[:, :2], X[:, 0] + rng.normal(size=40))
    ml, lasso = pr.fit(m), pr.fit(m.with_prior(pr.Laplace(0.1)))
    shift = float(pr.explain(ml, lasso).shares["difference"].sel(param="x1"))
    assert pr.explain(ml, lasso).sentences["x1"] == (
        f"x1: prior: shift {shift:+.2g} SE; no standard error of coordinate_descent"
    )
    assert "the estimates differ by +" in pr.explain(lasso, ml).sentences["x1"]


def test_a_slight_difference_is_none_to_speak_of():
    m = model_for(pr.Gaussian(), n=30, aux={})
    found = pr.explain(
        pr.fit(m, "newton"), pr.fit(m.with_prior({"x1": pr.Normal(20.0)}), "newton")
    )
    assert found.sentences["x1"] == "x1: no difference"
    assert 1e-9 < float(np.abs(found.shares["shift"]).max()) < 0.01
    assert "0.000" not in repr(found)


def test_two_fits_go_by_the_names_they_are_given():
    m = model_for(pr.Gaussian(), n=30, aux={})
    a, b = pr.fit(m), pr.fit(m.with_prior(pr.Normal(0.3)))
    named_ = pr.explain({"ML": a, "mode": b})
    assert named_.names == ("ML", "mode")
    assert repr(named_).startswith("mode less ML, cause by cause\n")
    for args in ((a,), ({"ML": a},), ({"ML": a, "mode": b}, b)):
        with pytest.raises(
            pr.DataError, match=r"explain takes two fits: explain\(ml, posterior\)"
        ):
            pr.explain(*args)


def test_noise_of_weighted_draws_is_not_called_skewness(monkeypatch):
    """Of a normal posterior, sigma known, nothing is skew: whatever parts the two is chance, in every one of many numbers."""
    X = np.random.default_rng(0).normal(size=(40, 12))
    m = pr.Model.from_arrays(
        X, X[:, 0], prior=pr.Normal(1.0), aux={"sigma": 1.0}, intercept=False
    )
    post = pr.fit(m, "importance", seed=1)
    aux: tuple[str, ...] = ()
    own, rng = share_module.Estimates.of(post, aux), np.random.default_rng(5)
    of_mean, of_sd = 0.02, 0.015
    monkeypatch.setattr(
        share_module,
        "monte_carlo_error",
        lambda fit, aux: (np.full(12, of_mean), np.full(12, of_sd)),
    )
    false = 0
    for _ in range(200):
        e, u = rng.normal(size=(2, 12))
        noisy = share_module.Estimates(
            own.value + of_mean * e * own.error, own.error * np.exp(of_sd * u)
        )
        steps = share_module.method_steps(post, noisy, own, None, aux)
        false += bool(np.any(steps[Cause.SKEWNESS]))
    assert false <= 8  # 2 expected; at two standard errors 135


def test_the_sandwich_of_a_penalised_mode_is_no_other_covariance():
    x, rng = np.random.default_rng(2).normal(size=60), np.random.default_rng(3)
    q = pr.quantile_regression("y ~ x", {"x": x, "y": x + rng.normal(size=60)})
    weak = pr.fit(q.model.with_prior(pr.Normal(5.0)))
    found = pr.explain(q, weak)
    assert found.without_path
    # both errors are HC0, one with the prior in its bread, which is the prior's part
    assert found.shares["cause"].values.tolist() == ["prior"]
    # Normal(5) does next to nothing
    assert float(np.abs(found.shares["log_se"].sel(cause="prior")).max()) < 0.01
    np.testing.assert_allclose(
        found.shares["log_se"].sum("cause"), found.shares["log_se_ratio"], atol=1e-12
    )
    assert pr.explain(weak, q).shares["cause"].values.tolist() == ["prior"]


def test_another_covariance_is_not_blamed_on_the_prior():
    x, rng = np.random.default_rng(2).normal(size=60), np.random.default_rng(3)
    q = pr.quantile_regression("y ~ x", {"x": x, "y": x + rng.normal(size=60)})
    found = pr.explain(
        pr.fit(q.model, pr.Bootstrap(reps=40)),
        pr.fit(q.model.with_prior(pr.Normal(5.0))),
    )
    assert found.shares["cause"].values.tolist() == ["prior and covariance"]


def test_what_no_path_splits_says_why_it_stays_one_cause():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 2))
    y = x[:, 0] + rng.normal(size=40)
    model = pr.Model.from_arrays(x, y)
    lasso = pr.fit(model.with_prior({"x1": pr.Laplace(0.3)}), pr.Bootstrap(reps=20))
    found = pr.explain(pr.fit(model), lasso)
    assert list(found.shares["cause"].values) == ["prior and method and covariance"]


def test_a_sandwich_is_a_cause_of_its_own_beside_degrees_of_freedom():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    data = {"x": x, "y": (rng.random(50) < 1 / (1 + np.exp(-x))).astype(int)}
    a, b = pr.ols("y ~ x", data), pr.linear_probability("y ~ x", data)
    shares = pr.explain(a, b).shares["log_se"].to_pandas()
    assert list(shares) == ["covariance"]
    log_ratio = np.log(b.std_error / a.std_error).values
    np.testing.assert_allclose(shares["covariance"][:2], log_ratio, rtol=1e-9)


def test_other_weighted_sandwiches_are_a_difference_of_covariances():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    weights = pr.weights.sampling(0.5 + rng.random(60))
    model = pr.Model.from_arrays(x, x + rng.normal(size=60), weights=weights)
    flat, normal = pr.fit(model), pr.fit(model.with_prior(pr.Normal(0.5)))
    found = pr.explain(flat, normal).shares
    assert {"prior of x1", "covariance"} == set(found["cause"].values)
    total = found["log_se"].sum("cause") - found["log_se_ratio"]
    assert float(np.abs(total).max()) < 1e-8


def test_a_prior_of_sigma_with_a_far_tail_is_a_small_sample():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 4))
    model = pr.Model.from_arrays(X, rng.normal(size=9))
    wide = model.with_aux(sigma=pr.priors.Gamma(2.0, 0.1))
    found = pr.explain(pr.fit(wide), pr.fit(wide, "quadrature"))
    assert all(found.largest(str(p)) == "small sample" for p in found.shares["param"].values[:5])  # fmt: skip


def test_columns_of_a_factor_with_many_levels_are_one_cause():
    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=60), "f": np.tile([f"l{i:02d}" for i in range(20)], 3)}
    model = pr.Model.from_formula("y ~ f", data, aux={"sigma": 1.0})
    shrunk = model.with_prior({"f": pr.Normal(1.0)})
    found = pr.explain(pr.fit(model), pr.fit(shrunk)).shares
    assert set(found["cause"].values) == {"prior of f"}


def test_draws_without_an_exact_answer_share_their_error_with_the_shape():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    model = pr.Model.from_arrays(
        x, rng.poisson(np.exp(0.3 * x)), likelihood="poisson", prior=pr.Normal(1.0)
    )
    draws = pr.fit(model, "importance", seed=1)
    found = pr.explain(pr.fit(model), draws)
    assert not found.chance_known
    assert "or shape of the posterior" in found.sentences["x1"]


def test_a_smooth_function_of_other_values_is_named():
    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=40), "x": rng.normal(size=40)}
    fits = [
        pr.fit(pr.Model.from_formula("y ~ s(x, k=5)", data | {"x": values}))
        for values in (data["x"], data["x"] ** 2)
    ]
    found = pr.explain(*fits)
    assert found.without_path == "other columns for s(x, k=5)"
    notes = str(pr.compare({"a": fits[0], "b": fits[1]}))
    assert "its coefficients are left out" in notes


def test_more_than_hundreds_of_coefficients_have_no_path():
    rng = np.random.default_rng(0)
    model = pr.Model.from_arrays(rng.normal(size=(320, 305)), rng.normal(size=320))
    found = pr.explain(pr.fit(model), pr.fit(model.with_prior(pr.Normal(1.0))))
    assert found.without_path == "more than 300 coefficients"


def effect_fits(kind: str) -> tuple[pr.Fit, pr.Fit]:
    """Two fits by maximum likelihood of one mixed model, of other priors or other points of quadrature."""
    rng = np.random.default_rng(3)
    effects = np.repeat(rng.normal(size=15), 4)
    g = np.repeat(list("abcdefghijklmno"), 4)
    if kind == "points":
        y = rng.binomial(1, 1 / (1 + np.exp(-1.5 * effects)))
        model = pr.Model.from_formula("y ~ 1 + (1 | g)", {"y": y, "g": g}, likelihood="bernoulli")  # fmt: skip
        return tuple(pr.fit(model, pr.Evidence(criterion="ML", points=k)) for k in (1, 7))  # fmt: skip
    data = {"y": effects + rng.normal(size=60), "g": g}
    prior = pr.Covariance(pr.HalfNormal(0.2))
    models = [pr.Model.from_formula("y ~ 1 + (1 | g)", data, prior=p) for p in ({}, {"1 | g": prior})]  # fmt: skip
    return tuple(pr.fit(model, pr.Evidence(criterion="ML")) for model in models)


@pytest.mark.parametrize(
    ("kind", "label"),
    [("points", "quadrature points"), ("priors", "prior of the standard deviations")],
)
def test_maxima_of_other_likelihoods_of_scales_are_one_share(kind, label):
    found = pr.explain(*effect_fits(kind))
    assert list(found.shares["cause"].values) == [label]
    assert found.without_path == "the standard deviations of effects are found from the rows"  # fmt: skip


def unfinished() -> tuple[pr.Fit, pr.Fit]:
    x = np.linspace(-2.0, 2.0, 40)
    y = x + np.random.default_rng(0).standard_t(2, 40)
    model = pr.Model.from_arrays(x, y, likelihood="huber")
    return pr.fit(model, pr.Newton(max_steps=1)), pr.fit(model, "newton")


def kinked_chains(*lengths: int) -> tuple[pr.Fit, ...]:
    x = np.random.default_rng(0).normal(size=40)
    model = pr.Model.from_arrays(x, x + 1.0, prior=pr.Laplace(1.0), aux={"sigma": 1.0})
    return tuple(pr.fit(model, pr.NUTS(draws=n, tune=n), seed=n) for n in lengths)


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize(
    ("make", "label"),
    [
        (unfinished, "convergence"),
        (lambda: kinked_chains(15, 16), "sampler"),
        (lambda: kinked_chains(1000, 1001), "Monte Carlo error"),
        (lambda: effect_fits("points"), "7 points of adaptive quadrature"),
    ],
)
def test_without_a_path_the_method_is_the_cause(make, label):
    a, b = make()
    comparison = pr.compare({"a": a, "b": b}, apart=1e-3)
    assert label in " ".join(map(str, comparison.reasons.values()))
