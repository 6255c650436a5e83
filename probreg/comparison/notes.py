"""Notes for reading a comparison: missing values with their reasons, and sigma."""

import numpy as np

from probreg.comparison.numbers import FitTable, incomparable_parameters
from probreg.comparison.prior_terms import rowless
from probreg.comparison.same_question import differing_terms, shorten_names

_WEIGHT_NOTE = (
    "prior weight: the prior's part of the precision, (P H^-1)_jj at the estimate, P and H the curvatures of log prior and "
    "log posterior; not defined at a kink of the log prior, where it is not concave, or where H is singular to rounding"
)
_TERMS_NOTE = "fits have other columns for a smooth function, a process or effects by group: its coefficients are left out"


def notes(table: FitTable) -> list[str]:
    """Notes for reading the table; a note that applies to several fits is given once."""
    names_by_note: dict[str, list[str]] = {}
    for name in table.fits:
        for note in _fit_notes(table, name):
            names_by_note.setdefault(note, []).append(name)
    texts = [f"{', '.join(names)}: {note}" for note, names in names_by_note.items()]
    estimated = ~table.data["kind"].isin(["fixed", ""])
    if table.data["prior_weight"].where(estimated, 0.0).fillna(1.0).any():
        texts.append(_WEIGHT_NOTE)
    texts += [note for note in design_notes(table) if note == _TERMS_NOTE]
    base = table.data.sel(fit=table.baseline)
    undefined = np.isnan(base["error"].values) & (base["kind"].values != "fixed")
    if undefined.any():
        names = shorten_names(base["param"].values[undefined], 20)
        texts.append(
            f"no difference is given for {names}: {table.baseline} has no SE there"
        )
    return texts


def _fit_notes(table: FitTable, name: str) -> list[str]:
    row = table.data.sel(fit=name)
    fit = table.fits[name]
    missing = row["param"].values[
        np.isnan(row["estimate"].values) & (row["kind"].values != "")
    ]
    texts = []
    if len(missing):
        names = shorten_names(missing, 20)
        texts.append(f"no estimate of {names} exists: {fit.described['status']}")
    texts += fit.described["notes"]
    incomparable = incomparable_parameters(table.fits[table.baseline], fit)
    if incomparable:
        texts.append(
            f"no difference is given for {', '.join(incomparable)}, which is not the same quantity under the likelihood of {table.baseline}"
        )
    if rowless(fit) and row["prior_weight"].isnull().any():
        texts.append(
            f"{fit.model.design.rows_absent}, so that some prior weights are not known"
        )
    return texts


def design_notes(table: FitTable) -> list[str]:
    """The notes on rows that were dropped and columns that are not compared."""
    designs = [fit.model.design for fit in table.fits.values()]
    notes: dict[str, None] = dict.fromkeys(
        [note for design in designs for note in design.notes]
    )
    if differing_terms(table.fits.values()):
        notes[_TERMS_NOTE] = None
    return [*notes]
