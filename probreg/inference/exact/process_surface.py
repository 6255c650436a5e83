"""The log evidence of a Gaussian model with processes with hyperparameters in their columns, from the rows.

`ProcessSurface` has the closed form below. `RebasedSurface` is for other bases and likelihoods: it computes the columns again for each
value of their hyperparameters.

y ~ N(F b + X mu, V), V(theta) = sum over groups of Z D(theta)^2 Z' + amplitude^2 K(theta) + sigma^2 diag(1/w), b flat. With
P = V^-1 - V^-1 F (F'V^-1 F)^-1 F'V^-1 and a = P (y - X mu),

    f = -[(n - k) log 2 pi + log |V| + log |F'V^-1 F| + (y - X mu)'a] / 2
    d f / d theta_i = [a'V_i a - tr(P V_i)] / 2,  V_i = d V / d theta_i

(Rasmussen & Williams 2006, section 5.4; Patterson & Thompson 1971). The Hessian is the average information -a'V_i P V_j a / 2 of
Gilmour et al. 1995, which needs no more matrices, and only guides the search. A value
costs n^3 / 3 operations, a gradient n^3.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from probreg.data import Design
from probreg.data.checked_arrays import full_weights
from probreg.errors import DataError, Incompatible
from probreg.inference.base import Array
from probreg.inference.covariance import DenseCovariance
from probreg.inference.exact.latent_groups import (
    LOG_DIFFERENCE,
    EvidencePoint,
    EvidenceSurface,
    LatentGroup,
    LatentGroups,
    LikelihoodCriterion,
    NodeMixture,
    log_prior_of_logs,
    process_coefficients,
    with_priors,
)
from probreg.kernels.base import RowPairs
from probreg.linalg import inverse_upper, root_of_square, triangular_log_det
from probreg.model.model import Model
from probreg.priors import Reference
from probreg.priors.gaussian_process import FunctionValues, UnknownLength
from probreg.special import LOG_2PI

_FIVE_POINTS = (1, 2, -1, -2)  # steps of `_five_point_slope`


class RebasedSurface(EvidenceSurface):
    """f(logs of all hyperparameters and of the nuisance parameters `outer`).

    `inner` returns the surface at given hyperparameters of the columns, with anchors
    selected at other values. All lengths of a search have one selection, because otherwise
    the surface would have steps; the search is then repeated from its end. Derivatives
    over the logs of the lengths are five-point differences, with an error near 1e-9 of
    the value's own.
    """

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        inner: Callable[[Array, Array], EvidenceSurface],
        outer: tuple[str, ...],
    ) -> None:
        super().__init__(model, groups, outer=outer)
        self._inner = inner
        if model.likelihood.least_squares:
            self.tol = 1e-5
        else:
            self.tol = 1e-4
        inside = [
            isinstance(g.prior, UnknownLength) and name != "amplitude"
            for g in groups.groups
            for name in g.hyper
        ]
        self.inside = np.array([*inside, *[False] * len(outer)])
        # the inner surface has the priors of the others
        self._priors_inside = [
            prior if is_inside else Reference()
            for prior, is_inside in zip(self.priors, self.inside)
        ]
        self._made = lru_cache(8)(self._make)
        # logs of the values where anchors are selected
        self._chosen: Array | None = None

    def choose_at(self, theta: Array) -> bool:
        """Select anchors at the lengths of theta from now on."""
        self._chosen = theta[self.inside]
        self._made.cache_clear()
        return True

    @property
    def response_scale(self) -> float:
        return self.model.design.moments.y_scale or 1.0

    def _make(self, logs: tuple[float, ...]) -> EvidenceSurface:
        chosen = logs if self._chosen is None else self._chosen
        return self._inner(np.exp(logs), np.exp(chosen))

    def inner_at(self, theta: Array) -> tuple[EvidenceSurface, Array]:
        return self._made(tuple(theta[self.inside].tolist())), theta[~self.inside]

    def _point(self, theta: Array) -> EvidencePoint:
        """The point of the inner surface, with gradient and Hessian over the other coordinates."""
        surface, others = self.inner_at(theta)
        return surface(others)

    def __call__(self, theta: Array) -> EvidencePoint:
        step = 0.01  # of a log
        point = self._point(theta)
        d = len(theta)
        other_entries = np.flatnonzero(~self.inside)
        gradient = np.zeros(d)
        hessian = np.zeros((d, d))
        effective = np.zeros(len(self.groups.priors))
        gradient[other_entries] = point.gradient
        hessian[np.ix_(other_entries, other_entries)] = point.hessian
        effective[other_entries[: len(point.effective)]] = point.effective
        for j in np.flatnonzero(self.inside):
            e = step * (np.arange(d) == j)
            points = [self._point(theta + k * e) for k in _FIVE_POINTS]
            f = np.array([each.value for each in points])
            slopes = _five_point_slope(
                np.array([each.gradient for each in points]), step
            )
            gradient[j] = _five_point_slope(f, step)
            # f'' = [16 (f1 + f-1) - (f2 + f-2) - 30 f0] / 12 h^2
            bend = 16.0 * (f[0] + f[2]) - (f[1] + f[3]) - 30.0 * point.value
            hessian[j, j] = bend / (12.0 * step**2)
            hessian[j, other_entries] = hessian[other_entries, j] = slopes
        point = EvidencePoint(point.value, gradient, hessian, point.evidence, effective)
        return with_priors(point, theta, self._priors_inside)

    def hessian(self, theta: Array, hessian_near: Array) -> Array:
        """Differences of `__call__`, with the Hessian of the inner surface and mixed derivatives over the lengths."""
        H = self(theta).hessian
        other_entries = np.ix_(~self.inside, ~self.inside)
        moving = np.flatnonzero(self.inside)
        surface, others = self.inner_at(theta)
        H[other_entries] = surface.hessian(others, hessian_near[other_entries])
        for i, j in enumerate(moving[1:], 1):
            step = LOG_DIFFERENCE * (np.arange(len(theta)) == j)
            slopes = (self(theta + step).gradient - self(theta - step).gradient)[
                moving[:i]
            ] / (2.0 * LOG_DIFFERENCE)
            H[j, moving[:i]] = H[moving[:i], j] = slopes
        return H

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        values = np.array([self._point(t).value for t in theta])
        return values + log_prior_of_logs(theta, self._priors_inside)

    def starts(self) -> list[Array]:
        """The best start of the inner surfaces at the starts of the lengths."""
        points = []
        for logs in self.groups.starts():
            lengths = logs[self.inside[: len(logs)]]
            try:
                inner_starts = self._made(tuple(lengths.tolist())).starts()
            except Incompatible as error:  # lengths far from the distances of the rows
                refusal = error
                continue
            for inner in inner_starts:
                theta = np.empty(len(self.inside))
                theta[self.inside], theta[~self.inside] = lengths, inner
                points.append(theta)
        if not points:
            raise refusal
        values = self.values(np.array(points))
        best = points[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))]
        self.choose_at(best)
        return [best]


class _Factor(NamedTuple):
    """Results at one theta."""

    L: Array  # (n, n) lower, V = L L'
    half: Array  # (n, k) L^-1 F
    R: Array  # (k, k) upper, half'half = R'R
    a: Array  # (n,) P (y - X mu)
    value: float  # log p(y | theta)


class ProcessSurface(EvidenceSurface):
    """f(log hyperparameters, log sigma), with the last one if sigma is unknown."""

    # the Hessian is the average information, so steps do not square the error
    tol = 1e-5

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        criterion: LikelihoodCriterion = "REML",
    ) -> None:
        max_rows = 5000  # a matrix takes 0.2 GB, and several are in memory at once
        super().__init__(model, groups, criterion)
        n = model.design.n
        if n > max_rows:
            raise DataError(
                f"the evidence of an exact process of {n:,} rows takes matrices of {8e-9 * n * n:.1f} GB: use basis='hsgp'"
            )

    # ---- the rows --------------------------------------------------------------------------------------------------

    @cached_property
    def _precision(self) -> Array:
        """(n,) w with var(noise_i) = sigma^2 / w_i: a row of weight 2 is two rows with the same mean."""
        d = self.model.design
        return full_weights(d.square_weights, d.n)

    @cached_property
    def _flat(self) -> Array:
        d = self.model.design
        inside = {j for g in self.groups.groups for j in g.columns}
        return np.ascontiguousarray(
            d.X[:, [j for j in range(d.X.shape[1]) if j not in inside]]
        )

    @cached_property
    def _response(self) -> Array:
        d = self.model.design
        y = d.response_less_offset
        for g in self.groups.groups:
            y = y - d.X[:, list(g.columns)] @ g.base.center(len(g.columns))
        return y

    @cached_property
    def _columns(self) -> dict[int, Array]:
        """Z = X C (n, q) of the groups with fixed columns."""
        X = self.model.design.X
        return {
            k: X[:, list(g.columns)] @ g.root
            for k, g in enumerate(self.groups.groups)
            if not isinstance(g.prior, UnknownLength)
        }

    @cached_property
    def _pairs(self) -> dict[int, RowPairs]:
        """Pairs of the inputs of the groups with changing columns."""
        d = self.model.design
        pairs = {}
        for k, g in enumerate(self.groups.groups):
            if isinstance(g.prior, UnknownLength):
                term = d.process_of(g.columns)
                assert term is not None  # its prior is bound to one
                x = d.inputs[term.key]
                pairs[k] = RowPairs(x, x)
        return pairs

    # ---- the covariance and its slopes -------------------------------------------------------------------------------

    def _parts(self, theta: Array, slopes: bool) -> tuple[Array, list[Array]]:
        """V (n, n), and its derivatives over theta."""
        n = self.model.design.n
        sigma = self._sigma(theta)
        V = np.zeros((n, n))
        slopes_of_V = list[Array]()
        relative = np.zeros((n, n))
        for k, (g, hyper) in enumerate(self.groups.with_hyper):
            logs = theta[hyper]
            unit = g.base.unit(sigma)
            if isinstance(g.prior, UnknownLength):
                V_of_group, slopes_of_group = _of_process(
                    g.prior,
                    self._pairs[k],
                    g.values_at(logs),
                    slopes,
                )
            else:
                V_of_group, slopes_of_group = _of_columns(
                    self._columns[k], g, logs, unit
                )
            V += V_of_group
            slopes_of_V += slopes_of_group
            if g.base.sigma_units:
                relative += V_of_group
        noise = sigma**2 / self._precision
        V[np.diag_indices(n)] += noise
        if self.model.unknown and slopes:
            slopes_of_V.append(2.0 * (np.diag(noise) + relative))
        return V, slopes_of_V

    def _sigma(self, theta: Array) -> float:
        return float(np.exp(-0.5 * self.log_noise(theta[None])[0]))

    def _at(self, theta: Array, slopes: bool) -> tuple[_Factor | None, list[Array]]:
        """The results at theta, and the derivatives of V over it. None if V, or the
        noise, is not positive up to rounding: the noise is too small compared with the
        process."""
        no_noise = 1e-10  # relative to the response: an evidence that increases up to it increases without bound
        V, slopes_of_V = self._parts(theta, slopes)
        sigma = self._sigma(theta)
        if sigma < no_noise * self.response_scale:
            return None, slopes_of_V
        L, info = lapack.dpotrf(V, lower=1, clean=1)
        if info:
            return None, slopes_of_V
        F = self._flat
        y = self._response
        half, z = (solve_triangular(L, v, lower=True) for v in (F, y))
        Q, R = np.linalg.qr(half)
        r = z - Q @ (Q.T @ z)
        a = solve_triangular(L, r, lower=True, trans="T")
        restricted = self.criterion == "REML"
        # log |F'V^-1 F| = 2 log |R|
        log_det = 2.0 * float(triangular_log_det(L))
        if restricted:
            log_det += 2.0 * float(triangular_log_det(R))
        count = len(y) - F.shape[1] * restricted
        value = -0.5 * (count * LOG_2PI + log_det + float(r @ r))
        # w copies of a row: N(y; eta, s^2)^w = N(y; eta, s^2 / w) (2 pi s^2)^(-(w - 1) / 2) w^(-1/2)
        w = self.model.design.row_weights
        if (w != 1.0).any():
            precision = self._precision / w
            value -= 0.5 * float(
                ((w - 1.0) * (LOG_2PI + np.log(sigma**2 / precision)) + np.log(w)).sum()
            )
        return _Factor(L, half, R, a, value), slopes_of_V

    def __call__(self, theta: Array) -> EvidencePoint:
        factor, slopes = self._at(theta, True)
        if factor is None:
            return self.impossible(theta)
        inverse = _inverse(factor.L)
        # P = V^-1 - G G', G = V^-1 F R^-1
        G = solve_triangular(
            factor.L,
            solve_triangular(factor.R, factor.half.T, trans="T").T,
            lower=True,
            trans="T",
        )
        P = inverse - G @ G.T
        traces = counted = np.array([np.vdot(P, S) for S in slopes])
        if self.criterion == "ML":
            counted = np.array([np.vdot(inverse, S) for S in slopes])
        products = np.array([S @ factor.a for S in slopes])
        gradient = 0.5 * (np.vecdot(products, factor.a) - counted)
        information = 0.5 * products @ P @ products.T
        if self.model.unknown:
            gradient[-1] -= float((self.model.design.row_weights - 1.0).sum())
        # tr(P V_k), V_k half the slope along the log of a scale: the parameters
        # determined by the data
        effective = 0.5 * traces[: len(self.groups.priors)]
        point = EvidencePoint(
            factor.value, gradient, -information, factor.value, effective
        )
        return with_priors(point, theta, self.priors)

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        values = []
        for t in theta:
            factor, _ = self._at(t, False)
            values.append(-np.inf if factor is None else factor.value)
        return np.array(values) + log_prior_of_logs(theta, self.priors)

    def conditional(self, theta: Array) -> tuple[Array, Array]:
        """Return the mean (p,) and a root (p, r) of the covariance of the coefficients
        given theta; the coefficients of a process are values at the distinct rows."""
        sigma = self._sigma(theta)
        p = self.model.shape[0]
        weight = np.sqrt(self._precision) / sigma
        # beta = centre + B u, u ~ N(0, I), for the columns of groups: B = amplitude F with F F' = K, or C D
        roots = list[Array]()
        centre = np.zeros(p)
        for g, hyper in self.groups.with_hyper:
            logs = theta[hyper]
            q = len(g.columns)
            centre[list(g.columns)] = g.base.center(q)
            if isinstance(g.prior, FunctionValues):
                root_of_group = g.prior.root_of_values(g.values_at(logs))
            else:
                unit = g.base.unit(sigma)
                D = unit * g.root_at(logs[None])[0][0]
                root_of_group = _times_root(g.root.toarray(), D)
            B = np.zeros((p, root_of_group.shape[1]))
            B[list(g.columns)] = root_of_group
            roots.append(B)
        flat = np.setdiff1d(
            np.arange(p), [j for g in self.groups.groups for j in g.columns]
        )
        k = len(flat)
        B = np.hstack([np.eye(p)[:, flat], *roots])
        # least squares of [w X B; 0 I] = Q R, flat columns first: b, u | y ~ N(R^-1 Q'[w r; 0], (R'R)^-1)
        A = weight[:, None] * (self.model.design.X @ B)
        rows = np.column_stack([A, weight * self._response])
        rows = np.vstack([rows, np.eye(rows.shape[1])[k:-1]])
        R = np.linalg.qr(rows, mode="r")
        R[k:-1] *= np.sign(np.diagonal(R))[k:-1, None]
        T = inverse_upper(R[:-1, :-1])
        mean = centre + B @ (T @ R[:-1, -1])
        root = np.roll(B @ T, -k, axis=1)
        return mean, root

    def slope_of_mode(self, theta: Array, k: int, design: Design) -> Array:
        sigma = self._sigma(theta)
        factor, slopes = self._at(theta, True)
        assert factor is not None  # it was positive in the search
        # of a = P (y - X mu) and of b: -P V_k a and -c, c = (F'V^-1 F)^-1 F'V^-1 V_k a
        z = solve_triangular(factor.L, slopes[k] @ factor.a, lower=True)
        c = np.linalg.lstsq(factor.half, z)[0]
        rest = factor.half @ c - z
        slope_of_a = solve_triangular(factor.L, rest, lower=True, trans="T")
        place = design.place
        columns = np.array(self.model.design.columns)
        slope = np.zeros((len(place), 1))
        inside = list[int]()
        for n, (g, hyper) in enumerate(self.groups.with_hyper):
            inside += g.columns
            logs = theta[hyper]
            own = k - hyper.start if k in range(hyper.start, hyper.stop) else None
            if isinstance(g.prior, UnknownLength):
                term = self.model.design.process_of(g.columns)
                assert term is not None  # its prior is bound to one
                names = design.recipe.processes[term.key].columns
                at = [place[name] for name in names]
                K, moves = _of_process(g.prior, self._pairs[n], g.values_at(logs), True)
                values = K @ slope_of_a
                if own is not None:
                    values += moves[own] @ factor.a
                slope[at] = process_coefficients(design.X[:, at], values[:, None])
                continue
            # mean of the coefficients A A'X'a, A = C L
            at = [place[name] for name in columns[list(g.columns)]]
            root, root_slopes = g.root_at(logs[None])
            C, unit = g.root.toarray(), g.base.unit(sigma)
            A = unit * _times_root(C, root[0])
            X = self.model.design.X[:, list(g.columns)]
            slope[at, 0] = A @ (A.T @ (X.T @ slope_of_a))
            if own is not None:
                A_slope = unit * _times_root(C, root_slopes[own])
            elif g.base.sigma_units and k == len(self.groups.priors):
                A_slope = A
            else:
                continue
            score = X.T @ factor.a
            slope[at, 0] += A_slope @ (A.T @ score) + A @ (A_slope.T @ score)
        flat = [place[name] for name in np.delete(columns, inside)]
        slope[flat, 0] = -c
        return slope

    def mixture(
        self, theta: Array, weight: Array, chosen: Array, rng: np.random.Generator
    ) -> NodeMixture:
        p = self.model.shape[0]
        means = np.empty((len(theta), p))
        sd = np.empty((len(theta), p))
        inner = np.zeros((p, p))
        beta = np.empty((len(chosen), p))
        for s, at in enumerate(theta):
            means[s], root = self.conditional(at)
            mine = np.flatnonzero(chosen == s)
            z = rng.standard_normal((len(mine), root.shape[1]))
            beta[mine] = means[s] + z @ root.T
            sd[s] = np.linalg.norm(root, axis=1)
            inner += weight[s] * (root @ root.T)
        mean = weight @ means
        # cov(beta) = E[cov(beta | theta)] + cov(E[beta | theta])
        deviation = np.sqrt(weight)[:, None] * (means - mean)
        covariance = DenseCovariance.of_raw_root(
            self.model.design.frame,
            1,
            root_of_square(inner + deviation.T @ deviation),
        )
        return NodeMixture(beta, mean, covariance, means, sd)

    @property
    def dear(self) -> bool:
        # with more rows matrices take more than a millisecond to factor
        many_rows = 150
        return self.model.design.n > many_rows

    @cached_property
    def response_scale(self) -> float:
        """The standard deviation of the response minus its fit by flat columns."""
        residual = (
            self._response - self._flat @ np.linalg.lstsq(self._flat, self._response)[0]
        )
        return float(np.sqrt(np.mean(residual**2))) or 1.0

    def starts(self) -> list[Array]:
        """The best of a grid over lengths and shares of the variance."""
        n_starts = 2  # starts of a search
        # of the variance of the response, explained by the groups at the start
        shares = 0.3, 0.9, 0.99
        points = []
        size = self.response_scale
        at_scales = self.groups.at_scales
        count = len(self.model.unknown)
        for other_hyper in self.groups.starts():
            without_noise = np.append(
                at_scales(other_hyper, 0.0, 0.0), [-np.inf] * count
            )
            V = self._parts(without_noise, False)[0]
            typical = float(np.diagonal(V).mean()) or 1.0
            for share in shares:
                log_tau = np.log(size * np.sqrt(share / typical))
                log_sigma = np.log(size * np.sqrt(1.0 - share))
                theta = at_scales(other_hyper, log_tau, 0.0)
                points.append(np.append(theta, [log_sigma] * count))
        values = self.values(np.array(points))
        order = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")[
            :n_starts
        ]
        return [points[i] for i in order]


def _five_point_slope(f: Array, step: float) -> Array:
    """Return the derivative from values (4, ...) at h, 2 h, -h and -2 h."""
    # f' = [8 (f1 - f-1) - (f2 - f-2)] / 12 h
    return np.asarray((8.0 * (f[0] - f[2]) - (f[1] - f[3])) / (12.0 * step))


def _inverse(L: Array) -> Array:
    """V^-1 from its lower triangular factor, with a zero upper triangle."""
    half, _ = lapack.dpotri(L, lower=1)
    inverse = half + half.T
    inverse[np.diag_indices(len(L))] *= 0.5
    return inverse


def _of_process(
    prior: UnknownLength, pairs: RowPairs, values: Mapping[str, float], slopes: bool
) -> tuple[Array, list[Array]]:
    """amplitude^2 K, and its derivatives over the logs of the hyperparameters."""
    kernel = prior.kernel_at(**values)
    square = prior.amplitude_at(values) ** 2
    V = square * kernel.matrix(pairs)
    if not slopes:
        return V, []
    slopes_of_kernel = kernel.slopes(pairs)
    return V, [
        2.0 * V if name == "amplitude" else square * slopes_of_kernel[name]
        for name in prior.hyper
    ]


def _of_columns(
    Z: Array, group: LatentGroup, logs: Array, unit: float
) -> tuple[Array, list[Array]]:
    """Z L L'Z', and its derivatives dL Z'Z L' + L Z'Z dL' of the root L."""
    value, slopes = group.root_at(logs[None])
    A = unit * _times_root(Z, value[0])
    products = [unit * _times_root(Z, slope) @ A.T for slope in slopes]
    return A @ A.T, [product + product.T for product in products]


def _times_root(Z: Array, root: Array) -> Array:
    """Z L (n, q) of the root L (R, K, K) of a group."""
    rows = Z.reshape(len(Z), -1, 1, root.shape[-1])
    return (rows @ root).reshape(len(Z), -1)
