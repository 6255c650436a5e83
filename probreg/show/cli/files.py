"""A table from a file or the standard input: text, Parquet or Arrow, read so that nothing is renamed or guessed in silence."""

import csv
import gzip
import io
import re
import sys
import warnings
import zlib
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from probreg.data.formula.columns import EXACT
from probreg.datasets import list_datasets, load_dataset
from probreg.errors import DataError
from probreg.system.disk import require_plain

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("", "NA", "NaN", "nan")  # a level called "None" or "null" stays a level
_NUMBER = re.compile(
    r"\s*[+-]?\d*(,\d+|\d)([eE][+-]?\d+)?\s*"
)  # 1,5 and 12, with a decimal comma
SUFFIXES = ".csv, .tsv, .txt, each also .gz, .parquet, .arrow or .feather"
_TEXT = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq", ".parq")
_ARROW = (".arrow", ".feather", ".ipc")
_ZIPPED = b"\x1f\x8b"  # how what gzip wrote begins


def read_file(
    name: str, separator: str = ",", decimal: str | None = None, formula: str = ""
) -> "pd.DataFrame":
    """The table in a file, or a bundled data set when no such file is there.

    `decimal` is the point of a text file's numbers; where it is not given, a column that `formula` names and that would be
    numbers but for decimal commas is refused. DataError for that, and for what cannot be read.
    """
    if name == "-":
        return _check_rows(
            _text(_standard_input(), "the standard input", separator, decimal or "."),
            decimal,
            formula,
        )
    path = Path(name)
    if not path.exists():
        known = [card.name for card in list_datasets()]
        if name in known:
            return load_dataset(name)
        raise DataError(
            f"there is no file {name!r}, and no bundled data set of that name ({', '.join(known)})"
        )
    require_plain(path)
    suffixes = [s.lower() for s in path.suffixes]
    zipped = suffixes[-1:] == [".gz"]
    kind = "".join(suffixes[-2:-1] if zipped else suffixes[-1:])
    if kind in _PARQUET + _ARROW and not zipped:
        return _columnar(path, "Parquet" if kind in _PARQUET else "Arrow")
    if kind in _TEXT:
        if kind == ".tsv" and separator == ",":
            separator = "\t"
        opened: Any = gzip.open if zipped else open
        with opened(path, "rb") as raw:
            return _check_rows(
                _text(raw, repr(path.name), separator, decimal or "."), decimal, formula
            )
    raise DataError(
        f"{path.name!r} has no known ending; a table is read from {SUFFIXES}"
    )


def _standard_input() -> IO[bytes]:
    """All that comes, unzipped where it is zipped. DataError where nothing is piped in."""
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError(
            "- reads a table from the standard input, and nothing is piped into it"
        )
    content = sys.stdin.buffer.read()
    try:
        return io.BytesIO(
            gzip.decompress(content) if content.startswith(_ZIPPED) else content
        )
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"the standard input cannot be unzipped: {error}") from None


def _check_rows(
    rows: "pd.DataFrame", decimal: str | None, formula: str
) -> "pd.DataFrame":
    if decimal is None:
        _refuse_decimal_commas(rows, formula)
    return rows


def response_level(text: str | None, formula: str, rows: Any) -> Any:
    """The level of the response that a text on the command line means: 1 for "1" when the column holds numbers."""
    column = formula.partition("~")[0].strip()
    if text is None or column not in rows.columns:
        return text
    values = rows[column].dropna().unique().tolist()
    return next(
        (
            v
            for v in values
            if str(v) == text or (isinstance(v, float) and f"{v:g}" == text)
        ),
        text,
    )


def _text(raw: IO[bytes], name: str, separator: str, decimal: str) -> "pd.DataFrame":
    import pandas as pd

    try:
        lines = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        head = next(csv.reader(lines, delimiter=separator), [])
        _check_head(head, name)
        lines.detach().seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", pd.errors.ParserWarning
            )  # rows longer than the heading would be cut
            read = partial(
                pd.read_csv,
                sep=separator,
                decimal=decimal,
                encoding="utf-8-sig",
                keep_default_na=False,
                na_values=list(MISSING),
                index_col=False,
                skip_blank_lines=len(head)
                > 1,  # in a file of one column a blank line is a missing value
            )
            rows = read(raw)
            rounded = _columns_with_rounding(rows)
            if rounded:
                raw.seek(0)
                again = read(raw, usecols=rounded, dtype_backend="numpy_nullable")
                rows = rows.assign(**{name: again[name] for name in rounded})
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from None
    except (
        OSError, EOFError, zlib.error, csv.Error, pd.errors.ParserError, pd.errors.EmptyDataError, pd.errors.ParserWarning,
    ) as error:  # fmt: skip
        raise DataError(f"{name} cannot be read as a table: {error}") from None
    if rows.empty:
        raise DataError(f"{name} has a heading and no rows")
    return rows


def _columns_with_rounding(rows: "pd.DataFrame") -> list[str]:
    """The columns whose numbers may be whole numbers that were rounded to floats, since others of the column are missing."""
    found = [
        name
        for name in rows
        if rows[name].dtype.kind == "f" and rows[name].isna().any()
    ]
    return [name for name in found if rows[name].abs().max() > EXACT]


def _check_head(head: list[str], name: str) -> None:
    """DataError for no heading, a heading that seems to be separated otherwise, and names that repeat."""
    if not any(column.strip() for column in head):
        raise DataError(f"{name} has no heading: its first line names the columns")
    if len(head) == 1 and (other := next((s for s in ";\t|," if s in head[0]), None)):
        raise DataError(
            f"{name} has one column, {head[0]!r}; if {other!r} separates columns, pass --separator {other!r}"
        )
    twice = sorted({column for column in head if head.count(column) > 1})
    if twice:
        raise DataError(
            f"{name} has more than one column called {', '.join(map(repr, twice))}; rename them"
        )


def _refuse_decimal_commas(rows: "pd.DataFrame", formula: str) -> None:
    """DataError for text that would be numbers with a point for its comma: read as it stands it is categories."""
    for name in rows.columns:
        if rows[name].dtype.kind in "fiub" or not (
            str(name) in formula or "." in formula
        ):
            continue
        met = [v for v in rows[name].dropna().unique().tolist() if isinstance(v, str)]
        commas = [v for v in met if "," in v]
        if commas and all(_NUMBER.fullmatch(v) for v in met):
            raise DataError(
                f"column {name!r} holds {commas[0]!r}, which reads as text: pass --decimal , for numbers with a decimal comma, "
                "or --decimal . to keep its values as categories"
            )


def _columnar(path: Path, format: str) -> "pd.DataFrame":
    import pandas as pd

    try:
        if format == "Parquet":
            read = pd.read_parquet
        else:
            read = pd.read_feather
        rows = read(path)
        rounded = _columns_with_rounding(rows)
        if rounded:
            again = read(path, columns=rounded, dtype_backend="numpy_nullable")
        else:
            again = rows
        return rows.assign(**{name: again[name] for name in rounded})
    except ImportError:
        raise DataError(
            f"{path.name!r} is {format}, which needs the package pyarrow: install it, or save the table as CSV"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name!r} cannot be read as {format}: {error}") from None
