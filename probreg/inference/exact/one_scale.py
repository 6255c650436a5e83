"""The log evidence of a Gaussian model with one prior scale and sigma: sums over
singular values, without matrices.

With W = U diag(d) V' and z as in `gaussian_surface`, over b = log noise = -2 log sigma and a = log(noise D^2), D the scale,

    S_i = 1 / (1 + e^a d_i^2),    Q(a) = sum_i (U'z)_i^2 S_i = min |z - W D u|^2 + |u|^2 / e^a,
    f(a, b) = [n (b - log 2 pi) - sum_i log(1 + e^a d_i^2) - e^b (Q(a) + rest) - e^a left] / 2 + constant,

`left` is the variance outside a basis of few anchors (`latent_groups`). With dS_i / da
= -S_i (1 - S_i), its derivatives are sums of the
same terms. Sigma has its maximum at e^-b = (Q(a) + rest) / n.
"""

from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array

LOG_2PI = float(np.log(2.0 * np.pi))


class OneScaleDerivatives(NamedTuple):
    """f at one (a, b), with two derivatives over these."""

    value: float
    gradient: Array  # (2,)
    hessian: Array  # (2, 2)
    effective: float  # parameters determined by the data, sum_i 1 - S_i


class OneScale(NamedTuple):
    """f(a, b) from squares of singular values and of the response along them."""

    square: Array  # (q,) d_i^2
    along: Array  # (q,) (U'z)_i^2
    before: Array  # (q,) d_i^2 in the determinant: under ML of the columns before flat ones are eliminated
    rest: float
    n: float
    constant: float
    left: float

    def values(self, a: Array, b: Array) -> Array:
        """f (S,) at a (S,) and b (S,)."""
        e = np.exp(a)[:, None]
        Q = (self.along / (1.0 + e * self.square)).sum(1)
        rss = np.exp(b) * (Q + self.rest)
        fit = self.n * (b - LOG_2PI) - np.log1p(e * self.before).sum(1)
        return 0.5 * (fit - rss - e[:, 0] * self.left) + self.constant

    def derivatives(self, a: float, b: float) -> OneScaleDerivatives:
        ratio = np.exp(a)
        noise = np.exp(b)
        e = ratio * self.square
        reml = self.before is self.square
        det = e if reml else ratio * self.before
        S = 1.0 / (1.0 + e)
        T = S if reml else 1.0 / (1.0 + det)
        slope = S * S * e
        shrinkage = det * T  # S (1 - S), and 1 - S without cancellation
        # e^b Q with its derivatives -sum (U'z)^2 S (1 - S) and sum (U'z)^2 S (1 - S) (1 - 2 S)
        Q = noise * (self.along @ S)
        Q1 = -noise * (self.along @ slope)
        Q2 = noise * (self.along @ (slope * (1 - 2 * S)))
        rss = Q + noise * self.rest
        bound = ratio * self.left
        effective = shrinkage.sum()
        value = (
            0.5 * (self.n * (b - LOG_2PI) - np.log1p(det).sum() - rss - bound)
            + self.constant
        )
        gradient = 0.5 * np.array([-effective - Q1 - bound, self.n - rss])
        hessian = -0.5 * np.array([[shrinkage @ T + Q2 + bound, Q1], [Q1, rss]])
        return OneScaleDerivatives(float(value), gradient, hessian, float(effective))
