"""Causes of a difference between two fits: the differences of their models and methods."""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison.prior_weight import scale_priors
from probreg.comparison.same_question import differing_terms
from probreg.data import Design
from probreg.data.checked_arrays import full_weights
from probreg.fits.fit import Fit
from probreg.inference.base import has_effects
from probreg.inference.uncertainty.covariance import kind_of_mode
from probreg.inference.varying import OF_EFFECTS
from probreg.model.model import Model
from probreg.system.terminal import shorten_names

Array = np.ndarray


class Cause(Enum):
    """A cause of a difference between the estimates or standard errors of two fits."""

    COLUMNS = "columns"
    GROUP_EFFECTS = "effects by group"
    SMOOTHS = "smooth functions"
    WEIGHTS = "weights"
    SEPARATION = "separation"
    IDENTIFICATION = "identification"
    MEAN_DF = "degrees of freedom of the mean"
    SCALE_UNCERTAINTY = "uncertainty of the standard deviations"
    SCALE_PRIOR = "prior of the standard deviations"
    POINTS = "quadrature points"
    LIKELIHOOD = "likelihood"
    PRIOR = "prior"
    FIXED_PARAMETER = "fixed"
    FOUND_PARAMETER = "by evidence"
    PARAMETER_PRIOR = "prior of a nuisance parameter"
    SUMMARY = "mode or mean"
    SKEWNESS = "skewness"
    APPROXIMATION = "approximation"
    SMALL_SAMPLE = "small sample"
    COVARIANCE = "covariance"
    MONTE_CARLO = "Monte Carlo error"
    CONVERGENCE = "convergence"
    SAMPLER = "sampler"
    INTERVAL = "kind of interval"
    SEVERAL = "several causes"


MODEL = (
    Cause.MEAN_DF, Cause.SCALE_UNCERTAINTY, Cause.SCALE_PRIOR, Cause.POINTS, Cause.LIKELIHOOD, Cause.PRIOR, Cause.FIXED_PARAMETER,
    Cause.FOUND_PARAMETER, Cause.PARAMETER_PRIOR,
)  # fmt: skip


class SpecificCause(NamedTuple):
    """A cause, and the column or parameter that it concerns.

    >>> SpecificCause(Cause.PRIOR, "x").label, SpecificCause(Cause.FIXED_PARAMETER, "sigma").label
    ('prior of x', 'sigma fixed')
    """

    cause: Cause
    subject: str = ""

    @property
    def label(self) -> str:
        if self.cause is Cause.SEVERAL:
            return self.subject
        if self.cause in (Cause.FIXED_PARAMETER, Cause.FOUND_PARAMETER):
            return f"{self.subject} {self.cause.value}"
        if self.subject and self.cause in (Cause.PRIOR, Cause.PARAMETER_PRIOR):
            return f"prior of {self.subject}"
        return self.cause.value


@dataclass(frozen=True, eq=False)
class FitPair:
    """Two fits of the same rows, the baseline first, with their names and their differences."""

    names: tuple[str, str]
    fits: tuple[Fit, Fit]

    @cached_property
    def differences(self) -> dict[Cause, str]:
        """The differences of the models and methods, with the nuisance parameter that a cause concerns."""
        base, fit = self.fits
        a = base.stated_model
        b = fit.stated_model
        differs = {}
        if has_effects(base.model) and has_effects(fit.model):
            differs = _effect_differences(base, fit)
        if a.likelihood != b.likelihood:
            differs[Cause.LIKELIHOOD] = ""
        if not same_prior(base, fit):
            differs[Cause.PRIOR] = ""
        fixed_a, fixed_b = fixed_by_user(base), fixed_by_user(fit)
        for name in a.likelihood.nuisance:
            if a.likelihood == b.likelihood and fixed_a.get(name) != fixed_b.get(name):
                differs.setdefault(Cause.FIXED_PARAMETER, name)
        for name in a.unknown:
            if name in b.unknown and a.aux_prior(name) != b.aux_prior(name):
                differs.setdefault(Cause.PARAMETER_PRIOR, name)
        of_methods = {
            Cause.SUMMARY: summary(base) != summary(fit),
            Cause.COVARIANCE: covariance_kind(base) != covariance_kind(fit),
            Cause.SMALL_SAMPLE: (base.solution.df is None) != (fit.solution.df is None),
            Cause.MONTE_CARLO: base is not fit
            and (has_monte_carlo_error(base) or has_monte_carlo_error(fit)),
        }
        return differs | {cause: "" for cause, yes in of_methods.items() if yes}

    @cached_property
    def structure(self) -> dict[Cause, str]:
        """Describe the differences in columns, effects by group, smooth functions and weights."""
        d, e = [fit.model.design for fit in self.fits]
        texts: dict[Cause, str] = {}
        if d is e:
            return texts
        differing = differing_terms(self.fits)
        if differing or d.columns != e.columns:
            terms = [_terms_by_cause(design, differing) for design in (d, e)]
            for cause in (Cause.COLUMNS, Cause.GROUP_EFFECTS, Cause.SMOOTHS):
                first, second = terms[0][cause], terms[1][cause]
                both = set(first) & set(second)
                parts = []
                for name, own in zip(self.names, (first, second)):
                    only = [term for term in own if term not in both]
                    if only:
                        parts.append(f"{shorten_names(only)} only in {name}")
                if cause is Cause.SMOOTHS and both:
                    common = [term for term in first if term in both]
                    parts.append(f"other columns for {shorten_names(common)}")
                if parts:
                    texts[cause] = "; ".join(parts)
        if (d.has_weights or e.has_weights) and d.n and e.n:
            weights = self._weights_difference()
            if weights:
                texts[Cause.WEIGHTS] = weights
        return texts

    def _weights_difference(self) -> str:
        """Describe the difference in the weights of rows in memory; "" if there is none."""
        d, e = [fit.model.design for fit in self.fits]
        first, second = [g.weight_kind if g.has_weights else "no" for g in (d, e)]
        if first != second:
            a, b = self.names
            return f"{first} weights in {a}, {second} weights in {b}"
        unequal = (d.row_weights != e.row_weights).sum()
        precisions = [full_weights(g.precision, g.n) for g in (d, e)]
        unequal += (precisions[0] != precisions[1]).sum()
        return f"other {first} weights in {unequal} of {d.n} rows" if unequal else ""

    @property
    def shape_cause(self) -> Cause:
        """Return why the mean of a posterior differs from the other estimate: skewness, or a normal approximation in one of the fits."""
        if {"normal at the mode", "posterior"} <= set(map(summary, self.fits)):
            return Cause.APPROXIMATION
        return Cause.SKEWNESS


def _terms_by_cause(
    design: Design, differing: frozenset[str]
) -> dict[Cause, list[str]]:
    """Return the plain columns, the effects by group, and the smooth functions with columns in `differing`."""
    recipe = design.recipe
    in_terms = {c for term in recipe.terms for c in term.columns}
    grouped = {c for term in recipe.grouped.values() for c in term.columns}
    return {
        Cause.COLUMNS: [c for c in design.columns if c not in in_terms],
        Cause.GROUP_EFFECTS: [term.key for term in recipe.grouped.values()],
        Cause.SMOOTHS: [
            term.name
            for term in recipe.terms
            if not grouped.issuperset(term.columns)
            and differing.intersection(term.columns)
        ],
    }


def fixed_by_user(fit: Fit) -> dict[str, float]:
    """Return the nuisance parameters with a value from the user; the model of a fit has values from the evidence too."""
    fixed = fit.stated_model.fixed.items()
    return {name: v for name, v in fixed if name not in fit.solution.hyper}


def _effect_differences(base: Fit, fit: Fit) -> dict[Cause, str]:
    """Return the differences of two fits with effects by group: ML takes the coefficients of the mean as known, a maximum takes the
    scales as known, and the priors of the scales may differ. The first scale with different priors is named."""
    ml, found, sampled = [], [], []
    for f in (base, fit):
        scales = f.solution.effect_scales
        found.append(scales is not None)
        ml.append(scales is not None and scales.criterion == "ML")
        names = [name for name in f.solution.scalars if name.startswith(OF_EFFECTS)]
        sampled.append(f.target == "posterior" and bool(names))
    differs = {}
    if ml[0] != ml[1] and all(x or y for x, y in zip(found, sampled)):
        differs[Cause.MEAN_DF] = ""
    if (found[0] and sampled[1]) or (sampled[0] and found[1]):
        differs[Cause.SCALE_UNCERTAINTY] = ""
    effect_scales = [f.solution.effect_scales for f in (base, fit)]
    points = {s.points for s in effect_scales if s is not None}
    if len(points) == 2:
        differs[Cause.POINTS] = ""
    first, second = scale_priors(base), scale_priors(fit)
    for name in first | second:
        if first.get(name) != second.get(name):
            differs.setdefault(Cause.SCALE_PRIOR, name)
    return differs


def summary(fit: Fit) -> str:
    """Return the kind of an estimate: "mode", "normal at the mode" (draws that include the density they were drawn from) or
    "posterior"."""
    draws = fit.solution.draws
    if draws is None:
        return "mode"
    if "log_q" in draws.stats:
        return "normal at the mode"
    return "posterior"


def has_monte_carlo_error(fit: Fit) -> bool:
    """Return whether the numbers of this fit have Monte Carlo error: chains, weighted draws or replicates."""
    s = fit.solution
    return fit.method.makes_chains or "mcse_mean" in s.stats or s.replicates is not None


def covariance_kind(fit: Fit) -> str:
    """Return the kind of standard errors, "" for a posterior; the classical kind differs from the
    observed one only by its divisor."""
    if fit.target == "posterior":
        return ""
    if fit.solution.replicates is not None:
        return f"{getattr(fit.method, 'kind', '')} bootstrap"
    # the plain name: the prior's part of the bread counts as an effect of the prior
    kind = kind_of_mode(fit.method, fit.solution)
    return "curvature" if kind in ("classical", "expected", "observed") else kind


def same_prior(base: Fit, fit: Fit) -> bool:
    """Return whether the priors have the same density on common columns, however specified: log p differs by a constant at
    both estimates and near them, for both values of sigma."""
    fits = (base, fit)
    a, b = models = [f.stated_model for f in fits]
    if a is b or repr(a.prior) == repr(b.prior):
        return True
    if has_effects(a) and has_effects(b):
        # the priors of the effects are the priors of their standard deviations
        return _head_priors(a) == _head_priors(b)
    common = [c for c in a.design.columns if c in b.design.columns]
    places = [[m.design.columns.index(c) for c in common] for m in models]
    informative = [m.joint.informative[place] for m, place in zip(models, places)]
    if (informative[0] != informative[1]).any():
        return False
    if not informative[0].any():
        return True
    ends = [
        np.nan_to_num(f.solution.beta[place], posinf=0.0, neginf=0.0)
        for f, place in zip(fits, places)
    ]
    if ends[0].shape != ends[1].shape or not (a.joint.known and b.joint.known):
        return False  # priors of processes have no common parametrisation
    size = np.abs(ends[0]) + np.abs(ends[1]) + 1e-3
    noise = size * np.random.default_rng(0).normal(size=(6, *size.shape))
    points = np.concatenate([ends, ends[0] + noise[::2], ends[1] + noise[1::2]])
    sigmas = [f.model.noise(f.aux) for f in fits]
    log_p = []
    for f, model, place in zip(fits, models, places):
        # coefficients of 0 in the columns of one fit only add a constant
        beta = np.zeros((len(points), *f.solution.beta.shape))
        beta[:, place] = points
        log_p.append([model.joint.log_prob(beta, s) for s in sigmas if s > 0.0])
    gap = np.subtract(log_p[0], log_p[1]).reshape(-1, len(points))
    bound = 1e-9 * (1.0 + np.abs(gap).max(1))
    return bool(np.isfinite(gap).all() and (np.ptp(gap, axis=1) <= bound).all())


def _head_priors(model: Model) -> dict[tuple[Any, ...], object]:
    return {
        (b.columns, b.predictor): b.prior
        for b in model.joint.blocks
        if model.design.grouped_of(b.columns) is None
    }
