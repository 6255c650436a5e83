"""Posterior modes of likelihoods that are piecewise linear in the residual: quantile, absolute and tube losses by an interior point.

Given the nuisance parameters the mode over beta is a convex quadratic programme with a certificate. The nuisance parameters, on
their log scale, are at the maximum of what is left: f(log aux) = max over beta of the log posterior, whose slope is that of the
log posterior at the maximising beta (the envelope theorem).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq, minimize, root

from probreg.arguments.scalars import Count, Positive, check_fields
from probreg.data.rows import full_weights, minus_offset
from probreg.errors import DataError, NotConverged
from probreg.inference.base import METHODS, Array, Method, Solution, Status, edges, kinds, sigma_note
from probreg.inference.modes.newton import Mode, find_mode, solution_at
from probreg.inference.penalized.kink_mode import KinkMode, PiecewiseLinear, kink_mode
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.model.model import LocalModel, Model
from probreg.priors import GaussianPrior

_RUN_OUT = 30.0  # of a log: a nuisance parameter this far below where it began runs to 0
_STEP = 1.0  # of a log, while the maximum is being bracketed


@METHODS.register
@dataclass(frozen=True)
class InteriorPoint(Method):
    """The mode argmax log p(y | X beta, aux) + log p(beta, aux) where -log p is piecewise linear in the residual: an interior point.

    Quantile regression, least absolute deviations and support vector regression under flat or normal priors. Given the
    nuisance parameters it is a convex quadratic programme, solved to the relative gap `tol` and then exactly on the active set
    found. Its statistics are the certificate: `primal`, `dual`, their `gap`, and `kkt`, the largest violation of the conditions
    of a minimum. Nuisance parameters are at their joint mode over their logs. A mode on kinks has no second derivatives:
    standard errors are those of the expected information under the likelihood.

    Parameters
    ----------
    tol : float
        The relative gap between primal and dual.
    max_steps : int
        The most steps of the interior point.

    References
    ----------
    Mehrotra 1992; Portnoy & Koenker 1997.

    Examples
    --------
    >>> from probreg.likelihoods import AbsoluteLoss
    >>> model = Model.from_arrays([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0, 9.0], likelihood=AbsoluteLoss())
    >>> found = InteriorPoint().solve(model, np.random.default_rng(0))
    >>> found.beta[:, 0].round(9) + 0.0, round(found.aux["sigma"], 9)
    (array([0., 1.]), 1.0)
    """

    tol: Positive = 1e-10
    max_steps: Count = 100

    name = "interior_point"
    pseudo = True
    in_memory = True
    likelihood = PiecewiseLinearLikelihood
    prior = GaussianPrior

    def __post_init__(self) -> None:
        check_fields(self)

    def obstacle(self, model: Model) -> str | None:
        return kinds(self, model) or edges(self, model)

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        mode, at = kinked_mode(model, tol=self.tol, max_steps=self.max_steps)
        found = solution_at(model, mode)
        stats = {
            "n": model.design.total,
            "primal": at.primal,
            "dual": at.dual_value,
            "gap": at.gap,
            "kkt": at.violation,
            "steps": float(mode.steps),
        }
        return replace(found, stats=stats, notes=(
            *sigma_note(model, "sigma is the joint mode with beta over log sigma (maximum likelihood when the priors are flat)"),
            f"minimum {at.primal:.8g} of the loss over the scale plus the penalty, gap {at.gap:.1e}, largest violation {at.violation:.1e}",
            *_not_unique(model, mode, at),
        ))  # fmt: skip


def _not_unique(model: Model, mode: Mode, at: KinkMode) -> tuple[str, ...]:
    """In words, where other coefficients have the same loss: the interval of the intercept on the raw columns."""
    if at.unique:
        return ()
    i = model.design.intercept
    if at.offset_interval is None or i is None:
        return ("the minimum is not unique: other coefficients have the same loss",)
    moved = float((model.design.basis.T @ mode.gamma)[i, 0] - mode.gamma[i, 0])
    low, high = (v + moved for v in at.offset_interval)
    return (
        f"the intercept is not unique: from {low:.12g} to {high:.12g} the loss is the same, and the middle is taken",
    )


class _Programme:
    """The mode over gamma, the coefficients of standardised columns, given the nuisance parameters."""

    def __init__(self, model: Model, tol: float, max_steps: int) -> None:
        design, likelihood = model.design, model.likelihood
        assert isinstance(likelihood, PiecewiseLinearLikelihood)  # `obstacle` asks
        self.model, self.likelihood, self.tol, self.max_steps = model, likelihood, tol, max_steps
        self.U, self.y = design.basis.rows(design.X), minus_offset(design.observed, design.offset)
        self.w, self.centre = full_weights(design.weights, design.n), design.basis.T_inverse @ model.joint.center
        self.flat, self.steps = not model.joint.informative.any(), 0
        self._solved: dict[bytes, KinkMode] = {}

    def __call__(self, log_aux: Array) -> tuple[KinkMode, LocalModel]:
        """The mode, and the log posterior about it over (gamma, log aux)."""
        model, aux = self.model, dict(zip(self.model.unknown, np.exp(log_aux).tolist()))
        known = {**model.fixed, **aux}
        up, down, tube = self.likelihood.slopes(**self.likelihood.at_rows(known, model.design.precision))
        tube = np.zeros(len(self.y)) + tube
        # of flat priors the minimum is that of any multiple of the loss: in units of its slopes it is solved once for each tube
        unit = float(np.max(up)) if self.flat else 1.0
        key = tube.tobytes() if self.flat else log_aux.tobytes()
        if key not in self._solved:
            T = model.design.basis.T
            P = T.T @ model.joint.precision(model.noise(known)) @ T
            loss = PiecewiseLinear(self.w * up / unit, self.w * down / unit, tube)
            found = kink_mode(self.U, self.y, loss, P, self.centre, tol=self.tol, max_steps=self.max_steps)
            self._solved[key], self.steps = found, self.steps + found.steps
        at = self._solved[key]
        at = replace(
            at, dual=at.dual * unit, primal=at.primal * unit, dual_value=at.dual_value * unit, gap=at.gap * unit
        )
        return at, model.value_grad_hessian_standardised(at.beta[:, None], **aux)

    def slope(self, log_aux: Array) -> Array:
        """d f / d log aux of f = max over gamma of the log posterior, by the envelope theorem that at the mode."""
        at, local = self(log_aux)
        return local.gradient[len(at.beta) :]


def kinked_mode(model: Model, *, tol: float = 1e-10, max_steps: int = 100) -> tuple[Mode, KinkMode]:
    """The joint mode over (beta, log aux) with the expected curvature there, and the certificate over beta."""
    if not model.design.reachable:
        raise DataError(
            "interior_point finds its mode from the rows, and this model was saved without them: save(rows=True)"
        )
    programme = _Programme(model, tol, max_steps)
    assert isinstance(model.likelihood, PiecewiseLinearLikelihood)
    spread = model.likelihood.initial_eta(programme.y)[1]
    log_aux = np.log([spread[a] for a in model.unknown])
    if model.unknown:
        log_aux = _one(programme, float(log_aux[0])) if len(log_aux) == 1 else _several(programme, log_aux)
    found, local = programme(log_aux)
    status = Status.CONVERGED if found.converged else Status.STEP_LIMIT
    return Mode(found.beta[:, None], log_aux, local, found.violation, programme.steps, status), found


def any_mode(model: Model, *, tol: float, max_steps: int = 100) -> Mode:
    """The mode over (beta, log aux), by Newton's method, or with kinks by an interior point and the expected curvature there."""
    if isinstance(model.likelihood, PiecewiseLinearLikelihood):
        return kinked_mode(model)[0]
    return find_mode(model, tol=tol, max_steps=max_steps)


def _one(programme: _Programme, start: float) -> Array:
    """The root of the slope over the log of one nuisance parameter, from where it began outwards."""

    def slope(u: float) -> float:
        return float(programme.slope(np.array([u]))[0])

    low = high = start
    while slope(high) > 0:
        low, high = high, high + _STEP
    while slope(low) < 0:
        low, high = low - _STEP, low
        if start - low > _RUN_OUT:
            raise NotConverged(_EXACT.format(programme.model.unknown[0]))
    return np.array([brentq(slope, low, high, xtol=1e-13, rtol=1e-14) if low < high else low])


def _several(programme: _Programme, start: Array) -> Array:
    """The maximum over the logs of several, sought by quasi-Newton steps and finished at a root of the slopes."""

    def fall(u: Array) -> tuple[float, Array]:
        return -programme(u)[1].value, -programme.slope(u)

    with np.errstate(all="ignore"):
        near = minimize(fall, start, jac=True, method="BFGS", options={"gtol": 1e-6 * programme.w.sum()}).x
        exact = root(programme.slope, near).x
    better = np.abs(programme.slope(exact)).max() < np.abs(programme.slope(near)).max()
    return np.asarray(exact if better else near)


_EXACT = (
    "interior_point: {0} runs to 0, for the columns reproduce the response: use fewer columns, hold {0}, or give it a proper "
    "prior with little mass near 0, such as InverseGamma"
)
