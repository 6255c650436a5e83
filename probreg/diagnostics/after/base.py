"""The base class of diagnostics of a fit, their registry, and remedies that several of them give."""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from probreg.diagnostics.before import CHECKS
from probreg.diagnostics.findings import Finding, Reporter, Verdict
from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients
from probreg.fits.residuals import (
    noiseless_obstacle as noiseless_obstacle,
    require_rows_and_estimate as require_rows_and_estimate,
)
from probreg.inference import Status
from probreg.inference.modes.newton_method import Newton
from probreg.likelihoods import OfClasses, OfTrials
from probreg.registry import Registry

Array = np.ndarray
DIAGNOSTICS: Registry["Diagnostic"] = Registry("diagnostic")
# p-values below which a test is noted, and below which it is a warning
SIGNIFICANT, STRONG = 0.01, 1e-4


class Diagnostic(Reporter):
    """A diagnostic of a fit: its conditions and its findings.

    `target` is "mode", "posterior" or "any", `when` describes the fits in the catalogue, `rows` is False if the rows are not
    needed, and `replaces` names a check before the fit that it replaces.
    """

    target: ClassVar[str] = "any"
    when: ClassVar[str] = ""
    rows: ClassVar[bool] = True
    replaces: ClassVar[str] = ""

    @abstractmethod
    def applies(self, fit: Fit) -> str | None:
        """Return why the diagnostic does not apply to a fit that has the target and the rows, or None."""

    @abstractmethod
    def run(self, fit: Fit) -> list[Finding]:
        """Return at least one finding; called only if `obstacle` returns None."""

    def obstacle(self, fit: Fit) -> str | None:
        """Return the first reason why the diagnostic does not apply: target, estimate, rows, or `applies`."""
        if self.target not in ("any", fit.target):
            return f"it needs a {self.target}, and {fit.method.name} gives a {fit.target}"  # fmt: skip
        if not fit.method.probabilities:
            return f"{fit.method.name} has no probabilities"
        if fit.solution.status is Status.NO_MAXIMUM:
            return "no estimate, because the likelihood has no maximum"
        if self.rows:
            if not fit.model.design.n:
                return fit.model.design.rows_absent
            reason = noiseless_obstacle(fit)
            if reason is not None:
                return reason
        return self.applies(fit)

    def report_p_value(
        self,
        sentence: str,
        remedy: str,
        *,
        statistic: float,
        p_value: float,
        columns: tuple[str, ...] = (),
    ) -> list[Finding]:
        """Return the finding of a test: a note for p below 0.01, a warning below 0.0001, otherwise OK."""
        verdict = Verdict.OK
        if p_value < STRONG:
            verdict = Verdict.WARNING
        elif p_value < SIGNIFICANT:
            verdict = Verdict.NOTE
        return self.report(
            verdict,
            sentence,
            remedy if verdict else "",
            columns,
            statistic=statistic,
            p_value=p_value,
        )


def heavier_tails(fit: Fit) -> str:
    """Return the remedy for extreme responses: a likelihood with heavier tails, if there is one."""
    likelihood = fit.model.likelihood
    if likelihood.wider:
        return likelihood.wider
    if isinstance(likelihood, OfTrials):
        return "the trials of a row may be dependent, or the mean may lack a term: see dispersion"
    if isinstance(likelihood, OfClasses):
        return "look for a wrong label, or a missing predictor"
    return "look for a missing predictor; there is no likelihood with heavier tails for such responses"


def robust_errors(fit: Fit, name: str) -> str:
    """Return the end of a remedy: robust standard errors of this name, if this fit has them."""
    if Newton().obstacle(fit.model) is not None:  # a sandwich needs two derivatives
        return f"; {name} need a mode under flat or normal priors"
    if fit.target == "posterior":
        return f"; {name} are available for a mode, not for a posterior"
    return f", or use {name}"


def other_spread(fit: Fit, *, overdispersed: bool = True) -> str:
    """Return the remedy for counts or trials with more or less variance than the likelihood implies."""
    likelihood = fit.model.likelihood
    kind = "counts"
    robust = "fit.covariance('HC1')"
    if isinstance(likelihood, OfTrials):
        kind = "trials"
        robust += ", or 'cluster' by group"
    if Newton().obstacle(fit.model) is not None:
        advice = "robust standard errors need a mode under flat or normal priors"
    elif fit.target == "posterior":
        advice = f"robust standard errors are available for a mode, {robust.replace('fit.', 'pr.fit(model).')}"
    else:
        advice = f"use robust standard errors, {robust}"
    wider = f"no likelihood has {'over' if overdispersed else 'under'}dispersed {kind}"
    if overdispersed and likelihood.wider:
        wider = f"{likelihood.wider}"
        advice = f"or {advice}"
    return f"look for a missing predictor; {wider}; {advice}"


def chains_obstacle(fit: Fit) -> str | None:
    """Return why a diagnostic of Markov chains does not apply to a fit, or None."""
    if fit.method.makes_chains:
        return None
    return f"the draws of {fit.method.name} are independent, without Markov chains"


def parameters(fit: Fit) -> tuple[list[str], Array]:
    """Return the names of coefficients and nuisance parameters, and their draws (chain, draw, parameter)."""
    draws = fit.solution.posterior
    beta = reported_coefficients(fit.model, draws["beta"])
    parts = [beta.reshape(*beta.shape[:2], -1)]
    parts += [draws[a][..., None] for a in fit.model.unknown]
    return [*fit.parameter_names, *fit.model.unknown], np.concatenate(parts, -1)


class Entry(NamedTuple):
    """A check or diagnostic in the catalogue: its name and title, when it applies, and its picture."""

    name: str
    title: str
    when: str
    picture: str


def catalogue() -> tuple[Entry, ...]:
    """Return the checks before a fit and the diagnostics after it, each in alphabetical order.

    >>> catalogue()[0].when
    'before the fit'
    """
    entries = [Entry(k, c.title, "before the fit", "") for k, c in CHECKS.items()]
    targets = {"mode": "a point estimate", "posterior": "a posterior", "any": "any fit"}
    for name, cls in DIAGNOSTICS.items():
        when = ": ".join(filter(None, (targets[cls.target], cls.when)))
        entries.append(Entry(name, cls.title, when, cls.picture))
    return tuple(sorted(entries, key=lambda e: (e.when != "before the fit", e.name)))


def catalogue_markdown() -> str:
    """Return the catalogue as a Markdown table.

    >>> print(catalogue_markdown().splitlines()[0])
    | name | title | when | picture |
    """
    lines = ["| name | title | when | picture |", "| --- | --- | --- | --- |"]
    for e in catalogue():
        picture = f"`{e.picture}`" if e.picture else ""
        lines.append(f"| `{e.name}` | {e.title} | {e.when} | {picture} |")
    return "\n".join(lines)
