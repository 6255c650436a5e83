"""Modes at a given penalty (a weight lam, a ball of given radius, or degrees of freedom or weights of smooth functions), and fits of several quantiles.

The mode minimises D + lam R(b) over the penalised coefficients b, with D = RSS of a Gaussian model and D = -2 log L of others:
-log p = w R(b) + constant with w = lam / (2 sigma^2) or w = lam / 2. The least D in the ball R(b) <= r is the mode at the lam
with R(b) = r, or maximum likelihood if that is in the ball (Lagrange duality: R is convex, and R at the mode falls as lam grows).
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit

from probreg.arguments.scalars import Positive, read_argument
from probreg.data.formula.functions import (
    TermFunction,
    functions_called,
    term_functions,
)
from probreg.errors import DataError, Incompatible, NotConverged, ProbregWarning
from probreg.fits.fit import Fit, fit
from probreg.inference.auto import Auto
from probreg.inference.base import Solution
from probreg.inference.penalized.degrees import (
    degrees_by_coefficient,
    diagonal_of_shrinkage,
    information_of,
)
from probreg.inference.penalized.ridge_modes import RidgeModes
from probreg.inference.status import Note, Topic, important_note
from probreg.inference.uncertainty.covariance import covariance_of_kind
from probreg.likelihoods import Gaussian, Quantile, SmoothLikelihood
from probreg.linalg import rank_of, triangular
from probreg.model.model import Model
from probreg.priors import (
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    Normal,
    Prior,
    Reference,
)
from probreg.priors.joint import Key, mapping_of

Array = np.ndarray


@dataclass(frozen=True)
class Penalty:
    """R(b) = ratio |b|_q^q + (1 - ratio) |b|_2^2 / 2, and for each w the prior with -log p(b) = w R(b) + constant.

    `name` is the name of R^(1/q): the norm |b|_q if the ratio is 1.
    """

    name: str
    q: float
    prior: Callable[[float], Any]
    ratio: float = 1.0

    def norm(self, unit: Model, beta: Array) -> float:
        """R^(1/q) of the coefficients of a model under the prior of scale 1."""
        if unit.joint.contrast is not None:
            beta = unit.joint.scores(beta)
        R = 0.0
        for block in unit.joint.blocks:
            if block.stated:
                prior: Any = block.prior
                b = prior.standardise(beta[list(block.columns)])[0]
                R += self.ratio * np.sum(np.abs(b) ** self.q)
                R += (1.0 - self.ratio) * np.sum(b**2) / 2.0
        return float(R ** (1.0 / self.q))

    def fit_at(self, model: Model, lam: float, sigma: float = 1.0) -> Fit:
        """Fit under the prior of lam, which is in units of this sigma if the model is Gaussian."""
        prior = self.prior(lam / (2.0 * sigma**2))
        units = model.likelihood.least_squares
        return fit(
            model.with_prior(
                replace(prior, scale=prior.scale / sigma, sigma_units=units)
            )
        )


def fit_penalised(
    model: Model, penalty: Penalty, scale: Any, lam: float | None, radius: float | None
) -> Fit:
    """Fit a model that states the scale of its prior, or the same model at lam or in the ball."""
    name = only_one(scale=scale, lam=lam, radius=radius)
    if Auto().choose(model)[0].target == "posterior":
        raise Incompatible(
            f"no method finds the mode of {model.likelihood.named} likelihood under this penalty: use ridge, or sample the posterior "
            "with fit(Model.from_formula(..., prior=...), 'nuts')"
        )
    if scale is not None:
        return fit(model)
    if model.joint.sigma_units.any() or model.design.recipe.terms:
        raise Incompatible(
            f"{name}= is for models without sigma_units=, smooth functions and random effects: use scale="
        )
    least_squares = model.likelihood.least_squares
    unit = model
    if least_squares:
        # the coefficients at lam are the same for every sigma
        prior = replace(model.prior, sigma_units=True)  # type: ignore[type-var]
        unit = model.with_prior(prior).with_aux(**{model.noise_scale: 1.0})
    if lam is None:
        assert radius is not None
        with warnings.catch_warnings(action="ignore", category=ProbregWarning):
            fitted = fit(model.with_prior({}))
            identified = fitted.solution.status.good
            lam = 0.0
            if not identified or penalty.norm(unit, fitted.solution.beta) > radius:
                lam = lam_of_radius(
                    lambda v: penalty.norm(unit, penalty.fit_at(unit, v).solution.beta),
                    radius,
                    identified=identified,
                )
        if lam:
            fitted = fit_penalised(model, penalty, None, lam, None)
        fitted = with_dual(fitted, penalty.name, radius, lam)
        is_norm = penalty.ratio == 1.0 and not unit.has_relative_prior
        if lam or not is_norm:
            return fitted
        # the flat prior of maximum likelihood does not show which norm the ball has
        stats = {**fitted.solution.stats, "norm_of_ball": penalty.q}
        return replace(fitted, solution=replace(fitted.solution, stats=stats))
    sigma = 1.0
    if least_squares and penalty.q != 2.0:
        beta = penalty.fit_at(unit, lam).solution.beta
        sigma = model.noise_held or joint_sigma(model, beta)
    return penalty.fit_at(model, lam, sigma)


def only_one(**given: Any) -> str:
    """Return the name of the argument that is given. Incompatible unless it is exactly one."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise Incompatible(
            f"give exactly one of {'=, '.join(given)}=; got {', '.join(names) or 'none'}"
        )
    return names[0]


def with_dual(fitted: Fit, norm: str, radius: float, lam: float) -> Fit:
    """Return a fit in a ball with a note on the dual lam, and the radius among its statistics."""
    note = important_note(
        Topic.PRIOR,
        "the constraint {norm} <= {radius:.6g} has the dual lam = {lam:.10g}"
        + " (maximum likelihood is in the ball)" * (lam == 0.0),
        norm=norm,
        radius=radius,
        lam=lam,
    )
    stats = {**fitted.solution.stats, "radius": radius}
    return replace(
        fitted,
        notes=(note, *fitted.notes),
        solution=replace(fitted.solution, stats=stats),
    )


def lam_of_radius(
    norm: Callable[[float], float], radius: float, *, identified: bool
) -> float:
    """Return lam with norm(lam) = radius, of a norm that falls as lam grows.

    Incompatible if the norm stays below the radius, which it can if the coefficients are not identified at lam = 0.
    """
    from scipy.optimize import brentq

    step = 5.0  # of log lam
    high = 0.0
    while (size := norm(np.exp(high))) > radius:
        high += step
    low = high - step
    while (larger := norm(np.exp(low))) < radius:
        if not identified and 0.0 < larger < size * (1.0 + 1e-6):
            raise Incompatible(
                f"radius={radius:g} has no effect, because coefficients of norm {larger:.6g} have the smallest loss"
            )
        size = larger
        low -= step
    log_lam = brentq(lambda u: norm(np.exp(u)) - radius, low, low + step, xtol=1e-13)
    lam = float(np.exp(log_lam))
    if abs(norm(lam) - radius) > 1e-6 * radius:
        raise NotConverged(
            f"radius={radius:g}: the norm of the mode jumps over it at lam = {lam:.6g}"
        )
    return lam


def ridge_norm(unit: Model) -> Callable[[float], float]:
    """Return |b|_2 by lam of a Gaussian model with sigma = 1 under Normal(1.0), from one decomposition."""
    path = RidgeModes(unit).reduced_path
    return lambda lam: float(np.sqrt(path.norm2(lam)[0]))


def joint_sigma(model: Model, beta: Array) -> float:
    """Return sigma at the joint mode with log sigma, where beta is the mode under a prior in units of sigma.

    log p is stationary along (b, sigma) -> c (b, sigma): (n + k) sigma^2 = RSS + r'Xb, r the residuals of y.
    """
    if not isinstance(model.noise_prior, Reference):
        raise Incompatible(
            f"lam= and radius= need {model.noise_scale} held fixed or without a prior in aux="
        )
    penalised = model.joint.informative
    # r'Xb = (RSS at 0 - RSS at 2 b) / 4
    at = beta[:, 0] * (1.0 + np.outer([-1.0, 0.0, 1.0], penalised))
    zero, rss, twice = model.design.moments.rss_at(at)
    variance = (rss + (zero - twice) / 4.0) / (model.design.total + penalised.sum())
    return float(np.sqrt(variance))


# ---- smooth functions at given degrees of freedom or given penalty weights ------------------------------------------


def fit_with_degrees(model: Model, df: float | Mapping[str, float]) -> Fit:
    """Fit at the scales where each smooth function has `df` degrees of freedom, including its unpenalised columns.

    `df` is one number, or a mapping by term.
    """
    max_fits = 50
    functions = _smooth_functions(model, "df")
    targets = _values_by_function(model, functions, df, "df")
    m = model.shape[1]
    for f in functions:
        low = len(f.of.flat) * m
        high = len(f.at) * m
        if not low < targets[f.label] < high:
            raise DataError(
                f"df of {f.label} is above {low} (its flat columns) and below {high} (all of its columns), got {targets[f.label]:g}"
            )
    description = _format_values("df", targets)
    if model.likelihood.least_squares:
        # J = X'X / sigma^2: in units of sigma the scales do not depend on it.
        J = information_of(
            model, np.zeros(model.shape), None, **{model.noise_scale: 1.0}
        )
        tau = _solve_scales(model, functions, targets, J)
        return _fit_at_scales(model, functions, tau, description)
    tau = dict.fromkeys(targets, 1.0)
    for _ in range(max_fits):
        result = _fit_at_scales(model, functions, tau, description)
        s = result.solution
        degrees = degrees_by_coefficient(result.model, s.beta, **s.aux)
        if all(
            abs(float(degrees[f.at].sum()) - targets[f.label]) < 1e-8 * targets[f.label]
            for f in functions
        ):
            return result
        J = information_of(result.model, s.beta, None, **s.aux)
        tau = _solve_scales(model, functions, targets, J)
    raise NotConverged(
        f"df: no scales spend {description} within {max_fits} fits; ask for fewer, or fit at REML"
    )


def fit_with_penalty(model: Model, sp: float | Mapping[str, float]) -> Fit:
    """Fit with penalties of weight `sp` added to RSS or to -2 log L: one number, or a mapping by term.

    The criterion is RSS + sp J(f), with J(f) = unit |u|^2 from `SmoothBasis.penalty`: tau^2 = sigma^2 / (sp unit).
    """
    functions = _smooth_functions(model, "sp")
    targets = _values_by_function(model, functions, sp, "sp")
    tau = {}
    for f in functions:
        penalty = f.penalty
        if penalty is None:
            raise Incompatible(
                f"{f.label} has no penalty of one weight: give df=, or its prior by a scale for each block"
            )
        tau[f.label] = (targets[f.label] * penalty.unit) ** -0.5
    return _fit_at_scales(model, functions, tau, _format_values("sp", targets))


def _format_values(option: str, targets: Mapping[str, float]) -> str:
    return f"{option} = " + ", ".join(
        f"{v:g} for {name}" for name, v in targets.items()
    )


def _smooth_functions(model: Model, option: str) -> tuple[TermFunction, ...]:
    """Return the smooth functions of a model with scales that can be set."""
    design = model.design
    functions = term_functions(design)
    if not isinstance(model.likelihood, SmoothLikelihood):
        raise Incompatible(
            f"{option}= needs a smooth likelihood, and {model.likelihood.name} is not one"
        )
    ranges = {c for f in functions for block in f.of.blocks for c in block}
    flat = np.flatnonzero(~model.joint.informative)
    if len(flat):
        dropped = rank_of(triangular(design.moments.R[:, flat])).dropped
    else:
        dropped = ()
    if dropped:
        names = ", ".join(design.columns[flat[j]] for j in dropped)
        raise Incompatible(
            f"{option}= needs flat columns that are identified, and {names} is a combination of others: see pr.check"
        )
    for b in model.joint.blocks:
        is_smooth = design.columns[b.columns[0]] in ranges
        default = isinstance(b.prior, HierarchicalPrior) and not b.prior.proper
        if is_smooth and not default:
            label = design.describe_columns(b.columns)
            raise DataError(
                f"{label} has a prior of its own, which sets its smoothness: leave out {option}= or the prior"
            )
        if not is_smooth and not isinstance(b.prior, Flat | GaussianPrior):
            raise Incompatible(
                f"{option}= needs normal priors of the other columns, and {b.prior.name} is none"
            )
    return functions


def _values_by_function(
    model: Model,
    functions: Sequence[TermFunction],
    targets: float | Mapping[str, float],
    option: str,
) -> dict[str, float]:
    """Return the requested value of each function, by the function's name."""
    if not isinstance(targets, Mapping):
        return {f.label: targets for f in functions}
    numbers: dict[str, float] = {}
    for name, value in targets.items():
        number = float(read_argument(f"{option} of {name}", value, Positive))
        numbers |= {f.label: number for f in functions_called(model.design, name)}
    missing = [f.label for f in functions if f.label not in numbers]
    if missing:
        raise DataError(
            f"{option}= names every smooth function or none, and {', '.join(missing)} is missing"
        )
    return {f.label: numbers[f.label] for f in functions}


def _solve_scales(
    model: Model,
    functions: Sequence[TermFunction],
    targets: Mapping[str, float],
    J: Array,
) -> dict[str, float]:
    """Return the scales that give the functions the requested degrees of freedom, given the
    information J (p m, p m); for least squares the scales are in units of sigma.

    A function with F unpenalised columns has, at the scale tau of its penalised ones and with P the precision of the prior,

        edf(tau) = F + sum_s mu_s / (mu_s + tau^-2),    mu the eigenvalues of B = J_bb - J_bo (J_oo + P_oo)^-1 J_ob,

    which rises with tau from F to the number of its columns. Several functions give one system of equations in log tau.
    """
    from scipy.optimize import root

    tolerance = 1e-9  # of log odds of degrees of freedom
    m = model.shape[1]
    low = np.array([len(f.of.flat) * m for f in functions])
    width = np.array([len(f.at) * m for f in functions]) - low
    sigma = 1.0
    if model.likelihood.least_squares:
        sigma = model.noise_held or 1.0

    def scales(log_tau: Array) -> dict[str, float]:
        # beyond it, squares leave the range of numbers
        farthest = 300.0
        tau = np.exp(np.clip(log_tau, -farthest, farthest))
        return dict(zip(targets, tau.tolist()))

    def log_odds(degrees: Array) -> Array:
        """The log odds of the shares of columns in use are almost linear in log tau."""
        return logit(np.clip((degrees - low) / width, 1e-14, 1.0 - 1e-14))

    def excess(log_tau: Array) -> Array:
        at_scales = _model_at_scales(model, functions, scales(log_tau))
        P = at_scales.joint.precision_of_entries(m, sigma) * sigma**2
        degrees = diagonal_of_shrinkage(J, P).reshape(model.shape)
        return log_odds(np.array([degrees[f.at].sum() for f in functions])) - wanted

    wanted = log_odds(np.array(list(targets.values())))
    information = np.diagonal(J).reshape(model.shape)
    start = [
        0.5 * float(w - np.log(information[f.at].mean()))
        for f, w in zip(functions, wanted)
    ]
    found = root(excess, start, tol=1e-13)
    if np.abs(found.fun).max() > tolerance:
        raise NotConverged(
            f"df: no scales spend {_format_values('df', targets)}: ask for fewer, or fit at REML"
        )
    return scales(found.x)


def _model_at_scales(
    model: Model, functions: Sequence[TermFunction], tau: Mapping[str, float]
) -> Model:
    """Return the model with normal priors of these scales on the ranges of the functions, for least squares in units of sigma."""
    columns = model.design.columns
    ranges = {block: tau[f.label] for f in functions for block in f.of.blocks}
    others = [
        b
        for b in model.joint.blocks
        if b.stated and tuple(columns[j] for j in b.columns) not in ranges
    ]
    in_units = model.likelihood.least_squares and model.noise_held is None
    sigma = model.noise_held if model.likelihood.least_squares else None
    blocks: dict[Key, Prior] = {
        names: Normal(t * (sigma or 1.0), sigma_units=in_units)
        for names, t in ranges.items()
    }
    return model.with_prior({**mapping_of(others, columns), **blocks})


def _fit_at_scales(
    model: Model,
    functions: Sequence[TermFunction],
    tau: Mapping[str, float],
    description: str,
) -> Fit:
    """Fit at given scales of the ranges; for least squares sigma is fixed, or its restricted estimate."""
    at_scales = _model_at_scales(model, functions, tau)
    if not (model.likelihood.least_squares and model.noise_unknown):
        fitted = fit(at_scales)
    elif not isinstance(model.noise_prior, Reference):
        raise Incompatible(
            f"df= and sp= need {model.noise_scale} fixed or without a prior: leave its prior out of aux="
        )
    elif any(
        not (isinstance(b.prior, Flat) or b.prior.sigma_units)
        for b in at_scales.joint.blocks
    ):
        raise Incompatible(
            f"df= and sp= with normal priors on other columns need {model.noise_scale} fixed: pass aux={{{model.noise_scale!r}: ...}}"
        )
    else:
        sigma = fit(at_scales, "evidence").aux[model.noise_scale]
        known = model.with_aux(**{model.noise_scale: sigma})
        fitted = fit(_model_at_scales(known, functions, tau))
        description += f"; {model.noise_scale} = {sigma:.6g}, where the restricted likelihood is highest"
    note = important_note(
        Topic.SCALES, "smooth functions at {values}", values=description
    )
    return replace(fitted, notes=(note, *fitted.notes))


def fit_quantiles(model: Model, taus: Sequence[float]) -> dict[float, Fit]:
    """Fit each quantile, in increasing order; a note on each fit reports rows where neighbouring quantiles cross.

    >>> model = Model.from_arrays([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 2.0, 4.0, 6.0], likelihood=Quantile())
    >>> fits = fit_quantiles(model, [0.4, 0.6])
    >>> [f.coef.values.round(6).tolist() for f in fits.values()]
    [[2.0, 2.0], [2.0, 2.0]]
    """
    if (
        isinstance(taus, str)
        or any(map(np.ndim, taus))
        or len(set(taus)) < len(taus)
        or not len(taus)
    ):
        raise DataError(
            f"tau lists different probabilities, got {taus if isinstance(taus, str) else list(taus)!r}"
        )
    fits = {}
    for likelihood in sorted(
        map(Quantile, taus), key=lambda likelihood: likelihood.tau
    ):
        # not "auto", which would sample under a prior without a mode; here this prior raises an error
        fits[likelihood.tau] = fit(
            replace(model, likelihood=likelihood), "interior_point"
        )
    notes = _notes_on_crossings(fits)
    return {tau: replace(f, notes=(*f.notes, *notes[tau])) for tau, f in fits.items()}


def _notes_on_crossings(fits: dict[float, Fit]) -> dict[float, list[Note]]:
    """Return notes on rows where a quantile lies above a higher one, for both of them."""
    notes: dict[float, list[Note]] = {tau: [] for tau in fits}
    taus = list(fits)
    for low, high in itertools.pairwise(taus):
        below, above = (
            fits[t].model.eta(fits[t].solution.beta)[:, 0] for t in (low, high)
        )
        size = 1e-9 * float(np.ptp(fits[low].model.design.observed))
        rows = np.flatnonzero(below > above + size)
        if len(rows):
            note = important_note(
                Topic.ROWS,
                "the {low:g} and {high:g} quantiles cross: at {n} of {total} rows the lower one is above, first in row {first}",
                low=low,
                high=high,
                n=len(rows),
                total=len(below),
                first=fits[low].model.design.row_name(rows[0]),
            )
            notes[low].append(note)
            notes[high].append(note)
    return notes


# ---- linear probability model: least squares of an event's indicator, with standard errors for unequal variances ----


def fit_linear_probability(model: Model, event: str) -> Fit:
    """Fit a 0/1 response by least squares with HC1 errors, and note fitted values outside [0, 1].

    >>> model = Model.from_arrays([0.0, 1.0, 2.0, 3.0, 4.0], [0, 0, 0, 1, 1], likelihood="bernoulli")
    >>> str(fit_linear_probability(model, "y = 1").notes[-1])
    '1 of 5 fitted values lie outside [0, 1], first in row 0, -0.2; predictions are not clipped'
    """
    result = fit(replace(model, likelihood=Gaussian()))
    mean = important_note(
        Topic.LIKELIHOOD,
        "the mean is P({event}), linear in the columns; y is 0 or 1, so Gaussian noise and its sigma are an approximation",
        event=event,
    )
    solution = _with_hc1(result.model, result.solution)
    return replace(
        result, solution=solution, notes=(*result.notes, mean, _range_note(result))
    )


def _with_hc1(model: Model, solution: Solution) -> Solution:
    """Return the solution with the covariance HC1, since Var(y | x) = p (1 - p) is not constant; a note if HC1 fails."""
    if model.design.weight_kind == "sampling":
        return solution  # sampling weights already give sandwich standard errors
    try:
        spread = covariance_of_kind(model, solution, "HC1")
    except (Incompatible, NotConverged, DataError) as error:
        note = important_note(Topic.STANDARD_ERRORS, f"no sandwich: {error}")
        return replace(solution, notes=(*solution.notes, note))
    note = important_note(
        Topic.STANDARD_ERRORS,
        "standard errors are the sandwich HC1, since the variance p (1 - p) differs by row",
    )
    return replace(
        solution, scale=spread.matrix, sandwich="HC1", notes=(*solution.notes, note)
    )


def _range_note(result: Fit) -> Note:
    """Return the note on how many fitted values are outside [0, 1]."""
    # tolerance at 0 and 1: fitted values of saturated designs may equal them
    rounding = 1e-9
    design = result.model.design
    fitted = result.model.eta(result.solution.beta)[:, 0]
    rows = np.flatnonzero((fitted < -rounding) | (fitted > 1.0 + rounding))
    if not len(rows):
        return important_note(
            Topic.ROWS,
            "all {total} fitted values are in [0, 1]; predictions at other rows may be outside, and are not clipped",
            total=len(fitted),
        )
    return important_note(
        Topic.ROWS,
        "{n} of {total} fitted values lie outside [0, 1], first in row {row}, {value:.3g}; predictions are not clipped",
        n=len(rows),
        total=len(fitted),
        row=design.row_name(rows[0]),
        value=fitted[rows[0]],
    )
