"""Quantiles of finite mixtures of a family by compiled code, for the normal and the Poisson family."""

from collections.abc import Mapping

import numpy as np

from probreg.likelihoods.base import Array
from probreg.special import ndtri


def of_normals(
    prob: float, eta: Array, aux: Mapping[str, Array], share: Array
) -> Array:
    """The quantiles (n,) of sum_s w_s N(eta_s, sigma_s^2), eta (S, n, 1); nan if the search does not converge."""
    from probreg.compiled.quantiles import normal_mixture_quantiles

    # the upper tail of y is the lower tail of -y
    if prob <= 0.5:
        sign = 1.0
    else:
        sign = -1.0
    mean = np.ascontiguousarray(sign * eta[..., 0].T)
    scale = np.ascontiguousarray(aux["sigma"].T, dtype=float)
    quantiles = np.full(len(mean), np.nan)
    tail = min(prob, 1.0 - prob)
    if len(share) and tail > 0.0 and scale.min() > 0.0 and np.isfinite(scale).all():
        normal_mixture_quantiles(
            mean, scale, share, tail, float(ndtri(tail)), quantiles
        )
    return sign * quantiles


def of_poissons(
    prob: float, eta: Array, aux: Mapping[str, Array], share: Array
) -> Array:
    """The quantiles (n,) of sum_s w_s Poisson(exp(eta_s)), eta (S, n, 1); nan for a mean above 300, which needs many terms."""
    from probreg.compiled.quantiles import MOST_POISSON_MEAN, poisson_mixture_quantiles

    almost_one = 1.0 - 1e-10  # above it the rounding error of the sum decides the count
    eta = eta[..., 0].T
    # the general search also handles nan
    few = eta.max(1) <= np.log(MOST_POISSON_MEAN)
    quantiles = np.full(len(eta), np.nan)
    few_quantiles = np.empty(int(few.sum()))
    if prob < almost_one:
        poisson_mixture_quantiles(
            np.exp(np.ascontiguousarray(eta[few])),
            share,
            prob,
            np.empty(len(share)),
            few_quantiles,
        )
        quantiles[few] = few_quantiles
    return quantiles
