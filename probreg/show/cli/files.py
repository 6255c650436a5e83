"""A table from a file: CSV, TSV or Parquet, read so that nothing is renamed or guessed in silence."""

import csv
import gzip
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from probreg.datasets import list_datasets, load_dataset
from probreg.errors import DataError
from probreg.system.disk import require_plain

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("", "NA", "NaN", "nan")  # a level called "None" or "null" stays a level
_NUMBER = re.compile(r"\s*[+-]?\d*(,\d+|\d)([eE][+-]?\d+)?\s*")  # 1,5 and 12, with a decimal comma
_SUFFIXES = "csv, tsv, txt, csv.gz, parquet or pq"


def read_file(name: str, separator: str = ",", decimal: str | None = None, formula: str = "") -> "pd.DataFrame":
    """The table in a file, or a bundled data set when no such file is there.

    `decimal` is the point of a text file's numbers; where it is not given, a column that `formula` names and that would be
    numbers but for decimal commas is refused. DataError for that, and for what cannot be read.
    """
    path = Path(name)
    if decimal not in (None, ".", ","):
        raise DataError(f"--decimal is . or , got {decimal!r}")
    if not path.exists():
        known = [card.name for card in list_datasets()]
        if name in known:
            return load_dataset(name)
        raise DataError(f"there is no file {name!r}, and no bundled data set of that name ({', '.join(known)})")
    require_plain(path)
    suffixes = [s.lower() for s in path.suffixes]
    kind = next((s for s in reversed(suffixes) if s != ".gz"), "")
    if kind in (".parquet", ".pq"):
        return _parquet(path)
    if kind in (".csv", ".tsv", ".txt"):
        rows = _text(path, "\t" if kind == ".tsv" and separator == "," else separator, decimal or ".")
        if decimal is None:
            _refuse_decimal_commas(rows, formula)
        return rows
    raise DataError(f"{path.name!r} has no known ending; a table is read from {_SUFFIXES}")


def response_level(text: str | None, formula: str, rows: Any) -> Any:
    """The level of the response that a text on the command line means: 1 for "1" when the column holds numbers."""
    column = formula.partition("~")[0].strip()
    if text is None or column not in rows.columns:
        return text
    values = rows[column].dropna().unique().tolist()
    return next((v for v in values if str(v) == text or (isinstance(v, float) and f"{v:g}" == text)), text)


def _text(path: Path, separator: str, decimal: str) -> "pd.DataFrame":
    import pandas as pd

    if len(separator) != 1:
        raise DataError(f"--separator is one character, got {separator!r}")
    try:
        head = _head(path, separator)
        # DataError for no heading, a heading that seems to be separated otherwise, and names that repeat.
        if not any(name.strip() for name in head):
            raise DataError(f"{path.name!r} has no heading: its first line names the columns")
        if len(head) == 1 and (other := next((s for s in ";\t|," if s in head[0]), None)):
            raise DataError(
                f"{path.name!r} has one column, {head[0]!r}; if {other!r} separates columns, pass --separator {other!r}"
            )
        if twice := sorted({name for name in head if head.count(name) > 1}):
            raise DataError(f"{path.name!r} has more than one column called {', '.join(map(repr, twice))}; rename them")
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the heading would be cut
            rows = pd.read_csv(
                path,
                sep=separator,
                decimal=decimal,
                encoding="utf-8-sig",
                keep_default_na=False,
                na_values=list(MISSING),
                index_col=False,
            )
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name!r} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (
        OSError,
        csv.Error,
        pd.errors.ParserError,
        pd.errors.EmptyDataError,
        pd.errors.ParserWarning,
    ) as error:
        raise DataError(f"{path.name!r} cannot be read as a table: {error}") from None
    if rows.empty:
        raise DataError(f"{path.name!r} has a heading and no rows")
    return rows


def _refuse_decimal_commas(rows: "pd.DataFrame", formula: str) -> None:
    """DataError for text that would be numbers with a point for its comma: read as it stands it is categories."""
    for name in rows.columns:
        if rows[name].dtype.kind in "fiub" or not (str(name) in formula or "." in formula):
            continue
        met = [v for v in rows[name].dropna().unique().tolist() if isinstance(v, str)]
        commas = [v for v in met if "," in v]
        if commas and all(_NUMBER.fullmatch(v) for v in met):
            raise DataError(
                f"column {name!r} holds {commas[0]!r}, which reads as text: pass --decimal , for numbers with a decimal comma, "
                "or --decimal . to keep its values as categories"
            )


def _head(path: Path, separator: str) -> list[str]:
    opened: Callable[..., IO[str]] = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
        return next(csv.reader(lines, delimiter=separator), [])


def _parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except ImportError:
        raise DataError(
            f"{path.name!r} is Parquet, which needs the package pyarrow: install it, or save the table as CSV"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name!r} cannot be read as Parquet: {error}") from None
