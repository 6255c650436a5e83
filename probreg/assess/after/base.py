"""What a diagnostic asks and what it answers: a question about a fit, and findings in plain words.

The counterpart of `check` after the fit. A diagnostic first says whether its question has a meaning for this fit
(`obstacle`); when it has, `run` gives at least one finding, with the verdict OK when nothing is wrong.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import nan
from typing import ClassVar, NamedTuple

import numpy as np

from probreg.assess.before import CHECKS
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients
from probreg.fits.residuals import noiseless as noiseless, reachable as reachable
from probreg.inference import Status
from probreg.inference.base import markov
from probreg.inference.modes.newton_method import Newton
from probreg.likelihoods import OfClasses, OfTrials
from probreg.registry import Registry

DIAGNOSTICS: Registry["Diagnostic"] = Registry("diagnostic")
SIGNIFICANT, STRONG = (
    0.01,
    1e-4,
)  # p-values from which a test is noted, and from which it warns


class Diagnostic(ABC):
    """A question that a fit answers. `target` is "mode", "posterior" or "any"; `rows` says that it needs the rows."""

    name: ClassVar[str]
    question: ClassVar[str]
    target: ClassVar[str] = "any"
    when: ClassVar[str] = ""  # which fits it is for, in a few words, for the catalogue
    rows: ClassVar[bool] = True
    picture: ClassVar[str] = ""  # such as "plot.leverage"
    # the check whose question this one answers better, once there is a fit
    replaces: ClassVar[str] = ""

    @abstractmethod
    def applies(self, fit: Fit) -> str | None:
        """Why the question has no meaning for this fit, or None; asked only of a fit that `obstacle` lets through."""

    @abstractmethod
    def run(self, fit: Fit) -> list[Finding]:
        """At least one finding; called only when there is no obstacle."""

    def obstacle(self, fit: Fit) -> str | None:
        """The first thing in the way: target, missing rows, missing estimate, or what `applies` says; None if nothing."""
        return (
            _of_kind(fit, self.target)
            or (_of_rows(fit) if self.rows else None)
            or self.applies(fit)
        )

    def say(
        self,
        verdict: Verdict,
        sentence: str,
        remedy: str = "",
        *,
        rows: Sequence[object] = (),
        columns: Sequence[str] = (),
        statistic: float = nan,
        p_value: float = nan,
    ) -> Finding:
        """A finding of this diagnostic, with its picture."""
        number = float(statistic)
        p = float(p_value)
        return Finding(
            self.name,
            verdict,
            sentence,
            remedy,
            tuple(columns),
            tuple(rows),
            number,
            p,
            self.picture,
        )

    def fine(
        self, sentence: str, *, statistic: float = nan, p_value: float = nan
    ) -> list[Finding]:
        """The answer of a diagnostic that has nothing to report."""
        return [self.say(Verdict.OK, sentence, statistic=statistic, p_value=p_value)]

    def report_p_value(
        self, sentence: str, remedy: str, *, statistic: float, p_value: float
    ) -> list[Finding]:
        """The answer of a test: a note for p below 0.01, a warning below 0.0001, otherwise fine."""
        if not p_value < SIGNIFICANT:
            return self.fine(sentence, statistic=statistic, p_value=p_value)
        if p_value < STRONG:
            verdict = Verdict.WARNING
        else:
            verdict = Verdict.NOTE
        return [
            self.say(verdict, sentence, remedy, statistic=statistic, p_value=p_value)
        ]

    def report_not_applicable(self, reason: str) -> Finding:
        """Return the finding that the check does not apply to this fit."""
        return Finding(
            self.name, Verdict.OK, f"does not apply: {reason}", applies=False
        )


def _of_kind(fit: Fit, target: str) -> str | None:
    if target not in ("any", fit.target):
        return f"it is about a {target}, and {fit.method.name} gives a {fit.target}"
    if not fit.method.probabilities:
        return f"{fit.method.name} has no probabilities"
    if fit.solution.status is Status.NO_MAXIMUM:
        return "there is no estimate: the likelihood has no maximum"
    return None


def _of_rows(fit: Fit) -> str | None:
    if not fit.model.design.n:
        return fit.model.design.rows_absent
    return noiseless(fit)


def heavier_tails(fit: Fit) -> str:
    """The likelihood that allows far responses, where there is one."""
    likelihood = fit.model.likelihood
    if likelihood.wider:
        return likelihood.wider
    if isinstance(likelihood, OfTrials):
        return "trials of a row depend on one another, or the mean lacks a term: see dispersion"
    if not isinstance(likelihood, OfClasses):
        return "look for a column that the mean lacks; no likelihood of such responses here has heavier tails"
    return "look for a wrong label, or a column that the probabilities lack"


def robust_errors(fit: Fit, what: str) -> str:
    """The end of a remedy: standard errors that allow for it, where this fit has them, or who has."""
    if (
        Newton().obstacle(fit.model) is not None
    ):  # a sandwich takes two derivatives of the log posterior
        return f"; {what} need a mode under flat or normal priors"
    if fit.target == "posterior":
        return f"; a mode has {what}, and a posterior none"
    return f", or use {what}"


def other_spread(fit: Fit, *, more: bool = True) -> str:
    """What to do about counts, or trials, that vary more or less than their mean says."""
    likelihood = fit.model.likelihood
    if isinstance(likelihood, OfTrials):
        kind, groups = ("trials", ", or 'cluster' by group")
    else:
        kind, groups = ("counts", "")
    robust = f"use robust standard errors, fit.covariance('HC1'){groups}"
    if fit.target == "posterior":
        robust = f"a mode has robust standard errors, pr.fit(model).covariance('HC1'){groups}, and a posterior none"
    if Newton().obstacle(fit.model) is not None:
        robust = "robust standard errors need a mode under flat or normal priors"
    if more and likelihood.wider:
        return f"look for a column that the mean lacks; {likelihood.wider}; or {robust}"
    how = "more" if more else "less"
    return f"look for a column that the mean lacks; no likelihood here holds {kind} that vary {how}; {robust}"


Array = np.ndarray


def no_chains(fit: Fit) -> str | None:
    """Why a question about Markov chains has no meaning for this fit, or None."""
    if markov(fit.method, fit.solution):
        return None
    return f"the draws of {fit.method.name} are independent, no Markov chain made them"


def number_of_chains(fit: Fit) -> int:
    """How many chains the draws are of."""
    return len(fit.solution.posterior["beta"])


def parameters(fit: Fit) -> tuple[list[str], Array]:
    """Names of coefficients and nuisance parameters, and their draws (chain, draw, parameter)."""
    draws = fit.solution.posterior
    beta = reported_coefficients(fit.model, draws["beta"])
    parts = [
        beta.reshape(*beta.shape[:2], -1),
        *(draws[a][..., None] for a in fit.model.unknown),
    ]
    return [*fit.parameter_names, *fit.model.unknown], np.concatenate(parts, -1)


class Entry(NamedTuple):
    """One check or diagnostic: its name, its question, when it is asked, and the picture that shows its answer."""

    name: str
    question: str
    when: str
    picture: str


def catalogue() -> tuple[Entry, ...]:
    """The checks before a fit and the diagnostics after it, in alphabetical order within each.

    >>> catalogue()[0].when
    'before the fit'
    """
    before = [
        Entry(name, cls.question, "before the fit", "")
        for name, cls in sorted(CHECKS.items())
    ]
    after = [
        Entry(name, cls.question, _describe_target(cls), cls.picture)
        for name, cls in sorted(DIAGNOSTICS.items())
    ]
    return (*before, *after)


def catalogue_markdown() -> str:
    """The catalogue as a Markdown table.

    >>> print(catalogue_markdown().splitlines()[0])
    | name | question | when | picture |
    """
    rows = [("name", "question", "when", "picture"), ("---",) * 4]
    rows += [
        (f"`{e.name}`", e.question, e.when, f"`{e.picture}`" if e.picture else "")
        for e in catalogue()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _describe_target(cls: type[Diagnostic]) -> str:
    what = {"any": "any fit", "mode": "a point estimate", "posterior": "a posterior"}[
        cls.target
    ]
    return f"{what}: {cls.when}" if cls.when else what
