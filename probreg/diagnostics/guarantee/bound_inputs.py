"""The inputs of every bound: the rows of a fit as independent observations, its bounded losses, and the settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from probreg.data import Design
from probreg.diagnostics.conformal.conformal import (
    blocks,
    predictive_size,
    rows_by_frequency,
)
from probreg.diagnostics.findings import NotApplicable
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.prediction import predictive
from probreg.likelihoods import Likelihood, OfClasses, OfTrials
from probreg.scores.bounds import Bound
from probreg.system.terminal import clean_lines

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
        losses = _losses_of_classes(
            likelihood, likelihood.response(design.observed[:1]).ndim == 1
        )
    else:
        losses = _losses_of_numbers(*ends, likelihood.insensitive)
    if name is None:
        return losses if ends is None else losses[:1]
    chosen = tuple(loss for loss in losses if loss.name == name)
    if not chosen:
        able = ", ".join(loss.name for loss in losses)
        raise Incompatible(
            f"{likelihood.named} response has no bounded loss {name!r}; it has: {able}"
        )
    return chosen


def _losses_of_numbers(
    lo: float, hi: float, epsilon: float | None
) -> tuple[BoundedLoss, ...]:
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


def _losses_of_classes(likelihood: OfClasses, pair: bool) -> tuple[BoundedLoss, ...]:
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
    loss = BoundedLoss("brier", words, 2.0, brier)
    if pair:
        loss = BoundedLoss("brier", words, 1.0, brier, 1.0, 0.25)
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
    y_range: tuple[float, float] | None, design: Design, likelihood: Likelihood
) -> tuple[float, float] | None:
    """Return (lo, hi), None for classes. DataError without a range, for a y outside it, and for a range taken from these rows;
    Incompatible for censored rows."""
    if isinstance(likelihood, OfClasses):
        if y_range is not None:
            raise DataError("losses of classes are bounded: leave y_range out")
        return None
    name = design.response
    y = np.empty(0)
    if design.n:
        likelihood.require_exact(
            design.observed, "a risk bound", "compare fits by fit.loo()"
        )
        y = likelihood.response(design.observed)
    if y_range is None:
        raise DataError(f"{_NO_RANGE}: {_FROM_SAMPLE}".format(name=name))
    lo, hi = y_range
    bad = np.flatnonzero((y < lo) | (y > hi))
    if len(bad):
        row = int(design.places[bad[0]])
        raise DataError(
            f"{name} is {y[bad[0]]:g} in row {row}, outside y_range ({lo:g}, {hi:g})"
        )
    for end, extreme in zip((lo, hi), (y.min(initial=np.inf), y.max(initial=-np.inf))):
        # an end that equals the value of a row and has more than six digits was not known before this row
        if end == extreme and end != float(f"{end:.6g}") and np.sum(y == end) == 1:
            raise DataError(
                f"y_range ends at {end!r}, the most extreme {name} here: {_FROM_SAMPLE.format(name=name)}"
            )
    return lo, hi


@dataclass(frozen=True)
class BoundLine:
    """One theorem for one fit: its bound, or the reason why there is none, and notes on its constants."""

    theorem: str
    loss: str
    bound: Bound | None
    why: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return clean_lines(self.description)

    @property
    def description(self) -> str:
        """Describe the bound with its parts, or the reason why there is none."""
        if self.bound is None:
            return f"{self.theorem}: none, {self.why}"
        b = self.bound
        parts = [f"{b.empirical:.4g}"] + [
            f"{v:.4g}" for v in (b.complexity, b.deviation) if v
        ]
        limit = f"at most {b.value:.4g} = {' + '.join(parts)}"
        if b.vacuous:
            limit = (
                f"vacuous, {b.value:.4g} = {' + '.join(parts)} reaches the largest loss"
            )
        return f"{b.theorem}: {limit} ({b.source})"


@dataclass(frozen=True, eq=False)
class BoundInputs:
    """A fit and the settings of its bounds; `chosen_from` scales were compared on these rows, None for any number of them."""

    fit: Fit
    design: Design  # a row of weight w as w rows
    losses: tuple[BoundedLoss, ...]
    y_range: tuple[float, float] | None
    delta: float
    chosen_from: int | None
    row_norm: float | None
    draws: int
    seed: int

    @property
    def n(self) -> int:
        return self.design.n

    @property
    def share(self) -> float:
        """The share of delta for each of the scales that were compared."""
        return self.delta / (self.chosen_from or 1)

    def line(
        self, theorem: str, loss: BoundedLoss, bound: Bound, *notes: str
    ) -> BoundLine:
        """Return the line of a bound, with its notes and the cost of the choice among scales."""
        G = self.chosen_from or 1
        if G > 1:
            notes += (f"delta / {G} pays for the choice among {G} scales",)
        return BoundLine(theorem, loss.name, bound, notes=notes)

    def lines_or_reason(
        self, theorem: str, find: Callable[["BoundInputs"], list[BoundLine]]
    ) -> list[BoundLine]:
        """Return the lines of a theorem, or one line with the reason why it does not apply."""
        try:
            return find(self)
        except NotApplicable as reason:
            return [BoundLine(theorem, self.losses[0].name, None, str(reason))]

    @cached_property
    def response(self) -> Array:
        """y on the scale of the mean, (n,) or (n, K)."""
        return self.fit.model.likelihood.response(self.design.observed)

    @cached_property
    def mean(self) -> Array:
        """The predictions of the fit at its own rows."""
        return mean_at(self.fit, self.design)

    def risk(self, loss: BoundedLoss) -> float:
        """R^ of the fit on its own rows."""
        return float(loss.function(self.mean, self.response).mean())


def mean_at(fit: Fit, design: Design) -> Array:
    """E[y] (n,) or (n, K) at the rows of a design."""
    parts = blocks(design, predictive_size(fit))
    return np.concatenate([predictive(fit, part).mean() for part in parts])


def scale_name(likelihood: Likelihood) -> str:
    """Return the nuisance parameter that scales squared errors or errors beyond epsilon; "" for other likelihoods."""
    if likelihood.insensitive is not None:
        return likelihood.nuisance[0]
    return likelihood.noise_scale or ""


def flat_columns(fit: Fit) -> str:
    """List the first columns with a flat prior; "" if there is none."""
    flat = np.flatnonzero(~fit.model.joint.informative)
    suffix = ", ..." if len(flat) > 3 else ""
    return ", ".join(fit.model.design.columns[j] for j in flat[:3]) + suffix


def independent_rows(fit: Fit) -> Design:
    """Return the rows of a fit, a row of weight w as w rows; Incompatible for weights that are not frequencies."""
    design = fit.model.design
    design.need_rows("a bound from the rows of the fit", "fit a part that is in memory")
    if design.weight_kind != "frequency":
        raise Incompatible(
            f"bounds need identically distributed rows, and these have {design.weight_kind} weights: only frequency weights are "
            "allowed"
        )
    return rows_by_frequency(design)[0]


def refuse_same_rows(fitted: Design, new: Design) -> None:
    """DataError for data that are the rows of the fit, in any order."""
    if fitted.n != new.n or fitted.X.shape != new.X.shape:
        return
    first, second = (np.column_stack([d.X, d.observed]) for d in (fitted, new))
    if np.array_equal(first[np.lexsort(first.T)], second[np.lexsort(second.T)]):
        raise DataError(
            f"data are the {new.n} rows of the fit: pass rows that the fit has not used"
        )
