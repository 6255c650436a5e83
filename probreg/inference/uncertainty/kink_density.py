"""The density of the residuals at the kinks of a piecewise linear loss, which replaces
second derivatives in a sandwich.

E[d score / d eta] = -(up f(tube) + down f(-tube)) for residuals of density f given the
row. A kernel estimates it for each row (Powell 1991), with the bandwidth of Hall &
Sheather 1988 at the share of residuals below each kink.
"""

import numpy as np
import scipy

from probreg.data.rows import full_weights
from probreg.errors import Incompatible
from probreg.inference.base import Array, Solution
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.model.model import Model


def curvature_at_kinks(model: Model, solution: Solution) -> Array:
    """Return up K_h(r_i - tube) + down K_h(r_i + tube) of each row, (n,), the expected
    second derivative over eta."""
    # rounding errors of the terms of a residual, in its sum and in the coefficients
    n_roundings = 4.0
    # observations per column that the smaller side needs, from simulated coverage of 95
    # % intervals
    min_rows = 5.0
    likelihood = model.likelihood
    design = model.design
    assert isinstance(likelihood, PiecewiseLinearLikelihood)  # callers check this
    eta = model.eta(solution.beta)
    values = likelihood.at_rows({**model.fixed, **solution.aux}, design.precision)
    slopes = likelihood.slopes(**values)
    r = likelihood.residuals(design.observed, eta, **values)
    # rows that the fit interpolates lie on a kink up to the rounding of the terms of
    # x'beta
    terms = np.abs(design.X) @ np.abs(solution.beta[:, 0]) + np.abs(design.observed)
    rounding = n_roundings * np.finfo(float).eps * terms
    for kink in (slopes.tube, -slopes.tube):
        r = np.where(np.abs(r - kink) <= rounding, kink, r)
    w = full_weights(design.weights, design.n)
    if np.all(np.asarray(slopes.tube) == 0.0):
        # without a tube the share of residuals below 0 follows from the slopes, tau for
        # a quantile
        share = float(np.mean(slopes.up / (slopes.up + slopes.down)))
        # dependent columns, for which a prior decides, do not fit more rows
        thinner_side = float(w.sum()) * min(share, 1.0 - share)
        p = design.moments.rank.rank
        if thinner_side < min_rows * p * (1.0 - 1e-9):  # up to rounding of tau
            raise Incompatible(
                f"a sandwich covariance needs the density of the residuals at the quantile, and one side of it has {thinner_side:.3g} of "
                f"{w.sum():g} expected observations, fewer than {min_rows:g} for each of {p} columns. Use a bootstrap"
            )
        return (slopes.up + slopes.down) * _near(r, 0.0, share, w)
    curvature = np.zeros(len(r))
    for slope, kink in ((slopes.up, slopes.tube), (slopes.down, -slopes.tube)):
        # residuals on a kink count half, for symmetry
        share = float((w @ (r < kink) + 0.5 * (w @ (r == kink))) / w.sum())
        curvature = curvature + slope * _near(r, kink, share, w)
    return curvature


def _near(r: Array, kink: Array | float, share: float, w: Array) -> Array:
    """Return K((r_i - kink) / h) / h, K Epanechnikov's kernel, if this share of the
    residuals is below the kink."""
    # relative to the largest residual: residuals closer than this are equal
    smallest = 1e-11
    level = 0.975  # level of the interval for which the bandwidth is optimal
    n = float(w.sum())
    # c = n^(-1/3) z^(2/3) [3 phi(q)^2 / (2 (2 q^2 + 1))]^(1/3), q = Phi^-1(share); h = s [Phi^-1(share + c) - Phi^-1(share - c)],
    # s the smaller of the standard deviation and IQR / 1.34
    q = scipy.stats.norm.ppf(share)
    c = (
        n ** (-1 / 3)
        * scipy.stats.norm.ppf(level) ** (2 / 3)
        * (1.5 * scipy.stats.norm.pdf(q) ** 2 / (2.0 * q**2 + 1.0)) ** (1 / 3)
    )
    if not c < min(share, 1.0 - share):
        raise Incompatible(
            f"a sandwich covariance needs the density of the residuals at {float(np.mean(kink)):.4g}, with a share of {share:.3g} "
            f"below it: {n:g} observations are too few. Use a bootstrap"
        )
    order = np.argsort(r)
    # quartiles between the midpoints of the observations, with a row of weight w as w
    # rows, so that -r gives the opposite sign
    cum = np.cumsum(w[order])
    half = np.minimum(0.5, 0.5 * w[order])
    middles = np.column_stack([cum - w[order] + half, cum - half]).ravel()
    places = np.interp([0.25, 0.75], middles / n, np.repeat(r[order], 2))
    spread = min(
        float(np.sqrt(w @ (r - w @ r / n) ** 2 / n)),
        float(places[1] - places[0]) / 1.34,
    )
    h = spread * (scipy.stats.norm.ppf(share + c) - scipy.stats.norm.ppf(share - c))
    if not h > smallest * np.abs(r).max():
        raise Incompatible(
            "a sandwich covariance needs distinct residuals, and half of these are equal"
        )
    # interpolated rows are at the kink for any density, so the other rows replace them
    on = r == kink
    return (
        np.where(on, 0.0, 0.75 * np.maximum(1.0 - ((r - kink) / h) ** 2, 0.0) / h)
        * n
        / (n - float(w @ on))
    )
