"""The answer of a report: a sentence for every requested effect, and predictions of named rows.

A change of one variable changes every linear predictor by c' beta, c the change of the columns. Where c is the same in every row, the
effect is exp(c' beta) times the odds or the count, or c' beta in units of the response; elsewhere it is an average over the rows.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from probreg.comparison.effects import comparisons
from probreg.comparison.effects.scenarios import (
    Contrast,
    Population,
    moves,
    population,
    trials_of,
)
from probreg.comparison.effects.verbs import changing_variables
from probreg.data.formula.variables import categories
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.fits.prediction import rows_without_estimate
from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail,
    quantile,
    student_cdf,
)
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.likelihoods import Likelihood, OfTrials
from probreg.likelihoods.links import LOG, LOGIT
from probreg.system.terminal import format_probability
from probreg.tables.formats import decimals, format_rounded

Array = np.ndarray
_SAME = 1e-9  # of a column's change: what differs less between rows is rounding
_UNIT = (0.5, 20.0)  # standard deviations between which one unit is a plain step
_MOST = 40  # variables with effects by default


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
    design = fit.model.design
    try:
        of = population(design, data, (), trials=trials_of(fit.model))
    except DataError as error:
        if effects is not None:
            raise
        return Answer([], [f"No effects: {error}"])
    if isinstance(effects, str):
        effects = [effects]
    remarks: list[str] = []
    moves_by_name: dict[str, Any] = {}
    if effects is None:
        names, remarks = _default_variables(of)
        moves_by_name = dict.fromkeys(names)
    elif isinstance(effects, Mapping):
        moves_by_name = dict(effects)
    else:
        moves_by_name = dict.fromkeys(effects)
    sentences: list[EffectSentence] = []
    for name, how in moves_by_name.items():
        try:
            sentences += _of_variable(fit, of, name, how, data, prob)
        except (DataError, Incompatible) as error:
            if effects is not None:
                raise
            remarks.append(f"No effect of {name}: {error}")
    return Answer(sentences, remarks)


def _default_variables(of: Population) -> tuple[list[str], list[str]]:
    """Return the first variables with an effect, and a remark if there are others or none."""
    names = changing_variables(of)
    remarks = []
    if len(names) > _MOST:
        remarks.append(
            f"Effects of the first {_MOST} of {len(names)} variables; name others by effects=."
        )
    if not names:
        remarks.append("The model has no variables, so there are no effects.")
    return names[:_MOST], remarks


def _of_variable(
    fit: Fit, population_rows: Population, name: str, how: Any, data: Any, prob: float
) -> list[EffectSentence]:
    """The effects of a variable: for one move everywhere if the move changes the columns equally in all rows, otherwise on average."""
    step = _plain_step(population_rows, name) if how is None else how
    changes = _changes(population_rows, name, step)
    differs = any(c is None for c in changes.values())
    if how is None and differs and _many_valued(population_rows, name):
        step = _contrast_name(population_rows, name)
        changes = _changes(population_rows, name, step)
    columns = [c for c in changes.values() if c is not None]
    if len(columns) < len(changes):
        return _average_effects(
            fit,
            population_rows,
            moves(population_rows, name, step),
            {name: step},
            data,
            prob,
        )
    if not any(c.any() for c in columns):
        return []  # no column depends on it, only an offset
    return [
        effect
        for words, c in zip(changes, columns)
        for effect in _linear_effects(fit, c, words, prob)
    ]


def _changes(
    population_rows: Population, name: str, step: Any
) -> dict[str, Array | None]:
    """The change of the columns for each move of a variable, None if it differs between rows."""
    changes: dict[str, Array | None] = {}
    for move in moves(population_rows, name, step):
        try:
            changes[_move_words(population_rows, move)] = _column_change(
                population_rows, move
            )
        except DataError:  # beyond the ends of a spline
            changes[_move_words(population_rows, move)] = None
    return changes


def _many_valued(population_rows: Population, name: str) -> bool:
    """Whether a variable is a number with more than two values."""
    x = np.asarray(population_rows.table[name])
    return (
        name not in categories(population_rows.design)
        and x.dtype.kind in "iuf"
        and len(np.unique(x)) > 2
    )


def _contrast_name(population_rows: Population, name: str) -> str:
    """Return the contrast of the quartiles, or of the range if the quartiles are equal."""
    low, high = np.quantile(
        np.asarray(population_rows.table[name], dtype=float), [0.25, 0.75]
    )
    return "iqr" if high > low else "minmax"


def _plain_step(population_rows: Population, name: str) -> str | None:
    """Return None for a move of one unit if a standard deviation is of that order, otherwise "sd"; None for a category or two values."""
    if name not in population_rows.table or not _many_valued(population_rows, name):
        return None
    sd = float(np.asarray(population_rows.table[name], dtype=float).std(ddof=1))
    return None if _UNIT[0] <= sd <= _UNIT[1] else "sd"


def _column_change(population_rows: Population, move: Contrast) -> Array | None:
    """Return the change c (p,) of the columns if it is the same in every row; None otherwise, and for a Gaussian process."""
    if population_rows.design.recipe.processes:
        return None
    low, high = (population_rows.mean(move.variable, v) for v in (move.low, move.high))
    D = high.X - low.X
    rounding = (
        16.0
        * np.finfo(float).eps
        * np.maximum(np.abs(high.X), np.abs(low.X)).max(0, initial=0.0)
    )
    if (np.ptp(D, axis=0) > _SAME * np.abs(D).max(0, initial=0.0) + rounding).any():
        return None
    if (
        low.offset is not None
        and high.offset is not None
        and not np.array_equal(low.offset, high.offset)
    ):
        return None
    c = np.asarray(D.mean(0))
    c[np.abs(c) <= rounding] = 0.0
    return c


def _move_words(population_rows: Population, move: Contrast) -> str:
    """A change in words: "temperature 10 lower", "gnp 99,400 higher (one sd)", "species Gentoo against Adelie"."""
    if (
        move.variable in categories(population_rows.design)
        or " against " in move.contrast
    ):
        return f"{move.variable} {move.contrast}"
    if " to " in move.contrast:
        return f"{move.variable} from {float(np.mean(move.low)):.4g} to {float(np.mean(move.high)):.4g}"
    d = float(np.mean(move.high - move.low))
    if abs(d) >= 1000.0:
        size = f"{abs(d):,.0f}"
    else:
        size = f"{abs(d):.4g}"
    return f"{move.variable} {size} {'higher' if d > 0 else 'lower'}" + " (one sd)" * (
        "one sd" in move.contrast
    )


def effect_scale(likelihood: Likelihood, response: str) -> tuple[bool, list[str]]:
    """Return whether effects of one linear predictor are ratios, and the quantity for each outcome."""
    if likelihood.outcomes:
        base = [str(v) for v in likelihood.levels if str(v) not in likelihood.outcomes]
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
        else:
            event = f"{response} = {likelihood.levels[-1]}"
        return True, [f"the odds of {event}"]
    return likelihood.link is LOG, [mean_words(likelihood, response)]


def mean_words(likelihood: Likelihood, response: str) -> str:
    """Return the name of the quantity that the linear predictor models: "the median of y", "P(y = 1)"."""
    mean_name = likelihood.mean_name(response)
    if mean_name != response:
        return mean_name
    return f"the {likelihood.centre} of {response}"


def _linear_effects(fit: Fit, c: Array, move: str, prob: float) -> list[EffectSentence]:
    """Effects of a change that is the same in every row: c' beta for each outcome, through exp for a ratio."""
    is_ratio, quantities = effect_scale(fit.model.likelihood, fit.model.design.response)
    z, lower, upper, kind, above = _contrast_of_columns(fit, c, prob)
    inverse = np.exp if is_ratio else np.asarray
    reason = "" if np.isfinite(z).all() else no_estimate(fit)
    with np.errstate(over="ignore"):
        numbers = [inverse(z), inverse(lower), inverse(upper)]
    effects = []
    for quantity, estimate, low, high, p in zip(quantities, *numbers, above):
        ends = float(estimate), float(low), float(high)
        effects.append(
            EffectSentence(move, quantity, is_ratio, *ends, kind, prob, p, reason)
        )
    return effects


def no_estimate(fit: Fit) -> str:
    """Return in a few words why a number of this fit does not exist."""
    if (
        fit.model.likelihood.may_diverge
        and not fit.solution.status.good
        and fit.solution.null_space is None
    ):
        return "the likelihood rises for ever (separation)"
    return "the rows do not tell it from other columns"


def _contrast_of_columns(
    fit: Fit, c: Array, prob: float
) -> tuple[Array, Array, Array, str, Array]:
    """c' beta (K,) for each outcome with its interval and, of a posterior, the probability that it is positive.

    A multiple of one coefficient has the interval of that coefficient; others have Wald's interval, or an interval from the draws.
    """
    T = fit.model.likelihood.contrast_matrix
    beta = fit.solution.beta
    draws = fit.solution.draws
    df = fit.solution.df
    nothing = np.full(len(T), np.nan)
    G = np.stack([np.outer(c, t).ravel() for t in T])  # d (c' beta_k) / d vec(beta)
    if not _is_estimable(fit, c):
        return nothing, nothing, nothing, "", nothing
    z = T @ (c @ beta)
    above, projections = nothing, None
    V, V_df, _ = fit.spread()
    se = np.linalg.norm(V.half(G), axis=1)
    if draws is not None and draws.elliptical:
        with np.errstate(all="ignore"):
            above = student_cdf(z / se, df)
    elif draws is not None:
        projections = np.einsum(
            "j,sjm,km->sk", c, fit.solution.posterior.flat["beta"], T
        )
        above = (projections > 0).mean(0)
    changed = np.flatnonzero(c)
    if len(changed) == 1 and fit.solution.null_space is None:
        j = changed[0]
        try:
            interval = fit.interval(prob)
        except (
            Incompatible,
            NotConverged,
        ):  # a mode at a kink, a fit without degrees of freedom
            return z, nothing, nothing, "", above
        ends = [np.atleast_1d(interval[k].values[j]) * c[j] for k in ("lower", "upper")]
        return (
            z,
            *(ends if c[j] > 0 else ends[::-1]),
            str(interval.attrs["kind"]),
            above,
        )
    if projections is not None:
        return z, *equal_tail(projections, prob), "eti", above
    half = quantile(prob, V_df) * se
    if draws is not None:
        kind = "eti"
    elif V_df is None:
        kind = "wald"
    else:
        kind = "t"
    return z, z - half, z + half, kind, above


def _is_estimable(fit: Fit, c: Array) -> bool:
    """Return whether the effects c' beta have an estimate."""
    if fit.solution.null_space is None:
        return not np.isnan(fit.coef.values).any()
    return not len(rows_without_estimate(fit.solution, c[None]))


def _average_effects(
    fit: Fit,
    population_rows: Population,
    contrasts: list[Contrast],
    how: Any,
    data: Any,
    prob: float,
) -> list[EffectSentence]:
    """Changes of the mean, averaged over the rows: ratios for a log link, differences otherwise."""
    likelihood = fit.model.likelihood
    response = fit.model.design.response
    is_ratio = likelihood.link is LOG and not likelihood.outcomes
    scale: Literal["ratio", "difference"] = "ratio" if is_ratio else "difference"
    words = {m.contrast: _move_words(population_rows, m) for m in contrasts}
    averaged = f"averaged over {population_rows.n} rows"
    if population_rows.trials:
        averaged = f"averaged over {population_rows.weights.sum():.12g} trials"
    try:
        result = comparisons(fit, how, measure=scale, data=data, prob=prob)
    except NotConverged:
        nans = np.nan, np.nan, np.nan
        reason = no_estimate(fit)
        return [
            EffectSentence(move, averaged, is_ratio, *nans, "", prob, why=reason)
            for move in words.values()
        ]
    kind = "wald"
    if fit.solution.draws is not None:
        kind = "eti"
    elif fit.default_kind == "t":
        kind = "t"
    sentences = []
    above = _above(fit, result, float(is_ratio))
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


def _above(fit: Fit, result: Any, null: float) -> Array:
    """Posterior probabilities that the effects are above `null`."""
    if fit.solution.draws is None:
        return np.full(len(result.table), np.nan)
    if result.draws is not None:
        return np.asarray((result.draws > null).mean(0))
    z = result.table["estimate"].to_numpy() - null
    se = np.sqrt(np.diagonal(result.covariance))
    return student_cdf(z / se, fit.solution.df)
