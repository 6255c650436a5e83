"""From a model's own coefficients to those it reports, and back: a softmax fits m predictors and shows every outcome.

Numbers only; the labels are those of `tree`.
"""

from typing import Any, NamedTuple

import numpy as np

from probreg.inference.base import Array, Solution
from probreg.model.model import Model
from probreg.numerics.frame import covariance_through, map_of_predictors


def reported_coefficients(model: Model, beta: Array) -> Array:
    """Reported coefficients: (..., p) for one predictor, (..., p, outcomes) for several."""
    if not model.likelihood.outcomes:
        return beta[..., 0]
    return beta @ model.likelihood.contrast_matrix.T if _mixes(model) else beta


def coefficients_of_reported(model: Model, beta: Array) -> Array:
    """Back from reported coefficients to (..., p, m)."""
    return beta @ np.linalg.pinv(model.likelihood.contrast_matrix).T if model.likelihood.outcomes else beta[..., None]


def reported_scale_matrix(model: Model, scale: Any) -> Any:
    """The scale matrix of the reported coefficients, column first, then outcome."""
    if not _mixes(model):
        return scale
    D, (p, m) = model.likelihood.contrast_matrix, model.shape
    # Column by column, so that the nan of one column stays there.
    blocks = np.einsum("ka,iajb,lb->ikjl", D, np.asarray(scale).reshape(p, m, p, m), D)
    return blocks.reshape(p * len(D), p * len(D))


def scale_matrix_of_reported(model: Model, scale: Array) -> Array:
    """Back from the scale matrix of the reported coefficients to that of vec(beta), (p m, p m)."""
    return covariance_through(
        map_of_predictors(np.linalg.pinv(model.likelihood.contrast_matrix), model.shape[0]), scale
    )


class Estimated(NamedTuple):
    """Reported coefficients and their scale matrix, nan where there is no estimate: there a least-norm one means nothing."""

    beta: Array  # (p,) or (p, outcomes)
    scale: Any

    @property
    def error(self) -> Array:
        """The square roots of the diagonal, as `beta`."""
        return np.sqrt(self.scale.diagonal()).reshape(self.beta.shape)


def reported_estimate(model: Model, solution: Solution) -> Estimated:
    """What a solution reports of its coefficients."""
    beta = reported_coefficients(model, solution.beta)
    if solution.not_estimable is not None:
        beta = np.where(solution.not_estimable.reshape(beta.shape), np.nan, beta)
    return Estimated(beta, reported_scale(model, solution))


def reported_scale(model: Model, solution: Solution) -> Any:
    """`shown_scale` of a solution, nan where a coefficient has no estimate."""
    out = reported_scale_matrix(model, solution.scale)
    if solution.not_estimable is None:
        return out
    gone = solution.not_estimable.ravel()
    return np.where(gone[:, None] | gone, np.nan, out)


def _mixes(model: Model) -> bool:
    """Reported coefficients are combinations of the model's own, so that one without an estimate spoils the others."""
    return len(model.likelihood.contrast_matrix) != model.shape[1]


def left_out(model: Model, solution: Solution) -> dict[str, str]:
    """Which groups of a tree hold one entry per row and cannot be reported, and why; empty where the rows are in memory."""
    names = ["observed_data", "constant_data"]
    names += [] if solution.draws is None else ["log_likelihood", "posterior_predictive"]
    names += [] if solution.draws is None or "lp" in solution.sample_stats or model.design.reachable else ["lp"]
    why = model.design.rows_obstacle(f"a group with one entry per row ({', '.join(names)})")
    return {} if why is None else {"left_out": why}
