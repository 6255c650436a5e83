"""The rows of a model on standardised columns, one pass of stochastic gradients over them, and sigma at a point.

A pass uses the log posterior as a sum over rows: a row of weight w counts as w rows,
and each row has an equal share of
the prior. The caller decides the number of passes and the stopping rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.data.rows import full_weights, plus_offset
from probreg.inference.base import Array
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import map_blocks, row_blocks, weighted_gram
from probreg.model.model import Model

_SAMPLE = 10_000  # rows that determine the mean curvature, which only bounds the step


@dataclass(frozen=True, eq=False)
class PassData:
    """The arrays that a pass needs, on standardised columns; weights are divided by
    their mean."""

    model: Model
    U: Array  # (n, p)
    y: Array  # (n,) or (n, c)
    weights: Array | None  # (n,)
    offset: Array | None  # (n, 1) or (n, m)
    precision: Array | None = None  # (n,)

    @classmethod
    def of(cls, model: Model) -> "PassData":
        d = model.design
        d.need_rows("a stochastic gradient")
        if d.weights is None:
            weights = None
        else:
            weights = d.weights * (d.n / d.total)
        return cls(model, d.basis.rows(d.X), d.observed, weights, d.offset, d.precision)

    @property
    def likelihood(self) -> SmoothLikelihood:
        assert isinstance(
            self.model.likelihood, SmoothLikelihood
        )  # all methods here require one
        return self.model.likelihood

    def take(self, order: Array | slice) -> "PassData":
        offset, weights, precision = (
            None if part is None else part[order]
            for part in (self.offset, self.weights, self.precision)
        )
        return replace(
            self,
            U=self.U[order],
            y=self.y[order],
            weights=weights,
            offset=offset,
            precision=precision,
        )

    def weigh(self, values: Array) -> Array:
        """Multiply each row by its weight."""
        if self.weights is None:
            return values
        return values * self.weights.reshape(-1, *[1] * (values.ndim - 1))

    def eta(self, gamma: Array) -> Array:
        eta = self.U @ gamma
        return plus_offset(eta, self.offset)

    def slope(self, gamma: Array, aux: Mapping[str, float]) -> Array:
        """sum_i w_i d log p_i / d gamma over these rows, (p, m)."""
        aux = self.likelihood.at_rows(aux, self.precision)
        return self.U.T @ self.weigh(
            self.likelihood.score(self.y, self.eta(gamma), **aux)
        )

    def prior(self, aux: Mapping[str, float]) -> "Pull | None":
        """The normal prior's share of one row, or None when it is flat."""
        joint = self.model.joint
        if not joint.informative.any():
            return None
        # For one row: d log p(gamma) / d gamma / n = T'P (b - T gamma) / n.
        m = self.model.shape[1]
        T = self.model.design.basis.T
        P = (
            joint.precision_of_entries(m, self.model.likelihood.noise(aux))
            / self.model.design.total
        )
        blocks = np.stack(
            [P[k::m, k::m] for k in range(m if joint.apart else 1)]
        )  # predictors are independent
        return Pull((T.T @ blocks @ joint.center).T, T.T @ blocks @ T)

    @cached_property
    def _squares(self) -> Array:
        return self.weigh(np.einsum("np,np->n", self.U, self.U))

    def curvature(self, gamma: Array, aux: Mapping[str, float], batch: int) -> float:
        """Return a bound on the curvature in a step of `batch` rows: (R^2 + (batch - 1)
        lambda) / batch + prior.

        R^2 is the largest weight ||u||^2 tr W of a row, W its information, and lambda the largest eigenvalue of the mean of
        weight W u u' (Jain, Kakade, Kidambi, Netrapalli & Sidford 2018, for least
        squares); W is evaluated at the likelihood's
        rough fit of y and at gamma, and the larger bound is used.
        """
        pull = self.prior(aux)
        rows = self._curvature_at(self.likelihood.initial_eta(self.y)[0], aux, batch)
        rows = max(rows, self._curvature_at(self.eta(gamma), aux, batch))
        return rows + (
            0.0 if pull is None else float(np.linalg.eigvalsh(pull.matrix)[:, -1].max())
        )

    def _curvature_at(self, eta: Array, aux: Mapping[str, float], batch: int) -> float:
        longest = 0.0
        for rows in row_blocks(len(self.y), max(self.U.shape[1], eta.shape[1] ** 2)):
            W = self.take(rows).information(eta[rows], aux)
            longest = float(
                np.maximum(
                    longest, (self._squares[rows] * np.einsum("nkk->n", W)).max()
                )
            )
        # R^2 = max_i w_i |u_i|^2 tr W_i, lambda = the largest eigenvalue of mean_i w_i W_i u_i u_i'.
        every = slice(None, None, max(1, len(self.y) // _SAMPLE))
        part = self.take(every)
        W = part.weigh(part.information(eta[every], aux))
        mean = float(np.linalg.eigvalsh(weighted_gram(part.U, W) / len(part.y))[-1])
        return (longest + (batch - 1) * mean) / batch

    def information(self, eta: Array, aux: Mapping[str, float]) -> Array:
        """The expected information (n, m, m) of each row at eta (n, m)."""
        aux_values = self.likelihood.at_rows(
            aux, self.precision
        ) | self.likelihood.given(self.y)
        return self.likelihood.information(eta, **aux_values)


class Pull(NamedTuple):
    """d log prior / d gamma = vector - matrix gamma, for one of the rows that share it."""

    vector: Array  # (p, 1), or (p, m) of predictors with priors of their own
    matrix: Array  # (1, p, p) or (m, p, p)

    def at(self, gamma: Array) -> Array:
        return self.vector - (self.matrix @ gamma.T[..., None])[..., 0].T


class Pass(NamedTuple):
    """gamma after a pass, the mean of the iterates at the start of its steps, and the
    losses if a theorem covers the pass."""

    last: Array
    mean: Array
    losses: "PassLosses | None" = None


class PassLosses(NamedTuple):
    """The squared loss of a pass of least mean squares, its step, and the largest w
    ||u||^2 of its rows."""

    loss: float
    step: float
    largest: float


def gradient_pass(
    rows: PassData,
    order: Array,
    gamma: Array,
    aux: Mapping[str, float],
    step: float,
    batch: int,
) -> Pass:
    """Make one pass in steps of `batch` rows, in this order; a step over all rows needs
    no order."""
    pull = rows.prior(aux)
    total = np.zeros_like(gamma)
    starts = range(0, len(rows.y), batch)
    for i in starts:
        if batch < len(rows.y):
            part = rows.take(order[i : i + batch])
        else:
            part = rows
        slope = part.slope(gamma, aux)
        if pull is not None:
            slope = slope + len(part.y) * pull.at(gamma)
        total += gamma
        # gamma <- gamma + (step / batch) sum_(i in batch) [w_i d log p_i / d gamma + d log p(gamma) / d gamma / n].
        gamma = gamma + (step / batch) * slope
    return Pass(gamma, total / len(starts))


def estimated_aux(model: Model, log_aux: Array) -> dict[str, float]:
    return dict(zip(model.unknown, np.exp(log_aux).tolist()))


def aux_from_log(model: Model, log_aux: Array) -> dict[str, float]:
    return {**model.fixed, **estimated_aux(model, log_aux)}


def aux_mode_at(model: Model, gamma: Array, log_aux: Array) -> Array:
    """argmax of the log posterior over log aux at fixed coefficients, by Newton steps
    of at most 1 from `log_aux`."""
    if not model.unknown:
        return log_aux
    beta = model.design.basis.T @ gamma
    eta = model.eta(beta)
    for _ in range(60):
        slope, curvature = _aux_slopes(model, beta, eta, log_aux)
        # Newton's method in each log aux separately, with |curvature| in place of a
        # negative one.
        step = np.clip(
            slope / np.maximum(np.abs(curvature), np.finfo(float).tiny), -1.0, 1.0
        )
        log_aux = log_aux + step
        if np.abs(step).max() < 1e-9:  # its square is the change in the next step
            break
    return log_aux


def _aux_slopes(
    model: Model, beta: Array, eta: Array, log_aux: Array
) -> tuple[Array, Array]:
    """First and negative second derivatives of the log posterior over each log aux."""
    likelihood = model.likelihood
    aux = aux_from_log(model, log_aux)
    m = model.shape[1]
    assert isinstance(likelihood, SmoothLikelihood)
    aux_entries = [m + likelihood.aux.index(a) for a in model.unknown]

    def part(rows: slice) -> tuple[Array, Array]:
        block = model.design.block.part(rows)
        local = likelihood.value_grad_hessian(
            block.y, eta[rows], **likelihood.at_rows(aux, block.precision)
        )
        w = full_weights(block.weights, block.rows)
        return np.dot(w, local.gradient[:, aux_entries]), np.dot(
            w, local.curvature[:, aux_entries, aux_entries]
        )

    slope, curvature = map_blocks(part, row_blocks(len(eta), model.shape[0]))
    _, g, h = model.joint.value_grad_hessian(beta, model.likelihood.noise(aux))
    for i, name in enumerate(model.unknown):
        first, second = model.aux_prior(name).slopes(aux[name])
        is_noise = name == model.likelihood.noise_scale
        # d/d log aux of sum_i w_i log p_i + log p(beta | sigma) + log p(log aux).
        slope[i] += first + is_noise * g[-1]
        curvature[i] += is_noise * h[-1, -1] - second
    return slope, curvature
