"""The log evidence of a Gaussian model with varying effects, from moments in the shape of an arrow: f(theta) = log p(y | theta).

With M the roots of the priors, noise = 1 / sigma^2, H = noise M'X'X M + blkdiag(I, 0) (flat columns last, without the I) and (u, b) the
mode of coefficients in these coordinates,

    f = [W (log noise - log 2 pi) - log |H| - noise |y - X M u|^2 - |u|^2] / 2 + (p / 2) log 2 pi

with W the weight of the rows and p flat columns; -2 f is the REML criterion of Bates et al. 2015. For the likelihood (ML) |H| is that
without the flat columns, and the last term is absent. With s = noise X'(y - X M u) the slope over a root L is

    d f = < dL, s u' - noise X'X M H^-1 >

on the diagonal blocks of L: roots, never precisions, so that a standard deviation of 0 is a number. The Hessian is the average
information of Gilmour et al. 1995, and steers only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from probreg.data.arrow_sums import ArrowSums
from probreg.inference.base import Array
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots, Inverse, Parts
from probreg.inference.exact.gaussian_surface import LikelihoodCriterion
from probreg.inference.exact.latent_groups import (
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    log_prior_of_logs,
    with_priors,
)
from probreg.inference.exact.layout_sums import sums_of_moments, sums_of_rows
from probreg.inference.exact.sparse_roots import (
    sparse_factor,
    sparse_pull,
    sparse_traces,
)
from probreg.model.model import Model
from probreg.numerics.linalg import Arrow, SparseArrow
from probreg.priors import AuxPrior

_LOG_2PI = float(np.log(2.0 * np.pi))
MEMORY = 64 * 2**20  # bytes of the factors that are held at once
_LARGE, _FEW = (
    200_000,
    0.1,
)  # entries of a border from which it may be sparse, and the share that is not zero then
_SAME_NOISE = 0.05  # between two logs of noise scales
_DEAR = 2_000_000  # multiplications of one value, a millisecond


@dataclass(frozen=True, eq=False)
class ArrowNodes:
    """What is known at S nodes: u | theta, y ~ N(mean, H^-1) in the coordinates of the roots, flat coefficients too."""

    roots: ArrowRoots
    factor: Arrow | SparseArrow
    log_noise: Array  # (S,)
    half: Parts  # of the products with y
    penalised: Array  # (S,) noise |y - X M u|^2 + |u|^2

    @cached_property
    def mean(self) -> Parts:
        """(S, G, K, 1) and (S, r, 1)."""
        return self.factor.solve_transposed(*self.half)


@dataclass(frozen=True, eq=False)
class ArrowSurface(EvidenceSurface):
    """f(log hyperparameters, log sigma), the last where sigma is unknown."""

    model: Model
    groups: LatentGroups
    criterion: LikelihoodCriterion = "REML"

    tol = 1e-7  # its Hessian is that of the average information, so that steps do not square the error

    # ---- the rows ---------------------------------------------------------------------------------------------------

    @cached_property
    def layout(self) -> ArrowLayout:
        return ArrowLayout(self.model, self.groups)

    @cached_property
    def _response(self) -> tuple[ArrowSums, Array]:
        """The sums of y less what flat columns say of it, and their coefficients (f,) on standardised columns."""
        if self.model.design.n:
            return sums_of_rows(self.layout)
        return sums_of_moments(self.layout)

    @property
    def moments(self) -> ArrowSums:
        """Of the columns as the layout has them, and of y less what flat columns say of it."""
        return self._response[0]

    @cached_property
    def _sparse(self) -> Any:
        """The border of the Gram matrix (G K, r) as a sparse array where most of it is zero, as of crossed factors; else None."""
        cross = self.moments.gram.cross
        if cross.size < _LARGE or np.count_nonzero(cross) > _FEW * cross.size:
            return None
        return scipy.sparse.csr_array(cross.reshape(-1, cross.shape[-1]))

    def _gram_times(self, a: Array, c: Array) -> Parts:
        """X'WX times columns a (G, K, s) and c (r, s)."""
        gram = self.moments.gram
        cross = self._sparse
        if cross is None:
            return gram.times(a, c)
        flat = a.reshape(-1, a.shape[-1])
        return gram.lead @ a + (cross @ c).reshape(
            a.shape
        ), cross.T @ flat + gram.rest @ c

    @property
    def fitted(self) -> Array:
        """(f,) what flat columns were fitted by first, on standardised columns."""
        return self._response[1]

    @property
    def response_scale(self) -> float:
        """The standard deviation of what flat columns leave of the response."""
        return (
            float(np.sqrt(self.moments.of_y[2] / max(self.moments.weight, 1.0))) or 1.0
        )

    @property
    def dear(self) -> bool:
        """Whether one value takes more than a millisecond."""
        G, K, r = self.moments.gram.cross.shape
        return G * K * (K + r) ** 2 + r**3 > _DEAR

    @property
    def priors(self) -> list[AuxPrior]:
        """Those of the hyperparameters and of sigma, in the order of theta."""
        return self.groups.priors + [
            self.model.aux_prior(a) for a in self.model.unknown
        ]

    def log_noise(self, theta: Array) -> Array:
        """log 1 / sigma^2 (S,) at theta (S, d)."""
        if self.model.unknown:
            return -2.0 * theta[:, -1]
        return np.full(
            len(theta), -2.0 * np.log(self.model.fixed[self.model.noise_scale])
        )

    # ---- the value ----------------------------------------------------------------------------------------------------

    @property
    def _counted(self) -> int | None:
        """The columns of the border that |H| counts: without the flat ones under ML."""
        if self.criterion == "REML":
            return None
        return self.layout.shape[2]

    def at_nodes(self, theta: Array) -> ArrowNodes:
        """Mean and spread of the coefficients at each of theta (S, d)."""
        log_noise = self.log_noise(theta)
        noise = np.exp(log_noise)
        roots = self.layout.roots(theta, np.exp(-0.5 * log_noise))
        if self._sparse is None:
            H: Arrow | SparseArrow = roots.arrow(self.moments.gram, noise)
        else:
            H = sparse_factor(roots, self.moments.gram, self._sparse, float(noise[0]))
        zy, xy, yy = self.moments.of_y
        a, c = roots.back(zy, xy)
        scale = noise[:, None, None]
        half = H.half(scale[..., None] * a, scale * c)
        # min over (u, b) of noise |y - X M (u, b)|^2 + |u|^2 = noise y'y - |H^(-1/2) noise M'X'y|^2
        penalised = (
            noise * yy
            - np.square(half[0]).sum((1, 2, 3))
            - np.square(half[1]).sum((1, 2))
        )
        return ArrowNodes(roots, H, log_noise, half, penalised)

    def _evidence(self, at: ArrowNodes) -> Array:
        """log p(y | theta) at each node, (S,)."""
        moments = self.moments
        f = len(self.layout.flat)
        fit = (
            moments.weight * (at.log_noise - _LOG_2PI)
            - at.factor.log_det(self._counted)
            - at.penalised
        )
        constant = 0.5 * moments.log_precision
        if (
            self.criterion == "REML"
        ):  # with the density 1 of raw flat coefficients, which are T times those here
            constant += 0.5 * f * _LOG_2PI + np.linalg.slogdet(self.layout.T)[1]
        return 0.5 * (fit - np.exp(at.log_noise) * sum(self._left(at))) + constant

    def _left(self, at: ArrowNodes) -> list[Array]:
        """left tau^2 (S,) of each block whose basis of few anchors leaves something of the rows: a lower bound (Titsias 2009)."""
        own = [(root.block.group.left, root.value) for root in at.roots.rest]
        return [
            np.zeros(len(at.log_noise)),
            *(left * np.square(value[:, 0]) for left, value in own if left),
        ]

    def blocks_of(self, theta: Array) -> list[Array]:
        """The numbers of nodes theta (S, d) in blocks whose factors fit in memory together."""
        G, K, r = self.moments.gram.cross.shape
        if self._sparse is not None:  # one factor at a time
            return [np.array([i]) for i in range(len(theta))]
        bytes_of_one = 8 * (4 * G * K * (K + r) + 6 * r * r)
        return np.array_split(
            np.arange(len(theta)),
            min(len(theta), 1 + len(theta) * bytes_of_one // MEMORY),
        )

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        out = np.empty(len(theta))
        for part in self.blocks_of(theta):
            out[part] = self._values(theta[part])
        return out + log_prior_of_logs(theta, self.priors)

    def _values(self, theta: Array) -> Array:
        try:
            return self._evidence(self.at_nodes(theta))
        except np.linalg.LinAlgError:  # of one of them
            if len(theta) == 1:
                return np.array([-np.inf])
            return np.concatenate([self._values(each[None]) for each in theta])

    def coefficients(self, at: ArrowNodes, a: Array, c: Array) -> Array:
        """beta (p, S, 1) of coordinates (S, G, K, 1) and (S, r, 1)."""
        moved = at.roots.forth(a, c)
        layout = self.layout
        found = (
            layout.coefficients(*(np.moveaxis(part[..., 0], 0, -1) for part in moved))
            + layout.centre[:, None]
        )
        found[list(layout.flat)] += (layout.T @ self.fitted)[:, None]
        return found[..., None]

    # ---- the slopes ---------------------------------------------------------------------------------------------------

    def __call__(self, theta: Array) -> EvidencePoint:
        gram = self.moments.gram
        try:
            at = self.at_nodes(theta[None])
        except np.linalg.LinAlgError:
            nothing = np.full(len(theta), np.nan)
            d = len(self.groups.priors)
            return EvidencePoint(
                -np.inf,
                nothing,
                np.full((len(theta),) * 2, np.nan),
                -np.inf,
                nothing[:d],
            )
        noise = float(np.exp(at.log_noise[0]))
        H = at.factor.at(0)
        u = (at.mean[0][0], at.mean[1][0])
        s, b = self._scores(at.roots, u, noise)
        pulls, trace, columns = self._pulls(at.roots, H, noise)
        of_fit = at.roots.through(at.roots.paired([(s, u)]))
        of_det = at.roots.through(pulls)
        gradient = of_fit[0] + of_det[0]
        relative = of_fit[1] + of_det[1]
        # the parameters that each scale adds: < dL, X'WX M H^-1 >
        settled = at.roots.settled(
            gram._replace(lead=noise * gram.lead, rest=noise * gram.rest), pulls
        )
        value = float(self._evidence(at)[0])
        q = self.layout.shape[2]
        if self.model.unknown:
            # d f / d log sigma = -W + noise RSS + (columns counted) - tr (H^-1)_uu
            size = np.square(u[0]).sum() + np.square(u[1][:q]).sum()
            of_noise = (
                -self.moments.weight
                + at.penalised[0]
                - size
                + columns
                - trace
                + relative
            )
            gradient = np.append(gradient, of_noise)
        hessian = -self._average_information(at.roots, H, noise, u, s, b)
        gradient, hessian = self._with_left(at, gradient, hessian)
        return with_priors(
            EvidencePoint(value, gradient, hessian, value, settled), theta, self.priors
        )

    def _pulls(
        self, roots: ArrowRoots, H: Arrow | SparseArrow, noise: float
    ) -> tuple[list[Array], float, int]:
        """The blocks of -noise X'X M H^-1, the trace of the latent part of H^-1, and the columns that |H| counts."""
        k = self._counted
        gram = self.moments.gram
        q = self.layout.shape[2]
        G, K, r = H.shape
        columns = G * K + (r if k is None else k)
        if (
            isinstance(H, SparseArrow)
            and (found := sparse_traces(roots, H, k, noise)) is not None
        ):
            return [noise * pull for pull in found[0]], found[1], columns
        inverse = Inverse(*H.inverse(k))
        if self._sparse is None:
            pulls = roots.pull(gram, inverse)
        else:
            pulls = sparse_pull(roots, gram, self._sparse, inverse)
        trace = np.trace(inverse.own, axis1=1, axis2=2).sum() + np.trace(
            inverse.corner[:q, :q]
        )
        return [noise * pull for pull in pulls], float(trace), columns

    def _scores(self, roots: ArrowRoots, u: Parts, noise: float) -> tuple[Parts, Parts]:
        """X's with s = noise (y - X b), and the coefficients b = M u."""
        a, c = roots.forth(u[0][None], u[1][None])
        zy, xy, _ = self.moments.of_y
        of_fit = self._gram_times(a[0], c[0])
        return (noise * (zy - of_fit[0]), noise * (xy - of_fit[1])), (a[0], c[0])

    def _average_information(
        self,
        roots: ArrowRoots,
        H: Arrow | SparseArrow,
        noise: float,
        u: Parts,
        s: Parts,
        b: Parts,
    ) -> Array:
        """z_i'P z_j / 2 with z_i = (d V / d theta_i) P y and P = W - W X M H^-1 M'X'W, V the covariance of y."""
        unknown = bool(self.model.unknown)
        d = len(self.groups.priors) + unknown
        (a, c), back = roots.turned(u, d), roots.turned_back(s, d)
        more = roots.forth(back[0][None], back[1][None])
        a = a + more[0][0]
        c = c + more[1][0]
        y = np.zeros((1, a.shape[-1]))
        if (
            unknown
        ):  # d V / d log sigma = 2 sigma^2 / w, whose product with P y is 2 (y - X b)
            a[..., -1] -= 2.0 * b[0][..., 0]
            c[:, -1] -= 2.0 * b[1][:, 0]
            y[0, -1] = 2.0
        # z = X (a, c) + y: X'W z and z'W z
        zy, xy, yy = self.moments.of_y
        above, below = self._gram_times(a, c)
        of_y = (np.tensordot(zy[..., 0], a, 2) + xy[:, 0] @ c)[None]
        square = (
            np.tensordot(a, above, ((0, 1), (0, 1)))
            + c.T @ below
            + of_y.T @ y
            + y.T @ of_y
            + yy * y.T @ y
        )
        back = roots.back(noise * (above + zy * y), noise * (below + xy * y))
        half = H.half(back[0][0], back[1][0])
        return 0.5 * (
            noise * square
            - np.tensordot(half[0], half[0], ((0, 1), (0, 1)))
            - half[1].T @ half[1]
        )

    def _with_left(
        self, at: ArrowNodes, gradient: Array, hessian: Array
    ) -> tuple[Array, Array]:
        """Less left tau^2 / (2 sigma^2), whose log has the slopes 2 d log tau - 2 d log sigma."""
        noise = float(np.exp(at.log_noise[0]))
        for root in at.roots.rest:
            left = root.block.group.left
            if left:
                own = 0.5 * left * noise * root.value[0, 0] ** 2
                slope = np.zeros(len(gradient))
                slope[root.block.hyper] = 2.0 * root.slopes[:, 0] / root.value[0, 0]
                if self.model.unknown:
                    slope[-1] = 2.0 * root.relative - 2.0
                gradient = gradient - own * slope
                hessian = hessian - own * np.outer(slope, slope)
        return gradient, hessian

    # ---- where a search begins ----------------------------------------------------------------------------------------

    def starts(self) -> list[Array]:
        """The best of a grid of common ratios of noise to prior, in units in which every scale tells as much, and sigma at its
        maximum given each; with several scales also one where noise is a third of the response, unless one value takes long."""
        some = (
            1 if self._sparse is None else 2
        )  # every second ratio where one value takes long
        points = [
            self._at_ratio(others, r)
            for others in self.groups.starts()
            for r in np.logspace(-8, 6, 15)[::some]
        ]
        found = self.values(np.array(points))
        best = points[int(np.argmax(np.where(np.isnan(found), -np.inf, found)))]
        one = self.groups.scales == 1 and len(self.groups.priors) == 1
        if one or not self.model.unknown or self._sparse is not None:
            return [best]
        # where noise has ceased to fall with the ratio, the best of the points that are as near
        away = np.abs(np.array(points)[:, -1] - np.log(0.3 * self.response_scale))
        near = np.flatnonzero(away <= away.min() + _SAME_NOISE)
        other = points[
            near[int(np.argmax(np.where(np.isnan(found[near]), -np.inf, found[near])))]
        ]
        return [best] if other is best else [best, other]

    def beyond(self, theta: Array, vanished: Array, start: Array) -> list[Array]:
        return self.layout.beyond(theta, vanished, start)

    def _at_ratio(self, others: Array, ratio: float) -> Array:
        """Scales at which the data weigh 1 / ratio times what the prior does, the other hyperparameters given."""
        unknown = bool(self.model.unknown)
        typical = self.layout.roots(others[None]).weights_of(self.moments.gram)
        relative = np.array(
            [g.base.sigma_units for g in self.groups.groups], dtype=float
        )[self.groups.group_of]
        unit = np.where(self.groups.scaling, -0.5 * np.log(typical * ratio), others)
        theta = np.append(unit, 0.0) if unknown else unit
        if not unknown:
            sigma = float(self.model.fixed[self.model.noise_scale])
            return np.where(
                self.groups.scaling, unit + (1.0 - relative) * np.log(sigma), others
            )
        # sigma^2 = (RSS + |u|^2) / n at sigma = 1, where the scales are ratios
        at = self.at_nodes(theta[None])
        counted = self.moments.weight - len(self.layout.flat) * (
            self.criterion == "REML"
        )
        least = max(1e-20 * self.response_scale**2, 1e-300)
        log_sigma = 0.5 * np.log(max(float(at.penalised[0]), least) / max(counted, 1.0))
        return np.append(
            np.where(self.groups.scaling, unit + (1.0 - relative) * log_sigma, others),
            log_sigma,
        )
