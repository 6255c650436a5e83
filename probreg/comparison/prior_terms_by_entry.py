"""The derivatives of a smooth prior of the coefficients entry by entry, so that each column has its own part of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.priors.joint import JointPrior, location_of

Array = np.ndarray


class PriorTerms(NamedTuple):
    """The derivatives of log p(beta | sigma) for each entry of vec beta, and its contribution to the derivatives over log sigma."""

    g: Array  # (k,)
    H: Array  # (k, k), negative
    g_scale: Array  # (k,), sums to the slope over log sigma
    h_scale: Array  # (k,), sums to the negative second derivative over it
    cross: Array  # (k,), the mixed one

    def scale_rows(self, w: Array) -> "PriorTerms":
        return PriorTerms(
            w * self.g,
            w[:, None] * self.H,
            w * self.g_scale,
            w * self.h_scale,
            w * self.cross,
        )

    def plus(self, other: "PriorTerms") -> "PriorTerms":
        return PriorTerms(*(a + b for a, b in zip(self, other)))


@dataclass(frozen=True, eq=False)
class PriorSide:
    """The smooth prior of the coefficients (p, m) of one of the two models, in entries of vec beta."""

    joint: JointPrior
    m: int

    @cached_property
    def relative(self) -> Array:
        """(k,), 1 if the scale of the entry is in units of sigma, otherwise 0."""
        return np.repeat(self.joint.sigma_units.astype(float), self.m)

    @cached_property
    def centre(self) -> Array:
        """(k,), the centres of the priors in units of sigma."""
        centres = np.zeros(len(self.relative))
        for b in self.joint.blocks:
            if b.prior.sigma_units:
                centres[b.entries(self.m)] = np.repeat(location_of(b), b.width(self.m))
        return centres

    @cached_property
    def quadratic(self) -> tuple[Array, Array] | None:
        """The precision (k, k) in units of sigma or not, and the mean (k,), if every prior is normal or flat."""
        if not self.joint.gaussian:
            return None
        return self.joint.precision_of_entries(self.m), np.repeat(
            self.joint.center, self.m
        )

    def terms(self, beta: Array, sigma: float) -> tuple[float, PriorTerms]:
        """log p(beta | sigma) up to a constant, and its terms."""
        k = beta.size
        r = self.relative * (beta.ravel() - self.centre)
        if self.quadratic is None:
            value, g, H = self.joint.value_grad_hessian(beta, sigma)
            g = g[:k]
            H = H[:k, :k]
        else:
            # -(beta - c)'P (beta - c) / 2 - k log sigma, P over sigma^2 in its units
            H = (
                self.quadratic[0]
                * np.where(self.relative > 0, sigma**-2.0, 1.0)[:, None]
            )
            g = H @ (self.quadratic[1] - beta.ravel())
            value = -0.5 * float(g @ (self.quadratic[1] - beta.ravel())) - float(
                self.relative.sum() * np.log(sigma)
            )
        # in units of sigma log p = f(r / sigma) - k log sigma: -r'g - k, r'H r - r'g and g - H r, entry by entry
        Hr = H @ r
        scale = (
            self.relative * (-r * g - 1.0),
            self.relative * (r * Hr - r * g),
            self.relative * (g - Hr),
        )
        return value, PriorTerms(g, H, *scale)
