"""The sample: its size, the response, events, groups, processes, and separation."""

from dataclasses import replace

import numpy as np

from probreg.arguments.arrays import OrderedLevels
from probreg.data.checked_arrays import full_weights
from probreg.data.terms.grouped import GroupedTerm
from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.inference.modes.separation import Separation, separation
from probreg.inference.varying import (
    explain_repeated,
    explain_unidentified,
    has_improper_sd,
)
from probreg.likelihoods import OfClasses, OfTrials, SoftmaxLikelihood
from probreg.model.model import Model
from probreg.model.term_priors import flat_processes, interpolation
from probreg.priors import Flat, Normal, Prior
from probreg.priors.joint import Key
from probreg.system.terminal import few_names, shorten_names

Array = np.ndarray


@CHECKS.register
class RowsCheck(Check):
    """Compares the number of observations (frequency weights add up) with the number of coefficients with a flat prior.

    >>> model = Model.from_arrays([[1.0, 2.0], [2.0, 3.0], [5.0, 4.0]], [1.0, 2.0, 4.0])
    >>> RowsCheck().run(model)[0].sentence
    '3 observations and 3 coefficients with a flat prior: no residual degrees of freedom'
    """

    name = "rows"
    title = "Rows and columns"

    def find(self, model: Model) -> list[Finding]:
        design = model.design
        findings = self._compare_sizes(model)
        for note in design.notes:
            findings += self.report(note, Verdict.NOTE)
        weight = "" if design.weights is None else f" of total weight {design.total:g}"
        p = len(design.columns)
        return findings or self.report(f"{design.n} rows{weight} and {p} columns")

    def _compare_sizes(self, model: Model) -> list[Finding]:
        design = model.design
        total = design.total
        p = len(design.columns)
        flat = np.flatnonzero(~model.joint.informative)
        if total <= len(flat):
            remedy = "use fewer columns, more rows, or a prior"
            if design.weight_kind == "frequency" and design.rows > len(flat):
                remedy = "plain weights count rows: did you mean pr.weights.precision or pr.weights.sampling?"
            lack = "more coefficients than observations"
            if total == len(flat):
                lack = "no residual degrees of freedom"
            sentence = f"{total:g} observations and {len(flat)} coefficients with a flat prior: {lack}"
            columns = [design.columns[j] for j in flat]
            return self.report(sentence, Verdict.PROBLEM, remedy, columns)
        if total <= p:
            sentence = f"{total:g} observations and {p} coefficients: the prior determines some of them"
            remedy = "report how the result changes with the scale of the prior"
            return self.report(sentence, Verdict.NOTE, remedy, design.columns)
        return []


@CHECKS.register
class ResponseCheck(Check):
    """Reports a response with two values under a likelihood with a noise scale: the noise is then not normal, and its variance
    follows from the mean. Classes of a softmax that have an order are reported too.

    >>> model = Model.from_arrays(np.arange(8.0), [0, 0, 1, 0, 1, 0, 1, 1])
    >>> print(ResponseCheck().run(model)[0].sentence)
    y takes only the values 0 and 1: a gaussian likelihood models P(y = 1 | x) as a straight line
    """

    name = "response"
    title = "Response"

    def find(self, model: Model) -> list[Finding]:
        likelihood = model.likelihood
        response = model.design.response
        if isinstance(likelihood, SoftmaxLikelihood) and (
            isinstance(likelihood.levels, OrderedLevels)
        ):
            order = " < ".join(map(str, likelihood.levels))
            return self.report(
                f"{response} is declared as ordered, {order}, and {likelihood.named} likelihood ignores the order",
                Verdict.NOTE,
                "use likelihood='ordinal', with one coefficient for each column",
            )
        if likelihood.noise_scale is None:
            raise NotApplicable(
                f"the model checks {likelihood.named} response when it is made"
            )
        two = two_values(model)
        if two is None:
            return self.report(f"{response} takes more than two values")
        mean = "P(y = 1 | x)" if two == (0.0, 1.0) else "E[y | x]"
        sentence = f"{response} takes only the values {two[0]:g} and {two[1]:g}"
        remedy = "use likelihood='bernoulli'"
        if likelihood.name == "gaussian":
            sentence += f": a gaussian likelihood models {mean} as a straight line"
            remedy += "; for least squares as a classifier use robust standard errors (HC3)"  # fmt: skip
        else:
            sentence += f": {likelihood.named} likelihood is for continuous responses"
        return self.report(sentence, Verdict.WARNING, remedy)


def two_values(model: Model) -> tuple[float, float] | None:
    """Return the two values of a numeric response that takes no others, each several times; None otherwise."""
    fewest = 3  # with this number of observations of each value, two values are two classes and not a coincidence
    design = model.design
    if model.likelihood.noise_scale is None or not design.has_rows:
        return None
    sample = design.sample
    y = sample.observed[sample.row_weights > 0]
    values, counts = np.unique(y, return_counts=True)
    if len(values) == 2 and counts.min() >= fewest:
        return (float(values[0]), float(values[1]))
    return None


@CHECKS.register
class EventCheck(Check):
    """States the modelled event with weighted counts, notes fewer than five events of the rarest level per coefficient, and
    warns below two.

    It is a count, not a test. Ten events per variable is a rule of thumb (Peduzzi et al. 1996, J. Clin. Epidemiol.
    49:1373) that flags most samples of 50 rows, where five to nine are enough (Vittinghoff & McCulloch 2007); the size of
    effects and separation matter more (van Smeden et al. 2016, BMC Med. Res. Methodol. 16:163), and `separation` is a separate
    check. Only columns with a flat prior count.

    >>> y = ["no", "yes", "no", "yes"]
    >>> model = Model.from_arrays(np.arange(4.0), y, likelihood="bernoulli", event="yes")
    >>> for f in EventCheck().run(model): print(f.verdict.name, f.sentence)
    OK the model is for P(y = yes) on the logit scale; the other level is no; counts: no: 2, yes: 2
    NOTE 2 observations of y = yes for 1 coefficient: 2 per coefficient, fewer than 5
    """

    name = "event"
    title = "Events"

    def find(self, model: Model) -> list[Finding]:
        likelihood = model.likelihood
        design = model.design
        sentence = f"the model is for {likelihood.describe(design.response)}"
        if not isinstance(likelihood, OfClasses):
            return self.report(sentence)
        w = full_weights(design.weights, len(design.observed))
        counts = w @ likelihood.tally(design.observed)
        by_level = [f"{v}: {n:g}" for v, n in zip(likelihood.classes, counts)]
        findings = self.report(f"{sentence}; counts: {', '.join(by_level)}")
        for k in np.flatnonzero(counts == 0):
            sentence = f"no observation of {design.response} = {likelihood.classes[k]} has a positive weight"
            remedy = "leave the level out, or check the weights"
            findings += self.report(sentence, Verdict.PROBLEM, remedy)
        return findings + self._report_few_events(model, likelihood, counts)

    def _report_few_events(
        self, model: Model, likelihood: OfClasses, counts: np.ndarray
    ) -> list[Finding]:
        fewest = 2.0  # events per coefficient, for a warning
        few = 5.0  # events per coefficient, for a note
        design = model.design
        flat = np.flatnonzero(~model.joint.informative)
        columns = [design.columns[j] for j in flat if j != design.intercept]
        rarest = int(np.argmin(counts))
        if len(set(counts)) == 1:
            rarest = len(counts) - 1
        if not columns or counts[rarest] / len(columns) >= few:
            return []
        per = counts[rarest] / len(columns)
        verdict = Verdict.NOTE
        limit = few
        if per < fewest:
            verdict = Verdict.WARNING
            limit = fewest
        unit = "trials" if isinstance(likelihood, OfTrials) else "observations"
        sentence = (
            f"{counts[rarest]:g} {unit} of {design.response} = {likelihood.classes[rarest]} "
            f"for {len(columns)} coefficient{'s' * (len(columns) > 1)}: {per:.2g} per coefficient, "
            f"fewer than {limit:g}"
        )
        remedy = "use fewer columns or a prior; estimates from few events are biased away from zero"
        return self.report(sentence, verdict, remedy, columns)


# ---- groups and Gaussian processes: their standard deviations and priors --------------------------------------------


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
        findings = []
        for key, term in terms.items():
            if has_improper_sd(model, term) and key in model.design.inputs:
                findings += self._check_term(model, term, model.design.inputs[key])
        return findings or self.report("the standard deviations over groups are identified")  # fmt: skip

    def _check_term(
        self, model: Model, term: GroupedTerm, inputs: Array
    ) -> list[Finding]:
        import pandas as pd

        G = term.shape[0]
        sentence = explain_unidentified(model, term)
        if sentence is not None:
            hold = f"fix {model.noise_scale}, " if model.noise_unknown else ""
            remedy = f"leave the term out, {hold}or collect several rows of each group"
            return self.report(sentence, Verdict.PROBLEM, remedy)
        sentence = explain_repeated(model, term)
        if sentence is not None:
            remedy = "leave out one of the two, or give the standard deviation a proper prior"
            return self.report(sentence, Verdict.PROBLEM, remedy)
        findings = []
        if G < 5:  # Gelman & Hill 2007, section 12.9
            sentence = f"{term.key}: the standard deviation over {G} groups is poorly estimated"
            remedy = f"use {term.group} as a factor, or give sd a proper prior"
            findings += self.report(sentence, Verdict.WARNING, remedy)
        if len(term.effects) == 1:
            return findings
        for effect, z in zip(term.effects, inputs.T[1:]):
            rounding = 1e-12 * np.abs(z).max()  # a smaller range is no variation
            by_group = pd.Series(z).groupby(inputs[:, 0])
            ranges = by_group.max() - by_group.min()
            if np.ptp(z) > rounding and (ranges <= rounding).all():
                sentence = f"{term.key}: {effect} does not vary within {term.group}, so its group effect is part of the intercept's"
                remedy = f"leave {effect} out of the term, and keep it as a column"
                findings += self.report(sentence, Verdict.WARNING, remedy)
        return findings


_FLAT_PROCESS_REMEDY = (
    "leave the prior out to estimate its scale, or use one such as Normal(1.0)"
)


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
            return self.report(sentence, Verdict.PROBLEM, _FLAT_PROCESS_REMEDY)
        flat = flat_processes(model.design, model.joint)
        if flat:
            keys = " and ".join(term.key for term in flat)
            q = sum(len(term.columns) for term in flat)
            sentence = f"{keys}: under a flat prior this is a regression on {q} columns, not a process"
            return self.report(sentence, Verdict.WARNING, _FLAT_PROCESS_REMEDY)
        if not model.design.recipe.processes:
            raise NotApplicable("no term is a Gaussian process")
        return self.report("every Gaussian process has a prior")


# ---- separation: the columns predict the classes perfectly ----------------------------------------------------------


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
            sentence = f"{_describe_separation(result)}: the likelihood has no maximum and no finite estimate of {names}"
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
        sentence = f"{_describe_separation(result)} by {shorten_names(names, 5)}: estimates are finite only because of the prior"
        remedy = "report the prior, and how the estimates change under another one"
        return self.report(sentence, Verdict.WARNING, remedy, result.columns)


def _without_priors(model: Model) -> Model:
    """Return the model with flat priors, except for group effects, because groups with equal responses are common."""
    groups: dict[Key, Prior] = {
        t.columns: Normal(1.0) for t in model.design.recipe.grouped.values()
    }
    return replace(model, prior=groups or Flat())


def _describe_separation(result: Separation) -> str:
    return f"{result.kind} separation of {result.rows} row{'s' * (result.rows > 1)}"
