"""The schema of a saved fit, and its file: a netCDF image followed by its SHA-256, which HDF5 readers ignore.

`FIELDS` lists the entries of the JSON specification by path. `ArraySpec` describes an array, with one letter per dimension: p columns,
m linear predictors, k = p m, o reported outcomes, and n rows, u rows of weight 0, c chains, d draws, r replicates. The first array
with one of these last letters sets its size. `encode_columns` and `decode_columns` store columns as such arrays.

The image is written and read in memory, and the digest is checked before HDF5 parses the image. The digest detects damage but not
forgery. From a forged image, only plain arrays are read, and none larger than the file.
"""

import hashlib
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np

from probreg.data.formula.columns import kind_of
from probreg.data.formula.layout import plain_level
from probreg.data.weights import WeightKind
from probreg.errors import DataError
from probreg.inference.status import Severity, Topic
from probreg.inference.uncertainty.covariance import DEFINITIONS

MAGIC = b"probreg sha256 1"
_LENGTH_BYTES = 8
TRAILER = len(MAGIC) + hashlib.sha256().digest_size + _LENGTH_BYTES


def netcdf_image(tree: Any) -> bytes:
    """Return a DataTree as the bytes of a netCDF file. DataError for text with a NUL character, which netCDF does not support."""
    for group in tree.subtree:
        for name, array in group.variables.items():
            if array.dtype.kind not in "OUT":
                continue
            for value in np.asarray(array).ravel().tolist():
                if isinstance(value, str) and "\0" in value:
                    raise DataError(
                        f"{value!r} in {name} has a NUL character, which a file cannot hold: rename it and fit again"
                    )
    buffer = io.BytesIO()
    tree.to_netcdf(buffer, engine="h5netcdf")
    return buffer.getvalue()


def seal(image: bytes | memoryview) -> bytes:
    """Return the bytes that follow the image in a file: a marker, its SHA-256, and its length, little-endian.

    >>> len(seal(b"any bytes"))
    56
    """
    length = len(image).to_bytes(_LENGTH_BYTES, "little")
    return MAGIC + hashlib.sha256(image).digest() + length


def read_verified(data: bytes, name: str) -> memoryview:
    """Return the image in a file. DataError if its digest is missing or differs."""
    end = len(data) - TRAILER
    if end < 0 or data[end : end + len(MAGIC)] != MAGIC:
        raise DataError(
            f"{name} is not a complete saved fit: the digest at its end is missing. It was cut short, changed by another program, "
            "or not written by Fit.save"
        )
    image = memoryview(data)[:end]
    if data[end:] != seal(image):
        raise DataError(
            f"{name} is damaged or was changed since it was saved: its digest differs. Fit and save again"
        )
    return image


class Container:
    """The text attributes and plain arrays of a netCDF image; it follows no link and reads no array larger than the image."""

    def __init__(self, image: memoryview) -> None:
        import h5py

        self._file = h5py.File(io.BytesIO(image), "r")
        self._size = len(image)

    def close(self) -> None:
        """Close the image."""
        self._file.close()

    def __contains__(self, group: str) -> bool:
        return group in self._file

    def text(self, name: str) -> str:
        """Return a text attribute of the root. DataError if there is none."""
        value = self._file.attrs.get(name)
        if not isinstance(value, str):
            raise DataError(f"it has no text attribute {name!r}")
        return value

    def names(self, group: str) -> list[str]:
        """Return the names of the arrays in a group. DataError if it is missing or not a group of this file."""
        return list(self._member(self._file, group, "group"))

    def array(self, group: str, name: str) -> np.ndarray:
        """Return an array of numbers. DataError if it is missing, of another type, or not completely in the file."""
        import h5py

        parent = self._member(self._file, group, "group")
        array = self._member(parent, name, "array")
        where = f"{group}/{name}"
        dtype = array.dtype
        numeric = isinstance(dtype, np.dtype) and dtype.kind in "fiub"
        if not numeric or array.shape is None:
            raise DataError(f"{where} has type {dtype}: expected numbers")
        plan = array.id.get_create_plist()
        contiguous = plan.get_layout() == h5py.h5d.CONTIGUOUS or not array.size
        if not contiguous or plan.get_external_count() or plan.get_nfilters():
            raise DataError(
                f"{where} is stored in pieces, compressed or in another file; a saved fit has plain arrays"
            )
        if array.nbytes > self._size or array.nbytes != array.id.get_storage_size():
            raise DataError(
                f"{where} has shape {array.shape}, and its values are not all in the file"
            )
        values = np.asarray(array[()])
        if dtype.kind == "f":
            return values.astype(float)
        return values

    def _member(self, group: Any, name: str, kind: str) -> Any:
        """Return a member of a group. DataError if it is missing, a link, or of another kind."""
        import h5py

        classes = {"group": h5py.Group, "array": h5py.Dataset}
        link = group.get(name, getlink=True)
        if link is None:
            raise DataError(f"it has no {kind} {name!r}")
        plain = isinstance(link, h5py.HardLink)
        if not plain or group.get(name, getclass=True) is not classes[kind]:
            raise DataError(f"{name!r} is not one of its plain {kind}s")
        return group[name]


Array = np.ndarray
FORMAT = 1


@dataclass(frozen=True)
class ValueKind:
    """A kind of value: its description in an error message, and a test whether a value is of this kind."""

    description: str
    accepts: Callable[[Any], bool]


# ---- fields of the specification -----------------------------------------------------------------------------------


def _is_finite_number(value: Any) -> bool:
    """Return whether a value is a number in the range of a float; integers of JSON have no limit."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


def _list_of(kind: ValueKind) -> ValueKind:
    return ValueKind(
        f"a list, each entry {kind.description}",
        lambda v: isinstance(v, list) and all(map(kind.accepts, v)),
    )


def _table_of(kind: ValueKind) -> ValueKind:
    return ValueKind(
        f"a table, each value {kind.description}",
        lambda v: isinstance(v, dict) and all(map(kind.accepts, v.values())),
    )


def _or_null(kind: ValueKind) -> ValueKind:
    return ValueKind(
        f"{kind.description}, or null", lambda v: v is None or kind.accepts(v)
    )


def _one_of(values: Sequence[str]) -> ValueKind:
    return ValueKind(f"one of {', '.join(map(repr, values))}", lambda v: v in values)


TEXT = ValueKind("a text", lambda v: isinstance(v, str))
TRUTH = ValueKind("true or false", lambda v: isinstance(v, bool))
TABLE = ValueKind("a table", lambda v: isinstance(v, dict))
WHOLE = ValueKind(
    "a whole number, 0 or more",
    lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 0,
)
NUMBER = ValueKind(
    "a number, 0 or at least 2.3e-308 in absolute value",
    lambda v: (
        (isinstance(v, float) or _is_finite_number(v))
        and not 0 < abs(v) < sys.float_info.min
    ),
)
FINITE_NUMBER = ValueKind("a finite number", _is_finite_number)
SCALE = ValueKind(
    "a finite number, 0 or more", lambda v: _is_finite_number(v) and v >= 0
)
SPREAD = ValueKind(
    "a number, 0 or more, or nan", lambda v: NUMBER.accepts(v) and not v < 0
)

FIELDS: Mapping[str, ValueKind] = {
    "format": WHOLE,
    "version": TEXT,
    "seed": WHOLE,
    "scales_compared": WHOLE,
    "likelihood": TABLE,
    "prior": TABLE,
    "aux": TABLE,
    "method": TABLE,
    "design.recipe": TABLE,
    "design.response": TEXT,
    # the number of its columns; in older files whether there is one
    "design.offset": ValueKind(
        "a whole number, true or false", lambda v: isinstance(v, int) and v >= 0
    ),
    "design.weights": _one_of(get_args(WeightKind)),
    "design.notes": _list_of(TEXT),
    "design.of_moments": TRUTH,
    "design.read": _list_of(TABLE),
    "design.labels": _list_of(TABLE),
    "solution.aux": _table_of(SCALE),
    "solution.aux_sd": _table_of(SPREAD),
    "solution.df": _or_null(SCALE),
    "solution.status": TEXT,
    "solution.detail": TEXT,
    "solution.sandwich": _one_of(("", *DEFINITIONS)),
    "solution.further": _list_of(TEXT),
    "solution.stats": _table_of(NUMBER),
    "solution.notes": _list_of(TEXT),
    "solution.note_topics": _list_of(_one_of(tuple(Topic.__members__))),
    "solution.note_severities": _list_of(_one_of(tuple(Severity.__members__))),
    "solution.replicates": _or_null(_list_of(TEXT)),
    "solution.draws": _or_null(TABLE),
    "solution.draws.values": _list_of(TEXT),
    "solution.draws.stats": _list_of(TEXT),
    "solution.draws.hyper": _list_of(TEXT),
    "solution.draws.elliptical": TRUTH,
    "solution.scales": _or_null(TABLE),
    "solution.scales.recipe": _or_null(TABLE),
    "solution.scales.prior": TABLE,
    "solution.scales.aux": TABLE,
    "solution.scales.criterion": _one_of(("REML", "ML")),
    "solution.scales.theta": _list_of(FINITE_NUMBER),
    "solution.scales.hessian": _list_of(_list_of(FINITE_NUMBER)),
    "solution.scales.value": FINITE_NUMBER,
    "solution.scales.vanished": _list_of(TRUTH),
    "solution.scales.plain": TRUTH,
    "solution.scales.points": WHOLE,
}


OPTIONAL = ("design.labels",)  # fields that older files lack


def check_specification(spec: Any) -> None:
    """Raise DataError for the first field that is missing or of the wrong kind; a null table needs no fields."""
    if not isinstance(spec, dict) or not WHOLE.accepts(spec.get("format")):
        raise DataError("its specification has no format number")
    if spec["format"] != FORMAT:
        raise DataError(
            f"its format is {spec['format']:d}, written by version {spec.get('version')!r:.20}, and this version reads format "
            f"{FORMAT}: fit and save again, or use that version"
        )
    for path, kind in FIELDS.items():
        *parents, name = path.split(".")
        table = spec
        for parent in parents:
            if table is not None:
                table = _field(table, parent, path)
        if table is None or (path in OPTIONAL and name not in table):
            continue
        value = _field(table, name, path)
        if not kind.accepts(value):
            raise DataError(f"{path!r} is {value!r:.60}: expected {kind.description}")


def _field(table: Any, name: str, path: str) -> Any:
    if not isinstance(table, dict) or name not in table:
        raise DataError(f"its specification has no {path!r}")
    return table[name]


# ---- arrays --------------------------------------------------------------------------------------------------------


def _is_finite(values: Array) -> bool:
    return bool(np.isfinite(values).all())


ANY = ValueKind("numbers", lambda v: True)
ENDS = ValueKind("numbers, finite or infinite", lambda v: not np.isnan(v).any())
NUMBERS = ValueKind("finite numbers or nan", lambda v: not np.isinf(v).any())
FINITE = ValueKind("finite numbers", _is_finite)
TRUTHS = ValueKind("0 or 1", lambda v: bool(np.isin(v, (0, 1)).all()))
POSITIVE = ValueKind(
    "positive finite numbers", lambda v: _is_finite(v) and bool((v > 0).all())
)
NOT_NEGATIVE = ValueKind(
    "finite numbers, 0 or more", lambda v: _is_finite(v) and bool((v >= 0).all())
)
CODES = ValueKind(
    "whole numbers, 0 or more",
    lambda v: _is_finite(v) and bool((v >= 0).all() and (v % 1 == 0).all()),
)
# the squares of these numbers, and of the inverse scales, are finite
FRAME = ValueKind(
    "shifts below 1e150 in absolute value and scales between 1e-150 and 1e150",
    lambda v: bool((np.abs(v) < 1e150).all() and (v[1] > 1e-150).all()),
)
VARIANCES = ValueKind("numbers, 0 or more", lambda v: bool((v >= 0).all()))


class ArraySpec(NamedTuple):
    """An array of a group: its name, allowed shapes, the kind of its values, and whether it may be missing."""

    name: str
    shapes: tuple[str, ...]
    kind: ValueKind
    optional: bool = False


SOLUTION = (
    ArraySpec("beta", ("p m",), NUMBERS),
    ArraySpec("not_estimable", ("p o",), TRUTHS, optional=True),
    ArraySpec("null_space", ("p j",), FINITE, optional=True),
    ArraySpec("marginal_weight", ("g",), NOT_NEGATIVE, optional=True),
    ArraySpec("marginal_log_sigma", ("g",), FINITE, optional=True),
    ArraySpec("marginal_mean", ("g p",), FINITE, optional=True),
    ArraySpec("marginal_sd", ("g p",), POSITIVE, optional=True),
)
COVARIANCE = tuple(
    ArraySpec(name, (shape,), kind, optional=True)
    for name, shape, kind in (
        ("root", "K f", NUMBERS),
        ("given", "k k", FINITE),
        ("spread", "k", NOT_NEGATIVE),
        ("axes", "k a", FINITE),
        ("inner", "i i", FINITE),
        ("places", "H L", CODES),
        ("blocks", "H L L", FINITE),
        ("low", "K R", FINITE),
        ("frame", "2 p", FRAME),
        ("mix", "M M", FINITE),
        ("mixed", "M", CODES),
        ("missing", "K", TRUTHS),
        ("variances", "k", VARIANCES),
    )
)
ROWS = (
    ArraySpec("X", ("n p",), FINITE),
    ArraySpec("y", ("n", "n t"), ENDS),  # censored rows end at infinity
    ArraySpec("offset", ("n 1", "n m"), FINITE, optional=True),
    ArraySpec("weights", ("n",), NOT_NEGATIVE, optional=True),
    ArraySpec("precision", ("n",), POSITIVE, optional=True),
    ArraySpec("absent", ("u",), CODES, optional=True),
)
REPLICATE_SHAPES = {
    "coef": "r p o",
    "acceleration": "p o",
}


def replicate_arrays(names: Iterable[str]) -> list[ArraySpec]:
    """Return the specs of bootstrap replicates of coefficients by name; replicates of other parameters are (r,) or one number."""
    return [
        ArraySpec(
            name,
            (REPLICATE_SHAPES[name],) if name in REPLICATE_SHAPES else ("r", ""),
            ANY,
        )
        for name in names
    ]


def read_arrays(
    file: Container,
    group: str,
    specs: Iterable[ArraySpec],
    sizes: dict[str, int],
    *,
    prefix: str = "",
) -> dict[str, Array]:
    """Read the arrays of a group and check their shapes and values; the first array with a new letter sets its size."""
    present = set(file.names(group))
    arrays = {}
    for spec in specs:
        name = prefix + spec.name
        if spec.optional and name not in present:
            continue
        values = file.array(group, name)
        if not any(_matches(values.shape, shape, sizes) for shape in spec.shapes):
            expected = " or ".join(f"({', '.join(s.split())})" for s in spec.shapes)
            sizes_text = ", ".join(
                f"{letter} = {size}"
                for letter, size in sizes.items()
                if letter in " ".join(spec.shapes)
            )
            raise DataError(
                f"{group}/{name} has shape {values.shape}: expected {expected}, {sizes_text}"
            )
        if not spec.kind.accepts(values):
            raise DataError(f"{group}/{name}: expected {spec.kind.description}")
        arrays[spec.name] = values
    return arrays


def _matches(shape: tuple[int, ...], letters: str, sizes: dict[str, int]) -> bool:
    """Return whether the shape matches; if so, the sizes of new letters are added to `sizes`."""
    axes = letters.split()
    if len(axes) != len(shape):
        return False
    all_sizes = dict(sizes)
    for axis, size in zip(axes, shape):
        expected = int(axis) if axis.isdigit() else all_sizes.setdefault(axis, size)
        if expected != size:
            return False
    sizes |= all_sizes
    return True


def encode_columns(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a table for each column with its name, an array of numbers or codes, and the levels of codes.

    Columns of mixed kinds, or of values other than numbers, truth values, texts and times, are left out.

    >>> encode_columns({"g": np.array(["b", "a", "b"], dtype=object)})
    [{'name': 'g', 'values': array([1, 0, 1]), 'levels': ['a', 'b']}]
    """
    tables: list[dict[str, Any]] = []
    for name, column in columns.items():
        values = np.asarray(column)
        if values.dtype.kind not in "biuf":
            if kind_of(values) == "time":
                values = np.array(list(map(plain_level, values)), dtype=object)
            if len(set(map(type, values))) > 1:
                continue  # 1, 1.0 and True are equal, but different levels
            values = np.array(values.tolist())
        levels = None
        if values.dtype.kind in "bU":
            unique, values = np.unique(values, return_inverse=True)
            levels = unique.tolist()
        if values.dtype.kind in "iuf":
            tables.append({"name": name, "values": values, "levels": levels})
    return tables


def decode_columns(tables: list[dict[str, Any]], n: int) -> dict[str, Any]:
    """Return the columns (n,) that `encode_columns` encoded. DataError if a table is malformed."""
    columns: dict[str, Any] = {}
    for table in tables:
        values: Any = table.get("values")
        name = table.get("name")
        levels = table.get("levels")
        is_array = isinstance(values, np.ndarray) and values.shape == (n,)
        if not isinstance(name, str) or not is_array:
            raise DataError(f"a column of the formula lacks a name or {n} values")
        if levels is None and not FINITE.accepts(values):
            raise DataError(f"values of {name!r:.40}: expected {FINITE.description}")
        if levels is not None:
            kinds = set(map(type, levels)) if isinstance(levels, list) else set()
            codes = CODES.accepts(values) and bool((values < len(levels)).all())
            if kinds not in ({str}, {bool}) or not codes:
                raise DataError(f"levels of {name!r:.40}: expected texts, and codes below their number")  # fmt: skip
            lookup = np.empty(len(levels), dtype=bool if kinds == {bool} else object)
            lookup[:] = levels
            values = lookup[values.astype(int)]
        columns[name] = values
    return columns
