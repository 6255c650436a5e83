"""Averaged effects with their intervals: by the delta method, from posterior draws, or from draws of the estimate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from probreg.inference.base import aux_names
from probreg.inference.reported import without_error
from probreg.inference.uncertainty.asymptotic import ASYMPTOTIC_DRAWS
from probreg.inference.uncertainty.clusters import group_codes
from probreg.inference.uncertainty.covariance import (
    Settings,
    Spread,
    check_estimator,
    check_settings,
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
)
from probreg.inference.uncertainty.multiplicity import (
    NO_TESTS,
    AdjustedTests,
    adjust_tests,
    require_tests,
)
from probreg.likelihoods.links import IDENTITY, LOG, Link
from probreg.likelihoods.quantities import Quantity, RowQuantity
from probreg.model.off_span import JointDraws
from probreg.tables import PrintsTable, Table

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Effects(PrintsTable):
    """Averages over rows with their intervals.

    `table` is a pandas DataFrame, one row per effect: its labels (variable, contrast, by, at, level), estimate, std_error (of a
    point estimate) or sd (of a posterior), lower, upper; unrounded, with the settings prob, kind, method and "what" in `attrs`. `covariance`
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

    @property
    def _display_table(self) -> Table:
        how = f"{self.method}, {100 * self.prob:g} % intervals: {self.kind}"
        return Table.from_pandas(self.table, index=False, head=(self.what, how))


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
        found = _of_draws(fit, quantities, scale, request, off_span)
    elif off_span is None or _is_linear(quantities, scale):
        found = _of_delta(fit, quantities, scale, request, off_span)
    else:
        found = _of_asymptotic(fit, quantities, scale, request, off_span)
    columns, kind, cov, draws, sampled = found
    if off_span is not None:
        kind += off_span.words
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
    return Effects(table, what, prob, kind, method, scale.link.name, cov, draws, over)


def _is_linear(quantities: Sequence[AveragedEffect], scale: Scale) -> bool:
    """Return whether the effects are linear in the coefficients."""
    return _quantity_of(quantities).least_squares and scale.back is IDENTITY


def _quantity_of(quantities: Sequence[AveragedEffect]) -> Quantity:
    """Return the averaged quantity."""
    return quantities[0].targets[0].quantity


# columns, kind, covariance, draws, rows are a sample
Found = tuple[dict[str, Array], str, Array, Array | None, bool]


def _of_delta(
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
    distribution = "normal" if df is None else f"Student-t ({df:g} degrees of freedom)"
    test_df: float | Array | None = df
    if (
        request.covariance is None
        and off_span is None
        and _is_linear(quantities, scale)
    ):
        own_df = _satterthwaite(fit, G, cov, rows)
        if own_df is not None:
            test_df = own_df
            low, high = own_df.min(), own_df.max()
            ends = f"{low:.4g}"
            if high - low >= 0.01 * high:
                ends += f" to {high:.4g}"
            distribution = f"Student-t (Satterthwaite's {ends} degrees of freedom)"
    if np.isnan(se).all():
        kind = f"none: {fit.method.name} carries no standard errors here"
        if exact_fit(fit):
            kind = "none: the fit is exact, its residuals are rounding"
    elif posterior:
        kind = f"{distribution}, exact"
    else:
        where = "" if scale.back is IDENTITY else f" on the {scale.link.name} scale"
        kind = f"{distribution} Wald{where}, delta method, {source}"
    error = closed_error(se * np.abs(scale.back.slope(z)), df, posterior=posterior)
    columns = {"estimate": scale.back.inverse(z)}
    columns["sd" if posterior else "std_error"] = error
    tests = {}
    critical = quantile(request.prob, test_df)
    if request.adjust is not None:
        together = _adjust(fit, request, z, cov, test_df)
        critical = together.critical
        tests = {"p_unadjusted": together.alone, "p_value": together.p}
        kind = f"simultaneous, {together.words}; {kind}"
    columns["lower"] = scale.back.inverse(z - critical * se)
    columns["upper"] = scale.back.inverse(z + critical * se)
    return columns | tests, kind, cov, None, rows is not None


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
        return _by_influence(fit, G, rows, kind, request)
    estimated = (
        fit.solution.replicates is None
        and fit.model.flat
        and fit.solution.draws is None
    )
    why_not = ""
    if rows is not None and kind is None and estimated and not exact_fit(fit):
        try:
            return _by_influence(fit, G, rows, "HC0", request)
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


def _by_influence(
    fit: Fit, G: Array, rows: SampledRows, kind: str, request: EffectRequest
) -> tuple[Array, float | None, Mapping[str, Any]]:
    check_estimator(fit.method, kind)
    check_settings(request.clusters, request.lags, "stata", kind)
    codes: list[Array] = []
    if kind == "cluster":
        codes = group_codes(request.clusters, fit.model.design, request.data)
    settings = Settings(codes, request.lags)
    cov, df, words = influence_covariance(
        fit.model, fit.solution, G, rows, kind, settings
    )
    # as in intervals: t goes with least squares
    return cov, None if fit.solution.df is None else df, words


def _satterthwaite(
    fit: Fit, G: Array, cov: Array, rows: SampledRows | None
) -> Array | None:
    """Satterthwaite's degrees of freedom of effects with gradients G (R, p + a) in the flat coefficients of REML, and of the sampling of
    the rows; None for others, and with effects of groups."""
    scales = fit.solution.effect_scales
    head = fit.model.design.ungrouped
    if (
        scales is None
        or why_no_satterthwaite(fit.solution)
        or np.delete(G, head, axis=1).any()
    ):
        return None
    df = satterthwaite(scales).df(G[:, head])
    if not ((df > 0).all() and np.isfinite(df).all()):
        return None
    if rows is None:
        return df
    # of the sum of two independent variances
    total = cov.diagonal()
    of_rows = rows.covariance().diagonal()
    parts = (total - of_rows) ** 2 / df + of_rows**2 / (rows.count - 1.0)
    return np.asarray(total**2 / parts)


def _adjust(
    fit: Fit, request: EffectRequest, z: Array, cov: Array, df: float | Array | None
) -> AdjustedTests:
    """Return the adjustment of the tests z = 0; raise Incompatible if there are no tests."""
    assert request.adjust is not None  # callers ask first
    se = np.sqrt(np.diagonal(cov))
    require_tests(has_tests(fit), se)
    return adjust_tests(
        z / se,
        cov,
        df,
        prob=request.prob,
        adjust=request.adjust,
        pairs_of=request.pairs_of,
    )


def _linearise_effect(
    fit: Fit,
    q: AveragedEffect,
    scale: Scale,
    sample: Population | None = None,
    off_span: EffectSums | None = None,
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


def _of_draws(
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
    return columns, kind, cov, shown, rows is not None


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


def _of_asymptotic(
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
        return _of_delta(fit, quantities, scale, request, None)
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
    if request.adjust is not None:
        together = _adjust(fit, request, center, cov, None)
        half = together.critical * np.sqrt(np.diagonal(cov))
        columns |= {"lower": inverse(center - half), "upper": inverse(center + half)}
        columns |= {"p_unadjusted": together.alone, "p_value": together.p}
        kind = f"simultaneous, {together.words}; normal with the covariance of {S} draws of the estimate, {source}"
    return columns, kind, cov, None, rows is not None


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
