"""Hypotheses on a scale of a fit: a standard deviation, a correlation or a nuisance parameter against a number.

A posterior gives the probability of an inequality. At scales found by evidence an equality has a likelihood ratio test.
"""

import re
from typing import Any, NamedTuple

from scipy.special import chdtrc

from probreg.comparison.hypotheses.posterior import share_of_draws
from probreg.comparison.hypotheses.result import Hypothesis, Test
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.formula.text import shown_formula
from probreg.inference.reported import reported_parameters
from probreg.inference.uncertainty.found_scales import ratio_at
from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail,
    mean_and_sd,
)

_SCALE_TEST = re.compile(
    r"(?P<name>.*[^<>=])(?P<relation><=|>=|==|=|<|>)\s*(?P<value>[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?)"
)


class ScaleTest(NamedTuple):
    """A hypothesis on a scalar of the fit: its name, "=", ">" or "<", and a number."""

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
                f"the hypothesis {shown_formula(text)}: this fit has no {scale_name}; its scales are: {', '.join(scale_names.values()) or 'none'}"
            )
        return None
    return ScaleTest(
        name, parsed["relation"].replace("==", "=")[0], float(parsed["value"])
    )


def scale_hypothesis(fit: Fit, text: str, null: ScaleTest, prob: float) -> Hypothesis:
    """Return the probability of an inequality under a posterior, or the likelihood ratio of an equality at scales found by evidence."""
    if fit.target == "posterior":
        return _scale_probability(fit, text, null, prob)
    return _scale_likelihood_ratio(fit, text, null, prob)


def _scale_probability(fit: Fit, text: str, null: ScaleTest, prob: float) -> Hypothesis:
    """Return the share of draws in which the inequality holds."""
    if null.relation == "=":
        raise Incompatible(
            f"{text!r}: every equality of a scale has posterior probability zero; test an inequality, or fit by evidence"
        )
    draws = fit.once(reported_parameters).draws_of(null.name)
    if null.relation == ">":
        holds = draws > null.value
    else:
        holds = draws < null.value
    lower, upper = equal_tail(draws.ravel(), prob)
    mean, sd = mean_and_sd(draws.ravel())
    table = null.table({"estimate": mean, "sd": sd, "lower": lower, "upper": upper})
    return Hypothesis(text, null.words, table, {}, (share_of_draws(holds),))


def mixture_p(statistic: float, correlations: int) -> float:
    """Return P(T >= t) of the mixture of chi2(c) and chi2(c + 1), half each; chi2(0) is zero.

    It is the null distribution of the likelihood ratio of a standard deviation of zero, which is on the boundary, with c
    correlations (Self & Liang 1987; Stram & Lee 1994); it is conservative in small samples.

    >>> round(mixture_p(2.705543, 0), 6)
    0.05
    """
    if statistic <= 0:
        return 1.0
    c = correlations
    upper = float(chdtrc(c + 1, statistic))
    return 0.5 * upper + (0.5 * float(chdtrc(c, statistic)) if c else 0.0)


def _scale_likelihood_ratio(
    fit: Fit, text: str, null: ScaleTest, prob: float
) -> Hypothesis:
    """Return the test by 2 (f(top) - max f given the value), f the criterion over theta: chi2(1) inside the parameter space."""
    scales = fit.solution.effect_scales
    if scales is None or null.name not in scales.values:
        raise Incompatible(
            f"there is no test of {text!r}: a likelihood ratio of a scale needs effects by group with scales found by evidence; "
            "see interval and aux_interval"
        )
    if null.relation != "=":
        raise Incompatible(
            f"there is no test of {text!r}: a likelihood ratio tests an equality; fit a posterior for the probability of an inequality"
        )
    name = "RLRT" if scales.criterion == "REML" else "LR"
    estimate = scales.values[null.name]
    columns = {"estimate": estimate}
    notes = []
    smallest_share = 1e-10  # of the estimated standard deviation
    if null.value == 0.0 and null.name.startswith("sd("):
        statistic = 0.0
        if estimate > 0:
            statistic = ratio_at(scales, null.name, smallest_share * estimate)
            statistic = max(statistic, 0.0)
        c = _correlations_of(fit, null.name)
        p = mixture_p(statistic, c)
        df = (float(c), c + 1.0)
        test = Test(name, statistic, f"chi2 mixture {c}:{c + 1}", df, p)
        notes.append(
            f"the p-value is from a mixture of half chi-square({c}) and half chi-square({c + 1}), because a standard deviation of zero is "
            "on the boundary"
        )
    else:
        statistic = ratio_at(scales, null.name, null.value)
        p = float(chdtrc(1, statistic))
        test = Test(name, statistic, "chi2", (1.0,), p)
        lower, upper = fit.aux_interval(null.name, prob)
        columns |= {"lower": float(lower), "upper": float(upper)}
    if scales.points > 1:
        notes.append(
            f"the likelihoods are computed by adaptive quadrature with {scales.points} points"
        )
    elif not scales.stated.likelihood.least_squares:
        notes.append("the likelihoods are computed by Laplace's method")
    table = null.table(columns)
    return Hypothesis(text, null.words, table, {name: test}, notes=tuple(notes))


def _correlations_of(fit: Fit, name: str) -> int:
    """Return the number of correlations of the effect with this standard deviation."""
    for term in fit.model.design.recipe.grouped.values():
        names = [f"sd({c} | {term.group})" for c in term.coefficients]
        if term.correlated and any(name.startswith(of_effect) for of_effect in names):
            return len(names) - 1
    return 0
