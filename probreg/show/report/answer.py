"""The answer of a report: a sentence for every requested effect, and predictions of named rows.

A change of one variable changes every linear predictor by c' beta, where c is the change of the columns. If c is the same in every
row, the effect is exp(c' beta) times the odds or the count, or c' beta in units of the response. Otherwise it is an average over rows.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from probreg.arguments.scalars import list_names
from probreg.comparison.effects.scenarios import (
    Contrast,
    Population,
    moves,
    population,
    trials_of,
)
from probreg.comparison.effects.verbs import (
    changing_variables,
    comparisons,
    mean_words,
)
from probreg.comparison.hypotheses.point_estimate import Combinations
from probreg.comparison.hypotheses.posterior import (
    described_combinations,
    probability_of_inequalities,
)
from probreg.data.formula.functions import categories
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.fits.prediction import rows_without_estimate
from probreg.inference.uncertainty.intervals.arithmetic import quantile, student_cdf
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.likelihoods import Likelihood, OfTrials
from probreg.likelihoods.links import IDENTITY, LOG, LOGIT
from probreg.system.terminal import format_probability
from probreg.tables.render import decimals, format_rounded

Array = np.ndarray


class EffectSentence(NamedTuple):
    """The effect of a change of one variable on a quantity, with its interval; or the reason why it has no estimate."""

    move: str
    what: str  # the quantity: "the odds of damage = 1"
    ratio: bool  # rather than a difference
    estimate: float
    lower: float
    upper: float
    kind: str  # of the interval
    prob: float
    above: float = np.nan  # posterior probability that it is above 1, or 0
    why: str = ""

    @property
    def sentence(self) -> str:
        """The effect in words, with the interval, its kind and its probability."""
        if np.isnan(self.estimate):
            return f"{self.move}: no estimate exists; {self.why}."
        numbers = (self.estimate, self.lower, self.upper)
        if self.ratio:
            estimate, lower, upper = map(_format_ratio, numbers)
            verb = "are" if self.what.startswith("the odds") else "is"
            effect = f"{verb} {estimate} times as large"
        else:
            places = max(decimals(np.array([(self.upper - self.lower) / 4.0])) - 1, 0)
            estimate, lower, upper = (format_rounded(v, places) for v in numbers)
            effect = f"differs by {estimate}"
        interval = "no interval"
        if lower and upper:
            kind = KIND_WORDS.get(self.kind, self.kind)
            interval = f"{100 * self.prob:g} % {kind} interval {lower} to {upper}"
        if not np.isnan(self.above):
            share = format_probability(self.above)
            sign = "" if share[0] in "<>" else "= "
            interval += f"; P(above {int(self.ratio)}) {sign}{share}"
        return f"{self.move}: {self.what} {effect} ({interval})."


def _format_ratio(value: float) -> str:
    """A ratio to three digits."""
    if not np.isfinite(value):
        return "" if np.isnan(value) else "∞"
    if 100.0 <= value < 1e6:
        return f"{value:,.0f}"
    return f"{value:#.3g}".removesuffix(".")


class Answer(NamedTuple):
    """The effects of one fit, and remarks on those that cannot be computed."""

    effects: list[EffectSentence]
    remarks: list[str]


def answer(fit: Fit, effects: Any, *, data: Any, prob: float) -> Answer:
    """Return the effects of `fit` for variables by name, for a mapping from names to moves, or by default for all variables."""
    max_variables = 40  # variables with effects by default
    try:
        rows = population(
            fit.model.likelihood,
            fit.model.design,
            data,
            (),
            trials=trials_of(fit.model),
        )
    except DataError as error:
        if effects is not None:
            raise
        return Answer([], [f"No effects: {error}"])
    remarks = []
    if effects is None:
        names = changing_variables(rows)
        if len(names) > max_variables:
            remarks.append(
                f"Effects of the first {max_variables} of {len(names)} variables; name others by effects=."
            )
        if not names:
            remarks.append("The model has no variables, so there are no effects.")
        steps = dict.fromkeys(names[:max_variables])
    elif isinstance(effects, Mapping):
        steps = dict(effects)
    else:
        steps = dict.fromkeys(list_names(effects))
    sentences = []
    for name, step in steps.items():
        try:
            sentences += _effects_of_variable(fit, rows, name, step, data, prob)
        except (DataError, Incompatible) as error:
            if effects is not None:
                raise
            remarks.append(f"No effect of {name}: {error}")
    return Answer(sentences, remarks)


def _effects_of_variable(
    fit: Fit, rows: Population, name: str, step: Any, data: Any, prob: float
) -> list[EffectSentence]:
    """The effects of a variable: for one move everywhere if the move changes the columns equally in all rows, otherwise on average.

    By default a number moves by one unit or one standard deviation, or between its quartiles if its effect differs by row.
    """
    plain_sd = (0.5, 20.0)  # standard deviations between which one unit is a plain step
    quartiles = ""
    if step is None and name in rows.table and name not in categories(rows.design):
        x = np.asarray(rows.table[name])
        if x.dtype.kind in "iuf" and len(np.unique(x)) > 2:
            low, high = np.quantile(x.astype(float), [0.25, 0.75])
            quartiles = "iqr" if high > low else "minmax"
            sd = x.astype(float).std(ddof=1)
            step = None if plain_sd[0] <= sd <= plain_sd[1] else "sd"
    contrasts = moves(rows, name, step)
    changes = [_column_change(rows, name, move) for move in contrasts]
    if quartiles and any(c is None for c in changes):
        step = quartiles
        contrasts = moves(rows, name, step)
        changes = [_column_change(rows, name, move) for move in contrasts]
    likelihood = fit.model.likelihood
    is_ratio, _ = effect_scale(likelihood, fit.model.design.response)
    constant = is_ratio or likelihood.link is IDENTITY or not likelihood.has_scalar_mean
    if not constant or any(c is None for c in changes):
        return _average_effects(fit, rows, contrasts, {name: step}, data, prob)
    return [
        effect
        for move, c in zip(contrasts, changes)
        if c is not None and c.any()  # otherwise only an offset depends on it
        for effect in _linear_effects(fit, c, _move_words(rows, name, move), prob)
    ]


def _column_change(rows: Population, name: str, move: Contrast) -> Array | None:
    """Return the change c (p,) of the columns if it is the same in every row; None otherwise, and for a Gaussian process."""
    # a smaller difference between the changes of a column in two rows is rounding
    tolerance = 1e-9
    if rows.design.recipe.processes:
        return None
    try:
        low, high = (rows.mean(name, v) for v in (move.low, move.high))
    except DataError:  # beyond the ends of a spline
        return None
    D = high.X - low.X
    largest = np.maximum(np.abs(high.X), np.abs(low.X)).max(0, initial=0.0)
    rounding = 16.0 * np.finfo(float).eps * largest
    if (np.ptp(D, axis=0) > tolerance * np.abs(D).max(0, initial=0.0) + rounding).any():
        return None
    before = low.offset
    after = high.offset
    if before is not None and after is not None and (before != after).any():
        return None
    c = D.mean(0)
    c[np.abs(c) <= rounding] = 0.0
    return c


def _move_words(rows: Population, name: str, move: Contrast) -> str:
    """A change in words: "temperature 10 lower", "gnp 99,400 higher (one sd)", "species Gentoo against Adelie"."""
    if name in categories(rows.design) or " against " in move.contrast:
        return f"{name} {move.contrast}"
    if " to " in move.contrast:
        return f"{name} from {np.mean(move.low):.4g} to {np.mean(move.high):.4g}"
    d = np.mean(move.high - move.low)
    size = f"{abs(d):,.0f}" if abs(d) >= 1000.0 else f"{abs(d):.4g}"
    side = "higher" if d > 0 else "lower"
    words = f"{name} {size} {side}"
    if "one sd" in move.contrast:
        words += " (one sd)"
    return words


def effect_scale(likelihood: Likelihood, response: str) -> tuple[bool, list[str]]:
    """Return whether effects of one linear predictor are ratios, and the quantity for each outcome."""
    if likelihood.outcomes:
        base = [v for v in likelihood.level_names if v not in likelihood.outcomes]
        if base:
            against = base[0]
        else:
            against = "the geometric mean of the classes"
        return True, [
            f"the odds of {level} against {against}" for level in likelihood.outcomes
        ]
    if likelihood.link is LOGIT:
        if isinstance(likelihood, OfTrials):
            event = f"a success ({response})"
        elif likelihood.levels:
            event = f"{response} = {likelihood.levels[-1]}"
        else:
            event = response
        return True, [f"the odds of {event}"]
    return likelihood.link is LOG, [mean_words(likelihood, response)]


def _linear_effects(fit: Fit, c: Array, move: str, prob: float) -> list[EffectSentence]:
    """Effects of a change that is the same in every row: c' beta for each outcome, through exp for a ratio."""
    is_ratio, quantities = effect_scale(fit.model.likelihood, fit.model.design.response)
    numbers, kind, above = _contrast_of_columns(fit, c, prob)
    reason = "" if np.isfinite(numbers[0]).all() else no_estimate(fit)
    if is_ratio:
        with np.errstate(over="ignore"):
            numbers = np.exp(numbers)
    return [
        EffectSentence(move, quantity, is_ratio, z, low, high, kind, prob, p, reason)
        for quantity, z, low, high, p in zip(quantities, *numbers.tolist(), above)
    ]


def no_estimate(fit: Fit) -> str:
    """Return why an effect of this fit has no estimate."""
    s = fit.solution
    if fit.model.likelihood.may_diverge and not s.status.good and s.null_space is None:
        return "the likelihood has no maximum (separation)"
    return "its columns are collinear with others"


def _contrast_of_columns(fit: Fit, c: Array, prob: float) -> tuple[Array, str, Array]:
    """Return c' beta for each outcome with the ends of its interval, (3, K), the kind of interval, and P(c' beta > 0) of a posterior, (K,).

    A multiple of one coefficient has the interval of this coefficient; others have Wald's interval, or an interval of the posterior.
    """
    s = fit.solution
    T = fit.model.likelihood.contrast_matrix
    above = np.full(len(T), np.nan)
    nothing = np.full((3, len(T)), np.nan)
    if s.null_space is None:
        is_estimable = not np.isnan(fit.coef.values).any()
    else:
        is_estimable = not len(rows_without_estimate(s, c[None]))
    if not is_estimable:
        return nothing, "", above
    z = T @ (c @ s.beta)
    if s.draws is None:
        G = np.stack([np.outer(c, t).ravel() for t in T])  # d (c' beta_k) / d vec(beta)
        combinations = Combinations.at(fit, G, np.zeros(len(G)), None)
        half = quantile(prob, combinations.df) * combinations.std_error
        lower, upper = z - half, z + half
        kind = "wald" if combinations.df is None else "t"
    else:
        L = np.kron(c[fit.model.design.ungrouped], np.eye(len(T)))  # (K, reported)
        with np.errstate(all="ignore"):  # a standard deviation may be 0
            described = described_combinations(fit, L, prob)
            lower, upper = described["lower"], described["upper"]
            beliefs = [
                probability_of_inequalities(fit, row[None], np.zeros(1), np.ones(1))
                for row in L
            ]
        above = np.array([belief.value for belief in beliefs])
        kind = "eti"
    changed = np.flatnonzero(c)
    if len(changed) == 1 and s.null_space is None:
        j = changed[0]
        try:
            interval = fit.interval(prob)
        except (Incompatible, NotConverged):  # at a kink, or without df
            return np.stack([z, *nothing[:2]]), "", above
        kind = str(interval.attrs["kind"])
        place = int(np.searchsorted(fit.model.design.ungrouped, j))
        ends = [
            np.atleast_1d(interval[k].values[place]) * c[j] for k in ("lower", "upper")
        ]
        lower, upper = np.sort(ends, axis=0)
    return np.stack([z, lower, upper]), kind, above


def _average_effects(
    fit: Fit,
    rows: Population,
    contrasts: list[Contrast],
    how: Any,
    data: Any,
    prob: float,
) -> list[EffectSentence]:
    """Changes of the mean, averaged over the rows: ratios for a log link, differences otherwise."""
    likelihood = fit.model.likelihood
    response = fit.model.design.response
    is_ratio = likelihood.link is LOG and not likelihood.outcomes
    (name,) = how
    words = {m.contrast: _move_words(rows, name, m) for m in contrasts}
    averaged = f"averaged over {rows.n} rows"
    if rows.trials:
        averaged = f"averaged over {rows.weights.sum():.12g} trials"
    measure: Literal["ratio", "difference"] = "ratio" if is_ratio else "difference"
    try:
        result = comparisons(fit, how, measure=measure, data=data, prob=prob)
    except NotConverged:
        nans = np.nan, np.nan, np.nan
        reason = no_estimate(fit)
        return [
            EffectSentence(move, averaged, is_ratio, *nans, "", prob, why=reason)
            for move in words.values()
        ]
    kind = "t" if fit.default_kind == "t" else "wald"
    above = np.full(len(result.table), np.nan)
    if fit.solution.draws is not None:
        kind = "eti"
        if result.draws is None:
            z = result.table["estimate"].to_numpy() - float(is_ratio)
            sd = np.sqrt(np.diagonal(result.covariance))
            with np.errstate(divide="ignore", invalid="ignore"):  # 0 of an offset
                above = student_cdf(z / sd, fit.solution.df)
        else:
            above = (result.draws > float(is_ratio)).mean(0)
    sentences = []
    for row, p in zip(result.table.to_dict("records"), above):
        mean = mean_words(likelihood, response)
        if likelihood.outcomes:
            mean = f"P({response} = {row['level']})"
        numbers = row["estimate"], row["lower"], row["upper"]
        move = words[row["contrast"]]
        description = f"{averaged}, {mean}"
        sentences.append(
            EffectSentence(move, description, is_ratio, *numbers, kind, prob, float(p))
        )
    return sentences
