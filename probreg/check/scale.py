"""Scales of the columns, and what the scale of a prior means for each of them."""

from typing import ClassVar

import numpy as np

from probreg.check.base import CHECKS, Check, Finding, Verdict
from probreg.model import Model
from probreg.priors import Block, GaussianPrior, LocationScale

Array = np.ndarray
APART = 1e4  # ratio of standard deviations that is worth a note
NEAR_ONE = (0.1, 10.0)  # standard deviations for which one prior scale means much the same
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
    question: ClassVar[str] = "Are the columns on scales that the priors were meant for?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        out = self._still(model) + self._apart(model)
        for block in model.joint.blocks:
            out += self._meaning(model, block)
        return out or self.fine("the columns vary on comparable scales, and no prior is far from them")

    def _still(self, model: Model) -> list[Finding]:
        m, out = model.design.moments, []
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

    def _apart(self, model: Model) -> list[Finding]:
        m = model.design.moments
        varied = np.flatnonzero(m.scale > 1e-13 * np.hypot(m.mean, m.scale))
        if len(varied) < 2 or (ratio := m.scale[varied].max() / m.scale[varied].min()) < APART:
            return []
        low, high = (model.design.columns[varied[f(m.scale[varied])]] for f in (np.argmin, np.argmax))
        sentence = (
            f"the standard deviations of {high} and {low} differ by a factor of {ratio:.3g}, "
            "and so will their coefficients"
        )
        remedy = "harmless to the arithmetic; change a unit to read them side by side"
        return [self.say(Verdict.NOTE, sentence, remedy, (high, low))]

    def _meaning(self, model: Model, block: Block) -> list[Finding]:
        scale, sd = prior_scale(block), model.design.moments.scale
        if scale is None:
            return []
        far = (sd > 0) & ((sd < NEAR_ONE[0]) | (sd > NEAR_ONE[1]))
        wanted = [(s, j) for s, j in zip(scale, block.columns, strict=True) if far[j]]
        return [self._move(model, block, s * sd[j], j) for s, j in wanted if not _indicator(model.design.X[:, j])]

    def _move(self, model: Model, block: Block, move: float, j: int) -> Finding:
        """What a prior lets one sd of column j do, against 1 on the link scale, sigma, or the sd of y."""
        column, m, unit, of = model.design.columns[j], model.design.moments, 1.0, ""
        if block.prior.sigma_units:
            of = " sigma"
        elif "sigma" in model.likelihood.aux:
            unit, of = m.y_scale, f" (sd of {model.design.response}: {m.y_scale:.3g})"
        pinned = bool(move < PINNED * unit)
        sentence = (
            f"the {block.prior.name} prior lets one sd of {column} ({m.scale[j]:.3g}) "
            f"move the linear predictor by about {move:.3g}{of}" + ": it all but fixes it" * pinned
        )
        remedy = f"state the prior scale of {column} in its own units, or standardise it"
        return self.say(Verdict.WARNING if pinned else Verdict.NOTE, sentence, remedy, (column,))


def prior_scale(block: Block) -> Array | None:
    """One scale per column of a block, or None when its prior has none.

    >>> from probreg.priors import Normal
    >>> prior_scale(Block(Normal(2.0), (1, 2)))
    array([2., 2.])
    """
    q = len(block.columns)
    match block.prior:
        case GaussianPrior() as prior if np.all(diagonal := np.diag(prior.precision(q))):
            return np.asarray(diagonal**-0.5)
        case LocationScale() as prior:
            return np.broadcast_to(prior.scales, q)
    return None


def _indicator(x: Array) -> bool:
    return bool(np.all((x == 0) | (x == 1)))
