"""Effects that vary by a group: whether the rows can tell their standard deviations."""

from typing import ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.data.terms.grouped import GroupedTerm
from probreg.inference.varying import explain_unidentified, has_improper_sd
from probreg.model.model import Model

Array = np.ndarray
FEW_LEVELS = 5  # groups below which a standard deviation over them is hardly known (Gelman & Hill 2007, section 12.9)
_SAME = 1e-12  # of the largest value: less is no variation


@CHECKS.register
class GroupsCheck(Check):
    """With one row a group its standard deviation and sigma are not identified; a standard deviation over fewer than 5 groups is
    hardly known; a slope by group needs a variable that varies within groups.

    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "x": [0.0, 1.0, 0.0, 1.0], "g": ["a", "a", "b", "b"]}
    >>> GroupsCheck().run(Model.from_formula("y ~ x + (1 | g)", data))[0].sentence
    '(1 | g): 2 groups say little of a standard deviation over groups'
    """

    name: ClassVar[str] = "groups"
    question: ClassVar[str] = (
        "Can the rows tell the standard deviations of effects by group?"
    )
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        terms = model.design.recipe.grouped
        if not terms:
            return self.report_not_applicable("no effect varies by a group")
        out: list[Finding] = []
        for key, term in terms.items():
            if has_improper_sd(model, term) and key in model.design.inputs:
                out += self._of_term(model, term, np.asarray(model.design.inputs[key]))
        return out or self.fine(
            "the groups are enough to tell standard deviations of effects by group"
        )

    def _of_term(self, model: Model, term: GroupedTerm, inputs: Array) -> list[Finding]:
        G = term.shape[0]
        said = explain_unidentified(model, term)
        if said is not None:
            if model.noise_unknown:
                hold = f"hold {model.noise_scale}, "
            else:
                hold = ""
            remedy = f"leave the term out, {hold}or collect several rows of a group"
            return [self.say(Verdict.PROBLEM, said, remedy)]
        out = []
        if G < FEW_LEVELS:
            said = (
                f"{term.key}: {G} groups say little of a standard deviation over groups"
            )
            out.append(
                self.say(
                    Verdict.WARNING,
                    said,
                    f"take {term.group} as a factor, or give sd a proper prior",
                )
            )
        for k, effect in enumerate(term.effects):
            z = inputs[:, 1 + k]
            if (
                _is_constant(z)
                or len(term.effects) == 1
                or _varies_within(inputs[:, 0], z)
            ):
                continue
            said = f"{term.key}: {effect} does not vary within {term.group}, so that its effect by group is part of the intercept's"
            out.append(
                self.say(
                    Verdict.WARNING,
                    said,
                    f"leave {effect} out of the term, and keep it as a column",
                )
            )
        return out


def _is_constant(z: Array) -> bool:
    return bool(np.ptp(z) <= _SAME * np.abs(z).max(initial=0.0))


def _varies_within(codes: Array, z: Array) -> bool:
    """Whether z takes several values in some group."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
    spread = np.maximum.reduceat(z[order], starts) - np.minimum.reduceat(
        z[order], starts
    )
    return bool((spread > _SAME * np.abs(z).max()).any())
