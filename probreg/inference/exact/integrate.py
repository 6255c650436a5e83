"""The posterior under unknown prior scales: beta integrated at each value of the scales, the scales by weighted nodes.

p(beta, theta | y) = p(beta | theta, y) p(theta | y), theta the logs of the scales and of sigma. The first factor is normal
(for other likelihoods than the Gaussian approximately, and weighed); the second is known up to a constant, since the
evidence p(y | theta) has beta integrated. Up to 8 dimensions weighted low-discrepancy nodes replace a Markov chain; in more of them
chains run over theta alone.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from probreg.arguments.scalars import Count, Limit, check_fields
from probreg.errors import NotConverged
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Resolved,
    Solution,
    Status,
    chains_of,
    improper,
    improper_noise,
    sigma_note,
)
from probreg.inference.exact.evidence import scales_obstacle
from probreg.inference.exact.evidence_problem import EvidenceProblem, with_values
from probreg.inference.exact.gaussian_surface import GaussianSurface
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import ConditionalNormal, log_prior_of_logs
from probreg.inference.exact.nodes import (
    Nodes,
    Proposal,
    proposal_about,
    proposal_of,
    sampled_nodes,
    weighed_nodes,
)
from probreg.inference.exact.process_surface import ProcessSurface
from probreg.inference.modes.closed_form import PriorRows, posterior_given_sigma, require_full_rank
from probreg.inference.sampling.convergence import judged
from probreg.inference.sampling.importance import (
    all_proper,
    batched_log_lik,
    reliable,
    resampled,
    smoothed,
    student_points,
    weighted_moments,
)
from probreg.inference.sampling.sampler import SamplerSettings
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread

MOST = 8  # hyperparameters up to which a few hundred nodes find the mass of their posterior
_TUNE = 300  # steps of adaptation of a chain, in coordinates that the curvature has made round
_FIRST = 16  # nodes of each chain that are tried first where each one costs a mode
_DF_BETA = 10.0  # of the points about a mode, or their number of coordinates where that is more
_JOINT = 200  # coefficients up to which draws are weighed jointly with the scales
_ROUNDS = 3  # of nodes about where the last ones found the mass, while their weights do not settle
_MANY_ROWS = 300  # whose matrices take more than some milliseconds to factor
_NO_WEIGHT = 1e-12  # of all: a node that changes no digit
_ENOUGH = 90.0  # nodes, of effective ones, that are asked for


@METHODS.register
@dataclass(frozen=True)
class Integrate(Method):
    """p(beta, theta | y) = p(beta | theta, y) p(theta | y), integrated over theta, the logs of prior scales and of sigma.

    p(theta | y) is known up to a constant, with beta integrated: exactly for a Gaussian likelihood, by Laplace's
    approximation for other smooth ones. Nodes theta are scrambled Sobol points of a Student-t about its maximum. Their
    importance weights, smoothed by a Pareto tail, say by its shape k-hat whether they suffice. beta given theta is normal
    and drawn exactly. Elsewhere points about mode - H^-1 grad log|H|^(1/2) are weighed with their nodes by the posterior
    itself and resampled, where there are at most 200 coefficients; without these weights the status is no good one.

    Of an exact process whose length is unknown beta are the values at the distinct rows, for a Gaussian likelihood: off the rows
    each draw goes on as the process of its own length.

    Above 8 dimensions theta is sampled by NUTS on the same surface, and judged as Markov chains are. beta given theta is then drawn
    exactly for a Gaussian likelihood; for others it is normal about the mode, no weights vouch for that, and the status says so.

    Parameters
    ----------
    nodes : int
        Nodes in all, a power of two for each chain, rounded up; where each costs a mode, or the factor of a matrix of more than 300
        rows, a few are tried first and doubled up to this number.
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, each with its own nodes or a Markov chain.
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
    may_make_chains = True
    rebuilds = True

    def __post_init__(self) -> None:
        check_fields(self)

    def obstacle(self, model: Model) -> str | None:
        if (why := scales_obstacle(self, model, "averages over")) is not None:
            return why
        problem = EvidenceProblem(model, per_column=False, method=self.name)
        for g, p in problem.moving:
            if p.basis.kind != "exact" or not model.likelihood.least_squares:
                which = (
                    f"basis={p.basis.kind!r}" if p.basis.kind != "exact" else f"a {model.likelihood.name} likelihood"
                )
                return (
                    f"integrate cannot move the {' and '.join(p.in_columns)} of {problem.named(g)}, which stands in its columns, with "
                    f"{which}: use evidence, or basis='hsgp', which has it in the prior"
                )
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
        return improper(self, model) or improper_noise(self, model)

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        return Resolved(with_values(model), self)

    @one_blas_thread()  # small matrices, many times: threads would wait for one another
    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        model = with_values(model)
        problem = EvidenceProblem(model, per_column=False, method=self.name)
        if not problem.moving:
            start = posterior_given_sigma(model.design.moments, PriorRows.of(problem.starting_model.joint), 1.0)
            require_full_rank(start, model, self.name)
        if dimensions(problem) > MOST:
            return self._by_chains(model, problem, rng)
        nodes = self._weighed(problem, rng)
        limit = reliable(nodes.log_weight.size) if self.max_k is None else self.max_k
        if not np.isfinite(nodes.k_hat) and nodes.log_weight.size < Integrate.nodes:
            raise NotConverged(
                f"integrate: {nodes.log_weight.size:,} nodes do not tell their k-hat: take more nodes, Integrate(nodes={Integrate.nodes})"
            )
        if not nodes.k_hat <= limit:
            raise NotConverged(
                f"integrate: k-hat {nodes.k_hat:.2f} of {nodes.log_weight.size:,} nodes is above {limit:.2f}: a few carry the "
                "weight, for the posterior of the scales is far from a normal about its maximum. Sample it, fit(model, 'nuts')"
            )
        return _solution(model, problem, nodes, self, rng)

    def _by_chains(self, model: Model, problem: EvidenceProblem, rng: np.random.Generator) -> Solution:
        """theta by Markov chains, whose verdict comes before what is said of beta given theta."""
        run = SamplerSettings(int(rng.integers(2**31)), self.draws, _TUNE, self.chains)
        nodes = sampled_nodes(problem, problem.maximise(300).theta, run)
        found = _solution(model, problem, nodes, self, rng)
        verdict = judged(model, replace(found, status=Status.SAMPLED, detail=""))
        return found if verdict.status.good else verdict

    def _weighed(self, problem: EvidenceProblem, rng: np.random.Generator) -> Nodes:
        proposal = proposal_about(problem, problem.maximise(300).theta)
        found = self._laid(problem, proposal, rng)
        # Where a bent density has more mass on one side than the axes saw, the nodes themselves say where it lies.
        for _ in range(_ROUNDS if problem.exact else 1):
            if found.k_hat <= reliable(found.log_weight.size):
                break
            again = self._laid(problem, proposal_of(found), rng)
            found = min(found, again, key=lambda nodes: nodes.k_hat)
        return found

    def _laid(self, problem: EvidenceProblem, proposal: Proposal, rng: np.random.Generator) -> Nodes:
        """Nodes of a proposal with their weights; where each costs a mode, more and more of them."""
        d = len(proposal.centre)
        of_chain = 2 ** max(1, math.ceil(math.log2(self.nodes / self.chains)))  # a sequence is even at powers of two
        streams = [qmc.Sobol(d + 1, rng=child) for child in rng.spawn(self.chains)]
        size = min(_FIRST, of_chain) if _dear(problem) else of_chain
        theta, value, log_q = np.empty((self.chains, 0, d)), np.empty((self.chains, 0)), np.empty((self.chains, 0))
        while True:
            U = np.stack([s.random(size) for s in streams])
            new, log_q_new = proposal.points(np.clip(U, 1e-12, 1 - 1e-12))
            value_new = problem.surface.values(new.reshape(-1, d)).reshape(log_q_new.shape)
            theta = np.concatenate([theta, new], 1)
            value, log_q = np.concatenate([value, value_new], 1), np.concatenate([log_q, log_q_new], 1)
            found = weighed_nodes(theta, value, log_q)
            done, total = theta.shape[1], theta[..., 0].size
            if 2 * done > of_chain or (found.k_hat <= min(0.5, reliable(total)) and found.ess >= _ENOUGH):
                return found
            size = done


def _dear(problem: EvidenceProblem) -> bool:
    """A node costs a mode, or the factor of a large matrix."""
    return not problem.exact or (bool(problem.moving) and problem.model.design.n > _MANY_ROWS)


def dimensions(problem: EvidenceProblem) -> int:
    """The number of unknown scales, sigma of a Gaussian likelihood counted."""
    return len(problem.groups.priors) + problem.noise


# ---- from nodes to draws -----------------------------------------------------------------------------------------------


def _solution(
    model: Model, problem: EvidenceProblem, nodes: Nodes, method: Integrate, rng: np.random.Generator
) -> Solution:
    total, names = method.draws * method.chains, problem.names
    by = _of_rows if isinstance(problem.surface, ProcessSurface) else _exact if problem.exact else _approximate
    found = by(model, problem, nodes, total, rng)
    drawn = {**found.aux, **{name: np.exp(found.theta[:, i]) for i, name in enumerate(names)}}
    moments = {a: weighted_moments(v, found.weight) for a, v in found.aux.items()}
    if problem.noise:  # of the nodes themselves, whose error is far below that of draws
        at_nodes = np.exp(nodes.theta.reshape(-1, nodes.theta.shape[-1])[:, -1])
        moments[model.noise_scale] = weighted_moments(at_nodes, np.exp(nodes.log_weight.ravel()))
    index = slice(None) if problem.exact or found.detail else rng.permutation(resampled(found.weight, total, rng))
    draws = {"beta": found.beta, **drawn}
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
            {name: chains_of(values[index], method.chains) for name, values in draws.items()},
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
    if not why and surface.dear:
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
