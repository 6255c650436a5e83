"""A smooth function as a term of a formula: its basis, for all rows or for each level of a factor, its column names and blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
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
    """The columns of one term, or of one of its functions, by name: columns with a flat prior, and blocks that share a scale.

    `short` is the term without its options, which priors may use as its name. `labels` of the blocks are the term, with a
    distinguishing part if there are several. `levels` are the levels of `by=`, each with a function of its own.
    """

    name: str
    short: str
    flat: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    levels: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns of the term."""
        return (*self.flat, *(c for block in self.blocks for c in block))


@dataclass(frozen=True, eq=False)
class SmoothTerm:
    """A basis and its multiplier: none, a number, or the indicators of levels, each with a separate function.

    `key` is the term as written, `short` the term without its options, and `by` is "", "number" or "levels".
    """

    key: str
    short: str
    basis: SmoothBasis
    by: str = ""
    levels: tuple[str, ...] = ()

    def columns_at(self, x: Array, by: Any = None, rows: Any = None) -> Array:
        """Return the columns (n, q), level by level, at points x (n, d) of rows labelled `rows` and the values of `by`."""
        columns = self.function_at(x)
        kind = "" if by is None else kind_of(by)
        if self.by == "number":
            if kind not in ("number", "truth"):
                raise DataError(
                    f"by= held numbers when the model was fitted and holds {kind} now, {by[0]!r} at row {rows[0]}"
                )
            return columns * np.asarray(by, dtype=float)[:, None]
        if self.by == "":
            return columns
        values = np.asarray(by, dtype=object)
        texts = values.astype(str)
        if set(self.levels) == {"False", "True"} and kind == "number":
            # 0 and 1 are codes of the two levels
            texts = np.select([by == 0, by == 1], ["False", "True"], texts)
        bad = np.flatnonzero(~np.isin(texts, self.levels))
        if len(bad):
            raise DataError(
                f"by= has the level {values[bad[0]]!r} at row {rows[bad[0]]}, which the model does not know; it knows "
                f"{', '.join(map(repr, self.levels))}"
            )
        return np.hstack([columns * (texts == level)[:, None] for level in self.levels])

    def function_at(self, x: Array) -> Array:
        """Return the columns of one function at points x (n, d), in the order [flat, blocks], before multiplication by `by=` numbers."""
        columns = self.basis.columns_at(x)
        if self.by == "number":
            return np.column_stack([np.ones(len(x)), columns])
        return columns

    @property
    def ends(self) -> Array:
        """The least and the largest value of each input, (2, d)."""
        return self.basis.ends

    @cached_property
    def functions(self) -> tuple[BasisTerm, ...]:
        """The names of the columns of its function, or of the function of each level of `by=`, named `s(x, by=g)[a]`."""
        return tuple(map(self._name_function, self.levels or ("",)))

    def _name_function(self, level: str) -> BasisTerm:
        def name(*parts: str, term: str = self.key) -> str:
            joined = ", ".join(filter(None, (level, *parts)))
            return f"{term}[{joined}]" if joined else term

        q = self.basis.flat
        flat = ["line"] if q == 1 else [f"line {i + 1}" for i in range(q)]
        if self.by == "number":
            flat = ["level", *flat]
        sizes = self.basis.blocks
        numbers = [f"{b + 1}" for b in range(len(sizes))] if len(sizes) > 1 else [""]
        blocks = [
            tuple(name(f"{b}.{i + 1}".removeprefix(".")) for i in range(size))
            for b, size in zip(numbers, sizes)
        ]
        return BasisTerm(
            name(),
            name(term=self.short),
            tuple(map(name, flat)),
            tuple(blocks),
            tuple(map(name, numbers)),
        )

    @cached_property
    def column_names(self) -> BasisTerm:
        """The names of all of its columns."""
        parts = self.functions
        flat, blocks, labels = (
            tuple(chain.from_iterable(getattr(part, name) for part in parts))
            for name in ("flat", "blocks", "labels")
        )
        return BasisTerm(self.key, self.short, flat, blocks, labels, self.levels)

    def to_state(self) -> dict[str, Any]:
        """Return the term as plain data."""
        return {
            "kind": "smooth",
            "short": self.short,
            "basis": _basis_to_json(self.basis),
            "by": self.by,
            "levels": list(self.levels),
        }


def learned_term(
    name: str,
    x: Array,
    by: Any,
    words: Mapping[str, Any],
    *,
    key: str,
    short: str,
    counts: Array | None = None,
) -> SmoothTerm:
    """Return the term at training points x (n, d) with `counts` copies of each, and the values of its `by` column."""
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
    if by is None:
        return SmoothTerm(key, short, basis)
    kind_of_by = kind_of(by)
    if kind_of_by == "number":
        return SmoothTerm(key, short, basis, "number")
    if kind_of_by in ("time", "other"):
        raise DataError(
            f"{key}: by= holds values such as {by[0]}, and is a number or a category: make it text for a function of each value, or "
            "a number that multiplies one function"
        )
    present = {str(level) for level in by}
    if kind_of_by == "levels":
        levels = [str(level) for level in by.categories if str(level) in present]
    else:
        levels = sorted(present)
    return SmoothTerm(key, short, basis, "levels", tuple(levels))


def smooth_of(state: Mapping[str, Any], key: str) -> SmoothTerm:
    """Return the term that `to_state` wrote."""
    basis = _basis_from_json(state["basis"])
    return SmoothTerm(key, state["short"], basis, state["by"], tuple(state["levels"]))


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
