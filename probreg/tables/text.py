"""A table as lines of text that are at most so wide: long labels are cut, and columns without room continue below."""

from rich.cells import cell_len

from probreg.system.terminal import cut_middle, visible
from probreg.tables.content import TableContent

_LABEL = 24  # cells that the labels of a row keep at least, and a heading at most


def table_lines(table: TableContent, limit: int | None, width: int) -> list[str]:
    """The lines of the table; of more than `limit` the first, and one that counts the omitted rows."""
    lines = _all_lines(table, width)
    if limit is None or len(lines) <= limit:
        return lines
    per_row = -(-len(lines) // (len(table) + 2))  # more than one if columns continue
    n = max(limit // per_row - 2, 1)
    omitted = len(table) - n
    return [
        *_all_lines(table.take(slice(n)), width),
        f"… {omitted} more in {table.source}",
    ]


def _all_lines(table: TableContent, width: int) -> list[str]:
    heads = _heads(table)
    grid = heads + [[visible(cell) for cell in row] for row in table.cells]
    numeric = [column.is_numeric for column in table.columns]
    columns = [list(column) for column in zip(*grid)]
    widths = [_width(column) for column in columns]
    texts = [j for j, number in enumerate(numeric) if not number]
    # columns of text share the room that numbers leave: the long ones give way first
    numbers = [j for j, number in enumerate(numeric) if number]
    room = width + 2 - sum([widths[j] + 2 for j in numbers])
    limit = max([widths[j] for j in texts], default=0)
    least = max(_LABEL // max(len(texts), 1), 10)  # cells of each of several labels
    while limit > least and sum([min(widths[j], limit) + 2 for j in texts]) > room:
        limit -= 1
    for j in texts:
        columns[j] = cut_names(columns[j], limit)
        widths[j] = _width(columns[j])
    lines: list[str] = []
    for block in _blocks(widths, numeric, width):
        for i in range(len(grid)):
            if i - len(heads) in table.rules:
                lines.append("")
            cells = []
            for j in block:
                blank = " " * (widths[j] - cell_len(columns[j][i]))
                cell = columns[j][i]
                cells.append(blank + cell if numeric[j] else cell + blank)
            lines.append("  ".join(cells).rstrip())
    return lines


def _heads(table: TableContent) -> list[list[str]]:
    """The line of headings, below one of the headings of groups if there are any."""
    names = [visible(column.name) for column in table.columns]
    groups = [visible(column.group) for column in table.columns]
    names = [
        short if column.is_numeric else name
        for column, name, short in zip(table.columns, names, cut_names(names, _LABEL))
    ]
    groups = cut_names(groups, _LABEL)
    if not any(groups):
        return [names]
    shown = ["" if i and g == groups[i - 1] else g for i, g in enumerate(groups)]
    return [shown, names]


def _blocks(widths: list[int], numeric: list[bool], width: int) -> list[list[int]]:
    """Numbers of the columns side by side: where they are too wide, the leading texts are repeated before each part."""
    first = numeric.index(True) if True in numeric else len(numeric)
    labels = list(range(first))
    blocks = [list(labels)]
    for j in range(first, len(widths)):
        used = sum([widths[i] + 2 for i in blocks[-1]])
        if used + widths[j] > width and len(blocks[-1]) > len(labels):
            blocks.append(list(labels))
        blocks[-1].append(j)
    return blocks


def _width(cells: list[str]) -> int:
    return max(map(cell_len, cells), default=0)


def cut_names(names: list[str], width: int) -> list[str]:
    """Names of at most so many cells; names that differ stay different: what all long ones begin with is cut first.

    >>> cut_names(["price of lot 1, in thousands", "price of lot 2, in thousands", "x"], 16)
    ['…lot 1,…housands', '…lot 2,…housands', 'x']
    """
    long = [name for name in dict.fromkeys(names) if cell_len(name) > width]
    differs = [len(set(letters)) > 1 for letters in zip(*long)]
    start = 0
    if True in differs:
        start = max(differs.index(True) - width // 4, 0)
    short: dict[str, str] = {}
    for name in long:
        text = f"…{name[start:]}" if start else name
        cut = cut_middle(text, width)
        if cut in short.values():
            number = f" {len(short)}"
            cut = cut_middle(text, width - len(number)) + number
        short[name] = cut
    return [short.get(name, name) for name in names]
