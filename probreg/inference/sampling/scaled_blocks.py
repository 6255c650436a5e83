"""Blocks of coefficients whose scales depend on hyperparameters, as the sampler sees them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from probreg.inference.base import Array
from probreg.inference.sampling.prior_parts import PriorPart
from probreg.inference.sampling.reparameterisation import NonCentredBlock
from probreg.linalg import triangular_log_det
from probreg.priors import AuxPrior, BlockPrior, HierarchicalPrior, LatentPrior
from probreg.special import LOG_2PI


@dataclass(frozen=True, eq=False)
class ScaleFactor:
    """beta = location + exp(log) (theta - location), elementwise over (q, m)."""

    log: Array
    slopes: tuple[Array, ...]  # of log over the log of each hyperparameter
    location: Array  # (q, 1)

    def apply(self, theta: Array) -> Array:
        """beta (q, m) of theta (q, m)."""
        return np.asarray(self.location + np.exp(self.log) * (theta - self.location))

    def pull_back(self, theta: Array, slopes: Array) -> tuple[Array, list[Array]]:
        """Slopes over theta, and over the log of each hyperparameter, elementwise, from those over beta."""
        moved = slopes * (self.apply(theta) - self.location)
        return slopes * np.exp(self.log), [s * moved for s in self.slopes]


@dataclass(frozen=True, eq=False)
class Root:
    """b_g = Lambda theta_g of each group g."""

    root: Array  # Lambda (K, K)
    slopes: Array  # (d, K, K)

    def _by_groups(self, values: Array) -> Array:
        """(G, K, m) of a block (q, m)."""
        return values.reshape(-1, len(self.root), values.shape[1])

    def apply(self, theta: Array) -> Array:
        """b (q, m) of theta (q, m)."""
        b = np.einsum("kl,glm->gkm", self.root, self._by_groups(theta))
        return b.reshape(theta.shape)

    def pull_back(self, theta: Array, slopes: Array) -> tuple[Array, list[Array]]:
        """Slopes over theta, and over the log of each hyperparameter, from those over b."""
        s = self._by_groups(slopes)
        u = self._by_groups(theta)
        # b = Lambda u: d/du = Lambda's, d/dLambda = sum_g s_g u_g'
        over_root = np.einsum("gkm,glm->kl", s, u)
        over_theta = np.einsum("kl,gkm->glm", self.root, s).reshape(theta.shape)
        return over_theta, [np.sum(d * over_root) for d in self.slopes]

    def log_deviations(self) -> tuple[Array, Array]:
        """The logs of the standard deviations (K,), which are the lengths of the rows, and their slopes (K, d)."""
        variances = np.square(self.root).sum(1)
        slopes = np.einsum("kl,dkl->kd", self.root, self.slopes) / variances[:, None]
        return 0.5 * np.log(variances), slopes

    def centred(self, b: Array) -> tuple[float, Array, Array]:
        """log p of effects (q, m), its slopes over them, and over the logs (d,)."""
        K = len(self.root)
        groups = self._by_groups(b)
        flat = np.moveaxis(groups, 1, 0).reshape(K, -1)
        count = flat.shape[1]
        inverse = lapack.dtrtri(self.root, lower=1)[0]
        w = inverse @ flat
        pull = inverse.T @ w
        # log p = - |w|^2 / 2 - G m log |Lambda|, w = Lambda^-1 b: d/db = - Lambda'^-1 w, d/dLambda = Lambda'^-1 (w w' - G m I)
        log_slopes = inverse.T @ (w @ w.T - count * np.eye(K))
        value = (
            -0.5 * float((w * w).sum())
            - count * float(triangular_log_det(self.root))
            - 0.5 * LOG_2PI * b.size
        )
        by_group = pull.reshape(K, len(groups), -1)
        slope = -np.moveaxis(by_group, 0, 1).reshape(b.shape)
        return value, slope, np.einsum("dkl,kl->d", self.slopes, log_slopes)


class LogHyper(NamedTuple):
    """The log of a hyperparameter among the coordinates."""

    name: str
    label: str  # as it is reported
    prior: AuxPrior
    place: slice
    shape: tuple[int, ...]

    def take(self, logs: Array) -> Array:
        """Its values, from the logs of all hyperparameters."""
        return logs[self.place].reshape(self.shape)


class LinearScales(NamedTuple):
    """Scales of coefficients whose logs are linear in the logs of hyperparameters, and K correlated effects of each group."""

    log: Array  # (s,)
    slopes: Array  # (s, h)
    effects: int  # K, 1 without correlations
    first_pair: int  # the place of the first correlation among the logs


@dataclass(frozen=True, eq=False)
class ScaledBlock:
    """A block with hyperparameters."""

    prior: HierarchicalPrior
    hyper: tuple[LogHyper, ...]
    entries: Array  # of vec(beta)
    shape: tuple[int, int]
    base: BlockPrior  # of theta, or of centred coefficients at scale 1
    part: PriorPart  # its density
    noncentred: NonCentredBlock | None

    @cached_property
    def span(self) -> slice:
        """The places of its logs."""
        return slice(self.hyper[0].place.start, self.hyper[-1].place.stop)

    @cached_property
    def _typical(self) -> tuple[Array, Array]:
        """Location and log of the typical spread of a non-centred block, (q, 1); zeros without one."""
        q = self.shape[0]
        if self.noncentred is None:
            return np.zeros((q, 1)), np.zeros((q, 1))
        location = self.noncentred.location.reshape(self.shape)[:, :1]
        return location, np.log(np.broadcast_to(self.noncentred.spread, q))[:, None]

    def scale(self, logs: Array) -> ScaleFactor | Root:
        """The map from theta, or from the prior at scale 1, to the coefficients."""
        prior = self.prior
        q = self.shape[0]
        location, below = self._typical
        if isinstance(prior, LatentPrior):
            root = prior.root(logs[self.span])
            if root is not None:
                return Root(*root)
            (log,) = prior.log_scales(logs[None, self.span], q)
            slopes = prior.log_scale_slopes(logs[self.span], q).T
            columns = tuple(s[:, None] for s in slopes)
            return ScaleFactor(log[:, None] - below, columns, location)
        parts = []
        tiny = 1e-30  # imaginary step of a derivative, which has no rounding of differences
        values: Any = {h.name: np.exp(h.take(logs)) for h in self.hyper}
        for h in self.hyper:
            moved = {h.name: np.exp(h.take(logs) + 1j * tiny)}
            spread = np.asarray(prior.spread(**values | moved))
            slope = spread.imag / spread.real / tiny
            parts.append(np.broadcast_to(slope, q)[:, None])
        log = np.broadcast_to(np.log(spread.real), q)[:, None]
        return ScaleFactor(log - below, tuple(parts), location)

    def linear_scales(self, typical: Array) -> LinearScales | None:
        """The scales of the coefficients near the logs `typical`; None if their logs are not linear in these, or some correlations are known."""
        first, second = (self._scales_at(typical + shift) for shift in (0.0, 0.7))
        if first is None or second is None:
            return None
        if not np.allclose(first.slopes, second.slopes):
            return None
        return first._replace(log=first.log - first.slopes @ typical)

    def _scales_at(self, logs: Array) -> LinearScales | None:
        scale = self.scale(logs)
        if isinstance(scale, Root):
            return self._scales_of_effects(scale, len(logs))
        q, m = self.shape
        slopes = np.zeros((q, m, len(logs)))
        for h, slope in zip(self.hyper, scale.slopes):
            if h.shape:  # one for each coefficient, (q,) or (m, q)
                i, j = np.indices((q, m))
                slopes[i, j, h.place.start + j * q + i] = slope
            else:
                slopes[:, :, h.place.start] = slope
        log = np.broadcast_to(scale.log, (q, m)).ravel()
        return LinearScales(log, slopes.reshape(q * m, -1), 1, 0)

    def _scales_of_effects(self, root: Root, count: int) -> LinearScales | None:
        q, m = self.shape
        log, over = root.log_deviations()
        K = len(log)
        prior = self.prior
        assert isinstance(prior, LatentPrior)  # it has a root
        correlations = np.flatnonzero(~np.array(prior.scales))
        first_pair = 0
        effects = 1
        if len(correlations) or np.count_nonzero(root.root) > K:
            if m > 1 or len(correlations) < K * (K - 1) // 2:
                return None
            effects = K
            first_pair = self.span.start + int(correlations[0])
            over[:, correlations] = 0.0
        slopes = np.zeros((q * m, count))
        repeats = q // K
        slopes[:, self.span] = np.repeat(np.tile(over, (repeats, 1)), m, axis=0)
        return LinearScales(
            np.repeat(np.tile(log, repeats), m), slopes, effects, first_pair
        )
