"""Theorems on learners of functions and on aggregation.

A run on rows x with the kernel k is one on columns: with Phi Phi' = K over the rows of the run, u'phi(x) is the f = sum_i b_i k(x_i, .)
with u = Phi'b and ||f|| = ||u||. So the theorems of Euclidean learners are asked about phi(x), and what they say of ||x||^2
is said of k(x, x).
"""

from dataclasses import replace
from typing import Any

import numpy as np

import probreg.online.comparator as best
from probreg.errors import DataError, Incompatible
from probreg.kernels import basis
from probreg.kernels.pairs import RowPairs
from probreg.online.anchors import Anchored
from probreg.online.dual import DualSVR
from probreg.online.experts import Aggregate
from probreg.online.guarantee import NOT_OF_LOSS, Assumption, Guarantee
from probreg.online.learner import Gradient
from probreg.online.parts import Array, State
from probreg.online.rounds import Rounds
from probreg.online.theorems import (
    NOT_CONVEX,
    descends,
    guarantee_of,
    reachable_assumption,
    sampling_of,
    starts_at_zero,
)

EXACT = 2000  # rows whose matrix is decomposed; of more, the comparators are those of a basis
SOURCES = {"vovk": "Vovk 1998", "mean": "Kivinen & Warmuth 1999"}


def promise_of(path: Rounds, comparator: Array | None) -> Guarantee:
    """The guarantee of any learner; of a learner of functions, `comparator` holds the b_i of f = sum_i b_i k(x_i, .), x_i its rows.

    That of a run that went on from others is None: it may stand at rows that are not among these.
    """
    if isinstance(path.learner, Aggregate):
        said = _of_experts(path, comparator)
        return replace(said, sampling=(*said.sampling, *sampling_of(path)))
    if not isinstance(path.learner, Anchored):
        return guarantee_of(path, comparator)
    flat, Phi = on_columns(path)
    u = None if comparator is None else Phi.T @ comparator
    if isinstance(path.learner, DualSVR):
        said = replace(_of_dual(flat, u), sampling=sampling_of(path))
    else:
        said = guarantee_of(flat, _displayed_comparator(flat) if u is None else u)
    known = (*said.assumptions, *path.learner.exact(path.start, path.state))
    known = tuple(
        replace(a, statement=a.statement.replace("||x||^2", "k(x, x)")) for a in known
    )
    u = said.comparator
    b = None
    if u is not None and not len(path.start.w):
        # u = Phi'b has the b = Phi (Phi'Phi)^-1 u of least norm, and the columns of Phi are orthogonal
        squares = np.square(Phi).sum(axis=0)
        b = Phi @ np.divide(u, squares, out=np.zeros_like(u), where=squares > 0)
    if all(a.holds is not False for a in known):
        bound = said.bound
    else:
        bound = np.inf
    quantity = said.quantity.replace("||x||^2", "k(x, x)")
    return replace(
        said, assumptions=known, bound=bound, comparator=b, quantity=quantity
    )


def on_columns(path: Rounds) -> tuple[Rounds, Array]:
    """The rounds of a learner of functions as those of one of columns, and these columns Phi (n, q) at its rows.

    Up to 2,000 rows K = Phi Phi' to rounding. Of more, Phi are the columns of a Cholesky basis: functions of their span, for
    which every bound holds, without those that might make it a little less.
    """
    learner = path.learner
    assert isinstance(learner, Anchored)
    X, y = path.rows()
    anchors = path.start.memory["anchors"]
    n = len(y)
    if len(anchors) + n <= EXACT:
        rows = np.vstack([X, anchors])
        w, U = np.linalg.eigh(learner.kernel.finite(RowPairs(rows, rows)))
        held = w > len(rows) * np.finfo(float).eps * w[-1]
        if held.any():
            Phi = U[:, held] * np.sqrt(w[held])
        else:
            Phi = np.zeros((len(rows), 1))
    elif len(anchors) or (isinstance(learner, DualSVR) and learner.step_size is None):
        if len(anchors):
            why = "a run that went on from others"
        else:
            why = "steps of 1 / k(x, x)"
        raise DataError(
            f"{n + len(anchors)} rows and anchors: the bound for {why} is worked out up to {EXACT}"
        )
    else:
        # orthogonal columns of the same span: Phi V of Phi = U s V'
        U, d, _ = np.linalg.svd(
            basis(learner.kernel, X, "cholesky").columns_at(X), full_matrices=False
        )
        Phi = (U * d)[:, d > d[0] * n * np.finfo(float).eps]
    Phi, at_anchors = np.ascontiguousarray(Phi[:n]), Phi[n:]
    if learner.flat is not learner:
        first = learner.flat.init(Phi.shape[1])
    else:
        first = State(np.zeros(Phi.shape[1]))
    memory = {
        **first.memory,
        **{k: at_anchors.T @ v for k, v in path.start.memory.items() if k == "pending"},
    }
    start = State(at_anchors.T @ path.start.w, path.start.t, memory)
    told: dict[str, Any] = {
        "start": start,
        "weights": np.zeros((1, Phi.shape[1])),
        "data": (Phi, y),
    }
    if learner.loss.name == "squared" and not len(anchors):
        # orthogonal columns have the factor [D z; 0 rho] of [Phi y], D diagonal, z = D^-1 Phi'y and rho^2 = |y - Phi D^-1 z|^2
        d = np.sqrt(np.square(Phi).sum(axis=0))
        z = np.divide(Phi.T @ y, d, out=np.zeros_like(d), where=d > 0)
        rest = y - Phi @ np.divide(z, d, out=np.zeros_like(d), where=d > 0)
        F = np.block(
            [
                [np.diag(d), z[:, None]],
                [np.zeros((1, len(d))), np.full((1, 1), np.sqrt(rest @ rest))],
            ]
        )
        told["factor"] = F * np.sqrt(path.totals.rounds / n)
    return replace(path, learner=learner.flat, **told), Phi


def _displayed_comparator(flat: Rounds) -> Array | None:
    """The u that a bound on any convex loss is shown for: of all functions the best would fit every row, whatever its norm."""
    learner = flat.learner
    if not (isinstance(learner, Gradient) and descends(learner)):
        return None
    if learner.loss.name == "squared" and learner.bare and learner.rate.power == 0:
        return None  # Widrow-Hoff's, whose least bound is in closed form
    (X, y), last = flat.rows(), learner.rate.at(flat.state.t, 0.0, 0.0)
    # L_u + d ||u - w_1||^2 / (2 step), over the rows of one pass
    weight = learner.loss.derivative / (2 * last) * len(y) / flat.totals.rounds
    u = best.penalised_comparator(X, y, learner.loss, weight, flat.start.w)
    size = float(np.sqrt(u @ u))
    if size > 0:
        return u * min(1.0, learner.geometry.size / size)
    return u


def _of_dual(path: Rounds, u: Array | None) -> Guarantee:
    """sum_t min(C, step l_t) l_t <= (||u||^2 / 2 + C L_u) / (1 - step r^2 / 2), for rows that come once.

    The dual rises by b l - q b^2 / 2 with b = min(C, step l), so by b l (1 - step q / 2) or more, and nowhere exceeds the primal of
    any u. The exact step is 1 / q.
    """
    learner, (X, y) = path.learner, path.rounds()
    assert isinstance(learner, DualSVR)
    if len(path.losses) != len(y):
        raise Incompatible(
            "this bound needs the loss of every round: run with record=Record(rows=True)"
        )
    q = np.einsum("ij,ij->i", X, X)
    if learner.step_size is None:
        steps = np.divide(1.0, q, out=np.zeros_like(q), where=q > 0)
    else:
        steps = learner.step_size
    reach = float(np.max(steps * q))
    known = (
        Assumption("step k(x, x) < 2", reach, reach < 2),
        Assumption("every row comes once", path.passes, path.passes == 1),
        starts_at_zero(path),
    )
    if u is None:
        u = best.penalised_comparator(
            X, y, learner.loss, 1 / (2 * learner.C), np.zeros(X.shape[1])
        )
    theirs = path.loss_of(u)
    suffered = float(np.sum(np.minimum(learner.C, steps * path.losses) * path.losses))
    holds = all(a.holds for a in known)
    if holds:
        bound = (float(u @ u) / 2 + learner.C * theirs) / (1 - reach / 2)
    else:
        bound = np.inf
    rest = suffered, bound, path.totals.rounds, known, u, theirs
    quantity = "sum of min(C, step loss) loss"
    return Guarantee(
        "dual ascent",
        "potential argument",
        quantity,
        *rest,
        convex=NOT_CONVEX,
        of_loss=NOT_OF_LOSS,
    )


def _of_experts(path: Rounds, u: Array | None) -> Guarantee:
    """L <= sum_i u_i L_i + d(u, w_1) / rate, u on the simplex: the mixture loses -log(sum_i w_i exp(-rate l_i)) / rate at least
    as much as the forecast, and that adds up."""
    learner = path.learner
    start = path.start.w
    assert isinstance(learner, Aggregate)
    losses = path.state.memory["losses"] - path.start.memory["losses"]
    if u is None:
        u = np.eye(len(start))[
            np.argmin(losses - np.log(np.maximum(start, 1e-300)) / learner.rate)
        ]
    inside = (
        float(np.max(path.totals.worst))
        <= (learner.high - learner.low) ** 2 * (1 + 1e-9),
    )
    known = (
        Assumption(
            f"y and the forecasts in [{learner.low:g}, {learner.high:g}]",
            None,
            all(inside),
        ),
        reachable_assumption(u),
    )
    bound = float(u @ losses) + best.relative_entropy(u, start) / learner.rate
    if learner.mixing == "vovk":
        name = "aggregating algorithm"
    else:
        name = "exponentially weighted average"
    rest = (
        path.loss,
        bound if all(a.holds for a in known) else np.inf,
        path.totals.rounds,
        known,
        u,
        float(u @ losses),
    )
    learning = Assumption(
        "the weights are all that predicts, and the learners behind them learn too",
        None,
        False,
    )
    return Guarantee(
        name,
        SOURCES[learner.mixing],
        "cumulative squared loss",
        *rest,
        sampling=(learning,),
    )
