"""The method `posterior`: exact, else importance sampling with a good diagnostic, else
NUTS."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Count, Limit
from probreg.errors import Incompatible, ProbregError
from probreg.inference.base import (
    METHODS,
    Method,
    Resolved,
    Solution,
    Status,
    with_proper_correlations,
)
from probreg.inference.exact.conjugate import Conjugate
from probreg.inference.exact.integrate import Integrate
from probreg.inference.exact.quadrature import Quadrature
from probreg.inference.modes.existence import multimodality_cause
from probreg.inference.obstacles import method_obstacle
from probreg.inference.sampling.importance import Importance
from probreg.inference.sampling.nuts import NUTS
from probreg.inference.status import Note, Topic, routine_note
from probreg.model.model import Model

_ESS_PER_CHAIN = 100.0  # per chain, of effective draws (Vehtari et al. 2021)


@METHODS.register
@dataclass(frozen=True)
class Posterior(Method):
    """The cheapest reliable posterior: exact, else by importance sampling, else nuts.

    `integrate` fits models with unknown prior scales. `importance` is used if its k-hat
    is at most `max_k` and its effective sample size is at least 100 per chain. With
    more than 1,000 coefficients and effects by group, `integrate` is used without
    importance weights, and the status reports it. The fit equals the fit of the chosen
    method with the same draws. Its notes explain why the other methods were not used.
    Above a k-hat of one half the variance of the weights is infinite.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains.
    max_k : float
        Importance sampling is used up to this k-hat.

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

    @property
    def methods(self) -> tuple[Conjugate, Quadrature, Integrate, Importance, NUTS]:
        """The methods to choose from, exact ones first."""
        options: Any = {"draws": self.draws, "chains": self.chains}
        return (
            Conjugate(**options),
            Quadrature(**options),
            Integrate(**options),
            Importance(**options, max_k=self.max_k),
            NUTS(**options),
        )

    def obstacle(self, model: Model) -> str | None:
        methods = self.methods
        if any(method_obstacle(k, model) is None for k in methods):
            return None
        _, _, integrate, _, nuts = methods
        last = integrate if _rebuilds_columns(model) else nuts
        return method_obstacle(last, model)

    def resolve(self, model: Model, rng: Generator) -> Resolved:
        """Return the first method that can compute this posterior well: exact, integrate, importance or nuts."""
        model, notes = with_proper_correlations(model)
        *exact, integrate, importance, nuts = self.methods
        methods: list[Method] = [importance]
        if model.joint.hierarchical:
            methods.insert(0, integrate)
        reasons: list[str] = []
        if model.likelihood.least_squares:
            methods = [*exact, *methods]
        else:
            reasons = [f"{model.likelihood.named} likelihood has no exact posterior"]
        for method in methods:
            try:
                resolved, solution = _attempt(method, model, rng)
            except ProbregError as error:
                reasons.append(str(error))
                continue
            except np.linalg.LinAlgError as error:
                reasons.append(f"{method.name}: {error}")
                continue
            good, verdict = self._verdict(method, model, solution)
            reasons.append(verdict)
            if good:
                note = _choice_note(method, reasons)
                return resolved._replace(notes=(*notes, note), solution=solution)
        obstacle = method_obstacle(nuts, model)
        if obstacle is not None:
            reason = reasons[-2 if _rebuilds_columns(model) else -1]
            raise Incompatible(f"posterior: {reason.rstrip('.')}. {obstacle}")
        resolved = nuts.resolve(model, rng)
        note = _choice_note(resolved.method, reasons)
        return resolved._replace(notes=(*notes, note, *resolved.notes))

    def _verdict(
        self, method: Method, model: Model, solution: Solution
    ) -> tuple[bool, str]:
        """Return whether the solution of a method is good enough, and the reason."""
        if isinstance(method, Conjugate | Quadrature):
            return True, f"{method.name} is exact"
        stats = solution.stats
        k = stats.get("k_hat_joint", stats["k_hat"])
        ess = stats.get("ess_joint", stats["ess"])
        is_enough = ess >= self.chains * min(_ESS_PER_CHAIN, self.draws)
        worth = f"worth {ess:,.0f} independent draws"
        verdict = f"{method.name} has k-hat {k:.2f}"
        if isinstance(method, Importance):
            n = method.chains * method.points
            verdict += f" on {n:,} weighted points, at most {self.max_k:g}"
            if not is_enough:
                return False, f"{verdict}, but they are {worth} only"
            # chains would start at the same mode and not find another
            several = multimodality_cause(model) is not None
            place = " about the mode found" if several else ""
            return True, f"{verdict}, and {worth}. NUTS was not needed{place}"
        is_enough = is_enough or model.likelihood.least_squares
        if solution.status.good and k <= self.max_k and is_enough:
            return True, verdict
        verdict += f", {solution.detail or f'and its points are {worth} only'}"
        # the number of effects by group alone prevents importance weights, here and in
        # importance
        if (
            model.design.recipe.grouped
            and solution.status is Status.UNWEIGHED
            and "k_hat_joint" not in stats
        ):
            return True, f"{verdict}; nuts would take much longer"
        return False, verdict

    def solve(self, model: Model, rng: Generator) -> Solution:
        return self.resolve(model, rng).complete(rng)


def _rebuilds_columns(model: Model) -> bool:
    """Whether unknown hyperparameters change the columns."""
    return any(prior.in_columns for _, prior in model.joint.hierarchical)


def _attempt(method: Method, model: Model, rng: Generator) -> tuple[Resolved, Solution]:
    """Solve with a copy of the generator, so that the next method starts from the same
    state."""
    reason = method_obstacle(method, model)
    if reason is not None:
        raise Incompatible(reason)
    generator = deepcopy(rng)
    resolved = method.resolve(model, generator)
    return resolved, resolved.solve(generator)


def _choice_note(method: Method, reasons: list[str]) -> Note:
    return routine_note(
        Topic.METHOD,
        "posterior took {method}: {reasons}",
        method=method.name,
        reasons=". ".join(reason.rstrip(".") for reason in reasons),
    )
