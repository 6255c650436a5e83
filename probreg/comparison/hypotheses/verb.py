"""The one verb of this room: a fit and a text in, a Hypothesis out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.arguments.scalars import Names, Natural, Probability, Word, check_arguments
from probreg.arguments.types import ArrayLike, CovarianceLike, TableLike
from probreg.assess.after.linearity import LinearityTest, linearity_test
from probreg.comparison.hypotheses.posterior import (
    Belief,
    described_combinations,
    of_equalities,
    of_inequalities,
    over_own,
    savage_dickey,
)
from probreg.comparison.hypotheses.restricted import (
    estimable,
    independent,
    likelihood_tests,
    root,
    wald,
)
from probreg.comparison.hypotheses.result import Hypothesis, Test
from probreg.comparison.hypotheses.scales import asked_of_scale, of_scale
from probreg.comparison.hypotheses.variance import asks_variance, of_variance
from probreg.data.formula.functions import functions_called, term_functions
from probreg.data.formula.variables import terms
from probreg.data.weights import without_likelihood
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit, flat_at_found_scales, has_tests
from probreg.fits.prediction import require_predictive
from probreg.formula.hypothesis import Restriction, matrix, parse_hypothesis
from probreg.inference import Newton
from probreg.inference.base import Status
from probreg.inference.uncertainty.covariance import Spread
from probreg.inference.uncertainty.found_scales import (
    Satterthwaite,
    satterthwaite,
    why_no_satterthwaite,
)
from probreg.inference.uncertainty.intervals.arithmetic import quantile
from probreg.inference.uncertainty.multiplicity import (
    NO_TESTS,
    adjusted,
    check_adjust,
    require_tests,
)
from probreg.likelihoods import SmoothLikelihood

Array = np.ndarray
_LINEAR = " is linear"
_OPPOSITE = {">": "<=", "<": ">="}
PENALISED = (
    "the estimate is the mode under a prior, so that Wald's test is the normal approximation of a posterior. It does not "
    "have the error rate of a test, and there is no likelihood ratio"
)


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
    tests: Names = ("wald", "likelihood"),
    adjust: Word | None = None,
    bootstrap: Natural | None = None,
) -> Hypothesis:
    """A test of L beta = r, or the probability of L beta > r, as `text` says it; "s(x) is linear" tests a smooth function.

    A maximum likelihood fit gets Wald's test (F and t for least squares), the likelihood ratio and the score test. One
    inequality is tested one-sided against its opposite. A posterior gets the probability of inequalities, and for
    equalities the credible level at which they are reached.

    "s(x) is linear" is tau = 0 of the range of a smooth function, at the edge of the parameters. For Gaussian noise it
    is the restricted likelihood ratio by its exact law in finite samples, given the scales of other terms relative to
    sigma. For other likelihoods it is the same ratio for the scores at the fit of the line. p-values are simulated.

    "sd(x | g) = 0" is that an effect does not vary by group, of a fit by evidence: the likelihood ratio, restricted where the fit
    is, against a mixture of chi-squares half each, since zero is the edge of a standard deviation. "cor(x, z | g) = 0" and "sd(x | g) = 3"
    have the ratio against chi-square(1); of a posterior "sd(x | g) > 3" has a probability.

    Parameters
    ----------
    fit : Fit
        A fit.
    text : str
        "s(x) is linear", "sd(x | g) = 0", "x1 = x2", "x1 = 0, x2 = 0", "x1 + 2*x2 = 3" or "x1 > 0". Names are coefficients as the fit
        or the formula spells them; a name that is a number needs backquotes, as in "`1` = 0". A term of the formula stands for all its columns: "C(g) = 0", or
        "C(g)" alone, tests a factor. For a softmax "b: x1 = c: x1", where a bare "x1 = 0" is said of every outcome.
    prob : float
        Probability of every interval, between 0 and 1.
    covariance : str or DataArray, optional
        The name of a kind such as "HC3", "cluster" or "HAC", or what `fit.covariance(...)` returned. It replaces the fit's own and
        leaves Wald's test alone, as `tests="wald"` does.
    groups : str or array (n,) or pair of these, optional
        For covariance="cluster", as in `fit.covariance`.
    lags : int, optional
        For covariance="HAC", as in `fit.covariance`.
    data : table, optional
        The table in which a name of `groups` stands.
    tests : str or list of str
        "wald", "likelihood" or both.
    adjust : {"holm", "bonferroni", "single-step"}, optional
        Of several equalities of a maximum likelihood fit: `estimates` gain the p-value of each alone (p_unadjusted), the adjusted p_value, and
        intervals that hold for all together. "single-step" uses their joint law.

    bootstrap : int, optional
        Of "sd(x | g) = 0": the number of responses drawn under the null, to each of which both models are fitted.

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
        require_predictive(fit.solution, fit.method)
    check_adjust(adjust)
    if covariance is None and (
        groups is not None or lags is not None or data is not None
    ):
        raise DataError(
            "groups=, lags= and data= go with covariance='cluster' or covariance='HAC'"
        )
    if bootstrap is not None and not asks_variance(text):
        raise Incompatible(
            "bootstrap= is for a standard deviation of effects by group, such as 'sd(x | g) = 0'"
        )
    if asks_variance(text):
        if adjust is not None or covariance is not None:
            raise Incompatible(
                "adjust= and covariance= are for coefficients: a standard deviation of zero is one test"
            )
        return of_variance(fit, text, bootstrap)
    asked = asked_of_scale(fit, text)
    if asked is not None:
        if adjust is not None or covariance is not None:
            raise Incompatible(
                "adjust= and covariance= are for coefficients: a scale against a number is one test"
            )
        return of_scale(fit, text, asked, prob)
    if isinstance(text, str) and text.rstrip().endswith(_LINEAR):
        if adjust is not None:
            raise Incompatible(
                "adjust= is for equalities of coefficients: 'is linear' is one test of all its functions"
            )
        return _of_function(fit, text)
    outcomes = fit.model.likelihood.outcomes
    design = fit.model.design
    smooth = {t.name for t in design.recipe.terms}
    number = {int(j): i for i, j in enumerate(design.head)}
    whole = {
        name: [number[j] for j in at]
        for name, at in terms(design).items()
        if number.keys() >= set(at)
    }
    read = parse_hypothesis(
        text, design.head_columns, outcomes, terms=whole, smooth=smooth
    )
    estimable(fit, over_own(fit, matrix(read, len(fit.parameter_names))[0]))
    relations = {one.relation for one in read}
    if len(relations & {">", "<"}) and "=" in relations:
        raise Incompatible(
            f"the hypothesis {text!r} mixes equalities with inequalities: state them one after the other"
        )
    if fit.target == "posterior":
        if covariance is not None:
            raise Incompatible(
                "covariance= is for point estimates: a posterior has its own spread"
            )
        if adjust is not None:
            raise Incompatible(NO_TESTS)
        return _of_posterior(fit, text, read, prob=prob)
    if unbounded and _touches_limit(fit, read):
        if (
            covariance is not None
            or adjust is not None
            or "likelihood" not in _parse_tests(tests)
        ):
            require_predictive(fit.solution, fit.method)
        return _of_limit(fit, text, read, prob=prob)
    if covariance is None:
        given = None
    else:
        given = fit.spread(covariance, groups=groups, data=data, lags=lags)
    found = _of_mode(fit, text, read, prob=prob, given=given, tests=_parse_tests(tests))
    if adjust is None:
        return found
    return _in_family(fit, found, read, prob=prob, given=given, adjust=adjust)


def _has_limit(fit: Fit) -> bool:
    """A maximum likelihood fit some of whose coefficients run to infinity, where the likelihood has a limit."""
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
        (np.abs(L) @ fit.solution.not_estimable[fit.model.design.head].ravel()).any()
    )


def _of_limit(
    fit: Fit, text: str, read: list[Restriction], *, prob: float
) -> Hypothesis:
    """The tests of the likelihood of coefficients that run to infinity, which have no estimate and no Wald test."""
    if read[0].relation != "=":
        raise Incompatible(
            f"there is no test of {text!r}, because the estimate is infinite: test the equality by its likelihood ratio, or "
            "give a prior and ask the posterior"
        )
    pseudo = without_likelihood(
        fit.model.design.weight_kind, "likelihood ratio and score test"
    )
    if pseudo is not None:
        raise Incompatible(pseudo)
    L, r = matrix(read, len(fit.parameter_names))
    nothing = np.full(len(read), np.nan)
    table = _restriction_table(
        fit, read, dict.fromkeys(("estimate", "std_error", "lower", "upper"), nothing)
    )
    tests = likelihood_tests(fit, independent(over_own(fit, L), r))
    notes: tuple[str, ...] = (
        "a coefficient has no finite estimate, so there is no Wald test; the likelihood ratio uses the limit of the likelihood",
    )
    if "score" not in {t.name for t in tests}:
        notes += (
            "no score test: under the hypothesis the rows have no information about these coefficients",
        )
    return Hypothesis(
        text, _null(fit, read), table, {t.name: t for t in tests}, notes=notes
    )


def _parse_tests(tests: str | Sequence[str]) -> tuple[str, ...]:
    chosen = (tests,) if isinstance(tests, str) else tuple(tests)
    wrong = [t for t in chosen if t not in ("wald", "likelihood")]
    if wrong:
        raise DataError(
            f"tests are 'wald' and 'likelihood' (the ratio and the score), got {wrong[0]!r}"
        )
    return chosen


def _of_mode(
    fit: Fit,
    text: str,
    read: list[Restriction],
    *,
    prob: float,
    given: Spread | None,
    tests: tuple[str, ...],
) -> Hypothesis:
    L, r = matrix(read, len(fit.parameter_names))
    V, df, words = given or fit.spread()
    degrees = _satterthwaite(fit) if given is None else None
    contrast = fit.model.joint.contrast
    shifted = (
        contrast is not None and L.reshape(len(L), -1, len(contrast)).sum(-1).any()
    )
    each = df if degrees is None else degrees.df(L)
    beta, L = (
        fit.solution.beta.ravel(),
        over_own(fit, L),
    )  # from here on over the model's own coefficients
    B = V.half(L)
    if np.isnan(B).any():
        none = words.get("kind") == "none"
        if none:
            why = words["definition"]
        else:
            why = fit.described["status"]
        raise Incompatible(
            f"{fit.method.name} gives no standard error here, so there is no test of {text!r}: {why}"
        )
    if shifted:
        raise Incompatible(
            f"there is no test of {text!r}: the penalty of all classes fixes a shift that is common to the classes of a column. "
            "Test a difference between two classes"
        )
    if exact_fit(fit):
        raise Incompatible(
            f"the fit is exact: residuals are rounding, so that no test of {text!r} has a value"
        )
    se = np.linalg.norm(B, axis=1)
    half = quantile(prob, each) * se
    value = L @ beta
    estimates = _restriction_table(
        fit,
        read,
        {
            "estimate": value,
            "std_error": se,
            "lower": value - half,
            "upper": value + half,
        },
    )
    notes: tuple[str, ...] = (
        ()
        if fit.model.flat
        else _of_found_scales(fit, L, degrees is not None, str(words.get("kind")))
    )
    notes += (f"covariance: {words.get('kind', 'given')}",) if given is not None else ()
    if read[0].relation != "=":
        if len(read) > 1:
            raise Incompatible(
                f"the hypothesis {text!r} has {len(read)} inequalities: a point estimate is tested against one at a time; "
                "a posterior has the probability of all together"
            )
        sign = 1 if read[0].relation == ">" else -1
        test = root(
            float((value[0] - r[0]) / se[0]),
            df
            if degrees is None
            else float(degrees.df(L[:, fit.model.design.head])[0]),
            tail=sign,
        )
        opposite = _OPPOSITE[read[0].relation]
        null = f"{read[0].format_combination(fit.parameter_names)} {opposite} {r[0]:.6g} (against {read[0].words(fit.parameter_names)})"
        return Hypothesis(text, null, estimates, {test.name: test}, notes=notes)
    kept = independent(L, r)
    if degrees is not None:
        df = degrees.joint_df(kept.L[:, fit.model.design.head])
    found = wald(kept, beta, V, df)
    absent = _why_no_likelihood_tests(fit)
    if absent is not None:
        if "wald" not in tests:
            raise Incompatible(absent)
        notes += (absent,)
    if "likelihood" in tests and given is None and not notes:
        more = likelihood_tests(fit, kept)
        found += more
        lost = f"no likelihood ratio and no score test, which need the rows: {fit.model.design.rows_absent}"
        notes += () if more else (lost,)
    if "wald" not in tests:
        found = [t for t in found if t.name in ("LR", "score")]
    return Hypothesis(
        text, _null(fit, read), estimates, {t.name: t for t in found}, notes=notes
    )


def _why_no_likelihood_tests(fit: Fit) -> str | None:
    """Why the fit has no likelihood ratio and no score test; None where it has both."""
    what = "likelihood ratio and score test"
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, SmoothLikelihood):
        return f"no {what}: the log-likelihood of {likelihood.name} has kinks, where it has no derivative"
    return without_likelihood(fit.model.design.weight_kind, what)


def _satterthwaite(fit: Fit) -> Satterthwaite | None:
    """Degrees of freedom of REML, where they are approximated."""
    found = fit.solution.found
    if found is None or why_no_satterthwaite(fit.solution):
        return None
    return satterthwaite(found)


def _of_found_scales(fit: Fit, L: Array, degrees: bool, kind: str) -> tuple[str, ...]:
    """What a reader has to know of tests of a mode: that it is one under a prior, or at scales found by evidence."""
    under = np.repeat(fit.model.joint.informative, fit.model.shape[1])
    if not flat_at_found_scales(fit) or L[:, under].any():
        return (PENALISED,)
    if fit.solution.found is not None and fit.solution.found.criterion == "REML":
        criterion = "REML"
    else:
        criterion = "ML"
    first = (
        ("denominator degrees of freedom: Satterthwaite's",)
        if degrees
        else (
            ("standard deviations of effects are taken as known",)
            if kind != "joint"
            else ()
        )
    )
    if criterion == "REML":
        other = "REML compares only models of the same flat columns"
    else:
        other = "compare the log-likelihoods of two ML fits"
    return (*first, f"no likelihood ratio and no score test: {other}")


def _in_family(
    fit: Fit,
    found: Hypothesis,
    read: list[Restriction],
    *,
    prob: float,
    given: Spread | None,
    adjust: str,
) -> Hypothesis:
    """The equalities with adjusted p-values, and intervals that hold for all together."""
    if read[0].relation != "=":
        raise Incompatible(
            "adjust= is for equalities, each against both sides; an inequality is tested alone"
        )
    L, r = matrix(read, len(fit.parameter_names))
    V, df, _ = given or fit.spread()
    L = over_own(fit, L)
    B = V.half(L)
    cov = B @ B.T
    se = np.sqrt(np.diagonal(cov))
    value = L @ fit.solution.beta.ravel()
    under = np.repeat(fit.model.joint.informative, fit.model.shape[1])
    require_tests(has_tests(fit) and not L[:, under].any(), se)
    each: float | Array | None = df
    if given is None and (degrees := _satterthwaite(fit)) is not None:
        each = degrees.df(L[:, fit.model.design.head])
    made = adjusted((value - r) / se, cov, each, prob=prob, adjust=adjust)
    ends = {"lower": value - made.critical * se, "upper": value + made.critical * se}
    ends |= {"p_unadjusted": made.alone, "p_value": made.p}
    note = f"p-values and intervals of the equalities are simultaneous: {made.words}"
    return replace(
        found, estimates=found.estimates.assign(**ends), notes=(*found.notes, note)
    )


def _of_function(fit: Fit, text: str) -> Hypothesis:
    """The test that a smooth function, or every function of a term, has no range."""
    functions = functions_called(
        fit.model.design, text.rstrip().removesuffix(_LINEAR).strip()
    )
    found: LinearityTest = linearity_test(fit, functions)
    names = [f.label for f in functions]
    flat = {len(f.of.flat) for f in functions}
    if flat == {1}:
        what = "a straight line"
    elif flat == {0}:
        what = "constant"
    else:
        what = "in the null space of its penalty"
    table = fit.smooths.loc[names, ["edf", "columns"]].reset_index()
    notes: tuple[str, ...] = (
        "the p-value is from 20,000 draws of the statistic under the null, with a fixed seed",
    )
    if len(term_functions(fit.model.design)) > len(functions):
        notes += (
            "the scales of the other smooth functions are taken as known, relative to the noise",
        )
    test = Test(found.name, found.statistic, "simulated", (), found.p)
    null = (
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are each'} {what}: tau = 0"
    )
    return Hypothesis(text, null, table, {found.name: test}, notes=notes)


def _of_posterior(
    fit: Fit, text: str, read: list[Restriction], *, prob: float
) -> Hypothesis:
    L, r = matrix(read, len(fit.parameter_names))
    estimates = _restriction_table(fit, read, described_combinations(fit, L, prob))
    if read[0].relation != "=":
        sign = np.array([1.0 if one.relation == ">" else -1.0 for one in read])
        beliefs: tuple[Belief, ...] = (of_inequalities(fit, L, r, sign),)
        return Hypothesis(text, _null(fit, read), estimates, {}, beliefs)
    D = over_own(fit, np.eye(L.shape[1]))
    internal = independent(L @ D, r)
    kept = internal.L @ np.linalg.pinv(D)
    note = "an equality has posterior probability zero; what is given is how wide a credible region must be to reach it"
    belief = of_equalities(fit, kept, internal.r)
    return Hypothesis(
        text,
        _null(fit, read),
        estimates,
        {},
        (belief,),
        savage_dickey(fit, internal.L, internal.r),
        (note,),
    )


def _restriction_table(
    fit: Fit, read: list[Restriction], columns: dict[str, Array]
) -> Any:
    import pandas as pd

    names = fit.parameter_names
    left = {
        "combination": [one.format_combination(names) for one in read],
        "value": [one.value for one in read],
    }
    return pd.DataFrame(left | columns)


def _null(fit: Fit, read: list[Restriction]) -> str:
    return ", ".join(one.words(fit.parameter_names) for one in read)
