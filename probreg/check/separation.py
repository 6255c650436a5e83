"""Separation: does the maximum of the likelihood lie at infinity, and for which coefficients?

Decided exactly, before any fit, from the likelihood's recession cone alone: no family is named here.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from probreg.check.base import CHECKS, Check, Finding, Verdict
from probreg.check.recession import Cone
from probreg.design.design import Basis
from probreg.likelihoods import SeparableLikelihood
from probreg.linalg import inverse_upper, rank_of, triangular
from probreg.model import Model

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Separation:
    """Whether the log-likelihood has a finite maximiser over the coefficients with a flat prior.

    `complete`: along `direction` every row's log-likelihood rises; `quasi`: that of some rows, and the others
    stay; `none`: a maximiser exists. `vague` (p, D) marks the reported coefficients, D per column, that have
    no finite estimate; `columns` names their columns and `labels` each of them; `direction` (p, m), or None,
    is one along which the likelihood never falls; `rows` counts the rows whose log-likelihood rises.
    """

    kind: Literal["none", "quasi", "complete"]
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    vague: Array
    direction: Array | None
    rows: int

    def __bool__(self) -> bool:
        return self.kind != "none"


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
    none = Separation("none", (), (), np.zeros((p, len(likelihood.display)), bool), None, 0)
    free = np.flatnonzero(~model.joint.informative)
    if not isinstance(likelihood, SeparableLikelihood) or not len(free):
        return none
    model.design.need_rows("the linear programme that decides separation")
    present = slice(None) if model.design.weights is None else model.design.weights > 0
    design = model.design.take(present)
    Q, T = _coordinates(design.X, free, _basis(model, free))
    cone = Cone(Q, likelihood.recession(design.observed))
    delta, strict = cone.interior()
    if not strict.any():
        return none
    span = cone.span(~strict).reshape(*cone.shape, -1)
    vague = _non_zero(T, likelihood.display, span)
    names = model.design.columns
    labels = tuple(
        f"{names[j]} ({likelihood.outcomes[k]})" if likelihood.outcomes else names[j] for j, k in np.argwhere(vague)
    )
    columns = tuple(names[j] for j in np.flatnonzero(vague.any(1)))
    rows = len(np.unique(cone.recession.rows[strict]))
    return Separation("complete" if strict.all() else "quasi", columns, labels, vague, T @ delta, rows)


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
    kept = list(rank_of(triangular(U)).kept)
    inverse = inverse_upper(triangular(U[:, kept])).astype(float)
    return U[:, kept] @ inverse, basis.T[:, free[kept]] @ inverse


def _non_zero(T: Array, display: Array, span: Array) -> Array:
    """(p, D) bool: reported coefficients that are not zero, up to rounding, on span (k, m, r)."""
    value = np.einsum("pk,dm,kmr->pdr", T, display, span)
    largest = np.linalg.norm(T, axis=1)[:, None] * np.linalg.norm(display, axis=1)  # span is orthonormal
    return np.linalg.norm(value, axis=-1) > 1e-8 * largest


@CHECKS.register
class SeparationCheck(Check):
    """Reports `separation`."""

    name: ClassVar[str] = "separation"
    question: ClassVar[str] = "Is there a finite maximum likelihood estimate?"
    cheap: ClassVar[bool] = False

    def run(self, model: Model) -> list[Finding]:
        if not isinstance(model.likelihood, SeparableLikelihood):
            return self.fine(
                f"does not apply: the maximum of a {model.likelihood.name} likelihood is never at infinity"
            )
        found = separation(model)
        if not found:
            return self.fine("the data are not separated: every coefficient has a finite estimate")
        return [self.say(Verdict.PROBLEM, _sentence(found), _remedy(found), found.columns)]


def _sentence(found: Separation) -> str:
    what = f"{found.kind} separation of {found.rows} row{'s' * (found.rows > 1)}"
    whose = "any coefficient" if found.kind == "complete" else ", ".join(found.labels)
    return f"{what}: the likelihood has no maximum, and there is no finite estimate of {whose}"


def _remedy(found: Separation) -> str:
    which = ", ".join(found.columns)
    return f"give {which} a prior such as Normal, merge sparse levels, or leave columns out"
