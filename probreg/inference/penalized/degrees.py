"""Effective degrees of freedom of a mode: trace(H (H + P)^-1).

H is the information of the likelihood and P the curvature of -log prior, both over the
coefficients off their kinks. The trace is their number for flat and Laplace priors
(Zou, Hastie & Tibshirani 2007), the trace of the smoother for ridge, and the known
formulas for the elastic net (Tibshirani & Taylor 2012) and for the group lasso, with
a penalty that is curved off its kinks (Vaiter et al. 2012).
"""

from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter

import numpy as np
from scipy.linalg import cho_solve

from probreg.inference.base import Array, Draws
from probreg.inference.penalized.nonsmooth import NonsmoothTerms, smooth_part
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import evenly_spaced, unit_diagonal
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model
from probreg.model.term_priors import hyper_at, hyper_names, unit_prior
from probreg.priors import Flat, HierarchicalPrior, SmoothPrior
from probreg.priors.joint import BlockPrior, JointPrior


def degrees_of_freedom(model: Model, beta: Array, **aux: float) -> float:
    """trace(H (H + P)^-1) over the coefficients off their kinks, given aux."""
    return float(degrees_by_coefficient(model, beta, **aux).sum())


def degrees_by_coefficient(model: Model, beta: Array, **aux: float) -> Array:
    """Return the diagonal of (H + P)^-1 H over the coefficients (p, m), zero at their
    kinks, given aux.

    The sum over the q columns of a term is its effective degrees of freedom, q - tr((H
    + P)^-1 P). Under a penalty of all K classes the shape is (p, K).
    """
    nonsmooth = NonsmoothTerms.of(model)
    m = nonsmooth.shape[1]
    free = ~nonsmooth.at(nonsmooth.phi(beta, model.noise(aux)))
    penalty = nonsmooth.penalty
    flat = ~model.joint.informative
    straight = penalty.corners & (penalty.exponent == 1) & (penalty.ridge == 0)
    if (straight | flat).all() and flat.sum() < 2 and nonsmooth.contrast is None:
        # P = 0 off the kinks: tr HH^-1 is their number   (Zou, Hastie & Tibshirani
        # 2007).
        return free.astype(float)
    columns = np.flatnonzero(free.any(1))
    off = free[columns].ravel()
    H = nonsmooth.between_scores(information_of(model, beta, columns, **aux))[
        np.ix_(off, off)
    ]
    entries = vec_entries(columns, m)[off]
    P = smooth_prior_curvature(model, beta, **aux)[np.ix_(entries, entries)]
    degrees = np.zeros(free.size)
    degrees[entries] = diagonal_of_shrinkage(H, P)
    return degrees.reshape(free.shape)


def degrees_by_draw(model: Model, draws: Draws) -> Array:
    """Return the mean of `degrees_by_coefficient` over posterior draws, given beta and
    every scale of each draw: (p, m).

    The mean is over at most 200 evenly spaced draws, fewer for very wide
    designs. nan if the prior has no curvature given the draw.
    """
    values = draws.flat
    joint = model.joint
    # maximal number of multiplications for the mean over draws
    max_draws = int(np.clip(2e10 / values["beta"][0].size ** 3, 10, 200))
    chosen = evenly_spaced(draws.count, max_draws)
    names = hyper_names(joint, model.design)
    labels = {name for by_hyper in names.values() for name in by_hyper.values()}
    beta = values["beta"]
    if not (
        labels <= values.keys()
        and isinstance(model.likelihood, SmoothLikelihood)
        and all(isinstance(unit_prior(b), Flat | SmoothPrior) for b in joint.blocks)
    ):
        return np.full(beta.shape[1:], np.nan)
    exact = model.likelihood.least_squares
    total = np.zeros(beta[0].size)
    # For least squares H = X'X / sigma^2 does not depend on beta.
    unit = None
    if exact:
        unit = information_of(model, beta[0], None, **{model.noise_scale: 1.0})
    for i in chosen:
        aux = {a: float(values[a][i]) for a in model.unknown}
        sigma = model.noise(aux)
        if unit is not None:
            H = unit / sigma**2
        else:
            H = information_of(model, beta[i], None, **aux)
        hyper_values = {name: float(values[name][i]) for name in labels}
        hyper = {k: hyper_at(joint, model.design, k, hyper_values) for k in names}
        # beta_b = A u if the prior of a block is N(0, A A'): H over u is A'HA, and the
        # trace over the block is the same
        roots = _roots_given(joint, hyper)
        for b, A in roots:
            entries = b.entries(beta.shape[2])
            A = np.kron(A, np.eye(b.width(beta.shape[2])))
            H = H.copy()
            H[entries] = A.T @ H[entries]
            H[:, entries] = H[:, entries] @ A
        P = prior_given(joint, hyper, roots).curvature(beta[i], sigma)
        total += diagonal_of_shrinkage(H, P)
    return (total / len(chosen)).reshape(beta.shape[1:])


def prior_given(
    joint: JointPrior,
    values: Mapping[int, Mapping[str, float]],
    roots: list[tuple[BlockPrior, Array]],
) -> JointPrior:
    """Return the prior of the coefficients at values of the hyperparameters, by block
    number; for blocks with `roots`, the prior of their standardised coefficients."""
    rooted = {(b.columns, b.predictor) for b, _ in roots}
    blocks = []
    for i, b in enumerate(joint.blocks):
        prior = b.prior
        if isinstance(prior, HierarchicalPrior):
            if (b.columns, b.predictor) in rooted:
                prior = prior.base
            else:
                prior = prior.given(**values[i])
        blocks.append(replace(b, prior=prior))
    return JointPrior(tuple(blocks))


def _roots_given(
    joint: JointPrior, values: Mapping[int, Mapping[str, float]]
) -> list[tuple[BlockPrior, Array]]:
    roots = [
        (b, b.prior.root_given(**values[i]))
        for i, b in enumerate(joint.blocks)
        if isinstance(b.prior, HierarchicalPrior)
    ]
    return [(b, A) for b, A in roots if A is not None]


def diagonal_of_shrinkage(H: Array, P: Array) -> Array:
    """The diagonal of (H + P)^-1 H.

    >>> diagonal_of_shrinkage(np.diag([1.0, 3.0]), np.eye(2))
    array([0.5 , 0.75])
    """
    _, d = unit_diagonal(H + P)  # a strong prior must not affect the others
    # (H + P)^-1 H has the same diagonal after scaling to D^-1 H D^-1 and D^-1 P D^-1.
    H = H / np.outer(d, d)
    P = P / np.outer(d, d)
    try:
        L = np.linalg.cholesky(H + P)
    except np.linalg.LinAlgError:
        L = np.zeros((1, 1))
    # smallest diagonal of a Cholesky factor of unit columns; below it eigenvalues are cut at 1e-12
    if len(L) and np.diagonal(L).min() > 1e-5:
        return np.diagonal(cho_solve((L, True), H))
    return np.diagonal(np.linalg.pinv(H + P, rcond=1e-12, hermitian=True) @ H)


def information_of(
    model: Model, beta: Array, columns: Array | None = None, **aux: float
) -> Array:
    """Return X'WX of the likelihood for some columns, (q m, q m).

    For censored and truncated responses it is the observed information, since the expected information is not known.
    """
    if model.likelihood.exact_information:
        return expected_information_of(model, beta, columns, **aux)
    alone = replace(model, prior=Flat(), aux={**model.fixed, **aux})
    H = alone.value_grad_hessian(beta).curvature
    if columns is None:
        return H
    entries = vec_entries(columns, model.shape[1])
    return H[np.ix_(entries, entries)]


def expected_information_of(
    model: Model, beta: Array, columns: Array | None = None, **aux: float
) -> Array:
    """Return X'WX for some columns, (q m, q m), of exact responses if they are censored."""
    if columns is not None and len(columns) == model.shape[0]:
        columns = None  # all of them, which need no copy
    if has_cheap_moments(model):
        R = np.asarray(model.design.moments.R, dtype=float)
        if columns is not None:
            R = R[:, columns]
        return R.T @ R / model.noise(aux) ** 2
    view = None if columns is None else itemgetter((slice(None), columns))
    return model.information_of_rows(beta, aux, view)


def has_cheap_moments(model: Model) -> bool:
    """Whether the moments of a least-squares model have no more numbers than its rows."""
    return model.likelihood.least_squares and not 0 < model.design.n < model.shape[0]


def smooth_prior_curvature(model: Model, beta: Array, **aux: float) -> Array:
    """Return the curvature of -log prior over vec(beta), (p m, p m): kinked blocks
    count off their kinks, and are zero at them.

    Under a penalty of all K classes it is the curvature over their scores, (p K, p K).
    """
    nonsmooth = NonsmoothTerms.of(model)
    sigma = model.noise(aux)
    # beta = location + sigma (phi - location): d^2/d beta^2 = sigma^-2 d^2/d phi^2.
    unit = np.repeat(np.where(nonsmooth.in_sigma_units, sigma, 1.0), nonsmooth.shape[1])
    phi = nonsmooth.phi(beta, sigma).ravel()
    P = nonsmooth.between_scores(smooth_part(model).joint.curvature(beta, sigma))
    penalty = nonsmooth.penalty.repeated(nonsmooth.shape[1])
    free = np.flatnonzero(~penalty.at_kink(phi))
    curvature = penalty.curvature_among(phi, free)
    if curvature is not None:
        P[np.ix_(free, free)] += curvature / np.outer(unit[free], unit[free])
    return P
