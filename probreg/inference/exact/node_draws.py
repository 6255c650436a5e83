"""From weighted nodes of hyperparameters to draws of all coefficients, and their moments.

beta given theta is normal and drawn exactly for a Gaussian likelihood, whose moments are those of the mixture over the nodes. Elsewhere
points about a normal at each mode are weighed with their nodes by the posterior of both.
"""

from typing import NamedTuple

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import (
    Array,
    Draws,
    Solution,
    Status,
    chains_of,
    log_names,
    sigma_note,
)
from probreg.inference.covariance import (
    DenseCovariance,
    ParameterCovariance,
    root_of_square,
)
from probreg.inference.exact.arrow_draws import ArrowLaw, posterior_by_arrow
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface
from probreg.inference.exact.arrow_surface import ArrowSurface
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.gaussian_surface import GaussianSurface
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import (
    ConditionalNormal,
    EvidenceSurface,
    LatentGroup,
    log_prior_of_logs,
)
from probreg.inference.exact.nodes import (
    Nodes,
)
from probreg.inference.exact.process_surface import ProcessSurface
from probreg.inference.exact.rebased_surface import RebasedSurface
from probreg.inference.notes import Note, Topic, important_note, routine_note
from probreg.inference.sampling.importance import (
    all_proper,
    batched_log_lik,
    reliable,
    resampled,
    smoothed,
    weighted_moments,
)
from probreg.inference.sampling.proposal import student_points
from probreg.model.model import Model
from probreg.priors.gaussian_process import FunctionValues

_DF_BETA = 10.0  # of the points about a mode, or their number of coordinates where that is more
_JOINT = 1000  # coefficients up to which draws are weighed jointly with the scales
_SWEEPS = 10  # of the coordinates, after which a draw has left its node
_NO_WEIGHT = 1e-12  # of all: a node that changes no digit


def solution_at_nodes(
    model: Model,
    problem: EvidenceProblem,
    nodes: Nodes,
    draws: int,
    chains: int,
    rng: np.random.Generator,
) -> Solution:
    """The posterior by weighted nodes of the hyperparameters: so many draws of each of so many chains."""
    total = draws * chains
    names = problem.names
    if problem.moving:
        exact = _of_rows
    elif isinstance(problem.surface, ArrowSurface):
        exact = _by_arrow
    else:
        exact = _exact
    by = exact if problem.exact else _approximate
    found = by(model, problem, nodes, total, rng)
    moments = {a: weighted_moments(v, found.weight) for a, v in found.aux.items()}
    if problem.noise:  # of the nodes themselves, whose error is far below that of draws
        at_nodes = np.exp(nodes.theta.reshape(-1, nodes.theta.shape[-1])[:, -1])
        moments[model.noise_scale] = weighted_moments(
            at_nodes, np.exp(nodes.log_weight.ravel())
        )
    index = (
        slice(None)
        if problem.exact or found.detail
        else rng.permutation(resampled(found.weight, total, rng))
    )
    chosen = {
        name: each[index] for name, each in {"beta": found.beta, **found.aux}.items()
    }
    theta = found.theta[index, : len(problem.groups.priors)]
    if not problem.exact and nodes.chain_stats is None:
        theta = scales_given_coefficients(problem, theta, chosen["beta"], rng)
    values = {**chosen, **problem.natural(np.exp(theta))}
    stats = {"n": model.design.total, **nodes.worth, **found.stats}
    if all_proper(model) and (evidence := found.log_evidence) is not None:
        stats["log_evidence"] = float(
            np.logaddexp.reduce(evidence) - np.log(len(evidence))
        )
        if (
            len(evidence) > 1
        ):  # independent scramblings: their spread is the error of their mean
            stats["log_evidence_se"] = float(
                np.std(evidence, ddof=1) / np.sqrt(len(evidence))
            )
    k = model.shape[0] * model.shape[1]
    said = nodes.words([*names, *(model.unknown if problem.noise else ())])
    return Solution(
        beta=found.mean[:k].reshape(model.shape),
        scale=found.covariance,
        aux={a: moments[a][0] for a in model.unknown},
        aux_sd={a: moments[a][1] for a in model.unknown},
        draws=Draws(
            {name: chains_of(each, chains) for name, each in values.items()},
            stats=nodes.chain_stats or {},
            hyper=tuple(names),
            marginals=found.marginals,
        ),
        status=Status.UNWEIGHED if found.detail else Status.SAMPLED,
        detail=found.detail,
        stats=stats,
        notes=(
            *sigma_note(
                model,
                routine_note(
                    Topic.SIGMA,
                    "sigma is integrated with the scales"
                    if problem.noise
                    else "sigma is drawn with beta",
                ),
            ),
            routine_note(Topic.SCALES, said),
            *found.notes,
        ),
    )


def scales_given_coefficients(
    problem: EvidenceProblem, theta: Array, beta: Array, rng: np.random.Generator
) -> Array:
    """Draws theta (S, d) after Metropolis steps on p(theta | beta), which leave draws of the posterior (theta, beta) what they are.

    Draws at nodes repeat the values of these; given its own coefficients each has a density p(beta | theta) p(theta) that is known. A
    step of one coordinate is normal, with 2.4 times the standard deviation (2 n)^-1/2 that n normal coefficients leave to the log of
    their scale, or that of the draws where that is less.
    """
    out = theta.copy()
    m = beta.shape[2]
    at = 0
    spread = theta.std(0)
    for g in problem.unknown:
        own = slice(at, at + len(g.hyper))
        at = at + len(g.hyper)
        if g.prior is None or g.prior.in_columns or not g.hyper:
            continue
        inside = problem.model.joint.blocks[g.block].take(beta)
        here = _log_density_of_scales(g, out[:, own], inside)
        count = len(g.columns) * g.width(m) / sum(g.prior.scales or (1,))
        size = 2.4 * np.minimum(spread[own], (2.0 * count) ** -0.5)
        for k in np.tile(np.arange(len(g.hyper)), _SWEEPS):
            new = out[:, own].copy()
            new[:, k] += size[k] * rng.standard_normal(len(new))
            there = _log_density_of_scales(g, new, inside)
            taken = np.log(rng.random(len(new))) < there - here
            out[taken, own], here = new[taken], np.where(taken, there, here)
    return out


def _log_density_of_scales(g: LatentGroup, logs: Array, inside: Array) -> Array:
    """log p(coefficients | theta) + log p(theta) (S,) of a group, at logs (S, d) of its hyperparameters."""
    prior = g.prior
    values = dict(zip(g.hyper, np.exp(logs).T))
    assert prior is not None  # a group of unknown scale
    if prior.known:
        given = prior.base.log_prob(inside, values["tau"])
    else:
        given = prior.log_prob_given(inside, values)
    return given + log_prior_of_logs(logs, list(g.hyper.values()))


_EXACTLY = routine_note(
    Topic.SAMPLING, "beta given the scales is drawn from its exact normal distribution"
)


class _Found(NamedTuple):
    """Draws with their weights, and moments of (vec beta, ...), in part exact."""

    theta: Array  # (S, d)
    beta: Array  # (S, p, m)
    aux: dict[str, Array]  # name -> (S,)
    weight: Array  # (S,), sum 1
    mean: Array
    covariance: ParameterCovariance
    stats: dict[str, float]
    notes: tuple[Note, ...]
    # of each coefficient, a mixture of normals over the nodes
    marginals: dict[str, Array] | None = None
    log_evidence: Array | None = None  # (C,), each chain's own estimate
    detail: str = ""  # why the draws are an unchecked approximation


def _exact(
    model: Model,
    problem: EvidenceProblem,
    nodes: Nodes,
    draws: int,
    rng: np.random.Generator,
) -> _Found:
    """beta given theta is normal; its moments are those of the mixture over the nodes."""
    surface = problem.surface
    assert isinstance(surface, GaussianSurface)
    theta = nodes.theta.reshape(-1, nodes.theta.shape[-1])
    weight = np.exp(nodes.log_weight.ravel())
    chosen = nodes.drawn(draws, rng)
    c, G, F = surface.coefficients
    q = G.shape[1]
    k = F.shape[1]
    spread = np.zeros((q, q))
    gammas = np.empty((len(chosen), q))
    gamma = np.empty((len(theta), q))
    inner = np.empty((len(theta), len(c)))
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
        z = rng.standard_normal((len(mine), q))
        of = place[chosen[mine]]
        gammas[mine] = at.mean[of] + (
            at.T[of] * z if at.T.ndim == 2 else np.einsum("sij,sj->si", at.T[of], z)
        )
    mean = weight @ gamma
    deviation = np.sqrt(weight)[:, None] * (gamma - mean)
    if problem.noise:
        sigma = np.exp(theta[:, -1])
    else:
        sigma = np.full(len(theta), model.noise())
    # cov(beta) = G (E[cov] + cov(E)) G' + E[sigma^2] F F'
    root = np.hstack(
        [
            G @ root_of_square(spread + deviation.T @ deviation),
            np.sqrt(weight @ sigma**2) * F,
        ]
    )
    covariance = DenseCovariance.of_raw_root(model.design.frame, 1, root)
    beta = (
        c
        + gammas @ G.T
        + sigma[chosen, None] * (rng.standard_normal((len(chosen), k)) @ F.T)
    )
    if problem.noise:
        aux = {model.noise_scale: sigma[chosen]}
    else:
        aux = {}
    equal = np.full(len(chosen), 1.0 / len(chosen))
    # beta_j | theta ~ N(c_j + G_j m, |G_j T|^2 + sigma^2 |F_j|^2)
    sd = np.sqrt(inner + sigma[:, None] ** 2 * np.square(F).sum(1))
    marginals = {"weight": weight, "mean": c + gamma @ G.T, "sd": sd}
    mean_beta = c + G @ mean
    notes = () if nodes.chain_stats is None else (_EXACTLY,)
    if nodes.chain_stats is None:
        evidence = nodes.log_evidence
    else:
        evidence = None
    return _Found(
        theta[chosen],
        beta[..., None],
        aux,
        equal,
        mean_beta,
        covariance,
        {},
        notes,
        marginals,
        evidence,
    )


def _by_arrow(
    model: Model,
    problem: EvidenceProblem,
    nodes: Nodes,
    draws: int,
    rng: np.random.Generator,
) -> _Found:
    """The same of effects that vary by a group."""
    surface = problem.surface
    assert isinstance(surface, ArrowSurface)
    theta = nodes.theta.reshape(-1, nodes.theta.shape[-1])
    weight = np.exp(nodes.log_weight.ravel())
    chosen = nodes.drawn(draws, rng)
    found = posterior_by_arrow(surface, theta, weight, chosen, rng)
    if problem.noise:
        aux = {model.noise_scale: np.exp(theta[chosen, -1])}
    else:
        aux = {}
    chains = nodes.chain_stats is not None
    return _Found(
        theta[chosen], found.beta[..., None], aux, np.full(len(chosen), 1.0 / len(chosen)), found.mean, found.covariance, {},
        (_EXACTLY,) if chains else (), {"weight": weight, "mean": found.node_mean, "sd": found.node_sd},
        None if chains else nodes.log_evidence,
    )  # fmt: skip


def _of_rows(
    model: Model,
    problem: EvidenceProblem,
    nodes: Nodes,
    draws: int,
    rng: np.random.Generator,
) -> _Found:
    """The same of processes whose hyperparameters are in their columns, node by node from the rows."""
    surface = problem.surface
    assert isinstance(surface, ProcessSurface)
    theta = nodes.theta.reshape(-1, nodes.theta.shape[-1])
    weight = np.exp(nodes.log_weight.ravel())
    chosen = nodes.drawn(draws, rng)
    p = model.shape[0]
    means = np.zeros((len(theta), p))
    sd = np.zeros((len(theta), p))
    inner = np.zeros((p, p))
    beta = np.empty((draws, p))
    told = np.flatnonzero(
        (weight > _NO_WEIGHT) | (np.bincount(chosen, minlength=len(theta)) > 0)
    )
    for s in told:
        at = surface.conditional(theta[s])
        mine = np.flatnonzero(chosen == s)
        beta[mine] = (
            at.mean + rng.standard_normal((len(mine), at.root.shape[1])) @ at.root.T
        )
        means[s], sd[s] = at.mean, np.linalg.norm(at.root, axis=1)
        inner += weight[s] * (at.root @ at.root.T)
    share = weight[told] / weight[told].sum()
    mean = share @ means[told]
    # cov(beta) = E[cov(beta | theta)] + cov(E[beta | theta])
    deviation = np.sqrt(share)[:, None] * (means[told] - mean)
    if problem.noise:
        sigma = np.exp(theta[chosen, -1])
    else:
        sigma = np.empty(0)
    aux = {model.noise_scale: sigma} if problem.noise else {}
    marginals = {"weight": share, "mean": means[told], "sd": sd[told]}
    notes = () if nodes.chain_stats is None else (_EXACTLY,)
    if nodes.chain_stats is None:
        evidence = nodes.log_evidence
    else:
        evidence = None
    equal = np.full(draws, 1.0 / draws)
    covariance = DenseCovariance.of_matrix(
        model.design.frame, 1, inner / weight[told].sum() + deviation.T @ deviation
    )
    return _Found(
        theta[chosen], beta[..., None], aux, equal, mean, covariance, {}, notes, marginals, evidence
    )  # fmt: skip


class NodeLaw(NamedTuple):
    """The normal distribution of (vec beta, log aux) of a model with plain priors at a node, and the coefficients as those of the fit."""

    normal: ConditionalNormal
    model: Model
    columns: (
        Array | None
    )  # (p, q): beta = columns @ those of `model`; None where they are the same

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return self.normal.root.shape[1]

    @property
    def log_det(self) -> float:
        """log |root|."""
        return float(np.linalg.slogdet(self.normal.root)[1])

    def points(self, z: Array) -> tuple[Array, Array, Array]:
        """From standard points z their log prior (S,), with aux as densities of their logs, beta (S, p, m) of the fit, and log aux."""
        point = self.normal.mean + z @ self.normal.root.T
        k = self.model.shape[0] * self.model.shape[1]
        beta = point[:, :k].reshape(-1, *self.model.shape)
        log_aux = point[:, k:]
        aux = dict(zip(self.model.unknown, np.exp(log_aux).T))
        log_prior = self.model.log_prior(beta, **aux) + log_aux.sum(1)
        return log_prior, beta if self.columns is None else self.columns @ beta, log_aux


Law = NodeLaw | ArrowLaw


def _laws(
    model: Model, problem: EvidenceProblem, theta: Array, shift: Array | None = None
) -> list[Law]:
    """At each node, with the `shift` of the mean where it is known."""
    surface = problem.surface
    if isinstance(surface, ArrowLaplaceSurface):
        return [ArrowLaw.of(surface, t) for t in theta]
    if isinstance(surface, LaplaceSurface):
        return [
            NodeLaw(surface.conditional(t, shift), surface.model_at(t), None)
            for t in theta
        ]
    assert isinstance(surface, RebasedSurface)
    return [_law_of_values(model, problem, *surface.inner_at(t)) for t in theta]


def _law_of_values(
    model: Model, problem: EvidenceProblem, inner: EvidenceSurface, theta: Array
) -> NodeLaw:
    """Of processes through the columns of a node, whose values at the distinct rows are coefficients of the fit."""
    if not isinstance(inner, LaplaceSurface):
        raise Incompatible(
            "draws of a process whose length is unknown are not available beside effects that vary by a group"
        )
    here = inner.model.design
    place = {c: j for j, c in enumerate(here.columns)}
    columns = np.zeros((model.shape[0], inner.model.shape[0]))
    moved = set[int]()
    for g, prior in problem.moving:
        term = model.design.process_of(g.columns)
        assert term is not None  # its prior is bound to one
        assert isinstance(prior, FunctionValues)
        own = here.recipe.processes[term.key]
        columns[np.ix_(g.columns, [place[c] for c in own.columns])] = own.basis.phi(
            prior.basis.anchors
        )
        moved |= set(g.columns)
    for j, name in enumerate(model.design.columns):
        if j not in moved:
            columns[j, place[name]] = 1.0
    return NodeLaw(inner.conditional(theta), inner.model_at(theta), columns)


def _approximate(
    model: Model,
    problem: EvidenceProblem,
    nodes: Nodes,
    draws: int,
    rng: np.random.Generator,
) -> _Found:
    """Points (beta, log aux) about the mode at every node, weighed with their node by the posterior of both."""
    surface = problem.surface
    count = model.shape[0] * model.shape[1]
    theta = nodes.theta.reshape(-1, nodes.theta.shape[-1])
    if (
        isinstance(surface, LaplaceSurface)
        and surface.many_rows
        and nodes.chain_stats is None
        and count <= _JOINT
    ):
        # the shift of the mean, in standard deviations, is that of the node of most weight: weights say whether it will do
        shift = surface.shift(theta[int(np.argmax(nodes.log_weight))])
        found = _weighed_jointly(
            model, problem, nodes, _laws(model, problem, theta, shift), draws, rng
        )
        if found.stats["k_hat_joint"] <= reliable(len(found.weight)):
            return found
    at = _laws(model, problem, theta)
    if nodes.chain_stats is not None:
        return _unweighed(
            model, nodes, at, draws, rng, "draws of Markov chains are not weighed"
        )
    most = max(law.width for law in at)
    if most > _JOINT:
        return _unweighed(
            model,
            nodes,
            at,
            draws,
            rng,
            f"{most} coefficients, and at most {_JOINT} are weighed",
        )
    found = _weighed_jointly(model, problem, nodes, at, draws, rng)
    k = found.stats["k_hat_joint"]
    if not k <= reliable(len(found.weight)):
        why = f"weighed jointly with the scales they have k-hat {k:.2f}"
        return _unweighed(model, nodes, at, draws, rng, why, {"k_hat_joint": k})
    return found


def _weighed_jointly(
    model: Model,
    problem: EvidenceProblem,
    nodes: Nodes,
    at: list[Law],
    draws: int,
    rng: np.random.Generator,
) -> _Found:
    """Student-t points about the normal at each node, with their weights."""
    theta = nodes.theta.reshape(-1, nodes.theta.shape[-1])
    each = -(-draws // len(nodes.theta[..., 0].ravel()))
    of = np.repeat(np.arange(len(theta)), each)
    log_prior = np.empty(len(of))
    log_q = np.empty(len(of))
    points = list[Array]()
    for s, law in enumerate(at):
        mine = slice(s * each, (s + 1) * each)
        k = law.width
        z, log_z = student_points(rng, each, k, max(_DF_BETA, k))
        log_q[mine] = log_z - law.log_det
        log_prior[mine], beta, log_aux = law.points(z)
        points.append(np.column_stack([beta.reshape(each, -1), log_aux]))
    point = np.concatenate(points)
    beta, aux = _split(model, point)
    # p(y, beta, aux, theta) / (q(theta) q(beta, aux | theta)), aux and the scales as densities of their logs.
    log_w = batched_log_lik(model, beta, aux) + log_prior - log_q
    log_w += (log_prior_of_logs(theta, problem.surface.priors) - nodes.log_q.ravel())[
        of
    ]
    log_w = np.where(np.isnan(log_w), -np.inf, log_w)
    tail = smoothed(log_w)
    weight = np.exp(tail.log_weight - np.logaddexp.reduce(tail.log_weight))
    # p(y) = E_q[w], one estimate for each scrambling
    chains = log_w.reshape(len(nodes.theta), -1)
    evidence = np.logaddexp.reduce(chains, axis=1) - np.log(chains.shape[1])
    stats = {"k_hat_joint": tail.k, "ess_joint": float(1.0 / np.square(weight).sum())}
    worth = f"k-hat {tail.k:.2f}, {len(log_w):,} of them worth {stats['ess_joint']:,.0f} independent draws"
    mean = weight @ point
    covariance = DenseCovariance.of_sample(
        model.design.frame, beta, *_logs(model, point), weight
    )
    text = f"points are weighted jointly with the scales: {worth}"
    if stats["ess_joint"] < 0.5 * draws:
        advice = "Take more draws if standard deviations matter"
        note = important_note(Topic.SAMPLING, f"{text}. {advice}")
    else:
        note = routine_note(Topic.SAMPLING, text)
    notes = (note,)
    return _Found(
        theta[of],
        beta,
        aux,
        weight,
        mean,
        covariance,
        stats,
        notes,
        log_evidence=evidence,
    )


def _unweighed(
    model: Model, nodes: Nodes, at: list[Law], draws: int, rng: np.random.Generator, why: str,
    stats: dict[str, float] | None = None,
) -> _Found:  # fmt: skip
    """Draws of the normal at each node, the nodes by their Laplace evidence; the approximation is not checked."""
    theta = nodes.theta.reshape(-1, nodes.theta.shape[-1])
    chosen = nodes.drawn(draws, rng)
    point = np.empty((draws, model.shape[0] * model.shape[1] + len(model.unknown)))
    for s in np.unique(chosen):
        mine = np.flatnonzero(chosen == s)
        _, beta, log_aux = at[s].points(rng.standard_normal((len(mine), at[s].width)))
        point[mine] = np.column_stack([beta.reshape(len(mine), -1), log_aux])
    beta, aux = _split(model, point)
    equal = np.full(draws, 1.0 / draws)
    said = f"beta given the scales is normal about its mean to first order (Laplace): {why}"
    covariance = DenseCovariance.of_sample(
        model.design.frame, beta, *_logs(model, point)
    )
    return _Found(
        theta[chosen],
        beta,
        aux,
        equal,
        point.mean(0),
        covariance,
        stats or {},
        (important_note(Topic.SAMPLING, said),),
        detail=why,
    )


def _logs(model: Model, point: Array) -> tuple[Array, tuple[str, ...]]:
    """Logs of the nuisance parameters among points (S, p m + a), and their names."""
    return point[:, model.shape[0] * model.shape[1] :], log_names(model)


def _split(model: Model, point: Array) -> tuple[Array, dict[str, Array]]:
    """beta (S, p, m) and aux (S,) of points (vec beta, log aux)."""
    p, m = model.shape
    return point[:, : p * m].reshape(-1, p, m), {
        a: np.exp(point[:, p * m + i]) for i, a in enumerate(model.unknown)
    }
