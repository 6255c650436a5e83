"""The log density of each observation given all others: closed forms where they exist, refits, and importance sampling.

With h_i = x_i' V x_i of one observation, V = (X'WX + P)^-1, and e_i its residual, the residual of the fit without it is
e_i / (1 - h_i) and the sum of squares falls by e_i^2 / (1 - h_i) (Cook & Weisberg 1982, section 2.2). So the closed form is exact for
least squares, conjugate posteriors, and modes of Gaussian noise under normal priors with fixed scales. Other modes are refitted, or
approximated by one Newton step (`modes`); other posteriors are reweighted (PSIS-LOO, Vehtari, Gelman & Gabry 2017).
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy

from probreg.data import Design
from probreg.data.checked_arrays import full_weights, some_rows, times_weights
from probreg.fits.fit import Fit
from probreg.fits.inference_data import coefficient_groups, observation_rows
from probreg.fits.leave_one_out import PARETO_LIMIT, left_out_rows
from probreg.fits.leave_out.modes import (
    modes_without_rows,
    refit_without_rows,
    relative_move,
    rows_in_doubt,
)
from probreg.fits.prediction import atom_count, predictive
from probreg.inference import ClosedForm
from probreg.inference.base import Solution, has_exact_law, hold_at_limits
from probreg.inference.modes.maximise import newton_step
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import row_slices
from probreg.model.model import Model
from probreg.model.term_priors import hyper_names
from probreg.priors import BlockPrior, Flat, HierarchicalPrior, Normal
from probreg.priors.base import GaussianPrior
from probreg.priors.covariance import VaryingEffects
from probreg.priors.joint import JointPrior, mapping_of
from probreg.system.terminal import shorten_names

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LeftOut:
    """`elpd` (N,), a log density per observation, its method, and warnings; `within` (N,) are the log densities of the whole fit,
    if the method computed them."""

    elpd: Array
    method: str
    warnings: tuple[str, ...] = ()
    within: Array | None = None


def leave_one_out(fit: Fit) -> LeftOut:
    """Return log p(y_i | y without i) of every observation; nan, with the reason, if there is none."""
    left_out = _leave_rows_out(fit)
    if np.isnan(left_out.elpd).all():
        return left_out
    notes = held_scales_note(fit, "row")
    return replace(left_out, warnings=(*notes, *left_out.warnings))


def held_scales_note(fit: Fit, unit: str) -> tuple[str, ...]:
    """The note of a fit with scales of the prior that are not estimated again without a row or group."""
    if not fit.solution.has_found_scales:
        return ()
    return (
        f"the scales were estimated from all rows and fixed while each {unit} is left out, which favours this fit",
    )


def _leave_rows_out(fit: Fit) -> LeftOut:
    """Return the log densities, exact where the posterior or the mode has a closed form, without the note on the scales."""
    model = fit.model
    s = fit.solution
    if fit.target == "posterior":
        if not has_exact_law(model, s):
            return _importance_sampling(fit)
        unit = s.stats["sigma2_scale"] if s.df is not None else model.noise() ** 2
        return _closed_form(fit, s, unit)
    reference = all(model.aux_prior(a).name == "reference" for a in model.unknown)
    flat = not model.joint.informative.any()
    if model.likelihood.least_squares and flat and reference:
        # the hat matrix, for any method of the fit
        s = ClosedForm().solve(model, np.random.default_rng(0))
        unit = model.noise(s.aux) ** 2
        if s.df is not None:
            unit = s.stats["rss"] / s.df
        return _closed_form(fit, s, unit)
    if not isinstance(model.likelihood, SmoothLikelihood) or not model.joint.smooth:
        return _no_leave_one_out(
            fit,
            "this mode has no leave-one-out: its posterior is not smooth; give heldout=, or choose its scale by tune(by='cv')",
        )
    if _normal_at_known_scales(fit):
        return _closed_form(fit, s, model.noise(s.aux) ** 2)
    return refit_rows(fit)


def _no_leave_one_out(fit: Fit, reason: str) -> LeftOut:
    n = len(observation_rows(fit.model)[0])
    return LeftOut(np.full(n, np.nan), "none", (reason,))


# ---- closed forms ------------------------------------------------------------------------------------------------------


def _closed_form(fit: Fit, s: Solution, unit: float) -> LeftOut:
    """Return the density of each row at the estimate or under the posterior without it.

    The covariance of the solution is V `unit`; h_i = w_i x_i'V x_i of one observation of precision w_i, and y_i - x_i b_(i) =
    e_i / (1 - h_i) in units of w_i^(-1/2); nan if only this row determines a coefficient.
    """
    model = fit.model
    d = model.design
    n = d.total
    root = np.sqrt(full_weights(d.precision, d.n))
    # weight of one observation: 1 for frequencies, the whole sampling weight otherwise
    left_out: Array | float = 1.0
    if d.weight_kind == "sampling":
        left_out = d.row_weights
    V = (s.conditional or s.scale).of_rows(d.X)[:, 0, 0] / unit
    rest = 1.0 - left_out * root**2 * V
    rest = np.where(rest < 1e-10, np.nan, rest)
    e = root * (d.observed - model.eta(s.beta)[:, 0])
    gap = e / rest
    if fit.target == "posterior" and s.df is not None:
        # Student-t on 2 a - 1 degrees of freedom about x_i m_(i), scale^2 = b_(i) / a_(i) / (1 - h_i), where
        # 2 b_(i) = 2 b - w_i e_i^2 / (1 - h_i), and s.df unit = 2 a (b / a) = 2 b
        df = s.df - 1.0
        variance = _subtract_squares(s.df * unit, e**2 / rest) / df / rest
        log_p = scipy.stats.t.logpdf(gap, df, scale=np.sqrt(variance))
    elif fit.target == "posterior":
        # N(x_i m_(i), sigma^2 / (1 - h_i))
        log_p = scipy.stats.norm.logpdf(gap, scale=np.sqrt(unit / rest))
    else:
        # N(x_i b_(i), sigma^2), with n sigma^2 = RSS where it is unknown: without a of the row
        # RSS_(i) = RSS - a w_i e_i^2 / (1 - h_i), of the weight n - a
        variance = model.noise(s.aux) ** 2
        if model.unknown:
            rss = _subtract_squares(n * variance, left_out * e**2 / rest)
            variance = rss / (n - left_out)
        log_p = scipy.stats.norm.logpdf(gap, scale=np.sqrt(variance))
    held = fit.target == "mode" and fit.solution.stats.get("ratios_found")
    method = "closed form at fixed scales" if held else "closed form"
    # densities of y_i sqrt(w_i) as densities of the observations
    return _one_per_observation(fit, log_p + np.log(root), method)


def has_normal_prior(joint: JointPrior, design: Design, drawn: Container[str]) -> bool:
    """Whether coefficients are normal given the scales of their priors, and these are known or among the names `drawn`."""
    names = hyper_names(joint, design)
    for i, block in enumerate(joint.blocks):
        prior = block.prior
        if not all(name in drawn for name in names.get(i, {}).values()):
            return False
        if isinstance(prior, VaryingEffects):
            continue
        if isinstance(prior, HierarchicalPrior):
            prior = prior.base
        if not isinstance(prior, GaussianPrior) or (
            prior is not block.prior and prior.independent(1) is None
        ):
            return False
    return True


def _normal_at_known_scales(fit: Fit) -> bool:
    """Return whether the fit is a mode with Gaussian noise and normal priors, with all scales known or fixed."""
    model = fit.model
    plain = not (
        fit.solution.sandwich or fit.solution.replicates or model.has_relative_prior
    )
    known = model.likelihood.least_squares and not model.unknown
    return plain and known and has_normal_prior(model.joint, model.design, ())


def _subtract_squares(total: float, part: Array) -> Array:
    """Return a sum of squares without the part of each row; nan where the other rows leave no residuals."""
    rounding = 1e-10  # largest share of the total that is rounding error
    remainder = total - part
    return np.where(remainder > rounding * total, remainder, np.nan)


def _one_per_observation(fit: Fit, log_p: Array, method: str) -> LeftOut:
    """Return one entry per observation; a row with a frequency that is not repeated counts by its weight."""
    rows, weight = observation_rows(fit.model)
    elpd = times_weights(log_p[rows], weight)
    missing = np.flatnonzero(np.isnan(log_p))
    if not len(missing):
        return LeftOut(elpd, method)
    names = fit.model.design.row_names
    # with least squares only this row determines a coefficient, or the others leave no
    # residuals; with other likelihoods the search failed
    if fit.model.likelihood.least_squares:
        reason = "a coefficient or sigma has no estimate"
    else:
        reason = "Newton steps found no mode"
    plural = "s" if len(missing) > 1 else ""
    rows_missing = shorten_names(map(str, names[missing]), 5)
    warning = (
        f"without row{plural} {rows_missing} {reason}, so there is no sum over rows"
    )
    return LeftOut(elpd, method, (warning,))


# ---- refits ------------------------------------------------------------------------------------------------------------


def refit_rows(
    fit: Fit, *, refit_all: int = 500, most_refits: int = 3000, allowed: float = 0.01
) -> LeftOut:
    """Return the log density of each row at the mode without it: one Newton step, and refits of the rows in doubt.

    With at most `refit_all` rows each row is refitted. If more than `most_refits` are in doubt, none is. `allowed` is the error in nats of one
    Newton step in the sum over rows.
    """
    model = _with_parameters_held(hold_at_limits(fit.model, fit.solution), fit.solution)
    n = model.design.n
    beta = fit.solution.beta
    aux = {a: fit.solution.aux[a] for a in model.unknown}
    weights = model.design.weights
    # whether priors are the same without a row, and weights count observations
    shared = (
        model.design.weight_kind != "sampling"
        and (weights is None or bool((weights % 1 == 0).all()))
        and fit.solution.effect_scales is None
        and not model.has_relative_prior
    )
    log_p = np.full(n, np.nan)
    rows = np.arange(n)
    if shared and n > refit_all:
        local = model.value_grad_hessian(beta, **aux)
        step, convex = newton_step(local)
        # standard errors: the step after a shorter one is about its square
        at_mode = 1e-4
        if convex and float(local.gradient @ step) < at_mode**2:
            log_p, rows = _newton_step(model, beta, aux, allowed)
    if len(rows) > most_refits:
        many = f"{len(rows)} of {n} rows need a refit"
        return _no_leave_one_out(
            fit, f"{many}, and at most {most_refits} are refitted: give heldout="
        )
    modes = refit_without_rows(model, beta, aux, rows, shared=shared)
    log_p[rows] = _log_prob(model, modes.eta, modes.aux, rows)
    method = f"one Newton step, {len(rows)} of {n} rows refitted"
    if len(rows) == n:
        method = f"{n} refits"
    return _one_per_observation(fit, log_p, method)


def _with_parameters_held(model: Model, solution: Solution) -> Model:
    """Return the model with normal priors that keep the flat coefficients of parameter formulas at their estimates by evidence.

    Nuisance parameters without a formula are also fixed: a joint mode with the effects by group is far from these estimates."""
    owner = model.design.owner
    if owner is None or solution.effect_scales is None:
        return model
    tiny = 1e-5  # prior standard deviation of a fixed coefficient times the standard deviation of its column
    blocks = list[BlockPrior]()
    for b in model.joint.blocks:
        held = [j for j in b.columns if isinstance(b.prior, Flat) and owner[j] > 0]
        free = tuple(j for j in b.columns if j not in held)
        if free:
            blocks.append(replace(b, columns=free))
        for j in held:
            at = float(solution.beta[j, 0])
            sd = tiny / float(model.design.basis.scale[j])
            blocks.append(BlockPrior(Normal(sd, location=at), (j,)))
    by_column = mapping_of(blocks, model.design.columns)
    return replace(model.with_prior(by_column), scales_compared=model.scales_compared)


def _newton_step(
    model: Model, beta: Array, aux: dict[str, float], allowed: float
) -> tuple[Array, Array]:
    """Return log p of each row after one Newton step, and the rows for which it is in doubt."""
    modes = modes_without_rows(model, beta, aux)
    log_p = _log_prob(model, modes.eta, modes.aux)
    before = _log_prob(model, model.eta(beta), aux)
    move = relative_move(model, beta, aux, modes)
    for name, value in aux.items():
        move = np.maximum(move, np.abs(np.log(modes.aux[name] / value)))
    weight = model.design.row_weights
    return log_p, rows_in_doubt(log_p, before, move, weight, allowed)


def _log_prob(
    model: Model,
    eta: Array,
    aux: Mapping[str, Array | float],
    rows: Array | slice = slice(None),
) -> Array:
    d = model.design
    precision = some_rows(d.precision, rows)
    parameters = model.likelihood.at_rows({**model.fixed, **aux}, precision)
    # one Newton step can lead to an infinite eta
    with np.errstate(invalid="ignore", over="ignore"):
        return np.array(model.likelihood.log_prob(d.observed[rows], eta, **parameters))


# ---- importance sampling -----------------------------------------------------------------------------------------------


def _importance_sampling(fit: Fit) -> LeftOut:
    result = fit.once(left_out_rows)
    unreliable = result.k > PARETO_LIMIT
    warnings: tuple[str, ...] = ()
    if unreliable.any():
        labels = fit.once(coefficient_groups)["log_likelihood"]["obs"].to_numpy()
        listed = shorten_names(map(str, labels[unreliable]), 5)
        warnings = (
            f"Pareto k is above {PARETO_LIMIT} for {unreliable.sum()} of {len(labels)} observations ({listed}): "
            "their terms are not reliable",
        )
    return LeftOut(result.elpd, "PSIS", warnings, result.lppd)


def log_mean_density(fit: Fit) -> Array:
    """Return log p(y_i | all rows), (N,): at the plug-in estimate, or under the posterior predictive."""
    model = fit.model
    rows, weight = observation_rows(model)
    d = model.design
    block_size = 2_000_000  # draws times rows at once, 16 MB
    size = max(1, block_size // (atom_count(fit) * model.shape[1]))
    densities = []
    for rows_of_block in row_slices(d.n, size):
        part = d.take(rows_of_block)
        mixture = predictive(fit, part)
        densities.append(mixture.log_prob(part.observed))
    log_p = np.concatenate(densities)
    return times_weights(log_p[rows], weight)
