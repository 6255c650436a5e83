"""The mode of a smooth log posterior by Newton's method."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Count, Matrix, Positive
from probreg.errors import NotConverged
from probreg.inference.base import (
    METHODS,
    Method,
    Solution,
    Status,
)
from probreg.inference.modes.closed_form import search_obstacle
from probreg.inference.modes.existence import multimodality_cause
from probreg.inference.modes.level_newton import solve_levels
from probreg.inference.modes.newton import (
    check_start,
    find_mode,
    solution_at,
    unbounded_density_message,
    vanishing_noise_message,
)
from probreg.inference.modes.wide import rotate_to_rows
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.priors import SmoothPrior


@METHODS.register
@dataclass(frozen=True)
class Newton(Method):
    """The mode argmax log p(y | X beta, aux) + log p(beta, aux) for a smooth likelihood with smooth priors.

    A noise scale sigma is estimated jointly on its log scale, so p(sigma) ∝ 1/sigma
    gives maximum likelihood. The covariance is the inverse observed curvature over
    (beta, log aux).

    If the log posterior can have several local maxima (Student-t noise, priors with
    heavy tails), the search starts from several points, and the highest maximum is the
    estimate; a note lists the others. With `start` it uses only this point.

    Parameters
    ----------
    tol : float
        The search stops at a decrement of `tol` sqrt(n) standard errors, after which
        one more step squares the error.
    max_steps : int
        Maximum number of Newton steps.
    start : array (p, m), optional
        Coefficients on the raw columns at the start of the search; the estimate is
        then a maximum near them.

    References
    ----------
    Boyd & Vandenberghe 2004, section 9.5.

    Examples
    --------
    >>> from probreg.likelihoods import Bernoulli
    >>> model = Model.from_arrays([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0, 0, 1, 0, 1, 1], likelihood=Bernoulli())
    >>> found = Newton().solve(model, np.random.default_rng(0))
    >>> found.beta[:, 0].round(6), np.log([1 / 2, 4]).round(6)
    (array([-0.693147,  1.386294]), array([-0.693147,  1.386294]))
    """

    tol: Positive = 1e-7
    max_steps: Count = 100
    start: Matrix | None = None

    name = "newton"
    pseudo = True
    likelihood = SmoothLikelihood
    prior = SmoothPrior

    def obstacle(self, model: Model) -> str | None:
        return search_obstacle(self, model)

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        start = None if self.start is None else check_start(model, self.start)
        options: Any = {"tol": self.tol, "max_steps": self.max_steps}
        of_levels = solve_levels(model, start=start, **options)
        if of_levels is not None:
            return of_levels
        wide = rotate_to_rows(model)
        if wide is not None:
            if start is not None:
                options["start"] = wide.start(start)
            solution = Newton(**options).solve(wide.tilted_model, rng)
            return wide.back(solution, wide.unit(model.noise(solution.aux)))
        mode = find_mode(model, start=start, **options)
        if mode.status is not Status.CONVERGED:
            message = unbounded_density_message(model) or vanishing_noise_message(
                model, mode
            )
            if message is not None:
                raise NotConverged(message)
        solution = solution_at(model, mode)
        if (
            self.start is not None
            or solution.status is not Status.CONVERGED
            or multimodality_cause(model) is None
        ):
            return solution
        from probreg.inference.modes.peaks import Peak, highest_solution

        return highest_solution(model, Peak.of(mode, solution), **options)
