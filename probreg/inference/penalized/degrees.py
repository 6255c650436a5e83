"""Effective degrees of freedom of a mode: how many coefficients its fitted values spend.

With H the information of the likelihood and P the curvature of -log prior, both over the coefficients that are off their
kinks, it is trace(H (H + P)^-1): the number of them for flat and Laplace priors (Zou, Hastie & Tibshirani 2007), the trace
of the smoother for ridge, and the elastic net's formula (Tibshirani & Taylor 2012).
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from probreg.data import Block
from probreg.data.rows import times_weights
from probreg.inference.base import Array
from probreg.inference.penalized.nonsmooth import NonsmoothTerms, smooth_part
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.frame import vec_entries
from probreg.numerics.linalg import weighted_gram


def degrees_of_freedom(model: Model, beta: Array, **aux: float) -> float:
    """trace(H (H + P)^-1) over the coefficients off their kinks, given aux."""
    nonsmooth, (_, m) = NonsmoothTerms.of(model), model.shape
    known = {**model.fixed, **aux}
    free = ~nonsmooth.at(nonsmooth.phi(beta, model.likelihood.noise(known)))
    weights = nonsmooth.weights
    flat = ~model.joint.informative
    if weights is not None and not weights[1].any() and (nonsmooth.touched | flat).all() and flat.sum() < 2:
        # P = 0 off the kinks: tr HH^-1 counts them   (Zou, Hastie & Tibshirani 2007).
        return float(free.sum())
    columns = np.flatnonzero(free.any(1))
    off = free[columns].ravel()
    H = information_of(model, beta, columns, **aux)[np.ix_(off, off)]
    at = vec_entries(columns, m)[off]
    P = smooth_prior_curvature(model, beta, **aux)[np.ix_(at, at)]
    d = np.sqrt(np.maximum(np.abs(np.diagonal(H + P)), np.finfo(float).tiny))  # a strong prior must not hide the rest
    # tr H (H + P)^-1 is the same of D^-1 H D^-1 and D^-1 P D^-1.
    H, P = H / np.outer(d, d), P / np.outer(d, d)
    return float(np.trace(np.linalg.pinv(H + P, rcond=1e-12, hermitian=True) @ H))


def information_of(model: Model, beta: Array, columns: Array | None = None, **aux: float) -> Array:
    """X'WX of the likelihood alone for some columns, (q m, q m)."""
    likelihood = model.likelihood
    known = {**model.fixed, **aux}
    columns = np.arange(model.shape[0]) if columns is None else columns
    if likelihood.least_squares and not model.design.n:
        R = np.asarray(model.design.moments.R[:, columns], dtype=float)
        return R.T @ R / known[model.noise_scale] ** 2
    assert isinstance(likelihood, SmoothLikelihood)
    fn = partial(_part, likelihood=likelihood, beta=beta, columns=columns, known=known)
    return np.asarray(model.design.fold(fn)[0])


def _part(
    block: Block, *, likelihood: SmoothLikelihood, beta: Array, columns: Array, known: Mapping[str, float]
) -> tuple[Array]:
    """What the rows of a block add to X'WX of some columns."""
    known = likelihood.at_rows(known, block.precision) | likelihood.given(block.y)
    W = likelihood.information(block.eta(beta), **known)
    W = times_weights(W, block.weights)
    return (weighted_gram(np.ascontiguousarray(block.X[:, columns]), W),)


def smooth_prior_curvature(model: Model, beta: Array, **aux: float) -> Array:
    """The curvature of -log prior over vec(beta), (p m, p m): of the kinked blocks off their kinks, zero at them."""
    nonsmooth, sigma = NonsmoothTerms.of(model), model.noise(aux)
    # beta = location + sigma (phi - location): d^2/d beta^2 = sigma^-2 d^2/d phi^2.
    unit = np.where(nonsmooth.moving, sigma, 1.0)[:, None]
    hessian = nonsmooth.hessian(nonsmooth.phi(beta, sigma)) / unit**2
    return smooth_part(model).joint.curvature(beta, sigma) + np.diag(hessian.ravel())
