"""What a method adds to the mode of its model, by name, where the other fit's method adds something else."""

import numpy as np

from probreg.comparison.differences import summary
from probreg.comparison.evidence import divergences, freedom, telling
from probreg.comparison.pairs import Pair
from probreg.fits.fit import Fit
from probreg.inference import Status

Array = np.ndarray
SKEWED = 0.1  # a skewness that moves a mean by a twentieth of a standard deviation
TROUBLED = (Status.UNMIXED, Status.DIVERGED, Status.UNSETTLED)


def added(pair: Pair, part: str, j: int) -> str | None:
    """The cause of a part that methods add ("own": to the estimate, "error": to the curvature's, "quantile": to the arms of
    the interval); None where both add it alike."""
    if troubled(pair, j):
        return "sampler"
    if "summary" in pair.differ:
        return _summary(pair, part, j)
    if part == "own":
        return "convergence" if any(may_stop_short(f) for f, _ in pair.named.values()) else None
    if "covariance" in pair.differ:
        return _covariance(pair, j) if part == "error" else "kind of interval"
    if "degrees of freedom" in pair.differ:
        return "small sample"
    a, b = (str(row["kind"][j]) for _, row in pair.named.values())
    return "kind of interval" if a != b and part == "quantile" else None


def may_stop_short(fit: Fit) -> bool:
    """A mode that was not reached, or by a method that may keep a distance to it."""
    return fit.target == "mode" and (fit.method.accuracy > 0 or not fit.solution.status.good)


def troubled(pair: Pair, j: int) -> list[str]:
    """The fits whose sampler shows trouble with this parameter: its chains disagree, or their status says so."""
    return [
        name
        for name, (fit, _) in pair.named.items()
        if fit.solution.status in TROUBLED or r_hat(pair, name, j) > 1.01 or divergences(fit)
    ]


def r_hat(pair: Pair, name: str, j: int) -> float:
    """The table calls a softmax coefficient `column: outcome`, a summary `outcome column`."""
    param, fit = pair.params[j], pair.named[name][0]
    column, _, outcome = param.rpartition(": ")
    key = f"{outcome} {column}" if fit.model.likelihood.outcomes and column else param
    return pair.r_hat[name].get(key, np.nan)


def skewness(pair: Pair, j: int) -> tuple[str, float]:
    """Of the posterior that is not a normal by construction, its name and its skewness; nan where that is within chance."""
    for name, (fit, row) in pair.named.items():
        if summary(fit) == "posterior":
            value = float(row["skewness"][j])
            return name, value if abs(value) > max(SKEWED, 3.0 * _of_chance(fit, row, j)) else np.nan
    return next(name for name, (fit, _) in pair.named.items() if fit.target == "posterior"), np.nan


def _of_chance(fit: Fit, row: object, j: int) -> float:
    """The standard error of the skewness of so many normal draws."""
    draws = fit.solution.draws
    size = 0 if draws is None else draws.count
    error = row["mcse"][j] / row["error"][j]  # type: ignore[index]
    return float(np.sqrt(6.0) * (error if np.isfinite(error) else size**-0.5 if size else 0.0))


def _summary(pair: Pair, part: str, j: int) -> str:
    known = np.isfinite(skewness(pair, j)[1])
    if part == "own" and not known and abs(pair.effects["own"].move[j]) < 3.0 * pair.noise(j)[0]:
        return "Monte Carlo error"
    normal = any(summary(f) == "normal at the mode" for f, _ in pair.named.values())
    integrated = all(f.model.noise_unknown for f, _ in pair.named.values()) and bool(pair.coefficient[j])
    if integrated and not known and part != "own":
        return "small sample"
    return "approximation" if normal and any(summary(f) == "posterior" for f, _ in pair.named.values()) else "skewness"


def _covariance(pair: Pair, j: int) -> str:
    """Replicates and sandwiches differ from a curvature by chance, by the shrinkage that a prior makes, or by a wrong model."""
    effect = float(pair.effects["error"].upper[j])
    if abs(effect) < 3.0 * pair.replicated:
        return "Monte Carlo error"
    ratios = [r for every in pair.sandwich.values() if np.isfinite(r := every.get(pair.params[j], np.nan))]
    if any(telling(r, freedom(pair.fit)) for r in ratios):
        return "misspecification"
    return "covariance"
