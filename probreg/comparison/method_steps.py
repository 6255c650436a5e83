"""Steps of a method from the mode of its model: the estimate minus the mode, and the log ratio of its error to the curvature's."""

from itertools import pairwise

import numpy as np
import scipy

from probreg.comparison.differences import (
    Cause,
    FitPair,
    SpecificCause,
    covariance_kind,
    has_monte_carlo_error,
    summary,
)
from probreg.comparison.numbers import Estimates, Step, by_outcome, mixing_measure
from probreg.comparison.prior_terms import inverse_or_nan
from probreg.errors import ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference import Conjugate, Evidence, Quadrature, Status
from probreg.inference.base import has_effects, reported_coefficients
from probreg.model.model import Model

Array = np.ndarray


def method_steps(
    fit: Fit,
    estimates: Estimates,
    mode: Estimates,
    exact: Estimates | None,
    aux: tuple[str, ...],
) -> dict[Cause, Step]:
    """Return, by cause, the steps from the mode of the model, with the curvature's errors there, to the reported `estimates`.

    `exact` is the mean and standard deviation of the posterior of this model, where a formula gives it.
    """
    step = mode.step_to(estimates)
    count = step.shape[1]
    coefficient = np.arange(count) < count - len(aux)
    if fit.target == "mode":
        return _of_a_mode(fit, step, coefficient)
    integrated = fit.model.noise_unknown and summary(fit) == "posterior"  # over sigma
    widened = coefficient & integrated
    small = np.zeros(step.shape)
    least_squares = fit.model.likelihood.least_squares
    if integrated and least_squares and fit.model.noise_scale in aux:
        index = count - len(aux) + aux.index(fit.model.noise_scale)
        small[:, index] = _degrees_of_freedom(fit.model, mode, index)
    if not has_monte_carlo_error(fit):
        return _by_shape(step, widened, small)
    troubled = has_bad_chains(fit, aux)
    if exact is not None:
        shape = _by_shape(mode.step_to(exact), widened, small)
        remainder = exact.step_to(estimates)
    else:
        # of 2 J means and standard deviations one lies beyond z errors by chance in 1 of 100 fits (Sidak 1967)
        z = scipy.stats.norm.isf(0.5 * -np.expm1(np.log(0.99) / (2 * count)))
        of_mean, of_sd = monte_carlo_error(fit, aux)
        chance = z * np.array([of_mean * estimates.error, of_sd])
        by_chance = np.abs(step - small) <= chance
        remainder = np.where(troubled | by_chance, step - small, 0.0)
        shape = _by_shape(step - remainder, widened, small)
    unreliable = np.where(troubled, remainder, 0.0)
    return shape | {
        Cause.MONTE_CARLO: remainder - unreliable,
        Cause.SAMPLER: unreliable,
    }


def _by_shape(step: Step, widened: Array, small: Step) -> dict[Cause, Step]:
    """Return the steps from mode to mean and from curvature to standard deviation: by degrees of freedom and the tails of
    coefficients under them, otherwise by skewness."""
    by_df = np.stack([small[0], np.where(widened, step[1], small[1])])
    return {Cause.SKEWNESS: step - by_df, Cause.SMALL_SAMPLE: by_df}


def _degrees_of_freedom(
    model: Model, mode: Estimates, index: int
) -> tuple[float, float]:
    """Return the step of an unknown Gaussian sigma and its error because of the coefficients' degrees of freedom.

    With N the number of rows and of columns with a prior in units of sigma, and S the penalised sum of squares, the joint density
    falls in u = log sigma as -N u - S exp(-2 u) / 2 + log p(u); to integrate over beta adds -log |H(u)| / 2, which rises by
    g = tr H^-1 (H - P), P the curvature of priors in raw units. Under p(sigma) ∝ 1 / sigma the top moves from S / N to
    sigma^2 = S / (N - g), and the standard error of u from (2 N)^(-1/2) to (2 (N - g))^(-1/2).
    """
    k = model.shape[0]
    sigma = float(mode.value[index])
    F = np.asarray(model.design.moments.factor, dtype=float)[:, :k]
    N = model.design.moments.weight + float(
        (model.joint.sigma_units & model.joint.informative).sum()
    )
    P = model.joint.curvature(mode.value[:k, None], sigma)
    g = k - float(
        np.trace(
            inverse_or_nan(F.T @ F / sigma**2 + P) @ (P * ~model.joint.sigma_units)
        )
    )

    def of_prior(x: float) -> tuple[float, float]:
        return model.noise_prior.slopes(sigma * float(np.exp(x)))

    S = N - of_prior(0.0)[0]  # over sigma^2 at the mode, where the slope is 0

    def slope(x: float) -> float:
        return g - N + S * float(np.exp(-2.0 * x)) + of_prior(x)[0]

    high = 0.5
    largest_shift = 64.0  # of a shift of log sigma
    while slope(high) > 0.0 and high < largest_shift:
        high *= 2.0
    if not (g >= 0.0 >= slope(high)):
        # without such a top, under a prior that is not concave, the step is skewness
        return 0.0, 0.0
    x = float(scipy.optimize.brentq(slope, 0.0, high, xtol=1e-15)) if g > 0.0 else 0.0
    curved = [2.0 * S * np.exp(-2.0 * v) - of_prior(v)[1] for v in (0.0, x)]
    with np.errstate(invalid="ignore"):
        ratio = np.log(curved[1] / curved[0])
    widening = x - 0.5 * ratio if np.isfinite(ratio) else x
    return float(sigma * np.expm1(x)), float(widening)


def _of_a_mode(fit: Fit, step: Step, coefficient: Array) -> dict[Cause, Step]:
    """Return the steps of a mode: degrees of freedom, a sandwich or replicates in place of the curvature, and early stopping."""
    s = fit.solution
    gap, spread = step
    none = np.zeros(len(gap))
    shift = np.stack([gap, none])
    if s.replicates is not None:
        # a standard deviation of R replicates has the relative error 1 / sqrt(2 R)
        by_chance = np.abs(spread) <= 3.0 * (2.0 * len(s.replicates["coef"])) ** -0.5
        return {
            Cause.CONVERGENCE: shift,
            Cause.MONTE_CARLO: np.stack([none, np.where(by_chance, spread, 0.0)]),
            Cause.COVARIANCE: np.stack([none, np.where(by_chance, 0.0, spread)]),
        }
    if s.df is not None:  # s^2 = RSS / (n - rank) in place of RSS / n, sigma itself too
        return {
            Cause.SMALL_SAMPLE: np.stack([np.where(coefficient, 0.0, gap), spread]),
            Cause.CONVERGENCE: np.where(coefficient, shift, 0.0),
        }
    if covariance_kind(fit) == "curvature":
        return {Cause.CONVERGENCE: step}
    return {Cause.CONVERGENCE: shift, Cause.COVARIANCE: np.stack([none, spread])}


def monte_carlo_error(fit: Fit, aux: tuple[str, ...]) -> tuple[Array, Array]:
    """Return the Monte Carlo error of each mean, in standard deviations, and of each log standard deviation, (J,); 0 for exact values."""
    size = fit.coef.size + len(aux)
    stats = fit.solution.stats
    if "mcse_mean" in stats:
        return np.full(size, stats["mcse_mean"]), np.full(size, stats["mcse_sd"])
    if not fit.method.makes_chains:
        return np.zeros(size), np.zeros(size)
    beta = reported_coefficients(fit.model, fit.solution.posterior["beta"])
    beta = by_outcome(fit.model, beta.reshape(*beta.shape[:2], -1))
    draws = [*np.moveaxis(beta, -1, 0), *(fit.solution.posterior[name] for name in aux)]
    ess = mixing_measure(fit, aux, "ess_bulk")
    return ess**-0.5, np.array([error_of_log_sd(chains) for chains in draws])


def error_of_log_sd(draws: Array) -> float:
    """Return the Monte Carlo error of the log standard deviation of draws (chain, draw): the error of the mean of u = (x - mean)^2
    divided by 2 mean u, with the effective sample size of u; (2 ESS)^(-1/2) of a normal, more where tails are heavy.

    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> round(error_of_log_sd(draws), 3), round((2 * 4000) ** -0.5, 3)
    (0.011, 0.011)
    """
    from arviz_stats.base import array_stats

    u = np.square(draws - draws.mean())
    if not u.any():
        return 0.0
    # sd(log s) = sd(s^2) / (2 s^2), Var(s^2) = Var(u) / ESS(u) = (kurtosis - 1) s^4 / ESS(u)
    return float(
        0.5 * u.std() / u.mean() * float(array_stats.ess(u, method="mean")) ** -0.5
    )


def has_bad_chains(fit: Fit, aux: tuple[str, ...]) -> Array:
    """Return the parameters (J,) for which the chains are bad by status, many divergences or R-hat."""
    none = np.zeros(fit.coef.size + len(aux), bool)
    draws = fit.solution.draws
    if fit.solution.status in (Status.UNMIXED, Status.UNSETTLED):
        return ~none
    if draws is None:
        return none
    divergences = int(np.sum(draws.stats.get("diverging", 0)))
    many_divergences = 0.01  # of the draws
    if divergences > many_divergences * draws.count:
        return ~none
    if not fit.method.makes_chains:
        return none
    return mixing_measure(fit, aux, "r_hat") > 1.01


def exact_posterior(
    fit: Fit, other_fit: Fit, alike: bool, aux: tuple[str, ...]
) -> Estimates | None:
    """Return the exact mean and standard deviation if available: from the other fit, if it has the same posterior,
    otherwise by the conjugate formula or the integral over sigma."""
    if fit.target != "posterior":
        return None
    exact_summary = summary(other_fit) == "posterior"
    if alike and exact_summary and not has_monte_carlo_error(other_fit):
        return Estimates.of(other_fit, aux)
    if fit.model.design.weight_kind == "sampling":
        return None
    for method in (Conjugate(draws=1), Quadrature(draws=1)):
        if method.obstacle(fit.model) is None:
            return Estimates.of(fit_model(fit.model, method), aux)
    return None


# ---- effects by group: ML, REML and posterior, step by step ----------------------------------------------------------


_ORDER = (Cause.MEAN_DF, Cause.SCALE_PRIOR, Cause.SCALE_UNCERTAINTY)
_OTHER = {Cause.LIKELIHOOD, Cause.PARAMETER_PRIOR, Cause.FIXED_PARAMETER}


def scale_steps(
    pair: FitPair, aux: tuple[str, ...]
) -> dict[SpecificCause, Step] | None:
    """Return the steps of the estimates and of log SE by cause; None if the fits differ in more, or a step has no maximum.

        ML  --degrees of freedom of the mean-->  REML  --prior of the standard deviations-->  mode of the standard deviations
        under their prior  --uncertainty of the standard deviations-->  posterior

    Each step is a fit that changes one thing. The order is fixed because each answer builds on the one before; a step that changes
    nothing is left out. If coefficients have other priors too, the second step changes all priors.
    """
    a, b = pair.fits
    causes = set(pair.differences)
    if a.target == b.target == "mode" and Cause.COVARIANCE in causes:
        return None
    if not (has_effects(a.model) and has_effects(b.model)):
        return None
    if causes & _OTHER or not causes & {*_ORDER, Cause.PRIOR}:
        return None
    ranks = _rank(a), _rank(b)
    if ranks[0] == ranks[1] != 1:
        return None
    if ranks[0] <= ranks[1]:
        return _steps(a, b, causes, aux)
    reverse = _steps(b, a, causes, aux)
    if reverse is None:
        return None
    return {cause: -step for cause, step in reversed(reverse.items())}


def _rank(fit: Fit) -> int:
    """Return the place of a fit in the order ML, REML, posterior."""
    if fit.solution.effect_scales is None:
        return 2
    return int(fit.solution.effect_scales.criterion == "REML")


def _steps(
    a: Fit, b: Fit, differ: set[Cause], aux: tuple[str, ...]
) -> dict[SpecificCause, Step] | None:
    """Return the steps from a to b, which is later in the order: each is to a fit that changes one thing."""
    both_priors = Cause.PRIOR in differ  # of coefficients and scales in one step
    changing = differ | ({Cause.SCALE_PRIOR} if both_priors else set())
    causes = [cause for cause in _ORDER if cause in changing]
    estimates = [Estimates.of(a, aux)]
    try:
        for cause in causes[:-1]:
            model = (a if cause is Cause.MEAN_DF else b).stated_model
            estimates.append(Estimates.of(fit_model(model, Evidence()), aux))
    except ProbregError:
        return None
    estimates.append(Estimates.of(b, aux))
    steps = {}
    for cause, (start, end) in zip(causes, pairwise(estimates), strict=True):
        of_all = both_priors and cause is Cause.SCALE_PRIOR
        steps[SpecificCause(Cause.PRIOR if of_all else cause)] = start.step_to(end)
    return steps
