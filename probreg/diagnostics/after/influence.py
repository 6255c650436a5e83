"""Influence of single rows: leverage, studentised residuals, Cook's distance, DFFITS, DFBETAS, and the outlier test."""

from collections.abc import Sequence
from functools import partial
from math import nan
from typing import Any, ClassVar

import numpy as np
from scipy.special import chdtr, fdtr, stdtr

from probreg.arguments.scalars import Dataset, check_arguments
from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    heavier_tails,
    require_counts,
)
from probreg.diagnostics.after.fit_arrays import (
    LEAST,
    FitArrays,
    StatisticOfDataSets,
    arrays_of_fit,
    deletion_arrays,
    simulated_p_value,
)
from probreg.diagnostics.before.sample import two_values
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    STRONG,
    Finding,
    NotApplicable,
    Verdict,
)
from probreg.fits.fit import Fit
from probreg.fits.inference_data import coefficient_dims, model_coordinates, row_labels
from probreg.fits.residuals import (
    deviance_residuals,
    predictor,
    require_rows_and_estimate,
    tails,
)
from probreg.likelihoods import OfTrials
from probreg.system.terminal import few_names, format_p, percent

Array = np.ndarray

# shares of samples of the model with as large a measure, for a note and for a warning
UNCOMMON, RARE = 0.1, 0.01


class DeletionDiagnostic(Diagnostic):
    """A measure of the change without a row: a note from `noted` on if fewer than one in ten samples of the model have as large a
    measure, a warning from `warned` on if fewer than one in a hundred do. With few rows, one of them always has a large measure."""

    when = "flat or normal priors"
    picture = "plot.diagnose"
    noted: ClassVar[float]
    warned: ClassVar[float]

    def require(self, fit: Fit) -> None:
        super().require(fit)
        fit.once(deletion_arrays)
        if fit.model.design.total <= fit.model.shape[0] + 1:
            raise NotApplicable("too few observations")

    def report_influence(
        self,
        fit: Fit,
        sentence: str,
        size: float,
        largest: StatisticOfDataSets,
        rows: Sequence[object] = (),
        columns: Sequence[str] = (),
    ) -> list[Finding]:
        """Return the findings of rows without which a coefficient has no estimate, and of the largest measure `size`.

        A share of samples of the model reach this measure; it is not reported below `noted`.
        """
        pieces = fit.once(deletion_arrays)
        alone = np.isnan(pieces.influence.cook[0]) & (pieces.w > 0)
        findings = []
        if alone.any():
            names = fit.model.design.row_names[alone].tolist()
            singular = f"a coefficient has no estimate without row {names[0]}"
            if len(names) > 1:
                singular += f" ({len(names) - 1} more: {few_names(names[1:])})"
            remedy = "check the row; drop its column, or give it a prior"
            findings = self.report(singular, Verdict.NOTE, remedy, rows=names)
        if size < self.noted:
            return findings or self.report(sentence, statistic=size)
        share = simulated_p_value(fit, largest, arrays=deletion_arrays)
        if share is None:
            share = nan
        else:
            bound = "at most " * (share <= LEAST)
            sentence += f"; {bound}{percent(share, 2)} of samples of the model have as large a change"
        tested: dict[str, Any] = {"statistic": size, "p_value": share}
        if share >= UNCOMMON:
            return findings + self.report(sentence, **tested)
        verdict = Verdict.WARNING
        if size < self.warned or share >= RARE:
            verdict = Verdict.NOTE
        several = len(rows) > 1
        remedy = f"check the row{'s' * several}, and report the fit without {'them' if several else 'it'} too"
        return findings + self.report(
            sentence, verdict, remedy, columns, rows, **tested
        )


@check_arguments
def influence_measures(fit: Fit) -> Dataset:
    """Return the change of the estimate without one observation of each row, and related measures.

    They are exact for least squares, otherwise one Newton step from the estimate: of the coefficients by the expected information,
    and of all parameters by the observed one for several formulas, censored and truncated responses, and likelihoods with a nuisance
    parameter that is correlated with the coefficients (ordered classes, Beta, Weibull, zero-inflated). A posterior is evaluated at its mean. Values
    are nan for rows with leverage 1, and for rows of weight 0, which have leverage 0. For a softmax internal, studentised and dffits are lengths, without a sign.

    Parameters
    ----------
    fit : Fit
        A fit.

    Returns
    -------
    Dataset (obs)
        leverage: h_i, the diagonal of the hat matrix (its trace over several predictors), which sums to the number of parameters;
        internal: the internally studentised residual, which is the Pearson residual over sqrt(1 - h_i) with h_i by the expected
        information, and nan without a formula for it; studentised: the externally
        studentised one, with sigma estimated without the observation, for other likelihoods the deletion residual of Williams (1987); cook: Cook's distance; dffits:
        change of the linear predictor in its standard errors; dfbetas (obs, coef): change beta - beta_(i) in standard
        errors.

    Raises
    ------
    DataError
        Without rows.
    NotConverged
        Without an estimate.
    Incompatible
        With a prior that is not quadratic, or a likelihood with kinks.

    References
    ----------
    Belsley, Kuh & Welsch 1980; Pregibon 1981; Cook 1986; Williams 1987.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_arrays([1.0, 2.0, 3.0, 9.0], [1.0, 2.0, 2.0, 7.0]))
    >>> influence_measures(fit)["leverage"].round(3).values.tolist()
    [0.445, 0.329, 0.265, 0.961]
    """
    import xarray as xr

    require_rows_and_estimate(fit)
    design = fit.model.design
    design.refuse_sampling("influence measures")
    pieces = fit.once(deletion_arrays)
    score = pieces.score[0]
    outcomes = fit.model.likelihood.outcomes
    sign = np.ones(1) if outcomes else np.sign(score[:, 0])
    influence = pieces.influence
    sigma = influence.sigma[0]
    internal = influence.internal[0]
    if fit.model.likelihood.exact_information:
        internal = fit.once(arrays_of_fit).influence.internal[0]
    with np.errstate(all="ignore"):  # 0 / 0 if no degree of freedom is left
        dffits = np.sqrt(pieces.Z.shape[2] * influence.cook[0]) / sigma
        studentised = np.sqrt(internal) / sigma
    if pieces.df is None:
        # h u^2 / (1 - h), for several predictors s' Z (phi - phi_(i))
        extra = np.einsum("na,nak,nk->n", score, pieces.Z, influence.change[0])
        studentised = np.sqrt(deviance_residuals(fit).values ** 2 + extra)
    measures = {
        "internal": sign * np.sqrt(internal),
        "studentised": sign * studentised,
        "cook": influence.cook[0],
        "dffits": sign * dffits,
    }
    table: dict[str, Any] = {
        "leverage": ("obs", design.by_row(influence.leverage[0], 0.0))
    }
    table |= {k: ("obs", design.by_row(v)) for k, v in measures.items()}
    dims = ("obs", *coefficient_dims(fit.model))
    shape = (design.n, len(design.ungrouped), len(outcomes))[: len(dims)]
    table["dfbetas"] = (dims, design.by_row(dfbetas(pieces, fit)[0].reshape(shape)))
    attrs = {"coefficients": pieces.size, "method": fit.method.name}
    return xr.Dataset(
        table,
        {"obs": row_labels(None, design), **model_coordinates(fit.model)},
        attrs,
    )


def dfbetas(data_sets: FitArrays, fit: Fit) -> Array:
    """Changes of the reported coefficients in their standard errors without the observation, (S, n, q); nan without an estimate."""
    influence = data_sets.influence
    # C phi are the reported coefficients
    C = np.einsum("pmk,dm->pdk", data_sets.back, fit.model.likelihood.contrast_matrix)
    if fit.solution.not_estimable is not None:
        C = np.where(fit.solution.not_estimable[..., None], np.nan, C)
    C = C[fit.model.design.ungrouped].reshape(-1, C.shape[-1])
    shift = np.einsum("qk,snk->snq", C, influence.change, optimize=True)
    variance = np.einsum("qk,skl,ql->sq", C, influence.covariance, C, optimize=True)
    with np.errstate(all="ignore"):  # a column that was dropped has no error
        return shift / (np.sqrt(variance)[:, None] * influence.sigma[..., None])


@DIAGNOSTICS.register
class CookDiagnostic(DeletionDiagnostic):
    """Reports rows with a large Cook's distance, and the confidence ellipsoid that has the estimate without the row on its edge:
    its content is P(F < D) for F on (k, n - k) degrees of freedom, or for chi-square(k) / k if sigma is not estimated.

    >>> import probreg as pr
    >>> x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0])
    >>> CookDiagnostic().run(pr.fit(pr.Model.from_arrays(x, np.minimum(x, 4.0))))[0].rows
    (8,)
    """

    name = "cook"
    title = "Cook's distance"
    # Cook & Weisberg (1982): look at rows from 0.5 on; from 1 on they are always important
    noted, warned = 0.5, 1.0

    def find(self, fit: Fit) -> list[Finding]:
        pieces = fit.once(deletion_arrays)
        D = np.nan_to_num(pieces.influence.cook[0], nan=-1.0)
        order = [i for i in np.argsort(-D) if D[i] >= self.noted]
        top = float(D.max())
        if not order:
            sentence = f"largest distance {top:.3g}"
            return self.report_influence(fit, sentence, top, largest_cook)
        names = fit.model.design.row_names[order].tolist()
        # d'A d / (k phi) is F on (k, df) with phi estimated on df degrees of freedom, chi^2 on k over k with phi known.
        k = pieces.Z.shape[2]
        if pieces.df is not None and pieces.df > 0:
            inside = fdtr(k, pieces.df, top)
        else:
            inside = chdtr(k, k * top)
        edge = f"to the edge of the {percent(inside, 2)}"
        if inside > 0.99:
            edge = "out of the 99 %"
        sentence = f"D = {top:.3g}: without row {names[0]} the estimate moves {edge} confidence ellipsoid"
        if len(order) > 1:
            sentence += f"; {len(order) - 1} more: {few_names(names[1:])}"
        return self.report_influence(fit, sentence, top, largest_cook, names)


def largest_cook(data_sets: FitArrays) -> Array:
    """The largest Cook's distance of each data set, (S,)."""
    return np.nan_to_num(data_sets.influence.cook, nan=0.0).max(1)


@DIAGNOSTICS.register
class DfbetasDiagnostic(DeletionDiagnostic):
    """Reports coefficients that change by one standard error or more without a single observation (DFBETAS, Belsley, Kuh & Welsch
    1980, section 2.1), each with the row that changes it most.

    >>> import probreg as pr
    >>> x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0])
    >>> fit = pr.fit(pr.Model.from_arrays(x, np.minimum(x, 4.0) + np.sin(9 * x) / 5))
    >>> DfbetasDiagnostic().run(fit)[0].rows
    (8,)
    """

    name = "dfbetas"
    title = "DFBETAS"
    # standard errors; two move an estimate out of its 95 % interval
    noted, warned = 1.0, 2.0

    def find(self, fit: Fit) -> list[Finding]:
        moves = np.nan_to_num(dfbetas(fit.once(deletion_arrays), fit)[0])
        if not moves.shape[1]:
            raise NotApplicable("the model has no coefficients but effects by group")
        row = np.abs(moves).argmax(0)
        largest = moves[row, np.arange(moves.shape[1])]
        size = np.abs(largest)
        order = [j for j in np.argsort(-size) if size[j] >= self.noted]
        top = float(size.max())
        statistic = partial(largest_dfbetas, fit=fit)
        if not order:
            sentence = f"largest change of a coefficient {top:.2g} standard errors"
            return self.report_influence(fit, sentence, top, statistic)
        labels = fit.model.design.row_names
        names = fit.parameter_names
        parts = [
            f"{names[j]} by {-largest[j]:+.2g} without row {labels[row[j]]}"
            for j in order[:4]
        ]
        sentence = f"coefficients change by standard errors: {', '.join(parts)}{', ...' * (len(order) > 4)}"
        rows = list(dict.fromkeys(labels[row[order]].tolist()))
        outcomes = max(len(fit.model.likelihood.outcomes), 1)
        columns = [fit.model.design.ungrouped_columns[j // outcomes] for j in order]
        columns = list(dict.fromkeys(columns))
        return self.report_influence(fit, sentence, top, statistic, rows, columns)


def largest_dfbetas(data_sets: FitArrays, fit: Fit) -> Array:
    """The largest |DFBETAS| of each data set, (S,)."""
    size = np.abs(dfbetas(data_sets, fit))
    return np.nan_to_num(size, nan=0.0, posinf=0.0).max((1, 2))


@DIAGNOSTICS.register
class OutlierDiagnostic(Diagnostic):
    """The smallest of the n probabilities of a response at least as extreme, times n (Bonferroni).

    Probabilities come from externally studentised residuals for least squares (Cook & Weisberg 1982, section 2.2.2), otherwise
    2 min(P(Y <= y), P(Y >= y)) under the predictive distribution; for classes the probability of all classes no more likely
    than the observed one, for counts by class the probability of the most extreme count, times K.

    >>> import probreg as pr
    >>> x = np.arange(20.0)
    >>> fit = pr.fit(pr.Model.from_arrays(x, x + np.sin(9 * x) + 30.0 * (x == 7)))
    >>> OutlierDiagnostic().run(fit)[0].rows
    (7,)
    """

    name = "outliers"
    title = "Outlier test"
    when = "every likelihood"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        design = fit.model.design
        require_counts(fit)
        p = np.minimum(surprise(fit) * design.total, 1.0)
        p = np.where(design.row_weights > 0, p, 1.0)
        order = [i for i in np.argsort(p) if p[i] < SIGNIFICANT]
        smallest = float(np.nanmin(p))
        test = f"{format_p(smallest)} (Bonferroni)"
        if not order:
            return self.report(f"no outliers, {test}", p_value=smallest)
        names = design.row_names[order].tolist()
        plural = "s" * (len(order) > 1)
        sentence = f"extreme response{plural} in row{plural} {few_names(names)}, {test}"
        remedy = f"check the row{plural}"
        if two_values(fit.model) is None:
            remedy += f"; if correct, {heavier_tails(fit)}"
        verdict = Verdict.WARNING if smallest < STRONG else Verdict.NOTE
        return self.report(sentence, verdict, remedy, rows=names, p_value=smallest)


def surprise(fit: Fit) -> Array:
    """Return the probability of a response at least as extreme as the observed one, (n,)."""
    design = fit.model.design
    likelihood = fit.model.likelihood
    rows = np.arange(design.n)
    if not likelihood.has_cdf:
        p = likelihood.mean(predictor(fit), **fit.aux_of_rows)
        if isinstance(likelihood, OfTrials):
            return _tail_probability_of_counts(likelihood.tally(design.observed), p)
        observed_probability = p[rows, design.observed.astype(int)]
        return np.where(p <= observed_probability[:, None] * (1 + 1e-12), p, 0.0).sum(1)
    if (
        likelihood.least_squares
        and fit.model.noise_unknown
        and fit.model.joint.gaussian
    ):
        pieces = fit.once(deletion_arrays)
        with np.errstate(all="ignore"):  # 0 / 0 if no degree of freedom is left
            r = np.sqrt(pieces.influence.internal[0]) / pieces.influence.sigma[0]
        assert pieces.df is not None
        return 2.0 * stdtr(pieces.df - 1.0, -np.nan_to_num(r))
    upper, below = tails(fit, rows)
    return np.minimum(2.0 * np.minimum(upper, 1.0 - below), 1.0)


def _tail_probability_of_counts(y: Array, p: Array) -> Array:
    """K times the least of 2 min(P(Y_k <= y_k), P(Y_k >= y_k)) over the K binomial counts of the classes (Bonferroni)."""
    from scipy.stats import binom

    n = y.sum(1, keepdims=True)
    upto, below = (binom.cdf(k, n, p) for k in (y, y - 1.0))
    return np.minimum(2.0 * y.shape[1] * np.minimum(upto, 1.0 - below).min(1), 1.0)
