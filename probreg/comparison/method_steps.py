"""What a method adds to the mode of its model: the estimate less the mode, and the log of its error over the curvature's."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from probreg.comparison.differences import has_monte_carlo_error, summary
from probreg.comparison.evidence import divergences, r_hats
from probreg.comparison.numbers import by_outcome
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference import Conjugate, Quadrature, Status
from probreg.inference.base import markov
from probreg.inference.uncertainty.covariance import reported

Array = np.ndarray
Step = tuple[Array, Array]  # of the estimate, in its units, and of log SE, over the parameters (J,)
FALSE = 0.01  # chance that noise alone is called the shape of a posterior, in any number of a fit
TROUBLED = (Status.UNMIXED, Status.DIVERGED, Status.UNSETTLED)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of a fit with their errors, over the parameters of the table (J,)."""

    value: Array
    error: Array

    @classmethod
    def of(cls, fit: Fit, aux: tuple[str, ...]) -> "Estimates":
        """Coefficients, outcome by outcome, then these nuisance parameters."""
        s = fit.solution
        value, error = (
            by_outcome(fit.model, np.asarray(v.values, dtype=float).ravel()) for v in (fit.coef, fit.std_error)
        )
        more = np.array([[s.aux[a], s.aux_sd.get(a, np.nan)] for a in aux]).reshape(-1, 2)
        return cls(np.append(value, more[:, 0]), np.append(error, more[:, 1]))


def method_steps(
    fit: Fit, own: Estimates, mode: Estimates, exact: Estimates | None, aux: tuple[str, ...]
) -> dict[str, Step]:
    """By cause, the steps from the mode of the model, with the curvature's errors there, to what the fit reports (`own`).

    `exact` is the mean and standard deviation of the posterior of this model, where a formula gives it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        gap, spread = own.value - mode.value, np.log(own.error / mode.error)
    if fit.target == "mode":
        return _of_a_mode(fit, gap, spread)
    coefficient = np.arange(len(gap)) < len(gap) - len(aux)
    widened = coefficient & fit.model.noise_unknown & (summary(fit) == "posterior")  # integrated over sigma
    if not has_monte_carlo_error(fit):
        return _by_shape(gap, spread, widened)
    troubled = _troubled(fit, aux)
    if exact is not None:
        shape = _by_shape(exact.value - mode.value, np.log(exact.error / mode.error), widened)
        rest = own.value - exact.value, np.log(own.error / exact.error)
    else:
        # of 2 J means and standard deviations one lies beyond z errors by chance in 1 of 100 fits (Sidak 1967)
        z = float(norm.isf(0.5 * -np.expm1(np.log1p(-FALSE) / (2 * len(gap)))))
        of_mean, of_sd = monte_carlo_error(fit, aux)
        rest = (
            np.where(troubled | (np.abs(gap) <= z * of_mean * own.error), gap, 0.0),
            np.where(troubled | (np.abs(spread) <= z * of_sd), spread, 0.0),
        )
        shape = _by_shape(gap - rest[0], spread - rest[1], widened)
    lost = np.where(troubled, rest, 0.0)
    return {**shape, "Monte Carlo error": (rest[0] - lost[0], rest[1] - lost[1]), "sampler": (lost[0], lost[1])}


def _by_shape(gap: Array, spread: Array, widened: Array) -> dict[str, Step]:
    """A mean is not the mode, and a standard deviation not the curvature's: by tails of a small sample, else by skewness."""
    tails = np.where(widened, spread, 0.0)
    return {"skewness": (gap, spread - tails), "small sample": (np.zeros(len(gap)), tails)}


def _of_a_mode(fit: Fit, gap: Array, spread: Array) -> dict[str, Step]:
    """Degrees of freedom, a sandwich or replicates in place of the curvature, and iterations that ended before the mode."""
    s, none = fit.solution, np.zeros(len(gap))
    kind = str(reported(fit.model, fit.method, s)["kind"])
    if s.df is not None and s.replicates is None:  # s^2 = RSS / (n - rank) in place of RSS / n, sigma itself too
        aux = np.arange(len(gap)) >= fit.coef.size
        return {"small sample": (np.where(aux, gap, 0.0), spread), "convergence": (np.where(aux, 0.0, gap), none)}
    if s.replicates is not None:
        # a standard deviation of R replicates has the relative error 1 / sqrt(2 R)
        by_chance = np.abs(spread) <= 3.0 * (2.0 * len(s.replicates["coef"])) ** -0.5
        steps = {"covariance": (none, np.where(by_chance, 0.0, spread))}
        return {"convergence": (gap, none), "Monte Carlo error": (none, np.where(by_chance, spread, 0.0)), **steps}
    if kind not in ("classical", "expected", "observed"):
        return {"convergence": (gap, none), "covariance": (none, spread)}
    return {"convergence": (gap, spread)}


def monte_carlo_error(fit: Fit, aux: tuple[str, ...]) -> tuple[Array, Array]:
    """Of each mean, in standard deviations, and of the log of each standard deviation (J,); 0 for what a formula gave."""
    size, stats = fit.coef.size + len(aux), fit.solution.stats
    if "mcse_mean" in stats:
        return np.full(size, stats["mcse_mean"]), np.full(size, stats["mcse_sd"])
    if not markov(fit.method, fit.solution):
        return np.zeros(size), np.zeros(size)
    table, keys = fit.summary(), (*range(fit.coef.size), *aux)
    bulk, tail = (
        dict(zip((*range(fit.coef.size), *fit.solution.aux), table[c].to_numpy(float)))
        for c in ("ess_bulk", "ess_tail")
    )
    # 1 / sqrt(ESS) and 1 / sqrt(2 ESS); squares are worth fewer independent draws where chains alternate, as tails show
    least = np.array([min(bulk[key], tail[key]) for key in keys])
    return np.array([bulk[key] for key in keys]) ** -0.5, (2.0 * least) ** -0.5


def _troubled(fit: Fit, aux: tuple[str, ...]) -> Array:
    """(J,) bool: parameters with which the sampler shows trouble, by its status, its divergences or R-hat."""
    if fit.solution.status in TROUBLED or divergences(fit):
        return np.ones(fit.coef.size + len(aux), bool)
    values = list(r_hats(fit).values())
    if not values:
        return np.zeros(fit.coef.size + len(aux), bool)
    by_key = dict(zip((*range(fit.coef.size), *fit.solution.aux), values))
    return np.array([by_key[key] > 1.01 for key in (*range(fit.coef.size), *aux)])


def exact_posterior(fit: Fit, other: Fit, alike: bool, aux: tuple[str, ...]) -> Estimates | None:
    """Mean and standard deviation where a formula or an integral gives them: by the other fit, if it is of the same posterior,
    else by the conjugate formula or the integral over sigma; only for a fit with Monte Carlo error."""
    if fit.target != "posterior" or not has_monte_carlo_error(fit):
        return None
    if alike and summary(other) == "posterior" and not has_monte_carlo_error(other):
        return Estimates.of(other, aux)
    for method in (Conjugate(draws=1), Quadrature(draws=1)):
        if method.obstacle(fit.model) is None and fit.model.design.weight_kind != "sampling":
            return Estimates.of(fit_model(replace(fit.model), method), aux)
    return None
