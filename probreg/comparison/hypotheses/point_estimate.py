"""Tests of a point estimate: Wald's test, the likelihood ratio and the score test, one by one, as a family, or by term."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import chdtrc

from probreg.arguments.scalars import (
    ArrayLike,
    CovarianceLike,
    DataFrame,
    Natural,
    TableLike,
    check_arguments,
)
from probreg.comparison.hypotheses.restricted import (
    UNIDENTIFIED,
    Hypothesis,
    Test,
    describe_null,
    independent,
    likelihood_tests,
    over_own,
    restriction_table,
    root,
    wald,
)
from probreg.data.formula.functions import coefficients_by_term, factors_by_term
from probreg.errors import Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.fits.goodness import exact_fit, has_tests, has_tests_at_found_scales
from probreg.formula.hypothesis import Restriction, matrix
from probreg.inference.uncertainty.covariance import Spread, refuse_settings
from probreg.inference.uncertainty.found_scales import (
    Satterthwaite,
    satterthwaite,
    why_no_satterthwaite,
)
from probreg.inference.uncertainty.intervals.arithmetic import quantile
from probreg.inference.uncertainty.multiplicity import (
    adjust_tests,
    require_tests,
)
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg.vec import map_of_columns

Array = np.ndarray
_OPPOSITE = {">": "<=", "<": ">="}
_NO_SCORE_TEST = "no score test: under the hypothesis the information about these coefficients is not positive"
PENALISED = (
    "the estimate is the mode under a prior, so that Wald's test is the normal approximation of a posterior. It does not "
    "have the error rate of a test, and there is no likelihood ratio"
)


@dataclass(frozen=True, eq=False)
class Combinations:
    """L beta of an estimate with its covariance; L (q, p m) over vec(beta), r (q,) its values under the null."""

    fit: Fit
    read: Sequence[Restriction]
    L: Array
    r: Array
    spread: Spread
    satterthwaite: Satterthwaite | None

    @classmethod
    def at(
        cls,
        fit: Fit,
        L: Array,
        r: Array,
        covariance: Spread | None,
        read: Sequence[Restriction] = (),
    ) -> "Combinations":
        """The combinations L over vec(beta), with the covariance of the fit unless another one is given as `covariance`."""
        scales = fit.solution.effect_scales
        degrees = None
        if (
            covariance is None
            and scales is not None
            and not why_no_satterthwaite(fit.solution)
        ):
            degrees = satterthwaite(scales)
        spread = covariance or fit.spread()
        return cls(fit, read, L, r, spread, degrees)

    @cached_property
    def value(self) -> Array:
        """L beta (q,)."""
        return self.L @ self.fit.solution.beta.ravel()

    @cached_property
    def half(self) -> Array:
        """B (q, k) with the covariance B B' of the combinations."""
        return self.spread.matrix.half(self.L)

    @property
    def std_error(self) -> Array:
        """(q,)."""
        return np.linalg.norm(self.half, axis=1)

    @property
    def df(self) -> float | Array | None:
        """Degrees of freedom of each combination: (q,) by Satterthwaite, else one number; None for a normal distribution."""
        if self.satterthwaite is None:
            return self.spread.df
        return self.satterthwaite.df(self.L[:, self.fit.model.design.ungrouped])

    @property
    def has_prior(self) -> bool:
        """Whether a combination has a coefficient with an informative prior."""
        model = self.fit.model
        informative = np.repeat(model.joint.informative, model.shape[1])
        return bool(self.L[:, informative].any())

    def wald_tests(self) -> list[Test]:
        """The joint tests of all combinations."""
        restrictions = independent(self.L, self.r)
        df = self.spread.df
        if self.satterthwaite is not None:
            df = self.satterthwaite.joint_df(
                restrictions.L[:, self.fit.model.design.ungrouped]
            )
        beta = self.fit.solution.beta.ravel()
        return wald(restrictions, beta, self.spread.matrix, df)

    def table(self, reach: float | Array) -> Any:
        """The combinations with intervals of `reach` standard errors to each side."""
        columns = {
            "estimate": self.value,
            "std_error": self.std_error,
            "lower": self.value - reach * self.std_error,
            "upper": self.value + reach * self.std_error,
        }
        return restriction_table(self.fit, self.read, columns)


def mode_hypothesis(
    fit: Fit,
    text: str,
    read: list[Restriction],
    *,
    prob: float,
    covariance: Spread | None,
    adjust: str | None,
) -> Hypothesis:
    """The tests of restrictions on a maximum likelihood estimate, or on the mode of a posterior."""
    L, r = matrix(read, len(fit.parameter_names))
    c = Combinations.at(fit, over_own(fit, L), r, covariance, read)
    require_law(c, text)
    estimates = c.table(quantile(prob, c.df))
    notes = () if fit.model.flat else describe_scales(c)
    if covariance is not None:
        notes += (f"covariance: {covariance.words.get('kind', 'given')}",)
    if read[0].relation != "=":
        if adjust is not None:
            raise Incompatible(
                "adjust= is for equalities, each against both sides; an inequality is tested alone"
            )
        return replace(_test_inequality(c, text), estimates=estimates, notes=notes)
    test_results = c.wald_tests()
    absent = why_no_likelihood_tests(fit)
    if absent is not None:
        notes += (absent,)
    if covariance is None and not notes:
        try:
            extra_tests = likelihood_tests(fit, independent(c.L, c.r))
        except NotConverged as error:
            notes += (str(error),)
        else:
            test_results += extra_tests
            if not extra_tests:
                notes += (
                    f"no likelihood ratio and no score test, which need the rows: {fit.model.design.rows_absent}",
                )
            elif len(extra_tests) == 1:
                notes += (_NO_SCORE_TEST,)
    null = describe_null(fit, read)
    result = Hypothesis(
        text, null, estimates, {t.name: t for t in test_results}, notes=notes
    )
    if adjust is None:
        return result
    return _adjust_family(result, c, prob=prob, adjust=adjust)


def require_law(c: Combinations, text: str) -> None:
    """Raise Incompatible unless the combinations have standard errors with a known null distribution."""
    fit = c.fit
    words = c.spread.words
    if np.isnan(c.half).any():
        none = words.get("kind") == "none"
        reason = words["definition"] if none else fit.solution.reason_without_errors
        raise Incompatible(
            f"{fit.method.name} gives no standard error here, so there is no test of {text!r}: {reason}"
        )
    contrast = fit.model.joint.contrast
    if contrast is not None:
        L, _ = matrix(c.read, len(fit.parameter_names))
        if L.reshape(len(L), -1, len(contrast)).sum(-1).any():
            raise Incompatible(
                f"there is no test of {text!r}: the penalty of all classes fixes a shift that is common to the classes of a column. "
                "Test a difference between two classes"
            )
    if exact_fit(fit):
        raise Incompatible(
            f"the fit is exact: residuals are rounding, so that no test of {text!r} has a value"
        )


def _test_inequality(c: Combinations, text: str) -> Hypothesis:
    """The one-sided test of one inequality against its opposite."""
    if len(c.read) > 1:
        raise Incompatible(
            f"the hypothesis {text!r} has {len(c.read)} inequalities: a point estimate is tested against one at a time; "
            "a posterior has the probability of all together"
        )
    (restriction,) = c.read
    names = c.fit.parameter_names
    df = None if c.df is None else float(np.ravel(c.df)[0])
    t = float((c.value[0] - c.r[0]) / c.std_error[0])
    test = root(t, df, tail=1 if restriction.relation == ">" else -1)
    null = f"{restriction.format_combination(names)} {_OPPOSITE[restriction.relation]} {c.r[0]:.6g} (against {restriction.words(names)})"
    return Hypothesis(text, null, None, {test.name: test})


def why_no_likelihood_tests(fit: Fit) -> str | None:
    """Return why the fit has no likelihood ratio and score test; None if it has both."""
    test_names = "likelihood ratio and score test"
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, SmoothLikelihood):
        return f"no {test_names}: the log-likelihood of {likelihood.name} has kinks, where it has no derivative"
    return fit.model.design.without_likelihood(test_names)


def describe_scales(c: Combinations) -> tuple[str, ...]:
    """Notes on the tests of a mode under a prior, or at scales found by evidence."""
    if not has_tests(c.fit) or c.has_prior:
        return (PENALISED,)
    notes: tuple[str, ...] = ()
    if c.satterthwaite is not None:
        notes = ("denominator degrees of freedom: Satterthwaite's",)
    elif str(c.spread.words.get("kind")) != "joint":
        notes = ("standard deviations of effects are taken as known",)
    alternative = "compare the log-likelihoods of two ML fits"
    scales = c.fit.solution.effect_scales
    if scales is None or not has_tests_at_found_scales(c.fit):
        alternative = (
            "compare_models compares fits with smooth functions by leave-one-out"
        )
    elif scales.criterion == "REML":
        alternative = "REML compares only models of the same flat columns"
    return (*notes, f"no likelihood ratio and no score test: {alternative}")


def _adjust_family(
    result: Hypothesis, c: Combinations, *, prob: float, adjust: str
) -> Hypothesis:
    """The equalities with adjusted p-values and simultaneous intervals."""
    require_tests(has_tests(c.fit) and not c.has_prior, c.std_error)
    adjusted = adjust_tests(
        (c.value - c.r) / c.std_error, c.half @ c.half.T, c.df, prob=prob, adjust=adjust
    )
    estimates = c.table(adjusted.critical).assign(
        p_unadjusted=adjusted.alone, p_value=adjusted.p
    )
    note = (
        f"p-values and intervals of the equalities are simultaneous: {adjusted.words}"
    )
    return replace(result, estimates=estimates, notes=(*result.notes, note))


def limit_hypothesis(fit: Fit, text: str, read: list[Restriction]) -> Hypothesis:
    """Return the likelihood tests of coefficients that go to infinity and so have no estimate and no Wald test."""
    if read[0].relation != "=":
        raise Incompatible(
            f"there is no test of {text!r}, because the estimate is infinite: test the equality by its likelihood ratio, or "
            "give a prior and ask the posterior"
        )
    pseudo = fit.model.design.without_likelihood("likelihood ratio and score test")
    if pseudo is not None:
        raise Incompatible(pseudo)
    L, r = matrix(read, len(fit.parameter_names))
    nothing = np.full(len(read), np.nan)
    table = restriction_table(
        fit, read, dict.fromkeys(("estimate", "std_error", "lower", "upper"), nothing)
    )
    tests = likelihood_tests(fit, independent(over_own(fit, L), r))
    notes: tuple[str, ...] = (
        "a coefficient has no finite estimate, so there is no Wald test; the likelihood ratio uses the limit of the likelihood",
    )
    if len(tests) == 1:
        notes += (_NO_SCORE_TEST,)
    return Hypothesis(
        text, describe_null(fit, read), table, {t.name: t for t in tests}, notes=notes
    )


# ---- a table of tests of each term of a formula given others --------------------------------------------------------


@check_arguments
def anova(
    fit: Fit,
    test: Literal["wald", "lr"] = "wald",
    *,
    type: Literal["I", "II", "III"] = "II",
    covariance: CovarianceLike | None = None,
    groups: str | ArrayLike | tuple[str, str] | None = None,
    lags: Natural | None = None,
    data: TableLike | None = None,
) -> DataFrame:
    """Test each term of the formula given other terms.

    With normal noise Wald's tests are the F tests of sums of squares, with sigma of the whole model. The intercept, smooth
    functions and random effects have no row: see `hypothesis` for "s(x) is linear" and "sd(x | g) = 0".

    Parameters
    ----------
    fit : Fit
        A point estimate without a prior on the coefficients of its terms.
    test : {"wald", "lr"}
        Wald's test, by F if the fit has degrees of freedom, or the likelihood ratio.
    type : {"I", "II", "III"}
        The other terms in the model of the test. "I" (sequential): the terms before this one. "II": all except the interactions
        that contain this term, so that `a` in "y ~ a * b" is tested without `a:b`, and contrasts do not matter. "III": all, so that
        a test of `a` in "y ~ a * b" depends on the contrasts; `C(a, contr.sum)` is usual.
    covariance : str or DataArray, optional
        For Wald's test: the name of a kind ("HC3", "cluster", "HAC", ...) or the result of `fit.covariance(...)`.
    groups : str or array (n,) or pair of these, optional
        For covariance="cluster", as in `fit.covariance`.
    lags : int, optional
        For covariance="HAC", as in `fit.covariance`.
    data : table, optional
        The table that has the column named by `groups`.

    Returns
    -------
    DataFrame
        One row for each term: its number of coefficients `df`, the degrees of freedom `df_resid` of an F test (else nan),
        `law` ("F" or "chi2"), `statistic` and `p_value`. If columns are combinations of others, `df` counts only the
        coefficients that the rows identify, and a term with 0 has no test (nan).

    Raises
    ------
    Incompatible
        For a posterior, for coefficients under a prior, and for a likelihood ratio of a loss that has none.
    NotConverged
        Without an estimate.

    References
    ----------
    Langsrud 2003; Fox & Weisberg 2019, ch. 5.

    Examples
    --------
    >>> from probreg import ols
    >>> data = {"y": [1.0, 2.0, 4.0, 3.0, 6.0, 7.0], "x": [1.0, 2.0, 6.0, 0.0, 4.0, 5.0], "g": list("aabbcc")}
    >>> anova(ols("y ~ x + g", data)).round(3)
       df  df_resid law  statistic  p_value
    x   1       2.0   F       2.56    0.251
    g   2       2.0   F      20.19    0.047
    >>> anova(ols("y ~ x + g", data), type="I")["statistic"].round(2).tolist()
    [39.19, 20.19]
    """
    import pandas as pd

    require_predictive(fit)
    if fit.target == "posterior":
        raise Incompatible(
            "anova tests the terms of a maximum likelihood fit, and a posterior has no tests: use hypothesis(fit, 'x = 0') for the "
            "credible level of a value, or compare_models for fits with and without a term"
        )
    if test == "lr" and covariance is not None:
        raise Incompatible("covariance= is for Wald's test, not for test='lr'")
    refuse_settings(covariance, groups=groups, lags=lags, data=data)
    spread = None
    if covariance is not None:
        spread = fit.spread(covariance, groups=groups, data=data, lags=lags)
    columns = ["df", "df_resid", "law", "statistic", "p_value"]
    rows = {}
    for term, (L, left_out) in _combinations_of_terms(fit, type).items():
        if not len(L):
            rows[term] = dict.fromkeys(columns, np.nan) | {"df": 0, "law": ""}
            continue
        if test == "wald":
            result = _wald_test_of_term(fit, term, L, left_out, spread)
        else:
            result = _likelihood_ratio_of_term(fit, L, left_out)
        df, *residual = result.df
        rows[term] = {
            "df": int(df),
            "df_resid": residual[0] if residual else np.nan,
            "law": result.law,
            "statistic": result.statistic,
            "p_value": result.p,
        }
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _combinations_of_terms(fit: Fit, type: str) -> dict[str, tuple[Array, Array]]:
    """Return for each term the combinations L (q, p m) over vec(beta) of its coefficients, and of the terms left out of its test."""
    design = fit.model.design
    smooth = {term.name for term in design.recipe.terms}
    is_intercept = design.is_intercept[design.ungrouped]
    places = {
        name: columns
        for name, columns in coefficients_by_term(design).items()
        if name not in smooth and not is_intercept[columns].all()
    }
    if not places:
        return {}
    # by column and outcome
    unit = over_own(fit, np.eye(len(fit.parameter_names)))
    unit = unit.reshape(len(design.ungrouped), -1, unit.shape[1])
    parts = {name: ("", frozenset((name,))) for name in places}
    parts |= factors_by_term(design)
    order = list(places)

    def is_left_out(other: str, name: str) -> bool:
        (prefix, factors), (other_prefix, other_factors) = parts[name], parts[other]
        if type == "III" or other_prefix != prefix:
            return False
        if type == "II":
            return factors < other_factors
        return order.index(other) > order.index(name)

    def combinations(names: list[str]) -> Array:
        columns = [j for name in names for j in places[name]]
        return unit[columns].reshape(-1, unit.shape[-1])

    return {
        name: _identified_part(
            fit,
            combinations([name]),
            combinations([other for other in places if is_left_out(other, name)]),
        )
        for name in places
    }


def _identified_part(fit: Fit, L: Array, left_out: Array) -> tuple[Array, Array]:
    """Return the parts of L and `left_out` that the rows identify, with orthonormal rows for standardised columns.

    A combination along a direction without an estimate restricts no linear predictor, so that it has no degree of
    freedom. The models with left_out beta = 0, and with L beta = 0 too, fit the same values as before.
    """
    if fit.solution.null_space is None:
        return L, left_out
    m = fit.model.shape[1]
    scale = np.repeat(fit.model.design.frame.scale, m)
    N = map_of_columns(fit.solution.null_space, m) * scale[:, None]

    def identified(rows: Array) -> Array:
        """All combinations of the rows that are 0 along the directions without an estimate."""
        U, size, _ = np.linalg.svd(rows @ N)
        rank = int((size > UNIDENTIFIED * np.linalg.norm(N)).sum())
        return U[:, rank:].T @ rows

    def basis_of(rows: Array) -> Array:
        """An orthonormal basis of the space of the rows."""
        _, size, basis = np.linalg.svd(rows, full_matrices=False)
        return basis[size > UNIDENTIFIED]

    omitted = basis_of(identified(left_out))
    both = identified(np.vstack([L, left_out]))
    tested = basis_of(both - both @ omitted.T @ omitted)
    return tested * scale, omitted * scale


def _wald_test_of_term(
    fit: Fit, term: str, L: Array, left_out: Array, spread: Spread | None
) -> Test:
    """Test L beta = 0 given that the coefficients of the terms left out are 0: (L - V_12 V_22^-1 L_2) beta = 0."""
    c = Combinations.at(fit, L, np.zeros(len(L)), spread)
    require_law(c, term)
    if c.has_prior:
        raise Incompatible(f"no test of the term {term!r}: {PENALISED}")
    if len(left_out):
        B2 = c.spread.matrix.half(left_out)
        c = replace(c, L=L - np.linalg.lstsq(B2.T, c.half.T)[0].T @ left_out)
    tests = {t.name: t for t in c.wald_tests()}
    return tests.get("F", tests["Wald"])


def _likelihood_ratio_of_term(fit: Fit, L: Array, left_out: Array) -> Test:
    """Compare two models without the terms left out: with the term and without it."""
    absent = why_no_likelihood_tests(fit)
    if absent is not None:
        raise Incompatible(absent)
    if not fit.model.flat:
        c = Combinations.at(fit, L, np.zeros(len(L)), None)
        raise Incompatible(describe_scales(c)[-1])
    if not (fit.model.likelihood.least_squares or fit.model.design.has_rows):
        raise Incompatible(f"no likelihood ratio: {fit.model.design.rows_absent}")

    def ratio(restricted: Array) -> float:
        tests = likelihood_tests(
            fit, independent(restricted, np.zeros(len(restricted)))
        )
        return tests[0].statistic

    q = len(L)
    statistic = ratio(np.vstack([L, left_out]))
    if len(left_out):
        statistic = max(statistic - ratio(left_out), 0.0)
    return Test("LR", statistic, "chi2", (q,), float(chdtrc(q, statistic)))
