"""The comparison as text and as HTML: a head, a row per parameter and fit, the largest reasons. Only here is it rounded.

The text has at most 40 lines of 110 columns for ten coefficients of three fits: where it would be longer, the parameters on
which the fits agree best have one row for all fits.
"""

import html
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from probreg.comparison.notes import TERMS_NOTE
from probreg.comparison.numbers import Compared
from probreg.comparison.printed_rows import (
    LARGEST,
    LONG,
    PrintedRows,
    differences,
    of_terms,
    parameters_printed,
    printed_rows,
)
from probreg.comparison.same_question import terms_apart
from probreg.inference.uncertainty.intervals import KIND_WORDS
from probreg.system.terminal import cut_text, printed

Reasons = Mapping[str, Mapping[str, str]]
WORDS = ("", "fit")  # columns that start at the left
LINES, WIDTH = 40, 110  # of the text
MOST = 3  # reasons that are printed
MANY = 8  # fits with a line of their own in the head


def text(of: Compared, why: Reasons, notes: Sequence[str], spellings: Mapping[str, str]) -> str:
    """Everything as lines of text; `why` has a sentence by parameter and fit."""
    head = [line for said in _header(of, spellings) for line in _wrapped(said)]
    largest = _largest(of, why)
    reasons = [line for said in largest for line in _wrapped(f"  {said}")]
    below = [*_of_smooths(of), *(line for said in _of_the_rows(of) for line in _wrapped(said))]
    below += ["", "Why they differ", *reasons] if reasons else []
    below += _behind(sum(map(len, why.values())) - len(largest), notes)
    room = LINES - len(head) - len(below) - 2
    auxiliary = int((of.data["role"].values != "coefficient").sum())
    where = parameters_printed(of, room - 1, max(min(LARGEST, room - 4 - auxiliary), 5))
    after = [*_rest(of, where), *below]
    table = printed_rows(of, where, LINES - len(head) - len(after) - 2)
    apart = len(head) + len(after) + 1 + len(table.rows) + len(where) <= LINES and len(of.fits) > 1
    fold = [f"+{len(of.fits) - 1}: all fits in one row, with the largest difference, SE ratio and prior weight"]
    return printed(*head, "", *_lines(table, apart), *(fold if table.folded else []), *after)


def _lines(table: PrintedRows, apart: bool) -> list[str]:
    """Head and rows, the parameters `apart` by an empty line; the head of the text says the priors."""
    columns = [c for c in table.columns if c != "prior"]
    size = {c: max(len(c), *(len(row[c]) for row in table.rows), 0) for c in columns}
    lines: list[str] = []
    last = ""
    for row in [dict(zip(columns, columns)), *table.rows]:
        lines += [""] if apart and last and row[""] != last else []
        cells = [("" if c == "" and row[c] == last else row[c]) for c in columns]
        cells = [v.ljust(size[c]) if c in WORDS else v.rjust(size[c]) for c, v in zip(columns, cells)]
        lines.append("  ".join(cells).rstrip())
        last = row[""]
    return lines


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) or [""]


def as_html(of: Compared, why: Reasons, notes: Sequence[str], spellings: Mapping[str, str]) -> str:
    """The same as HTML, every row, everything that was given escaped; further reasons and the notes fold."""
    where = parameters_printed(of)
    table = printed_rows(of, where, len(where) * len(of.fits))
    size = Counter(row[""] for row in table.rows)
    body, last = [], ""
    for row in table.rows:
        label = row[""]
        first = f'<th rowspan="{size[label]}" scope="rowgroup">{html.escape(label)}</th>' if label != last else ""
        body.append(f"<tr>{first}{''.join(f'<td>{html.escape(row[c])}</td>' for c in table.columns[1:])}</tr>")
        last = label
    top = f"<tr>{''.join(f'<th>{html.escape(c)}</th>' for c in table.columns)}</tr>"
    said = _largest(of, why)
    more = [f"{p}, {s}" for p, each in why.items() for s in each.values() if f"{p}, {s}" not in said]
    return (
        f"<p>{'<br>'.join(html.escape(v) for v in _header(of, spellings))}</p>"
        f"<table><thead>{top}</thead><tbody>{''.join(body)}</tbody></table>"
        + "".join(f"<p>{html.escape(line)}</p>" for line in [*_rest(of, where), *_of_the_rows(of)] if line)
        + _smooths_as_html(of)
        + (f"<p>Why they differ</p>{_list(said)}" if said else "")
        + _details(f"{len(more)} more reasons", more)
        + _details("Notes", notes)
    )


def _details(title: str, items: Sequence[str]) -> str:
    return f"<details><summary>{title}</summary>{_list(items)}</details>" if items else ""


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(i)}</li>' for i in items)}</ul>"


def _largest(of: Compared, why: Reasons) -> list[str]:
    """The sentences of the largest differences, one for a parameter, none for what is not apart; the largest first."""
    size, names, fits = differences(of), list(map(str, of.data["param"].values)), list(of.fits)
    largest = []
    for param, said in why.items():
        far, fit = max(((size[fits.index(f), names.index(param)], f) for f in said), key=lambda one: one[0])
        largest += [(-far, f"{param}, {said[fit]}")] if far >= of.apart else []
    return [said for _, said in sorted(largest, key=lambda one: one[0])[:MOST]]


def _behind(more: int, notes: Sequence[str]) -> list[str]:
    """What is not printed, and where it is."""
    said = [f"{more} more reasons in .reasons" if more > 1 else "a further reason in .reasons"] if more else []
    said += [f"{len(notes)} notes in .notes" if len(notes) > 1 else "a note in .notes"] if notes else []
    return ["", "; ".join(said)] if said else []


def _rest(of: Compared, where: Sequence[int]) -> list[str]:
    """The lines on what is not in the table."""
    terms, n = int(of_terms(of).sum()), len(of.fits)
    gone = of.data.sizes["param"] - len(where) - terms
    which = "these have the largest differences" if n > 1 else "these are the first"
    said = [f"{which}; {gone} more parameters, {gone * n} rows, in .to_pandas()"] if gone else []
    if terms:
        said.append(f"{terms} coefficients of smooth functions and processes, {terms * n} rows, in .to_pandas()")
    return ["", *said] if said else []


def _of_the_rows(of: Compared) -> list[str]:
    """The notes of rows and columns, which a reader must know: rows that were dropped, columns that are not compared."""
    said = list(dict.fromkeys(note for fit in of.fits.values() for note in fit.model.design.notes))
    return [*said, *([TERMS_NOTE] if terms_apart(of.fits.values()) else [])]


def _header(of: Compared, spellings: Mapping[str, str]) -> list[str]:
    """What is modelled, of how many rows, and a line for each fit."""
    attrs = of.data.attrs
    d = of.fits[of.baseline].model.design
    n = attrs.get("observations")
    rows = "rows not kept" if n is None else f"{n:g} observations" + (f" in {d.n} rows" if d.n and d.n != n else "")
    against = f"; diff / SE and SE ratio are against {of.baseline}" if len(of.fits) > 1 else ""
    lines = [attrs["models"], f"{rows}; {100 * of.prob:g} % intervals{against}"]
    width = max(map(len, of.fits))
    for name, fit in list(of.fits.items())[:MANY]:
        # The kind of interval of the coefficients, and of the others where it is another one.
        here = of.data.sel(fit=name)
        kinds = dict.fromkeys(zip(here["role"].values, here["kind"].values, here["param"].values))
        first = next((k for _, k, _ in kinds if k in KIND_WORDS), None)  # what is held has no interval
        rest = [
            f"{p}: {KIND_WORDS[k]}" for role, k, p in kinds if role != "coefficient" and k in KIND_WORDS and k != first
        ]
        beside = f" ({', '.join(rest)})" if rest else ""
        said = [fit.method.name, "no intervals" if first is None else f"{KIND_WORDS[first]}{beside} intervals"]
        said += [f"seed {fit.seed}"] if fit.target == "posterior" else []
        other = fit.model.likelihood.describe(d.response)
        said += [other] if other != attrs["models"] else []
        said += _prior_in_words(of, name)
        status = (
            fit.solution.status.value.partition(":")[0]
            if fit.solution.status.good
            else f"(!) {cut_text(fit.described['status'])}"
        )
        mode = (
            ""
            if name not in spellings
            else f"; {'its mode is ' if fit.target == 'posterior' else ''}scikit-learn's {spellings[name]}"
        )
        lines.append(f"  {name.ljust(width)}  {', '.join(said)}; {status}{mode}")
    more = len(of.fits) - MANY
    return lines + ([f"  {more} more fits in .fits"] if more > 0 else [])


def _prior_in_words(of: Compared, name: str) -> list[str]:
    """The priors of the coefficients of one fit, where there are one or two."""
    alone = (of.data["role"].values == "coefficient") & ~of_terms(of)
    here = of.data.sel(fit=name)
    stated = [
        (str(p), str(v))
        for p, v in zip(here["param"].values[alone], here["prior"].values[alone])
        if v not in ("flat", "")
    ]
    words: dict[str, list[str]] = {}
    for param, prior in stated:
        words.setdefault(prior, []).append(param)
    if len(words) > 2:
        return [f"priors of {len(stated)} coefficients in .to_pandas()"]
    on = {prior: ", ".join(each) if len(each) <= 2 else f"{len(each)} coefficients" for prior, each in words.items()}
    return [f"prior {prior} of {where}" for prior, where in on.items()]


def _of_smooths(of: Compared) -> list[str]:
    """The smooth functions, a line for each and fit, of many the first."""
    head, rows = _smooth_rows(of)
    if not rows:
        return []
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    kept = [head, *rows[:LARGEST]]
    lines = ["  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))) for r in kept]
    gone = len(rows) - LARGEST
    return ["", *map(str.rstrip, lines), *([f"{gone} more rows in .smooths"] if gone > 0 else [])]


def _smooths_as_html(of: Compared) -> str:
    head, rows = _smooth_rows(of)
    if not rows:
        return ""
    top, *body = [
        "".join(f"<{cell}>{html.escape(c)}</{cell}>" for c in r)
        for cell, r in [("th", head), *(("td", r) for r in rows[:LONG])]
    ]
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(f'<tr>{r}</tr>' for r in body)}</tbody></table>"


def _smooth_rows(of: Compared) -> tuple[list[str], list[list[str]]]:
    """Head and rows as texts: what a function spends, of how many columns, and the scales of its blocks."""
    rows, last = [], ""
    for (name, fit), edf, columns, tau in of.smooths.itertuples(name=None):
        spent = "" if np.isnan(edf) else f"{edf:.3f}"
        rows.append(["" if name == last else name, fit, spent, f"{columns}", ", ".join(f"{t:.4g}" for t in tau)])
        last = name
    return ["smooth function", "fit", "edf", "columns", "tau"], rows
