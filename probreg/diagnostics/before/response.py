"""A numeric response with only two values, which needs a likelihood for classes."""

import numpy as np

from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.model.model import Model

_EACH = 3  # observations of each value that make two values two classes and not a coincidence


@CHECKS.register
class ResponseCheck(Check):
    """Reports a response with two values under a likelihood with a noise scale: the noise is then not normal, and its variance
    follows from the mean.

    >>> model = Model.from_arrays(np.arange(8.0), [0, 0, 1, 0, 1, 0, 1, 1])
    >>> print(ResponseCheck().run(model)[0].sentence)
    y takes only the values 0 and 1: a gaussian likelihood models P(y = 1 | x) as a straight line
    """

    name = "response"
    title = "Response"

    def find(self, model: Model) -> list[Finding]:
        likelihood = model.likelihood
        response = model.design.response
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
    design = model.design
    if model.likelihood.noise_scale is None or not design.has_rows:
        return None
    sample = design.sample
    y = (
        sample.observed
        if sample.weights is None
        else sample.observed[sample.weights > 0]
    )
    values, counts = np.unique(y, return_counts=True)
    if len(values) == 2 and counts.min() >= _EACH:
        return (float(values[0]), float(values[1]))
    return None
