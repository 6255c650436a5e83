"""A table as Markdown and as LaTeX; names from data are escaped."""

import re

from probreg.system.terminal import visible
from probreg.tables.content import Column, TableContent

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "²": "$^2$", "…": r"\ldots{}", "∝": r"$\propto$",
    "|": r"\textbar{}", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$",
}  # fmt: skip


def table_markdown(table: TableContent) -> str:
    """A pipe table with its notes under it; an empty row for a rule."""
    lines = [_pipes([_column_title(column) for column in table.columns])]
    lines.append(
        "".join("|--:" if c.is_numeric else "|:--" for c in table.columns) + "|"
    )
    for i, row in enumerate(table.cells):
        if i in table.rules:
            lines.append(_pipes([""] * len(row)))
        lines.append(_pipes(row))
    notes = [f"{escape_markdown(note)}  " for note in table.notes]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _column_title(column: Column) -> str:
    return f"{column.group} {column.name}".strip()


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(map(escape_markdown, cells)) + " |"


def escape_markdown(text: str) -> str:
    """One cell, in which nothing is markup.

    >>> escape_markdown("a|b*")
    'a\\\\|b\\\\*'
    """
    escaped = visible(text)
    for mark in ("\\", "|", "*", "`", "<"):
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped


def table_latex(table: TableContent) -> str:
    """A `table` with a `tabular` in the style of booktabs."""
    align = "".join("r" if column.is_numeric else "l" for column in table.columns)
    body = []
    for i, row in enumerate(table.cells):
        if i in table.rules:
            body.append(r"\midrule")
        body.append(_latex_row(row))
    notes = [rf"\footnotesize {escape_latex(note)}\par" for note in table.notes]
    space = [r"\par\smallskip", r"\raggedright"] if notes else []
    head = _latex_row([_column_title(column) for column in table.columns])
    lines = [
        r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{align}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule",
        r"\end{tabular}", *space, *notes, r"\end{table}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _latex_row(cells: list[str]) -> str:
    first, *remaining = map(escape_latex, cells)
    if first[:1] in ("[", "*"):  # LaTeX would read it as an argument of the line before
        first = f"{{}}{first}"
    return " & ".join([first, *remaining]) + r" \\"


def escape_latex(text: str) -> str:
    r"""One cell in LaTeX; a minus sign is one of mathematics.

    >>> escape_latex("a_b"), escape_latex("-0.5"), escape_latex("R² 5 %")
    ('a\\_b', '$-$0.5', 'R$^2$ 5 \\%')
    """
    escaped = "".join(_LATEX.get(c, c) for c in visible(text))
    return re.sub(r"(?<![\w.)$-])-(?=\d)", "$-$", escaped)
