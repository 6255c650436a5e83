"""The part of a prior that has kinks, and the search coordinates in which a mode under it is found.

Blocks of `ProximalPrior` are taken apart from the smooth ones: the smooth rest is a model of its own, with gradient and
curvature; the kinked part is separable and stays so when columns are scaled, and when coefficients in units of an unknown
sigma are written as phi, with beta = location + sigma (phi - location). Nothing here iterates.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Frame
from probreg.inference.base import Array
from probreg.model.model import Model
from probreg.numerics.frame import between_outcomes
from probreg.priors import (
    ElasticNet,
    ExponentialPower,
    Flat,
    GroupedPrior,
    Laplace,
    ProximalPrior,
)
from probreg.priors.joint import PENALTY_OF_CLASSES, JointPrior, mapping_of

_ROUNDING = 8 * np.finfo(float).eps


def no_errors(model: Model) -> str:
    """Return why a mode under a prior with kinks has no standard errors, and where a spread comes from."""
    if model.joint.contrast is not None:
        return f"a mode under a prior with kinks carries no standard errors, and {PENALTY_OF_CLASSES}"
    return "a mode under a prior with kinks carries no standard errors: nuts samples the posterior, whose spread is one answer"


def has_nonsmooth_terms(model: Model) -> bool:
    """Some block of the prior is not twice differentiable."""
    return any(isinstance(b.prior, ProximalPrior) for b in model.joint.blocks)


class NonsmoothBlock(NamedTuple):
    """One prior with kinks, the columns that it touches, and the unit of its scales."""

    prior: ProximalPrior
    columns: Array  # (q,)
    unit: float

    @property
    def center(self) -> Array:
        """(q,), where its kinks are."""
        this: Any = self.prior
        return np.broadcast_to(
            np.asarray(this.location, dtype=float), len(self.columns)
        )

    @property
    def weights(self) -> tuple[Array, Array] | None:
        """l1 and l2 weights (q,) with -log p = sum a_j |r_j| + l_j r_j^2 / 2 + constant over r = phi - center; None where
        it is of another form."""
        prior: Any = self.prior
        if _has_weights(prior):
            s = np.broadcast_to(prior.scales * self.unit, len(self.columns))
        else:
            s = np.ones(0)
        match prior:
            case Laplace():
                return 1.0 / s, np.zeros_like(s)
            case ElasticNet():
                return prior.ratio / s, (1.0 - prior.ratio) / s**2
            case ExponentialPower(q=1.0):
                return 1.0 / s, np.zeros_like(s)
            case ExponentialPower(q=2.0):
                return np.zeros_like(s), 2.0 / s**2
        return None

    @property
    def powers(self) -> tuple[Array, Array, Array] | None:
        """Weights, exponents and l2 weights (q,) with -log p = sum w_j |r_j|^e_j + l_j r_j^2 / 2 + constant; None where it
        is of another form."""
        prior: Any = self.prior
        if isinstance(prior, ExponentialPower) and self.weights is None:
            s = np.broadcast_to(prior.scales * self.unit, len(self.columns))
            return s**-prior.q, np.full(len(s), prior.q), np.zeros(len(s))
        if self.weights is None:
            return None
        return (self.weights[0], np.ones(len(self.columns)), self.weights[1])


class Norms(NamedTuple):
    """-log p = sum over groups of |metric_g (phi_g - center_g)| + ridge (phi - center)^2 / 2 + constant, of one predictor."""

    groups: tuple[Array, ...]  # columns; those of no group have no kink
    metric: Array  # (p,)
    ridge: Array  # (p,)


def _has_weights(prior: ProximalPrior) -> bool:
    return isinstance(prior, Laplace | ElasticNet) or (
        isinstance(prior, ExponentialPower) and prior.q in (1.0, 2.0)
    )


@dataclass(frozen=True, eq=False)
class NonsmoothTerms:
    """log p of the kinked blocks as a function of phi (p, m): beta, or what it is in units of sigma in the columns marked
    `moving`, where beta = location + sigma (phi - location). Of K classes with a common contrast C phi (p, K) are their scores,
    with beta = phi C."""

    parts: tuple[NonsmoothBlock, ...]
    shape: tuple[int, int]
    moving: Array  # (p,) bool: stated in units of a sigma that is unknown
    joint: JointPrior

    @classmethod
    def of(cls, model: Model) -> "NonsmoothTerms":
        parts = []
        moving = np.zeros(model.shape[0], bool)
        for b in model.joint.blocks:
            if isinstance(b.prior, ProximalPrior):
                if b.prior.sigma_units:
                    held = model.noise()
                else:
                    held = 1.0
                parts.append(NonsmoothBlock(b.prior, np.array(b.columns), held))
                moving[list(b.columns)] = b.prior.sigma_units and model.noise_unknown
        contrast = model.joint.contrast
        if contrast is None:
            m = model.shape[1]
        else:
            m = len(contrast)
        return cls(tuple(parts), (model.shape[0], m), moving, model.joint)

    @property
    def contrast(self) -> Array | None:
        """(K, m), where the prior is of the coefficients of all K classes."""
        return self.joint.contrast

    @property
    def touched(self) -> Array:
        """(p,) bool: columns whose prior has kinks."""
        out = np.zeros(self.shape[0], bool)
        for part in self.parts:
            out[part.columns] = True
        return out

    @property
    def convex(self) -> bool:
        return all(part.prior.convex for part in self.parts)

    @property
    def center(self) -> Array:
        """(p,), zero where there is no kink."""
        out = np.zeros(self.shape[0])
        for part in self.parts:
            out[part.columns] = part.center
        return out

    @property
    def weights(self) -> tuple[Array, Array] | None:
        """l1 and l2 weights (p,) when every part is of that form."""
        a = np.zeros(self.shape[0])
        l2 = np.zeros(self.shape[0])
        for part in self.parts:
            found = part.weights
            if found is None:
                return None
            a[part.columns], l2[part.columns] = found
        return a, l2

    @property
    def powers(self) -> tuple[Array, Array, Array] | None:
        """Weights, exponents and l2 weights (p,) when every part is of that form."""
        w = np.zeros(self.shape[0])
        e = np.ones(self.shape[0])
        l2 = np.zeros(self.shape[0])
        for part in self.parts:
            found = part.powers
            if found is None:
                return None
            w[part.columns], e[part.columns], l2[part.columns] = found
        return w, e, l2

    @property
    def grouped(self) -> bool:
        """Some entries have one kink together."""
        return any(isinstance(part.prior, GroupedPrior) for part in self.parts)

    @property
    def norms(self) -> Norms | None:
        """The parts as norms of groups, a coefficient with an l1 weight being one by itself; None where some is of another form."""
        groups: list[Array] = []
        metric = np.zeros(self.shape[0])
        ridge = np.zeros(self.shape[0])
        for part in self.parts:
            if isinstance(part.prior, GroupedPrior):
                groups += [
                    part.columns[g] for g in part.prior.members(len(part.columns))
                ]
                metric[part.columns] = 1.0 / (part.prior.scales * part.unit)
            elif (found := part.weights) is None:
                return None
            else:
                metric[part.columns], ridge[part.columns] = found
                groups += [
                    part.columns[j : j + 1] for j in np.flatnonzero(found[0] > 0)
                ]
        return Norms(tuple(groups), metric, ridge)

    def phi(self, beta: Array, sigma: float) -> Array:
        """(p, m), beta itself but in the columns marked `moving`; the scores (p, K) of classes."""
        if self.contrast is not None:
            return self.joint.scores(beta)
        # beta = b + sigma (phi - b)
        center = self.center[:, None]
        return np.where(self.moving[:, None], center + (beta - center) / sigma, beta)

    def beta(self, phi: Array) -> Array:
        """(p, m) of the scores of classes, whose common shift counts for nothing; else phi itself."""
        # the columns of C are orthonormal and sum to zero
        if self.contrast is None:
            return phi
        return phi @ self.contrast

    def between_scores(self, M: Array) -> Array:
        """A matrix over vec(beta) as one over vec(phi), for classes."""
        if self.contrast is None:
            return M
        return between_outcomes(M, self.contrast)

    def log_prob(self, phi: Array) -> float:
        return sum(
            float(part.prior.log_prob(phi[part.columns], part.unit))
            for part in self.parts
        )

    def ends(self, phi: Array) -> tuple[Array, Array]:
        """The subdifferential of -log p, entry by entry: lower and upper ends (p, m), widened by what rounding of phi can
        change; zero where there is no kink."""
        low = np.zeros(self.shape)
        high = np.zeros(self.shape)
        for part in self.parts:
            at = phi[part.columns]
            slack = _ROUNDING * (np.abs(at) + np.abs(part.center)[:, None])
            first = [
                part.prior.subgradient(v, part.unit)
                for v in (at - slack, at, at + slack)
            ]
            low[part.columns] = np.min([f[0] for f in first], 0)
            high[part.columns] = np.max([f[1] for f in first], 0)
        return low, high

    def slope(self, phi: Array) -> Array:
        """The derivative of -log p (p, m) off the kinks; at one, what lies nearest to zero."""
        out = np.zeros(self.shape)
        for part in self.parts:
            low, high = part.prior.subgradient(phi[part.columns], part.unit)
            out[part.columns] = np.where(np.isfinite(low), np.clip(0.0, low, high), 0.0)
        return out

    def at(self, phi: Array) -> Array:
        """(p, m) bool: entries that sit at the centre of a prior that is not twice differentiable there."""
        out = np.zeros(self.shape, bool)
        for part in self.parts:
            at = phi[part.columns] == part.center[:, None]
            found = part.weights
            if isinstance(part.prior, GroupedPrior):
                for g in part.prior.members(len(part.columns)):
                    at[g] = at[g].all(0)
            if found is None:
                pointed = np.ones(len(part.columns), bool)
            else:
                pointed = found[0] > 0
            out[part.columns] = pointed[:, None] & at
        return out

    def hessian(self, phi: Array) -> Array:
        """The second derivative of -log p (p, m) off the kinks, by differences of the first; zero elsewhere."""
        out = np.zeros(self.shape)
        for part in self.parts:
            at = phi[part.columns]
            center = part.center[:, None]
            if part.weights is not None:
                out[part.columns] = part.weights[1][:, None]
                continue
            h = 1e-4 * np.abs(at - center)
            # f''(x) = (f'(x + h) - f'(x - h)) / (2 h) + O(h^2)
            safe = np.where(h > 0, h, 1.0)
            ahead, behind = (
                part.prior.subgradient(at + t * h, part.unit)[0] for t in (1.0, -1.0)
            )
            with np.errstate(invalid="ignore"):
                out[part.columns] = np.where(h > 0, (ahead - behind) / (2 * safe), 0.0)
        return out


def smooth_part(model: Model) -> Model:
    """The same rows and likelihood under the smooth blocks alone; columns of the others are flat."""
    # flat columns are stated, since those of a smooth function have another default
    smooth = [
        replace(b, prior=Flat()) if isinstance(b.prior, ProximalPrior) else b
        for b in model.joint.blocks
    ]
    return model.with_prior(mapping_of(smooth, model.design.columns))


def separable_basis(model: Model, nonsmooth: NonsmoothTerms) -> Frame:
    """Centred and scaled columns; not centred where the intercept, which would take up the shifts, has a kink of its own."""
    basis = model.design.basis
    if basis.intercept is None or not nonsmooth.touched[basis.intercept]:
        return basis
    size = np.sqrt((model.design.sample.X**2).mean(0))
    return replace(
        basis,
        shift=np.zeros_like(size),
        scale=np.where(size > 0, size, 1.0),
        intercept=None,
    )


def distance_to_subgradient(gradient: Array, low: Array, high: Array) -> Array:
    """How far zero is from gradient + [low, high], entry by entry."""
    # The distance of 0 from [g + low, g + high] is max(g + low, -(g + high), 0).
    return np.maximum(np.maximum(gradient + low, -(gradient + high)), 0.0)
