"""Whether a maximum of the likelihood exists, proved from what a search found, at the cost of one pass over the rows."""

from functools import partial

import numpy as np

from probreg.inference.base import Array
from probreg.model.likelihood_sums import largest_block
from probreg.model.model import Model


def exists(model: Model, gradient: Array, cov: Array) -> bool:
    """A proof that the maximum of a canonical likelihood exists: nu R < 1, with the Newton decrement nu and the largest
    |x_i v|, R, over the rows and over directions v of unit length in the curvature H. False is no proof of the contrary.

    `gradient` (p m,) and `cov` = H^-1 are taken at one point over the coefficients of the standardised columns, without a
    prior. Row by row the third derivative along v is at most |x_i v| times the second, so that the curvature falls no faster
    than exp(-R t), and the log-likelihood, having gone t along v, falls at a rate of at least (1 - exp(-R t)) / R - nu. When
    nu R < 1 that is positive before long, in every direction. In a softmax |x_i v| is the difference of two classes,
    at most sqrt 2 times the length over the predictors.
    Source: Bach 2010, Self-concordant analysis for logistic regression.
    """
    (p, m), T = model.shape, model.design.basis.T
    nu = np.sqrt(max(gradient @ cov @ gradient, 0.0))
    A = T @ np.einsum("icjc->ij", cov.reshape(p, m, p, m)) @ T.T
    try:
        root = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    R = np.sqrt(min(m, 2.0)) * model.design.fold(partial(largest_block, root=root), max)
    return bool(nu * R < 0.25)  # a fourth, for rounding
