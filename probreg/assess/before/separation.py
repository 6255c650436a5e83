"""Are the rows separated, so that the maximum of the likelihood lies at infinity?"""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.inference.modes.separation import Separation, separation
from probreg.model.model import Model
from probreg.priors import Flat, Normal, Prior
from probreg.priors.joint import Key
from probreg.system.terminal import few_names


@CHECKS.register
class SeparationCheck(Check):
    """Reports `separation`, of the model and of its rows: a prior that makes estimates finite leaves the rows separated.

    >>> from probreg.priors import Normal
    >>> model = Model.from_arrays(np.arange(6.0), [0, 0, 0, 1, 1, 1], columns=["dose"], likelihood="bernoulli")
    >>> SeparationCheck().run(model.with_prior({"dose": Normal(1.0)}))[0].sentence
    'complete separation of 6 rows by dose: the prior alone makes the estimates finite'
    """

    name: ClassVar[str] = "separation"
    question: ClassVar[str] = "Is there a finite maximum likelihood estimate?"
    cheap: ClassVar[bool] = False

    def run(self, model: Model) -> list[Finding]:
        named = model.likelihood.named
        if model.likelihood.may_diverge is False:
            return self.report_not_applicable(
                f"the maximum of {named} likelihood is never at infinity"
            )
        if not model.likelihood.may_diverge and not model.joint.informative.all():
            return [
                self.say(
                    Verdict.NOTE,
                    f"unknown before the fit: {named} likelihood {_UNKNOWN}",
                    _LOOK,
                )
            ]
        if not model.likelihood.may_diverge:
            return self.fine(
                f"every column has a prior, which keeps its estimate finite under {named} likelihood too"
            )
        found = separation(model)
        if found:
            what = (
                f"{found.kind} separation of {found.rows} row{'s' * (found.rows > 1)}"
            )
            if found.kind == "complete":
                whose = "any coefficient"
            else:
                whose = few_names(found.labels)
            return [
                self.say(
                    Verdict.PROBLEM,
                    f"{what}: the likelihood has no maximum, and there is no finite estimate of {whose}",
                    _remedy(found),
                    found.columns,
                )
            ]
        if model.joint.informative.any() and (
            rows := separation(_without_priors(model))
        ):
            return [
                self.say(
                    Verdict.WARNING,
                    _describe_hidden_separation(rows),
                    _HELD,
                    rows.columns,
                )
            ]
        return self.fine(
            "the rows are not separated: every coefficient has a finite estimate"
        )


def _without_priors(model: Model) -> Model:
    """The model with flat priors, but for effects by group: a group whose rows are all alike is nothing to wonder at."""
    groups: dict[Key, Prior] = {
        t.columns: Normal(1.0) for t in model.design.recipe.grouped.values()
    }
    return replace(model, prior=groups or Flat())


def _describe_hidden_separation(found: Separation) -> str:
    """Describe a separation of rows that a prior hides."""
    what = f"{found.kind} separation of {found.rows} row{'s' * (found.rows > 1)}"
    by = [
        label
        for label, (j, _) in zip(found.labels, np.argwhere(found.not_estimable))
        if j != found.intercept
    ] or found.labels
    named = ", ".join(by[:_NAMED]) + (
        f" and {len(by) - _NAMED} more" if len(by) > _NAMED else ""
    )
    return f"{what} by {named}: the prior alone makes the estimates finite"


_UNKNOWN = "does not declare whether its maximum may lie at infinity"
_LOOK = "fit it: newton looks where its search ends, and says where the likelihood does not fall"
_NAMED = 5  # columns of a sentence
_HELD = "the estimates are as much the prior's as the rows': report what it rests on, and how they move under another"


def _remedy(found: Separation) -> str:
    which = few_names(found.columns)
    return f"give {which} a prior such as Normal, merge sparse levels, or leave columns out"
