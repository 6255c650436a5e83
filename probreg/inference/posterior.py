"""The method `posterior`: exact, else importance sampling with a good diagnostic, else
NUTS."""

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
from probreg.inference.exact.integrate import Integrate
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
    """The cheapest reliable posterior: exact, else by weighted points, else nuts.

    `integrate` fits models with unknown prior scales. `importance` is used if its k-hat
    is at most `max_k` and its
    effective sample size is at least 100 per chain. With more than 1,000 coefficients
    and effects by group, `integrate`
    is used without importance weights, and the status reports it. The fit equals the
    fit of the chosen method with the
    same draws. Its notes explain why the other methods were not used. Above a k-hat of
    one half the variance of the
    weights is infinite.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains.
    max_k : float
        The largest k-hat at which importance sampling is used.

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
        methods = (*self.exact, self.nodes, self.weighted, self.sampler)
        if any(method_obstacle(k, model) is None for k in methods):
            return None
        return method_obstacle(
            self.nodes if _rebuilds_columns(model) else self.sampler, model
        )

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        model_with_correlations, notes = with_proper_correlations(model)
        resolved = self._choose(model_with_correlations, rng)
        return resolved._replace(notes=(*notes, *resolved.notes))

    def _choose(self, model: Model, rng: np.random.Generator) -> Resolved:
        """Return the first method that can compute this posterior well: exact, integrate, importance or nuts."""
        reasons: list[str] = []
        exact = self._try_exact(model, rng, reasons)
        if exact is not None:
            return exact
        if not reasons:
            reasons.append(
                f"{model.likelihood.named} likelihood has no exact posterior"
            )
        if any(isinstance(b.prior, HierarchicalPrior) for b in model.joint.blocks):
            integrated = self._try_integration(model, rng, reasons)
            if integrated is not None:
                return integrated
        return self._weigh_or_sample(model, rng, reasons)

    def _try_exact(
        self, model: Model, rng: np.random.Generator, reasons: list[str]
    ) -> Resolved | None:
        """Return the solution of the first exact method that succeeds; add to `reasons` why others failed."""
        for exact in self.exact:
            reason = method_obstacle(exact, model)
            if reason is None:
                try:
                    solution = _attempt(exact, model, rng)
                except (ProbregError, np.linalg.LinAlgError) as error:
                    reason = str(error)
                else:
                    return Resolved(
                        model,
                        exact,
                        (_choice_note(exact, [*reasons, f"{exact.name} is exact"]),),
                        solution=solution,
                    )
            if model.likelihood.least_squares:
                reasons.append(reason)
        return None

    def _try_integration(
        self, model: Model, rng: np.random.Generator, reasons: list[str]
    ) -> Resolved | None:
        """Return the solution of integrate if it is good enough; otherwise add to `reasons` why not."""
        try:
            solution = _attempt(self.nodes, model, rng)
        except (ProbregError, np.linalg.LinAlgError) as error:
            reasons.append(str(error))
            return None
        good, verdict = self._verdict(model, solution)
        if not good and _too_large_to_weigh(model, solution):
            good = True
            verdict = f"{verdict}; nuts would take much longer"
        reasons.append(verdict)
        if not good:
            return None
        # the solution has the coefficients of this model
        model = self.nodes.resolve(model, rng).model
        note = _choice_note(self.nodes, reasons)
        return Resolved(model, self.nodes, (note,), solution=solution)

    def _weigh_or_sample(
        self, model: Model, rng: np.random.Generator, reasons: list[str]
    ) -> Resolved:
        """Return the solution of importance if it is good enough, otherwise nuts to be run."""
        weighted = self.weighted
        try:
            solution = _attempt(weighted, model, rng)
        except (ProbregError, np.linalg.LinAlgError) as error:
            named = isinstance(error, ProbregError)
            reason = str(error) if named else f"{weighted.name}: {error}"
            if method_obstacle(self.sampler, model) is not None:
                raise Incompatible(
                    f"posterior: {reasons[-1] if _rebuilds_columns(model) else reason}"
                ) from None
            return self._sample(model, rng, [*reasons, reason])
        k = solution.stats["k_hat"]
        n = weighted.chains * weighted.points
        ess = solution.stats["ess"]
        verdict = f"importance has k-hat {k:.2f} on {n:,} weighted points, at most {self.max_k:g}"
        if ess < self.chains * min(_ESS, self.draws):
            few = f"{verdict}, but they are worth {ess:,.0f} independent draws only"
            return self._sample(model, rng, [*reasons, few])
        enough = f"{verdict}, and worth {ess:,.0f} independent draws"
        return Resolved(
            model,
            weighted,
            (_choice_note(weighted, [*reasons, enough, _no_nuts_note(model)]),),
            solution=solution,
        )

    def _sample(
        self, model: Model, rng: np.random.Generator, reasons: list[str]
    ) -> Resolved:
        resolved = self.sampler.resolve(model, rng)
        note = _choice_note(resolved.method, reasons)
        return resolved._replace(notes=(note, *resolved.notes))

    def _verdict(self, model: Model, solution: Solution) -> tuple[bool, str]:
        """Return whether the solution of integrate is good enough, and the reason."""
        stats = solution.stats
        k = stats.get("k_hat_joint", stats["k_hat"])
        ess = stats.get("ess_joint", stats["ess"])
        verdict = f"integrate has k-hat {k:.2f}"
        enough = ess >= self.chains * min(_ESS, self.draws)
        if (
            solution.status.good
            and k <= self.max_k
            and (model.likelihood.least_squares or enough)
        ):
            return True, verdict
        return (
            False,
            f"{verdict}, {solution.detail or f'and its points are worth {ess:,.0f} independent draws only'}",
        )

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        resolved = self.resolve(model, rng)
        solution = resolved.solution or resolved.method.solve(resolved.model, rng)
        return replace(solution, notes=(*resolved.notes, *solution.notes))


def _rebuilds_columns(model: Model) -> bool:
    """Whether unknown hyperparameters change the columns."""
    return any(
        isinstance(b.prior, HierarchicalPrior) and b.prior.in_columns
        for b in model.joint.blocks
    )


def _too_large_to_weigh(model: Model, solution: Solution) -> bool:
    """Whether the number of effects by group alone prevents importance weights, in
    integrate and in importance."""
    return (
        bool(model.design.recipe.grouped)
        and solution.status is Status.UNWEIGHED
        and "k_hat_joint" not in solution.stats
    )


def _attempt(method: Method, model: Model, rng: np.random.Generator) -> Solution:
    """Solve with a copy of the generator, so that the next method starts from the same
    state."""
    reason = method_obstacle(method, model)
    if reason is not None:
        raise Incompatible(reason)
    return method.solve(model, deepcopy(rng))


def _no_nuts_note(model: Model) -> str:
    """Return a note that NUTS was not needed; its chains would start at the same mode
    and not find another."""
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
