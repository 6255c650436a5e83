"""Guarantees of learners of functions.

A run on rows x with the kernel k is one on columns: with Phi Phi' = K over the rows of the run, u'phi(x) is the f = sum_i b_i k(x_i, .)
with u = Phi'b and ||f|| = ||u||. So the theorems of Euclidean learners apply to phi(x), with k(x, x) for ||x||^2.
"""

from dataclasses import replace

import numpy as np

from probreg.errors import Incompatible
from probreg.kernels.pairs import RowPairs
from probreg.online.guarantee import Guarantee
from probreg.online.kernel_learners import KernelLearner
from probreg.online.rounds import Rounds
from probreg.online.theorems import (
    descent_theorem,
    theorem_guarantee,
    theorem_of,
)
from probreg.online.updates import Array, State


def guarantee_of(path: Rounds, comparator: Array | None) -> Guarantee:
    """Return the guarantee of any learner.

    For a learner of functions `comparator` holds the b_i of f = sum_i b_i k(x_i, .), x_i its rows; that of a run that
    continues another is None, because its f may need other rows.
    """
    if not isinstance(path.learner, KernelLearner):
        return theorem_guarantee(path, comparator)
    flat, Phi = on_columns(path)
    u = None
    if comparator is not None:
        u = Phi.T @ comparator
    elif theorem_of(flat.learner) is descent_theorem:
        raise Incompatible(
            f"no best function for the {flat.learner.loss.name} loss: without a bound on its norm, a function fits every row; pass a comparator"
        )
    guarantee = theorem_guarantee(flat, u)
    assumptions = tuple(
        replace(a, statement=a.statement.replace("||x||^2", "k(x, x)"))
        for a in guarantee.assumptions
    )
    u = guarantee.comparator
    b = None
    if u is not None and not len(path.start.w):
        # u = Phi'b has the b = Phi (Phi'Phi)^-1 u of least norm, and the columns of Phi are orthogonal
        squares = np.square(Phi).sum(axis=0)
        b = Phi @ np.divide(u, squares, out=np.zeros_like(u), where=squares > 0)
    quantity = guarantee.quantity.replace("||x||^2", "k(x, x)")
    return replace(guarantee, assumptions=assumptions, comparator=b, quantity=quantity)


def on_columns(path: Rounds) -> tuple[Rounds, Array]:
    """Return the rounds of a learner of functions as those of a learner of columns, and its columns Phi (n, q).

    K = Phi Phi' comes from an eigendecomposition, whose time grows with the cube of the number of rows.
    """
    learner = path.learner
    assert isinstance(learner, KernelLearner)
    X, y = path.rows()
    anchors = path.start.memory["anchors"]
    n = len(y)
    rows = np.vstack([X, anchors])
    w, U = np.linalg.eigh(learner.kernel.finite(RowPairs(rows, rows)))
    positive = w > len(rows) * np.finfo(float).eps * w[-1]
    Phi = np.zeros((len(rows), 1))
    if positive.any():
        Phi = U[:, positive] * np.sqrt(w[positive])
    at_anchors = Phi[n:]
    Phi = np.ascontiguousarray(Phi[:n])
    first = learner.flat.init(Phi.shape[1])
    start = State(at_anchors.T @ path.start.w, path.start.t, first.memory)
    flat = replace(
        path,
        learner=learner.flat,
        start=start,
        weights=np.zeros((1, Phi.shape[1])),
        data=(Phi, y),
    )
    return flat, Phi
