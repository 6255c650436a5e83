"""A table of texts as Markdown, LaTeX, HTML, for a terminal, and for the clipboard."""

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from probreg.arguments.scalars import check_arguments
from probreg.arguments.types import DataFrame
from probreg.errors import Incompatible
from probreg.system.cell_widths import cells_of, to_left, to_right
from probreg.system.terminal import (
    WIDTH,
    clean_lines,
    cut_apart,
    truncate_lines,
    visible,
    wrap_line,
)

_LINES = 40  # of a print at most
_NOTES = 12  # of them, of the notes
_LABEL = 40  # characters of a label, or of the name of a fit
Cell = tuple[str, str]
ClipboardFormat = Literal["tsv", "markdown", "latex", "html"]


class TableEntry(NamedTuple):
    """A line of the table: its label and, fit by fit, the number with what stands beneath it; empty for what is not there."""

    label: str
    cells: tuple[Cell, ...]

    @property
    def lines(self) -> list[list[str]]:
        """One line, or two where something stands beneath."""
        tops = [self.label, *(top for top, _ in self.cells)]
        under = ["", *(below for _, below in self.cells)]
        return [tops, under] if any(under) else [tops]


@dataclass(frozen=True)
class PublicationTable:
    """The table that `pr.table` made: texts, rounded, in the formats of papers.

    Parameters
    ----------
    title : str
        Over the labels: the response.
    fits : tuple of str
        The names of the columns.
    coefficients : tuple of TableEntry
        One per coefficient.
    statistics : tuple of TableEntry
        N and the statistics of the fits.
    notes : tuple of str
        What the numbers are.

    Examples
    --------
    >>> print(PublicationTable("y", ("ML",), (TableEntry("x", (("1.5", "(0.2)"),)),), (TableEntry("N", (("9", ""),)),)))
    y     ML
    ---------
    x    1.5
        (0.2)
    ---------
    N      9
    """

    title: str
    fits: tuple[str, ...]
    coefficients: tuple[TableEntry, ...]
    statistics: tuple[TableEntry, ...]
    notes: tuple[str, ...] = ()

    @property
    def _head(self) -> list[str]:
        return [self.title, *self.fits]

    def to_pandas(self) -> DataFrame:
        """The texts as a DataFrame, one line per line of the table.

        Returns
        -------
        DataFrame
            A column per fit; the index has the label and "" or "beneath".
        """
        import pandas as pd

        rows, index = [], []
        for entry in (*self.coefficients, *self.statistics):
            for line, place in zip(entry.lines, ("", "beneath")):
                rows.append(line[1:])
                index.append((entry.label, place))
        return pd.DataFrame(
            rows,
            pd.MultiIndex.from_tuples(index, names=[self.title, ""]),
            list(self.fits),
        )

    def to_markdown(self) -> str:
        """The table in Markdown, with its notes under it.

        Returns
        -------
        str
            A pipe table, in which numbers are right-aligned.
        """
        lines = [_pipes(self._head), "|:--" + "|--:" * len(self.fits) + "|"]
        lines += [_pipes(line) for entry in self.coefficients for line in entry.lines]
        lines += [_pipes([""] * (1 + len(self.fits)))] if self.statistics else []
        lines += [_pipes(line) for entry in self.statistics for line in entry.lines]
        return (
            "\n".join(
                [*lines, "", *(f"{_escape_markdown(n)}  " for n in self.notes)]
            ).rstrip()
            + "\n"
        )

    def to_latex(self) -> str:
        """The table in LaTeX, for the package booktabs.

        Returns
        -------
        str
            A `table` with a `tabular`, every name escaped, the notes in small print.
        """

        def row(line: list[str]) -> str:
            first, *others = map(_latex, line)
            first = (
                f"{{}}{first}" if first[:1] in ("[", "*") else first
            )  # which are an argument of the \\ before
            return " & ".join([first, *others]) + r" \\"

        body = [row(line) for entry in self.coefficients for line in entry.lines]
        under = [row(line) for entry in self.statistics for line in entry.lines]
        notes = [rf"\footnotesize {_latex(n)}\par" for n in self.notes]
        return "\n".join(
            [
                r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * len(self.fits)}}}", r"\toprule",
                row(self._head), r"\midrule", *body, *([r"\midrule"] if under else []), *under, r"\bottomrule",
                r"\end{tabular}", *([r"\par\smallskip", r"\raggedright"] if notes else []), *notes, r"\end{table}", "",
            ]
        )  # fmt: skip

    def to_html(self) -> str:
        """The table in HTML that stands alone: a `<table>` with its notes as footer.

        Returns
        -------
        str
            Every name escaped; the style is inline.
        """
        right, rule = (
            "text-align:right;padding:0 0 0 1.5em",
            "border-top:1px solid currentColor",
        )

        def row(line: list[str], tag: str = "td", style: str = "") -> str:
            cells = [
                f'<{tag} style="{right};{style}">{html.escape(c)}</{tag}>'
                for c in line[1:]
            ]
            first = f'<th scope="row" style="text-align:left;font-weight:normal;{style}">{html.escape(line[0])}</th>'
            return f"<tr>{first}{''.join(cells)}</tr>"

        body = [row(line) for entry in self.coefficients for line in entry.lines]
        lines = [line for entry in self.statistics for line in entry.lines]
        under = [
            row(line, style=rule if i == 0 else "") for i, line in enumerate(lines)
        ]
        notes = "".join(f"<div>{html.escape(n)}</div>" for n in self.notes)
        foot = f'<tfoot><tr><td colspan="{1 + len(self.fits)}" style="text-align:left;font-size:smaller;{rule}">{notes}</td></tr></tfoot>'
        return (
            '<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">'
            f'<thead style="border-bottom:1px solid currentColor">{row(self._head, "th")}</thead>'
            f"<tbody>{''.join(body)}{''.join(under)}</tbody>{foot if self.notes else ''}</table>"
        )

    def to_tsv(self) -> str:
        """The table with tabs between its cells, as spreadsheets and word processors paste it.

        Returns
        -------
        str
            One line per line of the table, then the notes.
        """
        lines = [
            self._head,
            *(line for e in (*self.coefficients, *self.statistics) for line in e.lines),
        ]
        return (
            "\n".join(
                ["\t".join(map(_one_line, line)) for line in lines]
                + list(map(_one_line, self.notes))
            )
            + "\n"
        )

    @check_arguments
    def copy(self, output: ClipboardFormat = "tsv") -> None:
        """Puts the table on the clipboard of the person at this machine.

        Parameters
        ----------
        output : {"tsv", "markdown", "latex", "html"}
            Tabs between cells, for spreadsheets and word processors, or the text of another format.

        Raises
        ------
        Incompatible
            Where there is no clipboard, as on a server.
        """
        from pandas.io.clipboard import PyperclipException, clipboard_set

        makers: Mapping[str, Callable[[], str]] = {
            "tsv": self.to_tsv, "markdown": self.to_markdown, "latex": self.to_latex, "html": self.to_html,
        }  # fmt: skip
        try:
            clipboard_set(makers[output]())
        except (PyperclipException, OSError) as error:
            raise Incompatible(
                f"there is no clipboard on this machine that Python can reach: write print(table.to_{output}()) and copy that"
            ) from error

    def __repr__(self) -> str:
        # two lines per coefficient, of which so many are shown as leave room for the rest
        notes = truncate_lines(self.notes, ".notes", _NOTES)
        room = (
            _LINES
            - 4
            - sum(len(e.lines) for e in self.statistics)
            - sum(len(wrap_line(visible(n))) for n in notes)
        )
        entries, size = [], 0
        for entry in self.coefficients:
            size += len(entry.lines)
            entries += [entry] if size < room or len(self.coefficients) == 1 else []
        more = len(self.coefficients) - len(entries)
        body = [line for e in entries for line in e.lines]
        under = [line for e in self.statistics for line in e.lines]
        every = [[visible(c) for c in line] for line in (self._head, *body, *under)]
        labels, names = (
            cut_apart(texts, _LABEL)
            for texts in ((line[0] for line in every[1:]), every[0])
        )
        every = [
            [names[c] for c in every[0]],
            *([labels[line[0]], *line[1:]] for line in every[1:]),
        ]
        widths = [
            max(cells_of(line[i]) for line in every) for i in range(1 + len(self.fits))
        ]
        shown = _beside(widths)
        made = [_pad_cells(line[: 1 + shown], widths) for line in every]
        gone = len(self.fits) - shown
        rule = "-" * max(map(cells_of, made))
        if gone:
            apart = [f"… {gone} more fits: to_pandas() has all"]
        else:
            apart = []
        apart += (
            [f"… {more} more coefficients: keep= chooses, to_pandas() has all"]
            if more
            else []
        )
        last = [rule, *made[1 + len(body) :]] if under else []
        return clean_lines(
            made[0], rule, *made[1 : 1 + len(body)], *apart, *last, *notes
        )

    def _repr_html_(self) -> str:
        return self.to_html()


def _beside(widths: list[int]) -> int:
    """How many fits have room beside one another, one at least; the first width is that of the labels."""
    ends = [
        widths[0] + sum(w + 3 for w in widths[1 : 2 + i])
        for i in range(len(widths) - 1)
    ]
    return max(sum(end <= WIDTH for end in ends), 1)


def _pad_cells(line: list[str], widths: list[int]) -> str:
    """Cells under one another: what is beneath in parentheses ends one place further right than its number."""
    cells = [c + ("" if c.endswith((")", "]")) else " ") for c in line[1:]]
    return "  ".join(
        [
            to_left(line[0], widths[0]),
            *(to_right(c, w + 1) for c, w in zip(cells, widths[1:])),
        ]
    ).rstrip()


def _one_line(text: str) -> str:
    return visible(text).replace("\t", " ")


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(map(_escape_markdown, cells)) + " |"


def _escape_markdown(text: str) -> str:
    """One cell, in which nothing is markup.

    >>> _escape_markdown("a|b*")
    'a\\\\|b\\\\*'
    """
    out = _one_line(text)
    for mark in ("\\", "|", "*", "`", "<"):
        out = out.replace(mark, f"\\{mark}")
    return out


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "²": "$^2$", "…": r"\ldots{}", "∝": r"$\propto$",
    "|": r"\textbar{}", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$",
}  # fmt: skip


def _latex(text: str) -> str:
    r"""One cell in LaTeX; a minus is one of mathematics.

    >>> _latex("a_b"), _latex("-0.5"), _latex("R² 5 %")
    ('a\\_b', '$-$0.5', 'R$^2$ 5 \\%')
    """
    out = "".join(_LATEX.get(c, c) for c in _one_line(text))
    return re.sub(r"(?<![\w.)$-])-(?=\d)", "$-$", out)
