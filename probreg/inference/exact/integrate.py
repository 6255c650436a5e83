"""The posterior under unknown prior scales: beta integrated at each value of the scales, the scales by weighted nodes.

p(beta, theta | y) = p(beta | theta, y) p(theta | y), theta the logs of the scales and of sigma. The first factor is normal
(for other likelihoods than the Gaussian approximately, and weighed); the second is known up to a constant, since the
evidence p(y | theta) has beta integrated. Up to 8 dimensions weighted low-discrepancy nodes replace a Markov chain; in more of them
chains run over theta alone.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from probreg.arguments.scalars import Count, Limit, check_fields
from probreg.errors import NotConverged, Remedy
from probreg.inference.base import (
    METHODS,
    Method,
    Resolved,
    Solution,
    Status,
    improper,
    with_proper_correlations,
)
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface
from probreg.inference.exact.arrow_layout import require_flat_rank, require_memory
from probreg.inference.exact.arrow_surface import ArrowSurface
from probreg.inference.exact.evidence import scales_obstacle
from probreg.inference.exact.evidence_problem import EvidenceProblem, with_values
from probreg.inference.exact.node_draws import solution_at_nodes
from probreg.inference.exact.nodes import (
    Nodes,
    Proposal,
    proposal_about,
    proposal_of,
    sampled_nodes,
    weighed_nodes,
)
from probreg.inference.modes.closed_form import (
    PriorRows,
    posterior_given_sigma,
    require_full_rank,
)
from probreg.inference.sampling.convergence import judged
from probreg.inference.sampling.importance import (
    reliable,
)
from probreg.inference.sampling.sampler import SamplerSettings
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread

MOST = 8  # hyperparameters up to which a few hundred nodes find the mass of their posterior
_TUNE = 300  # steps of adaptation of a chain, in coordinates that the curvature has made round
_NODES = 1024  # in all, by default
_FIRST = 16  # nodes of each chain that are tried first where each one costs a mode
_ROUNDS = 3  # of nodes about where the last ones found the mass, while their weights do not settle
_ENOUGH = 90.0  # nodes, of effective ones, that are asked for


@METHODS.register
@dataclass(frozen=True)
class Integrate(Method):
    """p(beta, theta | y) = p(beta | theta, y) p(theta | y), integrated over theta, the logs of prior scales and of sigma.

    p(theta | y) is known up to a constant, with beta integrated: exactly for a Gaussian likelihood, by Laplace's
    approximation for other smooth ones. Nodes theta are scrambled Sobol points of a Student-t about its maximum. Their
    importance weights, smoothed by a Pareto tail, say by its shape k-hat whether they suffice. beta given theta is normal
    and drawn exactly. Elsewhere points about mode - H^-1 grad log|H|^(1/2) are weighed with their nodes by the posterior
    itself and resampled, where there are at most 1,000 coefficients; without these weights the status is no good one.

    Of an exact process whose length is unknown beta are the values at the distinct rows: off the rows each draw goes on as the process
    of its own length.

    Above 8 dimensions theta is sampled by NUTS on the same surface, and judged as Markov chains are. beta given theta is then drawn
    exactly for a Gaussian likelihood; for others it is normal about the mode, which is not checked, and the status reports this.

    Parameters
    ----------
    nodes : int, optional
        Nodes in all, a power of two for each chain, rounded up. By default 1,024; where each costs a mode, or the factor of a matrix of
        more than 150 rows, a few are tried first and doubled up to that number.
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

    nodes: Count | None = None
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
        why = scales_obstacle(self, model, "averages over")
        if why is not None:
            return why
        problem = EvidenceProblem(model, per_column=False, method=self.name)
        for g, p in problem.moving:
            if p.basis.kind != "exact":
                return (
                    f"integrate cannot move the {' and '.join(p.in_columns)} of {problem.named(g)}, which stands in its columns, with "
                    f"basis={p.basis.kind!r}: use evidence, or basis='hsgp', which has it in the prior"
                )
        for group in problem.unknown:
            for name, prior in group.hyper.items():
                if not prior.proper:
                    if name == "tau":
                        what, such = ("scale", "Normal(HalfNormal(1.0))")
                    else:
                        what = name
                        such = f"{name}=HalfNormal(1.0)"
                    return (
                        f"integrate: the {what} of {problem.named(group)} has an improper prior, under which the posterior has no "
                        f"finite mass; give a proper one such as {such}, or use evidence"
                    )
        return improper(self, model)

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        model, said = with_proper_correlations(model)
        return Resolved(with_values(model), self, said)

    @one_blas_thread()  # small matrices, many times: threads would wait for one another
    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        model, said = with_proper_correlations(model)
        found = self._solution(with_values(model), rng)
        if said:
            return replace(found, notes=(*said, *found.notes))
        return found

    def _solution(self, model: Model, rng: np.random.Generator) -> Solution:
        problem = EvidenceProblem(model, per_column=False, method=self.name)
        surface = problem.surface
        if isinstance(surface, ArrowSurface | ArrowLaplaceSurface):
            require_memory(surface.layout, self.name)
            require_flat_rank(surface.layout, self.name)
        elif not problem.moving:
            start = posterior_given_sigma(
                model.design.moments, PriorRows.of(problem.starting_model.joint), 1.0
            )
            require_full_rank(start, model, self.name)
        if dimensions(problem) > MOST:
            return self._by_chains(model, problem, rng)
        nodes = self._weighed(problem, rng)
        if self.max_k is None:
            limit = reliable(nodes.log_weight.size)
        else:
            limit = self.max_k
        if not np.isfinite(nodes.k_hat) and nodes.log_weight.size < _NODES:
            raise NotConverged(
                f"integrate: {nodes.log_weight.size:,} nodes do not tell their k-hat: take more nodes, Integrate(nodes={_NODES})"
            )
        if not nodes.k_hat <= limit:
            raise NotConverged(
                f"integrate: k-hat {nodes.k_hat:.2f} of {nodes.log_weight.size:,} nodes is above {limit:.2f}: a few nodes carry the "
                "weight, because the posterior of the scales is far from a normal about its maximum",
                remedy=Remedy("method", "nuts"),
            )
        return solution_at_nodes(model, problem, nodes, self.draws, self.chains, rng)

    def _by_chains(
        self, model: Model, problem: EvidenceProblem, rng: np.random.Generator
    ) -> Solution:
        """theta by Markov chains, whose verdict comes before what is said of beta given theta."""
        run = SamplerSettings(int(rng.integers(2**31)), self.draws, _TUNE, self.chains)
        nodes = sampled_nodes(problem, problem.maximise(300).theta, run)
        found = solution_at_nodes(model, problem, nodes, self.draws, self.chains, rng)
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

    def _laid(
        self, problem: EvidenceProblem, proposal: Proposal, rng: np.random.Generator
    ) -> Nodes:
        """Nodes of a proposal with their weights; where each costs a mode, more and more of them."""
        d = len(proposal.centre)
        of_chain = 2 ** max(
            1, math.ceil(math.log2((self.nodes or _NODES) / self.chains))
        )  # a sequence is even at powers of two
        streams = [
            scipy.stats.qmc.Sobol(d + 1, rng=child) for child in rng.spawn(self.chains)
        ]
        if problem.surface.dear and self.nodes is None:
            size = min(_FIRST, of_chain)
        else:
            size = of_chain
        theta = np.empty((self.chains, 0, d))
        value = np.empty((self.chains, 0))
        log_q = np.empty((self.chains, 0))
        while True:
            U = np.stack([s.random(size) for s in streams])
            new, log_q_new = proposal.points(np.clip(U, 1e-12, 1 - 1e-12))
            value_new = problem.surface.values(new.reshape(-1, d)).reshape(
                log_q_new.shape
            )
            theta = np.concatenate([theta, new], 1)
            value = np.concatenate([value, value_new], 1)
            log_q = np.concatenate([log_q, log_q_new], 1)
            found = weighed_nodes(theta, value, log_q)
            done = theta.shape[1]
            total = theta[..., 0].size
            if 2 * done > of_chain or (
                found.k_hat <= min(0.5, reliable(total)) and found.ess >= _ENOUGH
            ):
                return found
            size = done


def dimensions(problem: EvidenceProblem) -> int:
    """The number of unknown scales, sigma of a Gaussian likelihood counted."""
    return len(problem.groups.priors) + problem.noise
