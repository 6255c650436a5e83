"""The perceptron: a classifier that finds a separating direction of two classes, without a probability model."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from probreg import online
from probreg.arguments.scalars import Count
from probreg.data.rows import times_weights
from probreg.inference.base import METHODS, Array, Method, Solution, Status
from probreg.inference.covariance import NoCovariance
from probreg.inference.notes import Topic, important_note, routine_note
from probreg.inference.obstacles import unsupported_kinds
from probreg.likelihoods import Bernoulli
from probreg.model.model import Model
from probreg.online.theorems import novikoff


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
    pass, and the status reports it. Each pass uses a new order of the rows; a row of weight w moves gamma w times as far.

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
