"""The posterior under unknown prior scales: beta integrated at each value of the scales, the scales by weighted nodes.

p(beta, theta | y) = p(beta | theta, y) p(theta | y), theta the logs of the scales and of sigma. The first factor is normal
(for other likelihoods than the Gaussian approximately, and weighed); the second is known up to a constant, since the
evidence p(y | theta) has beta integrated, and has few dimensions: weighted low-discrepancy nodes replace a Markov chain.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2, norm, qmc

from probreg.arguments.scalars import Count, Limit, check_fields
from probreg.errors import NotConverged
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Solution,
    Status,
    chains_of,
    improper,
    improper_noise,
    sigma_note,
)
from probreg.inference.exact.evidence import EvidenceProblem, scales_obstacle
from probreg.inference.exact.gaussian_surface import GaussianSurface
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import ConditionalNormal, log_prior_of_logs
from probreg.inference.modes.closed_form import PriorRows, posterior_given_sigma, require_full_rank
from probreg.inference.sampling.importance import (
    all_proper,
    batched_log_lik,
    effective,
    reliable,
    resampled,
    smoothed,
    student_points,
    weighted_moments,
)
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread

MOST = 8  # hyperparameters up to which a few hundred nodes find the mass of their posterior
_DF = 6.0  # of the proposal, a Student-t
_DISTANCES = (1.0, 2.0, 4.0, 7.0)  # in standard deviations, at which its axes are compared with the density
_STRETCH = (1.1, 6.0)  # of an axis: a little at the least, and never beyond all bounds
_FIRST = 16  # nodes of each chain that are tried first where each one costs a mode
_DF_BETA = 10.0  # of the points about a mode, or their number of coordinates where that is more
_JOINT = 50  # coefficients up to which draws are weighed jointly with the scales
_ENOUGH = 100.0  # nodes, of effective ones, that are asked for
_STEP = 1e-4  # of the differences of a gradient, in logs of scales


class _Nodes(NamedTuple):
    """Points theta with their weights, chain by chain, each chain an independent scrambling of one sequence."""

    theta: Array  # (C, N, d)
    log_q: Array  # (C, N), log density of the proposal
    log_weight: Array  # (C, N), smoothed; exp sums to one over all
    k_hat: float
    log_evidence: Array  # (C,), each chain's own estimate

    @property
    def ess(self) -> float:
        return effective(self.log_weight)


@METHODS.register
@dataclass(frozen=True)
class Integrate(Method):
    """p(beta, theta | y) = p(beta | theta, y) p(theta | y), integrated over theta, the logs of prior scales and of sigma.

    p(theta | y) is known up to a constant, with beta integrated: exactly for a Gaussian likelihood, by Laplace's
    approximation for other smooth ones. Nodes theta are scrambled Sobol points of a Student-t about its maximum. Their
    importance weights, smoothed by a Pareto tail, say by its shape k-hat whether they suffice. beta given theta is normal
    and drawn exactly. Elsewhere points about mode - H^-1 grad log|H|^(1/2) are weighed with their nodes by the posterior
    itself and resampled, where there are at most 50 coefficients; without these weights the status is no good one.

    Parameters
    ----------
    nodes : int
        Nodes in all, a power of two for each chain, rounded up; where each costs a mode, a few are tried first and
        doubled up to this number.
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, each with its own nodes.
    max_k : float, optional
        The largest k-hat, by default min(1 - 1 / log10 S, 0.7) for S nodes.

    Raises
    ------
    NotConverged
        Where k-hat is above `max_k`, since means over the nodes do not settle.

    References
    ----------
    Rue, Martino & Chopin 2009; Vehtari et al. 2024; Owen 1998 (scrambled points).

    Examples
    --------
    >>> from probreg.priors import HalfNormal, Normal
    >>> X = np.eye(4)
    >>> model = Model.from_arrays(X, [1.0, -1.0, 2.0, 0.0], intercept=False, prior=Normal(HalfNormal(2.0)), aux={"sigma": 1.0})
    >>> found = Integrate(draws=250).solve(model, np.random.default_rng(0))
    >>> found.draws["tau"].shape, found.stats["k_hat"] < 0.7
    ((4, 250), True)
    """

    nodes: Count = 1024
    draws: Count = 1000
    chains: Count = 4
    max_k: Limit | None = None

    name = "integrate"
    likelihood = SmoothLikelihood
    target = "posterior"

    def __post_init__(self) -> None:
        check_fields(self)

    def obstacle(self, model: Model) -> str | None:
        if (why := scales_obstacle(self, model, "averages over")) is not None:
            return why
        problem = EvidenceProblem(model, per_column=False, method=self.name)
        for group in problem.unknown:
            for name, prior in group.hyper.items():
                if not prior.proper:
                    what, such = (
                        ("scale", "Normal(HalfNormal(1.0))") if name == "tau" else (name, f"{name}=HalfNormal(1.0)")
                    )
                    return (
                        f"integrate: the {what} of {problem.named(group)} has an improper prior, under which the posterior has no "
                        f"finite mass; give a proper one such as {such}, or use evidence"
                    )
        if (d := len(problem.groups.priors) + problem.noise) > MOST:
            return f"integrate lays nodes in at most {MOST} dimensions, and this model has {d} unknown scales; use nuts"
        return improper(self, model) or improper_noise(self, model)

    @one_blas_thread()  # small matrices, many times: threads would wait for one another
    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        problem = EvidenceProblem(model, per_column=False, method=self.name)
        start = posterior_given_sigma(model.design.moments, PriorRows.of(problem.starting_model.joint), 1.0)
        require_full_rank(start, model, self.name)
        nodes = self._weighed(problem, rng)
        limit = reliable(nodes.log_weight.size) if self.max_k is None else self.max_k
        if not nodes.k_hat <= limit:
            raise NotConverged(
                f"integrate: k-hat {nodes.k_hat:.2f} of {nodes.log_weight.size:,} nodes is above {limit:.2f}: a few carry the "
                "weight, for the posterior of the scales is far from a normal about its maximum. Sample it, fit(model, 'nuts')"
            )
        return _solution(model, problem, nodes, self, rng)

    def _weighed(self, problem: EvidenceProblem, rng: np.random.Generator) -> _Nodes:
        top = problem.maximise(300)
        proposal, d = _proposal(problem, top.theta), len(top.theta)
        of_chain = 2 ** max(1, math.ceil(math.log2(self.nodes / self.chains)))  # a sequence is even at powers of two
        streams = [qmc.Sobol(d + 1, rng=child) for child in rng.spawn(self.chains)]
        size = of_chain if problem.exact else min(_FIRST, of_chain)
        theta, value, log_q = np.empty((self.chains, 0, d)), np.empty((self.chains, 0)), np.empty((self.chains, 0))
        while True:
            U = np.stack([s.random(size) for s in streams])
            new, log_q_new = proposal.points(np.clip(U, 1e-12, 1 - 1e-12))
            value_new = problem.surface.values(new.reshape(-1, d)).reshape(log_q_new.shape)
            theta = np.concatenate([theta, new], 1)
            value, log_q = np.concatenate([value, value_new], 1), np.concatenate([log_q, log_q_new], 1)
            found = _normalised(theta, value, log_q)
            done, total = theta.shape[1], theta[..., 0].size
            if 2 * done > of_chain or (found.k_hat <= min(0.5, reliable(total)) and found.ess >= _ENOUGH):
                return found
            size = done


class _Proposal(NamedTuple):
    """A Student-t about `centre`, stretched along each axis by a factor of its own on either side (Geweke 1989)."""

    centre: Array  # (d,)
    root: Array  # (d, d), one axis a column
    stretch: Array  # (2, d), below and above

    def points(self, U: Array) -> tuple[Array, Array]:
        """Points (C, N, d) from uniform ones (C, N, d + 1), and the log density of each."""
        d = len(self.centre)
        # z = Phi^-1(U) / (chi^2_nu / nu)^(1/2)
        z = norm.ppf(U[..., :d]) / np.sqrt(chi2.ppf(U[..., d:], _DF) / _DF)
        r = np.where(z < 0, *self.stretch)
        # theta = centre + root (r z): log q(theta) = log Gamma((nu + d)/2) - log Gamma(nu/2) - d/2 log(nu pi)
        # - (nu + d)/2 log(1 + |z|^2 / nu) - log|root| - sum_i log r_i.
        constant = gammaln((_DF + d) / 2) - gammaln(_DF / 2) - 0.5 * d * np.log(_DF * np.pi)
        log_q = constant - 0.5 * (_DF + d) * np.log1p((z**2).sum(-1) / _DF)
        return self.centre + (r * z) @ self.root.T, log_q - np.linalg.slogdet(self.root)[1] - np.log(r).sum(-1)


def _proposal(problem: EvidenceProblem, theta: Array) -> _Proposal:
    """Axes from the curvature at the maximum, stretched where the density falls more slowly than a normal's."""
    values, vectors = np.linalg.eigh(_curvature(problem, theta))
    # A direction in which the density hardly falls gets a spread of ten units of the log.
    root = vectors / np.sqrt(np.maximum(values, 1e-2))
    away = np.array([sign * h * axis for sign in (-1.0, 1.0) for axis in root.T for h in _DISTANCES])
    found = problem.surface.values(np.vstack([theta, theta + away]))
    fall = np.maximum(found[0] - found[1:], 1e-300).reshape(2, len(theta), len(_DISTANCES))
    # A normal of standard deviation r falls by (h / r)^2 / 2 at h: the widest r that any distance asks for.
    r = np.nanmax(np.array(_DISTANCES) / np.sqrt(2.0 * fall), axis=-1)
    return _Proposal(theta, root, np.clip(r, *_STRETCH))


def _normalised(theta: Array, value: Array, log_q: Array) -> _Nodes:
    log_w = value - log_q
    tail = smoothed(log_w.ravel())
    # p(y) = E_q[p(y, theta) / q(theta)], the mean weight; one estimate for each scrambling.
    evidence = np.logaddexp.reduce(log_w, axis=1) - np.log(log_w.shape[1])
    log_weight = tail.log_weight - np.logaddexp.reduce(tail.log_weight)
    return _Nodes(theta, log_q, log_weight.reshape(log_w.shape), tail.k, evidence)


def _curvature(problem: EvidenceProblem, theta: Array) -> Array:
    """Minus the second derivatives at the maximum: differences of the gradient, which is exact."""
    eye = _STEP * np.eye(len(theta))
    H = np.array([problem.surface(theta + e).gradient - problem.surface(theta - e).gradient for e in eye]) / (2 * _STEP)
    return -(H + H.T) / 2


# ---- from nodes to draws -----------------------------------------------------------------------------------------------


def _solution(
    model: Model, problem: EvidenceProblem, nodes: _Nodes, method: Integrate, rng: np.random.Generator
) -> Solution:
    total, names = method.draws * method.chains, problem.names
    found = (_exact if problem.exact else _approximate)(model, problem, nodes, total, rng)
    drawn = {**found.aux, **{name: np.exp(found.theta[:, i]) for i, name in enumerate(names)}}
    moments = {a: weighted_moments(v, found.weight) for a, v in found.aux.items()}
    if problem.noise:  # of the nodes themselves, whose error is far below that of draws
        at_nodes = np.exp(nodes.theta.reshape(-1, nodes.theta.shape[-1])[:, -1])
        moments[model.noise_scale] = weighted_moments(at_nodes, np.exp(nodes.log_weight.ravel()))
    index = slice(None) if problem.exact or found.detail else rng.permutation(resampled(found.weight, total, rng))
    draws = {"beta": found.beta, **drawn}
    stats = {"k_hat": nodes.k_hat, "ess": nodes.ess, "nodes": float(nodes.log_weight.size), "n": model.design.total}
    stats |= found.stats
    if all_proper(model) and (evidence := found.log_evidence) is not None:
        stats["log_evidence"] = float(np.logaddexp.reduce(evidence) - np.log(len(evidence)))
        if len(evidence) > 1:  # independent scramblings: their spread is the error of their mean
            stats["log_evidence_se"] = float(np.std(evidence, ddof=1) / np.sqrt(len(evidence)))
    k = model.shape[0] * model.shape[1]
    said = (
        f"k-hat {nodes.k_hat:.2f}; {nodes.log_weight.size:,} nodes over {', '.join([*names, *(model.unknown if problem.noise else ())])} "
        f"are worth {nodes.ess:,.0f} equal ones"
    )
    return Solution(
        beta=found.mean[:k].reshape(model.shape),
        scale=found.covariance[:k, :k],
        aux={a: moments[a][0] for a in model.unknown},
        aux_sd={a: moments[a][1] for a in model.unknown},
        draws=Draws(
            {name: chains_of(values[index], method.chains) for name, values in draws.items()},
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


def _exact(model: Model, problem: EvidenceProblem, nodes: _Nodes, draws: int, rng: np.random.Generator) -> _Found:
    """beta given theta is normal; its moments are those of the mixture over the nodes."""
    surface = problem.surface
    assert isinstance(surface, GaussianSurface)
    theta, weight = nodes.theta.reshape(-1, nodes.theta.shape[-1]), np.exp(nodes.log_weight.ravel())
    chosen = rng.permutation(resampled(weight, draws, rng))
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
    return _Found(
        theta[chosen], beta[..., None], aux, equal, mean_beta, covariance, {}, (), marginals, nodes.log_evidence
    )


def _approximate(model: Model, problem: EvidenceProblem, nodes: _Nodes, draws: int, rng: np.random.Generator) -> _Found:
    """Points (beta, log aux) about the mode at every node, weighed with their node by the posterior of both."""
    surface, (p, m) = problem.surface, model.shape
    assert isinstance(surface, LaplaceSurface)
    theta = nodes.theta.reshape(-1, nodes.theta.shape[-1])
    k, each = p * m + len(model.unknown), -(-draws // len(theta))
    at = [surface.conditional(t) for t in theta]
    if p * m > _JOINT:
        return _unweighed(model, nodes, at, draws, rng, f"{p * m} coefficients, and at most {_JOINT} are weighed")
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
    log_w += (log_prior_of_logs(theta, surface.priors) - nodes.log_q.ravel())[of]
    log_w = np.where(np.isnan(log_w), -np.inf, log_w)
    tail = smoothed(log_w)
    if not tail.k <= reliable(len(log_w)):
        why = f"weighed jointly with the scales they have k-hat {tail.k:.2f}"
        return _unweighed(model, nodes, at, draws, rng, why, {"k_hat_joint": tail.k})
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
    model: Model, nodes: _Nodes, at: list[ConditionalNormal], draws: int, rng: np.random.Generator, why: str,
    stats: dict[str, float] | None = None,
) -> _Found:  # fmt: skip
    """Draws of the normal at each node, the nodes by their Laplace evidence: an approximation that nothing vouches for."""
    theta, weight = nodes.theta.reshape(-1, nodes.theta.shape[-1]), np.exp(nodes.log_weight.ravel())
    chosen = rng.permutation(resampled(weight, draws, rng))
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
