"""The evidence of a smooth likelihood by Laplace's method, f(theta), and its exact
gradient.

With M the roots of the priors, u ~ N(0, I) the latent coordinates, x = (u, others) and H = M'X'WX M + blkdiag(I, 0) at the mode over x,

    f = log p(y | mode) + log p(others) - |u|^2 / 2 - log |H| / 2 + (others / 2) log 2 pi

With s_i the score of row i over its predictors z_i, h_i the diagonal block of X M H^-1
M'X', t_i = h_i dW_i / dz_i / 2, q = H^-1 M'X't and v = s - t + W X M q,

    d f = < dL, (X'v) u' - (X's) q' - X'WX M H^-1 >  over a root L,    X_o'v  over others that are not integrated

(Tierney & Kadane 1986; Wood 2011). Outer nuisance parameters are not integrated, and
under ML flat coefficients are not integrated either: the likelihood of Bates et al. 2015. The Hessian
keeps W at the mode, and only guides the search. H is an arrow if effects vary by group;
otherwise all columns are dense, and form its border.
"""

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.data.checked_arrays import plus_offset
from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array, Status
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots, inner_products
from probreg.inference.exact.gaussian_sums import log_scale_hessian
from probreg.inference.exact.laplace_rows import DenseRows, DenseSums, GroupedSums
from probreg.inference.exact.latent_groups import (
    CoefficientEstimate,
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    LikelihoodCriterion,
    NoMode,
    log_prior_of_logs,
    with_priors,
)
from probreg.inference.modes.level_newton import ArrowRows, Inverse, Parts
from probreg.inference.modes.maximise import maximise
from probreg.inference.modes.newton import rough_start, sample_of_rows
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import Arrow, inverse_upper
from probreg.model.model import Model
from probreg.priors import (
    BlockPrior,
    SmoothPrior,
)
from probreg.special import LOG_2PI


class LaplaceMode(NamedTuple):
    """The mode over the integrated coordinates, given the others."""

    theta: Array
    roots: ArrowRoots
    x: Parts  # (G, K m, 1) and (r m + a, 1), u and after them coefficients of standardised columns and log aux
    rows: GroupedSums | DenseSums
    value: float  # log p(y | mode) + log p(others) - |u|^2 / 2
    gradient: Array  # over the integrated coordinates
    H: Arrow


class LaplaceSurface(EvidenceSurface):
    """f(logs of hyperparameters and of outer nuisance parameters), under ML followed by flat coefficients in standard errors."""

    layout: ArrowLayout

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        criterion: LikelihoodCriterion = "REML",
        outer: tuple[str, ...] | None = None,
        *,
        by_group: bool = True,
    ) -> None:
        super().__init__(model, groups, criterion, outer)
        self.tol = 1e-6
        inside = {j for g in groups.groups for j in g.columns}
        with_other_prior = [
            j for j in np.flatnonzero(model.joint.informative) if j not in inside
        ]
        self.layout = ArrowLayout(
            model, groups, tuple(int(j) for j in with_other_prior), by_group
        )
        m = model.shape[1]
        # the numbers of border coordinates: with a root, all, and the integrated ones, which come first
        self._latent = self.layout.shape[2]
        self._size = self.layout.border + len(model.unknown)
        self._inner = self._size - len(self.outer)
        if criterion == "ML":
            self._inner = self._latent + len(self.layout.known) * m
        self._inner_aux = tuple(n for n in model.unknown if n not in self.outer)
        self._last: LaplaceMode | None = None
        self._kept: dict[bytes, LaplaceMode] = {}
        # smooth priors of columns without latent ones, and their positions
        self._known_blocks = list[tuple[BlockPrior, Array]]()
        place = {j: i for i, j in enumerate(self.layout.known)}
        for b in model.joint.blocks:
            if b.columns and b.columns[0] in place:
                moved = replace(b, columns=tuple(place[j] for j in b.columns))
                self._known_blocks.append((b, self._latent + moved.entries(m)))

    # ---- which coordinates are integrated ---------------------------------------------------------------------------

    @cached_property
    def _frame(self) -> tuple[Array, Array]:
        """Flat coefficients at the start under ML, and a root of their covariance there: the mode at a common scale."""
        reml = self._restricted_surface
        mode = reml.mode(reml.starts()[0])
        flat = slice(self._inner, reml._inner)
        corner = mode.H.T[self._inner :, self._inner :]
        root = inverse_upper(corner.T)
        # a start of later searches, at no theta of this surface
        self._last = mode._replace(theta=np.zeros(0))
        return mode.x[1][flat, 0], root

    def rotate_flat(self, Q: Array) -> None:
        """Replace the coordinates z of flat coefficients by w, z = Q w of an orthogonal Q."""
        start, root = self._frame
        vars(self).pop("_of_outer", None)
        vars(self)["_frame"] = start, root @ Q
        self._kept.clear()
        self._last = None

    @cached_property
    def _restricted_surface(self) -> "LaplaceSurface":
        """The surface that integrates flat coefficients too."""
        by_group = self.layout.by_group
        return LaplaceSurface(self.model, self.groups, by_group=by_group)

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
        """Flat coefficients on standardised columns and log aux at theta, if they are not integrated."""
        outer = theta[len(self.groups.priors) :]
        if self.criterion == "REML":
            return outer
        start = np.append(self._frame[0], np.zeros(len(self.outer)))
        return start + self._of_outer @ outer

    # ---- the mode -----------------------------------------------------------------------------------------------------

    def mode(self, theta: Array) -> LaplaceMode:
        """The mode by Newton's method with step halving from the last mode; if this
        fails, from a start by the response only."""
        max_numbers = 10**7  # numbers, 80 MB, of modes in memory
        before = self._kept.get(theta.tobytes(), self._last)
        if before is not None and np.array_equal(before.theta, theta):
            return before
        try:
            mode = self._find_mode(theta, before)
        except NoMode:
            if before is None:
                raise
            # with the coefficients of another theta the predictors may overflow
            mode = self._find_mode(theta, None)
        self._last = mode
        numbers = mode.x[0].size + mode.H.numbers + self.model.design.n
        if (len(self._kept) + 1) * numbers <= max_numbers:
            self._kept[theta.tobytes()] = mode
        return mode

    def _find_mode(self, theta: Array, before: LaplaceMode | None) -> LaplaceMode:
        # in standard errors, before the last step squares it: log |H| is of first order in the error
        tol = 1e-6
        roots = self.layout.roots(theta[None, : len(self.groups.priors)])
        (G, K, _), k = self.layout.shape, self._inner
        a, c = self._start(roots, before)
        outer = self.given(theta)[:, None]

        def evaluate(x: Array) -> LaplaceMode:
            parts = x[: G * K].reshape(G, K, 1), np.vstack([x[G * K :, None], outer])
            with np.errstate(over="ignore", invalid="ignore"):  # at steps too long
                return self._at(theta, roots, parts)

        def newton_step(mode: LaplaceMode) -> tuple[Array, bool]:
            H, exact = self._curvature(mode)
            g = mode.gradient
            step = H.solve(g[: G * K].reshape(G, K, 1), g[G * K :, None])
            return np.concatenate([part.ravel() for part in step]), exact

        x = np.concatenate([a.ravel(), c[:k].ravel()])
        top = maximise(
            evaluate,
            newton_step,
            x,
            evaluate(x),
            tol=tol,
            max_steps=100,
        )
        H, exact = self._curvature(top.point)
        if top.status is not Status.CONVERGED or not exact:
            raise NoMode(
                f"the evidence has no mode to be approximated about at scales {np.exp(theta[: len(self.groups.priors)])}"
            )
        return top.point._replace(H=H)

    def _start(self, roots: ArrowRoots, before: LaplaceMode | None) -> Parts:
        """The coefficients of another mode in the coordinates of these roots; without
        one, a start by the response only."""
        G, K, _ = self.layout.shape
        if before is None:
            return np.zeros((G, K, 1)), self._of_response()
        u = before.x[0].copy(), before.x[1].copy()
        for root, root_before in zip(roots.roots, before.roots.roots):
            b = root.block
            turn = np.linalg.pinv(root.value[0]) @ root_before.value[0]
            part = (turn * root.part(u)[:, None]).sum(2)
            if b.leads:
                u[0][:, b.place, 0] = part
            else:
                u[1][b.place, 0] = part.ravel()
        return u

    def _of_response(self) -> Array:
        """(r m + a, 1): least squares of a rough eta on flat columns, and rough nuisance parameters."""
        layout = self.layout
        design = self.model.design.sample
        likelihood = self.model.likelihood
        assert isinstance(likelihood, SmoothLikelihood)  # checked in `scales_obstacle`
        coordinates = np.zeros((self._size, 1))
        offset = plus_offset(design.X @ layout.centre[:, None], design.offset)
        rough = rough_start(self.model)
        eta = likelihood.initial_eta(design.observed)[0] - offset
        X = layout.frame.rows(np.asarray(design.X[:, list(layout.flat)]))
        end = layout.border
        aux = dict(zip(self.model.unknown, np.exp(rough.log_aux)))
        values = likelihood.at_rows({**self.model.fixed, **aux}, design.precision)
        equal = np.ones(len(X))
        starts = [(eta, equal), (eta, rough.weight), (eta.mean(0) + 0.0 * eta, equal)]
        # the first with predictors in the domain of the link
        for target, weight in starts:
            flat = self._least_squares(X, target, weight)
            fitted = X @ flat + offset
            with np.errstate(all="ignore"):
                density = likelihood.log_prob(design.observed, fitted, **values)
            if np.isfinite(density).all():
                break
        coordinates[end - flat.size : end, 0] = flat.ravel()
        coordinates[end:, 0] = rough.log_aux
        return coordinates

    def _least_squares(self, X: Array, eta: Array, weight: Array) -> Array:
        """Weighted least squares of eta on flat columns, each in its linear predictor."""
        root = np.sqrt(weight)[:, None]
        owners = self.layout.owners
        if owners is None:
            return np.linalg.lstsq(root * X, root * eta)[0]
        flat = np.zeros((X.shape[1], 1))
        owner = owners[1][len(owners[1]) - len(flat) :]
        for k, target in enumerate(eta.T):
            A = X[:, owner == k]
            flat[owner == k, 0] = np.linalg.lstsq(root * A, root[:, 0] * target)[0]
        return flat

    @cached_property
    def dense_rows(self) -> DenseRows:
        return DenseRows(self.layout)

    @cached_property
    def _grouped_rows(self) -> ArrowRows:
        layout = self.layout
        return ArrowRows(
            self.model,
            layout.columns,
            layout.centre,
            self.model.design.block,
            layout.owners,
        )

    def _sums(self, a: Array, c: Array) -> GroupedSums | DenseSums:
        """The sums over the rows at coefficients of the columns."""
        if not self.layout.by_group:
            return self.dense_rows.at(c)
        return GroupedSums(self._grouped_rows, self._grouped_rows.at(a, c))

    def _at(self, theta: Array, roots: ArrowRoots, x: Parts) -> LaplaceMode:
        rows = self._sums(*roots.map(x))
        q = self._latent
        value = (
            rows.value
            + self.log_prior(x[1])
            - 0.5 * float(np.square(x[0]).sum() + np.square(x[1][:q]).sum())
        )
        a, c = rows.score
        lead, border = roots.map_back(a, c + self._prior_slopes(x[1])[0][:, None])
        border[:q] -= x[1][:q]
        gradient = np.concatenate([(lead - x[0]).ravel(), border[: self._inner, 0]])
        return LaplaceMode(theta, roots, x, rows, value, gradient, None)  # type: ignore[arg-type]

    def _curvature(self, mode: LaplaceMode) -> tuple[Arrow, bool]:
        """The factor of H and True; if rows are not concave, of H with the concave part of each, and False."""
        for gram, exact in ((mode.rows.gram, True), (mode.rows.concave_gram, False)):
            inner = self._with_prior(gram(), mode).cut(self._inner)
            with suppress(np.linalg.LinAlgError):
                return mode.roots.arrow(inner, np.ones(1)).at(0), exact
        raise NoMode(
            "the evidence needs a mode for its approximation, and the posterior is flat in a direction there. Fix "
            "nuisance parameters, or give them and the scales proper priors"
        )

    def _with_prior(self, gram: ArrowGram, mode: LaplaceMode) -> ArrowGram:
        """X'WX plus the curvature of the other priors."""
        return gram._replace(rest=gram.rest + self._prior_slopes(mode.x[1])[1])

    # ---- priors of other coordinates --------------------------------------------------------------------------------

    def log_prior(self, c: Array) -> float:
        """The log priors of the other coordinates, for integrated log aux as densities of the logs."""
        log_p = 0.0
        for b, entries in self._known_blocks:
            log_p += float(b.prior.log_prob(c[entries, 0].reshape(len(b.columns), -1)))
        for name, log in zip(self._inner_aux, self._log_aux(c)):
            log_p += float(self.model.aux_prior(name).log_prob(np.exp(log)) + log)
        return log_p

    def _log_aux(self, c: Array) -> Array:
        return c[len(c) - len(self.model.unknown) :, 0]

    def _prior_slopes(self, c: Array) -> tuple[Array, Array]:
        """Gradient (r m + a,) and negative second derivative of the log priors of the other coordinates."""
        g = np.zeros(len(c))
        h = np.zeros((len(c), len(c)))
        for b, entries in self._known_blocks:
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

    def _prior_log_det(self, c: Array, S: Array) -> Array:
        """The part of grad log |H|^(1/2) from the priors of the other coordinates,
        (H^-1)_jj d h_j / 2 with h_j the curvature of an entry and S the diagonal of
        H^-1."""
        k = len(S)
        step = np.zeros(c.shape)
        step[:k, 0] = 1e-4 * np.sqrt(S)
        up, down = (
            np.diagonal(self._prior_slopes(c + h)[1])[:k] for h in (step, -step)
        )
        return S * (up - down) / (4.0 * step[:k, 0])

    # ---- value and slopes -------------------------------------------------------------------------------------------

    def _evidence(self, mode: LaplaceMode) -> float:
        k = self._inner
        f = len(self.layout.flat)
        constant = 0.5 * (k - self._latent) * LOG_2PI
        # with the density 1 of raw flat coefficients, which are T times the standardised ones
        if self.criterion == "REML" and f:
            constant += self.model.shape[1] * np.linalg.slogdet(self.layout.frame.T)[1]
        return float(mode.value - 0.5 * mode.H.log_det() + constant)

    def __call__(self, theta: Array) -> EvidencePoint:
        mode = self.mode(theta)
        d = len(self.groups.priors)
        k = self._inner
        roots = mode.roots
        gram_of_rows = mode.rows.gram()
        gram = self._with_prior(gram_of_rows, mode)
        inverse = Inverse(*mode.H.inverse())
        xt, slopes = self._log_det_gradient(mode, inverse)
        # q = H^-1 grad log |H|^(1/2), with zeros for coordinates that are given
        q = mode.H.solve(*slopes)
        q = (q[0], np.vstack([q[1], np.zeros((self._size - k, 1))]))
        # X'v with v = s - t + W X M q
        xs = mode.rows.score
        xwq = gram_of_rows.times(*roots.map(q))
        xv = (xs[0] - xt[0] + xwq[0], xs[1] - xt[1] + xwq[1])
        minus = (-xs[0], -xs[1])
        gradient, _, of_log_det = roots.slopes(
            [(xv, mode.x), (minus, q)], inverse.own.sum(0), inverse.corner
        )
        settled = roots.effective_parameters(gram, of_log_det)
        # the derivative of the mode: M du = M H^-1 (dM's - M'X'WX dM u); z_i'P z_j / 2
        # with z = X (dM u + M dM's)
        turned, dL_s, z_slopes = roots.fit_changes(mode.x, xs, d)
        of_both = gram.times(*z_slopes)
        half = mode.H.half(*self._integrated_part(roots, of_both))
        curvature = 0.5 * (
            inner_products(half, half) - inner_products(z_slopes, of_both)
        )
        if not self.layout.by_group:
            n_latent = self._latent
            S = inverse.corner[:n_latent, :n_latent]
            changes = self.layout.log_scale_derivatives(theta)
            curvature = log_scale_hessian(S, mode.x[1][:n_latent, 0], S, *changes)
        if k < self._size:
            pushed = self._integrated_part(roots, gram.times(*turned))
            a, c = mode.H.solve(dL_s[0] - pushed[0], dL_s[1][:k] - pushed[1])
            c = np.vstack([c, np.zeros((self._size - k, d))])
            follow = roots.map((a, c))
            across = -gram.times(turned[0] + follow[0], turned[1] + follow[1])[1][k:]
            # the curvature of max_x log p over the coordinates that are not integrated
            others = gram.cross[..., k:], gram.rest[:, k:]
            half = mode.H.half(*self._integrated_part(roots, others))
            profile_curvature = gram.rest[k:, k:] - inner_products(half, half)
            root = self._of_outer
            gradient = np.append(gradient, root.T @ xv[1][k:, 0])
            curvature = np.block(
                [
                    [curvature, (root.T @ across).T],
                    [root.T @ across, -root.T @ profile_curvature @ root],
                ]
            )
        value = self._evidence(mode)
        point = EvidencePoint(value, gradient, curvature, value, settled)
        return with_priors(point, theta, self.priors)

    def _log_det_gradient(
        self, mode: LaplaceMode, inverse: Inverse
    ) -> tuple[Parts, Parts]:
        """X't, and the gradient of log |H|^(1/2) over the integrated coordinates."""
        xt = mode.rows.log_det_slopes(mode.roots, mode.H, inverse)
        a, c = self._integrated_part(mode.roots, xt)
        S = np.diagonal(inverse.corner)
        of_priors = self._prior_log_det(mode.x[1], S)[:, None]
        return xt, (a, c + of_priors)

    def _integrated_part(self, roots: ArrowRoots, parts: Parts) -> Parts:
        """M' of columns at the single node, over the integrated coordinates."""
        a, c = roots.map_back(*parts)
        return a, c[: self._inner]

    def shift(self, mode: LaplaceMode) -> Parts:
        """The first-order difference of mode and mean, in standard deviations: J q with
        H = J'J (Tierney & Kadane 1986)."""
        inverse = Inverse(*mode.H.inverse())
        return mode.H.half(*self._log_det_gradient(mode, inverse)[1])

    def factor(self, mode: LaplaceMode) -> Arrow:
        """The factor of H over all coefficients, given outer nuisance parameters."""
        k = self._size - len(self.outer)
        if k == self._inner:
            return mode.H
        gram = self._with_prior(mode.rows.gram(), mode)
        return mode.roots.arrow(gram.cut(k), np.ones(1)).at(0)

    def estimate(self, theta: Array) -> CoefficientEstimate:
        mode = self.mode(theta)
        *axes, blocks = mode.roots.axes(self.factor(mode))
        low = self.layout.coefficients(*axes, in_frame=True)
        return self.coefficients(theta), self.layout.covariance(blocks[0], low)

    def coefficients(self, theta: Array) -> Array:
        mode = self.mode(theta)
        return self.layout.beta_of(mode.roots, mode.x)[..., 0]

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        return np.array(
            [self._evidence(self.mode(t)) for t in theta]
        ) + log_prior_of_logs(theta, self.priors)

    def starts(self) -> list[Array]:
        """The best of a few common scales around the balance of prior and data, at each
        start of the other hyperparameters."""
        if self.criterion == "ML":
            first = self._restricted_surface.starts()[0]
            return [np.append(first, np.zeros(len(self._frame[0])))]
        points = []
        log_aux = self._log_aux(self._of_response())[len(self._inner_aux) :]
        if not self.groups.priors:
            return [log_aux]
        for other_hyper in self.groups.starts():
            weights = self._information_at(self.layout.roots(other_hyper[None]))
            points += [
                np.append(
                    self.groups.at_scales(other_hyper, -0.5 * np.log(weights * r), 0.0),
                    log_aux,
                )
                for r in (10.0, 1.0, 0.1, 0.01, 0.001)
            ]
        sample = None if self.layout.by_group else sample_of_rows(self.model)
        sampled = self
        if sample is not None:
            sampled = LaplaceSurface(
                replace(self.model, design=sample),
                self.groups,
                outer=self.outer,
                by_group=False,
            )
        values = np.full(len(points), -np.inf)
        for i, point in enumerate(points):
            # there may be no mode at scales that do not fit the rows
            with suppress(NoMode):
                values[i] = np.nan_to_num(sampled.values(point[None])[0], nan=-np.inf)
        return [points[int(np.argmax(values))]]

    def _information_at(self, roots: ArrowRoots) -> Array | float:
        """The information of the rows at scales of 1, on average over the coordinates
        of each hyperparameter, or of all dense columns."""
        if self.layout.by_group:
            x = np.zeros((*self.layout.shape[:2], 1)), self._of_response()
            rows = self._at(np.zeros(0), roots, x).rows
            assert isinstance(rows, GroupedSums)
            return roots.weights_of(rows.rows.gram(np.maximum(rows.local.W, 0.0)))
        q = self._latent
        model = self.dense_rows.model
        aux = dict.fromkeys(model.unknown, 1.0)
        with np.errstate(all="ignore"):
            J = model.information_of_rows(np.zeros(model.shape), aux)
        if not np.isfinite(J).all():  # a link without an inverse at 0
            point = self.dense_rows.at(self._of_response(), curved=False).point
            gamma = point[: len(J)].reshape(model.shape)
            J = model.information_of_rows(model.design.frame.to_raw(gamma), aux)
        A = self.dense_rows.to_raw[: len(J), :q]
        D = np.zeros(q)
        for root in roots.rest:
            D[root.block.place] = root.value[0, :, 0, 0]
        return (
            float(np.einsum("ij,ik,kj,j->", A, J, A, D * D, optimize=True)) / q or 1.0
        )
