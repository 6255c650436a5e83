"""What a saved fit holds, as tables: a new field costs a line, and nothing is used before its line has been checked.

`FIELDS` are the texts and numbers of the specification by their path; the others are the arrays of a group, with shapes in
letters: p columns, m linear predictors, k = p m, q = p + 1, o reported outcomes, and others that the first array to have
one settles (n rows, u rows of weight 0, t numbers in a response, c chains, d draws, r replicates, a axes,
j directions, g nodes, e = p m and the unknown parameters).
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np

from probreg.data.weights import WeightKind
from probreg.errors import DataError
from probreg.fits.storage.container import Container
from probreg.inference.uncertainty.covariance import DEFINITIONS

Array = np.ndarray


@dataclass(frozen=True)
class ValueKind:
    """A kind of value: what it is called in an error, and whether a value is of it."""

    words: str
    holds: Callable[[Any], bool]


def _is_finite_number(value: Any) -> bool:
    """Finite, also as a float: JSON knows longer whole numbers."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


def _list_of(kind: ValueKind) -> ValueKind:
    return ValueKind(
        f"a list, each {kind.words}",
        lambda v: isinstance(v, list) and all(map(kind.holds, v)),
    )


def _table_of(kind: ValueKind) -> ValueKind:
    return ValueKind(
        f"a table, each {kind.words}",
        lambda v: isinstance(v, dict) and all(map(kind.holds, v.values())),
    )


def _or_none(kind: ValueKind) -> ValueKind:
    return ValueKind(f"{kind.words}, or null", lambda v: v is None or kind.holds(v))


def _one_of(words: Sequence[str]) -> ValueKind:
    return ValueKind(f"one of {', '.join(map(repr, words))}", lambda v: v in words)


TEXT = ValueKind("a text", lambda v: isinstance(v, str))
TRUTH = ValueKind("true or false", lambda v: isinstance(v, bool))
TABLE = ValueKind("a table", lambda v: isinstance(v, dict))
WHOLE = ValueKind(
    "a whole number, 0 or more",
    lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 0,
)
NUMBER = ValueKind("a number", lambda v: isinstance(v, float) or _is_finite_number(v))
FINITE_NUMBER = ValueKind("a finite number", _is_finite_number)
WHOLE_NUMBER = ValueKind(
    "a whole number, 0 or more",
    lambda v: _is_finite_number(v) and v >= 0 and v % 1 == 0,
)
SCALE = ValueKind(
    "a finite number, 0 or more", lambda v: _is_finite_number(v) and v >= 0
)
SPREAD = ValueKind(
    "a number, 0 or more, or nan", lambda v: NUMBER.holds(v) and not v < 0
)

FIELDS: Mapping[str, ValueKind] = {
    "version": TEXT,
    "seed": WHOLE,
    "likelihood": TABLE,
    "prior": TABLE,
    "aux": TABLE,
    "method": TABLE,
    "design.recipe": TABLE,
    "design.response": TEXT,
    "design.free": _list_of(TRUTH),
    "design.offset": TRUTH,
    "design.weights": _one_of(get_args(WeightKind)),
    "design.notes": _list_of(TEXT),
    "solution.aux": _table_of(SCALE),
    "solution.aux_sd": _table_of(SPREAD),
    "solution.hyper": _table_of(NUMBER),
    "solution.hyper_sd": _table_of(SPREAD),
    "solution.df": _or_none(SCALE),
    "solution.known_marginals": TRUTH,
    "solution.status": TEXT,
    "solution.detail": TEXT,
    "solution.engine": TEXT,
    "solution.sandwich": _one_of(("", *DEFINITIONS)),
    "solution.stats": _table_of(NUMBER),
    "solution.notes": _list_of(TEXT),
    "solution.draws": _or_none(_list_of(TEXT)),
    "solution.sample_stats": _list_of(TEXT),
    "solution.replicates": _or_none(_list_of(TEXT)),
}
# Fields that files of an earlier version lack.
LATER: Mapping[str, ValueKind] = {
    "solution.routine": _list_of(
        TRUTH
    ),  # of each note, whether it is of the computation alone; none by default
    "solution.scales": TABLE,  # scales at the top of the evidence; none by default
}


# Of scales at the top of the evidence, under `solution.scales` where there are some.
FOUND: Mapping[str, ValueKind] = {
    "prior": TABLE,
    "aux": TABLE,
    "criterion": _one_of(("REML", "ML")),
    "theta": _list_of(FINITE_NUMBER),
    "hessian": _list_of(FINITE_NUMBER),
    "value": FINITE_NUMBER,
    "vanished": _list_of(TRUTH),
    "plain": TRUTH,
    "points": WHOLE_NUMBER,
}
# The counts of moments, each under `sums` by the name of their group; arrays of that group in files of format 2.
COUNTS: Mapping[str, ValueKind] = {
    "n": WHOLE_NUMBER,
    "weight": SCALE,
    "log_precision": FINITE_NUMBER,
}


def check_specification(spec: Any) -> None:
    """DataError names the first field of a specification that is missing, or not of its kind."""
    for path, kind in FIELDS.items():
        field_of(spec, path, kind)
    for path, kind in LATER.items():
        first, last = path.split(".")
        if last in spec[first]:
            field_of(spec, path, kind)


def field_of(spec: Any, path: str, kind: ValueKind) -> Any:
    """The value at a path of a specification. DataError where it is missing, or not of its kind."""
    value = spec
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            raise DataError(f"its specification has no {path!r}")
        value = value[part]
    if not kind.holds(value):
        raise DataError(
            f"its {path!r} is {value!r:.60}, and {kind.words} belongs there"
        )
    return value


# ---- arrays --------------------------------------------------------------------------------------------------------


def _finite(values: Array) -> bool:
    return bool(np.isfinite(values).all())


def _is_covariance(scale: Array) -> bool:
    """Symmetric and positive semidefinite up to rounding; nan in whole rows and columns, where there is no estimate."""
    if scale.ndim == 0:
        return bool(np.isnan(scale))
    gone = np.isnan(np.diagonal(scale))
    V = scale[np.ix_(~gone, ~gone)]
    if not (
        _finite(V)
        and (np.diagonal(V) >= 0).all()
        and np.isnan(scale[gone]).all()
        and np.isnan(scale[:, gone]).all()
    ):
        return False
    sd = np.where(np.diagonal(V) > 0, np.sqrt(np.diagonal(V)), 1.0)
    R = V / sd[:, None] / sd
    if not _finite(R) or np.abs(R - R.T).max(initial=0.0) > 1e-6:
        return False
    try:
        np.linalg.cholesky(
            (R + R.T) / 2.0 + 1e-6 * np.eye(len(R))
        )  # rounding leaves eigenvalues a little below zero
    except np.linalg.LinAlgError:
        return False
    return True


def _orthonormal(axes: Array) -> bool:
    return _finite(axes) and bool(
        np.abs(axes.T @ axes - np.eye(axes.shape[1])).max(initial=0.0) < 1e-8
    )


FINITE = ValueKind("finite numbers", _finite)
NUMBERS = ValueKind("numbers or nan", lambda v: not np.isinf(v).any())
TRUTHS = ValueKind("0 or 1", lambda v: bool(np.isin(v, (0, 1)).all()))
POSITIVES = ValueKind(
    "positive finite numbers", lambda v: _finite(v) and bool((v > 0).all())
)
CORRELATIONS = ValueKind(
    "numbers between -1 and 1",
    lambda v: _finite(v) and bool((np.abs(v) <= 1.0 + 1e-12).all()),
)
NOT_NEGATIVE = ValueKind(
    "finite numbers, 0 or more", lambda v: _finite(v) and bool((v >= 0).all())
)
WHOLES = ValueKind(
    "whole numbers, 0 or more",
    lambda v: _finite(v) and bool((v >= 0).all() and (v % 1 == 0).all()),
)
SHARES = ValueKind(
    "shares that add up to 1",
    lambda v: _finite(v) and bool((v >= 0).all()) and abs(v.sum() - 1) < 1e-9,
)
RISING = ValueKind(
    "finite numbers that rise",
    lambda v: _finite(v) and len(v) > 1 and bool((np.diff(v) > 0).all()),
)
UPPER = ValueKind(
    "an upper triangle of finite numbers",
    lambda v: _finite(v) and not np.tril(v, -1).any(),
)
COVARIANCE = ValueKind(
    "a symmetric matrix without negative eigenvalues", _is_covariance
)
VARIANCES = ValueKind("numbers, 0 or more", lambda v: bool((v >= 0).all()))
AXES = ValueKind("columns of length 1 at right angles", _orthonormal)
ANY = ValueKind("any number", lambda v: True)


class Stored(NamedTuple):
    """An array: its name, the shapes that it may have, what its values are, and whether it may be left out."""

    name: str
    shapes: tuple[str, ...]
    values: ValueKind
    optional: bool = False


SOLUTION = (
    Stored("beta", ("p m",), NUMBERS),
    Stored("scale", ("", "k k"), COVARIANCE, optional=True),
    Stored("scale_spread", ("k",), NOT_NEGATIVE, optional=True),
    Stored("scale_axes", ("k a",), AXES, optional=True),
    Stored("scale_inner", ("i i",), COVARIANCE, optional=True),
    Stored("scale_places", ("H L",), WHOLES, optional=True),
    Stored("scale_blocks", ("H L L",), FINITE, optional=True),
    Stored("scale_low", ("K R",), FINITE, optional=True),
    Stored("scale_root", ("K f",), NUMBERS, optional=True),
    Stored("scale_frame", ("2 p",), FINITE, optional=True),
    Stored("scale_mix", ("M M",), UPPER, optional=True),
    Stored("scale_mixed", ("M",), WHOLES, optional=True),
    Stored("scale_missing", ("K",), TRUTHS, optional=True),
    Stored("scale_variances", ("k",), VARIANCES, optional=True),
    Stored("joint_places", ("H L",), WHOLES, optional=True),
    Stored("joint_blocks", ("H L L",), FINITE, optional=True),
    Stored("joint_low", ("K W",), FINITE, optional=True),
    Stored("joint_root", ("K W",), NUMBERS, optional=True),
    Stored("joint_frame", ("2 p",), FINITE, optional=True),
    Stored("joint_mix", ("M M",), UPPER, optional=True),
    Stored("joint_mixed", ("M",), WHOLES, optional=True),
    Stored("joint_missing", ("K",), TRUTHS, optional=True),
    Stored("not_estimable", ("p o",), TRUTHS, optional=True),
    Stored("null_space", ("p j",), FINITE, optional=True),
    Stored("marginal_weight", ("g",), SHARES, optional=True),
    Stored("marginal_log_sigma", ("g",), RISING, optional=True),
    Stored("marginal_mean", ("g p",), FINITE, optional=True),
    Stored("marginal_sd", ("g p",), POSITIVES, optional=True),
    Stored("made_of_root", ("e e",), FINITE, optional=True),
    Stored("made_of_gamma", ("2",), POSITIVES, optional=True),
    Stored("made_of_centre", ("e",), FINITE, optional=True),
)
BY_GROUP = (
    Stored("row", ("z",), WHOLES),
    Stored("column", ("z",), WHOLES),
    Stored("value", ("z",), FINITE),
    Stored("border", ("v h",), FINITE),
    Stored("totals", ("v 2",), FINITE),
)
MOMENTS = (
    Stored("moments_factor", ("q q",), UPPER),
    Stored("moments_factor_low", ("q q",), UPPER),
    Stored("moments_n", ("",), WHOLES, optional=True),
    Stored("moments_weight", ("",), NOT_NEGATIVE, optional=True),
    Stored("moments_mean", ("p",), FINITE),
    Stored("moments_scale", ("p",), NOT_NEGATIVE),
    Stored("moments_y", ("2",), FINITE),
    Stored("moments_log_precision", ("",), FINITE, optional=True),
)
ROWS = (
    Stored("X", ("n p",), FINITE),
    Stored("y", ("n", "n t"), FINITE),
    Stored("offset", ("n 1", "n m"), FINITE, optional=True),
    Stored("weights", ("n",), NOT_NEGATIVE, optional=True),
    Stored("precision", ("n",), POSITIVES, optional=True),
    Stored("unused_places", ("u",), WHOLES, optional=True),
    Stored(
        "unused_X", ("u p",), ANY, optional=True
    ),  # nan at a row that the terms cannot take
    Stored("unused_offset", ("u 1", "u m"), ANY, optional=True),
    Stored("unused_y", ("u", "u t"), ANY, optional=True),
)
# Of what a solution names itself: by the end of the name, the last line for all others.
DRAWS = (
    Stored("beta", ("c d p", "c d p o"), FINITE),
    Stored("cor(", ("c d",), CORRELATIONS),  # by its beginning
    Stored("", ("c d",), POSITIVES),
)
SAMPLE_STATS = (
    Stored("diverging", ("c d",), TRUTHS),
    Stored("reached_max_treedepth", ("c d",), TRUTHS),
    Stored("", ("c d",), ANY),
)
REPLICATES = (
    Stored("coef", ("r p o",), ANY),
    Stored("_own_std_error", ("",), ANY),
    Stored("own_std_error", ("p o",), ANY),
    Stored("_std_error", ("r",), ANY),
    Stored("std_error", ("r p o",), ANY),
    Stored("_acceleration", ("",), ANY),
    Stored("acceleration", ("p o",), ANY),
    Stored("", ("r",), ANY),
)


def stored_lines(names: Iterable[str], lines: tuple[Stored, ...]) -> tuple[Stored, ...]:
    """A line for each name: the first whose name it has, ends in where that begins with an underscore, or begins with
    where that ends in a bracket."""

    def fits(name: str, line: Stored) -> bool:
        if line.name.endswith("("):
            return name.startswith(line.name)
        if line.name.startswith("_") or not line.name:
            return name.endswith(line.name)
        return name == line.name

    return tuple(
        next(line for line in lines if fits(name, line))._replace(name=name)
        for name in names
    )


def read_arrays(
    file: Container,
    group: str,
    lines: Iterable[Stored],
    sizes: dict[str, int],
    *,
    prefix: str = "",
) -> dict[str, Array]:
    """The arrays of a group, each held to its line; letters without a size get that of the first array that has them."""
    present = set(file.names(group))
    out = {}
    for line in lines:
        name = prefix + line.name
        if line.optional and name not in present:
            continue
        values = file.array(group, name)
        if not any(_has_shape(values.shape, shape, sizes) for shape in line.shapes):
            wanted = " or ".join(
                f"({', '.join(shape.split())})" for shape in line.shapes
            )
            known = ", ".join(
                f"{letter} = {size}"
                for letter, size in sizes.items()
                if letter in " ".join(line.shapes)
            )
            raise DataError(
                f"{group}/{name} has shape {values.shape}, and {wanted} belongs there ({known})"
            )
        if not line.values.holds(values):
            raise DataError(
                f"{group}/{name} holds other values than {line.values.words}"
            )
        out[line.name] = values
    return out


def _has_shape(shape: tuple[int, ...], letters: str, sizes: dict[str, int]) -> bool:
    """Return whether the shape matches; sizes met for the first time are added to `sizes`."""
    wanted = letters.split()
    if len(wanted) != len(shape):
        return False
    new = {
        letter: size
        for letter, size in zip(wanted, shape)
        if letter not in sizes and not letter.isdigit()
    }
    if any(
        (int(w) if w.isdigit() else {**new, **sizes}[w]) != size
        for w, size in zip(wanted, shape)
    ):
        return False
    sizes |= new
    return True
