"""Sandwich-corrected intervals of a posterior under a working density (Yang, Wang & He
2016)."""

from dataclasses import replace

import numpy as np

from probreg.inference.base import Array, Solution
from probreg.inference.notes import Topic, important_note
from probreg.likelihoods import ProximalLikelihood
from probreg.model.model import Model
from probreg.system.terminal import shorten_names


def with_corrected_intervals(model: Model, solution: Solution) -> Solution:
    """Return the posterior with a note on its working density and sandwich-corrected
    intervals, if the likelihood is one."""
    likelihood = model.likelihood
    if (
        not isinstance(likelihood, ProximalLikelihood)
        or not likelihood.working
        or not model.design.n
    ):
        return solution
    sd = np.sqrt(sandwich_of_posterior(model, solution))
    beta = solution.beta[:, 0]
    z = 1.959963984540054  # the 97.5 % quantile of the normal distribution
    intervals = [
        f"{c} {b - z * s:.4g} to {b + z * s:.4g}"
        for c, b, s in zip(model.design.columns, beta, sd)
    ]
    return replace(solution, notes=(
        *solution.notes,
        important_note(
            Topic.LIKELIHOOD,
            f"{likelihood.named} likelihood is a working density, so the posterior is not calibrated for the response",
        ),
        important_note(
            Topic.STANDARD_ERRORS,
            f"sandwich-corrected 95 % intervals: {shorten_names(intervals, 6)}",
        ),
    ))  # fmt: skip


def sandwich_of_posterior(model: Model, solution: Solution) -> Array:
    """Return (p,) variances of V M V, V the posterior covariance of the coefficients
    and M the sum of squares of the rows' scores."""
    design = model.design
    likelihood = model.likelihood
    assert isinstance(likelihood, ProximalLikelihood)
    values = likelihood.at_rows({**model.fixed, **solution.aux}, design.precision)
    score = likelihood.score(design.observed, model.eta(solution.beta), **values)[:, 0]
    # M = sum_i w_i u_i^2 x_i x_i', u_i = d log p / d eta_i
    V = solution.covariance
    w = design.row_weights
    # V M V = (V X'D) (V X'D)', D = diag(w^(1/2) u)
    root = (
        V.raw_root()[: V.coefficients]
        @ V.half(design.X * (np.sqrt(w) * score)[:, None]).T
    )
    return np.square(root).sum(1)
