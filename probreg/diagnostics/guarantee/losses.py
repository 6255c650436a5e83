"""Bounded losses: of predictions clipped to a given range, and of classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from probreg.arguments.arrays import floats
from probreg.data import Design
from probreg.errors import DataError, Incompatible
from probreg.likelihoods import Likelihood, OfClasses, OfTrials

Array = np.ndarray
LossName = Literal["squared", "absolute", "insensitive", "zero_one", "brier"]
_NO_RANGE = "bounds need a bounded loss, and so a range of {name} known before the data, y_range=(lo, hi)"
_FROM_SAMPLE = "a range taken from the sample does not hold for new rows: give the possible range of {name}"


@dataclass(frozen=True, eq=False)
class BoundedLoss:
    """A loss of a mean h at a response y, in [0, most].

    Attributes
    ----------
    name, words : str
        Its name and description.
    most : float
        The largest possible loss.
    width : float or None
        M, with |h - y| <= M; None for classes.
    middle : float or None
        The largest loss of a constant prediction in the middle of the range.
    epsilon : float or None
        Errors up to epsilon have loss 0 if the loss is |h - y| beyond it; None for other losses.
    of_probabilities : bool
        The loss increases with |h - y|; False if it depends only on the predicted class.
    function : callable
        Losses (..., n) of means (..., n) or (..., n, K) at responses (n,) or (n, K).
    """

    name: str
    words: str
    most: float
    function: Callable[[Array, Array], Array]
    width: float | None = None
    middle: float | None = None
    epsilon: float | None = None
    of_probabilities: bool = True


def losses_for(
    likelihood: Likelihood,
    design: Design,
    ends: tuple[float, float] | None,
    name: LossName | None,
) -> tuple[BoundedLoss, ...]:
    """Return the bounded losses of a response in the range `ends`: one for a number, two for classes."""
    if ends is None:
        assert isinstance(likelihood, OfClasses)
        losses = _of_classes(
            likelihood, likelihood.response(design.observed[:1]).ndim == 1
        )
    else:
        losses = _of_numbers(*ends, likelihood.insensitive)
    if name is None:
        return losses if ends is None else losses[:1]
    chosen = tuple(loss for loss in losses if loss.name == name)
    if not chosen:
        able = ", ".join(loss.name for loss in losses)
        raise Incompatible(
            f"{likelihood.named} response has no bounded loss {name!r}; it has: {able}"
        )
    return chosen


def _of_numbers(lo: float, hi: float, epsilon: float | None) -> tuple[BoundedLoss, ...]:
    """Return squared and absolute errors of clipped predictions, preceded by errors beyond epsilon if the likelihood has one."""
    M = hi - lo
    clipped = f"of predictions clipped to [{lo:g}, {hi:g}]"

    def apart(h: Array, y: Array) -> Array:
        return np.abs(np.clip(h, lo, hi) - y)

    squared = BoundedLoss(
        "squared",
        f"squared error {clipped}",
        M**2,
        lambda h, y: np.square(apart(h, y)),
        M,
        M**2 / 4,
    )
    absolute = BoundedLoss(
        "absolute", f"absolute error {clipped}", M, apart, M, M / 2, 0.0
    )
    if epsilon is None:
        return squared, absolute
    if epsilon >= M:
        raise DataError(
            f"epsilon={epsilon:g}: expected less than the width {M:g} of y_range"
        )
    beyond = BoundedLoss(
        "insensitive",
        f"error beyond {epsilon:g} {clipped}",
        M - epsilon,
        lambda h, y: np.maximum(0.0, apart(h, y) - epsilon),
        M,
        max(0.0, M / 2 - epsilon),
        epsilon,
    )
    return beyond, squared, absolute


def _of_classes(likelihood: OfClasses, pair: bool) -> tuple[BoundedLoss, ...]:
    """Return the losses of the probability of an event (`pair`), or of the K class probabilities."""

    def brier(h: Array, y: Array) -> Array:
        # (p - y)^2 of an event, sum_j (p_j - y_j)^2 of K classes
        if pair:
            return np.square(h - y)
        return np.square(h - y).sum(-1)

    def misclassification(h: Array, y: Array) -> Array:
        if pair:
            wrong = (h >= 0.5) != (y >= 0.5)
        else:
            wrong = h.argmax(-1) != y.argmax(-1)
        return wrong.astype(float)

    words = "Brier score" + " of the share of trials" * isinstance(likelihood, OfTrials)
    loss = BoundedLoss(
        "brier",
        words,
        1.0 if pair else 2.0,
        brier,
        1.0 if pair else None,
        0.25 if pair else None,
    )
    if isinstance(likelihood, OfTrials):
        return (loss,)
    return BoundedLoss(
        "zero_one",
        "share of wrong classes",
        1.0,
        misclassification,
        of_probabilities=False,
    ), loss


def read_range(
    y_range: Any, design: Design, likelihood: Likelihood
) -> tuple[float, float] | None:
    """Return (lo, hi), None for classes. DataError without a range, for a y outside it, and for a range taken from these rows."""
    if isinstance(likelihood, OfClasses):
        if y_range is not None:
            raise DataError("losses of classes are bounded: leave y_range out")
        return None
    name = design.response
    y = design.observed
    if y_range is None:
        raise DataError(f"{_NO_RANGE}: {_FROM_SAMPLE}".format(name=name))
    ends = floats(y_range, "y_range")
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise DataError(f"y_range={y_range!r}: expected two finite numbers lo < hi")
    lo = float(ends[0])
    hi = float(ends[1])
    bad = np.flatnonzero((y < lo) | (y > hi))
    if len(bad):
        row = int(design.places[bad[0]])
        raise DataError(
            f"{name} is {y[bad[0]]:g} in row {row}, outside y_range ({lo:g}, {hi:g})"
        )
    for end, extreme in zip((lo, hi), (y.min(initial=np.inf), y.max(initial=-np.inf))):
        # an end that one row has to the last digit, and that has more than six of them, was not known before that row
        if end == extreme and end != float(f"{end:.6g}") and np.sum(y == end) == 1:
            raise DataError(
                f"y_range ends at {end!r}, the most extreme {name} here: {_FROM_SAMPLE.format(name=name)}"
            )
    return lo, hi
