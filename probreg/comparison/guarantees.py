"""Fits beside one another by what can be promised of them on new rows."""

from collections.abc import Mapping
from typing import Any

from probreg.assess.guarantee import RiskBounds, guarantee
from probreg.fits.fit import Fit


def guarantees_of(
    fits: Mapping[str, Fit], settings: Mapping[str, Any]
) -> dict[str, RiskBounds]:
    """`guarantee` of each of K fits at delta / K, so that all hold at once and the least may be chosen."""
    delta = settings.get("delta", 0.05)
    if isinstance(delta, float):
        share = delta / len(fits)
    else:
        share = delta
    return {
        name: guarantee(fit, **{**settings, "delta": share})
        for name, fit in fits.items()
    }


def guarantee_notes(guarantees: Mapping[str, RiskBounds]) -> list[str]:
    """The first line of each, on rows that its fit has not seen, and what they hold for together."""
    texts = []
    for name, bounds in guarantees.items():
        line = bounds.held_out
        words = bounds.losses[0].words
        if line.bound is None:
            texts.append(f"guarantee of {name}: none, {line.why}")
            continue
        limit = f"{line.bound.value:.4g}"
        if line.bound.vacuous:
            verdict = f"says nothing, {limit} is not below {line.bound.most:.4g}"
        else:
            verdict = f"at most {limit}"
        texts.append(
            f"guarantee of {name}: {words} {verdict} on new rows ({line.bound.theorem})"
        )
    sure = 1 - sum(bounds.delta for bounds in guarantees.values())
    return [
        *texts,
        f"these guarantees hold with probability {sure:.4g} at once, for independent rows",
    ]
