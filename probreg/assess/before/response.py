"""Whether a response of numbers is one of two classes, for which a likelihood with a noise scale was not made."""

from typing import ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.model.model import Model

_EACH = 3  # observations of either value from which two values are two classes, not a few numbers that happen to agree


@CHECKS.register
class ResponseCheck(Check):
    """Two values of y under a likelihood with a noise scale: least squares then estimates E[y | x], with noise that is not
    normal and a variance that follows from the mean.

    >>> model = Model.from_arrays(np.arange(8.0), [0, 0, 1, 0, 1, 0, 1, 1])
    >>> print(ResponseCheck().run(model)[0].sentence)
    y takes only the values 0 and 1: a gaussian likelihood estimates E[y | x], here P(y = 1 | x), as a straight line
    """

    name: ClassVar[str] = "response"
    question: ClassVar[str] = "Is the response of the kind that the likelihood is for?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        likelihood = model.likelihood
        response = model.design.response
        if likelihood.noise_scale is None:
            return self.report_not_applicable(
                f"{likelihood.named} response is checked when the model is made"
            )
        two = two_values(model)
        if two is None:
            return self.fine(f"{response} takes more than two values")
        if two == (0.0, 1.0):
            mean = "E[y | x], here P(y = 1 | x)"
        else:
            mean = "E[y | x]"
        if likelihood.name == "gaussian":
            what = f"estimates {mean}, as a straight line"
        else:
            what = "takes them for numbers with noise"
        sentence = f"{response} takes only the values {two[0]:g} and {two[1]:g}: {likelihood.named} likelihood {what}"
        remedy = "likelihood='bernoulli' models the probability of either"
        if likelihood.name == "gaussian":
            remedy += "; least squares that is meant as a classifier takes robust standard errors (HC3)"
        return [self.say(Verdict.WARNING, sentence, remedy)]


def two_values(model: Model) -> tuple[float, float] | None:
    """The two values of a response with a noise scale that takes no others, each some times; None otherwise."""
    design = model.design
    if model.likelihood.noise_scale is None or not design.reachable:
        return None
    some = design.sample
    if some.weights is None:
        y = some.observed
    else:
        y = some.observed[some.weights > 0]
    values, counts = np.unique(y, return_counts=True)
    if len(values) == 2 and counts.min() >= _EACH:
        return (float(values[0]), float(values[1]))
    return None


def of_classes(model: Model) -> str | None:
    """Why the noise of a response of two values is not looked at, as the reason of a check that does not apply."""
    two = two_values(model)
    if two is None:
        return None
    return f"{model.design.response} takes only {two[0]:g} and {two[1]:g}; see the check response"
