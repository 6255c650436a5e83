"""Groups and Gaussian processes: their standard deviations and priors."""

import numpy as np

from probreg.data.terms.grouped import GroupedTerm
from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.inference.varying import explain_unidentified, has_improper_sd
from probreg.model.model import Model
from probreg.model.term_priors import flat_processes, interpolation

Array = np.ndarray
_SAME = 1e-12  # of the largest value: less is no variation


@CHECKS.register
class GroupsCheck(Check):
    """Reports groups with one row each, where their standard deviation and sigma are not identified, fewer than 5 groups, and
    slopes of variables that do not vary within groups.

    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "x": [0.0, 1.0, 0.0, 1.0], "g": ["a", "a", "b", "b"]}
    >>> GroupsCheck().run(Model.from_formula("y ~ x + (1 | g)", data))[0].sentence
    '(1 | g): the standard deviation over 2 groups is poorly estimated'
    """

    name = "groups"
    title = "Groups"

    def find(self, model: Model) -> list[Finding]:
        terms = model.design.recipe.grouped
        if not terms:
            raise NotApplicable("no effect varies by a group")
        findings: list[Finding] = []
        for key, term in terms.items():
            if has_improper_sd(model, term) and key in model.design.inputs:
                findings += self._check_term(model, term, model.design.inputs[key])
        return findings or self.report("the standard deviations over groups are identified")  # fmt: skip

    def _check_term(
        self, model: Model, term: GroupedTerm, inputs: Array
    ) -> list[Finding]:
        G = term.shape[0]
        sentence = explain_unidentified(model, term)
        if sentence is not None:
            hold = f"fix {model.noise_scale}, " if model.noise_unknown else ""
            remedy = f"leave the term out, {hold}or collect several rows of each group"
            return self.report(sentence, Verdict.PROBLEM, remedy)
        findings: list[Finding] = []
        if G < 5:  # Gelman & Hill 2007, section 12.9
            sentence = f"{term.key}: the standard deviation over {G} groups is poorly estimated"
            remedy = f"use {term.group} as a factor, or give sd a proper prior"
            findings += self.report(sentence, Verdict.WARNING, remedy)
        if len(term.effects) == 1:
            return findings
        for effect, z in zip(term.effects, inputs.T[1:]):
            if not _is_constant(z) and not _varies_within(inputs[:, 0], z):
                sentence = f"{term.key}: {effect} does not vary within {term.group}, so its group effect is part of the intercept's"
                remedy = f"leave {effect} out of the term, and keep it as a column"
                findings += self.report(sentence, Verdict.WARNING, remedy)
        return findings


def _is_constant(z: Array) -> bool:
    return bool(np.ptp(z) <= _SAME * np.abs(z).max(initial=0.0))


def _varies_within(codes: Array, z: Array) -> bool:
    """Return whether z takes several values in some group."""
    import pandas as pd

    by_group = pd.Series(z).groupby(codes)
    ranges = by_group.max() - by_group.min()
    return bool((ranges > _SAME * np.abs(z).max()).any())


_REMEDY = "leave the prior out to estimate its scale, or use one such as Normal(1.0)"


@CHECKS.register
class ProcessCheck(Check):
    """Reports Gaussian processes with a flat prior: they are regressions on their columns and can interpolate the rows.

    >>> from probreg.priors import Flat
    >>> data = {"y": [0.0, 1.0, 0.0, 2.0], "x": [0.0, 1.0, 2.0, 4.0]}
    >>> model = Model.from_formula("y ~ 0 + gp(x, length=1.0)", data, prior={"gp(x)": Flat()})
    >>> print(ProcessCheck().run(model)[0].sentence)
    gp(x, length=1.0): under a flat prior its 4 columns interpolate the 4 rows
    """

    name = "processes"
    title = "Gaussian process priors"

    def find(self, model: Model) -> list[Finding]:
        sentence = interpolation(model.design, model.joint)
        if sentence is not None:
            return self.report(sentence, Verdict.PROBLEM, _REMEDY)
        flat = flat_processes(model.design, model.joint)
        if flat:
            keys = " and ".join(term.key for term in flat)
            q = sum(len(term.columns) for term in flat)
            sentence = f"{keys}: under a flat prior this is a regression on {q} columns, not a process"
            return self.report(sentence, Verdict.WARNING, _REMEDY)
        if not model.design.recipe.processes:
            raise NotApplicable("no term is a Gaussian process")
        return self.report("every Gaussian process has a prior")
