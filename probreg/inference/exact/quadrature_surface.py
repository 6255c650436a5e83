"""The likelihood of one standard deviation by adaptive Gauss-Hermite quadrature in each
group, with one effect per group.

Given flat coefficients b and nuisance parameters, groups are independent. With u_g the mode of l_g(u) = sum_(i in g) log p(y_i | u) - u^2 / 2
and s_g^2 = 1 / (-l_g''(u_g)), the nodes are u_gj = u_g + 2^(1/2) s_g x_j and

    f = sum_g log [ pi^(-1/2) s_g sum_j w_j exp(x_j^2 + l_g(u_gj)) ]

(Pinheiro & Bates 1995). One point is Laplace's method.
"""

import numpy as np

from probreg.data.rows import times_weights
from probreg.inference.base import Array
from probreg.inference.exact.laplace_rows import GroupedSums
from probreg.inference.exact.laplace_surface import LaplaceMode, LaplaceSurface
from probreg.inference.exact.latent_groups import EvidencePoint, LatentGroups
from probreg.model.model import Model
from probreg.special import differentiate


class QuadratureSurface(LaplaceSurface):
    """f(log sd, flat coefficients, log aux) by several points in each group."""

    def __init__(self, model: Model, groups: LatentGroups, points: int) -> None:
        super().__init__(model, groups, "ML")
        self.points = points

    def _evidence(self, mode: LaplaceMode) -> float:
        sums = mode.rows
        assert isinstance(sums, GroupedSums)  # see `points_obstacle`
        x, w = np.polynomial.hermite.hermgauss(self.points)
        lead = self.layout.columns.lead
        scale = 1.0 / mode.H.L[:, 0, 0]
        u = mode.x[0][:, 0, 0]
        effect = mode.roots.lead[0, 0, 0] * lead.Z[:, 0]
        terms = np.empty((self.points, len(u)))
        for j, node in enumerate(np.sqrt(2.0) * x):
            z = sums.z.copy()
            z[:, 0] += effect * (node * scale)[lead.codes]
            log_p = times_weights(sums.rows.local(z)[0], self.model.design.weights)
            terms[j] = np.bincount(lead.codes, log_p, len(u)) - 0.5 * np.square(
                u + node * scale
            )
        total = np.logaddexp.reduce(terms + (np.log(w) + np.square(x))[:, None], axis=0)
        return float(
            (total + np.log(scale) - 0.5 * np.log(np.pi)).sum()
            + self.log_prior(mode.x[1])
        )

    def __call__(self, theta: Array) -> EvidencePoint:
        step = 0.01  # of the logs of scales, and of the other coordinates in standard errors
        moves = np.eye(len(theta))
        gradient = differentiate(lambda t: self.values(theta + t * moves), step)
        return super().__call__(theta)._replace(gradient=gradient)


def points_obstacle(model: Model, criterion: str) -> str | None:
    """Return why more than one point does not apply, or None."""
    subject = "evidence with points above 1"
    if model.likelihood.least_squares:
        return f"{subject} needs another likelihood: for a Gaussian one point is exact"
    if criterion != "ML":
        return f"{subject} needs criterion='ML', because groups are independent only given flat coefficients"
    if model.likelihood.width > 1:
        return f"{subject} needs one linear predictor, and {model.likelihood.named} likelihood has {model.likelihood.width}"
    informative = [
        b for b in model.joint.blocks if model.joint.informative[list(b.columns)].any()
    ]
    terms = [model.design.grouped_of(b.columns) for b in informative]
    if len(terms) == 1 and terms[0] is not None and len(terms[0].effects) == 1:
        return None
    names = ", ".join(model.design.describe_columns(b.columns) for b in informative)
    return f"{subject} needs one effect of one grouping factor, such as (1 | g), and this model has {names}; use points=1"
