"""How far a rung is from the reference, what of it is Monte Carlo error, and what follows for the sampler."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from probreg.assess.audit.rungs import EXACT, PosteriorMoments, Rung

Array = np.ndarray
DIFFERENCE = 0.1  # SD: a mean that is nearer is as good as one of 100 exact draws
RATIO = 0.1  # of an SD
_LEVEL = 0.01  # with which noise alone may be called a difference, over all comparisons of a rung


class Agreement(Enum):
    """How a rung stands to the reference; the value is what a table says."""

    REFERENCE = "reference"
    AGREES = "agrees"
    UNCLEAR = "within noise"
    DIFFERS = "differs"
    REFUSED = "refused"
    NONE = ""


class Distance(NamedTuple):
    """A rung less the reference, parameter by parameter."""

    difference: Array  # (k,) of the means, in SD of the reference
    difference_error: Array  # (k,) Monte Carlo standard error of that
    ratio: Array  # (k,) of the standard deviations
    ratio_error: Array  # (k,)

    @property
    def worst(self) -> int:
        """The parameter with the largest difference."""
        return int(np.nanargmax(np.abs(self.difference)))


def moment_distance(rung: PosteriorMoments, reference: PosteriorMoments) -> Distance:
    sd = np.where(np.isfinite(reference.sd), reference.sd, np.nan)
    return Distance(
        (rung.mean - reference.mean) / sd,
        np.hypot(rung.mean_error, reference.mean_error) / sd,
        rung.sd / sd,
        np.hypot(rung.sd_error, reference.sd_error),
    )


def agreement(between: Distance) -> Agreement:
    """Differs: some mean or standard deviation is off by more than matters and by more than noise explains. Within noise:
    off by more than matters, but noise would explain it, or the noise of a mean is itself more than matters.

    >>> one = np.array([0.3]); none = np.zeros(1)
    >>> agreement(Distance(one, one / 20, 1 + none, none)).value, agreement(Distance(one, one, 1 + none, none)).value
    ('differs', 'within noise')
    """
    off = np.concatenate([np.abs(between.difference) / DIFFERENCE, np.abs(np.log(between.ratio)) / np.log1p(RATIO)])
    noise = np.concatenate([between.difference_error / DIFFERENCE, between.ratio_error / np.log1p(RATIO)])
    far = off > 1.0
    if not far.any():
        return Agreement.AGREES if (between.difference_error <= DIFFERENCE).all() else Agreement.UNCLEAR
    z = float(ndtri(1.0 - _LEVEL / (2.0 * len(off))))
    return Agreement.DIFFERS if (far & (off > z * noise)).any() else Agreement.UNCLEAR


def reference_of(rungs: Mapping[str, Rung]) -> str | None:
    """The exact rung, else NUTS where it ended with draws."""
    return next((k for k in (*EXACT, "nuts") if k in rungs and rungs[k].moments is not None), None)


def needed(rungs: Mapping[str, Rung], stands: Mapping[str, Agreement]) -> bool | None:
    """Whether NUTS was: no where an exact rung or importance sampling will do, None where that cannot be told."""
    if any(k in rungs and rungs[k].good for k in EXACT):
        return False
    importance, nuts = rungs["importance"], rungs["nuts"]
    if not importance.good:
        return True if nuts.good else None
    if stands["importance"] is Agreement.AGREES:
        return False
    return True if stands["importance"] is Agreement.DIFFERS and nuts.good else None


def verdict(rungs: Mapping[str, Rung], stands: Mapping[str, Agreement], apart: Mapping[str, Distance]) -> str:
    """The same as a sentence with its numbers."""
    if exact := next((k for k in EXACT if k in rungs and rungs[k].good), None):
        others = [f"{k} {_by(stands[k], apart[k])}" for k in ("importance", "nuts") if k in apart]
        return f"NUTS was not needed: {exact} is exact" + (f"; {', '.join(others)}." if others else ".")
    importance, nuts, need = rungs["importance"], rungs["nuts"], needed(rungs, stands)
    caution = "" if nuts.good else f" (nuts: {nuts.status})"
    if not importance.good:
        why = f"k-hat {importance.k_hat:.2f}" if importance.fit else importance.status
        start = "NUTS was needed" if need else "No rung gave a posterior to rely on"
        return f"{start}: importance sampling will not do ({why}){caution}."
    if "importance" not in apart:
        return f"NUTS gave nothing to compare with{caution}; importance sampling vouches for itself, k-hat {importance.k_hat:.2f}."
    said = f"importance {_by(stands['importance'], apart['importance'])} at k-hat {importance.k_hat:.2f}"
    if need:
        return f"NUTS was needed: {said}; another mode, or tails out of its reach."
    if need is None:
        return f"Whether NUTS was needed is open: {said}{caution}; raise draws."
    gain = (importance.ess / importance.seconds) / (nuts.ess / nuts.seconds)
    return f"NUTS was not needed: {said}, with {gain:.3g} times the effective draws per second{caution}."


def _by(stands: Agreement, apart: Distance) -> str:
    worst = apart.worst
    size = f"{abs(apart.difference[worst]):.2g} SD (Monte Carlo error {apart.difference_error[worst]:.2g})"
    words = {Agreement.AGREES: "agrees to", Agreement.UNCLEAR: "is off, within noise, by"}
    return f"{words.get(stands, 'differs by')} {size}"
