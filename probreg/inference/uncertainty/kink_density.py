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
_FEW = 5.0  # observations for each column that the thinner side needs: coverage of 95 % intervals is simulated in the tests
_ROUNDINGS = 4.0  # of the terms of a residual, in its sum and in the coefficients
_EQUAL = 1e-11  # of the largest residual: residuals that differ by less are equal to rounding


def curvature_at_kinks(model: Model, solution: Solution) -> Array:
    """up K_h(r_i - tube) + down K_h(r_i + tube) of each row, (n,), of the expected second derivative over eta."""
    likelihood = model.likelihood
    design = model.design
    assert isinstance(
        likelihood, PiecewiseLinearLikelihood
    )  # who asks has asked the likelihood
    eta = model.eta(solution.beta)
    known = likelihood.at_rows({**model.fixed, **solution.aux}, design.precision)
    at = likelihood.slopes(**known)
    r = likelihood.residuals(design.observed, eta, **known)
    # rows that the fit interpolates lie on a kink but for the rounding of the terms of x'beta
    terms = np.abs(design.X) @ np.abs(solution.beta[:, 0]) + np.abs(design.observed)
    rounding = _ROUNDINGS * np.finfo(float).eps * terms
    for kink in (at.tube, -at.tube):
        r = np.where(np.abs(r - kink) <= rounding, kink, r)
    w = full_weights(design.weights, design.n)
    if np.all(np.asarray(at.tube) == 0.0):
        # without a tube the share of residuals below 0 is that of the slopes, tau of a quantile
        share = float(np.mean(at.up / (at.up + at.down)))
        # columns that are combinations of others, between which a prior decides, fit no more of the rows
        beyond = float(w.sum()) * min(share, 1.0 - share)
        p = design.moments.rank.rank
        if beyond < _FEW * p * (1.0 - 1e-9):  # rounding of tau apart
            raise Incompatible(
                f"a sandwich covariance needs the density of the residuals at the quantile, on one side of which {beyond:.3g} of "
                f"{w.sum():g} observations are expected, fewer than {_FEW:g} for each of {p} columns. Use a bootstrap"
            )
        return (at.up + at.down) * _near(r, 0.0, share, w)
    above, below = (
        _near(r, kink, _share_below(r, kink, w), w) for kink in (at.tube, -at.tube)
    )
    return at.up * above + at.down * below


def _share_below(r: Array, kink: Array | float, w: Array) -> float:
    """The share of residuals below a kink; those on it count half, so that the share above is that of the mirror image."""
    return float((w @ (r < kink) + 0.5 * (w @ (r == kink))) / w.sum())


def _near(r: Array, kink: Array | float, share: float, w: Array) -> Array:
    """K((r_i - kink) / h) / h, K Epanechnikov's kernel, where this share of the residuals is below the kink."""
    n = float(w.sum())
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
            f"a sandwich covariance needs the density of the residuals at {float(np.mean(kink)):.4g}, below which a share of {share:.3g} "
            f"lies: {n:g} observations are too few. Use a bootstrap"
        )
    order = np.argsort(r)
    # quartiles between the middles of the observations, a row of weight w being w of them: those of -r have the other sign
    cum = np.cumsum(w[order])
    half = np.minimum(0.5, 0.5 * w[order])
    middles = np.column_stack([cum - w[order] + half, cum - half]).ravel()
    places = np.interp([0.25, 0.75], middles / n, np.repeat(r[order], 2))
    spread = min(
        float(np.sqrt(w @ (r - w @ r / n) ** 2 / n)),
        float(places[1] - places[0]) / 1.34,
    )
    h = spread * (scipy.stats.norm.ppf(share + c) - scipy.stats.norm.ppf(share - c))
    if not h > _EQUAL * np.abs(r).max():
        raise Incompatible(
            "a sandwich covariance needs residuals that differ, and half of these are equal"
        )
    # rows that the fit interpolates are at the kink whatever the density is: the others stand for them
    on = r == kink
    return (
        np.where(on, 0.0, 0.75 * np.maximum(1.0 - ((r - kink) / h) ** 2, 0.0) / h)
        * n
        / (n - float(w @ on))
    )
