"""Compiled densities for any link, from the density of a family for its default link."""

from collections.abc import Callable
from functools import cache
from math import exp, inf, log, nan
from typing import Any

from probreg.compiled.density import CompiledDensity, Row, with_functions
from probreg.likelihoods.links import (
    IDENTITY,
    INVERSE,
    INVERSE_SQUARED,
    LOG,
    LOGIT,
    SQRT,
    Link,
)
from probreg.likelihoods.tails import TAILS

# replaced by the functions of a family and its links: `probreg.compiled.density.with_functions`
row: Any = None
default_predictor: Any = None  # eta -> eta by the default link, and its slope
tails: Any = None
power: Any = None


def _row_by_link(y: Any, eta: float, t: Any) -> Row:
    by_default, slope = default_predictor(eta)
    log_p, over_default, over_aux = row(y, by_default, t)
    if slope != slope:  # nan: no mean has this eta
        return -inf, 0.0, 0.0
    return log_p, over_default * slope, over_aux


def _log_of_power(eta: float) -> tuple[float, float]:
    """log mu of mu = eta^power, eta > 0."""
    if eta > 0.0:
        return power * log(eta), power / eta
    return 0.0, nan


def _logit(eta: float) -> tuple[float, float]:
    log_p, rate_p, log_q, rate_q = tails(eta)
    return log_p - log_q, rate_p + rate_q


def _exponential(eta: float) -> tuple[float, float]:
    mu = exp(eta)
    return mu, mu


def _reciprocal(eta: float) -> tuple[float, float]:
    mu = 1.0 / eta
    return mu, -mu * mu


def _predictor_by_default(default: Link, link: Link) -> Callable[..., Any] | None:
    """Return the function from eta of a link to eta of the default link, with its slope, or None."""
    powers = {IDENTITY: 1.0, SQRT: 2.0, INVERSE: -1.0, INVERSE_SQUARED: -0.5}
    if default is LOGIT and link in TAILS:
        return with_functions(_logit, {"tails": TAILS[link].compiled})
    if default is LOG and link in powers:
        return with_functions(_log_of_power, {"power": powers[link]})
    if default is IDENTITY:
        return {LOG: _exponential, INVERSE: _reciprocal}.get(link)
    return None


@cache
def density_by_link(
    density: CompiledDensity, default: Link, link: Link
) -> CompiledDensity | None:
    """Return the compiled density of a family for a link, from its density for the default link.

    None if the density has no `row` with at most one nuisance parameter, or if there is no compiled function between the two links.

    Examples
    --------
    >>> from probreg.likelihoods import Poisson
    >>> density = density_by_link(Poisson.compiled_density, LOG, SQRT)
    >>> log_p, slope, _ = density.row(3.0, 2.0, ())
    >>> round(log_p, 6), slope  # 3 log 4 - 4, and its slope 3 - 4
    (0.158883, -1.0)
    """
    if link is default:
        return density
    change = _predictor_by_default(default, link)
    if change is None or density.row is None or density.fills_slopes:
        return None
    parts = {"row": density.row, "default_predictor": change}
    return CompiledDensity(
        with_functions(_row_by_link, parts), settings=density.settings
    )
