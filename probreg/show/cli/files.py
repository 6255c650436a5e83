"""A table from a file or the standard input: text, Parquet or Arrow, read without renaming columns and without guessing values."""

import csv
import gzip
import io
import re
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

from probreg.arguments.scalars import DataFrame
from probreg.datasets import list_datasets, load_dataset
from probreg.errors import DataError
from probreg.formula.terms import left_of
from probreg.system.disk import require_plain

MISSING = ("", "NA", "NaN", "nan")  # a level called "None" or "null" stays a level
SUFFIXES = ".csv, .tsv, .txt, each also .gz, .parquet, .arrow or .feather"
_TEXT = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq", ".parq")
_ARROW = (".arrow", ".feather", ".ipc")
_GZIP = b"\x1f\x8b"  # the first bytes of a gzip file
_COMMA_NUMBER = re.compile(r"\s*[+-]?\d*(,\d+|\d)([eE][+-]?\d+)?\s*")  # 1,5 and 12


def read_file(
    name: str,
    separator: str | None = None,
    decimal: str | None = None,
    formula: str = "",
) -> DataFrame:
    """The table in a file, or a bundled data set if there is no such file.

    `separator`, by default a comma, or a tab in .tsv files, and `decimal`, the decimal point, are for text files. Without `decimal`, decimal
    commas in a column of `formula` raise a DataError.
    """
    import pandas as pd

    path = Path(name)
    is_text = name == "-" or path.name.lower().removesuffix(".gz").endswith(_TEXT)
    for option, value in (("separator", separator), ("decimal", decimal)):
        if value is not None and not is_text:
            raise DataError(f"--{option} is for text files, and {name!r} is none")
    if name == "-":
        content, source = _standard_input(), "the standard input"
    elif not path.exists():
        dataset_names = [card.name for card in list_datasets()]
        if name not in dataset_names:
            raise DataError(
                f"there is no file {name!r}, and no bundled data set of that name ({', '.join(dataset_names)})"
            )
        return load_dataset(name)
    else:
        require_plain(path)
        if is_text:
            content, source = path.read_bytes(), repr(path.name)
        elif path.name.lower().endswith(_PARQUET):
            return _read_columns(path, pd.read_parquet)
        elif path.name.lower().endswith(_ARROW):
            return _read_columns(path, pd.read_feather)
        else:
            raise DataError(
                f"{path.name!r} has no known ending; a table is read from {SUFFIXES}"
            )
    if separator is None:
        is_tsv = path.name.lower().removesuffix(".gz").endswith(".tsv")
        separator = "\t" if is_tsv else ","
    rows = _read_text(content, source, separator, decimal)
    if decimal is None:
        _check_decimal_commas(rows, formula)
    return rows


def formulas_by_parameter(text: str) -> str | dict[str, str]:
    """Return a formula, or the formulas of several parameters, which semicolons separate.

    >>> formulas_by_parameter("y ~ x; log sigma ~ z")
    {'y': 'y ~ x', 'log sigma': '~ z'}
    """
    first, *others = _split_formulas(text)
    if not others:
        return text
    formulas = {left_of(first).strip(): first.strip()}
    for part in others:
        name, tilde, terms = (piece.strip() for piece in part.partition("~"))
        if not tilde or name in formulas:
            raise DataError(
                f"{text!r}: expected each parameter once, with its terms, as in 'y ~ x; log sigma ~ z'"
            )
        formulas[name] = f"~ {terms}"
    return formulas


def _split_formulas(text: str) -> list[str]:
    """Return the formulas between semicolons; a semicolon between backquotes is part of a column's name."""
    return re.findall(r"(?:`[^`]*`|[^;])+", text) or [text]


def response_level(text: str | None, formula: str, rows: Any) -> Any:
    """Return the level of the response for a text: the number 1 for "1" if the column has numbers, True for "TRUE" if it has truth values."""
    column = left_of(_split_formulas(formula)[0]).strip().strip("`")
    if text is None or column not in rows.columns:
        return text
    for value in rows[column].dropna().unique().tolist():
        if isinstance(value, bool) and str(value).lower() == text.lower():
            return value
        if str(value) == text or (isinstance(value, float) and f"{value:g}" == text):
            return value
    return text


def _standard_input() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError(
            "- reads a table from the standard input, and nothing is piped into it"
        )
    return sys.stdin.buffer.read()


def _read_text(
    content: bytes, name: str, separator: str, decimal: str | None
) -> DataFrame:
    import pandas as pd

    try:
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        text = content.decode("utf-8-sig")
        # newline=None also ends lines at a single "\r", as pandas does
        lines = io.StringIO(text, newline=None)
        head = next(csv.reader(lines, delimiter=separator), [])
        _check_head(head, name)
        with warnings.catch_warnings():
            # pandas would cut rows that are longer than the heading
            warnings.simplefilter("error", pd.errors.ParserWarning)
            rows = pd.read_csv(
                io.StringIO(text),
                sep=separator,
                decimal=decimal or ".",
                keep_default_na=False,
                na_values=list(MISSING),
                index_col=False,
                skip_blank_lines=len(head) > 1,  # in one column a blank line is a value
                dtype_backend="numpy_nullable",  # floats would round large whole numbers in a column with missing values
            )
            rows.columns = head  # pandas invents a name for a column without one
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name} cannot be unzipped: {error}") from None
    except (csv.Error, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise DataError(f"{name} cannot be read as a table: {error}") from None
    if rows.empty:
        raise DataError(f"{name} has a heading and no rows")
    return rows


def _check_head(head: list[str], name: str) -> None:
    """Raise DataError for a missing heading, another separator, and repeated names."""
    if not any(column.strip() for column in head):
        raise DataError(f"{name} has no heading: its first line names the columns")
    if len(head) == 1:
        for candidate in ";\t|,":
            if candidate in head[0]:
                raise DataError(
                    f"{name} has one column, {head[0]!r}; if {candidate!r} separates columns, pass --separator {candidate!r}"
                )
    twice = sorted({column for column in head if head.count(column) > 1})
    if twice:
        raise DataError(
            f"{name} has more than one column called {', '.join(map(repr, twice))}; rename them"
        )


def _check_decimal_commas(rows: DataFrame, formula: str) -> None:
    """Raise DataError for numbers with a decimal comma, because they would be read as categories."""
    for name in rows.columns:
        if rows[name].dtype.kind in "fiub":
            continue
        texts = [v for v in rows[name].dropna().unique() if isinstance(v, str)]
        commas = [text for text in texts if "," in text]
        used = str(name) in formula or "." in formula
        if used and commas and all(map(_COMMA_NUMBER.fullmatch, texts)):
            raise DataError(
                f"column {name!r} holds {commas[0]!r}, which reads as text: pass --decimal , for numbers with a decimal comma, "
                "or --decimal . to keep its values as categories"
            )


def _read_columns(path: Path, read: Any) -> DataFrame:
    try:
        return read(path, dtype_backend="numpy_nullable")
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name!r} cannot be read as a table: {error}") from None
