"""What a mode knows of its rows: curvature, scores and leverages at the estimate, on well-scaled coordinates.

theta = (vec beta, log aux) is written as theta = frame phi plus a constant, phi running over the directions that are
identified, on standardised columns. Covariances of an estimate and one-step changes of it start from here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from probreg.data import Block, Frame
from probreg.data.rows import full_weights
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference.base import Array, Solution, Status, held_at_limits, log_names
from probreg.inference.covariance import (
    DenseCovariance,
    root_of_curvature,
    root_of_square,
)
from probreg.inference.modes.newton_method import Newton
from probreg.inference.modes.wide import refuse_written_out
from probreg.inference.penalized.piecewise_linear import InteriorPoint
from probreg.inference.uncertainty.kink_density import curvature_at_kinks
from probreg.likelihoods import DifferentiableLikelihood, PiecewiseLinearLikelihood
from probreg.model.model import Model
from probreg.numerics.frame import map_of_columns, map_of_predictors, with_aux
from probreg.numerics.linalg import row_blocks, weighted_gram

_AT_ZERO = "that the likelihood has no curvature there: use fewer columns or more rows, or hold sigma (aux={'sigma': ...})"
_FULL = 1e-10  # 1 - leverage below which a row fits itself


@dataclass(frozen=True, eq=False)
class Estimate:
    """A model at its mode; arrays are per observation (a frequency weight is not yet multiplied in)."""

    model: Model
    solution: Solution

    @cached_property
    def known(self) -> dict[str, float]:
        """Every nuisance parameter, held or estimated."""
        return {**self.model.fixed, **self.solution.aux}

    @cached_property
    def weights(self) -> Array:
        """(n,), ones where there are none."""
        return self._every.weights

    @cached_property
    def scores(self) -> Array:
        """d log p(y_i) / d (eta_i, log aux), (n, m + a)."""
        return self._every.scores

    @cached_property
    def _every(self) -> "RowDerivatives":
        """All rows at once, which `estimate_of` asks for where they are needed."""
        d = self.model.design
        return RowDerivatives(self.at, d.block)

    @cached_property
    def at(self) -> "BlockEstimate":
        """The estimate as rows see it."""
        assert isinstance(
            self.model.likelihood, DifferentiableLikelihood
        )  # `estimate_of` asks
        likelihood = self.model.likelihood
        beta = self.solution.beta
        m = self.model.shape[1]
        pick = (*range(m), *(m + likelihood.aux.index(a) for a in self.model.unknown))
        design = self.model.design
        sampled = design.weight_kind == "sampling"
        labels = design.labels if design.n else None
        return BlockEstimate(
            likelihood, design.frame, beta, self.known, pick, sampled, labels
        )

    # ---- coordinates -----------------------------------------------------------------------------------------------

    @cached_property
    def inside(self) -> Array:
        """(p m + a, r): (vec gamma, log aux) = inside phi, gamma on standardised columns."""
        p = self.model.shape[0]
        N = self.solution.null_space
        Q = np.eye(p)
        if N is not None:
            Q = np.linalg.qr(self.model.design.frame.from_raw(N), mode="complete")[0][
                :, N.shape[1] :
            ]
        return self._with_aux(Q)

    @cached_property
    def frame(self) -> Array:
        """(p m + a, r): theta = frame phi; of collinear columns the coefficients of least norm."""
        N = self.solution.null_space
        T = self.model.design.frame.T
        if N is None:
            outer = T
        else:
            outer = T - N @ np.linalg.pinv(N) @ T
        return self._with_aux(outer) @ self.inside

    def _with_aux(self, A: Array) -> Array:
        return with_aux(map_of_columns(A, self.model.shape[1]), len(self.model.unknown))

    @property
    def size(self) -> int:
        """p m."""
        return self.solution.beta.size

    @cached_property
    def identified(self) -> int:
        """The number of coefficients that are identified: rank times predictors."""
        N = self.solution.null_space
        return (
            self.model.shape[0] - (0 if N is None else N.shape[1])
        ) * self.model.shape[1]

    # ---- curvature -------------------------------------------------------------------------------------------------

    @cached_property
    def observed(self) -> Array:
        """The inverse negative Hessian of the log posterior over phi, (r, r)."""
        gamma = self.model.design.frame.from_raw(self.solution.beta)
        with np.errstate(
            all="ignore"
        ):  # an exact fit has sigma = 0, which is met below
            # V = (inside' H inside)^-1: the bread, over the identified directions phi.
            H = self.model.value_grad_hessian_standardised(
                gamma, **self.solution.aux
            ).curvature
        if isinstance(self.model.likelihood, PiecewiseLinearLikelihood):
            # on kinks the expected curvature under the data's own density stands for it, given the nuisance parameters
            rows = self._every
            k = self.size
            P = self.model.joint.precision(self.model.likelihood.noise(self.known))
            T = self.model.design.frame.T
            bent = weighted_gram(
                rows.U, curvature_at_kinks(self.model, self.solution) * rows.weights
            )
            H[:k, :k] = bent + T.T @ P @ T
        return inverse(self.inside.T @ H @ self.inside)

    @cached_property
    def expected(self) -> Array:
        """The inverse expected information over the coefficients among phi, prior precision included."""
        return inverse(self.data_information + self._prior_information)

    @cached_property
    def data_information(self) -> Array:
        """The expected information of the rows over the coefficients among phi."""
        # I = sum_i w_i x_i' W_i x_i, W_i = E[-d^2 log p / d eta^2].
        (H,) = self.model.design.fold(partial(expected_part, at=self.at))
        S = self._coefficients
        return S.T @ H @ S

    @cached_property
    def _prior_information(self) -> Array:
        # beta = T gamma, gamma = S phi: the prior's curvature over phi is (T S)' H (T S).
        H = self.model.joint.curvature(
            self.solution.beta, self.model.likelihood.noise(self.known)
        )
        F = (
            map_of_columns(self.model.design.frame.T, self.model.shape[1])
            @ self._coefficients
        )
        return F.T @ H @ F

    @cached_property
    def _coefficients(self) -> Array:
        """The coefficients among phi: (p m, r - a)."""
        return self.inside[
            : self.size, : self.inside.shape[1] - len(self.model.unknown)
        ]

    def of_root(self, root: Array) -> DenseCovariance:
        """The covariance whose root over phi, or over its coefficients only, is `root`."""
        whole = self.inside[:, : len(root)] @ root
        joint = len(root) == self.inside.shape[1]
        further = log_names(self.model) if joint else ()
        size = self.size + len(further)
        out = DenseCovariance(
            self.model.design.frame, self.model.shape[1], further, root=whole[:size]
        )
        N = self.solution.null_space
        if N is None:
            return out
        # of collinear columns the coefficients of least norm: beta - N N^+ beta
        raw = out.raw_root()
        of_beta = raw[: self.size].reshape(len(N), -1)
        raw[: self.size] = (of_beta - N @ (np.linalg.pinv(N) @ of_beta)).reshape(
            self.size, -1
        )
        return DenseCovariance.of_raw_root(out.frame, out.m, raw, further)

    @cached_property
    def bread(self) -> Array:
        """A root (r, r) of `observed` over phi."""
        return np.linalg.cholesky(self.observed)

    def sandwich(self, meat: Array, factor: float = 1.0) -> DenseCovariance:
        """V M V, V = A A' the bread: A (A'M A)^(1/2) is its root."""
        A = self.bread
        return self.of_root(np.sqrt(factor) * A @ root_of_square(A.T @ meat @ A))

    # ---- rows ------------------------------------------------------------------------------------------------------

    def meat(self, power: float | None) -> Array:
        """sum_i w_i u_i u_i' over phi; `power` of 1 - W_i G_i divides the scores of eta, as in `Rows.less_leverage`."""
        root = None if power is None else self.root
        (M,) = self.model.design.fold(
            partial(meat_part, at=self.at, root=root, power=power or 0.0)
        )
        return self.inside.T @ M @ self.inside

    def score_rows(self, scores: Array) -> Array:
        """Scores over phi, row by row (n, r), from scores over (eta, log aux)."""
        return self._by_blocks(
            lambda rows, block: block.score_rows(scores[rows]) @ self.inside,
            self.inside.shape[1],
        )

    def influence_sums(self) -> tuple[Array, Array]:
        """sum_i w_i l_i^2 and sum_i w_i l_i^3 of l_i: the change of reported coefficients and log aux when one more observation
        like row i joins, to first order, which is the infinitesimal jackknife (Efron 1982, chapter 6)."""
        # d theta / d w_i = V u_i, and the reported coefficients are beta D'.
        D = map_of_predictors(
            self.model.likelihood.contrast_matrix, self.model.shape[0]
        )
        V = (
            self.inside
            @ self.observed
            @ (with_aux(D, len(self.model.unknown)) @ self.frame).T
        )

        def part(block: Block) -> tuple[Array, Array]:
            rows = RowDerivatives(self.at, block)
            influence = np.dot(rows.score_rows(rows.scores), V)
            square = influence**2
            return rows.weights @ square, rows.weights @ (square * influence)

        square, cube = self.model.design.block.sweep(part, width=self.size)
        return square, cube

    def _by_blocks(
        self, values: Callable[[slice, "RowDerivatives"], Array], *shape: int
    ) -> Array:
        """An array (n, ...) of what blocks of rows give: nothing of the size of X is made on the way."""
        block = self.model.design.block
        out = np.empty((block.rows, *shape))
        for rows in row_blocks(block.rows, self.size):
            out[rows] = values(rows, RowDerivatives(self.at, block.part(rows)))
        return out

    @cached_property
    def root(self) -> Array:
        """A (p, m, r - a) with A_i = x_i A and G_i = A_i A_i'."""
        # cov(eta_i) = x_i F (I + P)^-1 F' x_i' = A_i A_i'.
        root = self._coefficients @ np.linalg.cholesky(self.expected)
        return root.reshape(*self.model.shape, -1)

    @cached_property
    def leverage(self) -> Array:
        """trace(W_i G_i), (n,): of a sum that is the number of coefficients when the prior is flat."""
        # h_i = tr W_i G_i; for least squares x_i (X'X)^-1 x_i', the diagonal of the hat matrix.
        return self._by_blocks(
            lambda _, rows: np.einsum("nkl,nlk->n", rows.curves, rows.spread(self.root))
        )


@dataclass(frozen=True, eq=False)
class BlockEstimate:
    """An estimate as rows see it, which travels to where they are."""

    likelihood: DifferentiableLikelihood
    basis: Frame
    beta: Array  # (p, m)
    known: dict[str, float]
    pick: tuple[int, ...]  # which of (eta, log aux) is estimated
    sampled: bool = False  # weights are of sampling: they multiply the score of one row, and are no copies of it
    labels: Array | None = None  # the names of rows in memory, where they have any


@dataclass(frozen=True, eq=False)
class RowDerivatives:
    """Scores and curvatures of the rows of a block at an estimate."""

    at: BlockEstimate
    block: Block
    known_eta: Array | None = None  # (n, m), where the linear predictors are at hand

    @cached_property
    def U(self) -> Array:
        """(n, p), the standardised columns."""
        return self.at.basis.rows(self.block.X)

    @cached_property
    def weights(self) -> Array:
        """(n,), ones where there are none."""
        return full_weights(self.block.weights, self.block.rows)

    @cached_property
    def eta(self) -> Array:
        """(n, m), offset included."""
        if self.known_eta is None:
            return self.block.eta(self.at.beta)
        return self.known_eta

    @cached_property
    def known(self) -> dict[str, Any]:
        """The nuisance parameters of each row: its noise scale has its precision."""
        return self.at.likelihood.at_rows(self.at.known, self.block.precision)

    @cached_property
    def scores(self) -> Array:
        """d log p(y_i) / d (eta_i, log aux), (n, m + a)."""
        likelihood = self.at.likelihood
        found = likelihood.value_grad_hessian(
            self.block.y, self.eta, **self.known
        ).gradient
        if isinstance(likelihood, PiecewiseLinearLikelihood):
            found[:, 0] = likelihood.score_at_kinks(
                self.block.y, self.eta, **self.known
            )
        return found[:, self.at.pick]

    @cached_property
    def mean_of_squares(self) -> Array | float:
        """(n, 1) factor that makes the squared score of eta its mean, tau (1 - tau) of a quantile given the row (Koenker 2005,
        section 3.2): the squares themselves vary much where tau is near 0 or 1. 1 for other likelihoods."""
        likelihood = self.at.likelihood
        if not isinstance(likelihood, PiecewiseLinearLikelihood):
            return 1.0
        at = likelihood.slopes(**self.known)
        mean = np.broadcast_to(np.sqrt(at.up * at.down), len(self.eta))
        if np.any(at.tube):
            return np.ones((len(mean), 1))
        return (mean / np.abs(self.scores[:, 0]))[:, None]

    @cached_property
    def curves(self) -> Array:
        """W_i = E[-d2 log p / d eta2] of each row, (n, m, m)."""
        return self.at.likelihood.information(
            self.eta, **self.known, **self.at.likelihood.given(self.block.y)
        )

    def spread(self, root: Array) -> Array:
        """G_i, the covariance of eta_i under the expected information, (n, m, m)."""
        A = np.einsum("np,pkr->nkr", self.U, root, optimize=True)
        return A @ A.swapaxes(1, 2)

    def score_rows(self, scores: Array) -> Array:
        """(u_i kron s_i, s_i^aux), the scores over (vec gamma, log aux) from those over (eta, log aux), (n, p m + a)."""
        m = self.at.beta.shape[1]
        return np.hstack(
            [
                (self.U[:, :, None] * scores[:, None, :m]).reshape(len(scores), -1),
                scores[:, m:],
            ]
        )

    def less_leverage(self, root: Array, power: float) -> Array:
        """Scores with those of eta multiplied by (1 - W_i G_i)^-power: 1/2 makes their variance right under the model,
        1 turns them into leave-one-out scores. DataError for a row that fits itself."""
        m = self.at.beta.shape[1]
        every = self.spread(root)
        out = self.scores.copy()
        live = np.einsum("nkk->n", every) > 0
        G = every[live]
        W = self.curves[live]
        # G = L L' and L'W L = Q diag(v) Q': (1 - W G)^-power = L'^-1 Q diag((1 - v)^-power) Q' L'.
        L = np.linalg.cholesky(G)
        value, Q = np.linalg.eigh(L.swapaxes(1, 2) @ W @ L)
        bad = np.flatnonzero(1.0 - value[:, -1] < _FULL)
        if len(bad):
            row = self.block.start + np.flatnonzero(live)[bad[0]]
            if self.at.labels is not None:
                row = self.at.labels[row]
            raise DataError(
                f"row {row} has leverage 1 (it alone decides a coefficient), and HC2 and HC3 divide by 1 - leverage: use HC0 or "
                "HC1"
            )
        turned = (
            Q.swapaxes(1, 2)
            @ L.swapaxes(1, 2)
            @ out[live, :m, None]
            * ((1.0 - value) ** -power)[..., None]
        )
        out[live, :m] = np.linalg.solve(L.swapaxes(1, 2), Q @ turned)[..., 0]
        return out


def expected_part(block: Block, *, at: BlockEstimate) -> tuple[Array, ...]:
    """What the rows of a block add to the expected information over vec(gamma)."""

    def part(some: Block) -> tuple[Array]:
        rows = RowDerivatives(at, some)
        return (weighted_gram(rows.U, rows.curves * rows.weights[:, None, None]),)

    return block.sweep(part, width=at.beta.size)


def meat_part(
    block: Block, *, at: BlockEstimate, root: Array | None, power: float
) -> tuple[Array, ...]:
    """What the rows of a block add to the sum of squares of the scores over (vec gamma, log aux): sum_i w_i u_i u_i' of
    frequencies w, sum_i w_i^2 u_i u_i' of sampling weights."""
    return block.sweep(
        lambda some: _meat(RowDerivatives(at, some), root, power), width=at.beta.size
    )


def _meat(rows: RowDerivatives, root: Array | None, power: float) -> tuple[Array]:
    # M = sum_i w_i u_i u_i' in blocks: gamma with gamma, gamma with log aux, log aux with log aux.
    at, (p, m) = rows.at, rows.at.beta.shape
    if root is None:
        scores = rows.scores
    else:
        scores = rows.less_leverage(root, power)
    eta = scores[:, :m] * rows.mean_of_squares
    aux = scores[:, m:]
    w = rows.weights
    k = p * m
    w = w * w if at.sampled else w
    M = np.empty((k + aux.shape[1], k + aux.shape[1]))
    M[:k, :k] = weighted_gram(
        rows.U, eta[:, :, None] * eta[:, None, :] * w[:, None, None]
    )
    M[:k, k:] = np.einsum(
        "np,nk,na->pka", rows.U, eta * w[:, None], aux, optimize=True
    ).reshape(k, -1)
    M[k:, :k] = M[:k, k:].T
    M[k:, k:] = (aux * w[:, None]).T @ aux
    return (M,)


def estimate_of(
    model: Model, solution: Solution, what: str, *, each: bool = False
) -> Estimate:
    """The estimate, when it is one that has curvature and rows, in memory where `what` is about `each` of them; otherwise
    the reason why `what` does not exist."""
    kinked = isinstance(model.likelihood, PiecewiseLinearLikelihood)
    why = (InteriorPoint() if kinked else Newton()).obstacle(model)
    if why:
        raise Incompatible(f"{what} needs two derivatives of the log posterior: {why}")
    each = each or kinked
    refuse_written_out(solution, what)
    if each:
        model.design.need_rows(what)
    if not model.design.reachable:
        raise DataError(
            f"{what} is a sum over the rows, and {model.design.rows_needed}"
        )
    if solution.status is Status.NO_MAXIMUM:
        raise NotConverged(
            f"{what} does not exist: {solution.status.value} ({solution.detail})"
        )
    model = held_at_limits(model, solution)
    if any(solution.aux[a] <= 0 for a in model.unknown):
        raise NotConverged(
            f"{what} does not exist: the fit meets every response exactly, so {_AT_ZERO}"
        )
    return Estimate(model, solution)


def inverse(H: Array) -> Array:
    """The inverse of a positive definite matrix. NotConverged when it is none."""
    root = root_of_curvature(H)
    if root is None:
        raise NotConverged(
            "the curvature at the estimate is not positive definite (an exact fit, or no maximum), so the estimate has no "
            "covariance of this kind. See check(model), or give a prior"
        )
    return root @ root.T
