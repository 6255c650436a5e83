"""Quantiles of the size of one coefficient under its prior, without draws."""

import numpy as np
import scipy

from probreg.priors.base import Array, GaussianPrior, Prior
from probreg.priors.location_scale import LocationScale
from probreg.special import ndtr


def size_quantiles(
    prior: Prior, j: int, q: int, unit: float, shares: tuple[float, ...]
) -> Array | None:
    """Return x with P(|w| <= x) = share for entry j of a block of q columns; None if its distribution function is not known.

    `unit` multiplies the scales of a prior in units of the noise.

    >>> from probreg.priors import Normal
    >>> size_quantiles(Normal(2.0), 0, 1, 1.0, (0.95,)).round(6)  # 1.959964 sd
    array([3.919928])
    """
    if isinstance(prior, GaussianPrior):
        # Entry j of N(b, P^-1): b_j and ((P^-1)_jj)^(1/2).
        location = float(prior.center(q)[j])
        scale = float(np.sqrt(np.linalg.inv(prior.precision(q))[j, j]))
        tail = lambda r: ndtr(-r)
    elif isinstance(prior, LocationScale) and prior.standard_tail(0.0) is not None:
        location = float(prior.on_columns(prior.location, q)[j, 0])
        scale = float(prior.on_columns(prior.scales, q)[j, 0])
        tail = prior.standard_tail
    else:
        return None
    if prior.sigma_units:
        scale *= unit
    below = lambda r: tail(-r) if r < 0 else 1.0 - tail(r)

    def within(log_x: float) -> float:
        x = np.exp(log_x)
        return below((x - location) / scale) - below((-x - location) / scale)

    def quantile(share: float) -> float:
        low = high = np.log(abs(location) + scale)
        while within(low) > share:
            low -= 2.0
        while within(high) < share:
            high += 2.0
        return scipy.optimize.brentq(
            lambda t: within(t) - share, low, high, xtol=1e-13, rtol=1e-14
        )

    return np.exp([quantile(share) for share in shares])
