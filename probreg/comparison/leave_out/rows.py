"""The log density of each observation given all others: closed forms where they exist, refits, and importance sampling.

With h_i = x_i' V x_i of one observation, V = (X'WX + P)^-1, and e_i its residual, the residual of the fit without it is
e_i / (1 - h_i) and the sum of squares falls by e_i^2 / (1 - h_i) (Cook & Weisberg 1982, section 2.2). So the closed form is exact for
least squares, conjugate posteriors, and modes of Gaussian noise under normal priors at held scales. Other modes are refitted, or
approximated by one Newton step (`modes`); other posteriors are reweighted (PSIS-LOO, Vehtari, Gelman & Gabry 2017).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from probreg.comparison.leave_out.modes import (
    STEP_AT_MODE,
    modes_without_rows,
    refit_without_rows,
    relative_move,
    rows_in_doubt,
)
from probreg.data.rows import full_weights
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.leave_one_out import PARETO_LIMIT, left_out_rows
from probreg.fits.prediction import atom_count, predictive
from probreg.inference import ClosedForm
from probreg.inference.base import held_at_limits
from probreg.inference.modes.newton import newton_step
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.priors import HierarchicalPrior, Prior
from probreg.priors.base import GaussianPrior
from probreg.priors.covariance import VaryingEffects

Array = np.ndarray
_BLOCK = 2_000_000  # draws times rows at once, 16 MB
_MOST_REFITS = 3000
_REFIT_ALL = 500  # rows up to which each is refitted
_ALLOWED = 0.01  # nats: error of one Newton step in the sum over rows


@dataclass(frozen=True, eq=False)
class LeftOut:
    """`elpd` (N,), a log density per observation, its method, and warnings; `within` (N,) are the log densities of the whole fit,
    if the method computed them."""

    elpd: Array
    method: str
    warnings: tuple[str, ...] = ()
    within: Array | None = None


def leave_one_out(fit: Fit) -> LeftOut:
    """Return log p(y_i | y without i) of every observation; nan, with the reason, where there is none."""
    model = fit.model
    if fit.target == "posterior":
        is_known = fit.solution.posterior.elliptical and model.likelihood.least_squares
        if is_known and ("sigma2_scale" in fit.solution.stats or not model.unknown):
            return _closed_form(fit, _conjugate_density(fit))
        return _importance_sampling(fit)
    reference = all(model.aux_prior(a).name == "reference" for a in model.unknown)
    flat = not model.joint.informative.any()
    if model.likelihood.least_squares and flat and reference:
        return _closed_form(fit, _least_squares_density(fit))
    if not isinstance(model.likelihood, SmoothLikelihood) or not model.joint.smooth:
        return _no_leave_one_out(
            fit,
            "this mode has no leave-one-out: its posterior is not smooth; give heldout=, or choose its scale by tune(by='cv')",
        )
    if _normal_at_known_scales(fit):
        return _closed_form(fit, _normal_mode_density(fit))
    return _refit(fit)


def _no_leave_one_out(fit: Fit, reason: str) -> LeftOut:
    n = len(observation_rows(fit.model)[0])
    return LeftOut(np.full(n, np.nan), "none", (reason,))


# ---- closed forms ------------------------------------------------------------------------------------------------------


def _residuals(model: Model, beta: Array, V: Array) -> tuple[Array, Array]:
    """Return sqrt(w_i) e_i and 1 - h_i of one observation of each row with precision w_i, h_i = w_i V_i with V (n,) = x_i'V x_i;
    nan for a row that alone decides a coefficient."""
    root = _root_precision(model)
    deletion_variance = 1.0 - _left_out_weight(model) * root**2 * V
    e = root * (model.design.observed - model.eta(beta)[:, 0])
    return e, np.where(deletion_variance < 1e-10, np.nan, deletion_variance)


def _root_precision(model: Model) -> Array:
    """Return the roots of the precisions, (n,): y_i times it has noise of standard deviation sigma, and density p(y_i) over it."""
    w = model.design.precision
    return np.ones(model.design.n) if w is None else np.sqrt(w)


def _left_out_weight(model: Model) -> Array | float:
    """Return the weight of one observation: 1 for frequencies, the whole sampling weight otherwise."""
    if model.design.weight_kind == "sampling":
        return full_weights(model.design.weights, model.design.n)
    return 1.0


def log_normal(gap: Array, variance: Array | float) -> Array:
    """Return log N(gap; 0, variance)."""
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * variance) + gap**2 / variance))


def log_student(gap: Array, df: float, variance: Array) -> Array:
    """Return the log density of Student-t with scale^2 = `variance` at gap."""
    constant = gammaln((df + 1.0) / 2.0) - gammaln(df / 2.0) - 0.5 * np.log(df * np.pi)
    density = constant - 0.5 * np.log(variance)
    return np.asarray(density - (df + 1.0) / 2.0 * np.log1p(gap**2 / (df * variance)))


def _least_squares_density(fit: Fit) -> Array:
    """log N(y_i; x_i b(-i), RSS(-i) / (n - 1)), or with the given sigma."""
    model = fit.model
    n = model.design.total
    # the hat matrix, whatever the method of the fit
    s = ClosedForm().solve(model, np.random.default_rng(0))
    sigma = model.noise(s.aux)
    unit = sigma**2 if s.df is None else s.stats["rss"] / s.df
    e, deletion_variance = _residuals(
        model, s.beta, s.scale.of_rows(model.design.X)[:, 0, 0] / unit
    )
    if not model.unknown:
        return log_normal(e / deletion_variance, sigma**2)
    # n sigma_ml^2 = RSS; without a of the row RSS_(i) = RSS - a w_i e_i^2 / (1 - h_i), of the weight n - a.
    a = _left_out_weight(model)
    return log_normal(
        e / deletion_variance, (n * sigma**2 - a * e**2 / deletion_variance) / (n - a)
    )


def _normal_mode_density(fit: Fit) -> Array:
    """log N(y_i; x_i b(-i), sigma^2), which is exact: the mode is linear in y."""
    s = fit.solution
    variance = fit.model.noise(s.aux) ** 2
    V = (s.conditional or s.scale).of_rows(fit.model.design.X)[:, 0, 0] / variance
    # y_i - x_i b_(i) = e_i / (1 - h_i), in units of w_i^(-1/2)
    e, deletion_variance = _residuals(fit.model, s.beta, V)
    return log_normal(e / deletion_variance, variance)


def _conjugate_density(fit: Fit) -> Array:
    """Student-t on 2a - 1 degrees of freedom about x_i m(-i), scale^2 = b(-i) / a(-i) / (1 - h_i); normal with known sigma."""
    s = fit.solution
    model = fit.model
    if s.df is None:
        unit = model.fixed[model.noise_scale] ** 2
    else:
        unit = s.stats["sigma2_scale"]
    V = (s.conditional or s.scale).of_rows(model.design.X)[:, 0, 0] / unit
    e, deletion_variance = _residuals(model, s.beta, V)
    if s.df is None:
        # y_i | others ~ N(x_i m_(i), sigma^2 / (1 - h_i)), in units of w_i^(-1/2).
        return log_normal(e / deletion_variance, unit / deletion_variance)
    # 2 a_(i) = 2 a - 1, 2 b_(i) = 2 b - w_i e_i^2 / (1 - h_i), and s.df unit = 2 a (b / a) = 2 b.
    df = s.df - 1.0
    return log_student(
        e / deletion_variance,
        df,
        (s.df * unit - e**2 / deletion_variance) / df / deletion_variance,
    )


def _closed_form(fit: Fit, log_p: Array) -> LeftOut:
    """Return the densities (n,) of y_i sqrt(w_i) as densities of the observations."""
    held = fit.target == "mode" and fit.solution.stats.get("ratios_found")
    method = "closed form at held scales" if held else "closed form"
    return _by_observation(fit, log_p + np.log(_root_precision(fit.model)), method)


def normal_given_scales(prior: object, *, drawn: bool) -> bool:
    """Whether a prior is normal given its scales, and these are known, or drawn."""
    if isinstance(prior, VaryingEffects):
        return drawn or not prior.hyper
    if isinstance(prior, HierarchicalPrior):
        return (
            drawn
            and isinstance(prior.base, GaussianPrior)
            and prior.base.independent(1) is not None
        )
    return isinstance(prior, GaussianPrior)


def _normal_at_known_scales(fit: Fit) -> bool:
    """Return whether the fit is a mode with Gaussian noise and normal priors, with all scales known or fixed."""
    model = fit.model
    # a prior relative to the rows changes without one of them
    plain = not (
        fit.solution.sandwich or fit.solution.replicates or _has_relative_prior(model)
    )
    normal = all(normal_given_scales(b.prior, drawn=False) for b in model.joint.blocks)
    return plain and model.likelihood.least_squares and not model.unknown and normal


def _by_observation(fit: Fit, log_p: Array, method: str) -> LeftOut:
    """Return one entry per observation; a row with a frequency that is not repeated counts by its weight."""
    rows, weight = observation_rows(fit.model)
    elpd = log_p[rows] * (1.0 if weight is None else weight)
    missing = np.flatnonzero(np.isnan(log_p))
    if not len(missing):
        return LeftOut(elpd, method)
    names = fit.model.design.row_names
    # with least squares a row alone decides a coefficient; elsewhere the search failed
    if fit.model.likelihood.least_squares:
        reason = "some coefficient has no estimate"
    else:
        reason = "Newton steps found no mode"
    plural = "s" if len(missing) > 1 else ""
    warning = f"without row{plural} {_first_labels(names[missing])} {reason}, so there is no sum over rows"
    return LeftOut(elpd, method, (warning,))


def _first_labels(labels: Array) -> str:
    return ", ".join(map(str, labels[:5])) + (" ..." if len(labels) > 5 else "")


# ---- refits ------------------------------------------------------------------------------------------------------------


def _refit(fit: Fit) -> LeftOut:
    """Return the log density of each row at the mode without it: one Newton step, and refits of the rows in doubt."""
    model = held_at_limits(fit.model, fit.solution)
    n = model.design.n
    beta = fit.solution.beta
    aux = {a: fit.solution.aux[a] for a in model.unknown}
    shared = _same_prior_without_row(fit, model)
    log_p = np.full(n, np.nan)
    rows = np.arange(n)
    if shared and n > _REFIT_ALL and _is_at_mode(model, beta, aux):
        log_p, rows = _newton_step(model, beta, aux)
    if len(rows) > _MOST_REFITS:
        many = f"{len(rows)} of {n} rows need a refit"
        return _no_leave_one_out(
            fit, f"{many}, and at most {_MOST_REFITS} are refitted: give heldout="
        )
    modes = refit_without_rows(model, beta, aux, rows, shared=shared)
    log_p[rows] = _log_prob(model, modes.eta, modes.aux, rows)
    if len(rows) == n:
        method = f"{n} refits"
    else:
        method = f"one Newton step, {len(rows)} of {n} rows refitted"
    return _by_observation(fit, log_p, method)


def _same_prior_without_row(fit: Fit, model: Model) -> bool:
    """Return whether priors are the same without a row, and weights count observations."""
    w = model.design.weights
    if model.design.weight_kind == "sampling":
        return False
    is_whole = w is None or bool((w % 1 == 0).all())
    return (
        is_whole
        and fit.solution.effect_scales is None
        and not _has_relative_prior(model)
    )


def _has_relative_prior(model: Model) -> bool:
    prior = model.prior
    priors = [prior] if isinstance(prior, Prior) else prior.values()
    return any(p.data_dependent for p in priors)


def _is_at_mode(model: Model, beta: Array, aux: dict[str, float]) -> bool:
    local = model.value_grad_hessian(beta, **aux)
    step, convex = newton_step(local)
    return convex and float(local.gradient @ step) < STEP_AT_MODE**2


def _newton_step(
    model: Model, beta: Array, aux: dict[str, float]
) -> tuple[Array, Array]:
    """Return log p of each row after one Newton step, and the rows for which it is in doubt."""
    modes = modes_without_rows(model, beta, aux)
    log_p = _log_prob(model, modes.eta, modes.aux)
    before = _log_prob(model, model.eta(beta), aux)
    move = relative_move(model, beta, aux, modes)
    for name, value in aux.items():
        move = np.maximum(move, np.abs(np.log(modes.aux[name] / value)))
    weight = full_weights(model.design.weights, model.design.n)
    return log_p, rows_in_doubt(log_p, before, move, weight, _ALLOWED)


def _log_prob(
    model: Model,
    eta: Array,
    aux: Mapping[str, Array | float],
    rows: Array | slice = slice(None),
) -> Array:
    d = model.design
    precision = None if d.precision is None else d.precision[rows]
    parameters = model.likelihood.at_rows({**model.fixed, **aux}, precision)
    # one Newton step can lead to an infinite eta
    with np.errstate(invalid="ignore", over="ignore"):
        return np.array(model.likelihood.log_prob(d.observed[rows], eta, **parameters))


# ---- importance sampling -----------------------------------------------------------------------------------------------


def _importance_sampling(fit: Fit) -> LeftOut:
    result = fit.once(left_out_rows)
    unreliable = result.k > PARETO_LIMIT
    if not unreliable.any():
        return LeftOut(result.elpd, "PSIS", (), result.lppd)
    labels = fit.tree["log_likelihood"]["obs"].to_numpy()
    warning = (
        f"Pareto k is above {PARETO_LIMIT} for {unreliable.sum()} of {len(labels)} observations "
        f"({_first_labels(labels[unreliable])}): their terms are not reliable"
    )
    return LeftOut(result.elpd, "PSIS", (warning,), result.lppd)


def log_mean_density(fit: Fit) -> Array:
    """Return log p(y_i | all rows), (N,): at the plug-in estimate, or under the posterior predictive."""
    rows, weight = observation_rows(fit.model)
    d = fit.model.design
    s = fit.solution
    size = max(1, _BLOCK // (atom_count(fit.model, s) * fit.model.shape[1]))
    blocks = [d.take(slice(i, i + size)) for i in range(0, d.n, size)]
    density_blocks = [
        predictive(fit.model, s, part, spread=False, seed=fit.seed).log_prob(
            part.observed
        )
        for part in blocks
    ]
    log_p = np.concatenate(density_blocks)
    return log_p[rows] * (1.0 if weight is None else weight)
