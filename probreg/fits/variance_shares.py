"""R² and the intraclass correlation of a model with random effects, from the variance components of eta and y.

V_fixed is the variance of the fixed part of eta over the rows, V_groups the mean over the rows of z'S z summed over terms, and V_rest
the variance of y about eta, on the scale of eta: sigma^2 for a Gaussian, under precision weights the mean of sigma^2 / w over the rows;
pi^2 / 3, 1 and pi^2 / 6 for the logit, probit and cloglog link; log(1 + 1 / mean of y) for counts with a log link (Nakagawa & Schielzeth 2013;
Johnson 2014; Nakagawa, Johnson & Schielzeth 2017).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from probreg.errors import Incompatible
from probreg.fits.effects_table import covariances_of_effects
from probreg.fits.fitted import Fitted, statistic_saved_without_rows
from probreg.inference.base import has_effects

Array = np.ndarray
_OF_LINK: Mapping[str, float] = {
    "logit": np.pi**2 / 3.0,
    "probit": 1.0,
    "cloglog": np.pi**2 / 6.0,
}


class VarianceShares(NamedTuple):
    """The variance components: fixed effects, random effects, and the rest."""

    fixed: float
    groups: float
    rest: float

    @property
    def marginal(self) -> float:
        """R² of the fixed effects alone: V_fixed / (V_fixed + V_groups + V_rest)."""
        return self.fixed / (self.fixed + self.groups + self.rest)

    @property
    def conditional(self) -> float:
        """R² with the random effects: (V_fixed + V_groups) / (V_fixed + V_groups + V_rest)."""
        return (self.fixed + self.groups) / (self.fixed + self.groups + self.rest)

    @property
    def icc(self) -> float:
        """The intraclass correlation given the columns: V_groups / (V_groups + V_rest)."""
        return self.groups / (self.groups + self.rest)


def variance_shares(fit: Fitted) -> VarianceShares:
    """Return the variance components at the estimate, for a posterior at its means.

    Raises Incompatible if they are not defined or the rows are not in memory.
    """
    model = fit.model
    if not has_effects(model):
        raise Incompatible(
            "marginal and conditional R² are of models with effects that vary by a group"
        )
    if model.likelihood.outcomes:
        raise Incompatible(
            f"R² of groups is of one linear predictor; {model.likelihood.name} has several"
        )
    likelihood = model.likelihood
    link = model.likelihood.link.name
    if not likelihood.least_squares and (
        likelihood.nuisance or link not in (*_OF_LINK, "log")
    ):
        raise Incompatible(
            f"the variance of y about eta has no scale of eta for a {likelihood.name} likelihood with {link} link"
        )
    saved = [statistic_saved_without_rows(fit, part) for part in VarianceShares._fields]
    if None not in saved:
        return VarianceShares(*saved)  # type: ignore[arg-type]
    design = model.design
    design.need_rows("R² of a model with effects of groups")
    if design.weights is not None:
        w = design.weights
    else:
        w = np.ones(design.n)
    eta = design.X[:, design.ungrouped] @ fit.solution.beta[design.ungrouped, 0]
    if np.ptp(eta) == 0:
        fixed = 0.0
    else:
        fixed = float(w @ np.square(eta - w @ eta / w.sum()) / max(w.sum() - 1.0, 1.0))
    return VarianceShares(fixed, _of_groups(fit, w), _residual_variance(fit, w))


def effective_of_terms(fit: Fitted) -> dict[str, tuple[float, int]]:
    """Return by term its effective degrees of freedom q - tr(V_bb S^-1) and its number of effects q.

    V is the covariance of the effects given y, at known scales.

    Empty for a posterior that averages over the scales, and without standard errors.
    """
    rounding = 1e-8  # eigenvalue of a correlation matrix: a direction without variance
    max_coefficients = (
        3000  # most coefficients for which a dense covariance is computed here
    )
    s = fit.solution
    m = fit.model.shape[1]
    V = s.given_scales
    if (
        (s.effect_scales is None and s.draws is not None)
        or not np.isfinite(V.errors()).all()
        or V.coefficients > max_coefficients
    ):
        return {}
    place = {c: j for j, c in enumerate(fit.model.design.columns)}
    try:
        covariances = covariances_of_effects(fit.model, fit.solution)
    except Incompatible:
        return {}
    degrees = {}
    for key, term in fit.model.design.recipe.grouped.items():
        places = np.array([place[c] for c in term.columns], dtype=int).reshape(
            term.shape
        )
        used = 0.0
        for a, S in enumerate(
            np.broadcast_to(covariances[key], (m, *covariances[key].shape[-2:]))
        ):
            sd = np.sqrt(np.diagonal(S))
            nonzero = np.flatnonzero(sd > 0)
            sd = sd[nonzero]
            correlation = S[np.ix_(nonzero, nonzero)] / np.outer(sd, sd)
            # S^-1 on the range of S: a direction without variance has no degrees of freedom
            inverse = np.linalg.pinv(correlation, rcond=rounding, hermitian=True)
            rank = round(float(np.trace(inverse @ correlation)))
            inverse = inverse / np.outer(sd, sd)
            entries = places[:, nonzero] * m + a
            used += sum(
                float(np.sum(V.block(of_group) * inverse)) for of_group in entries
            )
            used += len(places) * (places.shape[1] - rank)
        degrees[key] = (max(0.0, round(places.size * m - used, 9)), places.size * m)
    return degrees


def _of_groups(fit: Fitted, w: Array) -> float:
    """Return the sum over terms of the mean over rows of z'S z."""
    design = fit.model.design
    total = 0.0
    for key, S in covariances_of_effects(fit.model, fit.solution).items():
        Z = design.inputs[key][:, 1:]
        total += float(w @ np.einsum("nk,kl,nl->n", Z, S, Z) / w.sum())
    return total


def _residual_variance(fit: Fitted, w: Array) -> float:
    likelihood = fit.model.likelihood
    if likelihood.least_squares:
        precision = fit.model.design.precision
        # the mean over rows of sigma^2 / w
        if precision is None:
            share = 1.0
        else:
            share = float(w @ (1.0 / precision) / w.sum())
        return float(fit.aux[fit.model.noise_scale or ""]) ** 2 * share
    link = likelihood.link.name
    if link in _OF_LINK:
        return _OF_LINK[link]
    mean = float(w @ np.asarray(fit.model.design.observed, dtype=float) / w.sum())
    return float(np.log1p(1.0 / mean))
