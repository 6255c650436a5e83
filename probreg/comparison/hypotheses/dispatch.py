"""Parse the text of a hypothesis on a fit and run its test: restrictions on coefficients, a scale against a number, or `s(x) is linear`.

A posterior gives the probability of an inequality. At scales found by evidence an equality has a likelihood ratio test.
"""

import re
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from probreg.arguments.scalars import (
    ArrayLike,
    CovarianceLike,
    Natural,
    Probability,
    TableLike,
    Word,
    check_arguments,
)
from probreg.comparison.hypotheses.point_estimate import (
    limit_hypothesis,
    mode_hypothesis,
)
from probreg.comparison.hypotheses.posterior import posterior_hypothesis, share_of_draws
from probreg.comparison.hypotheses.restricted import (
    Hypothesis,
    Test,
    is_unidentified,
    over_own,
)
from probreg.data.formula.functions import (
    coefficients_by_term,
    functions_called,
    term_functions,
)
from probreg.diagnostics.after.functional_form import linearity_test
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.formula.hypothesis import Restriction, matrix, parse_hypothesis
from probreg.formula.text import shown_formula
from probreg.inference import Newton
from probreg.inference.base import Status
from probreg.inference.reported import reported_parameters
from probreg.inference.uncertainty.covariance import refuse_settings
from probreg.inference.uncertainty.found_scales import ratio_at
from probreg.inference.uncertainty.intervals.arithmetic import equal_tail, mean_and_sd
from probreg.inference.uncertainty.multiplicity import NO_TESTS, check_adjust

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


def _scale_probability(fit: Fit, text: str, null: ScaleTest, prob: float) -> Hypothesis:
    """Return the share of draws that satisfy the inequality."""
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
    """Return the test by 2 (f(top) - max f given the value), with the criterion f over theta: chi2(1) inside the parameter space."""
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


_LINEAR = " is linear"


def linearity_hypothesis(fit: Fit, text: str) -> Hypothesis:
    """Test that the penalised part of a smooth function, or of every function of a term, is zero."""
    functions = functions_called(
        fit.model.design, text.rstrip().removesuffix(_LINEAR).strip()
    )
    result = linearity_test(fit, functions)
    names = [f.label for f in functions]
    flat = {len(f.of.flat) for f in functions}
    shape = "in the null space of its penalty"
    if len(flat) == 1:
        shape = {0: "constant", 1: "a straight line"}.get(flat.pop(), shape)
    table = fit.smooths.loc[names, ["edf", "columns"]].reset_index()
    notes: tuple[str, ...] = (
        "the p-value is from 20,000 draws of the statistic under the null, with a fixed seed",
    )
    if len(term_functions(fit.model.design)) > len(functions):
        notes += (
            "the scales of the other smooth functions are taken as known, relative to the noise",
        )
    test = Test(result.name, result.statistic, "simulated", (), result.p_value)
    null = (
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are each'} {shape}: tau = 0"
    )
    return Hypothesis(text, null, table, {result.name: test}, notes=notes)


@check_arguments
def hypothesis(
    fit: Fit,
    text: str,
    *,
    prob: Probability = 0.95,
    covariance: CovarianceLike | None = None,
    groups: str | ArrayLike | tuple[str, str] | None = None,
    lags: Natural | None = None,
    data: TableLike | None = None,
    adjust: Word | None = None,
) -> Hypothesis:
    """Test the hypothesis `text`, L beta = r, or compute the probability of L beta > r; "s(x) is linear" tests a smooth function.

    A maximum likelihood fit gets Wald's test (F and t for least squares), the likelihood ratio and the score test. One
    inequality is tested one-sided against its opposite. A posterior gets the probability of inequalities. For
    equalities it gets the level of the credible region that has r on its boundary.

    "s(x) is linear" is tau = 0 for the penalised part of a smooth function, on the boundary of the parameter space. For Gaussian
    noise the test is the restricted likelihood ratio with its exact finite-sample distribution, given the scales of other terms
    relative to sigma. For other likelihoods it is the same ratio for the scores at the fit of the line. p-values are simulated.

    "sd(x | g) = 0" means that an effect does not vary by group, for a fit by evidence. The test compares the likelihood ratio (restricted for a
    REML fit) with an equal mixture of two chi-squares, because zero is on the boundary. "cor(x, z | g) = 0" and "sd(x | g) = 3"
    compare the ratio with chi-square(1); under a posterior "sd(x | g) > 3" has a probability.

    Parameters
    ----------
    fit : Fit
        A fit.
    text : str
        "s(x) is linear", "sd(x | g) = 0", "x1 = x2", "x1 = 0, x2 = 0", "x1 + 2*x2 = 3" or "x1 > 0". Names are names of coefficients in the fit
        or in the formula; a name that is a number needs backquotes, as in "`1` = 0". A term of the formula means all its columns: "C(g) = 0", or
        "C(g)" alone, tests a factor. For a softmax "b: x1 = c: x1", where a bare "x1 = 0" applies to every outcome.
    prob : float
        Probability of every interval, between 0 and 1.
    covariance : str or DataArray, optional
        The name of a kind ("HC3", "cluster", "HAC", ...) or the result of `fit.covariance(...)`. It replaces the fit's covariance and
        leaves only Wald's test.
    groups : str or array (n,) or pair of these, optional
        For covariance="cluster", as in `fit.covariance`.
    lags : int, optional
        For covariance="HAC", as in `fit.covariance`.
    data : table, optional
        The table that has the column named by `groups`.
    adjust : {"holm", "bonferroni", "single-step"}, optional
        For several equalities of a maximum likelihood fit: `estimates` get the p-value of each equality alone (p_unadjusted), the adjusted p_value, and
        simultaneous intervals. "single-step" uses their joint distribution.

    Returns
    -------
    Hypothesis
        The tests, or the probability.

    Raises
    ------
    DataError
        For a text that is no hypothesis.
    NotConverged
        Without an estimate.
    Incompatible
        For coefficients that are not identified, for equalities mixed with inequalities, and for several inequalities
        of a point estimate; for `adjust` if there are no tests to adjust.

    References
    ----------
    Hothorn, Bretz & Westfall 2008 (families).
    Crainiceanu & Ruppert 2004 (restricted likelihood ratio); Zhang & Lin 2003 (score).
    Self & Liang 1987; Stram & Lee 1994 (standard deviations).

    Examples
    --------
    >>> from probreg import Model
    >>> from probreg.fits.fit import fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"])
    >>> found = hypothesis(fit(model), "x = 1")
    >>> found.null, found["t"].df, round(found["t"].p, 4)
    ('x = 1', (2.0,), 0.5636)
    """
    unbounded = _has_limit(fit)
    if not unbounded:
        require_predictive(fit)
    check_adjust(adjust)
    refuse_settings(covariance, groups=groups, lags=lags, data=data)
    scale = parse_scale_test(fit, text)
    is_linearity = isinstance(text, str) and text.rstrip().endswith(_LINEAR)
    if scale is not None or is_linearity:
        if adjust is not None or covariance is not None:
            raise Incompatible(
                "adjust= and covariance= are for coefficients: a test of a scale, or of a smooth function, is one test"
            )
        if scale is None:
            return linearity_hypothesis(fit, text)
        if fit.target == "posterior":
            return _scale_probability(fit, text, scale, prob)
        return _scale_likelihood_ratio(fit, text, scale, prob)
    read = _parse_restrictions(fit, text)
    if fit.target == "posterior":
        if covariance is not None:
            raise Incompatible(
                "covariance= is for point estimates: a posterior has its own spread"
            )
        if adjust is not None:
            raise Incompatible(NO_TESTS)
        return posterior_hypothesis(fit, text, read, prob=prob)
    if unbounded and _touches_limit(fit, read):
        if covariance is not None or adjust is not None:
            require_predictive(fit)
        return limit_hypothesis(fit, text, read)
    given = None
    if covariance is not None:
        given = fit.spread(covariance, groups=groups, data=data, lags=lags)
    return mode_hypothesis(fit, text, read, prob=prob, covariance=given, adjust=adjust)


def _parse_restrictions(fit: Fit, text: str) -> list[Restriction]:
    """Parse the restrictions of a text on the coefficients of a fit. Incompatible for restrictions that are not identified, and for
    equalities mixed with inequalities."""
    design = fit.model.design
    read = parse_hypothesis(
        text,
        design.ungrouped_columns,
        fit.model.likelihood.outcomes,
        terms=coefficients_by_term(design),
        smooth={t.name for t in design.recipe.terms},
    )
    L, _ = matrix(read, len(fit.parameter_names))
    if is_unidentified(fit, over_own(fit, L)).any():
        raise Incompatible(
            f"the hypothesis is about coefficients that are not identified ({fit.solution.detail}): drop a column, or give a prior"
        )
    if {"="} < {restriction.relation for restriction in read}:
        raise Incompatible(
            f"the hypothesis {text!r} mixes equalities with inequalities: state them one after the other"
        )
    return read


def _has_limit(fit: Fit) -> bool:
    """Return whether some maximum likelihood coefficients go to infinity while the likelihood has a limit."""
    s = fit.solution
    at_infinity = s.status is Status.NO_MAXIMUM and s.not_estimable is not None
    return (
        at_infinity
        and fit.target == "mode"
        and fit.model.flat
        and Newton().obstacle(fit.model) is None
    )


def _touches_limit(fit: Fit, read: list[Restriction]) -> bool:
    assert fit.solution.not_estimable is not None
    L, _ = matrix(read, len(fit.parameter_names))
    return bool(
        (
            np.abs(L) @ fit.solution.not_estimable[fit.model.design.ungrouped].ravel()
        ).any()
    )
