"""The cheapest reliable posterior: exact, else importance sampling with a good diagnostic, else NUTS."""

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from probreg.arguments.scalars import Count, Limit, check_fields
from probreg.errors import Incompatible, ProbregError
from probreg.inference.base import (
    METHODS,
    Method,
    Resolved,
    Solution,
    Status,
    method_obstacle,
    with_proper_correlations,
)
from probreg.inference.exact.conjugate import Conjugate
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.integrate import MOST, Integrate, dimensions
from probreg.inference.exact.quadrature import Quadrature
from probreg.inference.modes.existence import multimodality_cause
from probreg.inference.notes import Note, Topic, routine_note
from probreg.inference.sampling.importance import Importance
from probreg.inference.sampling.nuts import NUTS
from probreg.model.model import Model
from probreg.priors import HierarchicalPrior

_ESS = 100.0  # per chain, of effective draws (Vehtari et al. 2021)


@METHODS.register
@dataclass(frozen=True)
class Posterior(Method):
    """The first posterior that will do: conjugate or quadrature, else integrate or importance, else nuts.

    Integrate serves models with unknown prior scales. Importance is taken where its k-hat is at most `max_k` and its effective sample size at least 100 per chain. Of more than
    1,000 coefficients with effects by group integrate is taken unweighed, and its status says so. The fit
    is that of the method taken, with the same draws as if it had been asked for by name. Why the others were not stands
    in its notes. A k-hat of one half is where the variance of the weights ceases to be finite.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains.
    max_k : float
        The largest k-hat with which importance sampling is taken.

    References
    ----------
    Vehtari et al. 2024.

    Examples
    --------
    >>> from probreg.likelihoods import Bernoulli
    >>> x = np.arange(20.0)
    >>> model = Model.from_arrays(x, x % 3 > 1, likelihood=Bernoulli())
    >>> settled = Posterior().resolve(model, np.random.default_rng(0))
    >>> settled.method.name, str(settled.notes[0]).split(":")[0]
    ('importance', 'posterior took importance')
    """

    draws: Count = 1000
    chains: Count = 4
    max_k: Limit = 0.5

    name = "posterior"
    target = "posterior"
    rebuilds = True

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def exact(self) -> tuple[Method, ...]:
        return Conjugate(draws=self.draws, chains=self.chains), Quadrature(
            draws=self.draws, chains=self.chains
        )

    @property
    def nodes(self) -> Integrate:
        return Integrate(draws=self.draws, chains=self.chains)

    @property
    def weighted(self) -> Importance:
        return Importance(draws=self.draws, chains=self.chains, max_k=self.max_k)

    @property
    def sampler(self) -> NUTS:
        return NUTS(draws=self.draws, chains=self.chains)

    def obstacle(self, model: Model) -> str | None:
        every = (*self.exact, self.nodes, self.weighted, self.sampler)
        if any(method_obstacle(k, model) is None for k in every):
            return None
        return method_obstacle(self.nodes if _moving(model) else self.sampler, model)

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        bound, said = with_proper_correlations(model)
        found = self._resolved(bound, rng)
        return found._replace(notes=(*said, *found.notes))

    def _resolved(self, model: Model, rng: np.random.Generator) -> Resolved:
        why: list[str] = []
        for exact in self.exact:
            said = method_obstacle(exact, model)
            if said is None:
                try:
                    solution = _attempt(exact, model, rng)
                except (ProbregError, np.linalg.LinAlgError) as error:
                    said = str(error)
                else:
                    return Resolved(
                        model,
                        exact,
                        (_choice_note(exact, [*why, f"{exact.name} is exact"]),),
                        solution=solution,
                    )
            if model.likelihood.least_squares:
                why.append(said)
        why = why or [f"{model.likelihood.named} likelihood has no exact posterior"]
        if any(isinstance(b.prior, HierarchicalPrior) for b in model.joint.blocks):
            try:
                said = _integration_obstacle(self.nodes, model)
                if said is not None:
                    raise Incompatible(said)
                solution = _attempt(self.nodes, model, rng)
            except (ProbregError, np.linalg.LinAlgError) as error:
                why.append(str(error))
            else:
                good, told = self._judged(model, solution)
                if not good and _too_large_to_weigh(model, solution):
                    good = True
                    told = f"{told}; nuts would take much longer"
                if good:
                    model = self.nodes.resolve(
                        model, rng
                    ).model  # in whose coefficients the solution is
                    return Resolved(
                        model,
                        self.nodes,
                        (_choice_note(self.nodes, [*why, told]),),
                        solution=solution,
                    )
                why.append(told)
        weighted = self.weighted
        try:
            solution = _attempt(weighted, model, rng)
        except (ProbregError, np.linalg.LinAlgError) as error:
            named = isinstance(error, ProbregError)
            said = str(error) if named else f"{weighted.name}: {error}"
            if method_obstacle(self.sampler, model) is not None:
                raise Incompatible(
                    f"posterior: {why[-1] if _moving(model) else said}"
                ) from None
            return Resolved(
                model, self.sampler, (_choice_note(self.sampler, [*why, said]),)
            )
        k = solution.stats["k_hat"]
        n = weighted.chains * weighted.points
        ess = solution.stats["ess"]
        told = f"importance has k-hat {k:.2f} on {n:,} weighted points, at most {self.max_k:g}"
        if ess < self.chains * min(_ESS, self.draws):
            few = f"{told}, but they are worth {ess:,.0f} independent draws only"
            return Resolved(
                model, self.sampler, (_choice_note(self.sampler, [*why, few]),)
            )
        enough = f"{told}, and worth {ess:,.0f} independent draws"
        return Resolved(
            model,
            weighted,
            (_choice_note(weighted, [*why, enough, _spared(model)]),),
            solution=solution,
        )

    def _judged(self, model: Model, solution: Solution) -> tuple[bool, str]:
        """Whether the solution of integrate will do, and the sentence that says why."""
        if solution.posterior.by_chain:
            return (
                solution.status.good,
                "integrate sampled the scales, with beta integrated"
                + ("" if solution.status.good else f", and {solution.detail}"),
            )
        stats = solution.stats
        k = stats.get("k_hat_joint", stats["k_hat"])
        ess = stats.get("ess_joint", stats["ess"])
        told = f"integrate has k-hat {k:.2f}"
        enough = ess >= self.chains * min(_ESS, self.draws)
        if (
            solution.status.good
            and k <= self.max_k
            and (model.likelihood.least_squares or enough)
        ):
            return True, told
        return (
            False,
            f"{told}, {solution.detail or f'and its points are worth {ess:,.0f} independent draws only'}",
        )

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        settled = self.resolve(model, rng)
        found = settled.solution or settled.method.solve(settled.model, rng)
        return replace(found, notes=(*settled.notes, *found.notes))


def _moving(model: Model) -> bool:
    """Whether unknown hyperparameters stand in the columns."""
    return any(
        isinstance(b.prior, HierarchicalPrior) and b.prior.in_columns
        for b in model.joint.blocks
    )


def _integration_obstacle(nodes: Integrate, model: Model) -> str | None:
    """Return why integrate would end in an unchecked approximation, before its draws are made; None if it would not."""
    if model.likelihood.least_squares or method_obstacle(nodes, model) is not None:
        return None
    count = dimensions(EvidenceProblem(model, per_column=False, method=nodes.name))
    if count <= MOST:
        return None
    return f"integrate weighs draws of at most {MOST} unknown scales with this likelihood, and this model has {count}"


def _too_large_to_weigh(model: Model, solution: Solution) -> bool:
    """Effects by group whose number alone keeps draws of integrate from being weighed; importance would not weigh them either."""
    weighed = solution.posterior.by_chain or "k_hat_joint" in solution.stats
    return (
        bool(model.design.recipe.grouped)
        and solution.status is Status.UNWEIGHED
        and not weighed
    )


def _attempt(method: Method, model: Model, rng: np.random.Generator) -> Solution:
    """By a copy of the generator, so that a method which has to follow starts where it would have started alone."""
    said = method_obstacle(method, model)
    if said is not None:
        raise Incompatible(said)
    return method.solve(model, deepcopy(rng))


def _spared(model: Model) -> str:
    """What is saved. Chains would start about the same mode, so that they are no judge of another."""
    if multimodality_cause(model) is None:
        return "NUTS was not needed"
    return "NUTS was not needed about the mode found"


def _choice_note(method: Method, reasons: list[str]) -> Note:
    return routine_note(
        Topic.METHOD,
        "posterior took {method}: {reasons}",
        method=method.name,
        reasons=". ".join(reason.rstrip(".") for reason in reasons),
    )
