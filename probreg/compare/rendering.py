"""The comparison as text and as HTML: a head, one row per parameter and fit, reasons, notes. Only here is it rounded."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from probreg.compare.numbers import KIND_WORDS, Compared
from probreg.compare.shares import kinked, rowless
from probreg.fit import Fit

Reasons = Mapping[str, Mapping[str, str]]
Array = np.ndarray
SHARE_NOTE = (
    "share of the prior in the precision, at the estimate of each fit, P and H the curvatures of the log prior and of the "
    "log posterior: P_jj / H_jj with the other coefficients held (it moves with the zero of a column), and free, "
    "(P H^-1)_jj, with the others following; a kinked prior has no curvature"
)
LEFT = (0, 1, 8)  # columns of words
MANY, MOST = 5, 3  # with so many fits only so many reasons are printed for a parameter


def text(of: Compared, why: Reasons, notes: Sequence[str]) -> str:
    """Everything as lines of text; `why` has a sentence by parameter and fit."""
    head, rows = _table(of)
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines, last = [_line(head, widths)], ""
    for label, *cells in rows:
        lines += [""] if last not in ("", label) else []
        lines.append(_line(["" if label == last else label, *cells], widths))
        last = label
    said = [f"  {p}: {s}" for p, s in _printed(of, why)]
    reasons = ["", "Why they differ", *said] if said else []
    return "\n".join([*_header(of), "", *lines, *reasons, "", "Notes", *(f"  {n}" for n in notes)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(c.ljust(w) if i in LEFT else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()


def as_html(of: Compared, why: Reasons, notes: Sequence[str]) -> str:
    """The same as HTML, everything that was given escaped."""
    head, rows = _table(of)
    size = Counter(r[0] for r in rows)
    body, last = [], ""
    for label, *cells in rows:
        first = f'<th rowspan="{size[label]}" scope="rowgroup">{html.escape(label)}</th>' if label != last else ""
        body.append(f"<tr>{first}{''.join(f'<td>{html.escape(c)}</td>' for c in cells)}</tr>")
        last = label
    said = [f"<b>{html.escape(p)}</b>: {html.escape(s)}" for p, s in _printed(of, why)]
    top = f"<tr>{''.join(f'<th>{html.escape(c)}</th>' for c in head)}</tr>"
    return (
        f"<p>{'<br>'.join(html.escape(v) for v in _header(of))}</p>"
        f"<table><thead>{top}</thead><tbody>{''.join(body)}</tbody></table>"
        + (f"<p>Why they differ</p>{_list(said)}" if said else "")
        + _list([html.escape(n) for n in notes])
    )


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{i}</li>' for i in items)}</ul>" if items else ""


def _printed(of: Compared, why: Reasons) -> list[tuple[str, str]]:
    """The sentences that are printed, each with its parameter."""
    most = MOST if len(of.fits) >= MANY else len(of.fits)
    shift = of.data["shift"]
    return [
        (param, s)
        for param, said in why.items()
        for s in furthest(said, {f: shift.sel(fit=f, param=param).item() for f in said}, most)
    ]


def furthest(said: Mapping[str, str], shift: Mapping[str, float], most: int) -> list[str]:
    """The sentences of the fits with the largest shifts, in their order, and how many are left out; first of all those
    of a fit without a shift, which has lost its estimate.

    >>> furthest({"a": "A", "b": "B", "c": "C"}, {"a": 0.2, "b": -3.0, "c": float("nan")}, 2)
    ['B', 'C', 'and 1 more in .reasons']
    """
    kept = sorted(said, key=lambda f: abs(shift[f]) if np.isfinite(shift[f]) else np.inf, reverse=True)[:most]
    rest = len(said) - len(kept)
    return [s for f, s in said.items() if f in kept] + ([f"and {rest} more in .reasons"] if rest else [])


def _header(of: Compared) -> list[str]:
    attrs = of.data.attrs
    d = of.fits[of.baseline].model.design
    n = attrs.get("observations")
    rows = "rows not kept" if n is None else f"{n:g} observations" + (f" in {d.n} rows" if d.n and d.n != n else "")
    lines = [
        attrs["models"],
        f"{rows}; {100 * of.prob:g} % intervals; shift in SE of {of.baseline}, ratio of SE or SD to its",
    ]
    width = max(map(len, of.fits))
    for name, fit in of.fits.items():
        said = [fit.method.name, f"{_kinds(of, name)} intervals"]
        said += [f"seed {fit.seed}"] if fit.target == "posterior" else []
        other = fit.model.likelihood.describe(d.response)
        said += [other] if other != attrs["models"] else []
        status = ("" if fit.solution.status.good else "(!) ") + fit.described["status"]
        lines.append(f"  {name.ljust(width)}  {', '.join(said)}; {status}")
    return lines


def _kinds(of: Compared, name: str) -> str:
    """The kind of interval of the coefficients, and of the others where it is another one."""
    here = of.data.sel(fit=name)
    kinds = dict.fromkeys(zip(here["role"].values, here["kind"].values, here["param"].values))
    first = next(k for _, k, _ in kinds)
    rest = [f"{p}: {KIND_WORDS[k]}" for role, k, p in kinds if role != "coefficient" and k in KIND_WORDS and k != first]
    return KIND_WORDS[first] + (f" ({', '.join(rest)})" if rest else "")


def _table(of: Compared) -> tuple[list[str], list[list[str]]]:
    """Head and rows as texts, one row per parameter and fit; digits follow the smallest SE of the parameter."""
    informed = bool(of.data["share"].fillna(1.0).where(of.data["role"] == "coefficient", 0.0).any())
    head = ["", "fit", "estimate", "SE | SD", "lower", "upper", "shift", "ratio"]
    head += ["prior", "share", "free"] if informed else []
    rows = []
    for param in of.data["param"].values:
        here = of.data.sel(param=param)
        places = decimals(here["error"].values)
        for name, fit in of.fits.items():
            one = {str(k): v.item() for k, v in here.sel(fit=name).data_vars.items()}
            mark = name if fit.solution.status.good else f"{name} (!)"
            cells = [str(param), mark, *_numbers(one, places, fit)]
            rows.append([*cells, one["prior"], *_shares(one, fit, str(here["coef"].item()))] if informed else cells)
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
    shift = f"{round(one['shift'], 2) + 0.0:+.2f}" if np.isfinite(one["shift"]) else ""
    return [rounded(one["estimate"], places), error, *ends, shift, f"{one['ratio']:.3f}" if one["ratio"] > 0 else ""]


def _shares(one: Mapping[str, Any], fit: Fit, column: str) -> list[str]:
    if one["kind"] in ("held", ""):
        return ["", ""]
    held, free = one["share"], one["marginal_share"]
    lost = "kinked" if column in kinked(fit.model) else "not known" if rowless(fit) else "no curvature"
    return [lost if np.isnan(held) else f"{100 * held:.3g} %", "" if np.isnan(free) else f"{100 * free:.3g} %"]


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
    if of.data["share"].fillna(1.0).any():
        out.append(SHARE_NOTE)
    base = of.data.sel(fit=of.baseline)
    lost = np.isnan(base["error"].values) & (base["kind"].values != "held")
    if lost.any():
        out.append(f"no shift is given for {', '.join(base['param'].values[lost])}: {of.baseline} has no SE there")
    return out


def _fit_notes(of: Compared, name: str, spellings: Mapping[str, str]) -> list[str]:
    here, fit = of.data.sel(fit=name), of.fits[name]
    gone = here["param"].values[np.isnan(here["estimate"].values) & (here["kind"].values != "")]
    out = [f"no estimate of {', '.join(gone)} exists: {fit.described['status']}"] if len(gone) else []
    if "sigma" in fit.model.likelihood.aux and fit.solution.notes:
        out.append(fit.solution.notes[0])  # a solution with a noise scale says first what it did with it
    seen: dict[str, list[str]] = {}
    for param, text, lam in zip(here["param"].values, here["penalty"].values, here["lam"].values):
        if text:
            seen.setdefault(text + (f" (RSS + {lam:.6g} R at its sigma)" if np.isfinite(lam) else ""), []).append(param)
    out += [f"penalty {text} on {', '.join(params)}" for text, params in seen.items()]
    if name in spellings:
        out.append(f"the mode of this model is scikit-learn's {spellings[name]}")
    if rowless(fit) and here["share"].isnull().any():
        out.append("saved without its rows, so that some shares are not known")
    return out
