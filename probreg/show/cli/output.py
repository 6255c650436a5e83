"""What a command writes: text to read, or JSON and CSV for a program; progress, notes and warnings on the standard error."""

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import typer

import probreg
from probreg.arguments.arrays import reads_as_number
from probreg.arguments.types import DataFrame
from probreg.errors import ProbregWarning
from probreg.show.cli.spelling import as_options
from probreg.system.terminal import visible


def write_lines(*things: object) -> None:
    """Each on a line of its own of the standard output."""
    for thing in things:
        typer.echo(str(thing))


def tell(kind: str, text: str) -> None:
    """A note or a warning, as one line on the standard error."""
    typer.echo(
        f"probreg: {kind}: {visible(' '.join(as_options(text).split()))}", err=True
    )


@contextmanager
def show_progress(what: str) -> Iterator[None]:
    """A spinner on a terminal, nothing elsewhere; warnings as lines on the standard error."""
    from rich.console import Console

    console = Console(stderr=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        if console.is_terminal:
            with console.status(f"{what} …"):
                yield
        else:
            yield
    for text in dict.fromkeys(
        str(w.message) for w in caught if issubclass(w.category, ProbregWarning)
    ):
        tell("warning", text)


def json_text(command: str, content: Mapping[str, Any]) -> str:
    """One JSON object with the command and the version; numbers in full, what does not exist as null."""
    head = {"command": command, "version": probreg.__version__}
    return (
        json.dumps(
            plain({**head, **content}), ensure_ascii=False, allow_nan=False, indent=1
        )
        + "\n"
    )


def write_json(command: str, content: Mapping[str, Any]) -> None:
    """The same on the standard output."""
    typer.echo(json_text(command, content), nl=False)


def csv_of(table: DataFrame) -> str:
    """A table with its index as columns: numbers in full, an empty cell for what does not exist, no text that runs.

    >>> import pandas as pd
    >>> csv_of(pd.DataFrame({"x": [0.1 + 0.2, float("nan")]}, index=pd.Index(["a", "b"], name="row")))
    'row,x\\na,0.30000000000000004\\nb,\\n'
    """
    made = flat(table).map(_as_cell).rename(columns=_as_cell)
    return str(made.to_csv(index=False, lineterminator="\n"))


def _as_cell(value: Any) -> Any:
    """A cell of a CSV; text that a spreadsheet would run as a formula stands behind an apostrophe.

    >>> [_as_cell(v) for v in ("=1+1", "+1", "a", -2.0)]
    ["'=1+1", '+1', 'a', -2.0]
    """
    runs = (
        isinstance(value, str)
        and value[:1] in ("=", "+", "-", "@", "\t", "\r")
        and not reads_as_number(value)
    )
    return f"'{value}" if runs else value


def flat(table: DataFrame) -> DataFrame:
    """The table with the named levels of its index as its first columns."""
    named = [name for name in table.index.names if name is not None]
    return table.reset_index() if named else table


def records(table: DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as objects, its index among them."""
    whole = flat(table)
    columns = {str(name): whole[name].tolist() for name in whole.columns}
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def plain(value: Any) -> Any:
    """A value as JSON has it: nan is null, and an infinite number the word "Infinity" or "-Infinity".

    >>> plain({"a": (1.5, math.nan, -math.inf), "b": np.int64(2)})
    {'a': [1.5, None, '-Infinity'], 'b': 2}
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return None
        return f"{'-' if value < 0 else ''}Infinity"
    if value is None or isinstance(value, str | int | float):
        return value
    # a missing value of pandas; a date
    if value != value:
        return None
    return str(value)
