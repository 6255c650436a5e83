"""The density of the residuals at the kinks of a piecewise linear loss: what stands for second derivatives in a sandwich.

E[d score / d eta] = -(up f(tube) + down f(-tube)) for residuals of density f given the row. Row by row it is estimated by a kernel
(Powell 1991), with the bandwidth of Hall & Sheather 1988 at the share of residuals below each kink.
"""

import numpy as np
import scipy

from probreg.data.rows import full_weights
from probreg.errors import Incompatible
from probreg.inference.base import Array, Solution
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.model.model import Model

_LEVEL = 0.975  # of the interval whose length the bandwidth makes right
_EQUAL = 1e-11  # of the largest residual: residuals that differ by less are equal to rounding


def curvature_at_kinks(model: Model, solution: Solution) -> Array:
    """up K_h(r_i - tube) + down K_h(r_i + tube) of each row, (n,), of the expected second derivative over eta."""
    likelihood, design = model.likelihood, model.design
    assert isinstance(likelihood, PiecewiseLinearLikelihood)  # who asks has asked the likelihood
    eta, known = model.eta(solution.beta), likelihood.at_rows({**model.fixed, **solution.aux}, design.precision)
    at, r = likelihood.slopes(**known), likelihood.residuals(design.observed, eta, **known)
    if np.all(np.asarray(at.tube) == 0.0):
        return (at.up + at.down) * _near(r, 0.0, design.weights)
    return at.up * _near(r, at.tube, design.weights) + at.down * _near(r, -at.tube, design.weights)


def _near(r: Array, kink: Array | float, weights: Array | None) -> Array:
    """K((r_i - kink) / h) / h, K Epanechnikov's kernel."""
    w = full_weights(weights, len(r))
    n, share = float(w.sum()), float(w[r <= kink].sum() / w.sum())
    # c = n^(-1/3) z^(2/3) [3 phi(q)^2 / (2 (2 q^2 + 1))]^(1/3), q = Phi^-1(share); h = s [Phi^-1(share + c) - Phi^-1(share - c)],
    # s the smaller of the standard deviation and IQR / 1.34
    q = scipy.stats.norm.ppf(share)
    c = (
        n ** (-1 / 3)
        * scipy.stats.norm.ppf(_LEVEL) ** (2 / 3)
        * (1.5 * scipy.stats.norm.pdf(q) ** 2 / (2.0 * q**2 + 1.0)) ** (1 / 3)
    )
    if not c < min(share, 1.0 - share):
        raise Incompatible(
            f"a sandwich covariance needs the density of the residuals at {kink:.4g}, below which {share:.3g} of them lie: "
            f"{n:g} observations are too few. Ask for 'expected', or bootstrap"
        )
    order = np.argsort(r)
    places = np.interp([0.25, 0.75], np.cumsum(w[order]) / n, r[order])
    spread = min(float(np.sqrt(w @ (r - w @ r / n) ** 2 / n)), float(places[1] - places[0]) / 1.34)
    h = spread * (scipy.stats.norm.ppf(share + c) - scipy.stats.norm.ppf(share - c))
    if not h > _EQUAL * np.abs(r).max():
        raise Incompatible("a sandwich covariance needs residuals that differ, and half of these are equal")
    return 0.75 * np.maximum(1.0 - ((r - kink) / h) ** 2, 0.0) / h
