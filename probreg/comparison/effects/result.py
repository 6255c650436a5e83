"""Averaged effects with their intervals: by the delta method, from posterior draws, or from draws of the estimate."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison.effects.averages import (
    AveragedEffect,
    AverageSlope,
    EffectSums,
    Target,
    average,
    averages_of_draws,
    effect_sums,
    moves_of_rows,
)
from probreg.comparison.effects.scenarios import Population
from probreg.comparison.hypotheses.restricted import is_unidentified
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit, has_tests
from probreg.fits.prediction import closed_error, parameter_draws
from probreg.formula.hypothesis import matrix, parse_hypothesis
from probreg.inference.base import aux_names
from probreg.inference.reported import without_error
from probreg.inference.uncertainty.asymptotic import ASYMPTOTIC_DRAWS
from probreg.inference.uncertainty.covariance import (
    Settings,
    Spread,
)
from probreg.inference.uncertainty.found_scales import (
    satterthwaite,
    why_no_satterthwaite,
)
from probreg.inference.uncertainty.influence import (
    INFLUENCE,
    SampledRows,
    influence_covariance,
    is_constant,
    ways_of_groups,
)
from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail,
    mean_and_sd,
    quantile,
    sample_covariance,
    two_sided,
)
from probreg.inference.uncertainty.multiplicity import (
    NO_TESTS,
    adjust_tests,
    check_adjust,
    require_tests,
)
from probreg.likelihoods.links import IDENTITY, LOG, Link
from probreg.likelihoods.quantities import Quantity, RowQuantity
from probreg.model.off_span import JointDraws
from probreg.tables import PrintsTable, Table
from probreg.tables.render import format_p_value

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Effects(PrintsTable):
    """Averages over rows with their intervals.

    `table` is a pandas DataFrame, one row per effect: its labels (variable, contrast, by, at, level), estimate, std_error (of a
    point estimate) or sd (of a posterior), lower, upper, for comparisons and slopes of maximum likelihood p_value (of no difference, a ratio
    of 1, or a slope of 0); unrounded, with the settings prob, kind, method and "what" in `attrs`. `covariance`
    (R, R) is the covariance of the estimates on the scale `scale` on which they are nearly normal ("identity", "log",
    "logit"), `draws` (S, R) are the posterior draws of the estimates, or None. `average_over` is "population" if errors include
    the sampling of the rows, and "sample" if the rows are fixed.
    """

    table: Any
    what: str
    prob: float
    kind: str
    method: str
    scale: str
    covariance: Array
    draws: Array | None
    average_over: str = "sample"
    law: "EffectLaw | None" = None  # of a point estimate, or of an exact posterior
    has_tests: bool = False

    @property
    def _display_table(self) -> Table:
        how = f"{self.method}, {100 * self.prob:g} % intervals: {self.kind}"
        formats = dict.fromkeys(["p_value", "p_unadjusted"], format_p_value)
        return Table.from_pandas(
            self.table, index=False, formats=formats, head=(self.what, how)
        )

    def hypothesis(
        self, text: str = "pairwise", *, adjust: str | None = None
    ) -> "Effects":
        """Return contrasts of these effects with their intervals and, for maximum likelihood, their tests.

        Parameters
        ----------
        text : str
            "pairwise": all differences. Otherwise equations such as "b1 = b2" or "b3 - b2 = b2 - b1, b1 = 2", where b1 is the first
            row of the table; each estimate is the left side minus the right side.
        adjust : {"holm", "bonferroni", "single-step", "tukey"}, optional
            As in `comparisons`; "tukey" is for "pairwise".

        Returns
        -------
        Effects
            `table` with one row per contrast.

        Raises
        ------
        DataError
            For a text that is no equation of rows.
        Incompatible
            For `adjust` of a posterior or of a mode under a prior.

        Examples
        --------
        >>> import probreg as pr
        >>> fit = pr.ols("y ~ g", {"y": [1.0, 2.0, 5.0, 6.0, 9.0, 9.5], "g": [*"aabbcc"]})
        >>> pr.predictions(fit, by="g").hypothesis("b3 - b2 = b2 - b1").table["estimate"].round(6).tolist()
        [-0.25]
        """
        import pandas as pd

        check_adjust(adjust)
        names, L, r = self._read_contrasts(text)
        error = "sd" if "sd" in self.table else "std_error"
        columns = {"estimate": L @ self.table["estimate"].to_numpy() - r}
        kind = self.kind
        draws = law = None
        if self.draws is not None:
            if adjust is not None:
                raise Incompatible(NO_TESTS)
            draws = self.draws @ L.T - r
            cov = sample_covariance(draws)
            columns[error] = mean_and_sd(draws)[1]
            columns["lower"], columns["upper"] = equal_tail(draws, self.prob)
        else:
            assert self.law is not None  # without draws
            law = self.law.of_combinations(L)
            slope = np.ones(len(self.table))
            if error == "std_error":
                se = np.sqrt(np.diagonal(self.covariance))
                errors = self.table[error].to_numpy()
                slope = np.divide(errors, se, out=slope, where=se > 0)
            half = L * slope
            cov = half @ self.covariance @ half.T
            se = np.sqrt(np.diagonal(cov))
            df = law.df_of(np.eye(len(se)))
            request = EffectRequest(
                self.prob,
                adjust=adjust,
                pairs_of=len(self.table) if text == "pairwise" else None,
                contrasts=True,
            )
            tests = _test_zero(
                columns["estimate"], se, cov, df, request, tested=self.has_tests
            )
            common_df = None if isinstance(df, np.ndarray) else df
            columns[error] = closed_error(se, common_df, posterior=error == "sd")
            columns["lower"] = columns["estimate"] - tests.critical * se
            columns["upper"] = columns["estimate"] + tests.critical * se
            columns |= tests.columns
            if not np.isnan(se).all():
                kind = tests.words + law.describe(df)
        table = pd.DataFrame({"contrast": names, **columns})
        what = f"contrasts of the {self.what}"
        table.attrs = self.table.attrs | {"kind": kind, "what": what}
        return replace(
            self,
            table=table,
            what=what,
            kind=kind,
            scale="identity",
            covariance=cov,
            draws=draws,
            law=law,
        )

    def _read_contrasts(self, text: str) -> tuple[list[str], Array, Array]:
        """Return the names of contrasts, their weights L (q, R) of the effects and the values r (q,) of their right sides."""
        R = len(self.table)
        if text == "pairwise":
            labels = self.table.loc[:, :"estimate"].iloc[:, :-1].astype(str)
            labels = labels.loc[:, labels.nunique() > 1]
            rows = labels.agg(", ".join, axis=1)
            pairs = list(combinations(range(R), 2))
            L = np.array([np.eye(R)[j] - np.eye(R)[i] for i, j in pairs])
            names = [f"{rows[j]} against {rows[i]}" for i, j in pairs]
            return names, L.reshape(-1, R), np.zeros(len(pairs))
        rows = [f"b{i + 1}" for i in range(R)]
        restrictions = parse_hypothesis(text, rows)
        if any(restriction.relation != "=" for restriction in restrictions):
            raise DataError(f"{text!r} has an inequality: write equations with =")
        names = [restriction.words(rows) for restriction in restrictions]
        return names, *matrix(restrictions, R)


@dataclass(frozen=True)
class EffectRequest:
    """How effects are evaluated: probability, covariance kind with its settings, adjustment for several tests and sample.

    `pairs_of` is the number of levels if the effects are all pairs of these.
    """

    prob: float
    covariance: Any = None
    clusters: Any = None  # labels of "cluster"
    lags: int | None = None
    data: Any = None  # the table of the labels
    adjust: str | None = None
    pairs_of: int | None = None
    sample: Population | None = None  # the rows of the model, as a sample
    contrasts: bool = False  # whether the effects are 0 under a null, as slopes are

    def spread(self, fit: Fit) -> Spread:
        """Return the covariance of the coefficients, with its degrees of freedom and its description."""
        return fit.spread(
            self.covariance, groups=self.clusters, data=self.data, lags=self.lags
        )


@dataclass(frozen=True)
class Scale:
    """The scales of effects: averages are transformed by `link`, contrasts back by the inverse of `back`."""

    link: Link
    back: Link
    name: str


def evaluate_effects(
    fit: Fit,
    quantities: list[AveragedEffect],
    scale: Scale,
    request: EffectRequest,
    *,
    what: str,
) -> Effects:
    """Return the table of these quantities, by the delta method for a mode and from the draws for a posterior.

    An adjustment adds p-values and simultaneous intervals; for sampled rows the standard errors include the sampling of the rows.
    """
    import pandas as pd

    quantity = _quantity_of(quantities)
    levels = () if quantity.has_scalar_mean else quantity.levels
    by_level = [{"level": str(v)} for v in levels] or [{}]
    labels = [
        {**q.labels, **group.labels, **level}
        for q in quantities
        for group in q.groups
        for level in by_level
    ]
    posterior = fit.solution.draws
    if posterior is not None and request.covariance is not None:
        raise Incompatible(
            "covariance= is for point estimates: the intervals of a posterior come from its draws"
        )
    if request.adjust is not None and posterior is not None:
        raise Incompatible(NO_TESTS)
    by_draws = posterior is not None and not (
        posterior.elliptical and _is_linear(quantities, scale)
    )
    if posterior is not None and not by_draws and request.sample is not None:
        # the closed form is of fixed rows
        by_draws = (
            _linearised_all(fit, quantities, scale, request.sample)[2] is not None
        )
    off_span = effect_sums(
        fit, [t for q in quantities for t in q.targets], closed=not by_draws
    )
    if by_draws:
        found = _effects_from_draws(fit, quantities, scale, request, off_span)
    elif off_span is None or _is_linear(quantities, scale):
        found = _effects_by_delta_method(fit, quantities, scale, request, off_span)
    else:
        found = _effects_from_asymptotic_draws(
            fit, quantities, scale, request, off_span
        )
    columns, kind, cov, draws, sampled, law = found
    if off_span is not None:
        kind += off_span.words
        law = law and law._replace(words=law.words + off_span.words)
    prob = request.prob
    over = "sample"
    where = "the rows are fixed"
    if request.sample is not None:
        over = "population"
        where = "the rows are a sample of it"
        if not sampled:
            where = "the effect is the same in every row"
    what = f"{what}; average over the {over} ({where})"
    table = pd.DataFrame(labels).assign(**columns)
    method = fit.described["method"]
    table.attrs = {
        "prob": prob,
        "kind": kind,
        "method": method,
        "what": what,
        "average_over": over,
    }
    name = scale.link.name
    tested = has_tests(fit)
    return Effects(table, what, prob, kind, method, name, cov, draws, over, law, tested)


def _is_linear(quantities: Sequence[AveragedEffect], scale: Scale) -> bool:
    """Return whether the effects are linear in the coefficients."""
    return _quantity_of(quantities).least_squares and scale.back is IDENTITY


def _quantity_of(quantities: Sequence[AveragedEffect]) -> Quantity:
    """Return the averaged quantity."""
    return quantities[0].targets[0].quantity


class EffectLaw(NamedTuple):
    """The law of effects over their standard errors: the degrees of freedom of combinations L (q, R), one or each its own (q,) by
    Satterthwaite, None for a normal law; and the words after it."""

    df_of: Callable[[Array], float | Array | None]
    words: str

    def of_combinations(self, L: Array) -> "EffectLaw":
        """Return the law of combinations of the effects."""
        return self._replace(df_of=lambda K: self.df_of(K @ L))

    def describe(self, df: float | Array | None, words: str | None = None) -> str:
        """Describe the law at these degrees of freedom, by default with its own words."""
        name = "normal"
        if isinstance(df, np.ndarray):
            low, high = df.min(), df.max()
            ends = f"{low:.4g}"
            if high - low >= 0.01 * high:
                ends += f" to {high:.4g}"
            name = f"Student-t (Satterthwaite's {ends} degrees of freedom)"
        elif df is not None:
            name = f"Student-t ({df:g} degrees of freedom)"
        return name + (self.words if words is None else words)


# columns, kind, covariance, draws, rows are a sample, law
Found = tuple[dict[str, Array], str, Array, Array | None, bool, EffectLaw | None]


def _effects_by_delta_method(
    fit: Fit,
    quantities: list[AveragedEffect],
    scale: Scale,
    request: EffectRequest,
    off_span: EffectSums | None,
) -> Found:
    """Return the effects by the delta method."""
    posterior = fit.solution.draws is not None
    z, G, rows = _linearised_all(fit, quantities, scale, request.sample)
    _require_identified(fit, G)
    cov, df, words = _covariance_of(fit, G, request, rows if off_span is None else None)
    source = f"{words.get('kind', 'given')} covariance"
    if rows is not None and "influence" not in source:
        source += f" and the sampling of the rows{words['why_not_influence']}"
    if off_span is not None:
        weights = off_span.weights(fit, quantities, scale.link)
        cov = cov + off_span.off.covariance(off_span.sums, weights)
        if rows is not None:
            cov = cov + rows.covariance()
    se = np.sqrt(np.diagonal(cov))
    if exact_fit(fit):  # the residuals are rounding, and so are the standard errors
        se = np.full_like(se, np.nan)
    has_own_df = (
        request.covariance is None
        and off_span is None
        and _is_linear(quantities, scale)
    )

    def df_of(L: Array) -> float | Array | None:
        if not has_own_df:
            return df
        own_df = _satterthwaite(fit, G, cov, rows, L)
        return df if own_df is None else own_df

    test_df = df_of(np.eye(len(z)))
    law = EffectLaw(df_of, f" Wald, delta method, {source}")
    if np.isnan(se).all():
        kind = f"none: {fit.method.name} carries no standard errors here"
        if exact_fit(fit):
            kind = "none: the fit is exact, its residuals are rounding"
    elif posterior:
        law = law._replace(words=", exact")
        kind = law.describe(test_df)
    else:
        where = "" if scale.back is IDENTITY else f" on the {scale.link.name} scale"
        kind = law.describe(test_df, f" Wald{where}, delta method, {source}")
    error = closed_error(se * np.abs(scale.back.slope(z)), df, posterior=posterior)
    columns = {"estimate": scale.back.inverse(z)}
    columns["sd" if posterior else "std_error"] = error
    tests = _test_zero(z, se, cov, test_df, request, tested=has_tests(fit))
    columns["lower"] = scale.back.inverse(z - tests.critical * se)
    columns["upper"] = scale.back.inverse(z + tests.critical * se)
    columns |= tests.columns
    return columns, tests.words + kind, cov, None, rows is not None, law


def _covariance_of(
    fit: Fit, G: Array, request: EffectRequest, rows: SampledRows | None
) -> tuple[Array, float | None, Mapping[str, Any]]:
    """Return the covariance (R, R) of effects with gradients G (R, p m + a) over (vec beta, log aux), its degrees of freedom and its
    description.

    Influence functions give it if the rows are a sample and the covariance is a sandwich (the default for maximum likelihood).
    Otherwise it is the covariance of the coefficients plus the covariance of the average over the rows.
    """
    kind = request.covariance
    if rows is not None and isinstance(kind, str) and kind in INFLUENCE:
        return _covariance_by_influence(fit, G, rows, kind, request)
    estimated = (
        fit.solution.replicates is None
        and fit.model.flat
        and fit.solution.draws is None
    )
    why_not = ""
    if rows is not None and kind is None and estimated and not exact_fit(fit):
        try:
            return _covariance_by_influence(fit, G, rows, "HC0", request)
        except (Incompatible, NotConverged, DataError) as error:
            why_not = f", because {error}"
    V, df, words = request.spread(fit)
    words = {**words, "why_not_influence": why_not}
    B = V.half(V.arrange(G, aux_names(fit.model.likelihood)))
    over_aux = G[:, fit.solution.beta.size :]
    lacking = without_error(fit.model, fit.solution, V)
    B[(over_aux[:, lacking] != 0.0).any(1)] = np.nan
    cov = B @ B.T
    if rows is not None:
        cov = cov + rows.covariance()
    return cov, df, words


def _covariance_by_influence(
    fit: Fit, G: Array, rows: SampledRows, kind: str, request: EffectRequest
) -> tuple[Array, float | None, Mapping[str, Any]]:
    settings = Settings.of(
        fit.method,
        fit.model.design,
        kind,
        groups=request.clusters,
        data=request.data,
        lags=request.lags,
    )
    cov, df, words = influence_covariance(
        fit.model, fit.solution, G, rows, kind, settings
    )
    # as in intervals: t goes with least squares
    return cov, None if fit.solution.df is None else df, words


def _satterthwaite(
    fit: Fit, G: Array, cov: Array, rows: SampledRows | None, L: Array
) -> Array | None:
    """Satterthwaite's degrees of freedom of the combinations L (q, R) of effects with gradients G (R, p + a) in the flat coefficients
    of REML, and of the sampling of the rows; None for others, and with effects of groups."""
    scales = fit.solution.effect_scales
    head = fit.model.design.ungrouped
    if (
        scales is None
        or why_no_satterthwaite(fit.solution)
        or np.delete(G, head, axis=1).any()
    ):
        return None
    df = satterthwaite(scales).df((L @ G)[:, head])
    if not ((df > 0).all() and np.isfinite(df).all()):
        return None
    if rows is None:
        return df
    # of the sum of two independent variances
    total = (L @ cov @ L.T).diagonal()
    of_rows = (L @ rows.covariance() @ L.T).diagonal()
    parts = (total - of_rows) ** 2 / df + of_rows**2 / (rows.count - 1.0)
    return np.asarray(total**2 / parts)


class ZeroTests(NamedTuple):
    """The half-width of intervals in standard errors, the columns of p-values, and the description of an adjustment."""

    critical: float | Array
    columns: dict[str, Array]
    words: str


def _test_zero(
    z: Array,
    se: Array,
    cov: Array,
    df: float | Array | None,
    request: EffectRequest,
    *,
    tested: bool,
) -> ZeroTests:
    """Return the tests z = 0 of contrasts; raise Incompatible for an adjustment without tests."""
    prob = request.prob
    if request.adjust is not None:
        require_tests(tested, se)
        found = adjust_tests(
            z / se, cov, df, prob=prob, adjust=request.adjust, pairs_of=request.pairs_of
        )
        columns = {"p_unadjusted": found.alone, "p_value": found.p}
        return ZeroTests(found.critical, columns, f"simultaneous, {found.words}; ")
    columns = {}
    if tested and request.contrasts:
        t = np.divide(z, se, out=np.full_like(z, np.nan), where=se > 0)
        columns = {"p_value": two_sided(t, df)}
    return ZeroTests(quantile(prob, df), columns, "")


def _linearise_effect(
    fit: Fit,
    q: AveragedEffect,
    scale: Scale,
    sample: Population | None,
    off_span: EffectSums | None,
) -> tuple[Array, Array, Array, Array]:
    """Return an effect on the link scale: values (R,), gradients (R, p m + a), for sampled rows the influence of one unit (n, G, K), and the
    size (R,) of the averages, below which an influence is rounding."""
    aux = {k: np.asarray(v) for k, v in fit.aux.items()}
    value = np.zeros(())
    gradient = np.zeros(())
    moves = np.zeros(())
    size = np.zeros(())
    for sign, target in q.terms:
        a, g, h = average(target, q.groups, fit.solution.beta, aux)
        z = scale.link.forward(a)
        slope = scale.link.slope(z)
        value = value + sign * z
        gradient = gradient + sign * g / slope[..., None]
        size = np.maximum(size, np.abs(a / slope))
        if sample is not None:
            added = () if off_span is None else off_span.means(target)
            if len(added):
                # rows differ as the process does, whose columns may carry no information there;
                # what is added is less the columns at the mean of the draws
                h = target.values(
                    fit.solution.posterior.flat["beta"].mean(0), aux, added
                )
                a = np.stack([g.share @ h[g.rows] for g in q.groups])
                slope = scale.link.slope(scale.link.forward(a))
                size = np.maximum(size, np.abs(a / slope))
            assert sample.units is not None  # these are rows of the model
            moves = moves + sign * moves_of_rows(h, a, q.groups, sample.units) / slope
    return value.ravel(), gradient.reshape(value.size, -1), moves, size.ravel()


def _linearised_all(
    fit: Fit,
    quantities: Sequence[AveragedEffect],
    scale: Scale,
    sample: Population | None,
    off_span: EffectSums | None = None,
) -> tuple[Array, Array, SampledRows | None]:
    """Values (R,), gradients (R, p m + a) over (vec beta, log aux), and the rows as a sample if the effect differs between rows."""
    effects = [_linearise_effect(fit, q, scale, sample, off_span) for q in quantities]
    z, G, moves, size = [list(parts) for parts in zip(*effects)]
    value, gradient = np.concatenate(z), np.concatenate(G)
    if sample is None:
        return value, gradient, None
    influence = np.concatenate([m.reshape(len(m), -1) for m in moves], 1)
    # means of equal rows differ in another sample, where a parameter does not
    may_be_constant = isinstance(_quantity_of(quantities), RowQuantity) or all(
        len(q.targets) > 1 or isinstance(q.targets[0], AverageSlope) for q in quantities
    )
    units = sample.units
    assert units is not None  # these are rows of the model
    if may_be_constant and is_constant(influence, np.concatenate(size), units):
        return value, gradient, None
    eta = None
    if sample.as_fitted:
        eta = sample.here.eta(fit.solution.beta)
    inputs = sample.design.inputs
    codes = [
        inputs[key][:, 0].astype(int)
        for key in sample.design.recipe.grouped
        if key in inputs
    ]
    rows = SampledRows(influence, units, sample.trials, ways_of_groups(codes), eta)
    return value, gradient, rows


def _effects_from_draws(
    fit: Fit,
    quantities: list[AveragedEffect],
    scale: Scale,
    request: EffectRequest,
    off_span: EffectSums | None,
) -> Found:
    """Return the effects of a posterior from its draws."""
    posterior = parameter_draws(fit.model, fit.solution)
    rng = np.random.default_rng([fit.seed, 7])
    size = len(posterior["beta"])
    linear = _is_linear(quantities, scale)
    joint = None
    if off_span is not None and not linear:
        joint = (off_span, off_span.joint(fit, size, rng))
    z = _effect_draws(quantities, scale, posterior, joint)
    if off_span is not None and linear:
        weights = off_span.weights(fit, quantities, scale.link)
        z = z + off_span.off.draws_of_sums(off_span.sums, weights, size, rng)
    rows = None
    if request.sample is not None:
        rows = _linearised_all(fit, quantities, scale, request.sample, off_span)[2]
    kind = f"equal-tailed, from {len(z)} draws"
    if rows is not None:
        kind += " of the parameters and of the sample of rows"
    estimate = scale.back.inverse(z).mean(0)
    columns, cov, shown = _spread_of_draws(fit, z, rows, scale, request.prob)
    columns = {"estimate": estimate, "sd": columns.pop("error"), **columns}
    return columns, kind, cov, shown, rows is not None, None


def _spread_of_draws(
    fit: Fit, z: Array, rows: SampledRows | None, scale: Scale, prob: float
) -> tuple[dict[str, Array], Array, Array]:
    """Return the spread of draws z (S, R) on the scale of the link: error, lower and upper as shown, the covariance of z, and the
    draws as shown. For sampled rows their sampling error is added: the normal limit of the Bayesian bootstrap of the averages."""
    if rows is not None:
        value, vector = np.linalg.eigh(rows.covariance())
        root = vector * np.sqrt(np.where(value > 0.0, value, 0.0))
        rng = np.random.default_rng([fit.seed, 8])
        z = z + rng.standard_normal((len(z), len(value))) @ root.T
    shown = scale.back.inverse(z)
    lower, upper = equal_tail(shown, prob)
    columns = {"error": mean_and_sd(shown)[1], "lower": lower, "upper": upper}
    return columns, sample_covariance(z), shown


def _effects_from_asymptotic_draws(
    fit: Fit,
    quantities: list[AveragedEffect],
    scale: Scale,
    request: EffectRequest,
    off_span: EffectSums,
) -> Found:
    """Effects of a point estimate that are nonlinear in a process off its columns: the mean over the process at the estimate, and intervals
    from draws of the estimate's normal distribution and of the process together. By the delta method where nothing is off."""
    S = ASYMPTOTIC_DRAWS
    rng = np.random.default_rng([fit.seed, 7])
    sampled = off_span.joint(fit, S, rng)
    if sampled.empty:
        return _effects_by_delta_method(fit, quantities, scale, request, None)
    _, G, rows = _linearised_all(fit, quantities, scale, request.sample)
    _require_identified(fit, G)
    V, _, words = request.spread(fit)
    draws = parameter_draws(fit.model, fit.solution, rng, V)
    joint = (off_span, sampled)
    z = _effect_draws(quantities, scale, draws, joint)
    # the average of the mean over the process, then its contrast: link(E b) - link(E a)
    estimate = {a: np.full((S, 1), v) for a, v in fit.aux.items()}
    estimate["beta"] = np.broadcast_to(fit.solution.beta, draws["beta"].shape)
    center = np.concatenate(
        [
            _contrast([scale.link.forward(a.mean(0)) for a in effect_means]).ravel()
            for effect_means in _averages(quantities, estimate, joint)
        ]
    )
    columns, cov, _ = _spread_of_draws(fit, z, rows, scale, request.prob)
    inverse = scale.back.inverse
    source = f"{words.get('kind', 'given')} covariance"
    if rows is not None:
        source += " and the sampling of the rows"
    kind = f"equal-tailed, from {S} draws of the normal distribution of the estimate, {source}"
    if not V.has_errors:
        columns = dict.fromkeys(columns, np.full(len(center), np.nan))
        kind = f"none: {fit.method.name} carries no standard errors here"
    columns = {
        "estimate": inverse(center),
        "std_error": columns.pop("error"),
        **columns,
    }
    se = np.sqrt(np.diagonal(cov))
    tests = _test_zero(center, se, cov, None, request, tested=has_tests(fit))
    law = EffectLaw(
        lambda L: None, f" with the covariance of {S} draws of the estimate, {source}"
    )
    if tests.words:
        half = tests.critical * se
        columns |= {"lower": inverse(center - half), "upper": inverse(center + half)}
        kind = tests.words + law.describe(None)
    return columns | tests.columns, kind, cov, None, rows is not None, law


Joint = tuple[EffectSums, JointDraws]


def _averages(
    quantities: Sequence[AveragedEffect],
    draws: Mapping[str, Array],
    joint: Joint | None,
) -> list[list[Array]]:
    """Return the averages (S, G, K) of each target of each effect."""

    def residual_draws(target: Target, atoms: slice) -> Sequence[Array]:
        if joint is None:
            return ()
        off_span, sampled = joint
        return [
            np.asarray(sampled.at(place, atoms))
            for place in off_span.places[id(target)]
        ]

    averages = iter(
        averages_of_draws(
            [(t, q.groups) for q in quantities for t in q.targets],
            draws,
            residual_draws,
        )
    )
    return [[next(averages) for _ in q.targets] for q in quantities]


def _contrast(means: list[Array]) -> Array:
    """Return the average, or the second average minus the first."""
    return means[0] if len(means) == 1 else means[1] - means[0]


def _effect_draws(
    quantities: Sequence[AveragedEffect],
    scale: Scale,
    draws: Mapping[str, Array],
    joint: Joint | None,
) -> Array:
    """The draws (S, R) of the effects on the scale of the link."""
    contrasts = [
        _contrast([scale.link.forward(a) for a in averages])
        for averages in _averages(quantities, draws, joint)
    ]
    return np.concatenate([z.reshape(len(z), -1) for z in contrasts], 1)


def _require_identified(fit: Fit, G: Array) -> None:
    """Raise Incompatible if an effect depends on a direction of the coefficients that the rows do not identify."""
    bad = int(is_unidentified(fit, G[:, : fit.solution.beta.size]).sum())
    if bad:
        raise Incompatible(
            f"{bad} of {len(G)} effects have no estimate, because columns are not identified ({fit.solution.detail}). "
            "Ask for effects that keep the relations of the training rows, drop a column, or give a prior."
        )


# A contrast of averages a and b: b - a, b / a, or the ratio of their odds, shown as it is or through exp.
PLAIN = Scale(IDENTITY, IDENTITY, "difference")
RATIO = Scale(LOG, LOG, "ratio")
