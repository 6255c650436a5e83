"""What a reader has to know of a comparison: what does not exist and why, sigma, equivalent penalties."""

from collections.abc import Iterable, Mapping

import numpy as np

from probreg.comparison.numbers import FitTable, unlike
from probreg.comparison.printed_table import LARGEST, LONG
from probreg.comparison.prior_terms import rowless
from probreg.comparison.same_question import differing_terms
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.inference.varying import OF_EFFECTS

WEIGHT_NOTE = (
    "prior weight: the prior's part of the precision, (P H^-1)_jj at the estimate, P and H the curvatures of log prior and "
    "log posterior"
)
NO_WEIGHT_NOTE = "prior weight: not defined at a kink of the log prior, where it is not concave, or where H is singular to rounding"
EFFECTS_NOTE = "fits have other effects by group: their coefficients are left out"
TERMS_NOTE = "fits have other columns for a smooth function or process: its coefficients are left out"


def terms_note(of: FitTable) -> list[str]:
    """That the columns of a term are not the same in all fits, where they are not."""
    apart = differing_terms(of.fits.values())
    if not apart:
        return []
    grouped = {
        c
        for f in of.fits.values()
        for t in f.model.design.recipe.grouped.values()
        for c in t.columns
    }
    return [EFFECTS_NOTE if apart <= grouped else TERMS_NOTE]


def notes(of: FitTable, spellings: Mapping[str, str]) -> list[str]:
    """What a reader has to know of the table: what does not exist and why, sigma, equivalent penalties."""
    said: dict[str, list[str]] = {}  # what holds of several fits is said once
    for name in of.fits:
        for note in _fit_notes(of, name, spellings):
            said.setdefault(note, []).append(name)
    out = [f"{', '.join(names)}: {note}" for note, names in said.items()]
    weights = of.data["prior_weight"].where(of.data["kind"].isin(list(KIND_WORDS)), 0.0)
    if weights.fillna(1.0).any():
        out.append(WEIGHT_NOTE)
    weights = weights.sel(
        param=[p for p in of.data["param"].values if not str(p).startswith(OF_EFFECTS)]
    )
    if any(
        weights.sel(fit=name).isnull().any()
        for name, fit in of.fits.items()
        if not rowless(fit)
    ):
        out.append(NO_WEIGHT_NOTE)
    out += terms_note(of)
    base = of.data.sel(fit=of.baseline)
    lost = np.isnan(base["error"].values) & (base["kind"].values != "held")
    if lost.any():
        out.append(
            f"no difference is given for {_join_names(base['param'].values[lost])}: {of.baseline} has no SE there"
        )
    return out


def _join_names(names: Iterable[str]) -> str:
    """Join names by commas; only the first of very many.

    >>> _join_names(["a", "b"]), _join_names([f"x{j}" for j in range(100)]).split(", ")[-2:]
    ('a, b', ['x18', 'x19 and 80 more'])
    """
    every = list(names)
    kept = every if len(every) <= LONG else every[:LARGEST]
    return ", ".join(kept) + (
        f" and {len(every) - len(kept)} more" if len(kept) < len(every) else ""
    )


def _fit_notes(of: FitTable, name: str, spellings: Mapping[str, str]) -> list[str]:
    here = of.data.sel(fit=name)
    fit = of.fits[name]
    gone = here["param"].values[
        np.isnan(here["estimate"].values) & (here["kind"].values != "")
    ]
    if len(gone):
        out = [f"no estimate of {_join_names(gone)} exists: {fit.described['status']}"]
    else:
        out = []
    out += fit.described["notes"]
    other = unlike(of.fits[of.baseline], fit)
    if other:
        out.append(
            f"no difference is given for {', '.join(other)}, which is not the same quantity under the likelihood of {of.baseline}"
        )
    seen: dict[str, list[str]] = {}
    for param, text, lam in zip(
        here["param"].values, here["penalty"].values, here["lam"].values
    ):
        if text:
            seen.setdefault(
                text
                + (f" (RSS + {lam:.6g} R at its sigma)" if np.isfinite(lam) else ""),
                [],
            ).append(param)
    penalties = [
        f"penalty {text} on {_join_names(params)}" for text, params in seen.items()
    ]
    out += (
        penalties
        if len(penalties) <= LONG
        else [
            *penalties[:LARGEST],
            f"{len(penalties) - LARGEST} more penalties in .to_pandas()",
        ]
    )
    if name in spellings:
        out.append(f"the mode of this model is scikit-learn's {spellings[name]}")
    if rowless(fit) and here["prior_weight"].isnull().any():
        out.append(
            f"{fit.model.design.rows_absent}, so that some prior weights are not known"
        )
    return out
