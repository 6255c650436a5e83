"""Numbers as texts that stand under one another on their decimal point. The only place where a report rounds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison import Comparison, decimals, rounded
from probreg.system.terminal import percent

_FIGURE, _POINT = "\u2007", "\u2008"  # spaces as wide as a digit and as a full stop
_KIND = {
    "t": "t",
    "wald": "Wald",
    "eti": "equal\u2011tailed",
    "hdi": "highest\u00a0density",
    "chi-square": "chi\u2011square",
    "log-wald": "Wald, log scale",
}


class TextTable(NamedTuple):
    """Heads and rows of texts; `numeric` says which columns hold numbers."""

    heads: list[str]
    numeric: list[bool]
    rows: list[list[str]]


def aligned(cells: Sequence[str]) -> list[str]:
    """Right-aligned cells padded behind, so that their decimal points meet.

    >>> [c.replace(chr(0x2007), "_").replace(chr(0x2008), ".") for c in aligned(["-1.25", "3", ""])]
    ['-1.25', '3.__', '']
    """
    tails = [len(c.partition(".")[2]) for c in cells]
    longest = max(tails, default=0)

    def padded(cell: str, tail: int) -> str:
        return cell + ("" if "." in cell or not longest else _POINT) + _FIGURE * (longest - tail)

    return [padded(c, t) if c[-1:].isdigit() else c for c, t in zip(cells, tails)]


def comparison_table(of: Comparison) -> list[tuple[str, TextTable]]:
    """One small table per parameter: a row per fit, digits by the smallest standard error of the parameter."""
    return [(str(param), _parameter(of, str(param))) for param in of.data["param"].values]


def _parameter(of: Comparison, param: str) -> TextTable:
    here = of.data.sel(param=param)
    places = decimals(here["error"].values)
    each = {name: {str(k): v.item() for k, v in here.sel(fit=name).data_vars.items()} for name in of.fits}
    rows = [[name, *_cells(one, places, base=name == of.baseline)] for name, one in each.items()]
    heads = [
        "fit",
        "estimate",
        "SE or SD",
        "lower",
        "upper",
        "interval",
        "diff / SE",
        "SE ratio",
        "prior",
        "prior weight, %",
    ]
    numeric = [False, True, True, True, True, False, True, True, False, True]
    return TextTable(heads, numeric, _align(rows, numeric))


def _align(rows: list[list[str]], numeric: Sequence[bool]) -> list[list[str]]:
    columns = [aligned(c) if number else list(c) for c, number in zip(zip(*rows), numeric)]
    return [list(row) for row in zip(*columns)]


def _cells(one: dict[str, Any], places: int, *, base: bool) -> list[str]:
    if one["kind"] == "":
        return ["not in it", *[""] * 8]
    if one["kind"] == "held":
        return [f"{one['estimate']:g}", "", "", "", "held", *[""] * 4]
    if np.isnan(one["estimate"]):
        return ["none exists", *[""] * 6, one["prior"], ""]
    weight = one["prior_weight"]
    beside = ["", ""] if base else [minus(_known(f"{one['difference']:+.2f}")), _known(f"{one['se_ratio']:.3f}")]
    return [
        minus(rounded(one["estimate"], places)), rounded(one["error"], places),
        minus(rounded(one["lower"], places)), minus(rounded(one["upper"], places)), _KIND.get(one["kind"], one["kind"]),
        *beside,
        one["prior"], percent(weight).removesuffix(" %") if np.isfinite(weight) else "",
    ]  # fmt: skip


def _known(text: str) -> str:
    return "" if text.endswith(("nan", "inf")) else text


def minus(text: str) -> str:
    """A number with a true minus sign.

    >>> minus("-0.5")
    '−0.5'
    """
    return text.replace("-", "−") if text.startswith("-") else text


def plain_table(heads: list[str], rows: list[list[str]]) -> TextTable:
    """A table whose first column is text and whose others are numbers."""
    numeric = [False] + [True] * (len(heads) - 1)
    return TextTable(heads, numeric, _align(rows, numeric) if rows else [])
