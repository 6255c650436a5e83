"""Read tables on disk in batches of rows: Parquet, Arrow IPC (feather) and CSV, by pyarrow.

This module does not use the meaning of the columns. A batch is a `DataTable` with rows labelled by their number in
their file, counted from 0. Text becomes a categorical of its distinct values, so that each value is parsed only once.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.arrays import brief, reads_as_number
from probreg.data.blocks.parts import LocalPart
from probreg.data.formula.columns import (
    DataTable,
    _from_series,
    declares_order,
    distinct_names,
    fits_floats,
    with_plain_dtype,
)
from probreg.errors import DataError
from probreg.formula.text import first_line
from probreg.linalg import threads
from probreg.system.disk import Stamp, require_plain

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".parq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "tsv",
    ".tsv.gz": "tsv",
}
_NUMBERS_OF_BATCH = 2**20  # numbers in a batch: 8 MB
_SMALLEST = 2**14  # minimum of rows in a batch, except in the last
_CSV_BLOCK = 2**24  # bytes of text that are parsed at a time
_DELIMITERS = {"csv": ",", "tsv": "\t"}


class Batch(NamedTuple):
    """Some rows of a file; `table.rows` are their numbers in it.

    If they are rows that count, `start` is the number of the first one among all such rows, and `number` is the number of their part.
    """

    table: DataTable
    file: str
    start: int = 0
    number: int = 0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.table.rows)

    @property
    def place(self) -> str:
        """Describe the rows and their file."""
        if not self.rows:
            return self.file
        return f"rows {self.table.rows[0]} to {self.table.rows[-1]} of {self.file}"

    def part(self, rows: slice) -> "Batch":
        """Return some of the rows."""
        table = self.table.part(rows)
        return self._replace(table=table, start=self.start + rows.start)


@dataclass(frozen=True)
class Files:
    """Files of one format with the same columns, in the order of their rows.

    The first rows of a CSV determine the types of its columns; Parquet and Arrow files store the types. `labels` are columns of numbers
    used as labels: for these columns every digit of a CSV is read.
    """

    paths: tuple[Path, ...]
    format: str
    marks: tuple[
        Stamp, ...
    ] = ()  # marks of the paths when the model was made; empty for no comparison
    labels: tuple[str, ...] = ()
    progress: bool | None = None

    @property
    def name(self) -> str:
        """A description of the files."""
        n_others = len(self.paths) - 1
        return self.paths[0].name + (
            f" and {n_others} more file{'s' * (n_others > 1)}" if n_others else ""
        )

    def names(self) -> tuple[str, ...]:
        """The columns of the first file. DataError for a file that cannot be read."""
        return self._names_of(self.paths[0])

    def _names_of(self, path: Path) -> tuple[str, ...]:
        with _read(path):
            names = _schema(path, self.format).names
        return distinct_names(names, path.name)

    def parts(self, names: Sequence[str]) -> LocalPart:
        """The files as one part of rows."""
        return LocalPart(self, self.name, self.progress)

    def batches(self, names: Sequence[str]) -> Generator[Batch]:
        """All rows of the named columns, in order. DataError for a file that lacks one or cannot be read."""
        import pyarrow as pa

        size = min(max(_NUMBERS_OF_BATCH // max(len(names), 1), _SMALLEST), 2**17)
        types = self._types(names) if self.format in _DELIMITERS else {}
        for path in self.paths:
            self._check_unchanged(path)
            present = self._names_of(path)
            absent = [name for name in names if name not in present]
            if absent:
                raise DataError(
                    f"{path.name} has no column {absent[0]!r}; it has: {', '.join(present)}"
                )
            row = 0
            with (
                _read(path),
                self._name_cell(path, types),
                _open(path, self.format, names, size, types) as (_, parts),
            ):
                for part in parts:
                    labels = {
                        name: _labels(part, name, row, path)
                        for name, kind in types.items()
                        if pa.types.is_dictionary(kind)
                    }
                    for start in range(0, part.num_rows, size):
                        rows = part.slice(start, size)
                        stop = start + rows.num_rows
                        columns = {
                            n: labels[n][start:stop]
                            if n in labels
                            else _values(rows, n)
                            for n in names
                        }
                        yield Batch(
                            DataTable(columns, np.arange(row + start, row + stop)),
                            path.name,
                        )
                    row += part.num_rows
            self._check_unchanged(path)  # the file may have changed during reading

    @contextmanager
    def _name_cell(self, path: Path, types: Mapping[str, Any]) -> Iterator[None]:
        """Raise a DataError for the first cell of a CSV that pyarrow cannot read in a column of numbers or truth values."""
        import pyarrow as pa
        from pyarrow import csv

        try:
            yield
        except pa.ArrowInvalid:
            text = {
                n: pa.string()
                for n, kind in types.items()
                if _is_number(kind) or pa.types.is_boolean(kind)
            }
            options = csv.ConvertOptions()
            truths = {*options.true_values, *options.false_values}
            row = 0
            with _open(path, self.format, [*text], types=text) as (_, batches):
                for batch in batches if text else ():
                    for name in text:
                        number = _is_number(types[name])
                        is_valid = reads_as_number if number else truths.__contains__
                        for i, cell in enumerate(batch.column(name).to_pylist()):
                            if cell is not None and not is_valid(cell):
                                expected = "a number" if number else "true or false"
                                raise _other_cell(
                                    name, path, cell, row + i, expected
                                ) from None
                    row += batch.num_rows
            raise

    def require_unchanged(self) -> None:
        """Raise DataError if one of the files changed after the model was built."""
        for path in self.paths:
            self._check_unchanged(path)

    def _check_unchanged(self, path: Path) -> None:
        """Raise DataError if a file changed since the model was made, because sums over both versions would be invalid."""
        if not self.marks:
            return
        if Stamp.of(path) != self.marks[self.paths.index(path)]:
            raise DataError(
                f"{path.name} was changed or replaced since the model was made; make the model again"
            )

    def _types(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the types of a CSV's columns, each from the first file with a value of it in its first rows.

        Whole numbers are read as floats, because the first rows do not show whether the last are whole.
        """
        import pyarrow as pa

        types: dict[str, Any] = {}
        for path in self.paths:
            types = {
                f.name: f.type
                for f in _schema(path, self.format)
                if not pa.types.is_null(f.type)
            } | types
            if types.keys() >= set(names):
                break
        types = {name: types.get(name, pa.float64()) for name in names}
        bad = [name for name, kind in types.items() if pa.types.is_binary(kind)]
        if bad:
            raise DataError(
                f"column {bad[0]!r} of {self.name} holds text that is not UTF-8: save the file as UTF-8"
            )
        for name in names:
            if name in self.labels and _is_number(types[name]):
                # as text; each distinct number is then read once
                types[name] = pa.dictionary(pa.int32(), pa.string())
            elif pa.types.is_integer(types[name]):
                types[name] = pa.float64()
        return types

    def declared_order(self, name: str) -> bool:
        """Whether a column is stored as a category with declared order of its levels."""
        return declares_order(_schema(self.paths[0], self.format), name)


def files_of(paths: Any, format: str | None, progress: bool | None) -> Files:
    """Return the files of a path, a folder (its files sorted by name) or a sequence of these.

    DataError for missing paths, for no file at all, for unknown or mixed formats, and for a folder with
    subfolders that encode columns in their names (year=2024).
    """
    if isinstance(paths, Sequence) and not isinstance(paths, str | bytes):
        listed = list(paths)
    else:
        listed = [paths]
    wrong = [path for path in listed if not isinstance(path, str | Path)]
    if wrong:
        raise DataError(
            f"files are given as a path, a folder or a list of these, got {type(wrong[0]).__name__}"
        )
    known = isinstance(format, str) and format in FORMATS.values()
    if format is not None and not known:
        raise DataError(
            f"format={brief(format)} is not known; take {', '.join(dict.fromkeys(FORMATS.values()))}, or leave it to the names"
        )
    files = [
        file
        for path in listed
        for file in _files_in(Path(path).expanduser().absolute(), format)
    ]
    if not files:
        raise DataError("no file was given: pass a path, a folder or a list of paths")
    present = {format or _format(path) for path in files}
    if len(present) > 1:
        raise DataError(
            f"the files are of several formats ({', '.join(sorted(present))}); read one format at a time"
        )
    marks = tuple(map(Stamp.of, files))
    return Files(tuple(files), present.pop(), marks, progress=progress)


def _files_in(path: Path, format: str | None) -> list[Path]:
    if not path.exists():
        raise DataError(f"there is no file or folder {path}")
    if not path.is_dir():
        return [require_plain(path)]
    suffixes = [s for s, kind in FORMATS.items() if format in (None, kind)]
    inside = sorted(
        f
        for f in path.rglob("*")
        if f.is_file()
        and f.name.lower().endswith(tuple(suffixes))
        and not any(part.startswith((".", "_")) for part in f.relative_to(path).parts)
    )
    folders = (part for f in inside for part in f.relative_to(path).parts[:-1])
    keyed = next((part for part in folders if "=" in part), None)
    if keyed is not None:
        raise DataError(
            f"the folder {path} is partitioned: {keyed!r} says a column by the name of a folder, and only columns inside files "
            "are read. Write that column into the files, or give one such folder, or a list of files, to do without it"
        )
    if not inside:
        raise DataError(
            f"the folder {path} holds no file that ends in {', '.join(suffixes)}"
        )
    return inside


def _format(path: Path) -> str:
    for suffix, kind in FORMATS.items():
        if path.name.lower().endswith(suffix):
            return kind
    raise DataError(
        f"{path.name} ends in none of {', '.join(FORMATS)}, which say how a file is read"
    )


@contextmanager
def _read(path: Path) -> Iterator[None]:
    """Raise errors of pyarrow as a DataError that names the file."""
    import pyarrow as pa

    try:
        yield
    except UnicodeDecodeError:
        raise DataError(
            f"{path.name} has a column name that is not UTF-8: save the file as UTF-8"
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path.name} cannot be read: {first_line(error)}") from None


@contextmanager
def _open(
    path: Path,
    format: str,
    names: Sequence[str] | None = None,
    size: int = _SMALLEST,
    types: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Any, Iterable[Any]]]:
    """Yield the schema of a file and its record batches: of the named columns, and for a CSV of these types."""
    buffer_bytes = 2**18  # bytes of a column of a Parquet file that are read at a time
    import pyarrow as pa

    if format == "parquet":
        from pyarrow import parquet

        # read in small parts while decoding: prefetching a row group, or a whole column of it, would cost its size
        # in memory, and a third of the time of decoding; a reader of all row groups would keep each of them until the last
        with parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=buffer_bytes
        ) as file:
            yield (
                file.schema_arrow,
                (
                    batch
                    for group in range(file.num_row_groups)
                    for batch in file.iter_batches(
                        size,
                        row_groups=[group],
                        columns=names,
                        use_threads=threads() > 1,
                    )
                ),
            )
    elif format == "arrow":
        with pa.memory_map(str(path)) as stored:
            try:
                file = pa.ipc.open_file(stored)
                parts = (file.get_batch(i) for i in range(file.num_record_batches))
            except pa.ArrowInvalid:
                stored.seek(0)
                file = parts = pa.ipc.open_stream(stored)
            yield file.schema, (batch.select(names) for batch in parts)
    else:
        from pyarrow import csv

        with csv.open_csv(
            path,
            csv.ReadOptions(block_size=_CSV_BLOCK if names else None),
            csv.ParseOptions(delimiter=_DELIMITERS[format]),
            csv.ConvertOptions(
                column_types=types, include_columns=names, strings_can_be_null=True
            ),
        ) as reader:
            yield reader.schema, reader


def _schema(path: Path, format: str) -> Any:
    """Return the columns of a file and their types."""
    with _read(path), _open(path, format) as (schema, _):
        return schema


# ---- from arrow's columns to plain arrays --------------------------------------------------------------------------


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _other_cell(name: str, path: Path, cell: str, row: int, expected: str) -> DataError:
    return DataError(
        f"column {name!r} of {path.name} holds {cell!r} in row {row}: expected {expected}, as in its other rows"
    )


def _labels(batch: Any, name: str, row: int, path: Path) -> Any:
    """Parse numbers that were read as text, with all their digits; `row` is the number of the first row of the batch."""
    import pyarrow as pa

    column = batch.column(name)
    try:
        labels: Any = column.dictionary.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        texts = column.dictionary.to_pylist()
        numbers = [_label(text) for text in texts]
        if None in numbers:
            odd = texts[numbers.index(None)]
            place = row + column.to_pylist().index(odd)
            raise _other_cell(name, path, odd, place, "a number") from None
        labels = np.empty(len(numbers), dtype=object)
        labels[:] = numbers
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    if column.null_count:
        labels = np.concatenate([np.asarray(labels, dtype=object), np.array([None])])
    return with_plain_dtype(labels[codes])


def _label(text: str) -> int | float | None:
    """Return the number in a text, a whole number exactly; None if the text is not a number."""
    if not reads_as_number(text) or "_" in text:
        return None
    number = float(text)
    if not number.is_integer():
        return number
    decimal = Decimal(text.strip())
    return int(decimal) if decimal == decimal.to_integral_value() else number


def _values(batch: Any, name: str) -> Any:
    """Return a column in the form that `DataTable` uses; text becomes a categorical without a declared order."""
    import pyarrow as pa

    column = batch.column(name)
    kind = column.type
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    ):
        column = column.cast(pa.string()).dictionary_encode()
    exact = bool(column.null_count) and not fits_floats(column)
    return _from_series(column.to_pandas(integer_object_nulls=exact))
