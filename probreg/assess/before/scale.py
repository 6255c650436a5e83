"""Scales of the columns, and what the scale of a prior means for each of them."""

from typing import ClassVar, NamedTuple

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.assess.before.rank import surplus
from probreg.data.level_moments import spreads_of_columns
from probreg.data.rows import full_weights
from probreg.data.unwritten import LazyColumns
from probreg.model.model import Model
from probreg.priors import AffinePrior, BlockPrior, GaussianPrior, joint
from probreg.priors.joint import first_of

Array = np.ndarray
APART = 1e4  # ratio of standard deviations that is worth a note
NEAR_ONE = (
    0.1,
    10.0,
)  # standard deviations for which one prior scale means much the same
PINNED = 0.01  # a prior that lets a one-sd change move the predictor by less holds the coefficient in place
STILL = 1e-6  # sd over size below which a column has fewer than ten significant digits of variation left


@CHECKS.register
class ScaleCheck(Check):
    """Fits standardise their columns, so that under a flat prior a scale is only a matter of reading; a prior
    is stated on the raw columns and means something else for each.

    >>> from probreg.priors import Normal
    >>> X = np.arange(4.0)[:, None] / 1000
    >>> y = [0, 1, 0, 1]
    >>> model = Model.from_arrays(X, y, columns=["dose"], likelihood="bernoulli", prior=Normal(1.0))
    >>> print(ScaleCheck().run(model)[0].sentence)
    the normal prior lets one sd of dose (0.00112)
    move the linear predictor by about 0.00112: it all but fixes it
    """

    name: ClassVar[str] = "scale"
    question: ClassVar[str] = (
        "Are the columns on scales that the priors were meant for?"
    )
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        out = self._still(model) + self._report_different_scales(model)
        d = model.design
        outcomes = model.likelihood.predictors_apart
        stated = joint(
            model.prior, d.columns, d.free, outcomes=outcomes
        ).blocks  # before they are bound to the rows
        for block, before in zip(
            first_of(model.joint.blocks), first_of(stated), strict=True
        ):
            if model.design.of_terms[
                list(block.columns)
            ].all():  # its columns have no unit of their own
                continue
            out += self._report_prior_effect(
                model, block, of_rows=before.prior.data_dependent
            )
        return out or self.fine(
            "the columns vary on comparable scales, and no prior is far from them"
        )

    def _still(self, model: Model) -> list[Finding]:
        m = _spreads(model)
        out = []
        size = np.hypot(m.mean, m.scale)
        for j in np.flatnonzero((m.scale < STILL * size) & (m.scale > 1e-13 * size)):
            name = model.design.columns[j]
            sentence = f"{name} is nearly constant: it varies by {m.scale[j]:.3g} about {m.mean[j]:.6g}"
            out.append(
                self.say(
                    Verdict.WARNING,
                    sentence,
                    "subtract the constant before it is stored: digits are lost",
                    (name,),
                )
            )
        return out

    def _report_different_scales(self, model: Model) -> list[Finding]:
        m = _spreads(model)
        varied = np.flatnonzero(
            (m.scale > 1e-13 * np.hypot(m.mean, m.scale)) & ~model.design.of_terms
        )
        if (
            len(varied) < 2
            or (ratio := m.scale[varied].max() / m.scale[varied].min()) < APART
        ):
            return []
        low, high = (
            model.design.columns[varied[f(m.scale[varied])]]
            for f in (np.argmin, np.argmax)
        )
        sentence = (
            f"the standard deviations of {high} and {low} differ by a factor of {ratio:.3g}, "
            "and so will their coefficients"
        )
        remedy = "harmless to the arithmetic; change a unit to read them side by side"
        return [self.say(Verdict.NOTE, sentence, remedy, (high, low))]

    def _report_prior_effect(
        self, model: Model, block: BlockPrior, *, of_rows: bool
    ) -> list[Finding]:
        """Return the effect that a prior allows to one sd of each column, against 1 on the link scale, sigma, or the
        sd of y."""
        scale = prior_scale(block)
        spreads = _spreads(model)
        if scale is None:
            return []
        sd = spreads.scale
        if model.likelihood.noise_scale is not None and not block.prior.sigma_units:
            unit = spreads.y_scale
        else:
            unit = 1.0
        far = (sd > 0) & ((sd < NEAR_ONE[0]) | (sd > NEAR_ONE[1]))
        rows = model.design.sample.X
        met = [
            (s * sd[j], j)
            for s, j in zip(scale, block.columns, strict=True)
            if sd[j] > 0 and not _indicator(rows, j)
        ]
        pinned = [
            (move, j) for move, j in met if move < PINNED * unit and (of_rows or far[j])
        ]
        other = [
            (move, j)
            for move, j in met
            if move >= PINNED * unit and far[j] and not of_rows
        ]
        return [
            self._move(model, block, moves, verdict, of_rows=of_rows)
            for moves, verdict in ((pinned, Verdict.WARNING), (other, Verdict.NOTE))
            if moves
        ]

    def _move(
        self,
        model: Model,
        block: BlockPrior,
        moves: list[tuple[float, int]],
        verdict: Verdict,
        *,
        of_rows: bool,
    ) -> Finding:
        columns = tuple(model.design.columns[j] for _, j in moves)
        m = _spreads(model)
        of = ""
        if block.prior.sigma_units:
            of = " sigma"
        elif model.likelihood.noise_scale is not None:
            of = f" (sd of {model.design.response}: {m.y_scale:.3g})"
        fixed = verdict is Verdict.WARNING
        if len(moves) == 1:
            ((move, j),) = moves
            what = f"one sd of {columns[0]} ({m.scale[j]:.3g})"
            by = f"about {move:.3g}"
            it = "it"
        else:
            low = min(moves)[0]
            high = max(moves)[0]
            few = ", ".join(columns[:4]) + (
                f" and {len(columns) - 4} more" if len(columns) > 4 else ""
            )
            what = f"one sd of {few}"
            by = f"{low:.3g} to {high:.3g}"
            it = "them"
        sentence = (
            f"the {block.prior.name} prior lets {what} move the linear predictor by {by}{of}"
            + f": it all but fixes {it}" * fixed
        )
        if of_rows:
            remedy = "state a greater scale"
        else:
            remedy = f"state the scale of {'it' if len(moves) == 1 else 'each'} in its own units, or on standardised columns"
            remedy += " (scaled=True)" if isinstance(block.prior, AffinePrior) else ""
        return self.say(verdict, sentence, remedy, columns)


class _Spreads(NamedTuple):
    mean: Array  # (p,)
    scale: Array  # (p,), divisor n
    y_scale: float


def _spreads(model: Model) -> _Spreads:
    """Means and standard deviations; those of columns by far more than rows without products of columns."""
    d = model.design
    if isinstance(d.X, LazyColumns) and d.coded:
        mean, scale = spreads_of_columns(d.X, full_weights(d.weights, d.n))
        return _Spreads(mean, scale, d.y_scale if d.observed.ndim == 1 else np.nan)
    if surplus(model) is None:
        return _Spreads(d.moments.mean, d.moments.scale, d.moments.y_scale)
    w = full_weights(d.weights, d.n)
    mean = w @ d.X / w.sum()
    scale = np.sqrt(w @ (d.X - mean) ** 2 / w.sum())
    y = d.observed
    if y.ndim == 1:
        y_scale = float(np.sqrt(w @ (y - w @ y / w.sum()) ** 2 / w.sum()))
    else:
        y_scale = np.nan
    return _Spreads(mean, scale, y_scale)


def prior_scale(block: BlockPrior) -> Array | None:
    """One scale per column of a block, or None when its prior has none.

    >>> from probreg.priors import Normal
    >>> from probreg.priors.joint import BlockPrior
    >>> prior_scale(BlockPrior(Normal(2.0), (1, 2)))
    array([2., 2.])
    """
    q = len(block.columns)
    match block.prior:
        case GaussianPrior() as prior if (sd := prior.independent(q)) is not None:
            if np.isfinite(sd).all():
                return np.asarray(sd)
            return None
        case GaussianPrior() as prior if np.all(
            diagonal := np.diag(prior.precision(q))
        ):
            return np.asarray(diagonal**-0.5)
        case AffinePrior() as prior:
            return np.broadcast_to(prior.scales, q)
    return None


def _indicator(X: Array, j: int) -> bool:
    if isinstance(X, LazyColumns) and X.of_indicators and j not in X.head_places:
        return True
    x = X[:, j]
    return bool(np.all((x == 0) | (x == 1)))
