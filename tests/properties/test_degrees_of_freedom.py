"""Student-t noise with degrees of freedom nu that are estimated under a prior."""

import numpy as np
import pytest
from scipy import optimize, stats

import probreg as pr

from .cases import gradient

FREE = pr.StudentT(nu=None)
VALUES = [(0.7, 3.0), (2.0, 0.1), (1.3, 40.0), (1.0, 1e5)]  # sigma, nu
FORMULA = "stack_loss ~ air_flow + water_temperature"


def stackloss(**options):
    data = pr.load_dataset("stackloss")
    return pr.Model.from_formula(FORMULA, data, likelihood=FREE, **options)


@pytest.mark.parametrize(("sigma", "nu"), VALUES)
def test_derivatives_over_eta_log_sigma_and_log_nu(sigma, nu):
    y = np.array([-3.0, -0.2, 0.9, 40.0])

    def expand(x):
        return FREE.value_grad_hessian(
            y, np.full((4, 1), x[0]), sigma=np.exp(x[1]), nu=np.exp(x[2])
        )

    x = np.array([0.3, np.log(sigma), np.log(nu)])
    log_p, g, H = expand(x)
    # the reference subtracts values of log Gamma of size nu log nu
    np.testing.assert_allclose(log_p, stats.t.logpdf(y, nu, 0.3, sigma), rtol=1e-9)
    for i in range(len(y)):
        slope = gradient(lambda v, i=i: expand(v).log_prob[i], x)
        np.testing.assert_allclose(g[i], slope, rtol=1e-7, atol=1e-8)
        bend = -gradient(lambda v, i=i: expand(v).gradient[i], x)
        np.testing.assert_allclose(H[i], bend, rtol=1e-7, atol=1e-7)

    # the row for compiled code, as plain Python
    row = FREE.compiled_density.row
    t = FREE.settings(sigma=sigma, nu=nu)
    slopes = np.empty(2)
    for i in range(len(y)):
        value, over_eta = row(y[i], 0.3, t, slopes)
        np.testing.assert_allclose(value, log_p[i], rtol=1e-13)
        np.testing.assert_allclose([over_eta, *slopes], g[i], rtol=1e-12, atol=1e-12)


def test_free_nu_at_a_value_is_the_likelihood_with_this_nu():
    rng = np.random.default_rng(0)
    y = rng.normal(size=5)
    eta = rng.normal(size=(3, 5, 1))
    sigma = np.array([[0.5], [1.0], [2.0]])
    nu = np.array([[3.0], [2.0], [30.0]])
    for i in range(3):
        fixed = pr.StudentT(nu=float(nu[i, 0]))
        of_draw = {"sigma": sigma, "nu": nu}
        of_fixed = {"sigma": sigma[i, 0]}
        for name in ("log_prob", "cdf", "score"):
            free = getattr(FREE, name)(y, eta, **of_draw)[i]
            exact = getattr(fixed, name)(y, eta[i], **of_fixed)
            np.testing.assert_allclose(free, exact, rtol=1e-12)
        for name in ("information", "response_variance"):
            free = getattr(FREE, name)(eta, **of_draw)[i]
            exact = getattr(fixed, name)(eta[i], **of_fixed)
            np.testing.assert_allclose(free, exact, rtol=1e-12)


def test_mode_maximises_likelihood_times_prior():
    model = stackloss()
    assert model.aux_prior("nu") == pr.priors.Gamma(2, 0.1)
    fit = pr.fit(model, "newton")
    assert "nu ~ Gamma(2, rate=0.1)" in str(fit)
    X, y = np.asarray(model.design.X), model.design.observed

    def loss(x):
        sigma, nu = np.exp(x[-2:])
        log_prior = 2.0 * x[-1] - 0.1 * nu  # over log nu
        return -stats.t.logpdf(y, nu, X @ x[:-2], sigma).sum() - log_prior

    mode = np.r_[fit.solution.beta[:, 0], np.log([fit.aux["sigma"], fit.aux["nu"]])]
    best = optimize.minimize(loss, 1.05 * mode, method="BFGS", options={"gtol": 1e-6})
    assert loss(mode) <= best.fun + 1e-9
    # the optimiser's slopes are differences
    np.testing.assert_allclose(best.x, mode, rtol=1e-3)


@pytest.mark.slow
def test_density_of_pymc_model():
    model = stackloss()
    graph = model.to_pymc()
    beta, sigma, nu = [-40.0, 0.8, 1.0], 2.0, 3.0
    point = dict(zip(("Intercept", "air_flow", "water_temperature"), beta))
    point |= {"sigma_log__": np.log(sigma), "nu_log__": np.log(nu)}
    density = graph.compile_logp()({k: np.array(v) for k, v in point.items()})
    exact = model.log_posterior(np.array(beta)[:, None], sigma=sigma, nu=nu)
    assert float(density) == pytest.approx(exact + np.log(sigma * nu), rel=1e-12)


def test_nu_needs_a_proper_prior():
    with pytest.raises(pr.DataError, match=r"nu needs a proper prior"):
        stackloss(aux={"nu": pr.priors.Reference()})
    held = pr.fit(stackloss(aux={"nu": 5.0})).solution.beta
    data = pr.load_dataset("stackloss")
    model = pr.Model.from_formula(FORMULA, data, likelihood=pr.StudentT(nu=5.0))
    np.testing.assert_allclose(held, pr.fit(model).solution.beta, rtol=1e-9)


def test_sigma_that_runs_to_zero_is_an_error():
    x = np.arange(20.0)
    y = 2.0 * x + 1.0
    y[:5] += np.random.default_rng(0).normal(size=5)
    model = pr.Model.from_arrays(x, y, likelihood=FREE)
    # 100 steps end there too, but halve the last ones some 200 times each
    with pytest.raises(pr.NotConverged, match=r"sigma goes to 0.* nu "):
        pr.fit(model, pr.inference.Newton(max_steps=65))


def test_log_nu_has_a_formula_only_if_it_is_estimated():
    data = pr.load_dataset("stackloss")
    formulas = {"y": FORMULA, "log nu": "~ air_flow"}
    model = pr.Model.from_formula(
        formulas, data, likelihood=FREE, prior=pr.Normal(1.0, scaled=True)
    )
    assert model.unknown == ("sigma",)
    with pytest.raises(pr.DataError, match="log nu"):
        pr.Model.from_formula(formulas, data, likelihood=pr.StudentT())


@pytest.mark.parametrize("term", ["(1 | g)", "s(x, k=5)"])
def test_degrees_of_freedom_beside_unknown_scales_maximise_the_posterior(term):
    """The density of log nu is the evidence of a held nu times its prior."""
    rng = np.random.default_rng(4)
    data = {"x": rng.normal(size=80), "g": np.repeat(np.arange(8), 10)}
    data["y"] = data["x"] + rng.normal(size=8)[data["g"]] + rng.standard_t(4, size=80)
    prior = pr.priors.Gamma(2.0, 0.1)

    def model(nu: float | None) -> pr.Model:
        return pr.Model.from_formula(
            f"y ~ x + {term}" if "g" in term else f"y ~ {term}",
            data,
            likelihood=pr.StudentT(nu=nu),
        )

    nu = pr.fit(model(None)).aux["nu"]
    h = 0.1
    log_p = []
    for log_nu in np.log(nu) + np.array([-h, 0.0, h]):
        held = pr.fit(model(float(np.exp(log_nu))))
        density = float(prior.log_prob(np.exp(log_nu))) + log_nu
        log_p.append(held.solution.stats["log_evidence"] + density)
    below, top, above = log_p
    step = 0.5 * h * (above - below) / (2.0 * top - below - above)
    assert abs(step) < 0.01
