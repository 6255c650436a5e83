"""Separation: is the maximum of the likelihood at infinity, and for which coefficients?

The check is exact, precedes any fit, and uses only the recession cone of the
likelihood, so it is the same for all families.

The cone contains the directions D (p, m) of the coefficients with c_r'(x_r D) >= 0 for
every constraint r of the likelihood, with equality for some. Linear programmes find it
in coordinates delta = R gamma of orthonormal columns, so units, shifts and
near-collinearity of the columns do not affect the tolerance for zero. One programme per
coefficient and side finds where each diverges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import qr

from probreg.data.design import Design
from probreg.data.frame import Frame
from probreg.data.grouped_columns import GroupColumns
from probreg.data.grouped_moments import within_levels
from probreg.data.implicit_columns import LazyColumns
from probreg.inference.base import no_marks
from probreg.inference.modes.level_rows import (
    SLACK,
    STRICT,
    LevelDirections,
    level_directions,
    maximise_in_cone,
    maximise_linear,
    null_space_of,
    sorted_cone,
)
from probreg.inference.status import Status
from probreg.likelihoods import MayDiverge, Recession
from probreg.linalg import inverse_upper, rank_of, triangular
from probreg.linalg.doubled import doubled_product
from probreg.model.model import Model
from probreg.priors import Reference
from probreg.system.terminal import few_names

Array = np.ndarray


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

    def normals(self, constraints: Array) -> Array:
        """Return the constraints as unit vectors over vec delta, (number of constraints, k m)."""
        rec = self.recession
        # c_r'(q_r delta) = vec(q_r' c_r')'vec delta, over |q_r| |c_r|.
        products = (
            self.Q[rec.rows[constraints], :, None]
            * rec.directions[constraints, None, :]
        )
        return (
            products.reshape(len(constraints), int(np.prod(self.shape)))
            * self._unit[constraints, None]
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
        """Orthonormal directions (k m, r) along which all constraints marked in `flat` stay at equality."""
        places = np.flatnonzero(flat)
        width = int(np.prod(self.shape))
        F = np.zeros((0, width))
        for block in np.array_split(places, len(places) // 20_000 + 1):
            F = np.linalg.qr(np.vstack([F, self.normals(block)]), mode="r")
        return null_space_of(F)

    @cached_property
    def inside(self) -> Array:
        """Orthonormal directions (k m, r) that satisfy the equalities."""
        if self.recession.equal.any():
            return self.span(self.recession.equal)
        return np.eye(int(np.prod(self.shape)))

    def interior(self) -> tuple[Array, Array]:
        """Return a direction (k, m) that makes every inequality strict that some
        direction of the cone makes strict,
        and these inequalities (bool, one per constraint; none if the maximum of the
        likelihood is
        attained).

        The cone is convex, so directions add up: maximise the sum of the margins that
        are still zero, until none increases.
        """
        inside = self.inside
        equal = self.recession.equal
        direction = np.zeros(self.shape)
        strict = np.zeros(len(equal), bool)
        loose = ~equal
        while inside.size and loose.any():
            step = self._climb(loose)
            if step is None:
                break
            fresh = loose & (self.margins(step) > STRICT)
            if not fresh.any():
                break
            direction = direction + step
            strict = strict | fresh
            loose = loose & ~fresh
        return direction, strict

    def _climb(self, loose: Array) -> Array | None:
        """Return the direction of the cone within the box [-1, 1] that maximises the
        sum of the margins marked in `loose`; None if it is zero."""
        at_once = 1000  # constraints that join the linear programme in a round
        rec = self.recession
        inside = self.inside
        start = np.flatnonzero(~rec.equal)
        n_start = min(len(start), at_once + 10 * inside.shape[1])
        start = start[np.linspace(0, len(start) - 1, n_start).astype(int)]
        # sum over loose r of c_r'(q_r delta) = gain'v with vec delta = inside v.
        scaled = rec.directions * self._unit[:, None]
        gain = inside.T @ (self.Q[rec.rows[loose]].T @ scaled[loose]).ravel()

        def find_violated(v: Array) -> Array:
            margins = self.margins((inside @ v).reshape(self.shape))
            violated = np.flatnonzero(~rec.equal & (margins < -SLACK))
            return (
                self.normals(violated[np.argsort(margins[violated])[:at_once]]) @ inside
            )

        v = maximise_in_cone(
            gain, float(loose.sum()), self.normals(start) @ inside, find_violated
        )
        if v is None:
            return None
        return (inside @ v).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Separation:
    """Whether the log-likelihood has a finite maximiser over the coefficients with a flat prior.

    `complete`: along `direction` the log-likelihood of every row increases; `quasi`: it increases
    for some rows, and is constant for the others; `none`: a maximiser exists; `unknown`: the
    likelihood does not define its recession directions. `not_estimable` (p, D) marks
    the reported coefficients, D per column, without a finite estimate; `columns` lists
    their columns and `labels` each of them; `direction` (p, m) is one along which the
    likelihood never decreases, None without separation and for levels stored as codes;
    `rows` counts the rows with an increasing log-likelihood.
    """

    kind: Literal["none", "quasi", "complete", "unknown"]
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    not_estimable: Array
    direction: Array | None
    rows: int
    intercept: int | None = None
    # (p, m, r), span of the directions along which the limit of the likelihood is constant
    span: Array | None = None
    # (p,) bool: one coefficient for each of these directions, for levels as codes
    held: Array | None = None
    # (rows,) indices among the `weighted_rows` of the separated rows, where the log-likelihood increases;
    # None if the limit of the likelihood of one of them depends on the coefficients
    separated_rows: Array | None = None

    status: ClassVar[Status] = Status.NO_MAXIMUM
    limits: ClassVar[Mapping[str, float]] = MappingProxyType({})  # of aux

    @property
    def detail(self) -> str:
        return f"{self.kind} separation by {few_names(self.labels)}"

    @classmethod
    def without_separation(cls, model: Model) -> "Separation":
        """Return the result for a model that has a maximum likelihood estimate."""
        return cls("none", (), (), no_marks(model), None, 0)

    def __bool__(self) -> bool:
        return self.kind in ("quasi", "complete")


def separation(model: Model) -> Separation:
    """Check separation: find D with c_r'(x_r D) >= 0 for all rows and some strict
    inequality, by linear programming.

    Such a D exists exactly when no finite D maximises the likelihood (Albert & Anderson
    1984, Haberman 1974). With the maximal set of strict inequalities, the limit of the
    likelihood depends on the other rows only. A coefficient then has no finite estimate
    exactly when it is not zero on the null space of those rows (Geyer 2009). Columns
    with an informative prior cannot diverge, rows of weight zero do not count, and
    later collinear columns are omitted. NotConverged if the linear programme fails.

    >>> dose, y = np.array([1.0, 2.0, 3.0, 4.0]), [0, 0, 1, 1]
    >>> model = Model.from_arrays(dose, y, columns=["dose"], likelihood="bernoulli")
    >>> found = separation(model)
    >>> found.kind, found.columns, found.rows
    ('complete', ('Intercept', 'dose'), 4)
    """
    likelihood = model.likelihood
    none = Separation.without_separation(model)
    free = np.flatnonzero(~model.joint.informative)
    if not len(free) or likelihood.may_diverge is False:
        return none
    if not isinstance(likelihood, MayDiverge):
        return replace(none, kind="unknown")
    model.design.need_rows("the linear programme for separation")
    design = weighted_rows(model)
    recession = likelihood.recession(design.observed)
    result = _separation_of_levels(model, design.X, recession, free)
    if result is not None:
        return result
    cone, T = _cone_of(model, design.X, recession)
    delta, strict = cone.interior()
    if not strict.any():
        return none
    # The limit of the likelihood depends on the rows that stay at equality: a
    # coefficient is finite if it is zero on
    # the null space of these rows   (Geyer 2009).
    span = cone.span(~strict).reshape(*cone.shape, -1)
    not_estimable = non_zero(T, likelihood.contrast_matrix, span)
    if strict.all():  # no row stays at equality, so nothing is estimable, including omitted collinear columns
        not_estimable[free] = True
    result = _separation_of_cone(model, recession, strict, not_estimable, T @ delta)
    return replace(result, span=np.einsum("pk,kmr->pmr", T, span))


def smallest_increase(model: Model, found: Separation) -> float:
    """Return the smallest c_r'(x_r D) of the separated rows, D the direction of the separation."""
    likelihood = model.likelihood
    assert isinstance(likelihood, MayDiverge)
    assert found.direction is not None
    assert found.separated_rows is not None
    design = weighted_rows(model)
    recession = likelihood.recession(design.observed)
    increase = (design.X @ found.direction)[recession.rows] * recession.directions
    is_separated = np.isin(recession.rows, found.separated_rows)
    return float(increase.sum(1)[is_separated].min())


def weighted_rows(model: Model) -> Design:
    """Return the rows with a weight above zero."""
    weights = model.design.weights
    return model.design if weights is None else model.design.take(weights > 0)


def _cone_of(model: Model, X: Array, recession: Recession) -> tuple[Cone, Array]:
    """Return the cone of the coefficients without a prior, and T (p, k) with beta = T delta."""
    i = model.design.intercept
    free = ~model.joint.informative
    # a flat intercept absorbs the shifts of the columns
    frame = frame_with_shifts(model, i is None or bool(free[i]))
    Q, T = _coordinates(X, np.flatnonzero(free), frame)
    if recession.over_aux is None:
        return Cone(Q, recession), T
    # constraints of one predictor with columns for the nuisance parameters, each constraint a row
    likelihood = model.likelihood
    free_aux = [
        a in model.unknown and isinstance(model.aux_prior(a), Reference)
        for a in likelihood.nuisance
    ]
    sign = recession.directions
    rows = np.hstack([sign * Q[recession.rows], recession.over_aux[:, free_aux]])
    one = Recession(np.arange(len(rows)), np.ones((len(rows), 1)), recession.equal)
    return Cone(rows, one), np.pad(T, ((0, 0), (0, sum(free_aux))))


def _separation_of_cone(
    model: Model,
    recession: Recession,
    strict: Array,
    not_estimable: Array,
    direction: Array | None,
) -> Separation:
    """Return the separation of a cone with strict constraints along a direction (p, m), if it is known."""
    names = model.design.columns
    labels = labels_of(model, not_estimable)
    columns = tuple(names[j] for j in np.flatnonzero(not_estimable.any(1)))
    rows = np.unique(recession.rows[strict])
    has_limit = not np.isin(rows, recession.rows[~strict]).any()
    kind: Literal["quasi", "complete"] = "complete" if strict.all() else "quasi"
    return Separation(
        kind,
        columns,
        labels,
        not_estimable,
        direction,
        len(rows),
        model.design.intercept,
        separated_rows=rows if has_limit else None,
    )


def _separation_of_levels(
    model: Model, X: Array, recession: Recession, free: Array
) -> Separation | None:
    """Return the separation of a model with the levels of a flat factor as codes, one
    linear predictor and identified columns.

    The kind is "none" if no constraint is strict. Returns None for other models.
    """
    if (
        not model.design.has_codes
        or model.shape[1] != 1
        or recession.over_aux is not None
        or not isinstance(X, LazyColumns)
    ):
        return None
    lead_factor = int(np.argmax([part.groups for part in X.tail]))
    lead = X.tail[lead_factor]
    lead_columns = np.arange(
        X.starts[lead_factor], X.starts[lead_factor] + X.tail[lead_factor].groups
    )
    if not np.isin(lead_columns, free).all():
        return None
    i = model.design.intercept if model.design.intercept in free else None
    border = np.array(
        [j for j in free if j != i and not lead_columns[0] <= j <= lead_columns[-1]],
        dtype=int,
    )
    basis = frame_with_shifts(model, model.design.intercept in (None, i))
    U = (np.asarray(X[:, border]) - basis.shift[border]) / basis.scale[border]
    if not _identified_within(lead, U, i is not None):
        return None
    sign = recession.directions[:, 0]
    equal = recession.equal
    rows = recession.rows
    cone, order = sorted_cone(lead, U, rows, sign, equal)
    has_reference = i is None and (lead.Z[:, 0] == 0.0).any()
    if has_reference:  # the reference level, at -a = 0
        cone = type(cone)(
            *(
                np.concatenate([[v], w])
                for v, w in zip((0, 1.0, True, np.zeros(len(border))), cone)
            )
        )
    directions = level_directions(cone, lead.groups + 1)
    strict = np.zeros(len(order), dtype=bool)
    strict[order] = directions.strict[int(has_reference) :]
    if not strict.any():
        return Separation.without_separation(model)
    shift = basis.shift[border] / basis.scale[border]
    missing, held = _raw_coefficients(
        directions, (lead_columns, border, i), shift, model.shape[0]
    )
    result = _separation_of_cone(model, recession, strict, missing, None)
    return replace(result, held=held)


def _identified_within(lead: GroupColumns, U: Array, intercept: bool) -> bool:
    """Whether no column is a combination of the other columns and of the indicators of the levels."""
    if intercept:  # the reference is a level too
        group = np.where(lead.Z[:, 0] == 0.0, 0, lead.codes + 1)
        lead = GroupColumns(group, np.ones((len(U), 1)), lead.groups + 1)
    V = np.column_stack([U, np.zeros(len(U))])
    within = within_levels(lead, V, None)
    is_level = within.weight[int(intercept) :] > 0
    return bool(is_level.all() and not rank_of(within.factor[:-1, :-1]).dropped)


def _raw_coefficients(
    directions: LevelDirections,
    places: tuple[Array, Array, int | None],
    shift: Array,
    p: int,
) -> tuple[Array, Array]:
    """Return the raw coefficients (p, 1) without an estimate, and the coefficients (p,)
    to fix, from levels and standardised columns.

    The fixed ones are one for each direction along which the limit of the likelihood is
    constant: each free level, the intercept for a free reference, and pivots.
    """
    lead, border, i = places
    a_span = directions.a_span
    V = np.zeros((p, a_span.shape[1]))  # in standard deviations of the columns
    size = np.ones(p)
    fixed = np.zeros(p, dtype=bool)
    V[border] = directions.b_span
    V[lead] = a_span[1:]
    size[lead] += np.linalg.norm(V[lead], axis=1)
    fixed[lead] = directions.free[1:]
    if i is not None:
        # the coefficient of a level is a_g - a_0, the intercept a_0 - sum_j shift_j b_j
        V[lead] -= a_span[0]
        V[i] = a_span[0] - shift @ directions.b_span
        size[i] += np.abs(shift).sum()
        fixed[i] = directions.free[0]
    missing = fixed | (np.linalg.norm(V, axis=1) > 1e-8 * size)
    if i is not None and fixed[i]:
        missing[lead] = True
        # minus the direction of the reference, (1, -1, ..., -1), which does not change the intercept
        V[lead] += V[i]
    V[fixed] = 0.0
    if V.size:
        fixed[qr(V.T, mode="r", pivoting=True)[1][: V.shape[1]]] = True
    return missing[:, None], fixed


def frame_with_shifts(model: Model, absorbs: bool) -> Frame:
    """Return the design's frame; without shifts unless the intercept absorbs them."""
    basis = model.design.basis
    if basis.intercept is None or absorbs:
        return basis
    size = np.sqrt((model.design.sample.X**2).mean(0))
    return replace(
        basis,
        shift=np.zeros_like(size),
        scale=np.where(size > 0, size, 1.0),
        intercept=None,
    )


def _coordinates(X: Array, free: Array, basis: Frame) -> tuple[Array, Array]:
    """Q (n, k) with orthonormal columns that span X[:, free], and T (p, k) with beta = T delta.

    Powers of a variable far from 0 are nearly collinear (condition 1e10 for a quartic of calendar years), so products in double
    precision leave errors of 1e-6 in Q, more than the slack of the programme. Small products use twice the precision.
    """
    # rows times squared columns, a quarter of a second of products in doubled precision
    max_doubled = 1e7
    few = len(X) * len(free) ** 2 <= max_doubled
    number = np.longdouble if few else float
    A = np.asarray(X[:, free])
    scale = basis.scale[free].astype(number)
    U = (A - basis.shift[free].astype(number)) / scale
    kept = _spanning_columns(U)
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


def _spanning_columns(U: Array) -> list[int]:
    """Return the first columns that span all columns of U (n, q).

    With many more columns than rows, only enough are factorised to find n that span
    everything.
    """
    n, q = U.shape
    count = min(q, 2 * max(n, 100))
    while (
        len(columns := list(rank_of(triangular(U[:, :count])).kept)) < n and count < q
    ):
        count = min(q, 2 * count)
    return columns


def labels_of(model: Model, marked: Array) -> tuple[str, ...]:
    """Return the names of the reported coefficients marked in (p, D)."""
    names = model.design.columns
    outcomes = model.likelihood.outcomes
    return tuple(
        f"{names[j]} ({outcomes[k]})" if outcomes else names[j]
        for j, k in np.argwhere(marked)
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


def escapes(model: Model) -> Array:
    """(2, p, D) bool: along some direction of constant or increasing likelihood,
    reported coefficient (j, d) goes to
    -infinity (first) or +infinity (second). A profile likelihood then has its limit on
    that side, and its interval is open.

    >>> model = Model.from_arrays([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1], columns=["dose"], likelihood="bernoulli")
    >>> escapes(model)[:, :, 0]  # the intercept falls, the slope rises
    array([[ True, False],
           [False,  True]])
    """
    # relative to the largest movement in the box: below it a coefficient does not move
    smallest = 1e-6
    D = model.likelihood.contrast_matrix
    reached = np.zeros((2, model.shape[0], len(D)), bool)
    result = separation(model)
    if not result:
        return reached
    assert isinstance(model.likelihood, MayDiverge)
    design = weighted_rows(model)
    cone, T = _cone_of(model, design.X, model.likelihood.recession(design.observed))
    inside = cone.inside
    loose = np.flatnonzero(~cone.recession.equal)
    normals = np.unique((cone.normals(loose) @ inside).round(14), axis=0)
    for j, d in np.argwhere(result.not_estimable):
        # The reported coefficient (j, d) is (T_j kron D_d) vec delta: its largest and least value in the cone.
        raw = np.kron(T[j], D[d])
        goal = raw @ inside
        length = np.linalg.norm(goal)
        if length <= smallest * np.linalg.norm(raw):  # not identified by the rows
            reached[:, j, d] = True
            continue
        goal = goal / length
        for side, sign in enumerate((-1.0, 1.0)):
            reached[side, j, d] = (
                sign * (goal @ maximise_linear(sign * goal, normals)) > smallest
            )
    return reached
