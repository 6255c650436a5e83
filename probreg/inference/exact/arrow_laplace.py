"""The evidence of a smooth likelihood with varying effects by Laplace's method, in
arrow form: f(theta) and its exact gradient.

With M the roots of the priors, u ~ N(0, I) the latent coordinates, x = (u, others) and H = M'X'WX M + blkdiag(I, 0) at the mode over x,

    f = log p(y | mode) + log p(others) - |u|^2 / 2 - log |H| / 2 + (others / 2) log 2 pi

With s_i the score of row i over its predictors z_i, h_i the diagonal block of X M H^-1
M'X', t_i = h_i dW_i / dz_i / 2,
q = H^-1 M'X't and v = s - t + W X M q,

    d f = < dL, (X'v) u' - (X's) q' - X'WX M H^-1 >  over a root L,    X_o'v  over others that are not integrated

(Tierney & Kadane 1986; Wood 2011). Outer nuisance parameters are not integrated, and
under ML neither are flat coefficients: the likelihood of Bates et al. 2015. The Hessian
keeps W at the mode, and only guides the search.
"""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array, Status
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots, inner_products
from probreg.inference.exact.gaussian_surface import LikelihoodCriterion
from probreg.inference.exact.laplace_surface import prior_log_det_slopes
from probreg.inference.exact.latent_groups import (
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    NoMode,
    log_prior_of_logs,
    with_priors,
)
from probreg.inference.modes.arrow_rows import ArrowRows, Inverse, Parts, RowSlopes
from probreg.inference.modes.maximise import maximise
from probreg.linalg import Arrow
from probreg.model.model import Model
from probreg.priors import (
    BlockPrior,
    SmoothPrior,
)

_LOG_2PI = float(np.log(2.0 * np.pi))
_STEPS = 100
_TOL = 1e-6  # of a mode, in standard errors, before the last step squares it: log |H| is of first order in the error
_ROUGH = 1e-4  # tolerance of modes for weights only, from so many rows on
_MANY = 20_000
_FAR = 100.0  # largest change of a scale, as a factor, for which its coordinates are rescaled


class ArrowMode(NamedTuple):
    """The mode over the integrated coordinates, given the others."""

    theta: Array
    roots: ArrowRoots
    x: Parts  # (G, K m, 1) and (r m + a, 1), u and after them coefficients of standardised columns and log aux
    z: Array  # (n, m + a), the predictors of the rows
    rows: RowSlopes
    value: float  # log p(y | mode) + log p(others) - |u|^2 / 2
    gradient: Array  # over the integrated coordinates
    H: Arrow
    tol: float


class ArrowLaplaceSurface(EvidenceSurface):
    """f(logs of hyperparameters and of outer nuisance parameters), under ML followed by flat coefficients in standard errors."""

    tol = 1e-6
    dear = True

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        criterion: LikelihoodCriterion = "REML",
        outer: tuple[str, ...] | None = None,
    ) -> None:
        self.model, self.groups, self.criterion = model, groups, criterion
        self._outer = model.unknown if outer is None else outer
        inside = {j for g in groups.groups for j in g.columns}
        with_other_prior = [
            j for j in np.flatnonzero(model.joint.informative) if j not in inside
        ]
        self.layout = ArrowLayout(
            model, groups, tuple(int(j) for j in with_other_prior)
        )
        self.rows = ArrowRows(
            model, self.layout.columns, self.layout.centre, model.design.block
        )
        self._last: ArrowMode | None = None

    @property
    def outer(self) -> tuple[str, ...]:
        return self._outer

    # ---- which coordinates are integrated ---------------------------------------------------------------------------

    @property
    def _latent(self) -> int:
        """The number of border columns with a root."""
        return self.layout.shape[2]

    @property
    def _size(self) -> int:
        """The number of border coordinates."""
        return self.layout.columns.width * self.model.shape[1] + len(self.model.unknown)

    @property
    def _inner(self) -> int:
        """The number of integrated border coordinates, which come first."""
        if self.criterion == "REML":
            return self._size - len(self.outer)
        return self._latent + len(self.layout.known) * self.model.shape[1]

    @cached_property
    def _with_other_prior(self) -> slice:
        return slice(
            self._latent, self._latent + len(self.layout.known) * self.model.shape[1]
        )

    @cached_property
    def _frame(self) -> tuple[Array, Array]:
        """Flat coefficients at the start under ML, and a root of their covariance
        there: the mode at a common scale."""
        reml = ArrowLaplaceSurface(self.model, self.groups)
        mode = reml.mode(reml.starts()[0])
        flat = slice(self._inner, reml._inner)
        complement = mode.H.schur(self._inner)
        root = solve_triangular(
            np.linalg.cholesky(complement), np.eye(len(complement)), lower=True
        ).T
        self._last = mode
        return mode.x[1][flat, 0], root

    @property
    def moves_of_flat(self) -> Array:
        """(p m, f) the derivatives of vec beta over the coordinates of theta of flat coefficients, under ML."""
        (G, K, _), root = self.layout.shape, self._frame[1]
        c = np.vstack([np.zeros((self._inner, len(root))), root])
        return self.layout.coefficients(np.zeros((G, K, len(root))), c)

    @cached_property
    def _of_outer(self) -> Array:
        """The derivatives of the coordinates that are not integrated, with log aux
        last, over theta after the hyperparameters."""
        a = len(self.outer)
        if self.criterion == "REML":
            return np.eye(a)
        root = self._frame[1]
        return np.block(
            [[np.zeros((len(root), a)), root], [np.eye(a), np.zeros((a, len(root)))]]
        )

    def given(self, theta: Array) -> Array:
        """Flat coefficients on standardised columns and log aux at theta, if they are
        not integrated."""
        outer = theta[len(self.groups.priors) :]
        if self.criterion == "REML":
            return outer
        start = np.append(self._frame[0], np.zeros(len(self.outer)))
        return np.asarray(start + self._of_outer @ outer)

    @property
    def _inner_aux(self) -> tuple[str, ...]:
        """Nuisance parameters that are integrated."""
        return tuple(name for name in self.model.unknown if name not in self.outer)

    # ---- the mode -----------------------------------------------------------------------------------------------------

    def mode(self, theta: Array, tol: float = _TOL) -> ArrowMode:
        """The mode by Newton's method with step halving from the last mode; if this
        fails, from a start by the response alone."""
        if (
            self._last is not None
            and self._last.tol <= tol
            and np.array_equal(self._last.theta, theta)
        ):
            return self._last
        try:
            self._last = self._find_mode(theta, tol)
        except NoMode:
            if self._last is None:
                raise
            # with the coefficients of another theta the predictors may overflow
            self._last = None
            self._last = self._find_mode(theta, tol)
        return self._last

    def _find_mode(self, theta: Array, tol: float) -> ArrowMode:
        roots = self.layout.roots(theta[None, : len(self.groups.priors)])
        (G, K, _), k = self.layout.shape, self._inner
        a, c = self._start(roots)
        outer = self.given(theta)[:, None]

        def evaluate(x: Array) -> ArrowMode:
            parts = x[: G * K].reshape(G, K, 1), np.vstack([x[G * K :, None], outer])
            return self._at(theta, roots, parts, tol)

        def newton_step(mode: ArrowMode) -> tuple[Array, bool]:
            H, exact = self._curvature(mode)
            g = mode.gradient
            step = H.solve(g[: G * K].reshape(G, K, 1), g[G * K :, None], k)
            return np.concatenate([part.ravel() for part in step]), exact

        x = np.concatenate([a.ravel(), c[:k].ravel()])
        top = maximise(evaluate, newton_step, x, evaluate(x), tol=tol, max_steps=_STEPS)
        H, exact = self._curvature(top.point)
        if top.status is not Status.CONVERGED or not exact:
            raise NoMode(
                f"the evidence has no mode to be approximated about at scales {np.exp(theta[: len(self.groups.priors)])}"
            )
        return top.point._replace(H=H)

    def _start(self, roots: ArrowRoots) -> Parts:
        """The coefficients of the last mode in the coordinates of these roots; without
        one, a start by the response alone."""
        G, K, _ = self.layout.shape
        if self._last is None:
            return np.zeros((G, K, 1)), self._of_response()
        u = self._last.x[0].copy(), self._last.x[1].copy()
        for leads, new, old in (
            (True, roots.first, self._last.roots.first),
            (False, roots.rest, self._last.roots.rest),
        ):
            for root, root_before in zip(new, old):
                b = root.block
                if not b.repeated:
                    u[1][b.place, 0] *= np.clip(
                        root_before.value[0] / np.maximum(root.value[0], 1e-300),
                        0.0,
                        _FAR,
                    )
                    continue
                if (
                    np.diagonal(root.value[0]).min() * _FAR
                    < np.diagonal(root_before.value[0]).max()
                ):
                    continue
                map_of_u = np.linalg.solve(root.value[0], root_before.value[0])
                if leads:
                    u[0][:, b.place, 0] = u[0][:, b.place, 0] @ map_of_u.T
                else:
                    u[1][b.place, 0] = (
                        u[1][b.place, 0].reshape(b.repeats, b.size) @ map_of_u.T
                    ).ravel()
        return u

    def _of_response(self) -> Array:
        """(r m + a, 1): least squares of a rough eta on flat columns, and rough nuisance parameters."""
        m = self.model.shape[1]
        f = len(self.layout.flat)
        eta, aux = self.rows.likelihood.initial_eta(self.model.design.observed)
        coordinates = np.zeros((self._size, 1))
        X = self.layout.columns.dense[:, self.layout.columns.dense.shape[1] - f :]
        b = np.linalg.lstsq(X, eta - self.rows._offset)[0]
        end = self._size - len(self.model.unknown)
        coordinates[end - f * m : end, 0] = b.ravel()
        coordinates[end:, 0] = np.log(
            [aux.get(name, 1.0) for name in self.model.unknown]
        )
        return coordinates

    def _at(
        self, theta: Array, roots: ArrowRoots, x: Parts, tol: float = np.inf
    ) -> ArrowMode:
        in_columns = roots.forth(x[0][None], x[1][None])
        z = self.rows.at(in_columns[0][0], in_columns[1][0])
        rows = self.rows.values(z)
        q = self._latent
        value = (
            rows.value
            + self.log_prior(x[1])
            - 0.5 * float(np.square(x[0]).sum() + np.square(x[1][:q]).sum())
        )
        a, c = self.rows.pull(rows.score)
        lead, border = _one(roots.back(a, c + self._prior_slopes(x[1])[0][:, None]))
        border[:q] -= x[1][:q]
        gradient = np.concatenate([(lead - x[0]).ravel(), border[: self._inner, 0]])
        return ArrowMode(theta, roots, x, z, rows, value, gradient, None, tol)  # type: ignore[arg-type]

    def _curvature(self, mode: ArrowMode) -> tuple[Arrow, bool]:
        """The factor of H and True; if rows are not concave, of H with the concave part
        of each, and False."""
        try:
            return mode.roots.arrow(self.gram(mode).cut(self._inner)).at(0), True
        except np.linalg.LinAlgError:
            value, vector = np.linalg.eigh(mode.rows.W)
            W = (
                vector
                * np.maximum(value, 1e-3 * np.abs(value).max(-1, keepdims=True))[
                    :, None
                ]
            ) @ vector.swapaxes(1, 2)
            try:
                return mode.roots.arrow(
                    self._with_prior(self.rows.gram(W), mode).cut(self._inner)
                ).at(0), False
            except np.linalg.LinAlgError:
                raise NoMode(
                    "the evidence needs a mode for its approximation, and the posterior is flat in a direction there. Fix "
                    "nuisance parameters, or give them and the scales proper priors"
                ) from None

    def gram(self, mode: ArrowMode) -> ArrowGram:
        """X'WX plus the curvature of the other priors."""
        return self._with_prior(self.rows.gram(mode.rows.W), mode)

    def _with_prior(self, gram: ArrowGram, mode: ArrowMode) -> ArrowGram:
        gram.rest[:, :] += self._prior_slopes(mode.x[1])[1]
        return gram

    # ---- priors of other coordinates --------------------------------------------------------------------------------

    def _blocks(self) -> list[tuple[BlockPrior, Array]]:
        """Smooth priors of columns without latent ones, and their positions."""
        m = self.model.shape[1]
        place = {j: i for i, j in enumerate(self.layout.known)}
        blocks = []
        for b in self.model.joint.blocks:
            if b.columns and b.columns[0] in place:
                blocks.append(
                    (
                        b,
                        self._with_other_prior.start
                        + replace(
                            b, columns=tuple(place[j] for j in b.columns)
                        ).entries(m),
                    )
                )
        return blocks

    def log_prior(self, c: Array) -> float:
        """The log priors of the other coordinates, for integrated log aux as densities
        of the logs."""
        log_p = 0.0
        for b, entries in self._blocks():
            log_p += float(b.prior.log_prob(c[entries, 0].reshape(len(b.columns), -1)))
        for name, log in zip(self._inner_aux, self._log_aux(c)):
            log_p += float(self.model.aux_prior(name).log_prob(np.exp(log)) + log)
        return log_p

    def _log_aux(self, c: Array) -> Array:
        return c[len(c) - len(self.model.unknown) :, 0]

    def _prior_slopes(self, c: Array) -> tuple[Array, Array]:
        """Gradient (r m + a,) and negative second derivative of the log priors of the
        other coordinates."""
        g = np.zeros(len(c))
        h = np.zeros((len(c), len(c)))
        for b, entries in self._blocks():
            assert isinstance(b.prior, SmoothPrior)  # checked in `scales_obstacle`
            first, second = b.prior.derivatives(
                c[entries, 0].reshape(len(b.columns), -1)
            )
            g[entries], h[np.ix_(entries, entries)] = first, second
        for i, name in enumerate(self._inner_aux):
            k = len(c) - len(self.model.unknown) + i
            slope, curvature = self.model.aux_prior(name).slopes(float(np.exp(c[k, 0])))
            g[k], h[k, k] = slope, -curvature
        return g, h

    def _prior_log_det(self, c: Array, corner: Array) -> Array:
        """The part of grad log |H|^(1/2) from the priors of the other coordinates."""
        blocks = [
            (b.prior, c[entries, 0].reshape(len(b.columns), -1), entries)
            for b, entries in self._blocks()
        ]
        start = len(c) - len(self.model.unknown)
        aux = [
            (self.model.aux_prior(name), float(np.exp(c[start + i, 0])), start + i)
            for i, name in enumerate(self._inner_aux)
        ]
        return prior_log_det_slopes(np.diagonal(corner), blocks, aux)

    # ---- value and slopes -------------------------------------------------------------------------------------------

    def _evidence(self, mode: ArrowMode) -> float:
        k = self._inner
        f = len(self.layout.flat)
        constant = 0.5 * (k - self._latent) * _LOG_2PI
        if (
            self.criterion == "REML" and f
        ):  # with the density 1 of raw flat coefficients, which are T times the standardised ones
            constant += self.model.shape[1] * np.linalg.slogdet(self.layout.T)[1]
        return float(mode.value - 0.5 * mode.H.log_det(k) + constant)

    def __call__(self, theta: Array) -> EvidencePoint:
        mode = self.mode(theta)
        slopes = self._slopes(mode)
        value = self._evidence(mode)
        return with_priors(
            EvidencePoint(
                value, slopes.gradient, slopes.hessian, value, slopes.settled
            ),
            theta,
            self.priors,
        )

    def _slopes(self, mode: ArrowMode) -> "_Slopes":
        d = len(self.groups.priors)
        k = self._inner
        roots = mode.roots
        gram = self.gram(mode)
        inverse = Inverse(*mode.H.inverse(k))
        t, q = self._follow(mode, inverse)
        # v = s - t + W X M q
        dz = self.rows.moved(*_one(roots.forth(q[0][None], q[1][None])))
        v = mode.rows.score - t + (mode.rows.W @ dz[..., None])[..., 0]
        xv = self.rows.pull(v)
        xs = self.rows.pull(mode.rows.score)
        minus = (-xs[0], -xs[1])
        pulls = roots.determinant_slopes(inverse.own.sum(0), inverse.corner)
        gradient = (
            roots.through(pulls)[0]
            + roots.through(roots.paired_blocks([(xv, mode.x), (minus, q)]))[0]
        )
        settled = roots.settled(gram, pulls)
        # the derivative of the mode: M du = M H^-1 (dM's - M'X'WX dM u); z_i'P z_j / 2
        # with z = X (dM u + M dM's)
        turned, dL_s, z_slopes = roots.fit_changes(mode.x, xs, d)
        of_both = gram.times(*z_slopes)
        half = mode.H.half(*_one(roots.back(*of_both)), k)
        information = 0.5 * (
            inner_products(z_slopes, of_both) - inner_products(half, half)
        )
        if k == self._size:
            return _Slopes(gradient, -information, settled)
        pushed = _one(roots.back(*gram.times(*turned)))
        du = mode.H.solve(dL_s[0] - pushed[0], dL_s[1] - pushed[1], k)
        follow = _one(
            roots.forth(
                du[0][None], np.vstack([du[1], np.zeros((self._size - k, d))])[None]
            )
        )
        across = -gram.times(turned[0] + follow[0], turned[1] + follow[1])[1][k:]
        # the curvature of max_x log p over the coordinates that are not integrated
        half = mode.H.half(*_one(roots.back(gram.cross[..., k:], gram.rest[:, k:])), k)
        profile_curvature = gram.rest[k:, k:] - inner_products(half, half)
        root = self._of_outer
        outer = xv[1][k:, 0]
        hessian = np.block(
            [
                [-information, (root.T @ across).T],
                [root.T @ across, -root.T @ profile_curvature @ root],
            ]
        )
        return _Slopes(np.append(gradient, root.T @ outer), hessian, settled)

    def _follow(self, mode: ArrowMode, inverse: Inverse) -> tuple[Array, Parts]:
        """t (n, m + a), and q = H^-1 grad log |H|^(1/2) with zeros for coordinates that
        are given."""
        k = self._inner
        roots = mode.roots
        t = self.rows.log_det_slopes(
            mode.z, self.rows.spread(self._raw(roots, inverse))
        )
        a, c = _one(roots.back(*self.rows.pull(t)))
        c = c[:k] + self._prior_log_det(mode.x[1], inverse.corner)[:, None]
        q = mode.H.solve(a, np.vstack([c, np.zeros((self._size - k, 1))]), k)
        return t, (q[0], np.vstack([q[1], np.zeros((self._size - k, 1))]))

    def factor(self, mode: ArrowMode) -> Arrow:
        """The factor of H over all coefficients, given outer nuisance parameters."""
        k = self._size - len(self.outer)
        if k == self._inner:
            return mode.H
        return mode.roots.arrow(self.gram(mode).cut(k)).at(0)

    def follow(self, mode: ArrowMode) -> Parts:
        """q = H^-1 grad log |H|^(1/2), the first-order difference of mode and mean."""
        return self._follow(mode, Inverse(*mode.H.inverse(self._inner)))[1]

    def _raw(self, roots: ArrowRoots, S: Inverse) -> Inverse:
        """M S M' of the parts of H^-1, with zeros for coordinates that are given."""
        L, (G, K, k) = roots.lead[0], S.border.shape
        border = np.zeros((G, K, self._size))
        corner = np.zeros((self._size, self._size))
        border[..., :k], corner[:k, :k] = S.border, S.corner
        corner = roots.transposed_right(roots.transposed_right(corner).T)
        border = roots.transposed_right((L @ border).reshape(G * K, -1)).reshape(
            G, K, -1
        )
        return Inverse(L @ S.own @ L.T, border, corner)

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        tol = _ROUGH if self.many_rows else _TOL
        return np.array(
            [self._evidence(self.mode(t, tol)) for t in theta]
        ) + log_prior_of_logs(theta, self.priors)

    @property
    def many_rows(self) -> bool:
        """Whether a pass over the rows takes longer than the work on its sums."""
        return self.model.design.count >= _MANY

    def beyond(self, theta: Array, vanished: Array, start: Array) -> list[Array]:
        return self.layout.beyond(theta, vanished, start)

    def starts(self) -> list[Array]:
        """The best of a few common scales around the balance of prior and data, at each
        start of the other hyperparameters."""
        if self.criterion == "ML":
            reml = ArrowLaplaceSurface(self.model, self.groups)
            first = reml.starts()[0]
            return [np.append(first, np.zeros(len(self._frame[0])))]
        points = []
        response = self._of_response()
        log_aux = self._log_aux(response)[len(self._inner_aux) :]
        for other_hyper in self.groups.starts():
            roots = self.layout.roots(other_hyper[None])
            mode = self._at(
                other_hyper, roots, (np.zeros((*self.layout.shape[:2], 1)), response)
            )
            typical = roots.weights_of(self.rows.gram(np.maximum(mode.rows.W, 0.0)))
            points += [
                np.append(
                    self.groups.at_scales(other_hyper, -0.5 * np.log(typical * r), 0.0),
                    log_aux,
                )
                for r in (10.0, 1.0, 0.1, 0.01, 0.001)
            ]
        values = self.values(np.array(points))
        return [points[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))]]


class _Slopes(NamedTuple):
    gradient: Array
    hessian: Array
    settled: Array  # (d,) parameters that each scale adds


def _one(parts: Parts) -> Parts:
    """The parts of the only node."""
    return parts[0][0], parts[1][0]
