"""Shares of the difference of two fits by cause: priors, methods, and the criterion of the standard deviations of group effects.

The share of each prior is an integral along a path of priors that connects the modes of the two fits, by Gauss-Legendre rules of
4, 8, 16, ... nodes on each half, until the shares sum to the distance between the modes. The share of a method is the step from the mode
to its estimate.
"""

import re
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy
from scipy.linalg import eigh

from probreg.comparison.differences import (
    Cause,
    FitPair,
    SpecificCause,
    covariance_kind,
    has_monte_carlo_error,
    summary,
)
from probreg.comparison.numbers import Estimates, Step, by_outcome, mixing_measure
from probreg.comparison.prior_path import (
    FIRST,
    LAST,
    PathLocal,
    PathMode,
    PathPoint,
    PriorPath,
    PriorTerms,
)
from probreg.comparison.prior_weight import inverse_or_nan
from probreg.errors import ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.fits.goodness import exact_fit
from probreg.fits.inference_data import coefficient_draws
from probreg.inference import Conjugate, Evidence, Quadrature, Status
from probreg.inference.base import has_effects
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import one_blas_thread
from probreg.model.model import Model
from probreg.system.terminal import shorten_names

Array = np.ndarray


def path_obstacle(a: Fit, b: Fit) -> str:
    """Return why no path of priors connects the modes of two fits; "" if a path may exist."""
    design = a.model.design
    likelihood = a.model.likelihood
    if design.columns != b.model.design.columns:
        return "the columns are in another order"
    if likelihood != b.model.likelihood:
        return "the likelihoods differ"
    if has_effects(a.model) or has_effects(b.model):
        return "the standard deviations of effects are found from the rows"
    for fit in (a, b):
        s = fit.solution
        lost = s.status in (Status.NO_MAXIMUM, Status.NOT_IDENTIFIED)
        lost = lost or s.status.is_at_limit
        priors = [fit.model.aux_prior(name) for name in fit.model.unknown]
        bounded = [prior for prior in priors if prior.has_bounded_support]
        without_likelihood = not fit.method.probabilities
        obstacles = {
            "one of them meets every response exactly": exact_fit(fit),
            "one of them has no estimate": lost or np.any(s.not_estimable),
            "a nuisance parameter is 0": min(s.aux.values(), default=1.0) <= 0,
            f"{fit.method.name} has no likelihood": without_likelihood,
            "a prior has a kink or an unknown scale": not fit.model.joint.smooth,
            "the prior of a nuisance parameter has bounded support": bounded,
        }
        for reason, applies in obstacles.items():
            if applies:
                return reason
    if not isinstance(likelihood, SmoothLikelihood) or likelihood.expected_curvature:
        return f"{likelihood.named} likelihood is not twice differentiable"
    reachable = design.has_rows or b.model.design.has_rows
    if not (likelihood.least_squares or reachable):
        return design.rows_absent
    most_coefficients = 300  # with more, the linear systems of a path take seconds
    if a.solution.beta.size > most_coefficients:
        return f"more than {most_coefficients} coefficients"
    return ""


def changing_groups(a: Fit, b: Fit) -> dict[str, tuple[int, ...]]:
    """Return the sets of columns with different priors in the two fits, by name: columns with a joint prior are one set,
    and with many columns each term of the formula is one set."""
    model = a.model
    p, m = model.shape
    changed = np.zeros(p, bool)
    tied = np.eye(p, dtype=bool)
    size = np.abs(a.solution.beta) + np.abs(b.solution.beta) + 1e-3
    noise = np.random.default_rng(0).normal(size=size.shape)
    place = a.solution.beta + size * noise
    for aux in (a.aux, b.aux):
        sides = [PriorTerms.of(fit.model, place, aux) for fit in (a, b)]
        for quantity in ("slope", "log_sigma", "log_sigma_curvature", "mixed", "H"):
            first, second = [getattr(side, quantity) for side in sides]
            bound = 1e-9 * (np.abs(first) + np.abs(second))
            changed |= (np.abs(first - second) > bound).reshape(p, -1).any(1)
        for side in sides:
            tied |= (side.H.reshape(p, m, p, m) != 0).any((1, 3))
    smooth = {c: t.name for t in model.design.recipe.terms for c in t.columns}
    columns = model.design.columns
    # without the levels of factors
    terms = [smooth.get(c) or re.sub(r"\[[^\]]*\]", "", c) for c in columns]
    most_alone = 12  # up to this number of changed columns each is a cause; with more, each term of a formula is one cause
    many = changed.sum() > most_alone
    for i, j in zip(*np.triu_indices(p, 1)):
        if terms[i] == terms[j] and (many or columns[i] in smooth):
            tied[i, j] = tied[j, i] = True
    from scipy.sparse.csgraph import connected_components

    number = connected_components(tied, directed=False)[1]
    groups = {}
    for n in dict.fromkeys(number[changed]):
        indices = tuple(map(int, np.flatnonzero(number == n)))
        names = list(dict.fromkeys([terms[i] for i in indices]))
        if len(indices) == p > 1 and len(names) > 1:
            name = "all coefficients"
        elif len(names) < len(indices) != 1:
            name = shorten_names(names, 3)
        else:
            name = shorten_names([columns[i] for i in indices], 3)
        groups[name] = indices
    return groups


class PathShares(NamedTuple):
    """A path: its ends and the shares, over the parameters of the table (J,) and the causes (K,)."""

    causes: tuple[SpecificCause, ...]  # (K,)
    ends: tuple[PathMode, PathMode]
    shift: Array  # (K, J), in units of the parameter
    log_ratio: Array  # (K, J)


@one_blas_thread()
def integrate_path(
    path: PriorPath, start: Array, end: Array, tol: float
) -> PathShares | None:
    """Return the shares, refined until they sum to the shift to `tol` SE and to the log SE ratio to `tol`; None if there is no smooth
    path from the mode near `start` to the mode near `end`."""
    first = path.mode(start, FIRST)
    last = path.mode(end, LAST)
    if first is None or last is None:
        return None
    # the baseline's SE
    unit = np.array([np.exp(first.log_se), np.ones(len(first.log_se))])
    total = np.array([last.value - first.value, last.log_se - first.log_se])
    shares = np.zeros((2, len(path.causes), total.shape[1]))
    largest_remainder = 1e-6  # in SE: a smaller remainder of the sum is accepted, and the largest share gets it
    if path.causes:
        # a parameter fixed at one end gets a precision along the path; its unit is the precision at the other end
        units = {}
        for name in path.held:
            free = last if name in path.a.fixed else first
            i = path.unknown[name]
            units[name] = abs(free.local.H[i, i])
        path = replace(path, units=units)
        steep = _steepness(path, first.local), _steepness(path, last.local, -1.0)
        known = {0.0: first.local.theta, 1.0: last.local.theta}
        before = np.inf
        for n in (4, 8, 16, 32, 64, 128):
            rule = _apply_rule(path, n, steep, known)
            if rule is None:
                return None
            shares = rule
            error = np.abs((total - shares.sum(1)) / unit).max()
            # converged, or the remainder is rounding
            if error < tol or 0.7 * before < error < largest_remainder:
                break
            if n > 8 and error > 0.5 * before:
                return None  # the mode jumps
            before = error
    remainder = total - shares.sum(1)
    if not np.abs(remainder / unit).max() < max(largest_remainder, tol):
        return None
    for part, addition in zip(shares, remainder):
        if len(part):
            part[np.abs(part).argmax(0), np.arange(len(addition))] += addition
    return PathShares(path.causes, (first, last), *shares)


def _steepness(path: PriorPath, end: PathLocal, sign: float = 1.0) -> float:
    """Return log(1 + the largest ratio of the added curvature of the other side's priors to the whole curvature at one end)."""
    k = len(path.columns)
    change = path.over_theta(end.priors[0].mix(end.priors[1], (-sign, sign)))[1]
    largest = eigh(change[:k, :k], end.H[:k, :k], eigvals_only=True)[-1]
    for cause in path.causes[len(path.members) :]:
        i = path.unknown[cause.subject]
        added = end.priors[int(sign > 0)].aux_curvature[i - k]
        largest = max(largest, added / abs(end.H[i, i]))
    return np.log1p(max(largest, 0.0))


def _apply_rule(
    path: PriorPath, n: int, steep: tuple[float, float], known: dict[float, Array]
) -> Array | None:
    """Return the shares (2, K, J) by n nodes in s on each half of the path; None if a mode is not found.

    t = expm1(2 c s) / expm1(c) / 2 up to the middle and the mirror image beyond, so that a prior which determines everything within
    t of exp(-c) needs few nodes. Modes that are found are added to `known`.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n)
    total = np.zeros(())
    for half, ratio in enumerate(steep):
        c = max(ratio, 1e-3)
        # x from the end of this half to the middle
        for x, w in zip(0.5 * (1.0 + nodes), 0.5 * weights):
            weight = 0.5 * np.expm1(c * x) / np.expm1(c)
            s, t = 0.5 * x, PathPoint(1.0 - weight, weight)
            if half:
                s, t = 1.0 - s, PathPoint(weight, 1.0 - weight)
            rate = 0.5 * c * np.exp(c * x) / np.expm1(c)
            nearest = min(known, key=lambda place: abs(place - s))
            mode = path.mode(known[nearest], t)
            if mode is None:
                return None
            known[s] = mode.local.theta
            total = total + w * rate * np.array(path.slopes(mode))
    return total


# ---- steps of a method: the estimate minus the mode, and the log ratio of its error to the curvature's --------------


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
    model = fit.model
    step = mode.step_to(estimates)
    count = step.shape[1]
    coefficient = np.arange(count) < count - len(aux)
    if fit.target == "mode":
        return _steps_of_mode(fit, step, coefficient)
    integrated = model.noise_unknown and summary(fit) == "posterior"  # over sigma
    is_widened = coefficient & integrated
    small = np.zeros(step.shape)
    least_squares = model.likelihood.least_squares
    if integrated and least_squares and model.noise_scale in aux:
        index = count - len(aux) + aux.index(model.noise_scale)
        small[:, index] = _degrees_of_freedom(model, mode, index)
    if not has_monte_carlo_error(fit):
        return _steps_by_shape(step, is_widened, small)
    is_bad = has_bad_chains(fit, aux)
    if exact is not None:
        shape = _steps_by_shape(mode.step_to(exact), is_widened, small)
        remainder = exact.step_to(estimates)
    else:
        # of 2 J means and standard deviations one lies beyond z errors by chance in 1 of 100 fits (Sidak 1967)
        z = scipy.stats.norm.isf(0.5 * -np.expm1(np.log(0.99) / (2 * count)))
        of_mean, of_sd = monte_carlo_error(fit, aux)
        chance = z * np.array([of_mean * estimates.error, of_sd])
        by_chance = np.abs(step - small) <= chance
        remainder = np.where(is_bad | by_chance, step - small, 0.0)
        shape = _steps_by_shape(step - remainder, is_widened, small)
    unreliable = np.where(is_bad, remainder, 0.0)
    return shape | {
        Cause.MONTE_CARLO: remainder - unreliable,
        Cause.SAMPLER: unreliable,
    }


def _steps_by_shape(step: Step, is_widened: Array, small: Step) -> dict[Cause, Step]:
    """Return the steps from mode to mean and from curvature to standard deviation: by degrees of freedom and the tails of
    coefficients under them, otherwise by skewness."""
    by_df = np.stack([small[0], np.where(is_widened, step[1], small[1])])
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
    N = (
        model.design.moments.weight
        + (model.joint.sigma_units & model.joint.informative).sum()
    )
    P = model.joint.curvature(mode.value[:k, None], sigma)
    g = k - float(
        np.trace(
            inverse_or_nan(F.T @ F / sigma**2 + P) @ (P * ~model.joint.sigma_units)
        )
    )

    def of_prior(x: float) -> tuple[float, float]:
        return model.noise_prior.slopes(sigma * np.exp(x))

    S = N - of_prior(0.0)[0]  # over sigma^2 at the mode, where the slope is 0

    def slope(x: float) -> float:
        return g - N + S * np.exp(-2.0 * x) + of_prior(x)[0]

    high = 0.5
    largest_shift = 64.0  # of a shift of log sigma
    while slope(high) > 0.0 and high < largest_shift:
        high *= 2.0
    if not (g >= 0.0 >= slope(high)):
        # without such a top, under a prior that is not concave, the step is skewness
        return 0.0, 0.0
    x = scipy.optimize.brentq(slope, 0.0, high, xtol=1e-15) if g > 0.0 else 0.0
    curved = [2.0 * S * np.exp(-2.0 * v) - of_prior(v)[1] for v in (0.0, x)]
    with np.errstate(invalid="ignore"):
        ratio = np.log(curved[1] / curved[0])
    widening = x - 0.5 * ratio if np.isfinite(ratio) else x
    return sigma * np.expm1(x), widening


def _steps_of_mode(fit: Fit, step: Step, coefficient: Array) -> dict[Cause, Step]:
    """Return the steps of a point estimate: degrees of freedom, a sandwich or replicates in place of the curvature, and early stopping."""
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
    is_curvature = covariance_kind(fit) == "curvature"
    # s^2 = RSS / (n - rank) in place of RSS / n, also for sigma itself
    if s.df is not None:
        small = spread
        if not is_curvature:
            small = 0.5 * coefficient * np.log(fit.model.design.total / s.df)
        return {
            Cause.SMALL_SAMPLE: np.stack([np.where(coefficient, 0.0, gap), small]),
            Cause.COVARIANCE: np.stack([none, spread - small]),
            Cause.CONVERGENCE: np.where(coefficient, shift, 0.0),
        }
    if is_curvature:
        return {Cause.CONVERGENCE: step}
    return {Cause.CONVERGENCE: shift, Cause.COVARIANCE: np.stack([none, spread])}


def monte_carlo_error(fit: Fit, aux: tuple[str, ...]) -> tuple[Array, Array]:
    """Return the Monte Carlo error of each mean of a posterior by simulation, in standard deviations, and of each log standard deviation, (J,)."""
    size = fit.coef.size + len(aux)
    stats = fit.solution.stats
    if "mcse_mean" in stats:
        return np.full(size, stats["mcse_mean"]), np.full(size, stats["mcse_sd"])
    beta = by_outcome(fit.model, coefficient_draws(fit))
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
    draws = fit.solution.posterior
    divergences = np.sum(draws.stats.get("diverging", 0))
    many = 0.01 * draws.count
    is_bad = fit.solution.status in (Status.UNMIXED, Status.UNSETTLED)
    if is_bad or divergences > many:
        return ~none
    if not fit.method.makes_chains:
        return none
    return mixing_measure(fit, aux, "r_hat") > 1.01


def exact_posterior(
    fit: Fit, other_fit: Fit, same_posterior: bool, aux: tuple[str, ...]
) -> Estimates | None:
    """Return the exact mean and standard deviation if available: from the other fit, if it has the same posterior,
    otherwise by the conjugate formula or the integral over sigma."""
    if fit.target != "posterior":
        return None
    exact_summary = summary(other_fit) == "posterior"
    if same_posterior and exact_summary and not has_monte_carlo_error(other_fit):
        return Estimates.of(other_fit, aux)
    for method in (Conjugate(draws=1), Quadrature(draws=1)):
        if method.obstacle(fit.model) is None:
            return Estimates.of(fit_model(fit.model, method), aux)
    return None


# ---- effects by group: ML, REML and posterior, step by step ----------------------------------------------------------


_ORDER = (Cause.MEAN_DF, Cause.SCALE_PRIOR, Cause.SCALE_UNCERTAINTY)
_OUTSIDE_ORDER = {
    Cause.POINTS,
    Cause.LIKELIHOOD,
    Cause.PARAMETER_PRIOR,
    Cause.FIXED_PARAMETER,
}


def scale_steps(
    pair: FitPair, aux: tuple[str, ...]
) -> dict[SpecificCause, Step] | None:
    """Return the steps of the estimates and of log SE by cause; None if the fits differ in more, or a step has no maximum.

        ML  --degrees of freedom of the mean-->  REML  --prior of the standard deviations-->  mode of the standard deviations
        under their prior  --uncertainty of the standard deviations-->  posterior

    Each step is a fit that changes one thing. The order is fixed because each answer builds on the previous one; a step that changes
    nothing is left out. If coefficients have other priors too, the second step changes all priors.
    """
    a, b = pair.fits
    causes = set(pair.differences)
    if a.target == b.target == "mode" and Cause.COVARIANCE in causes:
        return None
    if not (has_effects(a.model) and has_effects(b.model)):
        return None
    if causes & _OUTSIDE_ORDER or not causes & {*_ORDER, Cause.PRIOR}:
        return None
    ranks = _rank(a), _rank(b)
    if ranks[0] == ranks[1] != 1:
        return None
    if ranks[0] <= ranks[1]:
        return _ordered_steps(a, b, causes, aux)
    reverse = _ordered_steps(b, a, causes, aux)
    if reverse is None:
        return None
    return {cause: -step for cause, step in reversed(reverse.items())}


def _rank(fit: Fit) -> int:
    """Return the place of a fit in the order ML, REML, posterior."""
    if fit.solution.effect_scales is None:
        return 2
    return int(fit.solution.effect_scales.criterion == "REML")


def _ordered_steps(
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
