"""Parse the text of a hypothesis on a fit and run its test: restrictions on coefficients, or `s(x) is linear`."""

import numpy as np

from probreg.arguments.scalars import Natural, Probability, Word, check_arguments
from probreg.arguments.types import ArrayLike, CovarianceLike, TableLike
from probreg.comparison.hypotheses.point_estimate import (
    limit_hypothesis,
    mode_hypothesis,
)
from probreg.comparison.hypotheses.posterior import posterior_hypothesis
from probreg.comparison.hypotheses.restricted import is_unidentified
from probreg.comparison.hypotheses.result import Hypothesis, Test, over_own
from probreg.comparison.hypotheses.scales import parse_scale_test, scale_hypothesis
from probreg.data.formula.functions import functions_called, term_functions
from probreg.data.formula.variables import coefficients_by_term
from probreg.diagnostics.after.functional_form import linearity_test
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.formula.hypothesis import Restriction, matrix, parse_hypothesis
from probreg.inference import Newton
from probreg.inference.base import Status
from probreg.inference.uncertainty.covariance import refuse_settings
from probreg.inference.uncertainty.multiplicity import NO_TESTS, check_adjust

_LINEAR = " is linear"


def linearity_hypothesis(fit: Fit, text: str) -> Hypothesis:
    """Test that a smooth function, or every function of a term, has no range."""
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
    inequality is tested one-sided against its opposite. A posterior gets the probability of inequalities, and for
    equalities the credible level at which they are reached.

    "s(x) is linear" is tau = 0 for the range of a smooth function, on the boundary of the parameter space. For Gaussian
    noise the test is the restricted likelihood ratio with its exact finite-sample distribution, given the scales of other terms
    relative to sigma. For other likelihoods it is the same ratio for the scores at the fit of the line. p-values are simulated.

    "sd(x | g) = 0" means that an effect does not vary by group, for a fit by evidence: the likelihood ratio, restricted if the fit
    is, against an equal mixture of two chi-squares, because zero is on the boundary. "cor(x, z | g) = 0" and "sd(x | g) = 3"
    compare the ratio with chi-square(1); under a posterior "sd(x | g) > 3" has a probability.

    Parameters
    ----------
    fit : Fit
        A fit.
    text : str
        "s(x) is linear", "sd(x | g) = 0", "x1 = x2", "x1 = 0, x2 = 0", "x1 + 2*x2 = 3" or "x1 > 0". Names are coefficients as the fit
        or the formula spells them; a name that is a number needs backquotes, as in "`1` = 0". A term of the formula means all its columns: "C(g) = 0", or
        "C(g)" alone, tests a factor. For a softmax "b: x1 = c: x1", where a bare "x1 = 0" applies to every outcome.
    prob : float
        Probability of every interval, between 0 and 1.
    covariance : str or DataArray, optional
        The name of a kind such as "HC3", "cluster" or "HAC", or the result of `fit.covariance(...)`. It replaces the fit's own and
        leaves Wald's test alone.
    groups : str or array (n,) or pair of these, optional
        For covariance="cluster", as in `fit.covariance`.
    lags : int, optional
        For covariance="HAC", as in `fit.covariance`.
    data : table, optional
        The table that has the column named by `groups`.
    adjust : {"holm", "bonferroni", "single-step"}, optional
        For several equalities of a maximum likelihood fit: `estimates` gain the p-value of each alone (p_unadjusted), the adjusted p_value, and
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
        of a point estimate; for `adjust` where there are no tests to adjust.

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
        return scale_hypothesis(fit, text, scale, prob)
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
    """Return whether some maximum likelihood coefficients run to infinity while the likelihood has a limit."""
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
