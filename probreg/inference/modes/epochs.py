"""The rows of a model on standardised columns, one pass of stochastic gradients over them, and sigma at a point.

A pass uses the log posterior as a sum over rows: a row of weight w counts as w rows,
and each row has an equal share of the prior. The caller decides the number of passes
and the stopping rule.

The perceptron: a classifier that finds a separating direction of two classes, without a probability model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from probreg import online
from probreg.arguments.scalars import Count
from probreg.data import Block
from probreg.data.checked_arrays import times_weights
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
    aux_from_log,
)
from probreg.inference.covariance import NoCovariance
from probreg.inference.modes.maximise import maximise, newton_step
from probreg.inference.obstacles import unsupported_kinds
from probreg.inference.status import Topic, important_note, routine_note
from probreg.likelihoods import Bernoulli, SmoothLikelihood
from probreg.linalg import row_blocks, weighted_gram
from probreg.model.likelihood_sums import value_grad_hessian
from probreg.model.model import LocalModel, Model, prior_derivatives
from probreg.online.theorems import novikoff


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
        # all methods here require one
        assert isinstance(self.model.likelihood, SmoothLikelihood)
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
        # predictors are independent
        blocks = np.stack([P[k::m, k::m] for k in range(m if joint.apart else 1)])
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
    """d log prior / d gamma = vector - matrix gamma, the share of one row."""

    vector: Array  # (p, 1), or (p, m) if predictors have different priors
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
    # with eta as an offset and no columns, there are only derivatives over log aux
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


class PerceptronSearch(NamedTuple):
    """Weights of the standardised columns after the last pass, their mean over it, and counts by pass."""

    last: Array  # (p,)
    mean: Array
    mistakes: Array  # pass by pass
    norm: Array


@METHODS.register
@dataclass(frozen=True)
class Perceptron(Method):
    """Rosenblatt's rule on standardised columns: gamma += s u at every mistake, s = -1 or +1 the class of the row u.

    If the classes can be separated, it ends after at most (R / margin)^2 mistakes, with a direction of the right
    sign in every row. Otherwise it does not converge: after `epochs` passes the answer is the average of the last
    pass, and the status reports this. Each pass uses a new order of the rows; a row of weight w changes gamma w times as much.

    There are no standard errors and no probabilities: `predict` raises an error, and np.sign(X @ coef) gives the side of
    a row, +1 for the event. `stats` contains mistakes, passes, rows on the wrong side, and the margin, min s
    u'gamma / ||gamma|| on standardised columns. The margin is negative if a row is on the wrong side.

    Parameters
    ----------
    epochs : int
        Maximum number of passes over the rows.

    References
    ----------
    Novikoff 1962; Freund & Schapire 1999.

    Examples
    --------
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [5.0]], [0, 0, 1, 1], likelihood="bernoulli")
    >>> found = Perceptron().solve(model, np.random.default_rng(0))
    >>> found.status.name, np.sign(model.design.X @ found.beta[:, 0])
    ('SEPARATED', array([-1., -1.,  1.,  1.]))
    """

    epochs: Count = 500

    name = "perceptron"
    in_memory = True
    likelihood = Bernoulli
    probabilities: ClassVar[bool] = False

    def describe(self, model: Model) -> str:
        assert isinstance(model.likelihood, Bernoulli)
        non_event, event = model.likelihood.classes
        return f"the class of {model.design.response} by the sign of the linear predictor: + is {event}, - is {non_event}"

    def obstacle(self, model: Model) -> str | None:
        reason = unsupported_kinds(self, model)
        if reason:
            return reason
        if not model.flat:
            return "the perceptron maximises no posterior, so it cannot use a prior"
        if model.design.offset is not None:
            return "the perceptron needs a linear predictor without an offset, and this model has an offset"
        return None

    def guarantee(self, model: Model, solution: Solution) -> "online.Guarantee":
        """Novikoff's bound on the mistakes of all passes, on standardised columns; it needs the rows."""
        model.design.need_rows("the perceptron's bound")
        rows = _steps(model)
        side = _sides(model)
        rounds = int(solution.stats["passes"]) * len(side)
        return novikoff(
            rows,
            side,
            mistakes=solution.stats["mistakes"],
            rounds=rounds,
            largest=float((rows**2).sum(axis=1).max()),
        )

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        d = model.design
        d.need_rows("the perceptron")
        U = d.basis.rows(d.X)
        side = _sides(model)
        search = _search(_steps(model), side, self.epochs, rng)
        done = search.mistakes[-1] == 0
        gamma = search.last if done else search.mean
        # margin = min_i s_i u_i'gamma / |gamma|
        lengths = side * (U @ gamma)
        margin = float(lengths.min() / (np.linalg.norm(gamma) or 1.0))
        wrong = int((lengths <= 0).sum())
        total = int(search.mistakes.sum())
        passes = len(search.mistakes)
        k = gamma.size
        if done:
            status = Status.SEPARATED
            detail = ""
            note = routine_note(
                Topic.CONVERGENCE,
                "{mistakes} mistakes in {passes} passes; margin {margin:.3g} on standardised columns",
                mistakes=total,
                passes=passes,
                margin=margin,
            )
        else:
            status = Status.UNSEPARATED
            detail = f"after {passes} passes and {total} mistakes, {wrong} of {d.n} rows are on the wrong side"
            note = important_note(
                Topic.CONVERGENCE,
                "the coefficients are the average of the last pass; check(model) tests whether the classes can be separated",
            )
        return Solution(
            beta=d.basis.T @ gamma[:, None],
            scale=NoCovariance.of(k, 1),
            status=status,
            detail=detail,
            stats={
                "n": d.total,
                "mistakes": float(total),
                "passes": float(passes),
                "wrong": float(wrong),
                "margin": margin,
            },
            notes=(
                important_note(
                    Topic.LIKELIHOOD,
                    "a classifier: np.sign(X @ coef) is +1 for the event; there are no probabilities and no standard errors",
                ),
                note,
            ),
            trace={"mistakes": search.mistakes, "norm": search.norm},
        )


def _sides(model: Model) -> Array:
    return np.where(model.design.observed > 0.5, 1.0, -1.0)


def _steps(model: Model) -> Array:
    """Return the rows that a mistake adds: standardised columns, times the weight."""
    d = model.design
    U = d.basis.rows(d.X)
    return times_weights(U, d.weights)


def _search(
    rows: Array, side: Array, epochs: int, rng: np.random.Generator
) -> PerceptronSearch:
    """Make passes until one has no mistake, or `epochs` is reached."""
    learner = online.perceptron()
    state = online.State(np.zeros(rows.shape[1]))
    mistakes, norms = [], []
    for _ in range(epochs):
        order = rng.permutation(len(side))
        path = online.run(
            learner,
            rows[order],
            side[order],
            state=state,
            record=online.Record(every=len(side)),
        )
        state = path.state
        mistakes.append(float(path.mistakes))
        norms.append(float(np.linalg.norm(state.w)))
        if path.mistakes == 0:
            break
    return PerceptronSearch(
        state.w, path.average(), np.array(mistakes), np.array(norms)
    )
