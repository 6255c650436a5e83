"""The rows of a model on standardised columns, one pass of stochastic gradients over them, and sigma at a point.

A pass uses the log posterior as a sum over rows: a row of weight w counts as w rows,
and each row has an equal share of the prior. The caller decides the number of passes
and the stopping rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probreg.data import Block
from probreg.data.rows import times_weights
from probreg.inference.base import Array, aux_from_log
from probreg.inference.modes.maximise import maximise, newton_step
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import row_blocks, weighted_gram
from probreg.model.likelihood_sums import value_grad_hessian
from probreg.model.model import LocalModel, Model, prior_derivatives


@dataclass(frozen=True, eq=False)
class PassData:
    """The rows that a pass needs, on standardised columns; weights are divided by their mean."""

    model: Model
    rows: Block

    @classmethod
    def of(cls, model: Model) -> "PassData":
        d = model.design
        d.need_rows("a stochastic gradient")
        weights = None if d.weights is None else d.weights * (d.n / d.total)
        return cls(model, d.block._replace(X=d.basis.rows(d.X), weights=weights))

    @property
    def likelihood(self) -> SmoothLikelihood:
        assert isinstance(
            self.model.likelihood, SmoothLikelihood
        )  # all methods here require one
        return self.model.likelihood

    def slope(self, rows: Block, gamma: Array, aux: Mapping[str, float]) -> Array:
        """sum_i w_i d log p_i / d gamma over some rows, (p, m)."""
        aux = self.likelihood.at_rows(aux, rows.precision)
        score = self.likelihood.score(rows.y, rows.eta(gamma), **aux)
        return rows.X.T @ times_weights(score, rows.weights)

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

    def curvature(self, gamma: Array, aux: Mapping[str, float], batch: int) -> float:
        """Return a bound on the curvature in a step of `batch` rows: (R^2 + (batch - 1)
        lambda) / batch + prior.

        R^2 is the largest weight ||u||^2 tr W of a row, W its information, and lambda
        the largest eigenvalue of the mean of weight W u u' (Jain, Kakade, Kidambi,
        Netrapalli & Sidford 2018, for least squares); W is evaluated at the
        likelihood's rough fit of y and at gamma, and the larger bound is used.
        """
        pull = self.prior(aux)
        rough = self.likelihood.initial_eta(self.rows.y)[0]
        bound = max(
            self._curvature_at(eta, aux, batch) for eta in (rough, self.rows.eta(gamma))
        )
        if pull is None:
            return bound
        return bound + float(np.linalg.eigvalsh(pull.matrix)[:, -1].max())

    def _curvature_at(self, eta: Array, aux: Mapping[str, float], batch: int) -> float:
        # rows that determine the mean curvature, which only bounds the step
        max_rows = 10_000
        n, p = self.rows.X.shape
        longest = 0.0
        for rows in row_blocks(n, max(p, eta.shape[1] ** 2)):
            U = self.rows.X[rows]
            W = np.einsum("nkk->n", self._information(rows, eta, aux))
            longest = max(longest, float((np.einsum("np,np->n", U, U) * W).max()))
        # R^2 = max_i w_i |u_i|^2 tr W_i, lambda = the largest eigenvalue of mean_i w_i W_i u_i u_i'.
        every = slice(None, None, max(1, n // max_rows))
        U = self.rows.X[every]
        G = weighted_gram(U, self._information(every, eta, aux))
        mean = float(np.linalg.eigvalsh(G / len(U))[-1])
        return (longest + (batch - 1) * mean) / batch

    def _information(self, part: slice, eta: Array, aux: Mapping[str, float]) -> Array:
        """The expected information (n, m, m) of some rows at eta, times their weights."""
        rows = self.rows.part(part)
        values = self.likelihood.at_rows(aux, rows.precision)
        W = self.likelihood.information(
            eta[part], **values, **self.likelihood.given(rows.y)
        )
        return times_weights(W, rows.weights)


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
    """The squared loss of a pass of least mean squares, its step, and the largest w ||u||^2 of its rows."""

    loss: float
    step: float
    largest: float


def gradient_pass(
    data: PassData,
    order: Array,
    gamma: Array,
    aux: Mapping[str, float],
    step: float,
    batch: int,
) -> Pass:
    """Make one pass in steps of `batch` rows, in this order; a step over all rows needs no order."""
    pull = data.prior(aux)
    total = np.zeros_like(gamma)
    starts = range(0, len(order), batch)
    for i in starts:
        rows = data.rows
        if batch < len(order):
            rows = rows.part(order[i : i + batch])
        slope = data.slope(rows, gamma, aux)
        if pull is not None:
            slope = slope + rows.rows * pull.at(gamma)
        total += gamma
        # gamma <- gamma + (step / batch) sum_(i in batch) [w_i d log p_i / d gamma + d log p(gamma) / d gamma / n].
        gamma = gamma + (step / batch) * slope
    return Pass(gamma, total / len(starts))


def aux_mode_at(model: Model, gamma: Array, log_aux: Array) -> Array:
    """argmax of the log posterior over log aux at fixed coefficients, by Newton steps of at most 1 from `log_aux`."""
    if not model.unknown:
        return log_aux
    beta = model.design.basis.T @ gamma
    eta = model.eta(beta)
    likelihood = model.likelihood
    assert isinstance(likelihood, SmoothLikelihood)
    # eta as an offset of no columns leaves derivatives over log aux only
    rows = model.design.block._replace(X=np.zeros((len(eta), 0)), offset=eta)

    def evaluate(x: Array) -> LocalModel:
        aux = aux_from_log(model, x)
        value, _, slope, *_, curvature = value_grad_hessian(
            rows,
            likelihood=likelihood,
            unknown=model.unknown,
            gamma=np.zeros((0, model.shape[1])),
            frame=None,
            aux_values=aux,
            curved=True,
        )
        k = beta.size
        prior = prior_derivatives(model, beta, np.eye(len(beta)), aux)
        return LocalModel(
            float(value) + prior.value,
            slope + prior.gradient[k:],
            curvature + prior.curvature[k:, k:],
        )

    def bounded_step(local: LocalModel) -> tuple[Array, bool]:
        step, is_definite = newton_step(local)
        return np.clip(step, -1.0, 1.0), is_definite

    start = evaluate(log_aux)
    if not (np.isfinite(start.gradient).all() and np.isfinite(start.curvature).all()):
        return log_aux  # the steps of the coefficients diverge
    # in standard errors; the last step squares it
    tol = 1e-6
    return maximise(
        evaluate,
        bounded_step,
        log_aux,
        start,
        tol=tol,
        max_steps=60,
        evaluates_last=False,
    ).x
