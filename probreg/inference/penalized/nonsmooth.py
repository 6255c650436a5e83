"""The part of a prior with kinks, and the search coordinates for a mode under it.

Blocks of `ProximalPrior` are separated from the smooth ones: the smooth part is a model
of its own, with gradient and curvature. The kinked part is separable, also when columns
are scaled, and when coefficients in units of an unknown sigma are written as phi, with
beta = location + sigma (phi - location). This module does not iterate.
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
    """Return why a mode under a prior with kinks has no standard errors, and which
    method gives a spread."""
    if model.joint.contrast is not None:
        return f"a mode under a prior with kinks has no standard errors, and {PENALTY_OF_CLASSES}"
    return "a mode under a prior with kinks has no standard errors: nuts samples the posterior and gives its spread"


def has_nonsmooth_terms(model: Model) -> bool:
    """Whether some block of the prior is not twice differentiable."""
    return any(isinstance(b.prior, ProximalPrior) for b in model.joint.blocks)


class NonsmoothBlock(NamedTuple):
    """One prior with kinks, its columns, and the unit of its scales."""

    prior: ProximalPrior
    columns: Array  # (q,)
    unit: float

    @property
    def center(self) -> Array:
        """(q,), the positions of its kinks."""
        this: Any = self.prior
        return np.broadcast_to(
            np.asarray(this.location, dtype=float), len(self.columns)
        )

    @property
    def weights(self) -> tuple[Array, Array] | None:
        """l1 and l2 weights (q,) with -log p = sum a_j |r_j| + l_j r_j^2 / 2 + constant
        over r = phi - center; None for other forms."""
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
        """Weights, exponents and l2 weights (q,) with -log p = sum w_j |r_j|^e_j + l_j
        r_j^2 / 2 + constant; None for other forms."""
        prior: Any = self.prior
        if isinstance(prior, ExponentialPower) and self.weights is None:
            s = np.broadcast_to(prior.scales * self.unit, len(self.columns))
            return s**-prior.q, np.full(len(s), prior.q), np.zeros(len(s))
        if self.weights is None:
            return None
        return (self.weights[0], np.ones(len(self.columns)), self.weights[1])


class Norms(NamedTuple):
    """-log p = sum over groups of |metric_g (phi_g - center_g)| + ridge (phi -
    center)^2 / 2 + constant, for one predictor."""

    groups: tuple[Array, ...]  # columns; a column without a group has no kink
    metric: Array  # (p,)
    ridge: Array  # (p,)


def _has_weights(prior: ProximalPrior) -> bool:
    return isinstance(prior, Laplace | ElasticNet) or (
        isinstance(prior, ExponentialPower) and prior.q in (1.0, 2.0)
    )


@dataclass(frozen=True, eq=False)
class NonsmoothTerms:
    """log p of the kinked blocks as a function of phi (p, m).

    phi is beta, except in the columns marked `in_sigma_units`, in units of sigma: beta =
    location + sigma (phi - location). For K classes with a common contrast C, phi (p,
    K) are their scores, with beta = phi C.
    """

    parts: tuple[NonsmoothBlock, ...]
    shape: tuple[int, int]
    in_sigma_units: Array  # (p,) bool: in units of an unknown sigma
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
        """(K, m), if the prior covers the coefficients of all K classes."""
        return self.joint.contrast

    @property
    def kinked(self) -> Array:
        """(p,) bool: columns with kinks in their prior."""
        kinked = np.zeros(self.shape[0], bool)
        for part in self.parts:
            kinked[part.columns] = True
        return kinked

    @property
    def convex(self) -> bool:
        return all(part.prior.convex for part in self.parts)

    @property
    def center(self) -> Array:
        """(p,), zero for columns without a kink."""
        center = np.zeros(self.shape[0])
        for part in self.parts:
            center[part.columns] = part.center
        return center

    @property
    def weights(self) -> tuple[Array, Array] | None:
        """l1 and l2 weights (p,), if every part has this form."""
        a = np.zeros(self.shape[0])
        l2 = np.zeros(self.shape[0])
        for part in self.parts:
            of_part = part.weights
            if of_part is None:
                return None
            a[part.columns], l2[part.columns] = of_part
        return a, l2

    @property
    def powers(self) -> tuple[Array, Array, Array] | None:
        """Weights, exponents and l2 weights (p,), if every part has this form."""
        w = np.zeros(self.shape[0])
        e = np.ones(self.shape[0])
        l2 = np.zeros(self.shape[0])
        for part in self.parts:
            of_part = part.powers
            if of_part is None:
                return None
            w[part.columns], e[part.columns], l2[part.columns] = of_part
        return w, e, l2

    @property
    def has_groups(self) -> bool:
        """Whether some entries share a kink."""
        return any(isinstance(part.prior, GroupedPrior) for part in self.parts)

    @property
    def norms(self) -> Norms | None:
        """The parts as norms of groups; a coefficient with an l1 weight is a group of
        one. None for other forms."""
        groups: list[Array] = []
        metric = np.zeros(self.shape[0])
        ridge = np.zeros(self.shape[0])
        for part in self.parts:
            if isinstance(part.prior, GroupedPrior):
                groups += [
                    part.columns[g] for g in part.prior.members(len(part.columns))
                ]
                metric[part.columns] = 1.0 / (part.prior.scales * part.unit)
            elif (weights := part.weights) is None:
                return None
            else:
                metric[part.columns], ridge[part.columns] = weights
                groups += [
                    part.columns[j : j + 1] for j in np.flatnonzero(weights[0] > 0)
                ]
        return Norms(tuple(groups), metric, ridge)

    def phi(self, beta: Array, sigma: float) -> Array:
        """(p, m), beta except in the columns marked `in_sigma_units`; the scores (p, K) for
        classes."""
        if self.contrast is not None:
            return self.joint.scores(beta)
        # beta = b + sigma (phi - b)
        center = self.center[:, None]
        return np.where(
            self.in_sigma_units[:, None], center + (beta - center) / sigma, beta
        )

    def beta(self, phi: Array) -> Array:
        """(p, m) from the scores of classes, with any common shift; otherwise phi
        itself."""
        # the columns of C are orthonormal and sum to zero
        if self.contrast is None:
            return phi
        return phi @ self.contrast

    def between_scores(self, M: Array) -> Array:
        """For classes, convert a matrix over vec(beta) to one over vec(phi)."""
        if self.contrast is None:
            return M
        return between_outcomes(M, self.contrast)

    def log_prob(self, phi: Array) -> float:
        return sum(
            float(part.prior.log_prob(phi[part.columns], part.unit))
            for part in self.parts
        )

    def ends(self, phi: Array) -> tuple[Array, Array]:
        """The subdifferential of -log p by entry: lower and upper ends (p, m), widened
        by the rounding of phi; zero for entries without a kink."""
        low = np.zeros(self.shape)
        high = np.zeros(self.shape)
        for part in self.parts:
            phi_of_part = phi[part.columns]
            slack = _ROUNDING * (np.abs(phi_of_part) + np.abs(part.center)[:, None])
            first = [
                part.prior.subgradient(v, part.unit)
                for v in (phi_of_part - slack, phi_of_part, phi_of_part + slack)
            ]
            low[part.columns] = np.min([f[0] for f in first], 0)
            high[part.columns] = np.max([f[1] for f in first], 0)
        return low, high

    def slope(self, phi: Array) -> Array:
        """The derivative of -log p (p, m) off the kinks; at a kink, the subgradient
        nearest to zero."""
        slope = np.zeros(self.shape)
        for part in self.parts:
            low, high = part.prior.subgradient(phi[part.columns], part.unit)
            slope[part.columns] = np.where(
                np.isfinite(low), np.clip(0.0, low, high), 0.0
            )
        return slope

    def at(self, phi: Array) -> Array:
        """(p, m) bool: entries at the centre of a prior that is not twice
        differentiable there."""
        at_kink = np.zeros(self.shape, bool)
        for part in self.parts:
            is_center = phi[part.columns] == part.center[:, None]
            weights = part.weights
            if isinstance(part.prior, GroupedPrior):
                for g in part.prior.members(len(part.columns)):
                    is_center[g] = is_center[g].all(0)
            if weights is None:
                pointed = np.ones(len(part.columns), bool)
            else:
                pointed = weights[0] > 0
            at_kink[part.columns] = pointed[:, None] & is_center
        return at_kink

    def hessian(self, phi: Array) -> Array:
        """The second derivative of -log p (p, m) off the kinks, by differences of the first; zero elsewhere."""
        hessian = np.zeros(self.shape)
        for part in self.parts:
            phi_of_part = phi[part.columns]
            center = part.center[:, None]
            if part.weights is not None:
                hessian[part.columns] = part.weights[1][:, None]
                continue
            h = 1e-4 * np.abs(phi_of_part - center)
            # f''(x) = (f'(x + h) - f'(x - h)) / (2 h) + O(h^2)
            safe = np.where(h > 0, h, 1.0)
            ahead, behind = (
                part.prior.subgradient(phi_of_part + t * h, part.unit)[0]
                for t in (1.0, -1.0)
            )
            with np.errstate(invalid="ignore"):
                hessian[part.columns] = np.where(
                    h > 0, (ahead - behind) / (2 * safe), 0.0
                )
        return hessian


def smooth_part(model: Model) -> Model:
    """Return the model with the smooth blocks only; the other columns have flat
    priors."""
    # flat priors are explicit, because the columns of a smooth function have another
    # default
    smooth = [
        replace(b, prior=Flat()) if isinstance(b.prior, ProximalPrior) else b
        for b in model.joint.blocks
    ]
    return model.with_prior(mapping_of(smooth, model.design.columns))


def separable_basis(model: Model, nonsmooth: NonsmoothTerms) -> Frame:
    """Return centred and scaled columns; not centred if the intercept, which would
    absorb the shifts, has a kink."""
    basis = model.design.basis
    if basis.intercept is None or not nonsmooth.kinked[basis.intercept]:
        return basis
    size = np.sqrt((model.design.sample.X**2).mean(0))
    return replace(
        basis,
        shift=np.zeros_like(size),
        scale=np.where(size > 0, size, 1.0),
        intercept=None,
    )


def distance_to_subgradient(gradient: Array, low: Array, high: Array) -> Array:
    """Return the distance of zero from gradient + [low, high] by entry."""
    # The distance of 0 from [g + low, g + high] is max(g + low, -(g + high), 0).
    return np.maximum(np.maximum(gradient + low, -(gradient + high)), 0.0)
