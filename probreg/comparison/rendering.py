"""The comparison as text and as HTML: a head, one row per parameter and fit, reasons, notes. Only here is it rounded."""

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from probreg.comparison.numbers import KIND_WORDS, Compared, unlike
from probreg.comparison.prior_terms import kinked, rowless
from probreg.comparison.same_question import terms_apart
from probreg.fits.fit import Fit
from probreg.system.terminal import percent, printed

Reasons = Mapping[str, Mapping[str, str]]
Array = np.ndarray
WEIGHT_NOTE = (
    "prior weight: the prior's part of the precision, (P H^-1)_jj at the estimate, P and H the curvatures of log prior and "
    "log posterior"
)
NO_WEIGHT_NOTE = (
    "prior weight: not defined at a kink of the log prior, where it is not concave, or where H is singular to rounding"
)
LEFT = (0, 1, 8)  # columns of words
MANY, MOST = 5, 3  # with so many fits only so many reasons are printed for a parameter
LONG, LARGEST = 60, 20  # with more parameters than this only so many are printed, those with the largest differences


def text(of: Compared, why: Reasons, notes: Sequence[str]) -> str:
    """Everything as lines of text; `why` has a sentence by parameter and fit."""
    where = _rows_printed(of)
    head, rows = _table(of, where)
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines, last = [_line(head, widths)], ""
    for label, *cells in rows:
        lines += [""] if last not in ("", label) else []
        lines.append(_line(["" if label == last else label, *cells], widths))
        last = label
    said = [f"  {p}: {s}" for p, s in _printed(of, why, where)]
    reasons = ["", "Why they differ", *said] if said else []
    return printed(
        *_header(of), "", *lines, *_rest(of, where), *_of_smooths(of), *reasons, "", "Notes", *(f"  {n}" for n in notes)
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(c.ljust(w) if i in LEFT else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()


def as_html(of: Compared, why: Reasons, notes: Sequence[str]) -> str:
    """The same as HTML, everything that was given escaped."""
    where = _rows_printed(of)
    head, rows = _table(of, where)
    size = Counter(r[0] for r in rows)
    body, last = [], ""
    for label, *cells in rows:
        first = f'<th rowspan="{size[label]}" scope="rowgroup">{html.escape(label)}</th>' if label != last else ""
        body.append(f"<tr>{first}{''.join(f'<td>{html.escape(c)}</td>' for c in cells)}</tr>")
        last = label
    said = [f"<b>{html.escape(p)}</b>: {html.escape(s)}" for p, s in _printed(of, why, where)]
    top = f"<tr>{''.join(f'<th>{html.escape(c)}</th>' for c in head)}</tr>"
    return (
        f"<p>{'<br>'.join(html.escape(v) for v in _header(of))}</p>"
        f"<table><thead>{top}</thead><tbody>{''.join(body)}</tbody></table>"
        + "".join(f"<p>{html.escape(line)}</p>" for line in _rest(of, where) if line)
        + _smooths_as_html(of)
        + (f"<p>Why they differ</p>{_list(said)}" if said else "")
        + _list([html.escape(n) for n in notes])
    )


def _smooths_as_html(of: Compared) -> str:
    head, rows = _smooth_rows(of)
    if not rows:
        return ""
    top, *body = [
        "".join(f"<{cell}>{html.escape(c)}</{cell}>" for c in r)
        for cell, r in [("th", head), *(("td", r) for r in rows[:LONG])]
    ]
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(f'<tr>{r}</tr>' for r in body)}</tbody></table>"


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{i}</li>' for i in items)}</ul>" if items else ""


def _rows_printed(of: Compared) -> list[int]:
    """The numbers of the parameters that are printed, in their order: all of a few but the columns of smooth functions and
    processes, which say nothing one by one; of many those with the largest differences, one without a difference before them, and
    what is no coefficient."""
    difference, coefficient = np.abs(of.data["difference"].values), of.data["role"].values == "coefficient"
    alone = ~_of_terms(of)
    if alone.sum() <= LONG:
        return [int(i) for i in np.flatnonzero(alone)]
    size = np.where(np.isnan(difference), np.inf, difference).max(0)
    size[~coefficient | ~alone] = -1.0
    largest = np.argsort(-size, kind="stable")[: min(LARGEST, int((coefficient & alone).sum()))]
    return sorted([*map(int, largest), *map(int, np.flatnonzero(~coefficient))])


def _of_terms(of: Compared) -> np.ndarray:
    """(params,) bool: coefficients of the columns of smooth functions and processes, in any of the fits."""
    designs = [fit.model.design for fit in of.fits.values()]
    columns = tuple({c for d in designs for c, term in zip(d.columns, d.of_terms) if term})
    # a coefficient is called by its column, with its outcome behind a colon where there are several
    coefficient = of.data["role"].values == "coefficient"
    named = [str(p) in columns or str(p).startswith(tuple(f"{c}: " for c in columns)) for p in of.data["param"].values]
    return np.asarray(coefficient & np.array(named, dtype=bool))


def _rest(of: Compared, where: Sequence[int]) -> list[str]:
    """The lines on what is not printed."""
    terms, n = int(_of_terms(of).sum()), len(of.fits)
    gone = of.data.sizes["param"] - len(where) - terms
    which = "these have the largest differences" if n > 1 else "these are the first"
    said = [f"{which}; {gone} more parameters, {gone * n} rows, in .to_pandas()"] if gone else []
    if terms:
        said.append(f"{terms} coefficients of smooth functions and processes, {terms * n} rows, in .to_pandas()")
    return ["", *said] if said else []


def _of_smooths(of: Compared) -> list[str]:
    """The smooth functions, a line for each and fit, of very many the first."""
    head, rows = _smooth_rows(of)
    if not rows:
        return []
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines = [_line(row, widths) for row in [head, *rows[:LONG]]]
    gone = len(rows) - LONG
    return ["", *lines, *([f"{gone} more rows in .smooths"] if gone > 0 else [])]


def _smooth_rows(of: Compared) -> tuple[list[str], list[list[str]]]:
    """Head and rows as texts: what a function spends, of how many columns, and the scales of its blocks."""
    rows, last = [], ""
    for (name, fit), edf, columns, tau in of.smooths.itertuples(name=None):
        spent = "" if np.isnan(edf) else f"{edf:.3f}"
        rows.append(["" if name == last else name, fit, spent, f"{columns}", ", ".join(f"{t:.4g}" for t in tau)])
        last = name
    return ["smooth function", "fit", "edf", "columns", "tau"], rows


def _printed(of: Compared, why: Reasons, where: Sequence[int]) -> list[tuple[str, str]]:
    """The sentences that are printed, each with its parameter."""
    most = MOST if len(of.fits) >= MANY else len(of.fits)
    names, difference = of.data["param"].values, of.data["difference"].values
    out = []
    for j in where:
        sizes = dict(zip(of.fits, difference[:, j].tolist()))
        out += [(str(names[j]), s) for s in largest_differences(why.get(str(names[j]), {}), sizes, most)]
    return out


def largest_differences(said: Mapping[str, str], difference: Mapping[str, float], most: int) -> list[str]:
    """The sentences of the fits with the largest differences, in their order, and how many are left out; first of all those
    of a fit without a difference, which has lost its estimate.

    >>> largest_differences({"a": "A", "b": "B", "c": "C"}, {"a": 0.2, "b": -3.0, "c": float("nan")}, 2)
    ['B', 'C', 'and 1 more in .reasons']
    """
    kept = sorted(said, key=lambda f: abs(difference[f]) if np.isfinite(difference[f]) else np.inf, reverse=True)[:most]
    rest = len(said) - len(kept)
    return [s for f, s in said.items() if f in kept] + ([f"and {rest} more in .reasons"] if rest else [])


def _header(of: Compared) -> list[str]:
    attrs = of.data.attrs
    d = of.fits[of.baseline].model.design
    n = attrs.get("observations")
    rows = "rows not kept" if n is None else f"{n:g} observations" + (f" in {d.n} rows" if d.n and d.n != n else "")
    lines = [
        attrs["models"],
        f"{rows}; {100 * of.prob:g} % intervals; difference in SE of {of.baseline}, ratio of SE or SD to its",
    ]
    width = max(map(len, of.fits))
    for name, fit in of.fits.items():
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
        status = ("" if fit.solution.status.good else "(!) ") + fit.described["status"]
        lines.append(f"  {name.ljust(width)}  {', '.join(said)}; {status}")
    return lines


def _table(of: Compared, where: Sequence[int]) -> tuple[list[str], list[list[str]]]:
    """Head and rows as texts, one row per parameter `where` and fit; digits follow the smallest SE of the parameter."""
    informed = bool(of.data["prior_weight"].fillna(1.0).any())
    head = ["", "fit", "estimate", "SE | SD", "lower", "upper", "diff / SE", "SE ratio"]
    head += ["prior", "prior weight"] if informed else []
    values = {str(k): v.values for k, v in of.data.data_vars.items()}
    names, columns = of.data["param"].values, of.data["coef"].values
    rows = []
    for j in where:
        places = decimals(values["error"][:, j])
        for i, (name, fit) in enumerate(of.fits.items()):
            one = {k: v[i, j] for k, v in values.items()}
            mark = name if fit.solution.status.good else f"{name} (!)"
            cells = [str(names[j]), mark, *_numbers(one, places, fit)]
            rows.append([*cells, one["prior"], _weight(one, fit, str(columns[j]))] if informed else cells)
    return head, rows


def _numbers(one: Mapping[str, Any], places: int, fit: Fit) -> list[str]:
    if one["kind"] == "held":
        return [f"{one['estimate']:g}", "held", "", "", "", ""]
    if one["kind"] == "":
        return ["not in it", "", "", "", "", ""]
    if np.isnan(one["estimate"]):
        return ["does not exist", "", "", "", "", ""]
    word = "SD" if fit.target == "posterior" else "SE"
    error = f"{rounded(one['error'], places)} {word}" if np.isfinite(one["error"]) else "none"
    ends = [rounded(one[q], places) for q in ("lower", "upper")]
    difference = f"{round(one['difference'], 2) + 0.0:+.2f}" if np.isfinite(one["difference"]) else ""
    return [
        rounded(one["estimate"], places),
        error,
        *ends,
        difference,
        f"{one['se_ratio']:.3f}" if one["se_ratio"] > 0 else "",
    ]


def _weight(one: Mapping[str, Any], fit: Fit, column: str) -> str:
    if one["kind"] in ("held", ""):
        return ""
    lost = "kinked" if column in kinked(fit.model) else "not known" if rowless(fit) else "not defined"
    return lost if np.isnan(one["prior_weight"]) else percent(one["prior_weight"])


def decimals(errors: Array) -> int:
    """Places after the point that show the smallest error to three significant digits.

    >>> decimals(np.array([7.38, 0.108])), decimals(np.array([1234.5])), decimals(np.array([np.nan]))
    (3, 0, 4)
    """
    known = errors[np.isfinite(errors) & (errors > 0)]
    return max(0, 2 - int(np.floor(np.log10(known.min())))) if len(known) else 4


def rounded(value: float, places: int) -> str:
    """A number to so many decimal places, with an exponent where that would be long.

    >>> rounded(-0.232163, 4), rounded(1.2345e-12, 14), rounded(float("nan"), 2)
    ('-0.2322', '1.23e-12', '')
    """
    if not np.isfinite(value):
        return "" if np.isnan(value) else f"{value:g}"
    if places <= 8 and abs(value) < 1e10:
        return f"{value:.{places}f}"
    digits = int(np.floor(np.log10(abs(value)))) + places if value else 0
    return f"{value:.{max(digits, 0)}e}"


def notes(of: Compared, spellings: Mapping[str, str]) -> list[str]:
    """What a reader has to know of the table: what does not exist and why, sigma, equivalent penalties."""
    said: dict[str, list[str]] = {}  # what holds of several fits is said once
    for name in of.fits:
        for note in _fit_notes(of, name, spellings):
            said.setdefault(note, []).append(name)
    out = [f"{', '.join(names)}: {note}" for note, names in said.items()]
    weights = of.data["prior_weight"].where(of.data["kind"].isin(list(KIND_WORDS)), 0.0)
    if weights.fillna(1.0).any():
        out.append(WEIGHT_NOTE)
    if any(weights.sel(fit=name).isnull().any() for name, fit in of.fits.items() if not rowless(fit)):
        out.append(NO_WEIGHT_NOTE)
    if terms_apart(of.fits.values()):
        out.append(
            "fits have other columns for a smooth function or process: its coefficients are left out, and reasons with them"
        )
    base = of.data.sel(fit=of.baseline)
    lost = np.isnan(base["error"].values) & (base["kind"].values != "held")
    if lost.any():
        out.append(f"no difference is given for {_listed(base['param'].values[lost])}: {of.baseline} has no SE there")
    return out


def _listed(names: Iterable[str]) -> str:
    """Names in a row, of very many the first.

    >>> _listed(["a", "b"]), _listed([f"x{j}" for j in range(100)]).split(", ")[-2:]
    ('a, b', ['x18', 'x19 and 80 more'])
    """
    every = list(names)
    kept = every if len(every) <= LONG else every[:LARGEST]
    return ", ".join(kept) + (f" and {len(every) - len(kept)} more" if len(kept) < len(every) else "")


def _fit_notes(of: Compared, name: str, spellings: Mapping[str, str]) -> list[str]:
    here, fit = of.data.sel(fit=name), of.fits[name]
    gone = here["param"].values[np.isnan(here["estimate"].values) & (here["kind"].values != "")]
    out = [f"no estimate of {_listed(gone)} exists: {fit.described['status']}"] if len(gone) else []
    out += fit.described["notes"]
    if other := unlike(of.fits[of.baseline], fit):
        out.append(
            f"no difference is given for {', '.join(other)}, which is not the same quantity under the likelihood of {of.baseline}"
        )
    seen: dict[str, list[str]] = {}
    for param, text, lam in zip(here["param"].values, here["penalty"].values, here["lam"].values):
        if text:
            seen.setdefault(text + (f" (RSS + {lam:.6g} R at its sigma)" if np.isfinite(lam) else ""), []).append(param)
    penalties = [f"penalty {text} on {_listed(params)}" for text, params in seen.items()]
    out += (
        penalties
        if len(penalties) <= LONG
        else [*penalties[:LARGEST], f"{len(penalties) - LARGEST} more penalties in .to_pandas()"]
    )
    if name in spellings:
        out.append(f"the mode of this model is scikit-learn's {spellings[name]}")
    if rowless(fit) and here["prior_weight"].isnull().any():
        out.append(f"{fit.model.design.rows_absent}, so that some prior weights are not known")
    if fit.target == "mode" and not fit.model.design.n:
        out.append(f"{fit.model.design.rows_absent}, so that no reason here rests on its sandwich")
    return out
