"""Points theta of the posterior of hyperparameters, the logs of prior scales and of sigma, with beta integrated out.

The points are scrambled Sobol points of a Student-t about the maximum, with importance weights. `NodeNormal` is the normal
distribution of the coefficients at one point, for a smooth likelihood.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from probreg.inference.base import Array
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.laplace_rows import root_of_arrow_inverse
from probreg.inference.exact.laplace_surface import LaplaceMode, LaplaceSurface
from probreg.inference.modes.arrow_rows import Parts
from probreg.inference.sampling.importance import (
    effective,
    resample_systematically,
    smooth_by_chain,
)
from probreg.linalg import Arrow
from probreg.special import LOG_2PI, student_log_density


@dataclass(frozen=True, eq=False)
class NodeNormal:
    """The normal distribution of the coefficients and log aux of a smooth likelihood at
    a node, with the mean to first order.

    In the coordinates of the roots they are x = mode - q + J^-1 z, H = J'J, z standard
    normal and q = H^-1 grad log |H|^(1/2).
    """

    surface: LaplaceSurface
    mode: LaplaceMode
    # (p, q): beta = columns @ the coefficients of the surface; None if they are the same
    columns: Array | None = None

    @cached_property
    def _shift(self) -> Parts:
        """The difference of mode and mean in standard deviations."""
        return self.surface.shift(self.mode)

    @property
    def width(self) -> int:
        """The number of coordinates."""
        G, K, r = self.mode.H.shape
        return G * K + r

    @property
    def log_det(self) -> float:
        """log |J^-1|."""
        return -0.5 * float(self.mode.H.log_det())

    @cached_property
    def _rotation(self) -> Array:
        """A rotation of standard normal points after which draws of dense columns do not
        depend on the order of the coordinates."""
        rows = self.surface.dense_rows
        root = rows.to_frame @ root_of_arrow_inverse(self.mode.roots, self.mode.H)
        upper, rotation = scipy.linalg.rq(root)
        return np.sign(np.diagonal(upper)) * rotation.T

    def points(self, z: Array) -> tuple[Array, Array]:
        """Return the log prior (S,) of standard points z, with aux as densities of
        their logs, and (vec beta, log aux) (S, p m + a)."""
        surface, (G, K, r) = self.surface, self.mode.H.shape
        a, q = len(surface.model.unknown), surface.layout.shape[2]
        H: Arrow = self.mode.H
        if not surface.layout.by_group:
            z = z @ self._rotation.T
        x = H.solve_transposed(
            z[:, : G * K].T.reshape(G, K, len(z)) - self._shift[0],
            z[:, G * K :].T - self._shift[1],
        )
        x = x[0] + self.mode.x[0], x[1] + self.mode.x[1]
        beta = np.moveaxis(surface.layout.beta_of(self.mode.roots, x), -1, 0)
        # N(u; 0, I), the other priors, and the density 1 of raw flat coefficients
        log_prior = -0.5 * (
            np.square(x[0]).sum((0, 1))
            + np.square(x[1][:q]).sum(0)
            + (G * K + q) * LOG_2PI
        )
        log_prior += [surface.log_prior(column[:, None]) for column in x[1].T]
        if surface.layout.flat:
            log_prior += (
                surface.model.shape[1] * np.linalg.slogdet(surface.layout.frame.T)[1]
            )
        if self.columns is not None:
            beta = self.columns @ beta
        return log_prior, np.hstack([beta.reshape(len(z), -1), x[1][r - a :].T])


class Nodes(NamedTuple):
    """Points theta with their weights, by chain: independent scramblings of one sequence."""

    theta: Array  # (C, N, d)
    log_q: Array  # (C, N), log density of the proposal
    log_weight: Array  # (C, N), smoothed; exp sums to one over all
    k_hat: float
    log_evidence: Array  # (C,), each chain's own estimate

    @property
    def all_theta(self) -> Array:
        """(S, d) of the nodes of all chains."""
        return self.theta.reshape(-1, self.theta.shape[-1])

    @property
    def weight(self) -> Array:
        """(S,), sum 1."""
        return np.exp(self.log_weight.ravel())

    @property
    def ess(self) -> float:
        return effective(self.log_weight)

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Return node numbers of equal draws, by weight in random order."""
        return rng.permutation(resample_systematically(self.weight, size, rng))


class Proposal(NamedTuple):
    """A Student-t about `centre`, stretched along each axis by a separate factor on either side (Geweke 1989)."""

    centre: Array  # (d,)
    root: Array  # (d, d), one axis a column
    stretch: Array  # (2, d), below and above

    def points(self, U: Array) -> tuple[Array, Array]:
        """Points (C, N, d) from uniform ones (C, N, d + 1), and the log density of each."""
        df = 6.0  # of the proposal, a Student-t
        d = len(self.centre)
        # z = Phi^-1(U) / (chi^2_nu / nu)^(1/2)
        z = scipy.stats.norm.ppf(U[..., :d]) / np.sqrt(
            scipy.stats.chi2.ppf(U[..., d:], df) / df
        )
        r = np.where(z < 0, *self.stretch)
        # theta = centre + root (r z): log q(theta) = log t_nu(z) - log|root| - sum_i log r_i
        log_q = student_log_density((z**2).sum(-1), d, df)
        log_q -= np.linalg.slogdet(self.root)[1] + np.log(r).sum(-1)
        return self.centre + (r * z) @ self.root.T, log_q


def proposal_about(problem: EvidenceProblem, theta: Array) -> Proposal:
    """Return axes from the curvature at the maximum, stretched where the density
    decreases more slowly than a normal's."""
    stretch = (1.1, 6.0)  # limits of the stretch of an axis
    # in standard deviations, at which its axes are compared with the density
    distances = 1.0, 2.0, 4.0, 7.0
    root = _axes(problem, theta)
    offsets = np.array(
        [sign * h * axis for sign in (-1.0, 1.0) for axis in root.T for h in distances]
    )
    values = problem.surface.values(np.vstack([theta, theta + offsets]))
    fall = np.maximum(values[0] - values[1:], 1e-300).reshape(
        2, len(theta), len(distances)
    )
    # A normal of standard deviation r decreases by (h / r)^2 / 2 at h: use the widest r over all distances.
    r = np.nanmax(np.array(distances) / np.sqrt(2.0 * fall), axis=-1)
    return Proposal(theta, root, np.clip(r, *stretch))


def proposal_of(nodes: Nodes) -> Proposal:
    """A proposal with the mean of weighted nodes and twice their covariance."""
    d = nodes.theta.shape[-1]
    mean = nodes.weight @ nodes.all_theta
    deviation = nodes.all_theta - mean
    cov = deviation.T @ (nodes.weight[:, None] * deviation)
    return Proposal(
        mean, np.linalg.cholesky(2.0 * cov + 1e-8 * np.eye(d)), np.ones((2, d))
    )


def weight_nodes(theta: Array, value: Array, log_q: Array) -> Nodes:
    # p(y) = E_q[p(y, theta) / q(theta)], the mean weight; one estimate for each scrambling.
    return Nodes(theta, log_q, *smooth_by_chain(value - log_q))


def _axes(problem: EvidenceProblem, theta: Array) -> Array:
    """A with A A' the inverse of the curvature at the maximum theta, one axis per
    column, by differences of the gradient, which is exact."""
    step = 1e-4  # of the differences of a gradient, in logs of scales
    least_curvature = 1e-2  # minimal curvature: a direction with a flat density has a spread of ten units of the log
    surface = problem.surface
    moves = step * np.eye(len(theta))
    changes = [surface(theta + e).gradient - surface(theta - e).gradient for e in moves]
    H = np.array(changes) / (2 * step)
    values, vectors = np.linalg.eigh(-(H + H.T) / 2)
    return np.asarray(vectors / np.sqrt(np.maximum(values, least_curvature)))
