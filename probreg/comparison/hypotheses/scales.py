"""Hypotheses that compare a standard deviation, correlation or nuisance parameter with a number, such as "cor(Intercept, x | g) = 0".

A posterior gives the probability of an inequality. At scales found by evidence an equality inside the parameters has the likelihood
ratio 2 (f(top) - max f given the value), f the criterion over theta, which is chi-square(1) under the null; restricted if the fit is.
A standard deviation of zero is on the boundary: with c correlations of the effect the ratio is an equal mixture of chi2(c) and
chi2(c + 1) (Self & Liang 1987; Stram & Lee 1994), which is conservative in small samples.
"""

import re
from typing import Any, NamedTuple

import scipy

from probreg.comparison.hypotheses.posterior import share_of_draws
from probreg.comparison.hypotheses.result import Hypothesis, Test
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.formula.text import shown_formula
from probreg.inference.reported import reported_parameters
from probreg.inference.uncertainty.found_scales import ratio_at
from probreg.inference.uncertainty.intervals.arithmetic import equal_tail, mean_and_sd

_SCALE_TEST = re.compile(
    r"(?P<name>.*[^<>=])(?P<relation><=|>=|==|=|<|>)\s*(?P<value>[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?)"
)


class ScaleTest(NamedTuple):
    """A name of a scalar of the fit, "=", ">" or "<", and a number."""

    name: str
    relation: str
    value: float

    @property
    def words(self) -> str:
        return f"{self.name} {self.relation} {self.value:g}"

    def table(self, columns: dict[str, Any]) -> Any:
        """One row: the name, the number, and these columns."""
        import pandas as pd

        numbers = {k: float(v) for k, v in columns.items()}
        return pd.DataFrame({"combination": [self.name], "value": self.value} | numbers)


def parse_scale_test(fit: Fit, text: Any) -> ScaleTest | None:
    """Return the hypothesis on a scale, or None if the text is about coefficients. DataError for a scale that this fit does not have."""
    parsed = None
    if isinstance(text, str):
        parsed = _SCALE_TEST.fullmatch(text.strip())
    if parsed is None or (scale_name := parsed["name"].strip()) in fit.parameter_names:
        return None
    scalars = fit.once(reported_parameters).with_nuisance
    scale_names = {name.replace(" ", ""): name for name in scalars}
    name = scale_names.get(scale_name.replace(" ", ""))
    if name is None:
        if re.fullmatch(r"(sd|cor)\([^|]+\|.+\)", scale_name):
            raise DataError(
                f"the hypothesis {shown_formula(text)} is of no scale that was estimated; there are: {', '.join(scale_names.values()) or 'none'}"
            )
        return None
    return ScaleTest(
        name, parsed["relation"].replace("==", "=")[0], float(parsed["value"])
    )


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
    draws = fit.once(reported_parameters).draws_of(question.name)
    if question.relation == ">":
        holds = draws > question.value
    else:
        holds = draws < question.value
    lower, upper = equal_tail(draws.ravel(), prob)
    mean, sd = mean_and_sd(draws.ravel())
    columns = {
        "estimate": mean,
        "sd": sd,
        "lower": lower,
        "upper": upper,
    }
    table = question.table(columns)
    return Hypothesis(text, question.words, table, {}, (share_of_draws(holds),))


def mixture_p(statistic: float, correlations: int) -> float:
    """P(T >= t) of the mixture of chi2(c) and chi2(c + 1), half each; chi2(0) is zero.

    >>> round(mixture_p(2.705543, 0), 6)
    0.05
    """
    if statistic <= 0:
        return 1.0
    c = correlations
    upper = float(scipy.stats.chi2.sf(statistic, c + 1))
    return 0.5 * upper + (0.5 * float(scipy.stats.chi2.sf(statistic, c)) if c else 0.0)


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
    name = "RLRT" if scales.criterion == "REML" else "LR"
    estimate = scales.values[question.name]
    columns = {"estimate": estimate}
    notes = []
    smallest_share = 1e-10  # of the estimated standard deviation
    if question.value == 0.0 and question.name.startswith("sd("):
        statistic = 0.0
        if estimate > 0:
            statistic = ratio_at(scales, question.name, smallest_share * estimate)
            statistic = max(statistic, 0.0)
        c = _correlations_of(fit, question.name)
        p = mixture_p(statistic, c)
        df = (float(c), c + 1.0)
        test = Test(name, statistic, f"chi2 mixture {c}:{c + 1}", df, p)
        notes.append(
            f"the p-value is of half chi-square({c}) and half chi-square({c + 1}): a standard deviation of zero is on the boundary"
        )
    else:
        statistic = ratio_at(scales, question.name, question.value)
        p = float(scipy.stats.chi2.sf(statistic, 1))
        test = Test(name, statistic, "chi2", (1.0,), p)
        lower, upper = fit.aux_interval(question.name, prob)
        columns |= {"lower": float(lower), "upper": float(upper)}
    if scales.points > 1:
        notes.append(
            f"the likelihoods are by {scales.points} points of adaptive quadrature"
        )
    elif not scales.stated.likelihood.least_squares:
        notes.append("the likelihoods are by Laplace's method")
    table = question.table(columns)
    return Hypothesis(text, question.words, table, {name: test}, notes=tuple(notes))


def _correlations_of(fit: Fit, name: str) -> int:
    """Return the number of correlations of the effect with this standard deviation."""
    for term in fit.model.design.recipe.grouped.values():
        names = [f"sd({effect} | {term.group})" for effect in term.effects]
        if term.correlated and any(name.startswith(of_effect) for of_effect in names):
            return len(names) - 1
    return 0
