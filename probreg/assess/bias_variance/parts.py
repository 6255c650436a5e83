"""Bias, variance and error: in closed form where the fit is linear in y, as moments over simulated fits elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from probreg.assess.bias_variance.truth import linear_predictor
from probreg.data import Design
from probreg.data.absent import full_weights
from probreg.errors import Incompatible
from probreg.inference.modes.linear import PriorRows, combinations, posterior_given_sigma
from probreg.model.model import Model

Array = np.ndarray
PER_ROW = ("fitted", "bias", "bias2", "variance", "error", "bias_se", "variance_se", "error_se")
AVERAGE = ("bias2", "variance", "error", "bias2_se", "variance_se", "error_se")


@dataclass(frozen=True, eq=False)
class DecompositionParts:
    """Arrays over rows (n,) or (n, K) by the names of `PER_ROW`, and averages by the names of `AVERAGE`."""

    rows: Mapping[str, Array]
    average: Mapping[str, float]


def linear(model: Model) -> bool:
    """The fitted mean is S y + c: Gaussian, normal priors that do not depend on y, and no weight that sigma moves."""
    if not model.likelihood.least_squares or not model.joint.gaussian:
        return False
    if model.unknown and (model.joint.informative & ~model.joint.sigma_units).any():
        return False
    y = model.design.observed
    other = replace(model, design=replace(model.design, y=1.0 - 3.0 * y)).joint  # a prior in units of sd(y) moves
    return np.array_equal(other.precision(), model.joint.precision()) and np.array_equal(
        other.center, model.joint.center
    )


def closed(model: Model, eta: Array, target: Design, f: Array, sigma: float) -> DecompositionParts:
    """E g is the fit to the noise-free response; Cov(beta) = sigma^2 A^-1 X'WX A^-1 with A = X'WX + P, W the weights, which
    are frequencies or precisions: X'W Cov(y) WX = sigma^2 X'WX for both."""
    design = replace(model.design, y=eta[:, 0])
    given = posterior_given_sigma(design.moments, PriorRows.of(model.joint), model.noise())
    if given.rank.dropped:
        raise Incompatible(
            f"these columns are not identified: {combinations(given.rank, design.columns)}. Drop one, or give a proper prior"
        )
    R = np.asarray(design.moments.R, dtype=float)
    fitted = linear_predictor(target, given.mean[:, None])[:, 0]
    root = np.asarray(given.root, dtype=float)
    variance = sigma**2 * ((target.X @ root @ (R @ root).T) ** 2).sum(1)
    bias = fitted - f
    nought = np.zeros_like(bias)
    rows = dict(zip(PER_ROW, (fitted, bias, bias**2, variance, variance + bias**2, nought, nought, nought)))
    w = shares(target)
    average = {k: float(w @ rows[k]) for k in ("bias2", "variance")}
    average |= {"error": average["bias2"] + average["variance"], "df": float(((R @ root) ** 2).sum())}
    return DecompositionParts(rows, average | {k: 0.0 for k in AVERAGE if k.endswith("_se")} | {"failed": 0.0})


def moments(draws: Array, f: Array, share: Array) -> DecompositionParts:
    """Moments over the fits that had an estimate, with divisor their number; averages weigh rows and add up levels."""
    g = draws[np.isfinite(draws).reshape(len(draws), -1).all(1)]
    count = len(g)
    fitted = g.mean(0)
    away, off = g - fitted, g - f
    bias = fitted - f

    def se(values: Array) -> Array:
        return values.std(0, ddof=1) / np.sqrt(count)

    def over_rows(values: Array) -> Array:
        """(reps, n[, K]) to (reps,)."""
        return (values.reshape(*values.shape[:2], -1).sum(-1) * share).sum(-1)

    rows = (fitted, bias, bias**2, (away**2).mean(0), (off**2).mean(0), se(g), se(away**2), se(off**2))
    means = [over_rows(v).mean() for v in ((bias**2)[None], away**2, off**2)]
    errors = [se(over_rows(v)) for v in (2.0 * bias * away, away**2, off**2)]
    average = dict(zip(AVERAGE, map(float, (*means, *errors))))
    return DecompositionParts(dict(zip(PER_ROW, rows)), average | {"failed": float(len(draws) - count)})


def shares(target: Design) -> Array:
    """Shares of the rows in an average: by frequency."""
    w = full_weights(target.weights, target.n)
    return w / w.sum()
