"""What a diagnostic asks and what it answers: a question about a fit, and findings in plain words.

The counterpart of `check` after the fit. A diagnostic first says whether its question has a meaning for this fit
(`obstacle`); when it has, `run` gives at least one finding, with the verdict OK when nothing is wrong.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import nan
from typing import ClassVar

import numpy as np

from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.fits.prediction import require_predictive
from probreg.inference import Status
from probreg.registry import Registry

DIAGNOSTICS: Registry["Diagnostic"] = Registry("diagnostic")
_ROUNDING = 1e-12  # of the largest response: a sigma that small is rounding
SIGNIFICANT, STRONG = 0.01, 1e-4  # p-values from which a test is noted, and from which it warns


class Diagnostic(ABC):
    """A question that a fit answers. `target` is "mode", "posterior" or "any"; `rows` says that it needs the rows."""

    name: ClassVar[str]
    question: ClassVar[str]
    target: ClassVar[str] = "any"
    when: ClassVar[str] = ""  # which fits it is for, in a few words, for the catalogue
    rows: ClassVar[bool] = True
    picture: ClassVar[str] = ""  # such as "plot.leverage"
    replaces: ClassVar[str] = ""  # the check whose question this one answers better, once there is a fit

    @abstractmethod
    def applies(self, fit: Fit) -> str | None:
        """Why the question has no meaning for this fit, or None; asked only of a fit that `obstacle` lets through."""

    @abstractmethod
    def run(self, fit: Fit) -> list[Finding]:
        """At least one finding; called only when there is no obstacle."""

    def obstacle(self, fit: Fit) -> str | None:
        """The first thing in the way: target, missing rows, missing estimate, or what `applies` says; None if nothing."""
        return _of_kind(fit, self.target) or (_of_rows(fit) if self.rows else None) or self.applies(fit)

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
        number, p = float(statistic), float(p_value)
        return Finding(self.name, verdict, sentence, remedy, tuple(columns), tuple(rows), number, p, self.picture)

    def fine(self, sentence: str, *, statistic: float = nan, p_value: float = nan) -> list[Finding]:
        """The answer of a diagnostic that has nothing to report."""
        return [self.say(Verdict.OK, sentence, statistic=statistic, p_value=p_value)]

    def judged(self, sentence: str, remedy: str, *, statistic: float, p_value: float) -> list[Finding]:
        """The answer of a test: a note for p below 0.01, a warning below 0.0001, otherwise fine."""
        if not p_value < SIGNIFICANT:
            return self.fine(sentence, statistic=statistic, p_value=p_value)
        verdict = Verdict.WARNING if p_value < STRONG else Verdict.NOTE
        return [self.say(verdict, sentence, remedy, statistic=statistic, p_value=p_value)]

    def skipped(self, reason: str) -> Finding:
        """The answer where the question has no meaning."""
        return Finding(self.name, Verdict.OK, f"does not apply: {reason}")


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


def noiseless(fit: Fit) -> str | None:
    """Why there is no residual to judge, up to rounding; None when there is."""
    sigma, y = fit.model.noise(fit.aux, None), fit.model.design.observed
    if sigma is None or sigma > _ROUNDING * np.abs(y).max():
        return None
    return f"the fit meets every response exactly (sigma = {sigma:.1g}), so that no residual is left"


def reachable(fit: Fit) -> None:
    """DataError for a fit without rows, NotConverged for one without an estimate, Incompatible without probabilities."""
    fit.model.design.need_rows("a number for each row")
    require_predictive(fit.solution, fit.method)
