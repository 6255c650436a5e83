"""Smooth functions with given smoothness: scales for given degrees of freedom or given penalty weights.

Let J be the information of the rows and P the prior's precision. A function with F unpenalised columns has, at a scale tau of its
range and with the other scales fixed,

    edf(tau) = F + sum_s mu_s / (mu_s + tau^-2),    mu the eigenvalues of B = J_bb - J_bo (J_oo + P_oo)^-1 J_ob,

effective degrees of freedom, which rise with tau from F to the number of its columns. The scales of several functions are
found in turn until they converge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from probreg.arguments.scalars import Positive, read_argument
from probreg.data.formula.functions import (
    TermFunction,
    functions_called,
    term_functions,
)
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit, fit
from probreg.inference.notes import Topic, important_note
from probreg.inference.penalized.degrees import degrees_by_coefficient, information_of
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import rank_of, triangular
from probreg.linalg.vec import vec_entries
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
_SWEEPS, _FITS = 500, 50
_TOL = 1e-10  # of degrees of freedom


def fit_with_degrees(model: Model, df: float | Mapping[str, float]) -> Fit:
    """Fit at the scales where each smooth function has `df` degrees of freedom, including its unpenalised columns.

    `df` is one number, or a mapping by term.
    """
    functions = _functions(model, "df")
    targets = _by_function(model, functions, df, "df")
    m = model.shape[1]
    for f in functions:
        low = len(f.of.flat) * m
        high = len(f.at) * m
        if not low < targets[f.label] < high:
            raise DataError(
                f"df of {f.label} is above {low} (its flat columns) and below {high} (all of its columns), got {targets[f.label]:g}"
            )
    tau = {f.label: 1.0 for f in functions}
    if model.likelihood.least_squares:
        # J = X'X / sigma^2: in units of sigma the scales do not depend on it.
        J = information_of(
            model, np.zeros(model.shape), None, **{model.noise_scale: 1.0}
        )
        tau = _solve_scales(model, functions, targets, J, tau)
        return _at_scales(model, functions, tau, _format_wanted("df", targets))
    for _ in range(_FITS):
        result = _at_scales(model, functions, tau, _format_wanted("df", targets))
        s = result.solution
        degrees = degrees_by_coefficient(result.model, s.beta, **s.aux)
        if all(
            abs(float(degrees[f.at].sum()) - targets[f.label]) < 1e-8 * targets[f.label]
            for f in functions
        ):
            return result
        tau = _solve_scales(
            model,
            functions,
            targets,
            information_of(result.model, s.beta, None, **s.aux),
            tau,
        )
    raise NotConverged(
        f"df: no scales spend {_format_wanted('df', targets)} within {_FITS} fits; ask for fewer, or fit at REML"
    )


def fit_with_penalty(model: Model, sp: float | Mapping[str, float]) -> Fit:
    """Fit with penalties of weight `sp` added to RSS or to -2 log L: one number, or a mapping by term.

    The criterion is RSS + sp J(f), with J(f) = unit |u|^2 from `SmoothBasis.penalty`: tau^2 = sigma^2 / (sp unit).
    """
    functions = _functions(model, "sp")
    targets = _by_function(model, functions, sp, "sp")
    tau = {}
    for f in functions:
        penalty = None if f.smooth is None else f.smooth.penalty
        if penalty is None:
            raise Incompatible(
                f"{f.label} has no penalty of one weight: give df=, or its prior by a scale for each block"
            )
        tau[f.label] = float((targets[f.label] * penalty.unit) ** -0.5)
    return _at_scales(model, functions, tau, _format_wanted("sp", targets))


def _format_wanted(option: str, targets: Mapping[str, float]) -> str:
    return f"{option} = " + ", ".join(
        f"{v:g} for {name}" for name, v in targets.items()
    )


def _functions(model: Model, option: str) -> tuple[TermFunction, ...]:
    """Return the smooth functions of a model with scales that can be set."""
    functions = term_functions(model.design)
    if not isinstance(model.likelihood, SmoothLikelihood):
        raise Incompatible(
            f"{option}= needs a smooth likelihood, and {model.likelihood.name} is not one"
        )
    ranges = {c for f in functions for block in f.of.blocks for c in block}
    flat = np.flatnonzero(~model.joint.informative)
    if len(flat):
        dropped = rank_of(triangular(model.design.moments.R[:, flat])).dropped
    else:
        dropped = ()
    if dropped:
        names = ", ".join(model.design.columns[flat[j]] for j in dropped)
        raise Incompatible(
            f"{option}= needs flat columns that are identified, and {names} is a combination of others: see pr.check"
        )
    for b in model.joint.blocks:
        is_smooth = model.design.columns[b.columns[0]] in ranges
        default = isinstance(b.prior, HierarchicalPrior) and not b.prior.proper
        if is_smooth and not default:
            label = model.design.describe_columns(b.columns)
            raise DataError(
                f"{label} has a prior of its own, which sets its smoothness: leave out {option}= or the prior"
            )
        if not is_smooth and not isinstance(b.prior, Flat | GaussianPrior):
            raise Incompatible(
                f"{option}= needs normal priors of the other columns, and {b.prior.name} is none"
            )
    return functions


def _by_function(
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
    start: Mapping[str, float],
) -> dict[str, float]:
    """Return the scales at which the functions have the wanted degrees of freedom, given the
    information J (p m, p m)."""
    m = model.shape[1]
    unit_model = _model_at(model, functions, dict.fromkeys(targets, 1.0), 1.0)
    # in the units of J, which for least squares are those of sigma
    sigma = 1.0
    if model.likelihood.least_squares:
        sigma = model.noise_held or 1.0
    P = unit_model.joint.precision_of_entries(m, sigma) * sigma**2
    d = np.sqrt(np.diagonal(J))
    d = np.where(d > 0, d, 1.0)
    number = {name: j for j, name in enumerate(model.design.columns)}
    ranges = {
        f.label: vec_entries(tuple(number[c] for b in f.of.blocks for c in b), m)
        for f in functions
    }
    log_tau = {name: float(np.log(t)) for name, t in start.items()}
    for _ in range(_SWEEPS):
        change = 0.0
        for f in functions:
            for name, columns in ranges.items():
                P[columns, columns] = np.exp(-2.0 * log_tau[name])
            b = ranges[f.label]
            o = np.setdiff1d(np.arange(len(J)), b)
            A = (J + P)[np.ix_(o, o)] / np.outer(d[o], d[o])
            C = J[np.ix_(o, b)] / d[o][:, None]
            mu = np.maximum(
                np.linalg.eigvalsh(J[np.ix_(b, b)] - C.T @ np.linalg.lstsq(A, C)[0]),
                0.0,
            )
            spend = targets[f.label] - len(f.of.flat) * m
            mu = mu[mu > 1e-14 * mu.max()]
            new = _log_scale(mu, spend)
            change = max(change, abs(new - log_tau[f.label]))
            log_tau[f.label] = float(new)
        if change < _TOL:
            return {name: float(np.exp(t)) for name, t in log_tau.items()}
    raise NotConverged(
        f"df: no scales spend {_format_wanted('df', targets)}; the functions say the same, so ask for fewer"
    )


def _log_scale(mu: Array, spend: float) -> float:
    """Solve sum_s mu_s / (mu_s + exp(-2 t)) = spend for t; the left side rises in t."""
    from scipy.optimize import brentq

    centre = -0.5 * float(np.log(mu).mean())
    return float(
        brentq(
            lambda t: float((mu / (mu + np.exp(-2.0 * t))).sum()) - spend,
            centre - 60,
            centre + 60,
            xtol=1e-14,
        )
    )


def _model_at(
    model: Model,
    functions: Sequence[TermFunction],
    tau: Mapping[str, float],
    unit: float,
) -> Model:
    """Return the model with normal priors of these scales, times `unit`, on the ranges of the functions."""
    columns = model.design.columns
    ranges = {block: tau[f.label] for f in functions for block in f.of.blocks}
    others = [
        b
        for b in model.joint.blocks
        if b.stated and tuple(columns[j] for j in b.columns) not in ranges
    ]
    blocks: dict[Key, Prior] = {names: Normal(t * unit) for names, t in ranges.items()}
    return model.with_prior({**mapping_of(others, columns), **blocks})


def _at_scales(
    model: Model,
    functions: Sequence[TermFunction],
    tau: Mapping[str, float],
    description: str,
) -> Fit:
    """Fit at given scales of the ranges; for least squares they are in units of sigma, which is fixed or its restricted estimate."""
    at = partial(_model_at, model, functions, tau)
    if not model.likelihood.least_squares:
        result = fit(at(1.0))
    elif model.noise_held is not None:
        result = fit(at(model.noise_held))
    elif isinstance(model.noise_prior, Reference):
        sigma = _restricted_sigma(model, at(1.0).with_aux(**{model.noise_scale: 1.0}))
        result = fit(at(sigma).with_aux(**{model.noise_scale: sigma}))
        description += f"; {model.noise_scale} = {sigma:.6g}, where the restricted likelihood is highest"
    else:
        raise Incompatible(
            "the smoothness of a Gaussian model is stated for sigma held or at its restricted maximum, not under a prior"
        )
    note = important_note(
        Topic.SCALES, "smooth functions at {values}", values=description
    )
    return replace(result, notes=(note, *result.notes))


def _restricted_sigma(model: Model, unit: Model) -> float:
    """Return sigma^2 = (RSS + penalty) / (n - flat columns), at scales in units of sigma (`unit` has sigma = 1)."""
    ranges = {j for f in term_functions(model.design) for j in f.at}
    other_priors = [b.prior for b in model.joint.blocks if not set(b.columns) <= ranges]
    if any(
        not isinstance(prior, Flat) and not prior.sigma_units for prior in other_priors
    ):
        raise Incompatible(
            "df= and sp= beside normal priors of other columns need sigma: hold it, aux={'sigma': ...}"
        )
    beta = fit(unit, "closed_form").solution.beta[:, 0]
    F = np.asarray(model.design.moments.factor, dtype=float)
    rss = float(np.square(F @ np.append(beta, -1.0)).sum())
    residual_df = model.design.moments.weight - int((~unit.joint.informative).sum())
    if residual_df <= 0 or rss <= 0:
        raise Incompatible(
            "sigma has no estimate: the flat columns reproduce the response; use fewer, or hold sigma"
        )
    return float(np.sqrt((rss + beta @ unit.joint.precision(1.0) @ beta) / residual_df))
