"""Separation: does the maximum of the likelihood lie at infinity, and for which coefficients?

Decided exactly, before any fit, from the likelihood's recession cone alone: no family is named here.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from probreg.data.design import Basis
from probreg.inference.modes.recession import Cone
from probreg.likelihoods import MayDiverge
from probreg.model.model import Model
from probreg.numerics.linalg import inverse_upper, rank_of, triangular

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Separation:
    """Whether the log-likelihood has a finite maximiser over the coefficients with a flat prior.

    `complete`: along `direction` every row's log-likelihood rises; `quasi`: that of some rows, and the others
    stay; `none`: a maximiser exists; `unknown`: the likelihood does not say in which directions it never falls.
    `not_estimable` (p, D) marks the reported coefficients, D per column, that have no finite estimate; `columns` names their columns and `labels` each of them; `direction` (p, m), or None,
    is one along which the likelihood never falls; `rows` counts the rows whose log-likelihood rises.
    """

    kind: Literal["none", "quasi", "complete", "unknown"]
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    not_estimable: Array
    direction: Array | None
    rows: int
    intercept: int | None = None

    def __bool__(self) -> bool:
        return self.kind in ("quasi", "complete")


def separation(model: Model) -> Separation:
    """The recession directions of the log-likelihood: {D: c_r'(x_r D) >= 0} with some strict inequality, by
    linear programming.

    Such a D exists exactly when no finite D maximises the likelihood (Albert & Anderson 1984, Haberman 1974).
    With all inequalities strict that the cone allows, the limit of the likelihood depends on the other rows
    only, so that a coefficient has no finite estimate exactly when it is not zero on the null space of those
    rows (Geyer 2009). Columns with an informative prior cannot run away, rows of weight zero do not count,
    and of collinear columns the later ones are left out. NotConverged when the linear programme fails.

    >>> dose, y = np.array([1.0, 2.0, 3.0, 4.0]), [0, 0, 1, 1]
    >>> model = Model.from_arrays(dose, y, columns=["dose"], likelihood="bernoulli")
    >>> found = separation(model)
    >>> found.kind, found.columns, found.rows
    ('complete', ('Intercept', 'dose'), 4)
    """
    likelihood, p = model.likelihood, model.shape[0]
    none = Separation("none", (), (), np.zeros((p, len(likelihood.contrast_matrix)), bool), None, 0)
    free = np.flatnonzero(~model.joint.informative)
    if not len(free) or likelihood.may_diverge is False:
        return none
    if not isinstance(likelihood, MayDiverge):
        return replace(none, kind="unknown")
    model.design.need_rows("the linear programme that decides separation")
    present = slice(None) if model.design.weights is None else model.design.weights > 0
    design = model.design.take(present)
    Q, T = _coordinates(design.X, free, _basis(model, free))
    cone = Cone(Q, likelihood.recession(design.observed))
    delta, strict = cone.interior()
    if not strict.any():
        return none
    span = cone.span(~strict).reshape(*cone.shape, -1)
    not_estimable = non_zero(T, likelihood.contrast_matrix, span)
    names, labels = model.design.columns, labels_of(model, not_estimable)
    columns = tuple(names[j] for j in np.flatnonzero(not_estimable.any(1)))
    rows = len(np.unique(cone.recession.rows[strict]))
    kind: Literal["quasi", "complete"] = "complete" if strict.all() else "quasi"
    return Separation(kind, columns, labels, not_estimable, T @ delta, rows, model.design.intercept)


def _basis(model: Model, free: Array) -> Basis:
    """The design's own, without shifts when the intercept cannot take them up."""
    basis = model.design.basis
    if basis.intercept is None or basis.intercept in free:
        return basis
    size = np.sqrt((model.design.X**2).mean(0))
    return replace(basis, shift=np.zeros_like(size), scale=np.where(size > 0, size, 1.0), intercept=None)


def _coordinates(X: Array, free: Array, basis: Basis) -> tuple[Array, Array]:
    """Q (n, k) with orthonormal columns that span X[:, free], and T (p, k) with beta = T delta."""
    U = basis.rows(X)[:, free]
    kept = _spanning(U)
    inverse = inverse_upper(triangular(U[:, kept])).astype(float)
    return U[:, kept] @ inverse, basis.T[:, free[kept]] @ inverse


def _spanning(U: Array) -> list[int]:
    """The first columns that span those of U (n, q). Of many more columns than rows only as many are looked at as it takes
    to find n that span everything."""
    n, q = U.shape
    some = min(q, 2 * max(n, 100))
    while len(kept := list(rank_of(triangular(U[:, :some])).kept)) < n and some < q:
        some = min(q, 2 * some)
    return kept


def labels_of(model: Model, which: Array) -> tuple[str, ...]:
    """The names of the reported coefficients that are marked in (p, D)."""
    names, outcomes = model.design.columns, model.likelihood.outcomes
    return tuple(f"{names[j]} ({outcomes[k]})" if outcomes else names[j] for j, k in np.argwhere(which))


def non_zero(T: Array, display: Array, span: Array) -> Array:
    """(p, D) bool: reported coefficients that are not zero, up to rounding, on span (k, m, r)."""
    value = np.einsum("pk,dm,kmr->pdr", T, display, span)
    largest = np.linalg.norm(T, axis=1)[:, None] * np.linalg.norm(display, axis=1)  # span is orthonormal
    return np.linalg.norm(value, axis=-1) > 1e-8 * largest
