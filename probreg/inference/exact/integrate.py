"""The posterior under unknown prior scales: beta is integrated at each value of the
scales, the scales by weighted nodes.

p(beta, theta | y) = p(beta | theta, y) p(theta | y), theta the logs of the scales and of sigma. The first factor is normal
(for other likelihoods than the Gaussian approximately, with weights). The second is
known up to a constant, because the evidence p(y | theta) integrates over beta. Weighted
low-discrepancy nodes over at most 8 dimensions replace a Markov chain.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.random import Generator

from probreg.arguments.scalars import Count, Limit
from probreg.errors import NotConverged, Remedy
from probreg.inference.base import (
    METHODS,
    Method,
    Resolved,
    Solution,
    with_proper_correlations,
)
from probreg.inference.exact.evidence import scales_obstacle
from probreg.inference.exact.evidence_problem import EvidenceProblem, with_values
from probreg.inference.exact.nodes import (
    Nodes,
    Proposal,
    proposal_about,
    proposal_of,
    solution_at_nodes,
    weight_nodes,
)
from probreg.inference.obstacles import improper_aux, improper_scales
from probreg.inference.sampling.importance import (
    reliable,
)
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import one_blas_thread
from probreg.model.model import Model

_NODES = 1024  # total, by default
_ROUNDS = 3  # repetitions with nodes about the mass of the last ones, while their weights are unreliable


@METHODS.register
@dataclass(frozen=True)
class Integrate(Method):
    """p(beta, theta | y) = p(beta | theta, y) p(theta | y), integrated over theta, the logs of prior scales and of sigma.

    p(theta | y) is known up to a constant, with beta integrated: exactly for a Gaussian likelihood, by Laplace's
    approximation for other smooth ones. Nodes theta are scrambled Sobol points of a Student-t about its maximum. Their
    importance weights, smoothed by a Pareto tail, have the diagnostic k-hat. beta given
    theta is normal and drawn exactly. For other likelihoods points about mode - H^-1
    grad log|H|^(1/2) are weighted with their nodes by the posterior and resampled, for
    at most 1,000 coefficients; without these weights the status reports it.

    For an exact process of unknown length beta are the values at the distinct rows: off
    the rows each draw continues as the process of its own length.

    theta has at most 8 dimensions; NUTS fits models with more unknown scales.

    Parameters
    ----------
    nodes : int, optional
        Total number of nodes, rounded up to a power of two for each chain. By default
        1,024; if each needs a mode, or the factor of a matrix of more than 150 rows,
        the method starts with a few and doubles them up to that number.
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, each with its own nodes.
    max_k : float, optional
        The largest k-hat, by default min(1 - 1 / log10 S, 0.7) for S nodes.

    Raises
    ------
    NotConverged
        If k-hat is above `max_k`, because means over the nodes are then unstable.

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
    rebuilds = True

    def obstacle(self, model: Model) -> str | None:
        # a few hundred nodes cover the posterior of up to this number of hyperparameters
        max_scales = 8
        reason = scales_obstacle(self, model, "averages over")
        if reason is not None:
            return reason
        problem = EvidenceProblem(model, method=self.name)
        for g, p in problem.moving:
            if p.basis.kind != "exact":
                return (
                    f"integrate cannot estimate the {' and '.join(p.in_columns)} of {problem.named(g)}, because its columns depend on it, with "
                    f"basis={p.basis.kind!r}: use evidence, or basis='hsgp', whose prior contains it"
                )
        reason = improper_scales(self, model)
        if reason is not None:
            return reason
        count = len(problem.groups.priors) + len(problem.outer)
        if count > max_scales:
            return f"integrate places nodes over at most {max_scales} unknown scales, and this model has {count}; use nuts"
        return improper_aux(self, model)

    def resolve(self, model: Model, rng: Generator) -> Resolved:
        model, notes = with_proper_correlations(model)
        return Resolved(with_values(model), self, notes)

    @one_blas_thread()  # many small matrices, for which threads are slower
    def solve(self, model: Model, rng: Generator) -> Solution:
        resolved = self.resolve(model, rng)
        problem = EvidenceProblem(resolved.model, method=self.name)
        problem.require_solvable()
        nodes = self._weigh_nodes(problem, rng)
        if self.max_k is None:
            limit = reliable(nodes.log_weight.size)
        else:
            limit = self.max_k
        if not np.isfinite(nodes.k_hat) and nodes.log_weight.size < _NODES:
            raise NotConverged(
                f"integrate: {nodes.log_weight.size:,} nodes are too few for k-hat: use more, Integrate(nodes={_NODES})"
            )
        if not nodes.k_hat <= limit:
            raise NotConverged(
                f"integrate: k-hat {nodes.k_hat:.2f} of {nodes.log_weight.size:,} nodes is above {limit:.2f}: a few nodes carry the "
                "weight, because the posterior of the scales is far from a normal about its maximum",
                remedy=Remedy("method", "nuts"),
            )
        solution = solution_at_nodes(problem, nodes, self.draws, self.chains, rng)
        return replace(solution, notes=(*resolved.notes, *solution.notes))

    def _weigh_nodes(self, problem: EvidenceProblem, rng: Generator) -> Nodes:
        proposal = proposal_about(problem, problem.maximise(300).theta)
        found = self._place_nodes(problem, proposal, rng)
        # If a curved density has more mass on one side than the axes suggest, the
        # weighted nodes locate it.
        for _ in range(_ROUNDS if problem.exact else 1):
            if found.k_hat <= reliable(found.log_weight.size):
                break
            repeated = self._place_nodes(problem, proposal_of(found), rng)
            found = min(found, repeated, key=lambda nodes: nodes.k_hat)
        return found

    def _place_nodes(
        self, problem: EvidenceProblem, proposal: Proposal, rng: Generator
    ) -> Nodes:
        """Return nodes of a proposal with their weights; if each needs a mode, in increasing numbers."""
        enough_ess = 90.0  # required number of effective nodes
        first_size = 16  # first nodes of each chain if each one needs a mode
        d = len(proposal.centre)
        of_chain = 2 ** max(
            1, math.ceil(math.log2((self.nodes or _NODES) / self.chains))
        )  # a sequence is even at powers of two
        streams = [
            scipy.stats.qmc.Sobol(d + 1, rng=child) for child in rng.spawn(self.chains)
        ]
        if problem.surface.dear and self.nodes is None:
            size = min(first_size, of_chain)
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
            nodes = weight_nodes(theta, value, log_q)
            n_done = theta.shape[1]
            total = theta[..., 0].size
            if 2 * n_done > of_chain or (
                nodes.k_hat <= min(0.5, reliable(total)) and nodes.ess >= enough_ess
            ):
                return nodes
            size = n_done
