"""The log evidence of a Gaussian model with processes whose hyperparameters are in their columns, from the rows themselves.

y ~ N(F b + X mu, V), V(theta) = sum over groups of Z D(theta)^2 Z' + amplitude^2 K(theta) + sigma^2 diag(1/w), b flat. With
P = V^-1 - V^-1 F (F'V^-1 F)^-1 F'V^-1 and a = P (y - X mu),

    f = -[(n - k) log 2 pi + log |V| + log |F'V^-1 F| + (y - X mu)'a] / 2
    d f / d theta_i = [a'V_i a - tr(P V_i)] / 2,  V_i = d V / d theta_i

(Rasmussen & Williams 2006, section 5.4; Patterson & Thompson 1971). The Hessian is the average information -a'V_i P V_j a / 2 of
Gilmour et al. 1995, which needs no more matrices, and steers only. A value costs n^3 / 3 operations, a gradient n^3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from probreg.data.rows import full_weights, minus_offset
from probreg.errors import DataError
from probreg.inference.base import Array
from probreg.inference.exact.gaussian_surface import LikelihoodCriterion
from probreg.inference.exact.latent_groups import (
    ConditionalNormal,
    EvidencePoint,
    EvidenceSurface,
    LatentGroup,
    LatentGroups,
    log_prior_of_logs,
    with_priors,
)
from probreg.kernels.pairs import RowPairs
from probreg.kernels.row_values import root_at_rows
from probreg.model.model import Model
from probreg.priors import AuxPrior
from probreg.priors.gaussian_process import FunctionValues, UnknownLength

_LOG_2PI = float(np.log(2.0 * np.pi))
MOST_ROWS = 5000  # a matrix of 0.2 GB, of which some stand at once
_NO_NOISE = 1e-10  # of the response: an evidence that rises until there is one that rises without end
_MANY_ROWS = 150  # whose matrices take more than a millisecond to factor
_FEW = 300  # rows that tell where a search begins
_SHARES = (
    0.3,
    0.9,
    0.99,
)  # of the variance of the response, that the groups explain at the start
_BEST = 2  # starts that are looked at with all rows


class _Factor(NamedTuple):
    """What is known at one theta."""

    L: Array  # (n, n) lower, V = L L'
    half: Array  # (n, k) L^-1 F
    R: Array  # (k, k) upper, half'half = R'R
    a: Array  # (n,) P (y - X mu)
    value: float  # log p(y | theta)


@dataclass(frozen=True, eq=False)
class ProcessSurface(EvidenceSurface):
    """f(log hyperparameters, log sigma), the last where sigma is unknown."""

    model: Model
    groups: LatentGroups
    criterion: LikelihoodCriterion = "REML"
    rows: Array | None = None  # some of the rows only

    tol = 1e-5  # its Hessian is that of the average information, so that steps do not square the error

    def __post_init__(self) -> None:
        n = self.model.design.n
        if n > MOST_ROWS:
            raise DataError(
                f"the evidence of an exact process of {n:,} rows takes matrices of {8e-9 * n * n:.1f} GB: write basis='hsgp'"
            )

    # ---- the rows --------------------------------------------------------------------------------------------------

    @cached_property
    def _some(self) -> Array:
        if self.rows is None:
            return np.arange(self.model.design.n)
        return self.rows

    @cached_property
    def _frequency(self) -> Array:
        d = self.model.design
        return full_weights(d.weights, d.n)[self._some]

    @cached_property
    def _precision(self) -> Array:
        """(n,) w with var(noise_i) = sigma^2 / w_i: a row of weight 2 is two rows of one mean."""
        d = self.model.design
        return self._frequency * full_weights(d.precision, d.n)[self._some]

    @cached_property
    def _flat(self) -> Array:
        d = self.model.design
        inside = {j for g in self.groups.groups for j in g.columns}
        return np.ascontiguousarray(
            d.X[:, [j for j in range(d.X.shape[1]) if j not in inside]][self._some]
        )

    @cached_property
    def _response(self) -> Array:
        d = self.model.design
        y = minus_offset(np.asarray(d.observed, dtype=float), d.offset)[self._some]
        for g in self.groups.groups:
            y = y - d.X[np.ix_(self._some, g.columns)] @ g.base.center(len(g.columns))
        return y

    @cached_property
    def _columns(self) -> dict[int, Array]:
        """Z = X L'^-1 (n, q) of the groups whose columns do not move."""
        X = self.model.design.X
        return {
            k: solve_triangular(
                g.root, X[np.ix_(self._some, g.columns)].T, lower=True
            ).T
            for k, g in enumerate(self.groups.groups)
            if not isinstance(g.prior, UnknownLength)
        }

    @cached_property
    def _pairs(self) -> dict[int, RowPairs]:
        """Of the inputs of those that do."""
        d = self.model.design
        out = {}
        for k, g in enumerate(self.groups.groups):
            if isinstance(g.prior, UnknownLength):
                term = d.process_of(g.columns)
                assert term is not None  # its prior is bound to one
                x = d.inputs[term.key][self._some]
                out[k] = RowPairs(x, x)
        return out

    # ---- the covariance and its slopes -------------------------------------------------------------------------------

    def _parts(self, theta: Array, slopes: bool) -> tuple[Array, list[Array]]:
        """V (n, n), and its derivatives over theta."""
        n = len(self._some)
        sigma = self._sigma(theta)
        V = np.zeros((n, n))
        out = list[Array]()
        relative = np.zeros((n, n))
        at = 0
        for k, g in enumerate(self.groups.groups):
            logs = theta[at : at + len(g.hyper)]
            unit = sigma if g.base.sigma_units else 1.0
            at += len(g.hyper)
            if isinstance(g.prior, UnknownLength):
                own, moved = _of_process(
                    g.prior,
                    self._pairs[k],
                    dict(zip(g.hyper, np.exp(logs).tolist())),
                    slopes,
                )
            else:
                own, moved = _of_columns(self._columns[k], g, logs, unit)
            V += own
            out += moved
            relative += own if g.base.sigma_units else 0.0
        noise = sigma**2 / self._precision
        V[np.diag_indices(n)] += noise
        if self.model.unknown and slopes:
            out.append(2.0 * (np.diag(noise) + relative))
        return V, out

    def _sigma(self, theta: Array) -> float:
        if self.model.unknown:
            return float(np.exp(theta[-1]))
        return float(self.model.fixed[self.model.noise_scale])

    def _factor(self, V: Array, sigma: float) -> _Factor | None:
        """None where V is not positive to rounding, or the noise is: it is too small beside the process."""
        if sigma < _NO_NOISE * self.response_scale:
            return None
        L, info = lapack.dpotrf(V, lower=1, clean=1)
        if info:
            return None
        F = self._flat
        y = self._response
        half, z = (solve_triangular(L, v, lower=True) for v in (F, y))
        Q, R = np.linalg.qr(half)
        r = z - Q @ (Q.T @ z)
        a = solve_triangular(L, r, lower=True, trans="T")
        restricted = self.criterion == "REML"
        # log |F'V^-1 F| = 2 log |R|
        log_det = 2.0 * float(np.log(np.diagonal(L)).sum())
        log_det += (
            2.0 * float(np.log(np.abs(np.diagonal(R))).sum()) if restricted else 0.0
        )
        count = len(y) - F.shape[1] * restricted
        value = -0.5 * (count * _LOG_2PI + log_det + float(r @ r))
        # w copies of a row: N(y; eta, s^2)^w = N(y; eta, s^2 / w) (2 pi s^2)^(-(w - 1) / 2) w^(-1/2)
        w = self._frequency
        if (w != 1.0).any():
            precision = self._precision / w
            value -= 0.5 * float(
                (
                    (w - 1.0) * (_LOG_2PI + np.log(sigma**2 / precision)) + np.log(w)
                ).sum()
            )
        return _Factor(L, half, R, a, value)

    def __call__(self, theta: Array) -> EvidencePoint:
        d = len(theta)
        V, slopes = self._parts(theta, True)
        found = self._factor(V, self._sigma(theta))
        if found is None:
            nothing = np.full(d, np.nan)
            return EvidencePoint(
                -np.inf, nothing, np.full((d, d), np.nan), -np.inf, nothing
            )
        inverse = _inverse(found.L)
        # P = V^-1 - G G', G = V^-1 F R^-1
        G = solve_triangular(
            found.L,
            solve_triangular(found.R, found.half.T, trans="T").T,
            lower=True,
            trans="T",
        )
        P = inverse - G @ G.T
        before = P if self.criterion == "REML" else inverse
        gradient = np.array(
            [0.5 * (found.a @ (S @ found.a) - np.vdot(before, S)) for S in slopes]
        )
        moved = np.array([S @ found.a for S in slopes])
        information = 0.5 * moved @ P @ moved.T
        if self.model.unknown:
            gradient[-1] -= float((self._frequency - 1.0).sum())
        # tr(P V_k), V_k half the slope along the log of a scale: the parameters that the data settle
        trace = np.array(
            [0.5 * np.vdot(P, S) for S in slopes[: len(self.groups.priors)]]
        )
        point = EvidencePoint(found.value, gradient, -information, found.value, trace)
        return with_priors(point, theta, self.priors)

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        out = []
        for t in theta:
            found = self._factor(self._parts(t, False)[0], self._sigma(t))
            out.append(-np.inf if found is None else found.value)
        return np.array(out) + log_prior_of_logs(theta, self.priors)

    def conditional(self, theta: Array) -> ConditionalNormal:
        """The normal distribution of the coefficients given theta, those of a process its values at the distinct rows."""
        sigma = self._sigma(theta)
        p = self.model.shape[0]
        weight = np.sqrt(self._precision) / sigma
        # beta = centre + B u, u ~ N(0, I), for the columns of groups: B = amplitude F with F F' = K, or L'^-1 D
        roots = list[Array]()
        centre = np.zeros(p)
        at = 0
        for g in self.groups.groups:
            logs = theta[at : at + len(g.hyper)]
            q = len(g.columns)
            at += len(g.hyper)
            centre[list(g.columns)] = g.base.center(q)
            if isinstance(g.prior, FunctionValues):
                values = dict(zip(g.hyper, np.exp(logs).tolist()))
                made = root_at_rows(g.prior.kernel_at(**values), g.prior.basis.anchors)[
                    1
                ] * g.prior.size_at(values)
            else:
                D = _root_of_columns(g, logs) * (sigma if g.base.sigma_units else 1.0)
                made = solve_triangular(g.root, D, lower=True, trans="T")
            B = np.zeros((p, made.shape[1]))
            B[list(g.columns)] = made
            roots.append(B)
        B = np.hstack(roots)
        A = weight[:, None] * (self.model.design.X[self._some] @ B)
        # flat columns first: w F = Q R; then H = A'(I - Q Q')A + I and u | y ~ N(H^-1 A'(I - Q Q') w r, H^-1)
        flat = np.setdiff1d(
            np.arange(p), [j for g in self.groups.groups for j in g.columns]
        )
        Q, R = np.linalg.qr(weight[:, None] * self._flat)
        r = weight * self._response
        across = Q.T @ A
        A = A - Q @ across
        L = np.linalg.cholesky(A.T @ A + np.eye(A.shape[1]))
        T = solve_triangular(L, np.eye(len(L)), lower=True).T
        u = T @ (T.T @ (A.T @ r))
        mean = centre + B @ u
        root = np.hstack([B @ T, np.zeros((p, len(flat)))])
        # b = R^-1 (Q'w r - Q'A u + z)
        mean[flat] = solve_triangular(R, Q.T @ r - across @ u)
        root[flat] = solve_triangular(R, np.hstack([-across @ T, np.eye(len(flat))]))
        return ConditionalNormal(mean, root)

    @property
    def dear(self) -> bool:
        return len(self._some) > _MANY_ROWS

    @cached_property
    def response_scale(self) -> float:
        """The standard deviation of what flat columns leave of the response."""
        rest = (
            self._response - self._flat @ np.linalg.lstsq(self._flat, self._response)[0]
        )
        return float(np.sqrt(np.mean(rest**2))) or 1.0

    @property
    def priors(self) -> list[AuxPrior]:
        """Those of the hyperparameters and of sigma, in the order of theta."""
        return self.groups.priors + [
            self.model.aux_prior(a) for a in self.model.unknown
        ]

    def starts(self) -> list[Array]:
        """The best of a grid over lengths and shares of the variance, by some of the rows and then by all."""
        n = len(self._some)
        some = np.unique(np.linspace(0, n - 1, min(n, _FEW)).astype(int))
        near = ProcessSurface(self.model, self.groups, self.criterion, self._some[some])
        points = []
        size = self.response_scale
        # log sigma
        if self.model.unknown:
            still = [-np.inf]
        else:
            still = []
        for others in self.groups.starts():
            for share in _SHARES:
                sigma = self.model.noise_held or size * np.sqrt(1.0 - share)
                one = np.append(self.groups.at_scales(others, 0.0, 0.0), still)
                typical = float(np.diagonal(near._parts(one, False)[0]).mean()) or 1.0
                tau = float(np.log(size * np.sqrt(share / typical)))
                theta = self.groups.at_scales(others, tau, 0.0)
                points.append(
                    np.append(theta, np.log(sigma)) if self.model.unknown else theta
                )
        found = near.values(np.array(points))
        order = np.argsort(-np.where(np.isnan(found), -np.inf, found), kind="stable")[
            :_BEST
        ]
        return [points[i] for i in order]


def _inverse(L: Array) -> Array:
    """V^-1 of its lower triangular factor, whose upper triangle is zero and stays so."""
    half, _ = lapack.dpotri(L, lower=1)
    inverse = np.asarray(half + half.T)
    inverse[np.diag_indices(len(L))] *= 0.5
    return inverse


def _of_process(
    prior: UnknownLength, pairs: RowPairs, values: Mapping[str, float], slopes: bool
) -> tuple[Array, list[Array]]:
    """amplitude^2 K, and its derivatives over the logs of the hyperparameters."""
    kernel = prior.kernel_at(**values)
    square = float(prior.amplitude_at(values)) ** 2
    V = square * kernel.matrix(pairs)
    if not slopes:
        return V, []
    moved = kernel.slopes(pairs)
    return V, [
        2.0 * V if name == "amplitude" else square * moved[name] for name in prior.hyper
    ]


def _of_columns(
    Z: Array, group: LatentGroup, logs: Array, unit: float
) -> tuple[Array, list[Array]]:
    """Z L L'Z', and its derivatives dL Z'Z L' + L Z'Z dL' of the root L = I kron Lambda, or diag(D)."""
    if group.prior is not None and (root := group.prior.root(logs)) is not None:
        # Z (I kron Lambda), group by group
        Lambda, slopes = root
        each = Z.reshape(len(Z), -1, len(Lambda))
        A = unit * (each @ Lambda).reshape(Z.shape)
        moved = [unit * (each @ dL).reshape(Z.shape) for dL in slopes]
        crossed = [dA @ A.T for dA in moved]
        return A @ A.T, [part + part.T for part in crossed]
    s, J, _ = group.log_scales(logs)
    A = Z * (unit * np.exp(s))
    return A @ A.T, [2.0 * (A * J[:, j]) @ A.T for j in range(J.shape[1])]


def _root_of_columns(group: LatentGroup, logs: Array) -> Array:
    """The root (q, q) of the covariance of L'(beta - mu), I kron Lambda or diag(D)."""
    if group.prior is not None and (root := group.prior.root(logs)) is not None:
        return np.kron(np.eye(len(group.columns) // len(root[0])), root[0])
    return np.diag(np.exp(group.log_scales(logs)[0]))
