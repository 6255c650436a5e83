"""Sampling coordinates of a Gaussian model with one unknown prior scale: whitened at every scale and sigma.

Given tau and sigma the posterior of beta is normal, and in the singular vectors of the columns (flat ones eliminated) its
components are independent: delta_j ~ N(d_j z_j / (sigma^2 h_j), 1 / h_j), h_j = d_j^2 / sigma^2 + alpha, alpha the precision of
the prior. So with delta = mean + zeta / sqrt(h) the coordinates zeta are standard
normal for any tau and sigma, and these two have the density of the evidence: there is
no funnel, for weak or strong data.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from probreg.inference.base import Array
from probreg.model.model import Model
from probreg.model.pymc_graph import coords_of, hyper_variables
from probreg.priors import Flat, GaussianPrior, ScaleMixture

NOTE = "sampled on the sufficient statistics of the rows, in coordinates that are whitened at every prior scale and sigma"


@dataclass(frozen=True, eq=False)
class Marginalised:
    """The parts of the conditional posterior that do not depend on tau and sigma."""

    block: int
    columns: tuple[int, ...]  # with the unknown scale
    flat: tuple[int, ...]
    d: Array  # (q,)
    z: Array  # (q,)
    location: Array  # (q,), beta = location + back delta
    back: Array  # (q, q)
    R: Array  # (k, k) of the flat columns: R beta_f = z_f - cross beta + sigma xi
    cross: Array  # (k, q)
    z_flat: Array  # (k,)
    rest: float  # the residual sum of squares
    n: float  # rows minus flat columns
    top: float  # sum of log(w) / 2 over the rows' precisions w

    @classmethod
    def of(cls, model: Model) -> "Marginalised | None":
        """None unless the likelihood is Gaussian with a single normal prior of unknown
        scale."""
        informed = [
            i for i, b in enumerate(model.joint.blocks) if not isinstance(b.prior, Flat)
        ]
        if not model.likelihood.least_squares or len(informed) != 1:
            return None
        block = model.joint.blocks[informed[0]]
        if not isinstance(block.prior, ScaleMixture) or not isinstance(
            block.prior.base, GaussianPrior
        ):
            return None
        moments = model.design.moments
        base = block.prior.base
        q = len(block.columns)
        inside = set(block.columns)
        p = moments.p
        flat = tuple(j for j in range(p) if j not in inside)
        F = np.asarray(moments.factor, dtype=float)
        k = len(flat)
        # With flat columns first: R_ff beta_f = z_f - R_fi beta_i + sigma xi, and |W beta_i - z|^2 + rest of the
        # others.
        R = np.linalg.qr(F[:, [*flat, *block.columns, p]], mode="r")
        mu = base.center(q)
        L = np.linalg.cholesky(base.precision(q))
        to_raw = solve_triangular(L.T, np.eye(q))
        # beta_i = mu + L'^-1 V delta turns the prior into alpha |delta|^2 and the data into |diag(d) delta - U'(z - W
        # mu)|^2.
        U, d, Vt = np.linalg.svd(R[k:p, k:p] @ to_raw)
        z = U.T @ (R[k:p, p] - R[k:p, k:p] @ mu)
        residual = float(R[p, p] ** 2)
        n = moments.weight - k
        return cls(
            informed[0], block.columns, flat, d, z, mu, to_raw @ Vt.T, R[:k, :k], R[:k, k:p], R[:k, p], residual, n,
            0.5 * moments.log_precision,
        )  # fmt: skip


def marginalised_graph(model: Model, c: Marginalised) -> Any:
    """The PyMC model over tau, sigma and standard normal coordinates; its deterministic `beta` is (p, 1)."""
    import pymc as pm
    import pytensor.tensor as pt

    prior: Any = model.joint.blocks[c.block].prior
    with pm.Model(
        coords=coords_of(model.design, model.likelihood, model.joint)
    ) as graph:
        values = {
            **model.fixed,
            **{a: model.aux_prior(a).pymc(a) for a in model.unknown},
        }
        tau = prior.spread(**hyper_variables(model.joint, model.design, False)[c.block])
        sigma = pt.as_tensor_variable(values[model.noise_scale])
        noise = sigma**-2.0
        alpha = (tau * sigma if prior.sigma_units else tau) ** -2.0
        # delta_j | tau, sigma, y ~ N(noise d_j z_j / h_j, 1 / h_j), h_j = noise d_j^2 + alpha, noise = 1 / sigma^2.
        h = noise * c.d**2 + alpha
        mean = noise * c.d * c.z / h
        square = alpha * (mean**2).sum() + noise * (
            ((c.z - c.d * mean) ** 2).sum() + c.rest
        )
        flat = (
            c.top
            - 0.5 * c.n * np.log(2.0 * np.pi)
            - float(np.log(np.abs(np.diagonal(c.R))).sum())
        )
        # log p(y | tau, sigma) = [n log noise + q log alpha - sum_j log h_j - alpha |mean|^2 - noise RSS] / 2 +
        # constants
        log_evidence = 0.5 * (
            c.n * pm.math.log(noise)
            + len(c.d) * pm.math.log(alpha)
            - pm.math.log(h).sum()
            - square
        )
        pm.Potential("y", flat + log_evidence)
        zeta = pm.Normal("zeta", shape=len(c.d))
        beta = c.location + c.back @ (mean + zeta / h**0.5)
        parts = [beta]
        if c.flat:
            xi = pm.Normal("xi", shape=len(c.flat))
            root = solve_triangular(c.R, np.eye(len(c.R)))
            parts.append(root @ (c.z_flat - c.cross @ beta + sigma * xi))
        order = np.argsort([*c.columns, *c.flat])
        pm.Deterministic("beta", pt.concatenate(parts)[order][:, None])
    return graph
