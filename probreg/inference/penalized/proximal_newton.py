"""Newton's method for posterior modes under priors with kinks: lasso, elastic net and bridge in every smooth likelihood."""

from dataclasses import dataclass, replace

import numpy as np

from probreg.arguments.scalars import Count, Matrix, Positive
from probreg.errors import NotConverged
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
    log_names,
    logs_of_aux,
    sigma_note,
)
from probreg.inference.covariance import NoCovariance
from probreg.inference.modes.closed_form import open_directions, search_obstacle
from probreg.inference.modes.existence import (
    Divergence,
    find_divergence,
    find_separation,
    may_diverge_along,
    mode_solution,
    multimodality_cause,
)
from probreg.inference.modes.separation import Separation
from probreg.inference.penalized.nonsmooth import (
    NonsmoothTerms,
    SearchCoordinates,
    has_nonsmooth_terms,
    minimise_nonsmooth,
    no_errors,
    start_of,
)
from probreg.inference.status import (
    JOINT_SIGMA,
    Note,
    Topic,
    important_note,
    routine_note,
)
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.priors import Flat, ProximalPrior, SmoothPrior


@METHODS.register
@dataclass(frozen=True)
class ProximalNewton(Method):
    """The mode argmax log p(y | X beta, aux) + log p(beta, aux): smooth likelihood, a prior with kinks.

    The search stops on a certificate: zero lies within `tol` of the subdifferential of the negative log posterior over (beta,
    log aux) in each coordinate (stats "kkt"). Entries at a kink are exactly there. If the prior is not convex
    (bridge with q < 1), the mode is a local one, found from the ridge solution. A mode at a kink has no curvature, so
    the covariance is nan.

    Parameters
    ----------
    tol : float
        The largest "kkt", in conditional standard errors.
    max_steps : int
        Maximum number of Newton steps.
    start : array (p, m), optional
        Coefficients on the raw columns at the start of the search.

    Examples
    --------
    >>> from probreg.priors import Laplace
    >>> model = Model.from_arrays([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], prior=Laplace(1 / 1.5), aux={"sigma": 1.0})
    >>> ProximalNewton().solve(model, np.random.default_rng(0)).beta[:, 0].round(9)
    array([0.  , 0.25])
    """

    tol: Positive = 1e-8
    max_steps: Count = 100
    start: Matrix | None = None

    name = "proximal_newton"
    pseudo = True
    likelihood = SmoothLikelihood
    prior = (SmoothPrior, ProximalPrior)

    def obstacle(self, model: Model) -> str | None:
        return without_kinks(self, model)

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        search = SearchCoordinates(model)
        result = minimise_nonsmooth(
            search, start_of(search, self.start), tol=self.tol, max_steps=self.max_steps
        )
        return kinked_solution(
            model,
            search.beta(result.at.x),
            search.aux(result.at.x),
            result.status,
            kkt=result.kkt,
            steps=result.steps,
        )


def without_kinks(method: Method, model: Model) -> str | None:
    """Return why a search for a mode at kinks does not apply, such as for a smooth log
    posterior."""
    reason = search_obstacle(method, model)
    if reason is not None or has_nonsmooth_terms(model):
        return reason
    return f"{method.name} needs priors with kinks, and this log posterior is smooth: newton finds its mode, with standard errors"


def local_notes(model: Model) -> tuple[Note, ...]:
    """Return notes on a mode that may be one of several, and on the missing standard errors."""
    notes: list[Note] = []
    cause = multimodality_cause(model)
    if not NonsmoothTerms.of(model).convex:
        notes.append(
            important_note(
                Topic.MODES,
                "the prior has a cusp (bridge with q < 1), so -log p is not convex. This mode is a local one, sought from the "
                "ridge solution, and zero is always a local mode of a cusp",
            )
        )
    elif cause is not None:
        notes.append(
            important_note(
                Topic.MODES, "{cause}, of which this mode may be one", cause=cause
            )
        )
    return (*notes, important_note(Topic.STANDARD_ERRORS, no_errors(model)))


def kinked_solution(
    model: Model,
    beta: Array,
    aux: dict[str, float],
    status: Status,
    *,
    kkt: float,
    steps: int,
    notes: tuple[Note, ...] = (),
) -> Solution:
    """Return a mode under a prior with kinks as a solution without covariance, with
    unidentified flat columns marked."""
    cause: Separation | Divergence | None
    cause, _ = find_separation(model, beta, status, steps)
    if cause is None:
        cause = _find_divergence(model, beta, aux)
    solution = mode_solution(
        model,
        beta,
        aux,
        status,
        cause,
        open_directions(model),
        scale=NoCovariance.of(len(beta), beta.shape[1], log_names(model)),
        stats={"n": model.design.total, "kkt": kkt, "steps": float(steps)},
        notes=(
            *sigma_note(model, JOINT_SIGMA),
            routine_note(
                Topic.CONVERGENCE,
                "zero is within {kkt:.1e} of the subdifferential, in conditional standard errors, after {steps} steps",
                kkt=kkt,
                steps=steps,
            ),
            *notes,
            *local_notes(model),
        ),
    )
    if solution.status is Status.SADDLE and kkt < 1e-5:
        raise NotConverged(
            f"no step lowers the objective, and zero is {kkt:.1e} from the subdifferential, more than tol: raise tol"
        )
    return solution


def _find_divergence(
    model: Model, beta: Array, aux: dict[str, float]
) -> Divergence | None:
    """Check divergence from the end of the search, for a likelihood without a recession
    cone."""
    if not any(may_diverge_along(model)):
        return None
    gamma = model.design.frame.from_raw(beta)
    log_aux = logs_of_aux(model, aux)
    with np.errstate(all="ignore"):
        local = replace(model, prior=Flat()).value_grad_hessian_standardised(
            gamma, **aux
        )
    return find_divergence(model, gamma, log_aux, local)
