"""What a method adds to the mode of its model where no path tells it, by name; and what its sampler says of itself."""

import numpy as np

from probreg.comparison.differences import summary
from probreg.comparison.evidence import is_troubled
from probreg.comparison.pairs import Pair
from probreg.fits.fit import Fit

Array = np.ndarray
SKEWED = 0.1  # a skewness that moves a mean by a twentieth of a standard deviation


def of_method(pair: Pair, j: int) -> str | None:
    """The rule: of what differs between the two methods, that which would part their answers on one model."""
    if bad_chains(pair, j):
        return "sampler"
    mean, end = pair.noise(j)
    gaps = [
        abs(pair.here[q][j] - pair.base[q][j]) for q in ("estimate", "lower", "upper")
    ]
    if (
        "draws" in pair.differ
        and end > 0
        and gaps[0] <= 3.0 * mean
        and max(gaps) <= 3.0 * end
    ):
        return "Monte Carlo error"
    if "summary" in pair.differ:
        return shape(pair)
    if any(may_stop_short(f) for f, _ in pair.named.values()):
        return "convergence"
    return of_interval(pair, j)


def shape(pair: Pair) -> str:
    """Why a mean is not a mode: a posterior is skew, or one of the two is a normal in its place."""
    kinds = {summary(f) for f, _ in pair.named.values()}
    if {"normal at the mode", "posterior"} <= kinds:
        return "approximation"
    return "skewness"


def of_interval(pair: Pair, j: int) -> str | None:
    """Why intervals of one error differ in width; None where both are made alike."""
    if "summary" in pair.differ:
        integrated = all(
            f.model.noise_unknown for f, _ in pair.named.values()
        ) and bool(pair.coefficient[j])
        if integrated and not np.isfinite(skewness(pair, j)[1]):
            return "small sample"
        return shape(pair)
    if "degrees of freedom" in pair.differ and "covariance" not in pair.differ:
        return "small sample"
    a, b = (str(row["kind"][j]) for _, row in pair.named.values())
    return "kind of interval" if a != b else None


def may_stop_short(fit: Fit) -> bool:
    """A mode that was not reached, or by a method that may keep a distance to it."""
    return fit.target == "mode" and (
        fit.method.accuracy > 0 or not fit.solution.status.good
    )


def bad_chains(pair: Pair, j: int) -> list[str]:
    """Return the fits with bad chains for this parameter, by R-hat or by the status of the sampler."""
    return [
        name
        for name, (fit, _) in pair.named.items()
        if is_troubled(fit) or r_hat(pair, name, j) > 1.01
    ]


def r_hat(pair: Pair, name: str, j: int) -> float:
    """The table calls a softmax coefficient `column: outcome`, a summary `outcome column`."""
    param = pair.params[j]
    fit = pair.named[name][0]
    column, _, outcome = param.rpartition(": ")
    if fit.model.likelihood.outcomes and column:
        key = f"{outcome} {column}"
    else:
        key = param
    return pair.r_hat[name].get(key, np.nan)


def skewness(pair: Pair, j: int) -> tuple[str, float]:
    """Of the posterior that is not a normal by construction, its name and its skewness; nan where that is within chance."""
    for name, (fit, row) in pair.named.items():
        if summary(fit) == "posterior":
            value = float(row["skewness"][j])
            # The standard error of the skewness of so many normal draws.
            draws = fit.solution.draws
            size = 0 if draws is None else draws.count
            error = row["mcse"][j] / row["error"][j]
            return name, value if abs(value) > max(
                SKEWED,
                3.0
                * float(
                    np.sqrt(6.0)
                    * (error if np.isfinite(error) else size**-0.5 if size else 0.0)
                ),
            ) else np.nan
    return next(
        name for name, (fit, _) in pair.named.items() if fit.target == "posterior"
    ), np.nan
