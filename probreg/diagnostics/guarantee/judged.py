"""The inputs of every bound: the rows of a fit as independent observations, its losses, and the settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.data import Design
from probreg.diagnostics.conformal.methods import (
    blocks,
    predictive_at,
    predictive_size,
    rows_by_frequency,
)
from probreg.diagnostics.findings import NotApplicable
from probreg.diagnostics.guarantee.losses import BoundedLoss
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import Likelihood
from probreg.priors import Prior
from probreg.scores.bounds import Bound
from probreg.system.terminal import clean_lines

Array = np.ndarray


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
        if not b.applies:
            limit = "does not apply"
        elif b.vacuous:
            limit = (
                f"vacuous, {b.value:.4g} = {' + '.join(parts)} reaches the largest loss"
            )
        return f"{b.theorem}: {limit} ({b.source})"


@dataclass(frozen=True, eq=False)
class Judged:
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
        self, theorem: str, find: Callable[["Judged"], list[BoundLine]]
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
    return np.concatenate([predictive_at(fit, part).mean() for part in parts])


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


def relative_prior(fit: Fit) -> bool:
    """Return whether a prior is relative to the rows."""
    prior = fit.model.prior
    return any(
        p.data_dependent
        for p in ([prior] if isinstance(prior, Prior) else prior.values())
    )


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
