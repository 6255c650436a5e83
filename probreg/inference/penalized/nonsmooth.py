"""The part of a prior with kinks, and the search coordinates for a mode under it.

Blocks of `ProximalPrior` are separated from the smooth ones: the smooth part is a model
of its own, with gradient and curvature. The kinked part is a `KinkedPenalty`, also when columns
are scaled, and when coefficients in units of an unknown sigma are written as phi, with
beta = location + sigma (phi - location). This module does not iterate.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.data import Frame
from probreg.inference.base import Array
from probreg.inference.penalized.penalty import KinkedPenalty
from probreg.linalg.vec import between_outcomes
from probreg.model.model import Model
from probreg.priors import Flat, ProximalPrior
from probreg.priors.joint import PENALTY_OF_CLASSES, JointPrior, mapping_of


def no_errors(model: Model) -> str:
    """Return why a mode under a prior with kinks has no standard errors, and which
    method gives a spread."""
    if model.joint.contrast is not None:
        return f"a mode under a prior with kinks has no standard errors, and {PENALTY_OF_CLASSES}"
    return "a mode under a prior with kinks has no standard errors: nuts samples the posterior and gives its spread"


def has_nonsmooth_terms(model: Model) -> bool:
    """Whether some block of the prior is not twice differentiable."""
    return any(isinstance(b.prior, ProximalPrior) for b in model.joint.blocks)


@dataclass(frozen=True, eq=False)
class NonsmoothTerms:
    """-log p of the kinked blocks as a function of phi (p, m), up to a constant: `penalty` of each of its m columns.

    phi is beta, except in the columns marked `in_sigma_units`, in units of sigma: beta =
    location + sigma (phi - location). For K classes with a common contrast C, phi (p,
    K) are their scores, with beta = phi C.
    """

    penalty: KinkedPenalty  # over p columns
    shape: tuple[int, int]
    kinked: Array  # (p,) bool: columns with kinks in their prior
    in_sigma_units: Array  # (p,) bool: in units of an unknown sigma
    convex: bool
    joint: JointPrior

    @classmethod
    def of(cls, model: Model) -> "NonsmoothTerms":
        p = model.shape[0]
        penalty = KinkedPenalty.zero(p)
        kinked = np.zeros(p, bool)
        in_sigma_units = np.zeros(p, bool)
        priors = []
        for b in model.joint.blocks:
            if not isinstance(b.prior, ProximalPrior):
                continue
            prior: Any = b.prior
            columns = np.array(b.columns)
            kinks = prior.kinks(len(columns))
            unit = model.noise() if prior.sigma_units else 1.0
            penalty.metric[columns] = kinks.metric / unit
            penalty.exponent[columns] = kinks.exponent
            penalty.ridge[columns] = kinks.ridge / unit**2
            penalty.center[columns] = prior.location
            for g in kinks.groups:
                penalty.label[columns[g]] = columns[g[0]]
            kinked[columns] = True
            in_sigma_units[columns] = prior.sigma_units and model.noise_unknown
            priors.append(prior)
        contrast = model.joint.contrast
        m = model.shape[1] if contrast is None else len(contrast)
        convex = all(prior.convex for prior in priors)
        return cls(penalty, (p, m), kinked, in_sigma_units, convex, model.joint)

    @property
    def contrast(self) -> Array | None:
        """(K, m), if the prior covers the coefficients of all K classes."""
        return self.joint.contrast

    @property
    def center(self) -> Array:
        """(p,), zero for columns without a kink."""
        return self.penalty.center

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

    def at(self, phi: Array) -> Array:
        """(p, m) bool: entries at the center of a prior that is not twice
        differentiable there."""
        return (
            self.penalty.repeated(phi.shape[1]).at_kink(phi.ravel()).reshape(phi.shape)
        )


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
