"""Averages of means and of their slopes over rows, with exact gradients in the coefficients. Arrays only.

The averaged quantity is h_k(x_i, beta): the mean of the response (class k), or its derivative along one variable. Its gradient
in beta is a sum of outer products L_i (K, m) x_i (p), so that no array over rows and coefficients is ever made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from probreg.data.rows import plus_offset
from probreg.kernels.sums import RowSums
from probreg.likelihoods import Likelihood, UnivariateLikelihood
from probreg.linalg import on_all_cores
from probreg.model.model import Model

Array = np.ndarray
Aux = Mapping[str, Array]
# draws times rows times classes at once: what a processor keeps near it
_NUMBERS = 65_536
_STEP = 2e-3  # of eta, in five-point differences: their error, step^4 / 30, and rounding are both near 1e-13


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Rows and their shares (they sum to one) in one average."""

    rows: Array
    share: Array

    def select(self, values: Array) -> Array:
        """Return the rows (b, ...) of this group from values (n, ...), without a copy if these are all rows in order."""
        if len(self.rows) == len(values):
            return values
        return values[self.rows]


class Target(Protocol):
    """h (..., n, K) at coefficients beta (..., p, m), and its gradient as outer products."""

    def values(
        self, model: Model, beta: Array, aux: Aux, residual: Sequence[Array] = ()
    ) -> Array:
        """Return h; `residual` (..., n, m) each are the additions to the linear predictors of `sums`, if there are any."""
        ...

    def averages(
        self, model: Model, draws: "DrawsAtOnce", groups: Sequence[RowGroup]
    ) -> Array:
        """The averages over groups at some draws, (s, G, K)."""
        ...

    def slopes(self, model: Model, beta: Array) -> list[tuple[Array, Array]]:
        """Pairs L (n, K, m) and x (n, p) with d h_ik / d beta_jl = sum over pairs of L_ikl x_ij."""
        ...

    def sums(self) -> list[Mapping[str, RowSums]]:
        """For each pair, in the same order, a mapping from each process to the sums over rows that x has in its columns."""
        ...


@dataclass(frozen=True, eq=False)
class DrawsAtOnce:
    """Some draws, beta (s, p, m) and aux (s, 1), with the additions to the predictors of a target, and the means and slopes
    that several targets share."""

    beta: Array
    aux: Aux
    residual: Sequence[Array]
    means: dict[int, Array]  # (s, n, K), by the identity of the rows
    slopes: dict[int, Array]  # d mean / d eta (s, n, K, m)

    def mean_at(self, model: Model, mean: "AverageMean") -> Array:
        if id(mean) not in self.means:
            self.means[id(mean)] = mean.values(
                model, self.beta, self.aux, self.residual
            )
        return self.means[id(mean)]

    def slope_at(self, model: Model, mean: "AverageMean") -> Array:
        if id(mean) not in self.slopes:
            self.slopes[id(mean)] = jacobian(model.likelihood, mean.eta(self.beta))
        return self.slopes[id(mean)]


@dataclass(frozen=True, eq=False)
class AverageMean:
    """E[y | x] at the rows X (n, p), with offset (n, 1) or (n, m)."""

    X: Array
    offset: Array | None
    inputs: Mapping[str, Array] = field(default_factory=dict)  # (n, d) of each process
    kept: dict[str, Array] = field(
        default_factory=dict
    )  # the linear predictors of the last estimate

    def values(
        self, model: Model, beta: Array, aux: Aux, residual: Sequence[Array] = ()
    ) -> Array:
        eta = self.eta(beta)
        return _mean_by_outcome(
            model.likelihood, eta + residual[0] if residual else eta, aux
        )

    def averages(
        self, model: Model, draws: DrawsAtOnce, groups: Sequence[RowGroup]
    ) -> Array:
        return _group_averages(draws.mean_at(model, self), groups)

    def sums(self) -> list[Mapping[str, RowSums]]:
        return [{key: RowSums.values(x) for key, x in self.inputs.items()}]

    def slopes(self, model: Model, beta: Array) -> list[tuple[Array, Array]]:
        return [(jacobian(model.likelihood, self.eta(beta)), self.X)]

    def eta(self, beta: Array) -> Array:
        """Return the linear predictors; a single estimate is cached because values, slopes and scores share it."""
        if beta.ndim > 2:
            return plus_offset(self.X @ beta, self.offset)
        if self.kept.get("beta") is not beta:
            self.kept.update(beta=beta, eta=plus_offset(self.X @ beta, self.offset))
        return self.kept["eta"]


@dataclass(frozen=True, eq=False)
class AverageSlope:
    """d E[y | x] / d v along one variable v: J(eta) (D beta), with D (n, p) the slopes of the columns in v."""

    at: AverageMean
    D: Array
    differences: Mapping[str, RowSums] = field(
        default_factory=dict
    )  # by process; D contains the slopes of its columns

    def values(
        self, model: Model, beta: Array, aux: Aux, residual: Sequence[Array] = ()
    ) -> Array:
        # d mu(x beta) / dv = J(eta) (dx/dv) beta
        eta = self.at.eta(beta)
        v = self.D @ beta
        if residual:
            eta = eta + residual[1]
            v = v + residual[0]
        return np.einsum("...nkm,...nm->...nk", jacobian(model.likelihood, eta), v)

    def averages(
        self, model: Model, draws: DrawsAtOnce, groups: Sequence[RowGroup]
    ) -> Array:
        if draws.residual:
            return _group_averages(
                self.values(model, draws.beta, draws.aux, draws.residual), groups
            )
        J = draws.slope_at(model, self.at)
        if self.one is not None:
            # sum_i s_i J_i beta_j: the slope of eta is the same in every row
            return np.stack(
                [
                    np.einsum(
                        "skm,sm->sk", _group_average(J, g), draws.beta[:, self.one]
                    )
                    for g in groups
                ],
                1,
            )
        return _group_averages(
            np.einsum("snkm,snm->snk", J, self.D @ draws.beta), groups
        )

    @cached_property
    def one(self) -> int | None:
        """The column with slope 1 in every row if all other slopes are 0, otherwise None."""
        if not isinstance(self.D, np.ndarray) or not len(self.D):
            return None
        moving = np.flatnonzero(self.D.any(0))
        if len(moving) == 1 and (self.D[:, moving[0]] == 1.0).all():
            return int(moving[0])
        return None

    def sums(self) -> list[Mapping[str, RowSums]]:
        return [self.differences, *self.at.sums()]

    def slopes(self, model: Model, beta: Array) -> list[tuple[Array, Array]]:
        eta = self.at.eta(beta)
        v = self.D @ beta
        J = jacobian(model.likelihood, eta)
        # d/d beta of J(eta) (D beta) = J D + (dJ/d eta along D beta) X
        return [
            (J, self.D),
            (_mean_hessian_product(model.likelihood, eta, v), self.at.X),
        ]


def jacobian(likelihood: Likelihood, eta: Array) -> Array:
    """d mean / d eta, (..., n, K, m), from the line on which the mean lies and its link."""
    line, J = likelihood.link_mean_and_slope(eta)
    # mu = g^-1(line(eta)): d mu / d eta = (g^-1)'(line) d line / d eta.
    return likelihood.link.slope(line)[..., None] * J


def _mean_by_outcome(likelihood: Likelihood, eta: Array, aux: Aux) -> Array:
    mean = likelihood.mean(eta, **aux)
    if isinstance(likelihood, UnivariateLikelihood):
        return mean[..., None]
    return mean


def _mean_hessian_product(likelihood: Likelihood, eta: Array, v: Array) -> Array:
    """d/dt J(eta + t v) at t = 0, (n, K, m): the second derivative of the mean along v, by five-point differences."""
    size = np.abs(v).max(1, initial=0.0)[:, None]
    unit = v / np.where(size > 0, size, 1.0)

    def across(k: int) -> Array:
        step = k * _STEP * unit
        return jacobian(likelihood, eta + step) - jacobian(likelihood, eta - step)

    # f'(0) = [8 (f(h) - f(-h)) - (f(2h) - f(-2h))] / (12 h) + O(h^4)
    return (8.0 * across(1) - across(2)) / (12.0 * _STEP) * size[..., None]


def average(
    model: Model, target: Target, groups: list[RowGroup], beta: Array, aux: Aux
) -> tuple[Array, Array, Array]:
    """Averages (G, K), their gradients (G, K, p m) over vec(beta), column first, then predictor, and the averaged quantity, (n, K)."""
    h = target.values(model, beta, aux)
    pairs = target.slopes(model, beta)
    # sum_i s_i h_i, with gradient sum_i s_i L_i kron x_i.
    value = np.stack([g.share @ g.select(h) for g in groups])
    gradient = np.stack(
        [
            sum(
                (_outer(g.share[:, None, None] * g.select(L), g.select(X)) for L, X in pairs),
                np.zeros((h.shape[1], *beta.shape)),
            )
            for g in groups
        ]
    )  # fmt: skip
    return value, gradient.reshape(*value.shape, -1), h


def moves_of_rows(
    h: Array, value: Array, groups: Sequence[RowGroup], units: Array
) -> Array:
    """Return the influence (n, G, K) of one unit of each row on the averages of h (n, K): share_i (h_i - average) / units_i."""
    scores = np.zeros((len(h), *value.shape))
    for number, g in enumerate(groups):
        # a row of weight zero has no units
        shares = np.divide(
            g.share,
            g.select(units),
            out=np.zeros(len(g.rows)),
            where=g.select(units) > 0,
        )
        scores[g.rows, number] = shares[:, None] * (g.select(h) - value[number])
    return scores


def _outer(L: Array, X: Array) -> Array:
    """sum_i L_i (K, m) kron x_i (p), (K, p, m)."""
    return np.moveaxis(
        (X.T @ L.reshape(len(L), -1)).reshape(X.shape[1], *L.shape[1:]), 0, 1
    )


def _group_average(h: Array, g: RowGroup) -> Array:
    """sum_i s_i h_i of (s, n, ...)."""
    # einsum of one row of numbers and a stack is no product of matrices; tensordot is
    return np.asarray(
        np.tensordot(
            h if len(g.rows) == h.shape[1] else h[:, g.rows], g.share, ((1,), (0,))
        )
    )


def _group_averages(h: Array, groups: Sequence[RowGroup]) -> Array:
    return np.stack([_group_average(h, g) for g in groups], 1)


def averages_of_draws(
    model: Model,
    quantities: Sequence[tuple[Target, list[RowGroup]]],
    draws: Mapping[str, Array],
    residual: Callable[[Target, slice], Sequence[Array]] = lambda target, atoms: (),
) -> list[Array]:
    """(S, G, K) of each target: its averages at every draw of beta (S, p, m) and aux (S, 1), with the additions to the predictors of
    some atoms."""
    n = max(
        (g.rows.max(initial=0) + 1 for _, groups in quantities for g in groups),
        default=1,
    )

    def part(atoms: slice) -> list[Array]:
        auxiliary = {k: v[atoms] for k, v in draws.items()}
        beta = auxiliary.pop("beta")
        means: dict[int, Array] = {}
        slopes: dict[int, Array] = {}
        return [
            target.averages(
                model,
                DrawsAtOnce(beta, auxiliary, residual(target, atoms), means, slopes),
                groups,
            )
            for target, groups in quantities
        ]

    blocks = on_all_cores(part, _split_draws(len(draws["beta"]), n, model))
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _split_draws(S: int, n: int, model: Model) -> list[slice]:
    """Split S draws into slices that fit in the processor's cache."""
    if isinstance(model.likelihood, UnivariateLikelihood):
        classes = 1
    else:
        classes = len(model.likelihood.levels)
    size = max(1, _NUMBERS // (n * classes * model.shape[1]))
    return [slice(i, min(i + size, S)) for i in range(0, S, size)]
