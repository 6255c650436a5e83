"""Notes for reading a comparison: missing values with their reasons, sigma, equivalent penalties."""

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


def terms_note(table: FitTable) -> list[str]:
    """Return the note that the columns of a term differ between fits, if they do."""
    differing = differing_terms(table.fits.values())
    if not differing:
        return []
    grouped = {
        c
        for f in table.fits.values()
        for t in f.model.design.recipe.grouped.values()
        for c in t.columns
    }
    return [EFFECTS_NOTE if differing <= grouped else TERMS_NOTE]


def notes(table: FitTable, spellings: Mapping[str, str]) -> list[str]:
    """Notes for reading the table: missing values with their reasons, sigma, equivalent penalties."""
    names_by_note: dict[
        str, list[str]
    ] = {}  # a note that applies to several fits is printed once
    for name in table.fits:
        for note in _fit_notes(table, name, spellings):
            names_by_note.setdefault(note, []).append(name)
    texts = [f"{', '.join(names)}: {note}" for note, names in names_by_note.items()]
    weights = table.data["prior_weight"].where(
        table.data["kind"].isin(list(KIND_WORDS)), 0.0
    )
    if weights.fillna(1.0).any():
        texts.append(WEIGHT_NOTE)
    weights = weights.sel(
        param=[
            p for p in table.data["param"].values if not str(p).startswith(OF_EFFECTS)
        ]
    )
    if any(
        weights.sel(fit=name).isnull().any()
        for name, fit in table.fits.items()
        if not rowless(fit)
    ):
        texts.append(NO_WEIGHT_NOTE)
    texts += terms_note(table)
    base = table.data.sel(fit=table.baseline)
    undefined = np.isnan(base["error"].values) & (base["kind"].values != "held")
    if undefined.any():
        texts.append(
            f"no difference is given for {_join_names(base['param'].values[undefined])}: {table.baseline} has no SE there"
        )
    return texts


def _join_names(names: Iterable[str]) -> str:
    """Join names by commas; only the first of very many.

    >>> _join_names(["a", "b"]), _join_names([f"x{j}" for j in range(100)]).split(", ")[-2:]
    ('a, b', ['x18', 'x19 and 80 more'])
    """
    listed = list(names)
    shown = listed if len(listed) <= LONG else listed[:LARGEST]
    return ", ".join(shown) + (
        f" and {len(listed) - len(shown)} more" if len(shown) < len(listed) else ""
    )


def _fit_notes(table: FitTable, name: str, spellings: Mapping[str, str]) -> list[str]:
    row = table.data.sel(fit=name)
    fit = table.fits[name]
    missing = row["param"].values[
        np.isnan(row["estimate"].values) & (row["kind"].values != "")
    ]
    if len(missing):
        texts = [
            f"no estimate of {_join_names(missing)} exists: {fit.described['status']}"
        ]
    else:
        texts = []
    texts += fit.described["notes"]
    incomparable = unlike(table.fits[table.baseline], fit)
    if incomparable:
        texts.append(
            f"no difference is given for {', '.join(incomparable)}, which is not the same quantity under the likelihood of {table.baseline}"
        )
    seen: dict[str, list[str]] = {}
    for param, text, lam in zip(
        row["param"].values, row["penalty"].values, row["lam"].values
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
    texts += (
        penalties
        if len(penalties) <= LONG
        else [
            *penalties[:LARGEST],
            f"{len(penalties) - LARGEST} more penalties in .to_pandas()",
        ]
    )
    if name in spellings:
        texts.append(f"the mode of this model is scikit-learn's {spellings[name]}")
    if rowless(fit) and row["prior_weight"].isnull().any():
        texts.append(
            f"{fit.model.design.rows_absent}, so that some prior weights are not known"
        )
    return texts
