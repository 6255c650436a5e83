"""Separation: a linear combination of the columns predicts the classes perfectly, and the MLE is at infinity."""

from dataclasses import replace

import numpy as np

from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.inference.modes.separation import Separation, separation as separation
from probreg.model.model import Model
from probreg.priors import Flat, Normal, Prior
from probreg.priors.joint import Key
from probreg.system.terminal import few_names, shorten_names


@CHECKS.register
class SeparationCheck(Check):
    """Reports `separation` of the model, and of its rows if a prior makes the estimates finite.

    >>> from probreg.priors import Normal
    >>> model = Model.from_arrays(np.arange(6.0), [0, 0, 0, 1, 1, 1], columns=["dose"], likelihood="bernoulli")
    >>> SeparationCheck().run(model.with_prior({"dose": Normal(1.0)}))[0].sentence
    'complete separation of 6 rows by dose: estimates are finite only because of the prior'
    """

    name = "separation"
    title = "Separation"

    def find(self, model: Model) -> list[Finding]:
        likelihood = model.likelihood
        if likelihood.may_diverge is False:
            raise NotApplicable(
                f"the maximum of {likelihood.named} likelihood is always finite"
            )
        if not likelihood.may_diverge:
            if model.joint.informative.all():
                return self.report(
                    "every column has a prior, which makes its estimate finite"
                )
            sentence = f"unknown before the fit: {likelihood.named} likelihood does not declare whether its maximum may be infinite"
            return self.report(
                sentence, Verdict.NOTE, "newton checks this at the end of the fit"
            )
        result = separation(model)
        if result:
            names = few_names(result.labels)
            if result.kind == "complete":
                names = "any coefficient"
            sentence = f"{_describe(result)}: the likelihood has no maximum and no finite estimate of {names}"
            remedy = f"give {few_names(result.columns)} a prior such as Normal, merge sparse levels, or leave columns out"
            return self.report(sentence, Verdict.PROBLEM, remedy, result.columns)
        if model.joint.informative.any():
            hidden = separation(_without_priors(model))
            if hidden:
                return self._report_hidden_separation(hidden)
        return self.report("no separation: every coefficient has a finite estimate")

    def _report_hidden_separation(self, result: Separation) -> list[Finding]:
        pairs = zip(result.labels, np.argwhere(result.not_estimable))
        names = [name for name, (j, _) in pairs if j != result.intercept]
        names = names or list(result.labels)
        sentence = f"{_describe(result)} by {shorten_names(names, 5)}: estimates are finite only because of the prior"
        remedy = "report the prior, and how the estimates change under another one"
        return self.report(sentence, Verdict.WARNING, remedy, result.columns)


def _without_priors(model: Model) -> Model:
    """Return the model with flat priors, except for group effects, because groups with equal responses are common."""
    groups: dict[Key, Prior] = {
        t.columns: Normal(1.0) for t in model.design.recipe.grouped.values()
    }
    return replace(model, prior=groups or Flat())


def _describe(result: Separation) -> str:
    return f"{result.kind} separation of {result.rows} row{'s' * (result.rows > 1)}"
