"""Coding of the factors of a formula: the columns of a factor with and without the constant, and the choice for each term.

A term `g:h` with an intercept but without main effects spans columns that other terms already have; `code_terms` gives each term the
columns that are new, so that the coding does not make a column a combination of others.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probreg.data.formula.transforms import FactorColumns, poly
from probreg.errors import DataError

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class CodedFactor:
    """A factor with all its columns, and with the columns that remain next to a constant; None if it does not span the constant."""

    full: FactorColumns
    reduced: FactorColumns | None = None

    def choose(self, full: bool) -> FactorColumns:
        """Return the columns including the constant if `full`, else the columns without it."""
        return self.full if full or self.reduced is None else self.reduced


@dataclass(frozen=True)
class LevelCoding:
    """A coding of L levels by L - 1 columns: `kind` is a name of `CONTRASTS`."""

    kind: str = "treatment"
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def matrix(self, levels: Sequence[Any]) -> tuple[tuple[str, ...], Array]:
        """Return the names of the columns, and the columns (L, q)."""
        try:
            labels, matrix = _MATRICES[self.kind](
                list(levels), *self.arguments, **self.options
            )
        except (TypeError, ValueError) as error:
            raise DataError(f"contrast {self.kind}: {error}") from None
        return tuple(labels), matrix

    def code(self, codes: Array, levels: Sequence[Any]) -> CodedFactor:
        """Return the factor of a category: indicators of all levels, and the columns of the contrast."""
        names, matrix = self.matrix(levels)
        full = FactorColumns(tuple(map(str, levels)), np.eye(len(levels)), codes)
        return CodedFactor(full, FactorColumns(names, matrix, codes))


def _treatment(levels: list[Any], base: Any = None) -> tuple[list[str], Array]:
    """Each level against the base level."""
    drop = 0 if base is None else levels.index(base)
    labels = [f"T.{level}" for i, level in enumerate(levels) if i != drop]
    return labels, np.delete(np.eye(len(levels)), drop, axis=1)


def _sum(levels: list[Any]) -> tuple[list[str], Array]:
    """Each level except the last against the mean of all levels."""
    matrix = np.eye(len(levels), len(levels) - 1)
    matrix[-1] = -1.0
    return [f"S.{level}" for level in levels[:-1]], matrix


def _helmert(levels: list[Any]) -> tuple[list[str], Array]:
    """Each level against the mean of the levels before it."""
    n = len(levels)
    # column i: -1 for the levels 0 .. i, and i + 1 for level i + 1
    matrix = np.where(np.arange(n)[:, None] <= np.arange(n - 1), -1.0, 0.0)
    matrix[np.arange(1, n), np.arange(n - 1)] = np.arange(1, n)
    return [f"H.{level}" for level in levels[1:]], matrix


def _diff(levels: list[Any]) -> tuple[list[str], Array]:
    """Each level against the level before it."""
    n = len(levels)
    place = np.arange(1, n)
    matrix = place / n - (np.arange(n)[:, None] < place)
    return [f"D.{level}" for level in levels[1:]], matrix


def _poly(levels: list[Any], scores: Any = None) -> tuple[list[str], Array]:
    """Orthonormal polynomials of the scores, by default 0, 1, 2, ..."""
    n = len(levels)
    x = np.arange(n) if scores is None else np.asarray(scores)
    labels = [{1: ".L", 2: ".Q", 3: ".C"}.get(k, f"^{k}") for k in range(1, n)]
    return labels, poly(x.astype(float), {}, np.ones(len(x)), n - 1).values


_MATRICES: dict[str, Callable[..., tuple[list[str], Array]]] = {
    "treatment": _treatment, "sum": _sum, "helmert": _helmert, "diff": _diff, "poly": _poly,
}  # fmt: skip


# ---- columns of each term ----------------------------------------------------------------------------------------------

# a product of factors by their names; False marks factors that are coded without the constant
Coding = dict[str, bool]


def code_terms(
    terms: Iterable[Sequence[str]], spans_constant: Iterable[str]
) -> list[list[Coding]]:
    """For each term, return the products of factors that add new columns to the earlier terms, with the coding of each factor.

    A factor that spans the constant is 1 + its reduced columns: a term is the sum of products of these, minus the products of earlier
    terms; then reduced:rest + rest is written as full:rest (Wilkinson & Rogers 1973).

    >>> code_terms([(), ("g",), ("g", "h")], ["g", "h"])
    [[{}], [{'g': False}], [{'g': True, 'h': False}]]
    """
    spanning = set(spans_constant)
    seen = set[frozenset[str]]()
    codings = list[list[Coding]]()
    for term in terms:
        fixed = [name for name in term if name not in spanning]
        parts = itertools.product(
            *([(name,)] if name in fixed else [(name,), ()] for name in term)
        )
        products = [tuple(itertools.chain.from_iterable(part)) for part in parts]
        new = [names for names in products if frozenset(names) not in seen]
        seen |= set(map(frozenset, new))
        codings.append(
            _merge_products([{name: name in fixed for name in names} for names in new])
        )
    return codings


def _merge_products(products: Iterable[Coding]) -> list[Coding]:
    """Write reduced:rest + rest as full:rest, as often as possible; shorter products first."""
    merged_products = list[Coding]()
    for product in sorted(products, key=len):
        for shorter in merged_products:
            (*extra,) = product.items() - shorter.items()
            if len(shorter) == len(product) - 1 and len(extra) == 1 and not extra[0][1]:
                merged = product | {extra[0][0]: True}
                unmerged = [entry for entry in merged_products if entry is not shorter]
                merged_products = _merge_products([*unmerged, merged])
                break
        else:
            merged_products.append(product)
    return merged_products
