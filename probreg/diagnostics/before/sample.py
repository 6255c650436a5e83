"""The sample: rows against coefficients, values of the response, and events."""

import numpy as np

from probreg.arguments.arrays import OrderedLevels
from probreg.data.rows import full_weights
from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.likelihoods import OfClasses, OfTrials, SoftmaxLikelihood
from probreg.model.model import Model

Array = np.ndarray


@CHECKS.register
class RowsCheck(Check):
    """Compares the number of observations (frequency weights add up) with the number of coefficients with a flat prior.

    >>> model = Model.from_arrays([[1.0, 2.0], [2.0, 3.0], [5.0, 4.0]], [1.0, 2.0, 4.0])
    >>> RowsCheck().run(model)[0].sentence
    '3 observations and 3 coefficients with a flat prior: no residual degrees of freedom'
    """

    name = "rows"
    title = "Sample size"

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
    fewest = 3  # observations of each value that make two values two classes and not a coincidence
    design = model.design
    if model.likelihood.noise_scale is None or not design.has_rows:
        return None
    sample = design.sample
    y = sample.observed
    if sample.weights is not None:
        y = y[sample.weights > 0]
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
    effects and separation matter more (van Smeden et al. 2016, BMC Med. Res. Methodol. 16:163), and `separation` has a check of
    its own. Only columns with a flat prior count.

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
