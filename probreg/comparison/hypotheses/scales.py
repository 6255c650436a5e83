"""Hypotheses that compare a standard deviation, correlation or nuisance parameter with a number, such as "cor(Intercept, x | g) = 0".

A posterior gives the probability of an inequality. At scales found by evidence an equality inside the parameters has the likelihood
ratio 2 (f(top) - max f given the value), f the criterion over theta, which is chi-square(1) under the null; restricted if the fit is.
"""

import re
from typing import Any, NamedTuple

import numpy as np
import scipy

from probreg.comparison.hypotheses.posterior import error_of_draws
from probreg.comparison.hypotheses.result import Belief, Hypothesis, Test
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.formula.text import shown_formula
from probreg.inference.uncertainty.found_scales import ratio_at
from probreg.inference.uncertainty.intervals.arithmetic import equal_tail, sample_sd

_ASKED = re.compile(
    r"(?P<name>.*[^<>=])(?P<relation><=|>=|==|=|<|>)\s*(?P<value>[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?)"
)


class ScaleTest(NamedTuple):
    """A name of `fit.solution.scalars`, "=", ">" or "<", and a number."""

    name: str
    relation: str
    value: float

    @property
    def words(self) -> str:
        return f"{self.name} {self.relation} {self.value:g}"


def parse_scale_test(fit: Fit, text: Any) -> ScaleTest | None:
    """Return the hypothesis on a scale, or None if the text is about coefficients. DataError for a scale that this fit does not have."""
    if isinstance(text, str):
        parsed = _ASKED.fullmatch(text.strip())
    else:
        parsed = None
    if parsed is None or (scale_name := parsed["name"].strip()) in fit.parameter_names:
        return None
    scale_names = {_remove_spaces(name): name for name in fit.solution.scalars}
    name = scale_names.get(_remove_spaces(scale_name))
    if name is None:
        if re.fullmatch(r"(sd|cor)\([^|]+\|.+\)", scale_name):
            raise DataError(
                f"the hypothesis {shown_formula(text)} is of no scale that was estimated; there are: {', '.join(scale_names.values()) or 'none'}"
            )
        return None
    return ScaleTest(
        name, parsed["relation"].replace("==", "=")[0], float(parsed["value"])
    )


def _remove_spaces(name: str) -> str:
    return name.replace(" ", "")


def of_scale(fit: Fit, text: str, question: ScaleTest, prob: float) -> Hypothesis:
    """The probability of an inequality under a posterior; the likelihood ratio of an equality at scales found by evidence."""
    if fit.target == "posterior":
        return _of_draws(fit, text, question, prob)
    return _of_ratio(fit, text, question, prob)


def _of_draws(fit: Fit, text: str, question: ScaleTest, prob: float) -> Hypothesis:
    if question.relation == "=":
        raise Incompatible(
            f"{text!r} has posterior probability zero, as every equality of a scale: ask for an inequality, or fit by evidence"
        )
    draws = fit.solution.posterior[question.name]
    if question.relation == ">":
        holds = draws > question.value
    else:
        holds = draws < question.value
    lower, upper = equal_tail(draws.ravel(), prob)
    columns = {
        "estimate": draws.mean(),
        "sd": sample_sd(draws.ravel()),
        "lower": lower,
        "upper": upper,
    }
    error = error_of_draws(holds.astype(float))
    belief = Belief(
        "P(hypothesis)", float(holds.mean()), error, f"share of {holds.size} draws"
    )
    return Hypothesis(
        text, question.words, _combination_table(question, columns), {}, (belief,)
    )


def _of_ratio(fit: Fit, text: str, question: ScaleTest, prob: float) -> Hypothesis:
    scales = fit.solution.effect_scales
    if scales is None or question.name not in scales.values:
        raise Incompatible(
            f"there is no test of {text!r}: it is of effects by group at scales found by evidence; see interval and aux_interval"
        )
    if question.relation != "=":
        raise Incompatible(
            f"there is no test of {text!r}: a likelihood ratio is of an equality; a posterior has the probability of an inequality"
        )
    statistic = ratio_at(scales, question.name, question.value)
    name = "RLRT" if scales.criterion == "REML" else "LR"
    lower, upper = fit.aux_interval(question.name, prob)
    columns = {
        "estimate": scales.values[question.name],
        "lower": float(lower),
        "upper": float(upper),
    }
    test = Test(
        name, statistic, "chi2", (1.0,), float(scipy.stats.chi2.sf(statistic, 1))
    )
    if scales.stated.likelihood.least_squares:
        about = ""
    else:
        about = "the likelihoods are by Laplace's method"
    if scales.points > 1:
        about = f"the likelihoods are by {scales.points} points of adaptive quadrature"
    return Hypothesis(
        text,
        question.words,
        _combination_table(question, columns),
        {name: test},
        notes=(about,) if about else (),
    )


def _combination_table(question: ScaleTest, columns: dict[str, Any]) -> Any:
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "combination": question.name,
                "value": question.value,
                **{k: float(np.asarray(v)) for k, v in columns.items()},
            }
        ]
    )
