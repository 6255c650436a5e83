"""Points theta of the posterior of hyperparameters, the logs of prior scales and of sigma, with beta integrated out.

The points are scrambled Sobol points of a Student-t about the maximum, with importance weights. `NodeNormal` is the normal
distribution of the coefficients at one point, for a smooth likelihood.

From weighted nodes of hyperparameters to draws of all coefficients, and their moments.

beta given theta is normal and drawn exactly for a Gaussian likelihood, with the moments
of the mixture over the nodes. For other likelihoods points about a normal at each mode
are weighted with their nodes by the posterior of both.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy
from numpy.random import Generator

from probreg.inference.base import (
    Array,
    Draws,
    Solution,
    Status,
    chains_of,
    log_names,
    sigma_note,
    split_parameters,
)
from probreg.inference.covariance import DenseCovariance, ParameterCovariance
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.laplace_rows import root_of_arrow_inverse
from probreg.inference.exact.laplace_surface import LaplaceMode, LaplaceSurface
from probreg.inference.exact.latent_groups import (
    LatentGroup,
    log_prior_of_logs,
    transfer_coefficients,
)
from probreg.inference.modes.level_newton import Parts
from probreg.inference.sampling.importance import (
    all_proper,
    effective,
    log_lik_of_draws,
    reliable,
    resample_systematically,
    smooth_by_chain,
    weighted_moments,
)
from probreg.inference.sampling.proposal import student_points
from probreg.inference.status import Note, Topic, important_note, routine_note
from probreg.inference.varying import hyper_at_logs
from probreg.linalg import Arrow
from probreg.model.model import Model
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

    def draw(self, size: int, rng: Generator) -> Array:
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
    # in standard deviations, where its axes are compared with the density
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
    return vectors / np.sqrt(np.maximum(values, least_curvature))


# up to this number of coefficients draws are weighted jointly with the scales
_JOINT = 1000


def solution_at_nodes(
    problem: EvidenceProblem,
    nodes: Nodes,
    draws: int,
    chains: int,
    rng: Generator,
) -> Solution:
    """Return the posterior by weighted nodes of the hyperparameters, with `draws` draws in each of `chains` chains."""
    model = problem.model
    total = draws * chains
    names = problem.names
    over = [*names]
    sigma_text = "sigma is drawn with beta"
    draw_function = _draw_exactly if problem.exact else _draw_approximately
    result = draw_function(problem, nodes, total, rng)
    beta, aux = split_parameters(model, result.points)
    moments = {a: weighted_moments(v, result.weight) for a, v in aux.items()}
    if problem.outer:  # from the nodes, which are more accurate than draws
        sigma_at_nodes = np.exp(nodes.all_theta[:, -1])
        moments[model.noise_scale] = weighted_moments(sigma_at_nodes, nodes.weight)
        over += model.unknown
        sigma_text = "sigma is integrated with the scales"
    index = np.arange(len(beta))
    if not (problem.exact or result.detail):
        index = rng.permutation(resample_systematically(result.weight, total, rng))
    theta = result.theta[index, : len(problem.groups.priors)]
    if not problem.exact:
        theta = scales_given_coefficients(problem, theta, beta[index], rng)
    values = {name: each[index] for name, each in {"beta": beta, **aux}.items()}
    values |= hyper_at_logs(model, theta)
    stats = {
        "n": model.design.total,
        "k_hat": nodes.k_hat,
        "ess": nodes.ess,
        "nodes": float(nodes.log_weight.size),
        **result.stats,
    }
    evidence = result.log_evidence
    if evidence is not None and all_proper(model):
        stats["log_evidence"] = float(
            np.logaddexp.reduce(evidence) - np.log(len(evidence))
        )
        # independent scramblings: their spread is the error of their mean
        if len(evidence) > 1:
            stats["log_evidence_se"] = float(
                np.std(evidence, ddof=1) / np.sqrt(len(evidence))
            )
    k = model.n_coefficients
    text = f"k-hat {nodes.k_hat:.2f}; {nodes.log_weight.size:,} nodes over {', '.join(over)} are worth {nodes.ess:,.0f} equal ones"
    return Solution(
        beta=result.mean[:k].reshape(model.shape),
        scale=result.covariance,
        aux={a: moments[a][0] for a in model.unknown},
        draws=Draws(
            {name: chains_of(each, chains) for name, each in values.items()},
            hyper=tuple(names),
            aux_sd={a: moments[a][1] for a in model.unknown},
            marginals=result.marginals,
        ),
        status=Status.UNWEIGHED if result.detail else Status.SAMPLED,
        detail=result.detail,
        stats=stats,
        notes=(
            *sigma_note(model, routine_note(Topic.SIGMA, sigma_text)),
            routine_note(Topic.SCALES, text),
            *result.notes,
        ),
    )


def scales_given_coefficients(
    problem: EvidenceProblem, theta: Array, beta: Array, rng: Generator
) -> Array:
    """Return theta (S, d) after Metropolis steps on p(theta | beta), which leave the
    posterior of (theta, beta) invariant.

    Draws at nodes repeat the nodes' values; given its coefficients each draw has a
    known density p(beta | theta) p(theta). A step of one coordinate is normal, with 2.4
    times the smaller of two standard deviations: (2 n)^-1/2, which n normal
    coefficients leave to the log of their scale, and the standard deviation of the
    draws.
    """
    sweeps = 10  # sweeps over the coordinates, after which a draw has left its node
    theta_new = theta.copy()
    m = beta.shape[2]
    spread = theta.std(0)
    for g, hyper in problem.groups.with_hyper:
        if g.prior is None or g.prior.in_columns or not g.hyper:
            continue
        inside = problem.model.joint.blocks[g.block].take(beta)
        log_p = _log_density_of_scales(g, theta_new[:, hyper], inside)
        count = len(g.columns) * g.width(m) / sum(g.prior.scales or (1,))
        size = 2.4 * np.minimum(spread[hyper], (2.0 * count) ** -0.5)
        for k in np.tile(np.arange(len(g.hyper)), sweeps):
            new = theta_new[:, hyper].copy()
            new[:, k] += size[k] * rng.standard_normal(len(new))
            log_p_new = _log_density_of_scales(g, new, inside)
            taken = np.log(rng.random(len(new))) < log_p_new - log_p
            theta_new[taken, hyper], log_p = (
                new[taken],
                np.where(taken, log_p_new, log_p),
            )
    return theta_new


def _log_density_of_scales(g: LatentGroup, logs: Array, inside: Array) -> Array:
    """Return log p(coefficients | theta) + log p(theta) (S,) of a group, at logs (S, d) of its hyperparameters."""
    prior = g.prior
    values = dict(zip(g.hyper, np.exp(logs).T))
    assert prior is not None  # a group of unknown scale
    if prior.known:
        log_p = prior.base.log_prob(inside, values["tau"])
    else:
        log_p = prior.log_prob_given(inside, values)
    return log_p + log_prior_of_logs(logs, list(g.hyper.values()))


class _NodeResult(NamedTuple):
    """Draws with their weights, and moments of (vec beta, ...), partly exact."""

    theta: Array  # (S, d)
    points: Array  # (S, p m + a), (vec beta, log aux)
    weight: Array  # (S,), sum 1
    mean: Array
    covariance: ParameterCovariance
    stats: dict[str, float]
    notes: tuple[Note, ...]
    log_evidence: Array | None = None  # (C,), each chain's own estimate
    # of each coefficient, a mixture of normals over the nodes
    marginals: dict[str, Array] | None = None
    detail: str = ""  # why the draws are an unchecked approximation


def _draw_exactly(
    problem: EvidenceProblem,
    nodes: Nodes,
    draws: int,
    rng: Generator,
) -> _NodeResult:
    """beta given theta is normal; its moments are computed for the mixture over the nodes."""
    theta = nodes.all_theta
    chosen = nodes.draw(draws, rng)
    mixture = problem.surface.mixture(theta, nodes.weight, chosen, rng)
    log_sigma = theta[chosen, theta.shape[1] - len(problem.outer) :]
    return _NodeResult(
        theta[chosen],
        np.hstack([mixture.beta, log_sigma]),
        np.full(draws, 1.0 / draws),
        mixture.mean,
        mixture.covariance,
        {},
        (),
        nodes.log_evidence,
        {"weight": nodes.weight, "mean": mixture.node_mean, "sd": mixture.node_sd},
    )


def _normals(problem: EvidenceProblem, theta: Array) -> list[NodeNormal]:
    """Return the normal distribution at each node."""
    normals = []
    for surface, at in map(problem.surface.inner_at, theta):
        assert isinstance(surface, LaplaceSurface)  # the likelihood is not Gaussian
        columns = None
        if problem.moving:  # the values of processes at the distinct rows
            unit = np.eye(surface.model.shape[0])
            columns = transfer_coefficients(
                unit, surface.model.design, problem.model.design
            )
        normals.append(NodeNormal(surface, surface.mode(at), columns))
    return normals


def _draw_approximately(
    problem: EvidenceProblem,
    nodes: Nodes,
    draws: int,
    rng: Generator,
) -> _NodeResult:
    """Return points (beta, log aux) about the mode at every node, weighted with their node by the posterior of both."""
    normals = _normals(problem, nodes.all_theta)
    width = max(normal.width for normal in normals)
    stats = dict[str, float]()
    if width > _JOINT:
        reason = f"{width} coefficients, and at most {_JOINT} are weighed"
    else:
        result = _weight_jointly(problem, nodes, normals, draws, rng)
        k = stats["k_hat_joint"] = result.stats["k_hat_joint"]
        if k <= reliable(len(result.weight)):
            return result
        reason = f"weighed jointly with the scales they have k-hat {k:.2f}"
    return _laplace_mixture(problem.model, nodes, normals, draws, rng, reason, stats)


def _weight_jointly(
    problem: EvidenceProblem,
    nodes: Nodes,
    normals: list[NodeNormal],
    draws: int,
    rng: Generator,
) -> _NodeResult:
    """Return Student-t points about the normal at each node, with their weights."""
    df_beta = 10.0  # degrees of freedom of the points about a mode, or their number of coordinates if it is larger
    model = problem.model
    theta = nodes.all_theta
    n_each = -(-draws // len(theta))
    node_of_point = np.repeat(np.arange(len(theta)), n_each)
    log_prior = np.empty(len(node_of_point))
    log_q = np.empty(len(node_of_point))
    points = list[Array]()
    for s, normal in enumerate(normals):
        mine = slice(s * n_each, (s + 1) * n_each)
        k = normal.width
        z, log_z = student_points(rng, n_each, k, max(df_beta, k))
        log_q[mine] = log_z - normal.log_det
        log_prior[mine], theta_given = normal.points(z)
        points.append(theta_given)
    point = np.concatenate(points)
    beta, aux = split_parameters(model, point)
    # p(y, beta, aux, theta) / (q(theta) q(beta, aux | theta)), aux and the scales as densities of their logs.
    log_w = log_lik_of_draws(model, beta, aux) + log_prior - log_q
    log_w += (log_prior_of_logs(theta, problem.surface.priors) - nodes.log_q.ravel())[
        node_of_point
    ]
    log_w = np.where(np.isnan(log_w), -np.inf, log_w)
    # p(y) = E_q[w], one estimate for each scrambling
    tail = smooth_by_chain(log_w.reshape(len(nodes.theta), -1))
    weight = np.exp(tail.log_weight.ravel())
    stats = {"k_hat_joint": tail.k, "ess_joint": float(1.0 / np.square(weight).sum())}
    worth = f"k-hat {tail.k:.2f}, {len(log_w):,} of them worth {stats['ess_joint']:,.0f} independent draws"
    mean = weight @ point
    text = f"points are weighted jointly with the scales: {worth}"
    if stats["ess_joint"] < 0.5 * draws:
        advice = "Take more draws if standard deviations matter"
        note = important_note(Topic.SAMPLING, f"{text}. {advice}")
    else:
        note = routine_note(Topic.SAMPLING, text)
    return _NodeResult(
        theta[node_of_point],
        point,
        weight,
        mean,
        _sample_covariance(model, point, weight),
        stats,
        (note,),
        tail.log_mean,
    )


def _laplace_mixture(
    model: Model, nodes: Nodes, normals: list[NodeNormal], draws: int, rng: Generator, reason: str, stats: dict[str, float],
) -> _NodeResult:  # fmt: skip
    """Return draws of the normal at each node, with nodes weighted by their Laplace
    evidence; the approximation is not checked."""
    chosen = nodes.draw(draws, rng)
    point = np.empty((draws, model.n_coefficients + len(model.unknown)))
    for s in np.unique(chosen):
        mine = np.flatnonzero(chosen == s)
        z = rng.standard_normal((len(mine), normals[s].width))
        point[mine] = normals[s].points(z)[1]
    text = f"beta given the scales is normal about its mean to first order (Laplace): {reason}"
    return _NodeResult(
        nodes.all_theta[chosen],
        point,
        np.full(draws, 1.0 / draws),
        point.mean(0),
        _sample_covariance(model, point),
        stats,
        (important_note(Topic.SAMPLING, text),),
        detail=reason,
    )


def _sample_covariance(
    model: Model, point: Array, weight: Array | None = None
) -> DenseCovariance:
    """The covariance of points (S, p m + a)."""
    beta, _ = split_parameters(model, point)
    logs = point[:, model.n_coefficients :]
    return DenseCovariance.of_sample(
        model.design.frame, beta, logs, log_names(model), weight
    )
