"""The log density of each observation given all others: closed forms where they exist, refits, and importance sampling.

With h_i = x_i' V x_i of one observation, V = (X'WX + P)^-1, and e_i its residual, the residual of the fit without it is
e_i / (1 - h_i) and the sum of squares falls by e_i^2 / (1 - h_i) (Cook & Weisberg 1982, section 2.2). So least squares and
every conjugate posterior are left out exactly, and modes of Gaussian noise under normal priors at held scales. Other modes
are fitted again or, of many rows, approximated where that serves (`left_out_modes`); other posteriors are reweighted (PSIS-LOO, Vehtari, Gelman & Gabry 2017).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from probreg.comparison.models.left_out_modes import without_each_row
from probreg.data.rows import full_weights
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.leave_one_out import left_out_rows
from probreg.fits.prediction import atom_count, predictive
from probreg.inference import ClosedForm, Solution
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.priors import HierarchicalPrior, Prior
from probreg.priors.base import GaussianPrior
from probreg.priors.covariance import VaryingEffects

Array = np.ndarray
_NUMBERS = 2_000_000  # draws times rows held at once
_K = 0.7  # Pareto k above which importance sampling is not to be trusted


@dataclass(frozen=True, eq=False)
class LeftOut:
    """`elpd` (N,), one log density per observation, how it was computed, and what is wrong with it; `within` (N,) are those of the
    whole fit, where they were met on the way."""

    elpd: Array
    how: str
    concerns: tuple[str, ...] = ()
    within: Array | None = None


def leave_one_out(fit: Fit) -> LeftOut:
    """log p(y_i | y without i) of every observation; nan, with the reason, where there is none."""
    rows, weight = observation_rows(fit.model)
    if fit.target == "posterior":
        known = fit.solution.posterior.elliptical and fit.model.likelihood.least_squares
        if known and ("sigma2_scale" in fit.solution.stats or not fit.model.unknown):
            return _of_conjugate(fit, rows, weight)
        return _by_importance(fit)
    if (
        fit.model.likelihood.least_squares
        and not fit.model.joint.informative.any()
        and all(fit.model.aux_prior(a).name == "reference" for a in fit.model.unknown)
    ):
        return _of_least_squares(fit, rows, weight)
    if (
        not isinstance(fit.model.likelihood, SmoothLikelihood)
        or not fit.model.joint.smooth
    ):
        return LeftOut(
            np.full(len(rows), np.nan),
            "none",
            (
                "this mode has no leave-one-out: its posterior is not smooth; give heldout=, or choose its scale by tune(by='cv')",
            ),
        )
    if _normal_at_known_scales(fit):
        return _of_normal_mode(fit, rows, weight)
    found = without_each_row(fit)
    if isinstance(found, str):
        return LeftOut(np.full(len(rows), np.nan), "none", (found,))
    return _collect_observations(found.log_p, rows, weight, found.how, fit)


# ---- closed forms ------------------------------------------------------------------------------------------------------


def _residuals(model: Model, s: Solution, unit: float) -> tuple[Array, Array]:
    """sqrt(w_i) e_i and 1 - h_i of one observation of each row with precision w_i, `unit` the variance in the scale of the
    solution; 0 where a row settles a coefficient alone. Of a sampling weight h_i is that of the whole row."""
    d = model.design
    root = _root_precision(model)
    # h_i = w_i x_i'V x_i with V the covariance at unit variance.
    h = (
        _left_out_weight(model)
        * root**2
        * (s.conditional or s.scale).of_rows(d.X)[:, 0, 0]
        / unit
    )
    rest = 1.0 - h
    return root * (d.observed - model.eta(s.beta)[:, 0]), np.where(
        rest < 1e-10, 0.0, rest
    )


def _root_precision(model: Model) -> Array:
    """Return the roots of the precisions, (n,): y_i times it has noise of standard deviation sigma, and density p(y_i) over it."""
    w = model.design.precision
    return np.ones(model.design.n) if w is None else np.sqrt(w)


def _left_out_weight(model: Model) -> Array | float:
    """The weight that leaving one out takes from its row: one of a frequency, all of a sampling weight."""
    if model.design.weight_kind == "sampling":
        return full_weights(model.design.weights, model.design.n)
    return 1.0


def _of_least_squares(fit: Fit, rows: Array, weight: Array | None) -> LeftOut:
    """N(y_i; x_i b(-i), RSS(-i) / (n - 1)), or the given sigma."""
    model = fit.model
    n = fit.model.design.total
    s = ClosedForm().solve(
        model, np.random.default_rng(0)
    )  # the hat matrix, whatever the method was
    sigma = model.noise(s.aux)
    unit = sigma**2 if s.df is None else s.stats["rss"] / s.df
    a = _left_out_weight(model)
    with np.errstate(divide="ignore", invalid="ignore"):
        e, rest = _residuals(model, s, unit)
        e = np.where(rest > 0, e, np.nan)
        # n sigma_ml^2 = RSS; without a of the row RSS_(i) = RSS - a w_i e_i^2 / (1 - h_i), of the weight n - a.
        if not model.unknown:
            variance = sigma**2
        else:
            variance = (n * sigma**2 - a * e**2 / rest) / (n - a)
        log_p = -0.5 * np.log(2.0 * np.pi * variance) - (e / rest) ** 2 / (
            2.0 * variance
        )
    return _collect_observations(
        log_p + np.log(_root_precision(model)), rows, weight, "closed form", fit
    )


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
    """A mode with Gaussian noise and normal priors, all scales of which are known or held."""
    model = fit.model
    if isinstance(model.prior, Prior):
        stated = [model.prior]
    else:
        stated = list(model.prior.values())
    # a prior that is stated relative to the rows is another without one of them
    plain = not (
        fit.solution.sandwich
        or fit.solution.replicates
        or any(p.data_dependent for p in stated)
    )
    normal = all(normal_given_scales(b.prior, drawn=False) for b in model.joint.blocks)
    return plain and model.likelihood.least_squares and not model.unknown and normal


def _of_normal_mode(fit: Fit, rows: Array, weight: Array | None) -> LeftOut:
    """N(y_i; x_i b(-i), sigma^2), which is exact: the mode is linear in y."""
    sigma = fit.model.noise(fit.solution.aux)
    with np.errstate(divide="ignore", invalid="ignore"):
        e, rest = _residuals(fit.model, fit.solution, sigma**2)
        # y_i - x_i b_(i) = e_i / (1 - h_i), in units of w_i^(-1/2)
        gap = np.where(rest > 0, e, np.nan) / rest
    log_p = -0.5 * np.log(2.0 * np.pi * sigma**2) - gap**2 / (2.0 * sigma**2)
    if fit.solution.stats.get("ratios_found"):
        how = "closed form at held scales"
    else:
        how = "closed form"
    return _collect_observations(
        log_p + np.log(_root_precision(fit.model)), rows, weight, how, fit
    )


def _of_conjugate(fit: Fit, rows: Array, weight: Array | None) -> LeftOut:
    """Student-t on 2a - 1 degrees of freedom about x_i m(-i), scale^2 = b(-i) / a(-i) / (1 - h_i); normal with sigma."""
    s = fit.solution
    if s.df is None:
        unit = fit.model.fixed[fit.model.noise_scale] ** 2
    else:
        unit = s.stats["sigma2_scale"]
    with np.errstate(divide="ignore", invalid="ignore"):
        e, rest = _residuals(fit.model, s, unit)
        rest = np.where(rest > 0, rest, np.nan)
        if s.df is None:
            # y_i | others ~ N(x_i m_(i), sigma^2 / (1 - h_i)), in units of w_i^(-1/2).
            log_p = -0.5 * (np.log(2.0 * np.pi * unit / rest) + e**2 / rest / unit)
        else:
            # 2 a_(i) = 2 a - 1, 2 b_(i) = 2 b - w_i e_i^2 / (1 - h_i), and s.df unit = 2 a (b / a) = 2 b.
            df = s.df - 1.0
            scale2 = (s.df * unit - e**2 / rest) / df / rest
            constant = (
                gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi)
            )
            log_p = (
                constant
                - 0.5 * np.log(scale2)
                - (df + 1) / 2 * np.log1p((e / rest) ** 2 / (df * scale2))
            )
    return _collect_observations(
        log_p + np.log(_root_precision(fit.model)), rows, weight, "closed form", fit
    )


def _collect_observations(
    log_p: Array, rows: Array, weight: Array | None, how: str, fit: Fit
) -> LeftOut:
    """Return one entry per observation; a row with a frequency that is not repeated counts by its weight."""
    elpd = log_p[rows] * (1.0 if weight is None else weight)
    return LeftOut(elpd, how, _missing_notes(log_p, fit))


def _missing_notes(log_p: Array, fit: Fit) -> tuple[str, ...]:
    bad = np.flatnonzero(np.isnan(log_p))
    if not len(bad):
        return ()
    if fit.model.design.labels is None:
        labels = np.arange(fit.model.design.n)
    else:
        labels = fit.model.design.labels
    few = ", ".join(str(labels[i]) for i in bad[:5]) + (" ..." if len(bad) > 5 else "")
    # of least squares a row alone decides a coefficient; elsewhere it is known only that steps found no mode
    if fit.model.likelihood.least_squares:
        lost = "some coefficient has no estimate"
    else:
        lost = "Newton steps found no mode"
    return (
        f"without row{'s' if len(bad) > 1 else ''} {few} {lost}, so there is no sum over rows",
    )


# ---- importance sampling -----------------------------------------------------------------------------------------------


def _by_importance(fit: Fit) -> LeftOut:
    """PSIS over the draws."""
    found = fit.once(left_out_rows)
    bad = np.flatnonzero(found.k > _K)
    labels = fit.tree["log_likelihood"]["obs"].to_numpy()
    few = ", ".join(str(labels[i]) for i in bad[:5]) + (" ..." if len(bad) > 5 else "")
    said = f"Pareto k is above {_K} for {len(bad)} of {len(labels)} observations ({few}): their terms are not to be trusted"
    return LeftOut(found.elpd, "PSIS", (said,) if len(bad) else (), found.lppd)


def log_mean_density(fit: Fit) -> Array:
    """log p(y_i | all), (N,): of the plug-in estimate, or of the posterior predictive; what leaving out is set against."""
    rows, weight = observation_rows(fit.model)
    d = fit.model.design
    s = fit.solution
    size = max(1, _NUMBERS // (atom_count(fit.model, s) * fit.model.shape[1]))
    blocks = [d.take(slice(i, i + size)) for i in range(0, d.n, size)]
    each = [
        predictive(fit.model, s, part, spread=False, seed=fit.seed).log_prob(
            part.observed
        )
        for part in blocks
    ]
    log_p = np.concatenate(each)
    return log_p[rows] * (1.0 if weight is None else weight)
