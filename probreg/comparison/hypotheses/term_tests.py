"""A table of tests of each term of a formula given others."""

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import chdtrc

from probreg.arguments.scalars import Natural, check_arguments
from probreg.arguments.types import ArrayLike, CovarianceLike, TableLike
from probreg.comparison.hypotheses.point_estimate import (
    PENALISED,
    Combinations,
    describe_scales,
    require_law,
    why_no_likelihood_tests,
)
from probreg.comparison.hypotheses.restricted import independent, likelihood_tests
from probreg.comparison.hypotheses.result import Test, over_own
from probreg.data.formula.variables import coefficients_by_term, factors_by_term
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.prediction import require_predictive
from probreg.inference.uncertainty.covariance import Spread
from probreg.inference.uncertainty.multiplicity import NO_TESTS

if TYPE_CHECKING:
    from pandas import DataFrame

Array = np.ndarray


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
) -> "DataFrame":
    """Test each term of the formula given other terms.

    With normal noise Wald's tests are the F tests of sums of squares, with sigma of the whole model. The intercept, smooth
    functions and random effects have no row: see `hypothesis` for "s(x) is linear" and "sd(x | g) = 0".

    Parameters
    ----------
    fit : Fit
        A point estimate without a prior on the coefficients of its terms.
    test : {"wald", "lr"}
        Wald's test, by F where the fit has degrees of freedom, or the likelihood ratio.
    type : {"I", "II", "III"}
        The other terms in the model of the test. "I" (sequential): the terms before this one. "II": all except the interactions
        that contain this term, so that `a` in "y ~ a * b" is tested without `a:b`, and contrasts do not matter. "III": all, so that
        a test of `a` in "y ~ a * b" depends on the contrasts; `C(a, contr.sum)` is usual.
    covariance : str or DataArray, optional
        For Wald's test: the name of a kind such as "HC3", "cluster" or "HAC", or the result of `fit.covariance(...)`.
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
        `law` ("F" or "chi2"), `statistic` and `p_value`.

    Raises
    ------
    Incompatible
        For a posterior, for coefficients under a prior or not identified, and for a likelihood ratio of a loss that has none.
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

    require_predictive(fit.solution, fit.method)
    if fit.target == "posterior":
        raise Incompatible(NO_TESTS)
    if test == "lr" and covariance is not None:
        raise Incompatible("covariance= is for Wald's test, not for test='lr'")
    spread = None
    if covariance is not None:
        spread = fit.spread(covariance, groups=groups, data=data, lags=lags)
    rows = {}
    for term, (L, left_out) in _combinations_of_terms(fit, type).items():
        if test == "wald":
            result = _wald(fit, term, L, left_out, spread)
        else:
            result = _likelihood_ratio(fit, L, left_out)
        df, *residual = result.df
        rows[term] = {
            "df": int(df),
            "df_resid": residual[0] if residual else np.nan,
            "law": result.law,
            "statistic": result.statistic,
            "p_value": result.p,
        }
    columns = ["df", "df_resid", "law", "statistic", "p_value"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _combinations_of_terms(fit: Fit, type: str) -> dict[str, tuple[Array, Array]]:
    """Return the coefficients of each term as combinations L (q, p m) over vec(beta), and those of the terms left out of its test."""
    design = fit.model.design
    smooth = {term.name for term in design.recipe.terms}
    is_intercept = design.is_intercept[design.ungrouped]
    places = {
        name: columns
        for name, columns in coefficients_by_term(design).items()
        if name not in smooth and not is_intercept[columns].all()
    }
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
        name: (
            combinations([name]),
            combinations([other for other in places if is_left_out(other, name)]),
        )
        for name in places
    }


def _wald(
    fit: Fit, term: str, L: Array, left_out: Array, spread: Spread | None
) -> Test:
    """Test L beta = 0 given that the coefficients of the terms left out are 0: (L - V_12 V_22^-1 L_2) beta = 0."""
    V = (spread or fit.spread()).matrix
    if len(left_out):
        B, B2 = V.half(L), V.half(left_out)
        L = L - np.linalg.lstsq(B2.T, B.T)[0].T @ left_out
    c = Combinations.at(fit, L, np.zeros(len(L)), spread, [])
    require_law(c, term)
    if c.has_prior:
        raise Incompatible(f"no test of the term {term!r}: {PENALISED}")
    tests = {t.name: t for t in c.wald_tests()}
    return tests.get("F", tests["Wald"])


def _likelihood_ratio(fit: Fit, L: Array, left_out: Array) -> Test:
    """Compare two models without the terms left out: with the term and without it."""
    absent = why_no_likelihood_tests(fit)
    if absent is not None:
        raise Incompatible(absent)
    if not fit.model.flat:
        c = Combinations.at(fit, L, np.zeros(len(L)), None, [])
        raise Incompatible(describe_scales(c)[-1])
    if not fit.model.design.has_rows:
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
