"""Likelihoods that are built from another one, their `base`: the common code of censored, truncated and mixed responses."""

from collections.abc import Callable
from functools import cache
from math import inf
from typing import Any

from probreg.arguments.scalars import with_article
from probreg.compiled.density import CompiledDensity, Row, with_functions
from probreg.errors import Incompatible
from probreg.likelihoods.base import (
    IntervalLikelihood,
    Likelihood,
    ResponseOfBase,
    SmoothLikelihood,
    UnivariateLikelihood,
    from_base,
)
from probreg.likelihoods.location_scale import same_number

# replaced by the function of a family: `density_of_base`
interval: Any = None


class OfBase(ResponseOfBase, UnivariateLikelihood, SmoothLikelihood):
    """A likelihood with the linear predictor and nuisance parameters of another one, its `base`.

    It has no noise scale, because its density is not a function of the residual alone.
    """

    base: Likelihood
    exact_information = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.base, IntervalLikelihood):
            raise Incompatible(
                f"a {self.name} response needs the distribution function of its family with derivatives, and {self.base.named} "
                "likelihood has none; take one such as Gaussian(), Weibull() or LogLogistic()"
            )

        if self.base.default_aux:
            raise Incompatible(
                f"a {self.name} response needs the derivatives of its distribution function, and {self.base} has none: hold nu at a number"
            )

    @property
    def family(self) -> Any:
        """The base: an `IntervalLikelihood`, or a `CountLikelihood` for models of zeros."""
        return self.base

    nuisance = from_base()
    constants = from_base()
    at_zero = from_base()
    mean = from_base()
    link_mean_and_slope = from_base()
    information = from_base()  # for exact responses, used for starts

    @property
    def _compiled_interval(self) -> Callable[..., Any] | None:
        """The probability of an interval under the base in compiled code, if there is one."""
        return getattr(self.base, "compiled_interval", None)

    @property
    def _density_of_interval(self) -> CompiledDensity | None:
        """The density of a base with a distribution function in compiled code."""
        return self.family.compiled_density if self._compiled_interval else None

    @property
    def named(self) -> str:
        return with_article(f"{self.name} {self.base.name}".replace("_", " "))


def slopes_of_ends(a: float, b: float, s: float) -> Row:
    """log P(a < r <= b), r = (v(y) - eta) / s, and its slopes over eta and log s."""
    log_p, at_a, at_b = interval(a, b)
    over_scale = 0.0
    if a > -inf:
        over_scale += a * at_a
    if b < inf:
        over_scale -= b * at_b
    return log_p, (at_a - at_b) / s, over_scale


@cache
def density_of_base(
    template: Callable[..., Any],
    base: CompiledDensity,
    interval: Callable[..., Any] | None = None,
    transform: Callable[..., Any] = same_number,
) -> CompiledDensity:
    """The compiled density of a row that calls the row of a base, and perhaps `interval`."""
    parts: dict[str, Any] = {"row": base.row, "transform": transform}
    if interval is not None:
        parts["slopes_of_ends"] = with_functions(slopes_of_ends, {"interval": interval})
    density_row = with_functions(template, parts)
    return CompiledDensity(density_row, settings=base.settings)


def symbolic_interval(
    tails_a: tuple[Any, Any], tails_b: tuple[Any, Any], is_interval: Any = None
) -> Any:
    """Return log P(a < Y <= b) of symbols, from log P(Y <= end) and log P(Y > end) of both ends. Rows that are no interval
    have any number with finite slopes."""
    import pytensor.tensor as pt

    below_a, beyond_a = tails_a
    below_b, beyond_b = tails_b
    is_in_upper_tail = pt.gt(below_a, beyond_a)
    larger = pt.switch(is_in_upper_tail, beyond_a, below_b)
    smaller = pt.switch(is_in_upper_tail, beyond_b, below_a)
    gap = larger - smaller
    if is_interval is not None:
        gap = pt.switch(is_interval, gap, 1.0)
    return larger + pt.log(-pt.expm1(-gap))
