"""Separation: does the maximum of the likelihood lie at infinity, and for which coefficients?

Decided exactly, before any fit, from the likelihood's recession cone alone: no family is named here.

The cone is that of the directions D (p, m) of the coefficients with c_r'(x_r D) >= 0 for every constraint r that the
likelihood lists, with equality where it says so. Linear programmes find it on coordinates delta = R gamma of orthonormal
columns, so that neither units, shifts nor near-collinearity of the columns decide what counts as zero. One programme per
coefficient and side tells where each runs.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.linalg import qr

from probreg.data.frame import Frame
from probreg.data.grouped_columns import GroupColumns
from probreg.data.unwritten import LazyColumns
from probreg.inference.modes.level_separation import (
    LevelDirections,
    level_directions,
    sorted_cone,
)
from probreg.inference.modes.linear_programme import SLACK, STRICT, maximise
from probreg.likelihoods import MayDiverge, Recession
from probreg.model.model import Model
from probreg.numerics.linalg import inverse_upper, rank_of, triangular
from probreg.numerics.linalg.doubled import doubled_product

Array = np.ndarray
_DOUBLED = 1e7  # rows times squared columns, a quarter of a second of products in doubled precision
_AT_ONCE = 1000  # constraints that join the linear programme per round


@dataclass(frozen=True, eq=False)
class Cone:
    """{delta (k, m): c_r'(q_r delta) >= 0}, for the rows q_r of Q (n, k) and the constraints of a Recession.

    >>> upwards = Recession(np.array([0, 1]), np.array([[-1.0], [1.0]]), np.zeros(2, bool))
    >>> Cone(np.array([[-0.6], [0.8]]), upwards).interior()[1]
    array([ True,  True])
    """

    Q: Array
    recession: Recession

    @property
    def shape(self) -> tuple[int, int]:
        return self.Q.shape[1], self.recession.directions.shape[1]

    def normals(self, which: Array) -> Array:
        """The constraints `which` as unit vectors over vec delta, (len(which), k m)."""
        rec = self.recession
        # c_r'(q_r delta) = vec(q_r' c_r')'vec delta, over |q_r| |c_r|.
        both = self.Q[rec.rows[which], :, None] * rec.directions[which, None, :]
        return (
            both.reshape(len(which), int(np.prod(self.shape))) * self._unit[which, None]
        )

    @cached_property
    def _unit(self) -> Array:
        norm = np.linalg.norm(self.Q, axis=1)[self.recession.rows] * np.linalg.norm(
            self.recession.directions, axis=1
        )
        return np.where(norm > 0, 1.0 / np.where(norm > 0, norm, 1.0), 0.0)

    def margins(self, delta: Array) -> Array:
        """c_r'(q_r delta) of every constraint, at unit norm."""
        rec = self.recession
        return ((self.Q @ delta)[rec.rows] * rec.directions).sum(1) * self._unit

    def span(self, flat: Array) -> Array:
        """Orthonormal directions (k m, r) along which the constraints in `flat` all stay at equality."""
        where = np.flatnonzero(flat)
        width = int(np.prod(self.shape))
        F = np.zeros((0, width))
        for some in np.array_split(where, len(where) // 20_000 + 1):
            F = np.linalg.qr(np.vstack([F, self.normals(some)]), mode="r")
        # The null space of the constraints at equality: right singular vectors of value 0.
        values, vectors = np.linalg.svd(F)[1:]
        rank = int((values > 1e-9 * values.max(initial=1.0)).sum())
        return vectors[rank:].T

    def interior(self) -> tuple[Array, Array]:
        """A direction (k, m) that makes strict every inequality that some direction of the cone makes strict,
        and which inequalities those are (bool, one per constraint; none when the maximum of the likelihood is
        attained).

        The cone is convex, so directions add up: maximise the sum of the margins that are still zero, until
        none moves.
        """
        equal = self.recession.equal
        if equal.any():
            inside = self.span(equal)
        else:
            inside = np.eye(int(np.prod(self.shape)))
        direction = np.zeros(self.shape)
        strict = np.zeros(len(equal), bool)
        loose = ~equal
        while inside.size and loose.any():
            step = self._climb(inside, loose)
            fresh = loose & (self.margins(step) > STRICT)
            if not fresh.any():
                break
            direction = direction + step
            strict = strict | fresh
            loose = loose & ~fresh
        return direction, strict

    def _climb(self, inside: Array, loose: Array) -> Array:
        """The direction of the cone within the box [-1, 1] that maximises the sum of the margins marked in
        `loose`.

        Constraints join as they are violated. A subset of them allows more directions than all do, so that a
        maximum of zero over the subset is a certificate for all rows.
        """
        rec = self.recession
        start = np.flatnonzero(~self.recession.equal)
        used = start[
            np.linspace(
                0, len(start) - 1, min(len(start), _AT_ONCE + 10 * inside.shape[1])
            ).astype(int)
        ]
        # sum over loose r of c_r'(q_r delta) = gain'v with vec delta = inside v.
        gain = (
            inside.T
            @ (
                self.Q[rec.rows[loose]].T
                @ (rec.directions * self._unit[:, None])[loose]
            ).ravel()
        )
        while True:
            step = inside @ maximise(
                gain, np.unique((self.normals(used) @ inside).round(14), axis=0)
            )
            delta = step.reshape(self.shape)
            if gain @ (inside.T @ step) <= SLACK * loose.sum():
                return np.zeros(self.shape)
            margins = np.where(rec.equal, 0.0, self.margins(delta))
            violated = np.setdiff1d(np.flatnonzero(margins < -SLACK), used)
            if not len(violated):
                return delta
            used = np.r_[used, violated[np.argsort(margins[violated])[:_AT_ONCE]]]


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
    # (p, m, r), directions that span those along which the limit of the likelihood is the same
    span: Array | None = None
    # (p,) bool: as many coefficients as there are such directions, of levels that stay codes
    held: Array | None = None

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
    likelihood = model.likelihood
    p = model.shape[0]
    none = Separation(
        "none", (), (), np.zeros((p, len(likelihood.contrast_matrix)), bool), None, 0
    )
    free = np.flatnonzero(~model.joint.informative)
    if not len(free) or likelihood.may_diverge is False:
        return none
    if not isinstance(likelihood, MayDiverge):
        return replace(none, kind="unknown")
    model.design.need_rows("the linear programme that decides separation")
    present = slice(None) if model.design.weights is None else model.design.weights > 0
    design = model.design.take(present)
    recession = likelihood.recession(design.observed)
    found = _of_levels(model, design.X, recession, free)
    if found is not None:
        return found
    Q, T = _coordinates(design.X, free, _basis(model, free))
    cone = Cone(Q, recession)
    delta, strict = cone.interior()
    if not strict.any():
        return none
    # The limit of the likelihood depends on the rows that stay at equality: a coefficient is finite where it is zero on
    # the directions that these do not see   (Geyer 2009).
    span = cone.span(~strict).reshape(*cone.shape, -1)
    not_estimable = non_zero(T, likelihood.contrast_matrix, span)
    if strict.all():  # no row stays, so that nothing is estimated, of collinear columns those left out either
        not_estimable[free] = True
    found = _told(model, recession, strict, not_estimable, T @ delta)
    return replace(found, span=np.einsum("pk,kmr->pmr", T, span))


def _told(
    model: Model,
    recession: Recession,
    strict: Array,
    not_estimable: Array,
    direction: Array,
) -> Separation:
    """What is found, of a cone some of whose constraints are strict along a direction (p, m)."""
    names = model.design.columns
    labels = labels_of(model, not_estimable)
    columns = tuple(names[j] for j in np.flatnonzero(not_estimable.any(1)))
    rows = len(np.unique(recession.rows[strict]))
    kind: Literal["quasi", "complete"] = "complete" if strict.all() else "quasi"
    return Separation(
        kind, columns, labels, not_estimable, direction, rows, model.design.intercept
    )


def _of_levels(
    model: Model, X: Array, recession: Recession, free: Array
) -> Separation | None:
    """What is found where the levels of a factor stay codes and have flat priors, of one linear predictor and columns that are
    identified, with kind "none" where no constraint is strict; None elsewhere."""
    if not model.design.coded or model.shape[1] != 1 or not isinstance(X, LazyColumns):
        return None
    first = int(np.argmax([part.groups for part in X.tail]))
    lead = X.tail[first]
    at = np.arange(X.starts[first], X.starts[first] + X.tail[first].groups)
    if not np.isin(at, free).all():
        return None
    if model.design.intercept in free:
        i = model.design.intercept
    else:
        i = None
    border = np.array(
        [j for j in free if j != i and not at[0] <= j <= at[-1]], dtype=int
    )
    basis = _basis(model, free)
    U = (np.asarray(X[:, border]) - basis.shift[border]) / basis.scale[border]
    if not _identified_within(lead, U, i is not None):
        return None
    sign = recession.directions[:, 0]
    equal = recession.equal
    rows = recession.rows
    cone, order = sorted_cone(lead, U, rows, sign, equal)
    held = i is None and (lead.Z[:, 0] == 0.0).any()
    if held:  # the reference level, at -a = 0
        cone = type(cone)(
            *(
                np.concatenate([[v], w])
                for v, w in zip((0, 1.0, True, np.zeros(len(border))), cone)
            )
        )
    found = level_directions(cone, lead.groups + 1)
    strict = np.zeros(len(order), dtype=bool)
    strict[order] = found.strict[int(held) :]
    if not strict.any():
        return Separation("none", (), (), np.zeros((model.shape[0], 1), bool), None, 0)
    shift = basis.shift[border] / basis.scale[border]
    places = (at, border, i)
    p = model.shape[0]
    told = _told(
        model, recession, strict, *_raw(found, places, basis.scale[border], shift, p)
    )
    return replace(told, held=_enough(found, places, shift, p))


def _identified_within(lead: GroupColumns, U: Array, intercept: bool) -> bool:
    """Whether columns are identified beside the levels: none is a combination of others and of the indicators."""
    group = np.where(lead.Z[:, 0] == 0.0, 0, lead.codes + 1)
    every = GroupColumns(group, np.ones((len(U), 1)), lead.groups + 1)
    count = np.bincount(group, minlength=lead.groups + 1)
    mean = every.cross(U)[:, 0] / np.maximum(count, 1)[:, None]
    if not intercept:
        mean[0] = 0.0
    if U.shape[1]:
        return bool(
            (count[1:] > 0).all() and not rank_of(triangular(U - mean[group])).dropped
        )
    return bool(count[1:].all())


def _raw(
    found: LevelDirections,
    places: tuple[Array, Array, int | None],
    scale: Array,
    shift: Array,
    p: int,
) -> tuple[Array, Array]:
    """Which raw coefficients (p, 1) have no estimate, and a direction (p, 1) of theirs, from those of the levels and of the
    standardised columns."""
    at, border, i = places
    gone = np.zeros((p, 1), dtype=bool)
    direction = np.zeros((p, 1))
    gone[border, 0], direction[border, 0] = found.moving, found.b / scale
    # with an intercept the coefficient of a level is a_g - a_0, and the intercept a_0 - sum_j shift_j b_j
    a = found.a
    span = found.a_span
    free = found.free
    own = span[1:] if i is None else span[1:] - span[0]
    size = 1.0 + np.linalg.norm(span[1:], axis=1)
    gone[at, 0] = (
        free[1:]
        | (free[0] & (i is not None))
        | (np.linalg.norm(own, axis=1) > 1e-8 * size)
    )
    direction[at, 0] = a[1:] if i is None else a[1:] - a[0]
    if i is not None:
        left = np.linalg.norm(span[0] - shift @ found.b_span)
        gone[i, 0] = free[0] or bool(left > 1e-8 * (1.0 + np.abs(shift).sum()))
        direction[i, 0] = a[0] - shift @ found.b
    return gone, direction


def _enough(
    found: LevelDirections,
    places: tuple[Array, Array, int | None],
    shift: Array,
    p: int,
) -> Array:
    """(p,) bool: as many coefficients as there are directions along which the limit of the likelihood is the same, such that none
    of these leaves them all where they are: each level that is free, the intercept for a free reference, pivots of the others."""
    at, border, i = places
    held = np.zeros(p, dtype=bool)
    d = found.a_span.shape[1]
    held[at] = found.free[1:]
    V = np.zeros(
        (p, d)
    )  # in standard deviations of the columns, with the intercept a_0 - sum_j shift_j b_j
    V[border] = found.b_span
    V[at] = found.a_span[1:] - (0.0 if i is None else found.a_span[0])
    if i is not None:
        held[i], V[i] = found.free[0], found.a_span[0] - shift @ found.b_span
        if found.free[0]:
            V[at] += V[
                i
            ]  # less that of the reference, (1, -1, ..., -1), by which the intercept stays
    V[held] = 0.0
    if d:
        held[qr(V.T, mode="r", pivoting=True)[1][:d]] = True
    return held


def _basis(model: Model, free: Array) -> Frame:
    """The design's own, without shifts when the intercept cannot take them up."""
    basis = model.design.basis
    if basis.intercept is None or basis.intercept in free:
        return basis
    size = np.sqrt((model.design.X**2).mean(0))
    return replace(
        basis,
        shift=np.zeros_like(size),
        scale=np.where(size > 0, size, 1.0),
        intercept=None,
    )


def _coordinates(X: Array, free: Array, basis: Frame) -> tuple[Array, Array]:
    """Q (n, k) with orthonormal columns that span X[:, free], and T (p, k) with beta = T delta.

    Powers of a variable far from 0 are nearly collinear (condition 1e10 for a quartic of calendar years), so that products in double
    precision leave errors of 1e-6 in Q, more than the slack of the programme. Where they are few, they are taken in twice the precision.
    """
    few = len(X) * len(free) ** 2 <= _DOUBLED
    number = np.longdouble if few else float
    A = np.asarray(X[:, free])
    scale = basis.scale[free].astype(number)
    U = (A - basis.shift[free].astype(number)) / scale
    kept = _spanning(U)
    # U = QR, X beta = Q delta with beta = T R^-1 delta.
    inverse = inverse_upper(triangular(U[:, kept])).astype(number)
    T = np.zeros((len(basis.scale), len(kept)), dtype=number)
    T[free[kept]] = inverse / scale[kept, None]
    if basis.intercept is not None:
        T[basis.intercept] -= (basis.shift[free[kept]] / scale[kept]) @ inverse
    if not few:
        return U[:, kept] @ inverse, T
    high = T.astype(float)
    return doubled_product(A, high[free], (T - high)[free].astype(float)), high


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
    names = model.design.columns
    outcomes = model.likelihood.outcomes
    return tuple(
        f"{names[j]} ({outcomes[k]})" if outcomes else names[j]
        for j, k in np.argwhere(which)
    )


def non_zero(T: Array, contrast_matrix: Array, span: Array) -> Array:
    """(p, D) bool: reported coefficients that are not zero, up to rounding, on span (k, m, r)."""
    # Reported coefficients of a direction: (T delta) D'.
    value = np.einsum("pk,dm,kmr->pdr", T, contrast_matrix, span)
    # span is orthonormal
    largest = np.linalg.norm(T, axis=1)[:, None] * np.linalg.norm(
        contrast_matrix, axis=1
    )
    return np.linalg.norm(value, axis=-1) > 1e-8 * largest


_MOVES = 1e-6  # of the largest movement in the box, below which a coefficient stays where it is


def escapes(model: Model) -> Array:
    """(2, p, D) bool: along some direction in which the likelihood never falls, reported coefficient (j, d) goes to
    -infinity (first) or +infinity (second). A profile likelihood is then at its limit on that side, and its interval open.

    >>> model = Model.from_arrays([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1], columns=["dose"], likelihood="bernoulli")
    >>> escapes(model)[:, :, 0]  # the intercept falls, the slope rises
    array([[ True, False],
           [False,  True]])
    """
    likelihood = model.likelihood
    D = model.likelihood.contrast_matrix
    out = np.zeros((2, model.shape[0], len(D)), bool)
    if not isinstance(likelihood, MayDiverge):
        return out
    found = separation(model)
    design = model.design.take(
        slice(None) if model.design.weights is None else model.design.weights > 0
    )
    if not found:
        return out
    free = np.flatnonzero(~model.joint.informative)
    Q, T = _coordinates(design.X, free, _basis(model, free))
    cone = Cone(Q, likelihood.recession(design.observed))
    equal = cone.recession.equal
    if equal.any():
        inside = cone.span(equal)
    else:
        inside = np.eye(int(np.prod(cone.shape)))
    normals = np.unique(
        (cone.normals(np.flatnonzero(~equal)) @ inside).round(14), axis=0
    )
    for j, d in np.argwhere(found.not_estimable):
        # The reported coefficient (j, d) is (T_j kron D_d) vec delta: its largest and least value in the cone.
        goal = np.kron(T[j], D[d]) @ inside
        goal = goal / np.linalg.norm(goal)
        for side, sign in enumerate((-1.0, 1.0)):
            out[side, j, d] = sign * (goal @ maximise(sign * goal, normals)) > _MOVES
    return out
