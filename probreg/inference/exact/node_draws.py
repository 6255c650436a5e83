"""From weighted nodes of hyperparameters to draws of all coefficients, and their moments.

beta given theta is normal and drawn exactly for a Gaussian likelihood, whose moments are those of the mixture over the nodes. Elsewhere
points about a normal at each mode are weighed with their nodes by the posterior of both.
"""

from typing import NamedTuple

import numpy as np

from probreg.inference.base import (
    Array,
    Draws,
    Solution,
    Status,
    chains_of,
    sigma_note,
)
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.gaussian_surface import GaussianSurface
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import ConditionalNormal, log_prior_of_logs
from probreg.inference.exact.nodes import (
    Nodes,
)
from probreg.inference.exact.process_surface import ProcessSurface
from probreg.inference.sampling.importance import (
    all_proper,
    batched_log_lik,
    reliable,
    resampled,
    smoothed,
    student_points,
    weighted_moments,
)
from probreg.model.model import Model

_DF_BETA = 10.0  # of the points about a mode, or their number of coordinates where that is more
_JOINT = 200  # coefficients up to which draws are weighed jointly with the scales
_NO_WEIGHT = 1e-12  # of all: a node that changes no digit


def solution_at_nodes(
    model: Model, problem: EvidenceProblem, nodes: Nodes, draws: int, chains: int, rng: np.random.Generator
) -> Solution:
    """The posterior by weighted nodes of the hyperparameters: so many draws of each of so many chains."""
    total, names = draws * chains, problem.names
    by = _of_rows if problem.moving else _exact if problem.exact else _approximate
    found = by(model, problem, nodes, total, rng)
    drawn = {**found.aux, **{name: np.exp(found.theta[:, i]) for i, name in enumerate(names)}}
    moments = {a: weighted_moments(v, found.weight) for a, v in found.aux.items()}
    if problem.noise:  # of the nodes themselves, whose error is far below that of draws
        at_nodes = np.exp(nodes.theta.reshape(-1, nodes.theta.shape[-1])[:, -1])
        moments[model.noise_scale] = weighted_moments(at_nodes, np.exp(nodes.log_weight.ravel()))
    index = slice(None) if problem.exact or found.detail else rng.permutation(resampled(found.weight, total, rng))
    values = {"beta": found.beta, **drawn}
    stats = {"n": model.design.total, **nodes.worth, **found.stats}
    if all_proper(model) and (evidence := found.log_evidence) is not None:
        stats["log_evidence"] = float(np.logaddexp.reduce(evidence) - np.log(len(evidence)))
        if len(evidence) > 1:  # independent scramblings: their spread is the error of their mean
            stats["log_evidence_se"] = float(np.std(evidence, ddof=1) / np.sqrt(len(evidence)))
    k = model.shape[0] * model.shape[1]
    said = nodes.words([*names, *(model.unknown if problem.noise else ())])
    return Solution(
        beta=found.mean[:k].reshape(model.shape),
        scale=found.covariance[:k, :k],
        aux={a: moments[a][0] for a in model.unknown},
        aux_sd={a: moments[a][1] for a in model.unknown},
        draws=Draws(
            {name: chains_of(each[index], chains) for name, each in values.items()},
            stats=nodes.chain_stats or {},
            hyper=tuple(names),
            marginals=found.marginals,
        ),
        status=Status.UNWEIGHED if found.detail else Status.SAMPLED,
        detail=found.detail,
        stats=stats,
        notes=(
            *sigma_note(
                model, f"{'sigma is integrated with the scales' if problem.noise else 'sigma is drawn with beta'}"
            ),
            said,
            *found.notes,
        ),
    )


_EXACTLY = "beta given the scales is drawn from its exact normal distribution"


class _Found(NamedTuple):
    """Draws with their weights, and moments of (vec beta, ...), in part exact."""

    theta: Array  # (S, d)
    beta: Array  # (S, p, m)
    aux: dict[str, Array]  # name -> (S,)
    weight: Array  # (S,), sum 1
    mean: Array
    covariance: Array
    stats: dict[str, float]
    notes: tuple[str, ...]
    marginals: dict[str, Array] | None = None  # of each coefficient, a mixture of normals over the nodes
    log_evidence: Array | None = None  # (C,), each chain's own estimate
    detail: str = ""  # why the draws are not vouched for


def _exact(model: Model, problem: EvidenceProblem, nodes: Nodes, draws: int, rng: np.random.Generator) -> _Found:
    """beta given theta is normal; its moments are those of the mixture over the nodes."""
    surface = problem.surface
    assert isinstance(surface, GaussianSurface)
    theta, weight = nodes.theta.reshape(-1, nodes.theta.shape[-1]), np.exp(nodes.log_weight.ravel())
    chosen = nodes.drawn(draws, rng)
    c, G, F = surface.coefficients
    q, k = G.shape[1], F.shape[1]
    spread, gammas = np.zeros((q, q)), np.empty((len(chosen), q))
    gamma, inner = np.empty((len(theta), q)), np.empty((len(theta), len(c)))
    for part in surface.blocks_of(theta):
        at = surface.at_nodes(theta[part])
        w, gamma[part] = weight[part], at.mean
        # E[cov(gamma | theta)] = sum_s w_s T_s T_s'
        if at.T.ndim == 2:
            spread += np.diag(w @ at.T**2)
            inner[part] = at.T**2 @ np.square(G).T
        else:
            spread += np.einsum("s,sij,skj->ik", w, at.T, at.T, optimize=True)
            inner[part] = np.square(G @ at.T).sum(-1)
        place = np.full(len(theta), -1)
        place[part] = np.arange(len(part))
        mine = np.flatnonzero(place[chosen] >= 0)  # draws of these nodes
        z, of = rng.standard_normal((len(mine), q)), place[chosen[mine]]
        gammas[mine] = at.mean[of] + (at.T[of] * z if at.T.ndim == 2 else np.einsum("sij,sj->si", at.T[of], z))
    mean = weight @ gamma
    deviation = np.sqrt(weight)[:, None] * (gamma - mean)
    sigma = np.exp(theta[:, -1]) if problem.noise else np.full(len(theta), model.noise())
    # cov(beta) = G (E[cov] + cov(E)) G' + E[sigma^2] F F'
    covariance = G @ (spread + deviation.T @ deviation) @ G.T + (weight @ sigma**2) * F @ F.T
    beta = c + gammas @ G.T + sigma[chosen, None] * (rng.standard_normal((len(chosen), k)) @ F.T)
    aux = {model.noise_scale: sigma[chosen]} if problem.noise else {}
    equal = np.full(len(chosen), 1.0 / len(chosen))
    # beta_j | theta ~ N(c_j + G_j m, |G_j T|^2 + sigma^2 |F_j|^2)
    sd = np.sqrt(inner + sigma[:, None] ** 2 * np.square(F).sum(1))
    marginals = {"weight": weight, "mean": c + gamma @ G.T, "sd": sd}
    mean_beta = c + G @ mean
    notes = () if nodes.chain_stats is None else (_EXACTLY,)
    evidence = nodes.log_evidence if nodes.chain_stats is None else None
    return _Found(theta[chosen], beta[..., None], aux, equal, mean_beta, covariance, {}, notes, marginals, evidence)


def _of_rows(model: Model, problem: EvidenceProblem, nodes: Nodes, draws: int, rng: np.random.Generator) -> _Found:
    """The same of processes whose hyperparameters are in their columns, node by node from the rows."""
    surface = problem.surface
    assert isinstance(surface, ProcessSurface)
    theta, weight = nodes.theta.reshape(-1, nodes.theta.shape[-1]), np.exp(nodes.log_weight.ravel())
    chosen, p = nodes.drawn(draws, rng), model.shape[0]
    means, sd, inner = np.zeros((len(theta), p)), np.zeros((len(theta), p)), np.zeros((p, p))
    beta = np.empty((draws, p))
    told = np.flatnonzero((weight > _NO_WEIGHT) | (np.bincount(chosen, minlength=len(theta)) > 0))
    for s in told:
        at = surface.conditional(theta[s])
        mine = np.flatnonzero(chosen == s)
        beta[mine] = at.mean + rng.standard_normal((len(mine), at.root.shape[1])) @ at.root.T
        means[s], sd[s] = at.mean, np.linalg.norm(at.root, axis=1)
        inner += weight[s] * (at.root @ at.root.T)
    share = weight[told] / weight[told].sum()
    mean = share @ means[told]
    # cov(beta) = E[cov(beta | theta)] + cov(E[beta | theta])
    deviation = np.sqrt(share)[:, None] * (means[told] - mean)
    sigma = np.exp(theta[chosen, -1]) if problem.noise else np.empty(0)
    aux = {model.noise_scale: sigma} if problem.noise else {}
    marginals = {"weight": share, "mean": means[told], "sd": sd[told]}
    notes = () if nodes.chain_stats is None else (_EXACTLY,)
    evidence = nodes.log_evidence if nodes.chain_stats is None else None
    equal = np.full(draws, 1.0 / draws)
    covariance = inner / weight[told].sum() + deviation.T @ deviation
    return _Found(
        theta[chosen], beta[..., None], aux, equal, mean, covariance, {}, notes, marginals, evidence
    )  # fmt: skip


def _approximate(model: Model, problem: EvidenceProblem, nodes: Nodes, draws: int, rng: np.random.Generator) -> _Found:
    """Points (beta, log aux) about the mode at every node, weighed with their node by the posterior of both."""
    surface, (p, m) = problem.surface, model.shape
    assert isinstance(surface, LaplaceSurface)
    theta = nodes.theta.reshape(-1, nodes.theta.shape[-1])
    why = "draws of Markov chains are not weighed" if nodes.chain_stats is not None else ""
    if not why and p * m > _JOINT:
        why = f"{p * m} coefficients, and at most {_JOINT} are weighed"
    if not why and surface.many_rows:
        # the shift of the mean, in standard deviations, is that of the node of most weight: weights say whether it will do
        shift = surface.shift(theta[int(np.argmax(nodes.log_weight))])
        at = [surface.conditional(t, shift) for t in theta]
        found = _weighed_jointly(model, problem, nodes, at, draws, rng)
        if found.stats["k_hat_joint"] <= reliable(len(found.weight)):
            return found
    at = [surface.conditional(t) for t in theta]
    if why:
        return _unweighed(model, nodes, at, draws, rng, why)
    found = _weighed_jointly(model, problem, nodes, at, draws, rng)
    if not (k := found.stats["k_hat_joint"]) <= reliable(len(found.weight)):
        why = f"weighed jointly with the scales they have k-hat {k:.2f}"
        return _unweighed(model, nodes, at, draws, rng, why, {"k_hat_joint": k})
    return found


def _weighed_jointly(
    model: Model,
    problem: EvidenceProblem,
    nodes: Nodes,
    at: list[ConditionalNormal],
    draws: int,
    rng: np.random.Generator,
) -> _Found:
    """Student-t points about the normal at each node, with their weights."""
    theta, (p, m) = nodes.theta.reshape(-1, nodes.theta.shape[-1]), model.shape
    k, each = p * m + len(model.unknown), -(-draws // len(theta))
    z, log_q = student_points(rng, len(theta) * each, k, max(_DF_BETA, k))
    of = np.repeat(np.arange(len(theta)), each)
    point, log_prior = np.empty((len(of), k)), np.empty(len(of))
    for s, here in enumerate(at):
        mine = slice(s * each, (s + 1) * each)
        point[mine] = here.mean + z[mine] @ here.root.T
        log_q[mine] -= np.linalg.slogdet(here.root)[1]
        plain = model.with_prior(problem.prior_at(np.exp(theta[s])))
        beta, aux = _split(model, point[mine])
        log_prior[mine] = plain.log_prior(beta, **aux)
    beta, aux = _split(model, point)
    # p(y, beta, aux, theta) / (q(theta) q(beta, aux | theta)), aux and the scales as densities of their logs.
    log_w = batched_log_lik(model, beta, aux) + log_prior + point[:, p * m :].sum(1) - log_q
    log_w += (log_prior_of_logs(theta, problem.surface.priors) - nodes.log_q.ravel())[of]
    log_w = np.where(np.isnan(log_w), -np.inf, log_w)
    tail = smoothed(log_w)
    weight = np.exp(tail.log_weight - np.logaddexp.reduce(tail.log_weight))
    # p(y) = E_q[w], one estimate for each scrambling
    chains = log_w.reshape(len(nodes.theta), -1)
    evidence = np.logaddexp.reduce(chains, axis=1) - np.log(chains.shape[1])
    stats = {"k_hat_joint": tail.k, "ess_joint": float(1.0 / np.square(weight).sum())}
    worth = f"k-hat {tail.k:.2f}, {len(log_w):,} of them worth {stats['ess_joint']:,.0f} independent draws"
    mean = weight @ point
    deviation = point - mean
    covariance = deviation.T @ (weight[:, None] * deviation)
    notes = (f"points are weighed jointly with the scales: {worth}",)
    return _Found(theta[of], beta, aux, weight, mean, covariance, stats, notes, log_evidence=evidence)


def _unweighed(
    model: Model, nodes: Nodes, at: list[ConditionalNormal], draws: int, rng: np.random.Generator, why: str,
    stats: dict[str, float] | None = None,
) -> _Found:  # fmt: skip
    """Draws of the normal at each node, the nodes by their Laplace evidence: an approximation that nothing vouches for."""
    theta, chosen = nodes.theta.reshape(-1, nodes.theta.shape[-1]), nodes.drawn(draws, rng)
    point = np.empty((draws, len(at[0].mean)))
    for s in np.unique(chosen):
        mine = np.flatnonzero(chosen == s)
        point[mine] = at[s].mean + rng.standard_normal((len(mine), at[s].root.shape[1])) @ at[s].root.T
    beta, aux = _split(model, point)
    equal = np.full(draws, 1.0 / draws)
    said = f"beta given the scales is normal about its mean to first order (Laplace): {why}"
    return _Found(theta[chosen], beta, aux, equal, point.mean(0), np.cov(point.T), stats or {}, (said,), detail=why)


def _split(model: Model, point: Array) -> tuple[Array, dict[str, Array]]:
    """beta (S, p, m) and aux (S,) of points (vec beta, log aux)."""
    p, m = model.shape
    return point[:, : p * m].reshape(-1, p, m), {a: np.exp(point[:, p * m + i]) for i, a in enumerate(model.unknown)}
