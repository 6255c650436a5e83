"""`fit`: from a model and a method to a `Fit`, which returns estimates, intervals, predictions and tables.

A `Fit` returns labelled arrays and tables. The estimates come from the solution, intervals from `intervals` and predictions at
new rows from `prediction`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import (
    ArrayLike,
    CovarianceLike,
    DataArray,
    DataFrame,
    Dataset,
    DataTree,
    Flag,
    Natural,
    Probability,
    RowsLike,
    Seed,
    TableLike,
    Word,
    Workers,
    check_arguments,
    only_known,
)
from probreg.data.weights import WeightsLike
from probreg.errors import DataError, Incompatible, NotConverged, warn_caller
from probreg.fits.effects_table import effects_table
from probreg.fits.fitted import require_predictive
from probreg.fits.goodness import exact_fit
from probreg.fits.inference_data import (
    coefficient_dims,
    coefficient_groups,
    covariance_array,
    covariance_values,
    label_coefficients,
    label_rows,
    labelled_tree,
    left_out,
    model_coordinates,
    reported_covariance,
)
from probreg.fits.leave_one_out import posterior_loo
from probreg.fits.prediction import (
    design_at,
    predict,
    predictive,
)
from probreg.fits.statistics import FitStatistics
from probreg.inference import METHODS, Method, MethodName, Status
from probreg.inference.base import (
    covariance_of_reported,
    has_effects,
    reported_coefficients,
    with_found_scales,
)
from probreg.inference.obstacles import method_obstacle
from probreg.inference.reported import reported_parameters
from probreg.inference.sampling.convergence import (
    with_convergence_status,
    with_served_lengths,
)
from probreg.inference.status import Topic, important, important_note
from probreg.inference.uncertainty.clusters import SmallSample
from probreg.inference.varying import OF_EFFECTS, hyper_of_blocks
from probreg.likelihoods import AbsoluteLoss, Quantile
from probreg.likelihoods.links import IDENTITY
from probreg.likelihoods.quantities import probability_up_to
from probreg.linalg import limit_threads
from probreg.model.compatibility import require_digits
from probreg.model.group_effects import (
    GroupsLike,
    describe_group_choice,
    groups_absent,
    rows_of_groups,
    with_group_columns,
)
from probreg.model.model import Model
from probreg.model.predictive import Predictive, quantity_called
from probreg.model.rows_taken_away import (
    model_with,
    model_without,
    require_gaussian_noise,
    require_rows_left,
)
from probreg.peers import OF_FIT, NamesPeers
from probreg.priors import Flat
from probreg.system.disk import destination
from probreg.system.memory import Interrupts
from probreg.system.terminal import progress_bar

if TYPE_CHECKING:
    from arviz_stats.utils import ELPDData

    from probreg.inference.uncertainty.covariance import Spread
    from probreg.inference.uncertainty.intervals.kinds import (
        GivenCovariance,
        Intervals,
    )
    from probreg.online import Guarantee

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Fit(FitStatistics, NamesPeers):
    """A model, the method that fitted it and its solution, with labels; the function `fit` makes it.

    Parameters
    ----------
    model : Model
        The model that was fitted.
    method : Method
        The method that fitted it.
    solution : Solution
        Its plain arrays: estimate, scale, draws, status.
    seed : int
        Seed of the random numbers.
    notes : tuple of str
        Notes of `fit` itself, such as why `auto` chose the method. `described["notes"]` also has the notes of the
        method, the likelihood and the rows, and `essential_notes` selects the important ones.

    Examples
    --------
    >>> found = fit(Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["x"]))
    >>> found.target, found.coef.round(3).values.tolist()
    ('mode', [0.643, 2.129])
    """

    peers = OF_FIT

    # ---- the estimate ----------------------------------------------------------------------------------------------

    @property
    def minimum_norm(self) -> DataArray:
        """Return the coefficients of least norm among those that maximise the posterior: A⁺y for least squares.

        Where columns of X are linear combinations of others, beta + N c is as good for every c, with N the null space of X. This is
        the beta with N'beta = 0, in units of the raw columns, including the intercept. With full rank it equals `coef`.
        Without full rank `coef` is nan for single coefficients that the data do not identify; fitted values are still identified.

        Returns
        -------
        DataArray (coef) or (coef, outcome)

        Raises
        ------
        Incompatible
            For a posterior, which needs identified columns.
        NotConverged
            If no maximum exists.

        Examples
        --------
        >>> X = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])  # b = 2 a
        >>> model = Model.from_arrays(X, [5.0, 10.0, 15.0], columns=["a", "b"], intercept=False)
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     found = fit(model, "closed_form")
        >>> found.coef.values, found.minimum_norm.values.round(9)
        (array([nan, nan]), array([1., 2.]))
        """
        s = self.solution
        if self.target != "mode":
            raise Incompatible(
                f"{self.method.name} has no estimate of least norm; fit a mode, such as closed_form"
            )
        if s.status is Status.NO_MAXIMUM:
            raise NotConverged(
                f"there is no estimate of least norm: {s.status.value} ({s.detail})"
            )
        if s.null_space is None:
            return self.coef
        return label_coefficients(self.model, reported_coefficients(self.model, s.beta))

    @property
    def std_error(self) -> DataArray:
        """Return standard errors of a point estimate, or standard deviations of a posterior.

        Returns
        -------
        DataArray (coef) or (coef, outcome)
            In the units of `coef`.
        """
        if self.target == "mode":
            return self.estimate["std_error"]
        diagonal = self._reported_covariance().diagonal()
        return label_coefficients(
            self.model, np.sqrt(diagonal).reshape(self.coef.shape)
        )

    @check_arguments
    def covariance(
        self,
        kind: Word | None = None,
        *,
        groups: str | ArrayLike | tuple[str, str] | None = None,
        data: TableLike | None = None,
        lags: Natural | None = None,
        small_sample: SmallSample | None = None,
    ) -> DataArray:
        """Return the covariance of the coefficients, with its conventions in the attributes.

        The default is sigma^2 (X'X)^-1 for least squares and the inverse observed information for other point estimates. It is
        "joint" or "conditional" where scales were estimated; the attributes give the kind. A posterior has its posterior
        covariance, and a bootstrap the covariance of the replicates. docs/explanation/intervals.md has details.

        Parameters
        ----------
        kind : str, optional
            For a point estimate: "classical" (RSS/(n - rank)), "ml" (RSS/n), "observed", "expected", "sampling",
            "dispersion" (Pearson's, of quasi-Poisson and quasi-binomial models), "HC0" to "HC3", "cluster" or "HAC" (Bartlett). For estimated scales of effects, smooths and processes "joint"
            includes their uncertainty and "conditional" takes them as known.
        groups : str or array (n,) or pair of these, optional
            For "cluster": a column's name, one label per row, or two of these for two ways.
        data : table, optional
            The table with the column that `groups` names.
        lags : int, optional
            For "HAC"; by default floor(4 (n/100)^(2/9)).
        small_sample : {"stata", "each", "full", "groups", "none"}, optional
            Finite-sample factor, "stata" by default, of "cluster" and "HAC"; "each" and "groups" are for clusters.

        Returns
        -------
        DataArray (param, param_)
            Its attributes give the kind and its conventions.

        Raises
        ------
        DataError
            For an unknown kind or settings that do not go with it.
        Incompatible
            If the kind does not exist for this fit.
        NotConverged
            If there is no estimate.

        Examples
        --------
        >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [5.0]], [1.0, 3.0, 2.0, 5.0], columns=["x"])
        >>> fit(model).covariance("HC1").sel(param="x", param_="x").round(4).item()
        0.1277
        """
        from probreg.inference.uncertainty.covariance import (
            refuse_settings,
            reported_words,
        )

        refuse_settings(
            kind, groups=groups, lags=lags, data=data, small_sample=small_sample
        )
        if kind is None:
            return covariance_array(
                self.model,
                self._reported_covariance(),
                reported_words(self.model, self.method, self.solution),
            )
        spread = self._spread_of(kind, groups, data, lags, small_sample)
        return covariance_array(
            self.model, self._reported_covariance(spread), spread.words
        )

    def spread(
        self,
        covariance: CovarianceLike | None = None,
        *,
        groups: str | ArrayLike | tuple[str, str] | None = None,
        data: TableLike | None = None,
        lags: int | None = None,
    ) -> "Spread":
        """Return the squared scale of the model's own coefficients, with its degrees of freedom and a description.

        Parameters
        ----------
        covariance : str or DataArray, optional
            Name of a kind, or a result of `covariance(...)`; by default the covariance of this fit.
        groups : str or array (n,) or pair of these, optional
            For "cluster", as in `covariance`.
        data : table, optional
            The table with the column that `groups` names.
        lags : int, optional
            For "HAC", as in `covariance`.

        Returns
        -------
        Spread
            `matrix` (p m, p m) over vec(beta), column first, then predictor; `df`; `words`.
        """
        from probreg.inference.uncertainty.covariance import (
            Spread,
            refuse_settings,
            reported_words,
            uses_t,
        )

        s = self.solution
        refuse_settings(covariance, groups=groups, lags=lags, data=data)
        if covariance is None:
            return Spread(s.scale, s.df, reported_words(self.model, self.method, s))
        if isinstance(covariance, str):
            spread = self._spread_of(covariance, groups, data, lags)
        else:
            scale, words, _ = self._resolve_covariance(covariance)  # type: ignore[misc]
            V = covariance_of_reported(self.model, scale)
            spread = Spread(V, words.get("df"), words)
        return spread if uses_t(s, spread.words) else spread._replace(df=None)

    def _spread_of(
        self,
        kind: str,
        groups: Any,
        data: Any,
        lags: int | None,
        factor: SmallSample | None = None,
    ) -> "Spread":
        from probreg.inference.uncertainty.covariance import (
            Settings,
            covariance_of_kind,
        )

        settings = Settings.of(
            self.method,
            self.model.design,
            kind,
            groups=groups,
            data=data,
            lags=lags,
            small_sample=factor,
        )
        return covariance_of_kind(self.model, self.solution, kind, settings)

    def _reported_covariance(self, spread: "Spread | None" = None) -> Any:
        """Return the covariance of the reported coefficients, by default the fit's own."""
        V = self.solution.covariance if spread is None else spread.matrix
        return reported_covariance(self.model, self.solution, V)

    # ---- intervals -------------------------------------------------------------------------------------------------

    @check_arguments
    def interval(
        self,
        prob: Probability = 0.95,
        kind: Word | None = None,
        *,
        covariance: CovarianceLike | None = None,
    ) -> Dataset:
        """Return an interval for each coefficient with probability `prob`.

        Parameters
        ----------
        prob : float
            Probability, between 0 and 1.
        kind : str, optional
            For a point estimate "t" (the default if least squares has degrees of freedom) or "wald", from
            `covariance` if given. "profile" and "score" invert the likelihood ratio and Rao's test: an end
            is infinite if the likelihood never falls far enough. "bootstrap" is the default after one, or
            by name "percentile" or "bca". For a posterior "eti" (equal-tailed, the default) or "hdi"
            (highest density).
        covariance : str or DataArray, optional
            The name of a kind, or a result of `covariance(...)`.

        Returns
        -------
        Dataset
            `lower` and `upper`, with the attributes prob, kind and method.

        Raises
        ------
        NotConverged
            When a coefficient has no estimate; profile and score intervals do not need one.
        """
        import xarray as xr

        interval = self.intervals.of_kind(kind, self._resolve_covariance(covariance))
        interval.refuse()
        lower, upper = interval.ends(prob)
        dims = coefficient_dims(self.model)
        attrs = {"prob": float(prob), "kind": interval.name, "method": self.method.name}
        attrs |= interval.words
        return xr.Dataset(
            {"lower": (dims, lower), "upper": (dims, upper)},
            model_coordinates(self.model),
            attrs,
        )

    @cached_property
    def intervals(self) -> "Intervals":
        """Return the kinds of intervals of this fit, as plain arrays."""
        from probreg.inference.uncertainty.intervals.kinds import Intervals

        return Intervals(self.model, self.method, self.solution)

    def _resolve_covariance(self, covariance: Any) -> "GivenCovariance | None":
        """Return the matrix and the description of a covariance given by name or as an array; None for None."""
        if covariance is None:
            return None
        from probreg.inference.uncertainty.covariance import check_estimator
        from probreg.inference.uncertainty.intervals.kinds import GivenCovariance

        if isinstance(covariance, str):
            spread = self._spread_of(covariance, None, None, None)
            return GivenCovariance(
                self._reported_covariance(spread), spread.words, spread.matrix
            )
        check_estimator(self.method, "sandwich")
        values = covariance_values(self.model, covariance)
        matrix = None
        if not has_effects(self.model):
            matrix = covariance_of_reported(self.model, values)
        return GivenCovariance(values, dict(covariance.attrs), matrix)

    @property
    def default_kind(self) -> str:
        """Return the kind of interval that is used by default."""
        return self.intervals.default

    @check_arguments
    def aux_interval(
        self, name: Word, prob: Probability = 0.95, kind: Word | None = None
    ) -> tuple[float, float]:
        """Return an interval for an auxiliary parameter, or for a prior scale that was sampled.

        By default it is chi-square for the sigma of least squares, and Wald on the log scale for other point estimates.
        Profile, score and bootstrap are on the log scale too. A posterior has an equal-tailed or highest-density
        interval.

        Parameters
        ----------
        name : str
            Name of the parameter ("sigma").
        prob : float
            Probability, between 0 and 1.
        kind : str, optional
            As in `interval`.

        Returns
        -------
        tuple of float
            Lower and upper end.
        """
        return self.intervals.of_aux(name, prob, kind)

    @check_arguments
    def summary(
        self,
        prob: Probability = 0.95,
        kind: Word | None = None,
        *,
        covariance: CovarianceLike | None = None,
        exp: Flag = False,
    ) -> DataFrame:
        """Return a table with one row per coefficient, auxiliary parameter and sampled prior scale.

        Numbers are unrounded; printing adds a header and a footer. The statistic is estimate / std_error, "t" where least
        squares has degrees of freedom and "z" elsewhere, and p is two-sided. A mode under a prior has no test, because its error rate
        would not be controlled. The footer has R² (McFadden's for classes and counts), deviance, log-likelihood, AIC and BIC, where
        the fit has them.

        Parameters
        ----------
        prob : float
            Probability of the intervals, between 0 and 1.
        kind : str, optional
            Kind of the intervals, as in `interval`.
        covariance : str or DataArray, optional
            The source of standard errors and intervals, as in `interval`; nuisance parameters that it does not cover keep those of the fit.
        exp : bool
            Whether to exponentiate coefficients and interval ends into odds ratios (logit link), rate ratios (log link of counts),
            ratios of means or medians (other log links), and ratios (several parameters with formulas).
            std_error is then by the delta method, and statistic and p are unchanged; a posterior has the median.

        Returns
        -------
        DataFrame
            For maximum likelihood estimate, std_error, statistic, p_value, lower and upper, nan where no estimate exists. For other
            modes the same without the test. For a posterior mean, sd, lower, upper and p_positive = P(> 0), after MCMC also ess_bulk,
            ess_tail and r_hat. `attrs` has prob, kind, method, the modelled quantity, the status and the notes.

        Raises
        ------
        Incompatible
            For exp=True with an identity link or a highest-density interval.

        Examples
        --------
        >>> model = Model.from_arrays([2.0, 3.0, 4.0, 6.0], [5.0, 7.0, 9.0, 13.5], columns=["x"])
        >>> fit(model).summary().loc["x", ["estimate", "statistic"]].round(3).tolist()
        [2.129, 43.013]
        """
        from probreg.fits.summary import Options, summary_table
        from probreg.inference.uncertainty.covariance import uses_t

        resolved = self._resolve_covariance(covariance)
        intervals = self.intervals.replace_covariance(resolved)
        interval = intervals.of_kind(kind, resolved)
        error = self.std_error.values
        df = self.intervals.df
        if resolved is not None:
            df = None
            if uses_t(self.solution, resolved.words):
                df = resolved.words.get("df")
        if interval.name == "wald" or self.solution.replicates:
            df = None
        if resolved is not None:
            error = np.sqrt(np.diagonal(resolved.scale)).reshape(error.shape)
        options = Options(interval, prob, error, df, exp)
        return summary_table(self, self.coef.values, options)

    @check_arguments
    def tidy(
        self,
        prob: Probability = 0.95,
        kind: Word | None = None,
        *,
        covariance: CovarianceLike | None = None,
        exp: Flag = False,
    ) -> DataFrame:
        """Return one row per coefficient with the column names of R's broom, unrounded.

        Parameters
        ----------
        prob : float
            Probability of the intervals, between 0 and 1.
        kind : str, optional
            Kind of the intervals, as in `interval`.
        covariance : str or DataArray, optional
            As in `summary`.
        exp : bool
            As in `summary`.

        Returns
        -------
        DataFrame
            term, estimate, std.error, statistic, p.value, conf.low, conf.high; for an exact fit all from std.error on are nan. If
            outcomes have separate coefficients, y.level precedes them. A posterior has no test; MCMC adds rhat and ess. `hyper` has the
            standard deviations and correlations of random effects.

        Examples
        --------
        >>> import probreg as pr
        >>> model = pr.Model.from_arrays([2.0, 3.0, 4.0, 6.0], [5.0, 7.0, 9.0, 13.5], columns=["x"])
        >>> pr.fit(model).tidy()[["term", "estimate", "p.value"]].round(4)
                term  estimate  p.value
        0  Intercept    0.6429   0.0843
        1          x    2.1286   0.0005
        """
        table = self.summary(prob, kind, covariance=covariance, exp=exp)
        reported = self.once(reported_parameters).names
        is_reported = table.index.get_level_values(-1).isin(reported)
        is_reported[: len(self.parameter_names)] = True
        table = table[is_reported]
        if "p_value" not in table and self.target == "mode":
            table = table.assign(statistic=np.nan, p_value=np.nan)
        renamed = {
            "outcome": "y.level", "coef": "term", "estimate": "estimate", "mean": "estimate", "median": "estimate",
            "std_error": "std.error", "sd": "std.error", "statistic": "statistic", "df": "df", "p_value": "p.value",
            "lower": "conf.low", "upper": "conf.high", "r_hat": "rhat", "ess_bulk": "ess",
        }  # fmt: skip
        if exact_fit(self):  # standard errors and intervals are rounding errors
            table = table.assign(
                **dict.fromkeys(("std_error", "lower", "upper"), np.nan)
            )
        table = table.reset_index()
        tidied = table[[c for c in renamed if c in table]].rename(columns=renamed)
        tidied.attrs = {}
        return tidied

    # ---- effects of groups -------------------------------------------------------------------------------------------

    @property
    def hyper(self) -> dict[str, float]:
        """Return the standard deviations and correlations of random effects by name.

        They maximise the evidence (REML or ML), or are posterior means.

        Returns
        -------
        dict of float
            Keys are "sd(Days | Subject)", in units of the linear predictor per unit of the effect, and "cor(Intercept, Days | Subject)".

        Examples
        --------
        >>> data = {"y": [1.0, 2.0, 5.0, 6.0, 9.0, 8.0], "g": ["a", "a", "b", "b", "c", "c"]}
        >>> {k: round(v, 3) for k, v in fit(Model.from_formula("y ~ 1 + (1 | g)", data)).hyper.items()}
        {'sd(Intercept | g)': 3.476}
        """
        solution = self.solution
        if solution.draws is None:
            values = solution.scale_values
        else:
            values = {name: value for name, (value, _) in solution.scalars.items()}
        return {k: v for k, v in values.items() if k.startswith(OF_EFFECTS)}

    @check_arguments
    def effects(self, group: Word | None = None, prob: Probability = 0.95) -> DataFrame:
        """Return the random effects of each group: conditional mean, standard deviation, interval and pooling.

        An effect b has a distribution given y. Where evidence (REML or ML) found the scales, this distribution takes them as known.
        pooling = Var(b | y) / Var(b) is 0 where the rows of the group determine b, and 1 where they add nothing to the prior.
        Var(b | y) includes the uncertainty of the fixed effects (the coefficients with a flat prior).

        Parameters
        ----------
        group : str, optional
            The grouping factor ("Subject", "school:class"); the only one by default.
        prob : float
            Probability of the intervals, between 0 and 1.

        Returns
        -------
        DataFrame
            One row for each group and effect (and outcome): group, effect, estimate, sd, lower, upper, pooling. Effects are
            deviations from the fixed effect of the same name.

        Raises
        ------
        DataError
            For a name that is not a grouping factor.
        Incompatible
            For a model without random effects, and for a fit without standard errors.

        References
        ----------
        Henderson 1975; Robinson 1991.

        Examples
        --------
        >>> data = {"y": [1.0, 2.0, 5.0, 6.0, 9.0, 8.0], "g": ["a", "a", "b", "b", "c", "c"]}
        >>> found = fit(Model.from_formula("y ~ 1 + (1 | g)", data))
        >>> found.effects("g")["estimate"].round(3).tolist()  # (1 - 0.25 / 12.333) times the deviations of the means
        [-3.592, 0.327, 3.266]
        """
        return effects_table(self.model, self.method, self.solution, group, prob)

    # ---- smooth functions ------------------------------------------------------------------------------------------

    @cached_property
    def support(self) -> DataFrame:
        """Return the support vectors of a fit with a loss that has a tube or a kink: f = sum_i weight_i k(x_i, .) + b.

        There is one row per support vector. An observation with its residual inside the tube has weight 0 and is left out.

        Returns
        -------
        DataFrame
            weight, the dual coefficient as in libsvm; residual, in units of y; at, "bound" (the weight is C) or "free".

        Raises
        ------
        Incompatible
            For a likelihood without kinks, and for a posterior.
        DataError
            If the rows are not in memory.

        Examples
        --------
        >>> from probreg.likelihoods import AbsoluteLoss
        >>> found = fit(Model.from_arrays([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 9.0], likelihood=AbsoluteLoss()))
        >>> found.support.shape[1]
        3
        """
        from probreg.fits.statistics import support_table

        return support_table(self.model, self.solution)

    @check_arguments
    def smooth(
        self,
        term: Word | None = None,
        prob: Probability = 0.95,
        *,
        derivative: Flag = False,
        at: ArrayLike | None = None,
    ) -> Dataset:
        """Return a smooth function or its derivative, with a pointwise and a simultaneous band.

        f(x) = C(x) b of a smooth function is centred: its mean over the training rows is zero. A Gaussian process is not centred, and
        its band includes the variance that its columns leave out. A simultaneous band contains the whole function with probability
        `prob`, a pointwise band each single value. Bands of an evidence (REML) fit take the scales as known. With a numeric `by=`, f is
        the function that multiplies it.

        Parameters
        ----------
        term : str, optional
            "s(x)", with or without its options; "s(x, by=g)[a]" is the function of one level. The only one by default.
        prob : float
            Probability of both bands, between 0 and 1.
        derivative : bool
            Whether to return df/dx, for a function of one column.
        at : array (n,) or (n, d), optional
            Points; by default 200 points over the range of the data, or a 40 by 40 grid.

        Returns
        -------
        Dataset (point) or (point, outcome)
            estimate, sd, lower, upper, simultaneous_lower, simultaneous_upper, in units of the linear predictor; x
            (point, input). `attrs["critical"]` is the half-width of the simultaneous band in standard deviations.

        Raises
        ------
        DataError
            For a name that is not a smooth function, or that matches several.
        Incompatible
            For a fit without standard errors.

        References
        ----------
        Ruppert, Wand & Carroll 2003, section 6.5; Marra & Wood 2012.

        Examples
        --------
        >>> x = np.linspace(0.0, 6.0, 40)
        >>> found = fit(Model.from_formula("y ~ s(x)", {"x": x, "y": np.sin(x) + 0.1 * np.cos(40.0 * x)}))
        >>> slope = found.smooth("s(x)", derivative=True, at=[3.14])
        >>> bool(abs(slope["estimate"].item() + 1.0) < 0.1)
        True
        """
        from probreg.data.formula.functions import term_function
        from probreg.fits.smooth_functions import curve

        require_predictive(self)
        function = term_function(self.model.design, term)
        return curve(
            self.model,
            self.method,
            self.solution,
            function,
            at,
            prob=prob,
            derivative=derivative,
            seed=self.seed,
        )

    # ---- new rows --------------------------------------------------------------------------------------------------

    @only_known
    @check_arguments
    def predictive(
        self,
        data: RowsLike | None = None,
        *,
        offset: ArrayLike | None = None,
        weights: WeightsLike | None = None,
        trials: ArrayLike | None = None,
        groups: GroupsLike | None = None,
    ) -> Predictive:
        """Return the predictive distribution p(y_new | y) at these rows.

        It has one atom for a point estimate, and one per draw for a posterior. Away from the training rows of a Gaussian process, each
        atom adds a draw of the residual process that the columns leave out; a point estimate then has weighted nodes instead.

        Parameters
        ----------
        data : table or array (n, q), optional
            New rows; the training rows by default.
        offset : array (n,) or (n, m), optional
            Added to the linear predictor.
        weights : RowWeights, optional
            `pr.weights.precision(w)` of new rows: their noise scale is sigma / sqrt(w). Training rows have their own weights.
        trials : array (n,), optional
            Trials of new rows, if the table does not have their column.
        groups : {"known", "new", "typical"} or mapping, optional
            As in `predict`. Rows of the same new group share its effects; a point estimate then uses 1,024 draws of them.

        Returns
        -------
        Predictive
            A mixture of the likelihood over the atoms.

        Raises
        ------
        DataError
            For rows that do not fit the model.
        NotConverged
            If there is no estimate.
        """
        self.model.design.refuse_sampling("a predictive distribution")
        require_predictive(self)
        design = self._design(data, offset, weights, trials, groups)
        return predictive(self, design)

    @overload
    def predict(
        self,
        data: RowsLike | None = None,
        prob: Probability | None = 0.95,
        *,
        what: Word = "mean",
        offset: ArrayLike | None = None,
        weights: WeightsLike | None = None,
        trials: ArrayLike | None = None,
        groups: GroupsLike | None = None,
        output: Literal["xarray"] = "xarray",
    ) -> Dataset: ...

    @overload
    def predict(
        self,
        data: RowsLike | None = None,
        prob: Probability | None = 0.95,
        *,
        what: Word = "mean",
        offset: ArrayLike | None = None,
        weights: WeightsLike | None = None,
        trials: ArrayLike | None = None,
        groups: GroupsLike | None = None,
        output: Literal["pandas"],
    ) -> DataFrame: ...

    @check_arguments
    def predict(
        self,
        data: RowsLike | None = None,
        prob: Probability | None = 0.95,
        *,
        what: Word = "mean",
        offset: ArrayLike | None = None,
        weights: WeightsLike | None = None,
        trials: ArrayLike | None = None,
        groups: GroupsLike | None = None,
        output: Literal["xarray", "pandas"] = "xarray",
    ) -> Dataset | DataFrame:
        """Return the mean, its standard error, its interval and the interval of a new observation at these rows.

        A new observation has the noise scale sigma, or sigma / sqrt(w) with `weights=pr.weights.precision(w)`.
        Training rows have their own precisions; training rows of weight 0 count as new rows. Sampling weights do not determine the
        noise of a new observation, so that only the mean is returned.

        Away from the training rows of a Gaussian process, the intervals include the variance that its columns leave out, and the mean
        of a probability or a count is averaged over it; see docs/explanation/prediction.md.

        For binomial trials the mean is the probability of success per trial, and a new observation is the number of successes out of
        the row's trials. Without trials, new_lower and new_upper are left out, and the attribute `kind` gives the reason. They are
        also left out for a binary response.

        Parameters
        ----------
        data : table or array (n, q), optional
            New rows; the training rows by default.
        prob : float or None
            Probability of both intervals, between 0 and 1; None returns only the mean and its error, which is faster.
        what : str
            "mean"; "link" for its linear predictor; another parameter, such as "sigma", or its linear predictor, such as "log sigma";
            "median" of a continuous response. Quantities other than the mean have no interval of a new observation.
        offset : array (n,) or (n, m), optional
            Added to the linear predictor.
        weights : RowWeights, optional
            Precisions of new rows.
        trials : array (n,), optional
            Trials of new rows, if the table does not have their column.
        groups : {"known", "new", "typical"} or mapping, optional
            How to treat random effects. "known" uses the effects of each row's own group; it is the default if the fit has all these
            groups. "new" uses groups that are not in the fit: effects are drawn from N(0, S), which widens both intervals, and the
            mean is averaged over them. A row with an unseen group keeps its known groups, such as the school of a new class; in a row
            with known groups only, all count as new. Without a column of the groups, each row is its own group. "typical" sets the effects
            to zero and needs no column of the groups. A mapping gives one for each grouping factor: `{"school": "known", "school:class": "new"}`.
        output : {"xarray", "pandas"}
            A Dataset, or a DataFrame with the same columns, one line per row (and level).

        Returns
        -------
        Dataset (obs) or DataFrame
            mean; mean_sd, its standard deviation in a posterior, or mean_std_error, the delta-method standard error of an
            estimate; mean_lower, mean_upper, new_lower, new_upper. Another quantity has its name in place of "mean": sigma, sigma_lower. For a softmax over (obs, level): the probabilities of
            the classes, their intervals and `likely`, the smallest set of classes with total probability at least `prob`.

        Raises
        ------
        DataError
            For rows that do not fit the model, such as a missing column or an unseen level; for a group that is not in the fit,
            unless `groups` is "new" or "typical".
        NotConverged
            If there is no estimate.
        """
        model = self.model
        design = self._design(data, offset, weights, trials, groups)
        quantity = quantity_called(model.likelihood, what)
        arrays, kind = predict(self, design, prob=prob, quantity=quantity)
        axes = {}
        if arrays["mean"].ndim == 2:
            axes = {"level": model.likelihood.level_names}
        attrs = {"prob": prob, "kind": kind, "method": self.method.name}
        if what != "mean":
            attrs["what"] = what
        if prob is None:
            del attrs["prob"]  # netCDF attributes cannot be None
        if model.design.recipe.grouped:
            description = describe_group_choice(
                groups, identity=quantity.link is IDENTITY
            )
            if (
                groups not in (None, "known", "typical")
                and data is not None
                and (alone := groups_absent(model.design.recipe, data))
            ):
                description += (
                    f"; without {', '.join(alone)} each row is of a group of its own"
                )
            attrs["groups"] = description
        error = "mean_std_error" if self.target == "mode" else "mean_sd"
        arrays = {
            (error if k == "error" else k).replace("mean", what, 1): v
            for k, v in arrays.items()
        }
        dataset = label_rows(arrays, design, data, axes=axes, attrs=attrs)
        if output == "xarray":
            return dataset
        table = dataset.to_dataframe()[list(arrays)]
        table.attrs = attrs
        return table

    @check_arguments
    def survival(
        self,
        times: ArrayLike,
        data: RowsLike | None = None,
        prob: Probability | None = 0.95,
        *,
        offset: ArrayLike | None = None,
        groups: GroupsLike | None = None,
    ) -> Dataset:
        """Return P(Y > t) at each time t, with its standard error and interval, at these rows.

        Intervals of an estimate are Wald on the scale log(-log P(Y > t)). `predict(what="median")` has the medians.

        Parameters
        ----------
        times : array (k,)
            Values of the response, which is a number: a time, a measurement or a count.
        data : table or array (n, q), optional
            New rows; the training rows by default.
        prob : float or None
            Probability of the interval, between 0 and 1; None returns no interval.
        offset : array (n,) or (n, m), optional
            Added to the linear predictor.
        groups : {"known", "new", "typical"} or mapping, optional
            As in `predict`.

        Returns
        -------
        Dataset (obs, time)
            survival; survival_sd in a posterior, or survival_std_error; survival_lower, survival_upper.

        Raises
        ------
        DataError
            For no times, and for a time that is nan.
        Incompatible
            For a response of classes or trials.

        Examples
        --------
        >>> from probreg import Model
        >>> data = {"t": [1.0, 2.0, 3.0, 4.0], "event": [1, 1, 1, 0]}
        >>> model = Model.from_formula("cens(t, event) ~ 1", data, likelihood="exponential")
        >>> fit(model).survival([10.0])["survival"].values[0].round(6).tolist()
        [0.049787]
        """
        times = floats(times, "times").ravel()
        if not len(times) or np.isnan(times).any():
            raise DataError(
                f"times={times.tolist()}: expected one number or more, such as [1.0, 5.0]"
            )
        design = self._design(data, offset, None, None, groups)
        parts = [
            predict(
                self,
                design,
                prob=prob,
                quantity=probability_up_to(self.model.likelihood, t),
            ).arrays
            for t in times.tolist()
        ]
        up_to = {k: np.stack([a[k] for a in parts], -1) for k in parts[0]}
        error = "std_error" if self.target == "mode" else "sd"
        arrays = {
            "survival": 1.0 - up_to["mean"],
            f"survival_{error}": up_to["error"],
        }
        if prob is not None:
            arrays["survival_lower"] = 1.0 - up_to["mean_upper"]
            arrays["survival_upper"] = 1.0 - up_to["mean_lower"]
        attrs = {"method": self.method.name}
        return label_rows(arrays, design, data, axes={"time": times}, attrs=attrs)

    def _design(
        self,
        data: Any,
        offset: Any,
        weights: Any,
        trials: Any,
        groups: GroupsLike | None,
    ) -> Any:
        """Return the design at new rows or at the training rows, with groups as `groups` states."""
        recipe = self.model.design.recipe
        if data is None or not recipe.grouped:
            return rows_of_groups(
                design_at(self.model, data, offset, weights, trials), groups
            )
        table = with_group_columns(recipe, data, groups)
        design = design_at(self.model, table, offset, weights, trials)
        return rows_of_groups(design, groups, recipe.groups_at(table))

    # ---- theorems --------------------------------------------------------------------------------------------------

    def guarantee(self) -> "Guarantee":
        """Return the theorem's bound for the steps that made this fit, with the observed value.

        For `perceptron` the mistakes of all passes against (r / margin)^2; for `lms` their squared loss against the squared loss of
        the solution, on standardised columns. The bound is about these training rounds and not about a new row; for new rows use
        `pr.guarantee`.

        Returns
        -------
        Guarantee
            `kept` is True if the bound was met.

        Raises
        ------
        Incompatible
            For other methods.

        Examples
        --------
        >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [5.0]], [0, 0, 1, 1], likelihood="bernoulli")
        >>> fit(model, "perceptron").guarantee().holds
        True
        """
        return self.method.guarantee(self.model, self.solution)

    # ---- more rows -------------------------------------------------------------------------------------------------

    @only_known
    def update(
        self,
        data: RowsLike | Model,
        y: ArrayLike | None = None,
        *,
        weights: WeightsLike | None = None,
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "Fit":
        """Return the posterior after more rows: this posterior is the prior for them, and the same method fits it.

        The result is exact for `conjugate`: the posterior of both sets of rows together. It is also exact for random effects with
        unknown standard deviations and Gaussian noise: the method then fits the moments of both sets, and the result has no rows.
        Otherwise a normal distribution with the posterior's mean and covariance is the prior, and a note mentions it; `integrate` over
        an unknown prior scale, which this prior does not have, is followed by `posterior`.

        Parameters
        ----------
        data : table or array (n, q) or Model
            The new rows. A Model needs the same columns and likelihood, and its own priors are ignored; it may be made from moments, and
            may have groups that are not in this fit.
        y : array (n,), optional
            Their response, if `data` is X.
        weights : array (n,) or RowWeights, optional
            As in `Model.at`.
        offset : array (n,) or (n, m), optional
            As in `Model.at`.
        trials : array (n,), optional
            As in `Model.at`.

        Returns
        -------
        Fit
            The posterior given both.

        Raises
        ------
        Incompatible
            For a point estimate, except ML or REML estimates of random effects.

        Examples
        --------
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 2.5, 2.0, 4.0])
        >>> whole = fit(Model.from_arrays(X, y), "conjugate")
        >>> fit(Model.from_arrays(X[:3], y[:3]), "conjugate").update(X[3:], y[3:]).coef.round(9).equals(whole.coef.round(9))
        True
        """
        from probreg.inference.exact.conjugate import posterior_as_prior

        original = self.stated_model
        how = None
        grouped = original.design.recipe.grouped and hyper_of_blocks(original)
        if not (grouped and original.likelihood.least_squares):
            how = posterior_as_prior(self.model, self.method, self.solution)
        new_model = self._model_of(
            data, y, weights=weights, offset=offset, trials=trials
        )
        if how is None:
            after = fit(model_with(original, new_model), self._again, seed=self.seed)
            note = important_note(
                Topic.ROWS,
                "{n} rows were added by their moments: the fit holds no rows",
                n=new_model.design.count,
            )
            return replace(after, notes=(*after.notes, note))
        updated = how.updated_model(self.model, new_model)
        if method_obstacle(self.method, updated) is None:
            after = fit(updated, self.method, seed=self.seed)
        else:  # integrate averages over unknown scales, and this prior has none
            after = fit(updated, "posterior", seed=self.seed)
        return replace(
            after, notes=(*after.notes, important_note(Topic.PRIOR, how.note))
        )

    @only_known
    def forget(
        self,
        data: RowsLike | Model,
        y: ArrayLike | None = None,
        *,
        weights: WeightsLike | None = None,
        offset: ArrayLike | None = None,
    ) -> "Fit":
        """Return the fit without some of its rows, exactly; for Gaussian noise only, the reverse of `update`.

        Log posteriors are sums over rows. With the rows in memory, the method fits the remaining rows; otherwise it fits their moments,
        F'F = F_all'F_all - F_gone'F_gone, and the result has no rows. A prior relative to the rows is then relative to the
        remaining rows.

        Parameters
        ----------
        data : table or array (n, q) or Model
            The rows to forget; also a Model made from moments, for example the data of a site that withdraws.
        y : array (n,), optional
            Their response, if `data` is X.
        weights : array (n,) or RowWeights, optional
            As in `Model.at`: how many copies of each row to forget, or the precisions, if the fit has them.
        offset : array (n,), optional
            As in `Model.at`.

        Returns
        -------
        Fit
            The fit of the remaining rows by the same method.

        Raises
        ------
        DataError
            For rows that are not in the fit; if no rows remain and the priors alone give no estimate.
        Incompatible
            For other likelihoods, which moments cannot represent.

        Examples
        --------
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 2.5, 2.0, 4.0])
        >>> rest = fit(Model.from_arrays(X[1:], y[1:]))
        >>> fit(Model.from_arrays(X, y)).forget(X[:1], y[:1]).coef.round(9).equals(rest.coef.round(9))
        True
        """
        require_gaussian_noise(self.model)
        # scales that were found by evidence are estimated again
        original = self.stated_model
        removed = self._model_of(data, y, weights=weights, offset=offset)
        remaining = model_without(original, removed)
        how = ""
        if not remaining.design.count:
            how = ": the posterior is the prior"
        elif self.model.design.n and not remaining.design.n:
            how = ", by their moments: the fit holds no rows"
        note = important_note(
            Topic.ROWS,
            "{n} rows were forgotten, {rest} stay{how}",
            n=removed.design.count,
            rest=remaining.design.count,
            how=how,
        )
        after = fit(remaining, self._again, seed=self.seed)
        return replace(after, notes=(*after.notes, note))

    def _model_of(self, data: Any, y: Any, **settings: Any) -> Model:
        """Return the model of other rows, without priors: a prior relative to the rows is scaled on all rows together."""
        if isinstance(data, Model):
            return data
        return replace(self.model, prior=Flat()).at(data, y, **settings)

    @property
    def _again(self) -> Method:
        """Return the method for a refit on other rows; scales that were found by evidence are estimated again."""
        from probreg.inference.exact.evidence import Evidence

        scales = self.solution.effect_scales
        return (
            self.method
            if scales is None
            else Evidence(criterion=scales.criterion, points=scales.points)  # type: ignore[arg-type]
        )

    def loo(self) -> "ELPDData":
        """Return PSIS-LOO: the expected log predictive density, elpd = sum_i log p(y_i | y without i).

        The draws are weighted by 1 / p(y_i | draw), and the largest weights are smoothed by a generalised Pareto distribution. Its shape
        k shows for each observation whether the weights are reliable. Draws from an approximation q are also weighted by p / q.

        Returns
        -------
        arviz_stats.ELPDDataLOO
            ArviZ's object, as `arviz.loo(fit.tree, pointwise=True)` returns it without its log weights: `elpd`, `se`, `p`, `elpd_i`,
            `pareto_k`, in nats. `arviz.compare` takes it.

        Raises
        ------
        Incompatible
            For a point estimate, and if the rows are not in memory.
        DataError
            For fewer than 25 draws.

        References
        ----------
        Vehtari, Gelman & Gabry 2017; Vehtari et al. 2024; Magnusson et al. 2019 (draws from approximations).

        Examples
        --------
        >>> model = Model.from_arrays([1.0, 2.0, 4.0, 5.0, 7.0], [1.0, 3.0, 2.0, 5.0, 6.0])
        >>> found = fit(model, "conjugate", seed=1).loo()
        >>> found.n_data_points, found.kind
        (5, 'loo')
        """
        return self.once(posterior_loo)

    # ---- everything in one place -----------------------------------------------------------------------------------

    @cached_property
    def tree(self) -> DataTree:
        """The xarray.DataTree of groups that ArviZ reads, with one variable for each term.

        A term with several columns has the dimension `name_dim`. With several linear predictors it also has the dimension `outcome`, before
        `name_dim`. If a name is taken, the variable is `beta[name]`. The group `posterior` has the draws of a posterior, and `sampling` has
        draws of the asymptotic distribution of a point estimate. `estimate` has all coefficients in `beta`, and `constant_data` has the
        numeric variables of the formula.

        Examples
        --------
        >>> model = Model.from_formula("y ~ x", {"y": [1.0, 2.0, 4.0], "x": [0.0, 1.0, 2.0]})
        >>> list(fit(model, "conjugate").tree["posterior"])
        ['Intercept', 'x', 'sigma']
        """
        from probreg.fits.arviz_groups import tree_by_term

        model, solution = self.model, self.solution
        tree = tree_by_term(self.once(coefficient_groups), model, solution)
        tree.attrs.update(self._attrs() | left_out(model, solution))
        return tree

    @check_arguments
    def inference_data(
        self, *, prior: Flag = False, prior_draws: Natural | None = None
    ) -> DataTree:
        """Return a copy of `tree`, with the groups of the prior if `prior` is True.

        Parameters
        ----------
        prior : bool
            Whether to add the groups `prior` and `prior_predictive`. Coefficients with a flat prior are left out of them, and the
            attribute `left_out_of_prior` lists them.
        prior_draws : int, optional
            Number of draws from the priors; by default 1000.

        Returns
        -------
        DataTree
            The groups of `tree`, and the groups of the prior.

        Raises
        ------
        DataError
            If `prior` is True and the priors are improper, and for `prior_draws` without `prior`.

        Examples
        --------
        >>> from probreg.priors import Normal
        >>> data = {"won": [0, 1, 1, 0, 1], "x": [0.1, 0.5, 0.7, 0.2, 0.4]}
        >>> model = Model.from_formula("won ~ x", data, likelihood="bernoulli", prior={"x": Normal(1.0)})
        >>> tree = fit(model, "laplace").inference_data(prior=True)
        >>> list(tree["posterior"]), list(tree["prior"]), list(tree["observed_data"])
        (['Intercept', 'x'], ['x'], ['won'])
        """
        from probreg.fits.arviz_groups import add_prior

        tree = self.tree.copy()
        if prior:
            draws = 1000 if prior_draws is None else prior_draws
            add_prior(tree, self.model, draws, self.seed)
        elif prior_draws is not None:
            raise DataError("prior_draws= is expected only with prior=True")
        return tree

    def _attrs(self) -> dict[str, Any]:
        from probreg import __version__

        d = self.described
        return {k: v if isinstance(v, str) else "\n".join(v) for k, v in d.items()} | {
            "seed": self.seed,
            "inference_library": "probreg",
            "inference_library_version": __version__,
        }

    @property
    def essential_notes(self) -> tuple[str, ...]:
        """Return the notes that you need to interpret the results; `described["notes"]` also has notes on the computation.

        Returns
        -------
        tuple of str
            For example the number of dropped rows, or the source of the standard errors.

        Examples
        --------
        >>> found = fit(Model.from_arrays([1.0, 2.0, 4.0, 5.0], [1.0, 3.0, 2.0, 5.0]), "newton")
        >>> len(found.described["notes"]) - len(found.essential_notes)
        1
        """
        return tuple(map(str, important(self.all_notes)))

    @check_arguments
    def save(
        self, path: str | Path, *, rows: Flag = False, log_likelihood: Flag = False
    ) -> Path:
        """Save the fit as a netCDF file: specification, estimate or draws, and the moments of a Gaussian model.

        A failed or interrupted save leaves an existing file unchanged. docs/explanation/storage.md describes the format.

        Parameters
        ----------
        path : str or Path
            Path of the file.
        rows : bool
            Whether to write the training rows too.
        log_likelihood : bool
            Whether to write the log-likelihood and a replicate of each row at each draw, for ArviZ and other programs: 16 bytes for
            each row and draw.

        Returns
        -------
        Path
            The path.

        Raises
        ------
        DataError
            If the file cannot be written, or needs rows that are not in memory.
        """
        from probreg.fits.storage.write import write_fit

        solution = self.solution
        destination(path)
        design = self.model.design
        if rows:
            design.need_rows("a file that holds the rows", "save it with rows=False")
        if log_likelihood:
            if solution.draws is None:
                raise DataError(
                    f"log_likelihood=True needs draws of a posterior, and {self.method.name} gives a point estimate"
                )
            design.need_rows(
                "a file that holds the log-likelihood of each row",
                "save it with log_likelihood=False",
            )
        stats = dict(solution.stats)
        if not rows:
            stats |= self._statistics_of_rows()
            if design.has_rows:
                stats["n"] = design.total
            for term in design.recipe.processes.values():
                if term.basis.holds_rows:
                    warn_caller(term.held_words)
        notes = (*self.notes, *solution.notes)
        # Python can lose an interrupt in a destructor, and xarray and h5py run many
        with Interrupts() as interrupts:
            tree = labelled_tree(
                self.model,
                solution,
                seed=self.seed,
                attrs=self._attrs(),
                rows=rows,
                density=log_likelihood,
            )
            write_fit(
                path,
                tree,
                model=self.model,
                method=self.method,
                solution=replace(solution, stats=stats, notes=notes),
                seed=self.seed,
                rows=rows,
                interrupts=interrupts,
            )
        return Path(path)

    def __repr__(self) -> str:
        from probreg.fits.summary import printed_summary

        return repr(printed_summary(self, self.summary(), terms=False))

    def _repr_html_(self) -> str:
        from probreg.fits.summary import printed_summary

        return printed_summary(self, self.summary(), terms=False)._repr_html_()


@check_arguments
def fit(
    model: Model,
    method: Method | MethodName = "auto",
    *,
    seed: Seed = 0,
    strict: Flag = False,
    threads: Workers | None = None,
    progress: Flag | None = None,
) -> Fit:
    """Fit a model by maximum likelihood, a posterior mode, a posterior distribution or an approximation of it.

    The same seed gives the same results with any number of `threads`.

    Parameters
    ----------
    model : Model
        The model to fit.
    method : str or Method
        A name in `METHODS`, or a Method with its settings: `NUTS(draws=2000)`. Names are "auto", "closed_form",
        "newton", "conjugate", "quadrature", "integrate", "laplace", "importance", "nuts", "pymc", "posterior",
        "coordinate_descent", "proximal_newton", "interior_point", "evidence", "sgd", "lms", "perceptron" and "bootstrap".
    seed : int
        Seed of all random numbers, at least 0.
    strict : bool
        Whether to raise NotConverged instead of a warning if the fit fails, for example because the search did not converge or
        no maximum exists.
    threads : int, optional
        Number of threads, one per core by default. They compute blocks of rows and chains in parallel; BLAS uses one thread in
        each.
    progress : bool, optional
        Whether to show a progress bar. The default depends on the method; the bar appears after a second, at a terminal or in a notebook.

    Returns
    -------
    Fit
        The estimate or draws, with labels.

    Raises
    ------
    Incompatible
        If the method cannot fit the model; the message lists methods that can.
    NotConverged
        If `strict` and the fit failed; otherwise a warning describes the problem and the remedy.

    Examples
    --------
    >>> model = Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["x"])
    >>> fit(model).coef.sel(coef="x").round(3).item()
    2.129
    """
    chosen = METHODS.resolve(method)
    with (
        limit_threads(threads),
        progress_bar(
            chosen.name, show=chosen.progress if progress is None else progress
        ),
    ):
        _require_rows(model)
        require_digits(model)
        _require_method(chosen, model)
        rng = np.random.default_rng(seed)
        model, chosen, notes, stats, solved, scales = chosen.resolve(model, rng)
        _require_rows(model)
        if solved is None:
            solution = chosen.solve(model, rng)
        else:
            solution = solved
        if model.design.weight_kind == "sampling":
            from probreg.inference.uncertainty.covariance import with_errors

            solution = with_errors(model, solution)
        elif (
            isinstance(model.likelihood, AbsoluteLoss | Quantile)
            and chosen.name == "interior_point"
        ):
            from probreg.inference.uncertainty.covariance import with_sandwich

            solution = with_sandwich(model, solution)
        if chosen.makes_chains:
            solution = with_convergence_status(model, solution)
        if solution.draws is not None:
            solution = with_served_lengths(model, solution)
    if stats:
        solution = replace(solution, stats={**solution.stats, **stats})
    if scales is not None:
        solution = with_found_scales(model, solution, scales)
    if not solution.status.good:
        message = f"{chosen.name}: {solution.status.describe(solution.detail)}"
        if strict:
            raise NotConverged(message)
        warn_caller(message)
    return Fit(model, chosen, solution, seed, notes)


def _require_method(method: Method, model: Model) -> None:
    """Raise Incompatible, with the methods that can fit the model, if `method` cannot."""
    reason = method_obstacle(method, model)
    if reason is None:
        return
    candidates = {
        k: cls() for k, cls in METHODS.items() if k not in ("auto", "posterior")
    }
    able = [
        k
        for k, v in candidates.items()
        if method_obstacle(v, model) is None and (model.design.n or not v.in_memory)
    ]
    if not able:
        if method.name == "auto":  # its reason begins with this
            raise Incompatible(f"{reason}.")
        raise Incompatible(f"{reason}. No method can fit this model.")
    defaults = ""
    if method.name in able:
        defaults = "with its defaults, "
        able = [method.name, *(k for k in able if k != method.name)]
    raise Incompatible(
        f"{reason}. These can fit this model: {defaults}{', '.join(able)}."
    )


def _require_rows(model: Model) -> None:
    """Raise DataError if no rows are left and the priors alone give no estimate."""
    if not model.joint.informative.all() or any(
        model.aux_prior(a).name == "reference" for a in model.unknown
    ):
        require_rows_left(model.design)


def load_fit(path: str | Path) -> Fit:
    """Load a fit that `Fit.save` wrote; it can summarise, compare and predict at new data.

    Loading runs no code from the file.

    Parameters
    ----------
    path : str or Path
        The netCDF file.

    Returns
    -------
    Fit
        The saved fit; it has its rows only if they were saved too.

    Raises
    ------
    DataError
        For a file that is missing, is not a saved fit, or was damaged or changed since it was saved.

    Examples
    --------
    >>> import tempfile
    >>> whole = fit(Model.from_arrays([1.0, 2.0, 4.0], [1.0, 2.0, 6.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = load_fit(whole.save(f"{folder}/line.nc"))
    >>> saved.coef.equals(whole.coef)
    True
    """
    from probreg.fits.storage.read import read_fit

    with Interrupts():
        model, method, solution, seed = read_fit(path)
    return Fit(model, method, solution, seed)
