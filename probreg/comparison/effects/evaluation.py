"""The evaluation of averaged effects: estimates with errors and intervals by the delta method, or from draws."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison.effects.averages import (
    AveragedEffect,
    AverageSlope,
    EffectSums,
    RowGroup,
    Target,
    average,
    averages_of_draws,
    effect_sums,
    moves_of_rows,
)
from probreg.comparison.effects.scenarios import Population
from probreg.comparison.hypotheses.restricted import is_unidentified
from probreg.errors import DataError, Incompatible, NotConverged, Remedy
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit, has_tests
from probreg.fits.prediction import closed_error, parameter_draws
from probreg.inference.base import aux_names, has_effects
from probreg.inference.reported import without_error
from probreg.inference.uncertainty.asymptotic import ASYMPTOTIC_DRAWS
from probreg.inference.uncertainty.covariance import Settings, Spread
from probreg.inference.uncertainty.found_scales import df_without_groups
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
from probreg.inference.uncertainty.multiplicity import adjust_tests, require_tests
from probreg.likelihoods.links import IDENTITY, LOG, Link
from probreg.likelihoods.quantities import RowQuantity, depends_on_predictors
from probreg.linalg import symmetric_root
from probreg.system.terminal import format_number

Array = np.ndarray
Residual = Callable[[Target, slice], Sequence[Array]]
# with df and a description
EffectCovariance = tuple[Array, float | None, Mapping[str, Any]]


@dataclass(frozen=True)
class Scale:
    """The scales of effects: averages are transformed by `link`, contrasts back by the inverse of `back`."""

    link: Link
    back: Link
    name: str


# A contrast of averages a and b: b - a, b / a, or the ratio of their odds, shown directly or as exp.
PLAIN = Scale(IDENTITY, IDENTITY, "difference")
RATIO = Scale(LOG, LOG, "ratio")


class EffectLaw(NamedTuple):
    """The distribution of effects over their standard errors: the degrees of freedom of combinations L (q, R), one number or (q,) by
    Satterthwaite, None for a normal distribution; and the words after its name."""

    df_of: Callable[[Array], float | Array | None]
    words: str

    def of_combinations(self, L: Array) -> "EffectLaw":
        """Return the distribution of combinations of the effects."""
        return self._replace(df_of=lambda K: self.df_of(K @ L))

    def describe(self, df: float | Array | None, words: str | None = None) -> str:
        """Describe the distribution at these degrees of freedom, by default with its own words."""
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


class ZeroTests(NamedTuple):
    """The half-width of intervals in standard errors, the columns of p-values, and the description of an adjustment."""

    critical: float | Array
    columns: dict[str, Array]
    words: str


def zero_tests(
    z: Array,
    se: Array,
    cov: Array,
    df: float | Array | None,
    prob: float,
    *,
    adjust: str | None,
    pairs_of: int | None,
    tested: bool,
) -> ZeroTests:
    """Return the tests z = 0 of contrasts, without p-values unless they are `tested`; Incompatible for an adjustment without tests."""
    if adjust is not None:
        require_tests(tested, se)
        family = adjust_tests(
            z / se, cov, df, prob=prob, adjust=adjust, pairs_of=pairs_of
        )
        columns = {"p_unadjusted": family.alone, "p_value": family.p}
        return ZeroTests(family.critical, columns, f"simultaneous, {family.words}; ")
    columns = {}
    if tested:
        t = np.divide(z, se, out=np.full_like(z, np.nan), where=se > 0)
        columns = {"p_value": two_sided(t, df)}
    return ZeroTests(quantile(prob, df), columns, "")


class Evaluated(NamedTuple):
    """Columns of the table, the kind of the intervals, the covariance of the effects on their scale, the rows if they are a sample
    with different effects, and the distribution or the draws of the effects."""

    columns: dict[str, Array]
    kind: str
    covariance: Array
    rows: SampledRows | None
    law: EffectLaw | None = None
    draws: Array | None = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Effects of a fit on one scale: the rows to average over, the probability of intervals, the kind of covariance with its arguments,
    and the adjustment for several tests.

    `pairs_of` is the number of levels if the effects are all pairs of levels.
    """

    fit: Fit
    rows: Population
    groups: list[RowGroup]  # of the rows, with an average each
    prob: float
    covariance: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the covariance
    adjust: str | None = None
    pairs_of: int | None = None
    has_sampled_rows: bool = False  # the rows are a sample of a population
    # whether the effects are 0 under a null hypothesis, like slopes
    contrasts: bool = True
    effects: Sequence[AveragedEffect] = ()
    scale: Scale = PLAIN

    @property
    def is_linear(self) -> bool:
        """Whether the effects are linear in the coefficients."""
        return self.rows.quantity.least_squares and self.scale.back is IDENTITY

    @cached_property
    def is_from_draws(self) -> bool:
        """Whether the effects are computed from posterior draws; linear effects over fixed rows have a closed form."""
        posterior = self.fit.solution.draws
        if posterior is None:
            return False
        is_closed = posterior.elliptical and self.is_linear
        return not is_closed or self.linearised[2] is not None

    @cached_property
    def off_span(self) -> EffectSums | None:
        """The sums of processes in the linear predictors of the effects."""
        if not depends_on_predictors(self.rows.quantity):
            return None
        targets = [t for effect in self.effects for t in effect.targets]
        return effect_sums(self.fit, targets, closed=not self.is_from_draws)

    @cached_property
    def _weights(self) -> list[object]:
        """The slopes of the effects in the sums of processes, for each linear predictor."""
        assert self.off_span is not None
        link = self.scale.link
        return self.off_span.weights(self.fit, self.effects, self.groups, link)

    def evaluate(self) -> Evaluated:
        """Return the effects by the delta method for a mode and from the draws for a posterior."""
        off_span = self.off_span
        if self.is_from_draws:
            evaluated = self._from_draws()
        elif off_span is None or self.is_linear:
            evaluated = self._by_delta_method(off_span)
        else:
            evaluated = self._from_asymptotic_draws(off_span)
        if off_span is None:
            return evaluated
        law = evaluated.law
        if law is not None:
            law = law._replace(words=law.words + off_span.words)
        return evaluated._replace(kind=evaluated.kind + off_span.words, law=law)

    # ---- the delta method ----------------------------------------------------------------------------------------------

    @cached_property
    def linearised(self) -> tuple[Array, Array, SampledRows | None]:
        """Values (R,), gradients (R, p m + a) over (vec beta, log aux), and the rows as a sample if the effect differs between rows."""
        return self._linearise(None)

    def _linearise(
        self, off_span: EffectSums | None
    ) -> tuple[Array, Array, SampledRows | None]:
        effects = [self._linearise_effect(effect, off_span) for effect in self.effects]
        z, G, moves, size = [list(parts) for parts in zip(*effects)]
        value = np.concatenate(z)
        gradient = np.concatenate(G)
        if not self.has_sampled_rows:
            return value, gradient, None
        influence = np.concatenate([m.reshape(len(m), -1) for m in moves], 1)
        # in another sample the mean of other rows differs, but a parameter does not
        may_be_constant = isinstance(self.rows.quantity, RowQuantity) or all(
            len(effect.targets) > 1 or isinstance(effect.targets[0], AverageSlope)
            for effect in self.effects
        )
        sample = self.rows
        units = sample.units
        assert units is not None  # these are rows of the model
        if may_be_constant and is_constant(influence, np.concatenate(size), units):
            return value, gradient, None
        eta = None
        if sample.as_fitted:
            eta = sample.here.eta(self.fit.solution.beta)
        inputs = sample.design.inputs
        codes = [
            inputs[key][:, 0].astype(int)
            for key in sample.design.recipe.grouped
            if key in inputs
        ]
        rows = SampledRows(influence, units, sample.trials, ways_of_groups(codes), eta)
        return value, gradient, rows

    def _linearise_effect(
        self, effect: AveragedEffect, off_span: EffectSums | None
    ) -> tuple[Array, Array, Array, Array]:
        """Return an effect on the link scale: values (R,), gradients (R, p m + a), for sampled rows the influence of one unit (n, G, K), and the
        size (R,) of the averages, below which an influence is rounding."""
        solution = self.fit.solution
        groups = self.groups
        link = self.scale.link
        aux = self.fit.aux
        value = np.zeros(())
        gradient = np.zeros(())
        moves = np.zeros(())
        size = np.zeros(())
        for sign, target in effect.terms:
            a, g, h = average(target, groups, solution.beta, aux)
            z = _to_link_scale(link, a)
            slope = link.slope(z)
            value = value + sign * z
            gradient = gradient + sign * g / slope[..., None]
            size = np.maximum(size, np.abs(a / slope))
            if self.has_sampled_rows:
                added = () if off_span is None else off_span.means(target)
                if len(added):
                    # rows differ by the process, and its columns may carry no information there;
                    # the added part excludes the columns at the mean of the draws
                    h = target.values(
                        solution.posterior.flat["beta"].mean(0), aux, added
                    )
                    a = np.stack([g.share @ h[g.rows] for g in groups])
                    slope = link.slope(link.forward(a))
                    size = np.maximum(size, np.abs(a / slope))
                units = self.rows.units
                assert units is not None  # these are rows of the model
                moves = moves + sign * moves_of_rows(h, a, groups, units) / slope
        return value.ravel(), gradient.reshape(value.size, -1), moves, size.ravel()

    def _by_delta_method(self, off_span: EffectSums | None) -> Evaluated:
        fit = self.fit
        scale = self.scale
        posterior = fit.solution.draws is not None
        z, G, rows = self.linearised
        self._require_identified(G)
        cov, df, words = self._covariance_of_effects(rows if off_span is None else None)
        source = f"{words.get('kind', 'given')} covariance"
        if rows is not None and "influence" not in source:
            source += f" and the sampling of the rows{words['why_not_influence']}"
        if off_span is not None:
            cov = cov + off_span.off.covariance(off_span.sums, self._weights)
            if rows is not None:
                cov = cov + rows.covariance()
        se = np.sqrt(np.diagonal(cov))
        if exact_fit(fit):  # the residuals are rounding, and so are the standard errors
            se = np.full_like(se, np.nan)
        has_own_df = self.covariance is None and off_span is None and self.is_linear

        def df_of(L: Array) -> float | Array | None:
            own_df = self._satterthwaite(cov, L) if has_own_df else None
            return df if own_df is None else own_df

        test_df = df_of(np.eye(len(z)))
        law = EffectLaw(df_of, f" Wald, delta method, {source}")
        if exact_fit(fit):
            kind = "none: the fit is exact, its residuals are rounding"
        elif np.isnan(se).all():
            kind = f"none: {fit.method.name} carries no standard errors here"
        elif posterior:
            law = law._replace(words=", exact")
            kind = law.describe(test_df)
        else:
            where = "" if scale.back is IDENTITY else f" on the {scale.link.name} scale"
            kind = law.describe(test_df, f" Wald{where}, delta method, {source}")
        error = closed_error(se * np.abs(scale.back.slope(z)), df, posterior=posterior)
        columns = {"estimate": scale.back.inverse(z)}
        columns["sd" if posterior else "std_error"] = error
        tests = self._zero_tests(z, se, cov, test_df)
        columns["lower"] = scale.back.inverse(z - tests.critical * se)
        columns["upper"] = scale.back.inverse(z + tests.critical * se)
        columns |= tests.columns
        return Evaluated(columns, tests.words + kind, cov, rows, law)

    def _zero_tests(
        self, z: Array, se: Array, cov: Array, df: float | Array | None
    ) -> ZeroTests:
        tested = self.contrasts and has_tests(self.fit)
        return zero_tests(
            z, se, cov, df, self.prob, adjust=self.adjust, pairs_of=self.pairs_of, tested=tested,
        )  # fmt: skip

    @cached_property
    def _spread(self) -> Spread:
        """The covariance of the coefficients, with its degrees of freedom and its description."""
        return self.fit.spread(self.covariance, **self.settings)

    def _covariance_of_effects(self, rows: SampledRows | None) -> EffectCovariance:
        """Return the covariance (R, R) of the effects, its degrees of freedom and its description.

        Influence functions give it if the rows are a sample and the covariance is a sandwich (the default for maximum likelihood) of a
        model without random effects.
        Otherwise it is the covariance of the coefficients plus the covariance of the average over the rows.
        """
        fit = self.fit
        kind = self.covariance
        is_sandwich = isinstance(kind, str) and kind in INFLUENCE
        if rows is not None and is_sandwich and not has_effects(fit.model):
            return self._covariance_by_influence(rows, kind)
        estimated = (
            fit.solution.replicates is None
            and fit.model.flat
            and fit.solution.draws is None
        )
        why_not = ""
        if rows is not None and kind is None and estimated and not exact_fit(fit):
            try:
                return self._covariance_by_influence(rows, "HC0")
            except (Incompatible, NotConverged, DataError) as error:
                why_not = f", because {error}"
        V, df, words = self._spread
        G = self.linearised[1]
        B = V.half(V.arrange(G, aux_names(fit.model.likelihood)))
        over_aux = G[:, fit.solution.beta.size :]
        lacking = without_error(fit.model, fit.solution, V)
        B[(over_aux[:, lacking] != 0.0).any(1)] = np.nan
        cov = B @ B.T
        if rows is not None:
            cov = cov + rows.covariance()
        return cov, df, {**words, "why_not_influence": why_not}

    def _covariance_by_influence(
        self, rows: SampledRows, kind: str
    ) -> EffectCovariance:
        fit = self.fit
        settings = Settings.of(fit.method, fit.model.design, kind, **self.settings)
        G = self.linearised[1]
        cov, df, words = influence_covariance(
            fit.model, fit.solution, G, rows, kind, settings
        )
        # as for intervals: least squares has t
        return cov, None if fit.solution.df is None else df, words

    def _satterthwaite(self, cov: Array, L: Array) -> Array | None:
        """Satterthwaite's degrees of freedom of the combinations L (q, R) of effects of the flat coefficients of REML, and of the
        sampling of the rows; None for others, and with effects of groups."""
        _, G, rows = self.linearised
        head = self.fit.model.design.ungrouped
        df = df_without_groups(self.fit.solution, head, L @ G)
        if df is None or rows is None:
            return df
        # of the sum of two independent variances
        total = (L @ cov @ L.T).diagonal()
        of_rows = (L @ rows.covariance() @ L.T).diagonal()
        parts = (total - of_rows) ** 2 / df + of_rows**2 / (rows.count - 1.0)
        return total**2 / parts

    def _require_identified(self, G: Array) -> None:
        """Raise Incompatible if an effect depends on a direction of the coefficients that the rows do not identify."""
        solution = self.fit.solution
        bad = int(is_unidentified(self.fit, G[:, : solution.beta.size]).sum())
        if bad:
            raise Incompatible(
                f"{bad} of {len(G)} effects have no estimate, because columns are not identified ({solution.detail}). "
                "Ask for effects that keep the relations of the training rows, drop a column, or give a prior."
            )

    # ---- draws ---------------------------------------------------------------------------------------------------------

    def _from_draws(self) -> Evaluated:
        """Return the effects of a posterior from its draws."""
        fit = self.fit
        off_span = self.off_span
        posterior = parameter_draws(fit)
        rng = np.random.default_rng([fit.seed, 7])
        size = len(posterior["beta"])
        residual = None
        if off_span is not None and not self.is_linear:
            residual = partial(off_span.residual, off_span.joint(fit, size, rng))
        z = self._effect_draws(posterior, residual)
        if off_span is not None and self.is_linear:
            z = z + off_span.off.draws_of_sums(off_span.sums, self._weights, size, rng)
        rows = self._linearise(off_span)[2] if self.has_sampled_rows else None
        kind = f"equal-tailed, from {len(z)} draws"
        if rows is not None:
            kind += " of the parameters and of the sample of rows"
        columns = {"estimate": self.scale.back.inverse(z).mean(0)}
        z, shown = self._add_sampling_of_rows(z, rows)
        columns["sd"] = mean_and_sd(shown)[1]
        columns["lower"], columns["upper"] = equal_tail(shown, self.prob)
        return Evaluated(columns, kind, sample_covariance(z), rows, draws=shown)

    def _from_asymptotic_draws(self, off_span: EffectSums) -> Evaluated:
        """Effects of a point estimate that are nonlinear in a process off its columns: the mean over the process at the estimate, and intervals
        from draws of the estimate's normal distribution and of the process together. If no row is off the columns, the delta method is used."""
        fit = self.fit
        link = self.scale.link
        inverse = self.scale.back.inverse
        S = ASYMPTOTIC_DRAWS
        rng = np.random.default_rng([fit.seed, 7])
        joint = off_span.joint(fit, S, rng)
        if joint.empty:
            return self._by_delta_method(None)
        _, G, rows = self.linearised
        self._require_identified(G)
        V, _, words = self._spread
        draws = parameter_draws(fit, rng, V)
        residual = partial(off_span.residual, joint)
        z = self._effect_draws(draws, residual)
        # the average of the mean over the process, then its contrast: link(E b) - link(E a)
        estimate = {a: np.full((S, 1), v) for a, v in fit.aux.items()}
        estimate["beta"] = np.broadcast_to(fit.solution.beta, draws["beta"].shape)
        means = [
            [a.mean(0) for a in averages]
            for averages in self._averages(estimate, residual)
        ]
        center = np.concatenate([_contrast(link, parts).ravel() for parts in means])
        z, shown = self._add_sampling_of_rows(z, rows)
        cov = sample_covariance(z)
        se = np.sqrt(np.diagonal(cov))
        source = f"{words.get('kind', 'given')} covariance"
        if rows is not None:
            source += " and the sampling of the rows"
        kind = f"equal-tailed, from {S} draws of the normal distribution of the estimate, {source}"
        columns = {"estimate": inverse(center), "std_error": mean_and_sd(shown)[1]}
        columns["lower"], columns["upper"] = equal_tail(shown, self.prob)
        if not V.has_errors:
            nothing = np.full(len(center), np.nan)
            columns |= dict.fromkeys(("std_error", "lower", "upper"), nothing)
            kind = f"none: {fit.method.name} carries no standard errors here"
        tests = self._zero_tests(center, se, cov, None)
        law = EffectLaw(
            lambda L: None,
            f" with the covariance of {S} draws of the estimate, {source}",
        )
        if tests.words:
            half = tests.critical * se
            columns |= {
                "lower": inverse(center - half),
                "upper": inverse(center + half),
            }
            kind = tests.words + law.describe(None)
        return Evaluated(columns | tests.columns, kind, cov, rows, law)

    def _add_sampling_of_rows(
        self, z: Array, rows: SampledRows | None
    ) -> tuple[Array, Array]:
        """Return draws z (S, R) on the scale of the link and as shown. For sampled rows their sampling error is added: the normal limit
        of the Bayesian bootstrap of the averages."""
        if rows is not None:
            root = symmetric_root(rows.covariance())
            rng = np.random.default_rng([self.fit.seed, 8])
            z = z + rng.standard_normal(z.shape) @ root.T
        return z, self.scale.back.inverse(z)

    def _averages(
        self, draws: Mapping[str, Array], residual: Residual | None
    ) -> list[list[Array]]:
        """Return the averages (S, G, K) of each target of each effect."""
        targets = [t for effect in self.effects for t in effect.targets]
        averages = iter(averages_of_draws(targets, self.groups, draws, residual))
        return [[next(averages) for _ in effect.targets] for effect in self.effects]

    def _effect_draws(
        self, draws: Mapping[str, Array], residual: Residual | None
    ) -> Array:
        """The draws (S, R) of the effects on the scale of the link."""
        contrasts = [
            _contrast(self.scale.link, averages)
            for averages in self._averages(draws, residual)
        ]
        return np.concatenate([z.reshape(len(z), -1) for z in contrasts], 1)


def _contrast(link: Link, means: list[Array]) -> Array:
    """Return the average on the scale of the link, or the second average minus the first."""
    z = [_to_link_scale(link, mean) for mean in means]
    return z[0] if len(z) == 1 else z[1] - z[0]


def _to_link_scale(link: Link, averages: Array) -> Array:
    """Return the averages on the scale of the link; Incompatible outside its domain, where a ratio is undefined."""
    with np.errstate(invalid="ignore"):
        z = link.forward(averages)
    outside = np.isnan(z) & ~np.isnan(averages)
    if outside.any():
        value = format_number(float(averages[outside][0]))
        raise Incompatible(
            f"an average is {value}, and has no {link.name} for a ratio: use measure='difference'",
            remedy=Remedy("measure", "difference"),
        )
    return z
