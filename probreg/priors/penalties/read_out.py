"""The penalty of a joint prior, where it is one and the same for all columns."""

from collections.abc import Sequence

import numpy as np

from probreg.errors import Incompatible
from probreg.priors.base import Prior
from probreg.priors.elastic_net import AbsoluteAndSquare
from probreg.priors.flat import Flat
from probreg.priors.joint import JointPrior
from probreg.priors.normal import Normal


def one_penalty(
    prior: JointPrior, columns: Sequence[str], intercept: str
) -> tuple[float, float, bool]:
    """(l1, l2, in units of sigma) with -log p = l1 |w| + l2 w^2 / 2 for every column but a free intercept. Incompatible
    where columns differ, or no such weights exist."""
    known = [c for c, informed in zip(columns, prior.informative) if informed]
    kinds = {
        _penalty_weights(b.prior, len(b.columns))
        for b in prior.blocks
        if not isinstance(b.prior, Flat)
    }
    found = kinds.pop() if len(kinds) == 1 else None
    if found is None or intercept in known or set(columns) - set(known) - {intercept}:
        raise Incompatible(
            "other packages take one Normal, Laplace or ElasticNet prior about zero, the same for all columns but the "
            "intercept. The penalty of each column is prior.penalty_weight"
        )
    return found


def _penalty_weights(prior: Prior, q: int) -> tuple[float, float, bool] | None:
    if not isinstance(prior, Normal | AbsoluteAndSquare) or np.any(prior.location):
        return None
    if isinstance(prior, Normal):
        P = prior.precision(q)
        l1 = np.zeros(q)
        l2 = np.diagonal(P)
        if np.any(np.diag(l2) != P):
            return None
    else:
        scale = np.broadcast_to(prior.scales, q)
        l1 = prior.ratio / scale
        l2 = (1.0 - prior.ratio) / scale**2
    # scales that are meant to be equal may differ in their last bits
    if np.ptp(l1) > 1e-13 * l1.max() or np.ptp(l2) > 1e-13 * l2.max():
        return None
    return float(l1[0]), float(l2[0]), prior.sigma_units
