"""In what two fits differ: facts of their models and methods, read off, not inferred. Only what differs can be a cause."""

from typing import Any

import numpy as np

from probreg.comparison.prior_terms import stated_hyper, stated_model
from probreg.fits.fit import Fit
from probreg.inference.base import has_effects, markov
from probreg.inference.uncertainty.covariance import reported
from probreg.inference.varying import OF_EFFECTS
from probreg.model.model import Model

Array = np.ndarray


def differing(base: Fit, fit: Fit) -> set[str]:
    """The names of what differs: "likelihood", "sigma held", "prior", "prior of sigma", "summary" (a mode, a normal about
    it, a posterior), "covariance", "degrees of freedom" and "draws"."""
    a, b = stated_model(base), stated_model(fit)
    unlike = {
        "likelihood": a.likelihood != b.likelihood,
        "sigma held": a.likelihood == b.likelihood and a.fixed != b.fixed,
        "prior": not same_prior(base, fit),
        **of_effects(base, fit),
        "prior of sigma": any(a.aux_prior(name) != b.aux_prior(name) for name in set(a.unknown) & set(b.unknown)),
        "summary": summary(base) != summary(fit),
        "covariance": _covariance(base) != _covariance(fit),
        "degrees of freedom": (base.solution.df is None) != (fit.solution.df is None),
        "draws": base is not fit and (has_monte_carlo_error(base) or has_monte_carlo_error(fit)),
    }
    return {name for name, yes in unlike.items() if yes}


DEGREES, AVERAGED, PRIOR_OF_SD = (
    "degrees of freedom of the mean", "uncertainty of the standard deviations", "prior of the standard deviations",
)  # fmt: skip


def of_effects(base: Fit, fit: Fit) -> dict[str, bool]:
    """In what two fits with effects that vary by a group differ: ML leaves the degrees of freedom of the flat coefficients out of the
    scales, a maximum takes scales as known where a posterior averages over them, and the priors of the scales may differ."""
    if not (has_effects(base.model) and has_effects(fit.model)):
        return {}
    ml = [f.solution.found is not None and f.solution.found.criterion == "ML" for f in (base, fit)]
    known = [f.solution.found is not None for f in (base, fit)]
    drawn = [f.target == "posterior" and any(n.startswith(OF_EFFECTS) for n in f.solution.scalars) for f in (base, fit)]
    return {
        DEGREES: ml[0] != ml[1] and (known[0] or drawn[0]) and (known[1] or drawn[1]),
        AVERAGED: (known[0] and drawn[1]) or (drawn[0] and known[1]),
        PRIOR_OF_SD: stated_hyper(base) != stated_hyper(fit),
    }


def summary(fit: Fit) -> str:
    """What an estimate is: "mode", "normal at the mode" (draws that carry the density they were drawn from) or
    "posterior"."""
    draws = fit.solution.draws
    if draws is None:
        return "mode"
    return "normal at the mode" if "log_q" in draws.stats else "posterior"


def has_monte_carlo_error(fit: Fit) -> bool:
    """Numbers of this fit carry Monte Carlo error: chains, weighted draws or replicates."""
    s = fit.solution
    return markov(fit.method, fit.solution) or "mcse_mean" in s.stats or s.replicates is not None


def _covariance(fit: Fit) -> str:
    """The kind of standard errors, "" for a posterior; the classical one is the observed one but for its divisor."""
    if fit.target == "posterior":
        return ""
    kind = str(reported(fit.model, fit.method, fit.solution)["kind"])
    if fit.solution.replicates is not None:
        return f"{getattr(fit.method, 'kind', '')} bootstrap"
    return "curvature" if kind in ("classical", "expected", "observed") else kind


def same_prior(base: Fit, fit: Fit) -> bool:
    """One density of the coefficients, however it was spelled: log p differs by a constant at the two estimates and about
    them, at both values of sigma."""
    a, b = stated_model(base), stated_model(fit)
    if a is b or _equal(a.prior, b.prior):
        return True
    if has_effects(a) and has_effects(b):  # whose own priors are those of their standard deviations
        return _head_priors(a) == _head_priors(b)
    if (a.joint.informative != b.joint.informative).any():
        return False
    if not a.joint.informative.any():
        return True
    if not (a.joint.known and b.joint.known):
        return False  # priors of processes, which are not written alike
    ends = [np.where(np.isfinite(f.solution.beta), f.solution.beta, 0.0) for f in (base, fit)]
    if ends[0].shape != ends[1].shape:
        return False
    size = np.abs(ends[0]) + np.abs(ends[1]) + 1e-3
    rng = np.random.default_rng(0)
    places = np.array([*ends, *(ends[k % 2] + size * rng.normal(size=size.shape) for k in range(6))])
    sigmas = {f.model.noise(f.aux) for f in (base, fit)} - {0.0}
    return all(_constant(a.joint.log_prob(places, s) - b.joint.log_prob(places, s)) for s in sigmas)


def _head_priors(model: Model) -> dict[tuple[Any, ...], object]:
    return {(b.columns, b.predictor): b.prior for b in model.joint.blocks if model.design.grouped_of(b.columns) is None}


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays
        return False


def _constant(gap: Array) -> bool:
    return bool(np.isfinite(gap).all() and np.ptp(gap) <= 1e-9 * (1.0 + np.abs(gap).max()))
