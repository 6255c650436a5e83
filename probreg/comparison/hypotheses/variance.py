"""Test that a standard deviation of effects by group is zero, on the boundary of the parameter space.

Twice the log likelihood ratio against the model without the effect is not chi-square under the null, because sd = 0 is on the
boundary: with c correlations of the effect it is an equal mixture of chi2(c) and chi2(c + 1) (Self & Liang 1987; Stram & Lee 1994). In
small samples this is conservative; a parametric bootstrap draws responses under the null and fits both models to each.
"""

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from probreg.comparison.hypotheses.result import Hypothesis, Test
from probreg.data.terms.grouped import GroupedTerm
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.formula.hypothesis import canonical_calls
from probreg.formula.text import shown_formula
from probreg.inference.exact.evidence import Evidence
from probreg.model.model import Model
from probreg.priors import Covariance, Flat, HierarchicalPrior, Prior, Reference
from probreg.priors.joint import PerPredictor, mapping_of
from probreg.system.progress import each_of

Array = np.ndarray
_SD = re.compile(
    r"\s*sd\(\s*(?P<effect>[^|]+?)\s*\|\s*(?P<group>[^)]+?)\s*\)(?:\[(?P<outcome>[^\]]+)\])?\s*=\s*0(\.0*)?\s*"
)
_NONE = 1e-7  # of the standard deviation that was found: no effect
_AGREE = 1e-5  # of the criterion: the fit is at the top of it
_LEAST = 19  # replicates of a bootstrap


class Question(NamedTuple):
    """A term, the number of the effect with standard deviation zero under the null, and the linear predictor."""

    term: GroupedTerm
    effect: int
    # of several that have standard deviations of their own
    predictor: int | None = None
    outcome: str = ""

    @property
    def correlations(self) -> int:
        """c, the number of correlations of the effect."""
        if self.term.correlated:
            return len(self.term.effects) - 1
        return 0


def asks_variance(text: Any) -> bool:
    """Whether a hypothesis is `sd(effect | group) = 0`."""
    return isinstance(text, str) and _SD.fullmatch(text) is not None


def of_variance(fit: Fit, text: str, replicates: int | None) -> Hypothesis:
    """Return the likelihood ratio test, restricted if the fit is; by bootstrap with `replicates`."""
    question = _question(fit, text)
    criterion = _criterion(fit)
    full, null = _models(fit, question)
    log_likelihoods = {
        name: _maximum(model, criterion)
        for name, model in (("full", full), ("null", null))
    }
    reported = fit.solution.stats[_STAT[criterion]]
    if abs(log_likelihoods["full"] - reported) > _AGREE * (1.0 + abs(reported)):
        raise Incompatible(
            f"there is no test of {text!r}: scales or sigma were stated, and the ratio is of models where all of them are found"
        )
    statistic = max(2.0 * (log_likelihoods["full"] - log_likelihoods["null"]), 0.0)
    c = question.correlations
    name = "RLRT" if criterion == "REML" else "LR"
    tests = {
        name: Test(
            name,
            statistic,
            f"chi2 mixture {c}:{c + 1}",
            (float(c), c + 1.0),
            mixture_p(statistic, c),
        )
    }
    notes = [
        f"the p-value is of half chi-square({c}) and half chi-square({c + 1}), since a standard deviation of zero is at the edge"
        if c
        else "the p-value is half that of chi-square(1), since a standard deviation of zero is at the edge"
    ]
    if not fit.model.likelihood.least_squares:
        notes.append("the likelihoods are by Laplace's method")
    if replicates is not None:
        p, used = _bootstrap(fit, question, criterion, statistic, replicates)
        tests["bootstrap"] = Test("bootstrap", statistic, "simulated", (), p)
        notes.append(f"the bootstrap is of {used} responses drawn under the null")
    table = _estimates(fit, question)
    return Hypothesis(
        text,
        f"sd({question.term.effects[question.effect]} | {question.term.group}){question.outcome} = 0",
        table,
        tests,
        notes=tuple(notes),
    )


_STAT = {"REML": "log_evidence", "ML": "log_likelihood_of_scales"}


def mixture_p(statistic: float, correlations: int) -> float:
    """P(T >= t) of the mixture of chi2(c) and chi2(c + 1), half each; chi2(0) is zero.

    >>> round(mixture_p(2.705543, 0), 6)
    0.05
    """
    if statistic <= 0:
        return 1.0
    c = correlations
    upper = float(scipy.stats.chi2.sf(statistic, c + 1))
    return 0.5 * upper + (0.5 * float(scipy.stats.chi2.sf(statistic, c)) if c else 0.0)


def _question(fit: Fit, text: str) -> Question:
    parts = _SD.fullmatch(text)
    assert parts is not None
    grouped = list(fit.model.design.recipe.grouped.values())
    effect_name = canonical_calls(parts["effect"].strip("`"))
    effects = (
        e for t in grouped for e in t.effects if canonical_calls(e) == effect_name
    )
    effect = next(effects, str(parts["effect"]))
    terms = [t for t in grouped if t.group == parts["group"] and effect in t.effects]
    if not terms:
        effect_names = [f"sd({e} | {t.group})" for t in grouped for e in t.effects]
        raise DataError(
            f"the hypothesis {shown_formula(text)} is of no effect of this model; it has: {', '.join(effect_names) or 'none'}"
        )
    if fit.target == "posterior":
        raise Incompatible(
            f"there is no test of {text!r}: a posterior has no point mass at zero. Fit by evidence, or compare models by elpd"
        )
    outcomes = fit.model.likelihood.predictors_apart
    effect_at = terms[0].effects.index(effect)
    if not outcomes and parts["outcome"] is None:
        return Question(terms[0], effect_at)
    if parts["outcome"] not in outcomes:
        candidates = ", ".join(
            f"sd({effect} | {parts['group']})[{name}]" for name in outcomes
        )
        raise DataError(
            f"the hypothesis {shown_formula(text)}: expected one of {candidates or 'sd(effect | group)'}"
        )
    return Question(
        terms[0], effect_at, outcomes.index(parts["outcome"]), f"[{parts['outcome']}]"
    )


def _criterion(fit: Fit) -> str:
    for criterion, stat in _STAT.items():
        if np.isfinite(fit.solution.stats.get(stat, np.nan)):
            return criterion
    raise Incompatible(
        "a test of a standard deviation is of a fit by evidence (REML or ML); this one is not"
    )


def _models(fit: Fit, question: Question) -> tuple[Model, Model]:
    """Return the model with all standard deviations by group unknown, and the model with the tested one fixed at zero."""
    model = fit.model
    term = question.term
    name = term.effects[question.effect]
    e = question.effect
    blocks = [
        b for b in model.joint.blocks if model.design.grouped_of(b.columns) is None
    ]
    prior: dict[Any, Prior] = mapping_of(
        (b for b in blocks if b.stated and not isinstance(b.prior, Flat)),
        model.design.columns,
    )
    prior |= {key[1:-1]: Covariance() for key in model.design.recipe.grouped}
    held = max(float(_sds(fit, question)[e]) * _NONE, np.finfo(float).tiny)
    scale = model.likelihood.noise_scale
    full = model.with_prior(prior)
    if scale in model.fixed and model.likelihood.least_squares:
        full = full.with_aux(**{scale: Reference()})
    none = _fixed_sd_prior(term, name, held)
    if question.predictor is not None:
        outcomes = range(model.shape[1])
        none = PerPredictor(
            tuple(none if k == question.predictor else Covariance() for k in outcomes)
        )
    return full, full.with_prior(prior | {term.key[1:-1]: none})


def _fixed_sd_prior(term: GroupedTerm, name: str, sd: float) -> Prior:
    return Covariance(sd={name: sd}, cor=0.0 if len(term.effects) == 2 else None)


def _maximum(model: Model, criterion: Any) -> float:
    unknown = any(
        isinstance(b.prior, HierarchicalPrior) and b.prior.hyper
        for b in model.joint.blocks
    )
    if not unknown and not model.likelihood.least_squares and not model.unknown:
        return _at_mode(model, criterion)
    return float(
        fit_model(model, Evidence(criterion=criterion)).solution.stats[_STAT[criterion]]
    )


def _at_mode(model: Model, criterion: str) -> float:
    """The same if no scale is unknown: log p(y | mode), and by Laplace's method + k/2 log 2 pi + log |V| / 2 over k flat
    coefficients."""
    estimate = fit_model(model, "newton")
    flat = np.repeat(~model.joint.informative, model.shape[1])
    log_likelihood = estimate.conditional_log_likelihood
    if criterion == "ML":
        return log_likelihood
    return (
        log_likelihood
        + 0.5 * flat.sum() * np.log(2.0 * np.pi)
        + 0.5 * estimate.solution.scale.log_det(np.flatnonzero(flat))
    )


def _bootstrap(
    fit: Fit, question: Question, criterion: str, observed: float, replicates: int
) -> tuple[float, int]:
    """(1 + ratios at least as large) / (1 + replicates), of responses drawn at the null's estimate."""
    if replicates < _LEAST:
        raise DataError(
            f"bootstrap={replicates} is too few for a p-value below 0.05: at least {_LEAST}"
        )
    full, null = _models(fit, question)
    null_fit, rng = (
        fit_model(null, Evidence(criterion=criterion)),  # type: ignore[arg-type]
        np.random.default_rng([fit.seed, 13]),
    )
    responses = [_simulate_response(null_fit, rng) for _ in range(replicates)]

    def ratio(i: int) -> float:
        try:
            pair = [
                replace(m, design=replace(m.design, y=responses[i], kept=None))
                for m in (full, null)
            ]
            return 2.0 * (_maximum(pair[0], criterion) - _maximum(pair[1], criterion))
        except ProbregError:
            return np.nan

    ratios = np.array(
        each_of(ratio, range(replicates), "bootstrap of the likelihood ratio")
    )
    finite = ratios[np.isfinite(ratios)]
    return float((1 + (finite >= observed - 1e-9).sum()) / (1 + len(finite))), len(
        finite
    )


def _simulate_response(estimate: Fit, rng: np.random.Generator) -> Array:
    """Simulate a response under a fit: group effects from their prior, flat coefficients at the estimate."""
    model = estimate.model
    sigma = estimate.model.noise(estimate.aux)
    beta = estimate.solution.beta.copy()
    for b in model.joint.blocks:
        if model.design.grouped_of(b.columns) is not None:
            shape = (1, len(b.columns), b.width(beta.shape[1]))
            b.put(
                beta,
                b.prior.sample(rng, shape, sigma if b.prior.sigma_units else 1.0)[0],
            )
    parameters = model.likelihood.at_rows(
        {**model.fixed, **estimate.aux}, model.design.precision
    )
    row_data = model.given(model.design)
    return np.asarray(
        model.likelihood.sample(rng, model.eta(beta), **parameters, **row_data),
        dtype=float,
    )


def _sds(fit: Fit, question: Question) -> Array:
    """Return the standard deviations (K,) at the estimate."""
    from probreg.fits.prediction import off_span_of

    off = off_span_of(fit.model, fit.solution)
    (effects,) = [
        p
        for p in (off.of_groups if off is not None else ())
        if p.key == question.term.key and p.predictor == question.predictor
    ]
    return np.sqrt(np.square(effects.roots[0]).sum(1))


def _estimates(fit: Fit, question: Question) -> Any:
    import pandas as pd

    name = f"sd({question.term.effects[question.effect]} | {question.term.group}){question.outcome}"
    return pd.DataFrame(
        {
            "combination": [name],
            "value": [0.0],
            "estimate": [_sds(fit, question)[question.effect]],
        }
    )
