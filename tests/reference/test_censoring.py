"""Censored and truncated responses against R's survreg (survival 3.5-3) and the truncated counts of statsmodels."""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.discrete.truncated_model import (
    TruncatedLFNegativeBinomialP,
    TruncatedLFPoisson,
)

import probreg as pr

NAN = np.nan
# exact, interval, left and right censored rows; survreg(Surv(left, right, type = "interval2") ~ x, dist = ...)
INTERVALS = {
    "left": [1, 2, NAN, 3, 5, 2.5, 4, NAN, 6, 1.5, 3.2, 7],
    "right": [1, 3, 2, NAN, 5, 4, NAN, 1.2, 8, 1.5, 3.2, NAN],
    "x": [0.0, 1, 0, 1, 2, 0, 1, 0, 2, 0, 1, 2],
}
# coefficients, log scale, their standard errors, log-likelihood
SURVREG = {
    "weibull": (
        [0.6104684655027982, 0.7306928730409779, -1.010268578020363],
        [0.1834593020634038, 0.1746984704013954, 0.3282502297815024],
        -13.83309517699008,
    ),
    "log_logistic": (
        [0.3296394568695505, 0.8286759961804167, -1.536759458473867],
        [0.1796435054120046, 0.149078746461521, 0.3247151142365117],
        -12.79588067333327,
    ),
    "log_normal": (
        [0.3703216976934133, 0.8161598512880768, -0.9894520547252267],
        [0.1730863843780458, 0.1513569860442926, 0.2935709029129814],
        -12.73733737628246,
    ),
    "gaussian": (
        [1.28029924618992, 2.566696790558057, 0.06398896459419148],
        [0.5015388262686985, 0.4425673974888837, 0.2971731639344458],
        -12.79552052956831,
    ),
    "exponential": (
        [0.4244490245631554, 1.04360612954666],
        [0.4575609583282573, 0.4491654414334734],
        -17.24375375657693,
    ),
}
# survival::tobin (Tobin 1958): tobit
TOBIN = {
    "durable": [0, 0.7, 0, 0, 0, 0, 0, 3.7, 0, 3, 10.4, 0, 0, 0, 1.5, 0, 0, 3.5, 6.1, 0],
    "age": [57.7, 50.9, 48.5, 41.7, 47.7, 59.8, 44.3, 45.1, 51.7, 50, 46.8, 58, 58.9, 40, 34.1, 39.9, 33.4, 48.1, 46.6, 53.1],
    "quant": [236, 283, 207, 220, 238, 216, 284, 221, 275, 269, 207, 249, 246, 277, 231, 219, 240, 266, 214, 251],
}  # fmt: skip
# survival::ovarian: survreg(Surv(futime, fustat) ~ age + ecog.ps + rx, dist = "exponential")
OVARIAN = {
    "futime": [59, 115, 156, 421, 431, 448, 464, 475, 477, 563, 638, 744, 769, 770, 803, 855, 1040, 1106, 1129, 1206, 1227, 268, 329, 353, 365, 377],
    "fustat": [1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0],
    "age": [72.3315, 74.4932, 66.4658, 53.3644, 50.3397, 56.4301, 56.937, 59.8548, 64.1753, 55.1781, 56.7562, 50.1096, 59.6301, 57.0521, 39.2712, 43.1233, 38.8932, 44.6, 53.9068, 44.2055, 59.589, 74.5041, 43.137, 63.2192, 64.4247, 58.3096],
    "ecog": [1, 1, 2, 1, 1, 2, 2, 2, 1, 2, 2, 1, 2, 1, 1, 2, 2, 1, 1, 1, 2, 2, 1, 2, 1, 1],
    "rx": [1, 1, 1, 2, 1, 1, 2, 2, 1, 2, 1, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 1, 1, 2, 2, 2],
}  # fmt: skip


def assert_equal(fit: pr.Fit, estimates, errors, log_likelihood) -> None:
    """Coefficients to 1e-6 of a standard error, errors to 1e-5, the log-likelihood to 1e-8."""
    aux = fit.aux
    ours = np.append(fit.coef, [np.log(v) for v in aux.values()])
    np.testing.assert_array_less(np.abs(ours - estimates) / errors, 1e-6)
    k = fit.coef.size
    np.testing.assert_allclose(fit.std_error, errors[:k], rtol=1e-5)
    of_logs = [fit.solution.aux_sd[a] / v for a, v in aux.items()]
    np.testing.assert_allclose(of_logs, errors[k:], rtol=1e-5)
    assert fit.log_likelihood == pytest.approx(log_likelihood, abs=1e-8)


@pytest.mark.parametrize("name", SURVREG)
def test_intervals_are_those_of_survreg(name):
    model = pr.Model.from_formula("cens(left, right) ~ x", INTERVALS, likelihood=name)
    assert_equal(pr.fit(model), *SURVREG[name])


def test_tobit_is_that_of_survreg():
    fit = pr.fit(pr.Model.from_formula("cens(durable, lower=0) ~ age + quant", TOBIN))
    expected = [15.1448663322209, -0.129059283864553, -0.0455416628896779, 1.71785092236641]  # fmt: skip
    errors = [16.0794532023836, 0.218583596716444, 0.0582541155075963, 0.31032272018759]
    assert_equal(fit, expected, errors, -28.9401331997206)


def test_exponential_times_are_those_of_survreg():
    fit = pr.fit(
        pr.Model.from_formula(
            "cens(futime, fustat) ~ age + ecog + rx", OVARIAN, likelihood="exponential"
        )
    )
    expected = [12.2157130310701, -0.104357649450937, -0.0908193639748066, 0.6654513244563]  # fmt: skip
    errors = [2.46897390386045, 0.0321867615550759, 0.59155076317766, 0.615431603220671]
    assert_equal(fit, expected, errors, -91.1971487671431)


def counts(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=400)
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(0.4 + 0.3 * x)))
    return x[y > 0], y[y > 0]


@pytest.mark.parametrize(
    ("likelihood", "reference"),
    [
        ("poisson", TruncatedLFPoisson),
        ("negative_binomial", TruncatedLFNegativeBinomialP),
    ],
)
def test_counts_without_zeros_are_those_of_statsmodels(likelihood, reference):
    x, y = counts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = reference(y, sm.add_constant(x), truncation=0)
        theirs = model.fit(disp=0, method="bfgs", maxiter=2000, gtol=1e-9)
    fit = pr.fit(
        pr.Model.from_formula(
            "trunc(y, lower=1) ~ x", {"x": x, "y": y}, likelihood=likelihood
        )
    )
    ours = np.append(fit.coef, list(fit.aux.values()))
    np.testing.assert_allclose(ours, theirs.params, atol=1e-5)
    assert fit.log_likelihood == pytest.approx(theirs.llf, abs=1e-8)
