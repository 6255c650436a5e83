"""Comparison of fits by risk bounds on new rows."""

from collections.abc import Mapping
from typing import Any

from probreg.assess.guarantee import RiskBounds, guarantee
from probreg.fits.fit import Fit


def guarantees_of(
    fits: Mapping[str, Fit], settings: Mapping[str, Any]
) -> dict[str, RiskBounds]:
    """Return `guarantee` of each of K fits at delta / K: all bounds are valid at once, so you may choose the smallest."""
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
    """Return the held-out bound of each fit as text, and the joint probability of all of them."""
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
