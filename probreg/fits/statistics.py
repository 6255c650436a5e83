"""The standard statistics of a fit: n, degrees of freedom, deviance, R², AIC, BIC, residuals, support vectors, and tables in R broom's format."""

import contextlib
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from probreg.arguments.scalars import DataArray, DataFrame, Word, check_arguments
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.fitted import (
    OF_ROWS,
    Fitted,
    require_predictive,
    statistic_saved_without_rows,
)
from probreg.fits.goodness import (
    VarianceShares,
    deviance_at,
    estimated_coefficients,
    exact_fit,
    has_tests_at_found_scales,
    is_maximum_likelihood,
    is_saturated,
    null_deviance,
    number_of_observations,
    overall_test,
    share_explained,
    statistic_or_nan,
    unknown_gaps,
    variance_shares,
    why_no_criterion,
)
from probreg.fits.inference_data import label_rows
from probreg.fits.residuals import require_rows_and_estimate, residuals
from probreg.fits.smooth_functions import degrees_of_functions, smooths_table
from probreg.inference.base import Solution, has_effects
from probreg.inference.penalized.piecewise_linear import support_of
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.model.descriptions import prior_line
from probreg.model.model import Model


@dataclass(frozen=True, eq=False)
class FitStatistics(Fitted):
    """The statistics of a `Fit` and the tables with the names of R's broom."""

    @property
    def stated_model(self) -> Model:
        """The model as the user stated it; in `model`, scales found by evidence replace unknown scales of random effects.

        Returns
        -------
        Model
            `model` itself if evidence found no scales.
        """
        scales = self.solution.effect_scales
        return self.model if scales is None else scales.stated

    @property
    def nobs(self) -> int:
        """The number of observations: the sum of frequency weights, or the number of rows under other weights.

        Returns
        -------
        int
            A row of binomial trials is one observation.

        Raises
        ------
        DataError
            For a saved fit without this number.
        """
        n = number_of_observations(self)
        if not n:
            raise DataError(
                f"the number of observations is not known: {self.model.design.rows_needed}"
            )
        return round(n)

    @property
    def df_resid(self) -> int:
        """Return n - k, observations minus coefficients that the rows identify, of all linear predictors.

        Thresholds of ordered classes count as coefficients, and sigma does not.

        Returns
        -------
        int
            As in R and statsmodels.

        Raises
        ------
        Incompatible
            Under a prior on coefficients, and for random effects, where each coefficient counts less than one.
        """
        if has_tests_at_found_scales(self) or self.model.joint.informative.any():
            raise Incompatible(
                "residual degrees of freedom count coefficients; under a prior, and for effects of groups, each counts by less "
                "than one: see pr.prior_weight(fit).effective"
            )
        # the first threshold is minus the intercept
        gaps = unknown_gaps(self.model)
        return self.nobs - estimated_coefficients(self) - len(gaps)

    @property
    def n_parameters(self) -> int:
        """The k of AIC and BIC: the number of identified coefficients and unknown nuisance parameters, such as sigma, as in R.

        Raises
        ------
        Incompatible
            For a posterior and for a mode under a prior.
        """
        obstacle = why_no_criterion(self)
        if obstacle is not None:
            raise Incompatible(obstacle)
        optimum = self.solution.effect_scales
        scales = 0 if optimum is None else optimum.count
        return estimated_coefficients(self) + len(self.model.unknown) + scales

    @property
    def aic(self) -> float:
        """Return Akaike's criterion 2 k - 2 log L, with k = `n_parameters`.

        Returns
        -------
        float
            In nats, times two.

        Raises
        ------
        Incompatible
            For a posterior, a mode under a prior, sampling weights, and an exact fit.
        NotConverged
            If there is no estimate.

        References
        ----------
        Akaike 1973.
        """
        return 2.0 * self.n_parameters - 2.0 * self._finite_log_likelihood

    @property
    def bic(self) -> float:
        """Return Schwarz's criterion k log(n) - 2 log L, with k = `n_parameters` and n = `nobs`.

        Returns
        -------
        float
            In nats, times two.

        Raises
        ------
        Incompatible
            As `aic`.

        References
        ----------
        Schwarz 1978.
        """
        return (
            self.n_parameters * float(np.log(float(self.nobs)))
            - 2.0 * self._finite_log_likelihood
        )

    @property
    def _finite_log_likelihood(self) -> float:
        if self.solution.effect_scales is not None:
            # random effects are integrated out
            return self.solution.effect_scales.value
        if not np.isfinite(self.log_likelihood) or exact_fit(self):
            none = ""
            if is_saturated(self):
                none = ", with no degrees of freedom left"
            raise Incompatible(
                f"the fit meets every response exactly{none}, so that its density has no bound: no AIC or BIC"
            )
        return self.log_likelihood

    @cached_property
    def deviance(self) -> float:
        """Return D = 2 phi (log L of the saturated model - log L) at the estimate.

        The saturated model has one linear predictor per row; of classes, ordered or not, it has probability 1 for each response.

        phi is 1 for classes, trials and counts. For noise with a scale it is sigma², so that D is the residual sum of squares for a
        Gaussian, the sum of 2 |r|^p for a power, and twice the absolute, check or tube loss for these likelihoods.

        For a maximum likelihood fit with random effects it is -2 `log_likelihood`, as in lme4.

        Returns
        -------
        float
            As R's `deviance`; in units of phi.

        Raises
        ------
        Incompatible
            Under sampling weights, which give a pseudo-likelihood; for REML, which is not a likelihood of y.
        DataError
            If the rows are not in memory and moments cannot replace them.
        """
        if self.solution.effect_scales is not None and self.target == "mode":
            return -2.0 * self.log_likelihood
        return self.conditional_deviance

    @cached_property
    def conditional_deviance(self) -> float:
        """Return D conditional on the random effects."""
        saved = statistic_saved_without_rows(self, "deviance")
        if saved is not None:
            return saved
        require_predictive(self)
        return deviance_at(self.model, self.solution.beta, self.solution.aux)

    @cached_property
    def null_deviance(self) -> float:
        """Return the deviance of an intercept alone, or of the offset alone without an intercept.

        Nuisance parameters keep their estimates, except thresholds of ordered classes.

        Returns
        -------
        float
            For a Gaussian the sum of squares about the mean.

        Raises
        ------
        Incompatible
            With scales of random effects found by evidence, because their `deviance` is -2 log-likelihood.
        """
        if self.solution.effect_scales is not None and self.target == "mode":
            raise Incompatible(
                "null_deviance is of fits without effects by group; fit the intercept alone and compare the log-likelihoods"
            )
        saved = statistic_saved_without_rows(self, "null_deviance")
        if saved is not None:
            return saved
        require_predictive(self)
        return null_deviance(self.model, self.solution.aux)

    @cached_property
    def r_squared(self) -> float:
        """Return the explained share of the deviance; for classes and counts McFadden's 1 - log L / log L_0.

        For least squares it is R² = 1 - RSS / TSS, with TSS about zero without an intercept, as in R. For other noise it is
        1 - D / D_0, which for a quantile is Koenker & Machado's R¹. L_0 has an intercept alone, with the same offset and weights.

        Returns
        -------
        float
            At the estimate; for a posterior at its mean.

        Raises
        ------
        DataError
            If the rows are not in memory, except for least squares.
        Incompatible
            Under sampling weights.

        References
        ----------
        McFadden 1974; Koenker & Machado 1999.
        """
        saved = statistic_saved_without_rows(self, "r_squared")
        if saved is not None:
            return saved
        return share_explained(self)

    @property
    def adjusted_r_squared(self) -> float:
        """Return 1 - (1 - R²) (n - 1) / (n - k) of least squares; n replaces n - 1 without an intercept.

        Raises
        ------
        Incompatible
            For other fits.
        """
        if not (self.model.likelihood.least_squares and is_maximum_likelihood(self)):
            raise Incompatible(
                "adjusted R² is of least squares, a Gaussian likelihood without a prior"
            )
        n = self.nobs
        df = self.df_resid
        if df < 1:
            raise Incompatible("adjusted R² needs more rows than coefficients")
        return (
            1.0
            - (1.0 - self.r_squared)
            * (n - (self.model.design.intercept is not None))
            / df
        )

    @cached_property
    def residual_sd(self) -> float:
        """Return the noise scale: sqrt(RSS / (n - k)) for least squares (R's residual standard error), otherwise the estimate.

        Returns
        -------
        float
            In units of the response.

        Raises
        ------
        Incompatible
            For a likelihood without a noise scale.
        """
        likelihood = self.model.likelihood
        if likelihood.noise_scale is None:
            raise Incompatible(f"{likelihood.named} likelihood has no noise scale")
        unbiased = (
            likelihood.least_squares
            and is_maximum_likelihood(self)
            and self.model.noise_unknown
        )
        if unbiased and self.model.design.weight_kind != "sampling":
            if self.df_resid > 0:
                return float(np.sqrt(self.deviance / self.df_resid))
            return np.nan
        return self.model.noise(self.solution.aux)

    # ---- row by row ------------------------------------------------------------------------------------------------

    @property
    def fitted(self) -> DataArray:
        """Return the mean at the training rows, at the estimate or posterior mean; y is `fitted` plus the response residuals.

        Returns
        -------
        DataArray (obs) or (obs, level)
            Probabilities of the classes for a softmax, and success probabilities for trials.

        Raises
        ------
        DataError
            If the rows are not in memory.
        """
        require_rows_and_estimate(self)
        design = self.model.design
        likelihood = self.model.likelihood
        mean = likelihood.mean(design.eta(self.solution.beta), **self.aux)
        axes = {}
        if mean.ndim == 2:
            axes = {"level": likelihood.level_names}
        labelled = label_rows({"fitted": mean}, design, axes=axes)
        return labelled["fitted"].assign_attrs(method=self.method.name)

    @check_arguments
    def residuals(self, kind: Word = "response") -> DataArray:
        """Return residuals at the estimate, one per row; `pr.residuals` describes each kind.

        Parameters
        ----------
        kind : str
            "response", "pearson", "deviance", "working", "partial" or "quantile".

        Returns
        -------
        DataArray (obs)
            In the units of the kind.

        Raises
        ------
        DataError
            For an unknown kind, and if the rows are not in memory.
        Incompatible
            If the kind is not defined for this fit.
        """
        return residuals(self, kind)

    # ---- tables with broom's names ---------------------------------------------------------------------------------

    @cached_property
    def smooths(self) -> DataFrame:
        """Return one row per smooth function of the formula, with its effective degrees of freedom.

        edf = q - tr((H^-1)_bb P_bb) over the q coefficients of the function, including its unpenalised columns, with H = J + P: J is
        the expected information of the rows and P the precision of the prior. It equals mgcv's edf. The range block alone
        has edf minus the number of unpenalised columns.

        Returns
        -------
        DataFrame
            edf; columns, the number of coefficients; tau, a tuple with the scale of each range block, or the amplitude of a Gaussian
            process, in units of the linear predictor. For a posterior, edf is the mean over 200 draws and tau the mean over all draws.

        Examples
        --------
        >>> from probreg import fit
        >>> x = np.linspace(0.0, 6.0, 40)
        >>> found = fit(Model.from_formula("y ~ s(x)", {"x": x, "y": np.sin(x) + 0.1 * np.cos(40.0 * x)}))
        >>> bool(2.0 < found.smooths.loc["s(x)", "edf"] < 9.0)
        True
        """
        return smooths_table(self.model, self.solution)

    def glance(self) -> DataFrame:
        """Return one row with the statistics of the fit, with the column names of R's broom.

        Least squares: r.squared, adj.r.squared, sigma, statistic and p.value of the F test of all slopes, df. Classes, counts
        and other noise: null.deviance, df.null, and McFadden's R² or the explained deviance as r.squared. Both: logLik, AIC,
        BIC, deviance, df.residual, nobs. With random effects r2.marginal, r2.conditional, icc, REMLcrit, and ngrps with the
        name of each grouping factor. Statistics that a fit does not have are nan.

        Returns
        -------
        DataFrame
            For a posterior algorithm, pss (the number of draws), nobs, sigma, r.squared and logLik at its mean.

        Examples
        --------
        >>> import probreg as pr
        >>> model = pr.Model.from_arrays([2.0, 3.0, 4.0, 6.0], [5.0, 7.0, 9.0, 13.5], columns=["x"])
        >>> pr.fit(model).glance()[["r.squared", "sigma", "df", "AIC", "nobs"]].round(4)
           r.squared   sigma  df     AIC  nobs
        0     0.9989  0.1464   1 -0.7932     4
        """
        import pandas as pd

        model = self.model
        get = partial(statistic_or_nan, self)
        gaussian = model.likelihood.least_squares
        row: dict[str, Any] = {}
        if self.solution.draws is not None:
            row = {"algorithm": self.method.name, "pss": self.solution.draws.count}
        row["r.squared"] = get("r_squared")
        if self.target == "mode" and gaussian:
            row["adj.r.squared"] = get("adjusted_r_squared")
        if model.likelihood.noise_scale is not None:
            row["sigma"] = get("residual_sd")
        if self.target == "mode" and gaussian:
            test = self.overall
            row |= dict.fromkeys(("statistic", "p.value", "df"), np.nan)
            if test is not None:
                row |= {"statistic": test.statistic, "p.value": test.p_value}
                row["df"] = test.df
        elif self.target == "mode":
            row["null.deviance"] = get("null_deviance")
            row["df.null"] = get("nobs") - model.shape[1] * (
                model.design.intercept is not None
            )
        if has_effects(model):
            row |= self._group_statistics()
        scales = self.solution.effect_scales
        # for REML broom reports the restricted log-likelihood
        if scales is None:
            log_lik = get("log_likelihood")
        else:
            log_lik = scales.value
        # for an exact fit its size depends on rounding errors
        row["logLik"] = np.nan if exact_fit(self) else log_lik
        if self.target == "mode":
            row |= {
                "AIC": get("aic"),
                "BIC": get("bic"),
                "deviance": get("deviance"),
            }
            row["df.residual"] = get("df_resid")
        row["nobs"] = get("nobs")
        row |= {
            f"ngrps.{t.group}": len(t.levels)
            for t in model.design.recipe.grouped.values()
        }
        return pd.DataFrame([row])

    def _group_statistics(self) -> dict[str, float]:
        """Return R² of Nakagawa & Schielzeth, the intraclass correlation and the REML criterion, nan if a fit has none."""
        scales = self.solution.effect_scales
        reml = scales is not None and scales.criterion == "REML"
        try:
            shares = variance_shares(self)
        except ProbregError:
            shares = VarianceShares(np.nan, np.nan, np.nan)
        return {
            "r2.marginal": shares.marginal, "r2.conditional": shares.conditional, "icc": shares.icc,
            "REMLcrit": -2.0 * scales.value if scales is not None and reml else np.nan,
        }  # fmt: skip

    @property
    def overall(self) -> Any:
        """The F test that all coefficients of least squares except the intercept are zero; None if not available.

        Returns
        -------
        OverallTest or None
            statistic, df, df_resid and p_value.
        """
        is_tested = (
            self.model.likelihood.least_squares
            and is_maximum_likelihood(self)
            and self.model.noise_unknown
            and not self.solution.sandwich  # which assumes unequal variances
            and not exact_fit(self)
        )
        if is_tested:
            with contextlib.suppress(ProbregError):
                return overall_test(
                    self, self.deviance, self.null_deviance, self.df_resid
                )
        return None

    def _statistics_of_rows(self) -> dict[str, float]:
        """Return the statistics that cannot be computed without the rows, for `save`: deviances, R² and degrees of freedom of terms."""
        attributes = {
            "log_likelihood": "conditional_log_likelihood",
            "deviance": "conditional_deviance",
            "null_deviance": "null_deviance",
            "r_squared": "r_squared",
        }
        statistics = {
            name: statistic_or_nan(self, attribute)
            for name, attribute in attributes.items()
        }
        with contextlib.suppress(ProbregError):
            statistics["coefficients"] = float(estimated_coefficients(self))
        if has_effects(self.model):
            with contextlib.suppress(ProbregError):
                statistics |= variance_shares(self)._asdict()
        statistics |= {
            f"edf {name}": edf
            for name, edf in degrees_of_functions(self.model, self.solution).items()
        }
        return {
            f"{OF_ROWS}{name}": value
            for name, value in statistics.items()
            if np.isfinite(value)
        }


def support_table(model: Model, solution: Solution) -> DataFrame:
    """Return the rows with their weight, residual and whether the weight is at its bound."""
    import pandas as pd

    if not isinstance(model.likelihood, PiecewiseLinearLikelihood):
        raise Incompatible(
            f"support vectors are those of a loss with kinks, and {model.likelihood.name} has none"
        )
    if solution.draws is not None:
        raise Incompatible(
            "support vectors are those of a mode: fit svr, or 'interior_point'"
        )
    index = pd.Index(model.design.row_names, name="row")
    support = support_of(model, solution)
    table = pd.DataFrame(
        {
            "weight": support.weight,
            "residual": support.residual,
            "at": np.where(support.bound, "bound", "free"),
        },
        index,
    )
    return table[support.of]


def stated_prior_line(fit: FitStatistics) -> str:
    """Describe the priors that the user stated, also of scales and nuisance parameters that evidence estimated."""
    scales = fit.solution.scales
    return prior_line(fit.model if scales is None else scales.stated)
