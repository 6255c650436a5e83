"""A smooth function as a term of a formula: its basis, for all rows or for each level of a factor, its column names and blocks.

A term follows from plain data (its state), which recipes and files contain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from probreg.data.formula.columns import kind_of
from probreg.data.terms.smooths import (
    PenalisedSpline,
    SmoothBasis,
    TensorProduct,
    ThinPlate,
)
from probreg.errors import DataError

Array = np.ndarray
_KINDS: dict[str, type[SmoothBasis]] = {
    "tp": ThinPlate,
    "ps": PenalisedSpline,
    "t2": TensorProduct,
}
_COLUMNS = {1: 10, 2: 30}  # k, the constant counted, by the number of columns
_MATRICES = ("knots", "transform")


@dataclass(frozen=True)
class BasisTerm:
    """The columns of one term by name: columns with a flat prior, and blocks of columns that share a scale.

    `short` is the term without its options, which priors may use as its name. `levels` are the levels of `by=`, each with a function
    of its own.
    """

    name: str
    short: str
    flat: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...]
    labels: tuple[
        str, ...
    ]  # labels of the blocks: the term, with a distinguishing part if there are several
    levels: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns of the term."""
        return (*self.flat, *(c for block in self.blocks for c in block))

    @property
    def functions(self) -> tuple["BasisTerm", ...]:
        """Return the term itself, or one term for each level of `by=`, named `s(x, by=g)[a]`."""
        if not self.levels:
            return (self,)
        F = len(self.flat) // len(self.levels)
        B = len(self.blocks) // len(self.levels)
        return tuple(
            BasisTerm(
                f"{self.name}[{level}]",
                f"{self.short}[{level}]",
                self.flat[i * F : (i + 1) * F],
                self.blocks[i * B : (i + 1) * B],
                self.labels[i * B : (i + 1) * B],
            )
            for i, level in enumerate(self.levels)
        )


@dataclass(frozen=True, eq=False)
class SmoothTerm:
    """A basis and its multiplier: none, a number, or the indicators of levels, each with a separate function."""

    basis: SmoothBasis
    short: str  # the term without its options
    by: str = ""  # "", "number" or "levels"
    levels: tuple[Any, ...] = ()

    def columns_at(
        self, x: Array, by: Any = None, rows: Any = None
    ) -> tuple[tuple[str, ...], Array]:
        """Return the names of the columns and the columns (n, q), at points x (n, d) and the values of `by`."""
        columns = self.basis.columns_at(x)
        if self.by == "number":
            kind = kind_of(by)
            if kind not in ("number", "truth"):
                raise DataError(
                    f"by= held numbers when the model was fitted and holds {kind} now, {by[0]!r} at row {rows[0]}"
                )
            values = np.asarray(by, dtype=float)
            columns = np.column_stack([np.ones(len(x)), columns]) * values[:, None]
        if self.by == "levels":
            levels = np.asarray(by, dtype=object)
            if (
                set(self.levels) == {"False", "True"}
                and kind_of(by) == "number"
                and np.isin(by, (0, 1)).all()
            ):
                levels = levels.astype(bool).astype(object)
            bad = np.flatnonzero(
                ~np.isin(levels.astype(str), [str(level) for level in self.levels])
            )
            if len(bad):
                raise DataError(
                    f"by= has the level {levels[bad[0]]!r} at row {rows[bad[0]]}, which the model does not know; it knows "
                    f"{', '.join(map(repr, self.levels))}"
                )
            columns = np.hstack(
                [
                    columns * (levels.astype(str) == str(level))[:, None]
                    for level in self.levels
                ]
            )
        return tuple(self._column_labels()), columns

    def function_at(self, x: Array) -> Array:
        """Return the columns of one function at points x (n, d), in the order [flat, blocks], before multiplication by `by=` numbers."""
        columns = self.basis.columns_at(x)
        if self.by == "number":
            return np.column_stack([np.ones(len(x)), columns])
        return columns

    def _column_labels(self) -> list[str]:
        """Return the labels in brackets after the term: "line" for flat columns, numbers for the columns of a block."""
        if self.basis.flat == 1:
            flat = ["line"]
        else:
            flat = [f"line {i + 1}" for i in range(self.basis.flat)]
        several = len(self.basis.blocks) > 1
        numbers = [
            f"{b + 1}.{i + 1}" if several else f"{i + 1}"
            for b, q in enumerate(self.basis.blocks)
            for i in range(q)
        ]
        if self.by == "number":
            return ["level", *flat, *numbers]
        if self.by == "levels":
            return [
                f"{level}, {name}"
                for level in self.levels
                for name in (*flat, *numbers)
            ]
        return [*flat, *numbers]

    def described(self, key: str) -> BasisTerm:
        """The names of its columns as the design has them."""
        names = [f"{key}[{name}]" for name in self._column_labels()]
        flat = list[str]()
        blocks = list[tuple[str, ...]]()
        first = 0
        for _ in self.levels or (None,):
            start = self.basis.flat + (self.by == "number")
            flat += names[first : first + start]
            first += start
            for q in self.basis.blocks:
                blocks.append(tuple(names[first : first + q]))
                first += q
        if len(self.basis.blocks) > 1:
            numbers = [str(b + 1) for b in range(len(self.basis.blocks))]
        else:
            numbers = [""]
        parts = [
            ", ".join(filter(None, (str(level), b)))
            for level in self.levels or ("",)
            for b in numbers
        ]
        labels = tuple(f"{key}[{part}]" if part else key for part in parts)
        return BasisTerm(
            key,
            self.short,
            tuple(flat),
            tuple(blocks),
            labels,
            tuple(map(str, self.levels)),
        )


def learned_term(
    name: str,
    x: Array,
    by: Any,
    words: Mapping[str, Any],
    *,
    key: str,
    short: str,
    counts: Array | None = None,
) -> dict[str, Any]:
    """Return the state of a term at training points x (n, d) with `counts` copies of each, and the values of its `by` column."""
    margin_size = 5  # k of each margin of a tensor product
    d = x.shape[1]
    if name == "t2":
        basis: SmoothBasis = TensorProduct.of(
            x, (words.get("k", margin_size),) * d, key, counts=counts
        )
    else:
        kind = words.get("bs", "tp")
        k = words.get("k", _COLUMNS.get(d, 10 * d))
        if kind not in ("tp", "ps", "cc"):
            raise DataError(
                f"{key}: bs is 'tp' (thin plate), 'ps' (penalised B-splines) or 'cc' (cyclic), got {kind!r}"
            )
        if kind == "tp":
            if "k" not in words:
                k = min(k, len(np.unique(x, axis=0)))
            basis = ThinPlate.of(x, k, key, counts=counts)
        else:
            basis = PenalisedSpline.of(
                x, k, cyclic=kind == "cc", name=key, counts=counts
            )
    state: dict[str, Any] = {
        "basis": _basis_to_json(basis),
        "short": short,
        "by": "",
        "levels": [],
    }
    if by is None:
        return state
    if kind_of(by) == "number":
        return state | {"by": "number"}
    if kind_of(by) in ("time", "other"):
        raise DataError(
            f"{key}: by= holds values such as {by[0]}, and is a number or a category: make it text for a function of each value, or "
            "a number that multiplies one function"
        )
    present = {str(level) for level in by}
    if kind_of(by) in ("text", "truth"):
        levels = sorted(present)
    else:
        levels = [str(level) for level in by.categories if str(level) in present]
    return state | {"by": "levels", "levels": levels}


def term_of(state: Mapping[str, Any]) -> SmoothTerm:
    """Return the term from the state of `learned_term`."""
    basis = _basis_from_json(state["basis"])
    return SmoothTerm(basis, state["short"], state["by"], tuple(state["levels"]))


def _basis_to_json(basis: SmoothBasis) -> dict[str, Any]:
    kind = next(name for name, cls in _KINDS.items() if isinstance(basis, cls))
    content: dict[str, Any] = {"kind": kind}
    for f in fields(basis):
        value = getattr(basis, f.name)
        if isinstance(value, tuple) and value and isinstance(value[0], SmoothBasis):
            value = [_basis_to_json(part) for part in value]
        elif isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        content[f.name] = value
    return content


def _basis_from_json(state: Mapping[str, Any]) -> SmoothBasis:
    cls = _KINDS[state["kind"]]
    values: dict[str, Any] = {}
    for f in fields(cls):
        value = state[f.name]
        if f.name == "margins":
            value = tuple(_basis_from_json(part) for part in value)
        elif isinstance(value, list | tuple):
            value = np.asarray(value, dtype=float).reshape(
                len(value), *([-1] if f.name in _MATRICES else [])
            )
        values[f.name] = value
    return cls(**values)
