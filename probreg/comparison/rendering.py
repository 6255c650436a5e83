"""The comparison as text and as HTML: a head, a row per parameter and fit, the largest reasons. Only here is it rounded.

The text has at most 40 lines of 110 columns for ten coefficients of three fits: where it would be longer, the parameters on
which the fits agree best have one row for all fits.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from probreg.comparison.notes import terms_note
from probreg.comparison.numbers import FitTable
from probreg.comparison.printed_rows import (
    LARGEST,
    LONG,
    PrintedRows,
    differences,
    of_terms,
    parameters_printed,
    printed_rows,
)
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.inference.varying import OF_EFFECTS
from probreg.model.prior_words import prior_line
from probreg.system.cell_widths import cells_of, to_left, to_right
from probreg.system.notebook import notebook_html
from probreg.system.terminal import (
    WIDTH,
    clean_lines,
    cut_apart,
    cut_text,
    visible,
    wrap_line,
)

Reasons = Mapping[str, Mapping[str, str]]
WORDS = ("", "fit")  # columns that start at the left
LINES = 40  # of the text
MOST = 3  # reasons that are printed
MANY = 8  # fits with a line of their own in the head


def text(
    of: FitTable,
    why: Reasons,
    notes: Sequence[str],
    spellings: Mapping[str, str],
    guarantees: Sequence[str] = (),
) -> str:
    """Everything as lines of text; `why` has a sentence by parameter and fit, `guarantees` are printed in full."""
    head = [line for said in _header(of, spellings) for line in _wrap_line(said)]
    largest = _largest_differences(of, why)
    reasons = [line for said in largest for line in _wrap_line(f"  {said}")]
    below = [
        *_of_smooths(of),
        *(line for said in _of_the_rows(of) for line in _wrap_line(said)),
    ]
    below += ["", "Why they differ", *reasons] if reasons else []
    below += (
        ["", *(line for said in guarantees for line in _wrap_line(said))]
        if guarantees
        else []
    )
    below += _behind(sum(map(len, why.values())) - len(largest), notes)
    room = LINES - len(head) - len(below) - 2
    auxiliary = int((of.data["role"].values != "coefficient").sum())
    where = parameters_printed(of, room - 1, max(min(LARGEST, room - 4 - auxiliary), 5))
    after = [*_omitted_rows_lines(of, where), *below]
    table = printed_rows(of, where, LINES - len(head) - len(after) - 2)
    apart = (
        len(head) + len(after) + 1 + len(table.rows) + len(where) + (table.folded > 0)
        <= LINES
        and len(of.fits) > 1
    )
    fold = [
        f"+{len(of.fits) - 1}: all fits in one row, with the largest difference, SE ratio and prior weight"
    ]
    return clean_lines(
        *head, "", *_table_lines(table, apart), *(fold if table.folded else []), *after
    )


def _table_lines(table: PrintedRows, apart: bool) -> list[str]:
    """Format head and rows, with an empty line between parameters if `apart`; the head of the text has the priors."""
    columns = [c for c in table.columns if c != "prior"]
    rows = _fit_table_width([dict(zip(columns, columns)), *table.rows], columns)
    size = {c: max(cells_of(visible(row[c])) for row in rows) for c in columns}
    lines: list[str] = []
    last = ""
    for row in rows:
        lines += [""] if apart and last and row[""] != last else []
        cells = [("" if c == "" and row[c] == last else row[c]) for c in columns]
        cells = [
            (to_left if c in WORDS else to_right)(visible(v), size[c])
            for c, v in zip(columns, cells)
        ]
        lines.append("  ".join(cells).rstrip())
        last = row[""]
    return lines


def _fit_table_width(
    rows: list[dict[str, str]], columns: Sequence[str]
) -> list[dict[str, str]]:
    """Return the rows with names of parameters and fits cut in the middle where the table would be too wide."""
    size = {c: max(cells_of(visible(row[c])) for row in rows) for c in columns}
    names = [c for c in WORDS if c in columns]
    room = WIDTH - sum(size[c] + 2 for c in columns if c not in names)
    if sum(size[c] + 2 for c in names) <= room:
        return rows
    share = max(room // len(names) - 2, 8)
    free = sum(
        max(share - size[c], 0) for c in names
    )  # what a short name leaves to the other
    short = {
        c: cut_apart((visible(row[c]) for row in rows), share + free) for c in names
    }
    return [row | {c: short[c][visible(row[c])] for c in names} for row in rows]


def _wrap_line(line: str) -> list[str]:
    return wrap_line(visible(line), WIDTH)


def as_html(
    of: FitTable, why: Reasons, notes: Sequence[str], spellings: Mapping[str, str]
) -> str:
    """The same as HTML, every row, everything that was given escaped; many rows, further reasons and the notes fold."""
    import pandas as pd

    where = parameters_printed(of)
    table = printed_rows(of, where, len(where) * len(of.fits))
    labels = [c for c in WORDS if c in table.columns]
    frame = pd.DataFrame(table.rows, columns=table.columns).set_index(labels)
    head, rows = _smooth_rows(of)
    if rows:
        smooths = [pd.DataFrame(rows[:LONG], columns=head).set_index(head[:2])]
    else:
        smooths = []
    said = _largest_differences(of, why)
    more = [
        f"{p}, {s}"
        for p, each in why.items()
        for s in each.values()
        if f"{p}, {s}" not in said
    ]
    foot = [
        line for line in [*_omitted_rows_lines(of, where), *_of_the_rows(of)] if line
    ]
    return notebook_html(
        _header(of, spellings),
        [frame, *smooths],
        said,
        foot=[*foot, *(["Why they differ"] if said else [])],
        folded={f"{len(more)} more reasons": more, "Notes": list(notes)},
    )


def _largest_differences(of: FitTable, why: Reasons) -> list[str]:
    """Return one sentence for each parameter that differs, the largest difference first; standard deviations and
    correlations of effects come after coefficients."""
    size = differences(of)
    names = list(map(str, of.data["param"].values))
    fits = list(of.fits)
    largest = []
    scales = set[str]()
    if any(name.startswith(OF_EFFECTS) for name in names):
        scales = {name for name in names if name.startswith(OF_EFFECTS)} | {
            a for f in of.fits.values() for a in f.aux
        }
    for param, said in why.items():
        far, fit = max(
            ((size[fits.index(f), names.index(param)], f) for f in said),
            key=lambda one: one[0],
        )
        key = param in scales, -far
        largest += [(key, f"{param}, {said[fit]}")] if far >= of.apart else []
    return [said for _, said in sorted(largest, key=lambda one: one[0])[:MOST]]


def _behind(more: int, notes: Sequence[str]) -> list[str]:
    """What is not printed, and where it is."""
    if more:
        said = [
            f"{more} more reasons in .reasons"
            if more > 1
            else "a further reason in .reasons"
        ]
    else:
        said = []
    said += (
        [f"{len(notes)} notes in .notes" if len(notes) > 1 else "a note in .notes"]
        if notes
        else []
    )
    return ["", "; ".join(said)] if said else []


def _omitted_rows_lines(of: FitTable, where: Sequence[int]) -> list[str]:
    """Return lines about parameters that are not in the table."""
    terms = int(of_terms(of).sum())
    n = len(of.fits)
    gone = of.data.sizes["param"] - len(where) - terms
    if n > 1:
        which = "these have the largest differences"
    else:
        which = "these are the first"
    if gone:
        said = [f"{which}; {gone} more parameters, {gone * n} rows, in .to_pandas()"]
    else:
        said = []
    if terms:
        said.append(
            f"{terms} coefficients of smooth functions and processes, {terms * n} rows, in .to_pandas()"
        )
    return ["", *said] if said else []


def _of_the_rows(of: FitTable) -> list[str]:
    """The notes of rows and columns, which a reader must know: rows that were dropped, columns that are not compared."""
    said = list(
        dict.fromkeys(
            note for fit in of.fits.values() for note in fit.model.design.notes
        )
    )
    return [*said, *terms_note(of)]


def _header(of: FitTable, spellings: Mapping[str, str]) -> list[str]:
    """What is modelled, of how many rows, and a line for each fit."""
    attrs = of.data.attrs
    d = of.fits[of.baseline].model.design
    n = attrs.get("observations")
    if n is None:
        rows = "rows not kept"
    else:
        rows = f"{n:g} observations" + (f" in {d.n} rows" if d.n and d.n != n else "")
    if len(of.fits) > 1:
        against = f"; diff / SE and SE ratio are against {of.baseline}"
    else:
        against = ""
    told = (
        of.data[["lower", "upper"]].notnull().to_dataarray().any("variable")
    )  # what has an interval
    if told.any():
        share = f"; {100 * of.prob:g} % intervals"
    else:
        share = ""
    lines = [attrs["models"], f"{rows}{share}{against}"]
    width = max(map(cells_of, of.fits))
    for name, fit in list(of.fits.items())[:MANY]:
        # The kind of interval of the coefficients, and of the others where it is another one.
        here = of.data.sel(fit=name).isel(param=told.sel(fit=name).values)
        kinds = dict.fromkeys(
            zip(here["role"].values, here["kind"].values, here["param"].values)
        )
        first = next((k for _, k, _ in kinds if k in KIND_WORDS), None)
        others: dict[str, list[str]] = {}
        for role, k, p in kinds:
            if role != "coefficient" and k in KIND_WORDS and k != first:
                others.setdefault(KIND_WORDS[k], []).append(p)
        rest = [f"{', '.join(names)}: {kind}" for kind, names in others.items()]
        beside = f" ({', '.join(rest)})" if rest else ""
        if "engine" in fit.described:
            engine = f" ({fit.described['engine']})"
        else:
            engine = ""
        said = [
            f"{fit.described['method']}{engine}",
            "no intervals"
            if first is None
            else f"{KIND_WORDS[first]}{beside} intervals",
        ]
        said += [f"seed {fit.seed}"] if fit.target == "posterior" else []
        other = fit.described["models"]
        said += [other] if other != attrs["models"] else []
        said += [f"prior {prior_line(fit.stated_model)}"] if not fit.model.flat else []
        if fit.solution.status.good:
            status = fit.solution.status.value.partition(":")[0]
        else:
            status = f"(!) {cut_text(fit.described['status'])}"
        if name not in spellings:
            mode = ""
        else:
            mode = f"; {'its mode is ' if fit.target == 'posterior' else ''}scikit-learn's {spellings[name]}"
        lines.append(f"  {to_left(name, width)}  {', '.join(said)}; {status}{mode}")
    more = len(of.fits) - MANY
    return lines + ([f"  {more} more fits in .fits"] if more > 0 else [])


def _of_smooths(of: FitTable) -> list[str]:
    """The smooth functions, a line for each and fit, of many the first."""
    head, rows = _smooth_rows(of)
    if not rows:
        return []
    widths = [max(cells_of(r[i]) for r in [head, *rows]) for i in range(len(head))]
    kept = [head, *rows[:LARGEST]]
    lines = [
        "  ".join(
            (to_left if i < 2 else to_right)(c, w)
            for i, (c, w) in enumerate(zip(r, widths))
        )
        for r in kept
    ]
    gone = len(rows) - LARGEST
    return [
        "",
        *map(str.rstrip, lines),
        *([f"{gone} more rows in .smooths"] if gone > 0 else []),
    ]


def _smooth_rows(of: FitTable) -> tuple[list[str], list[list[str]]]:
    """Head and rows as texts: what a function spends, of how many columns, and the scales of its blocks."""
    rows, last = [], ""
    for (name, fit), edf, columns, tau in of.smooths.itertuples(name=None):
        spent = "" if np.isnan(edf) else f"{edf:.3f}"
        rows.append(
            [
                "" if name == last else name,
                fit,
                spent,
                f"{columns}",
                ", ".join(f"{t:.4g}" for t in tau),
            ]
        )
        last = name
    return ["smooth function", "fit", "edf", "columns", "tau"], rows
