"""Comparison of two forecasters on the same rows: the mean difference of their scores, with confidence intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from probreg.arguments.arrays import as_array, floats, same_rows
from probreg.arguments.scalars import (
    Probability,
    TableLike,
    check_arguments,
    shown_value,
)
from probreg.errors import DataError
from probreg.scores.reading import (
    alike,
    columns_by_name,
    finite_numbers,
    frequencies,
    read_scored,
    refuse_values,
)
from probreg.scores.rules import RULES, Rule
from probreg.system.terminal import clean_lines

Array = np.ndarray


def skill(score: Any, reference: Any, *, weights: Any = None) -> float:
    """The skill 1 - mean(score) / mean(reference): 1 is perfect, 0 no better than the reference, negative worse.

    It is for scores with the best value 0, not for log scores of a density, which may be negative.

    Parameters
    ----------
    score : array (n,)
        Scores of each row.
    reference : array (n,)
        Scores of the reference, at the same rows.
    weights : array (n,), optional
        Frequencies of the rows.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    DataError
        If the mean score of the reference is 0.

    Examples
    --------
    >>> skill([0.04, 0.09], [0.25, 0.25])
    0.74
    """
    same_rows(**{"the score": score, "the reference": reference})
    a = _scores(score, "the score")
    b = _scores(reference, "the reference")
    if a.shape != b.shape:
        raise DataError(
            f"the score and the reference must have one number per row, got shapes {a.shape} and {b.shape}"
        )
    w = frequencies(weights, a.shape)
    # skill = 1 - mean S / mean S_reference, means weighted by the frequencies.
    ours = float(a @ w / w.sum())
    theirs = float(b @ w / w.sum())
    if not theirs > 0:
        raise DataError(
            f"the mean score of the reference is {theirs:g}: skill needs one greater than 0"
        )
    return 1.0 - ours / theirs


@dataclass(frozen=True)
class PairedComparison:
    """The mean difference of two forecasters' scores on the same n rows; negative favours the first.

    Both intervals assume independent rows. `print` shows a sentence.

    Parameters
    ----------
    first : str
        A forecaster.
    second : str
        The other.
    scored_by : str
        The rule, in words.
    n : float
        Rows, including frequencies.
    scores : tuple of float
        Mean score of each.
    difference : float
        Mean score of `first` minus mean score of `second`.
    std_error : float
        Standard error of the difference.
    t_interval : tuple of float
        t interval of the difference; it treats the rows as a random sample.
    hoeffding : tuple of float, optional
        Interval valid for any distribution if a difference cannot exceed the stated range; None without such a range.
    prob : float
        Probability of both intervals.
    """

    first: str
    second: str
    scored_by: str
    n: float
    scores: tuple[float, float]
    difference: float
    std_error: float
    t_interval: tuple[float, float]
    hoeffding: tuple[float, float] | None
    prob: float

    @property
    def verdict(self) -> str:
        """The better forecaster, and the interval that shows it."""
        better = self.first if self.difference < 0 else self.second
        sure = [
            ends is not None and (ends[0] > 0 or ends[1] < 0)
            for ends in (self.t_interval, self.hoeffding)
        ]
        if all(sure):
            return f"{better} is better, by both intervals"
        if sure[0] and self.hoeffding is None:
            return f"{better} is better, by the t interval"
        if any(sure):
            return f"{better} is better by the {'t interval' if sure[0] else 'Hoeffding bound'} only"
        return "these rows do not tell them apart"

    def __str__(self) -> str:
        rows = "row" if self.n == 1 else f"{self.n:g} rows"
        t = _to(self.t_interval)
        if np.isinf(self.t_interval[0]):
            t = "none from one row"
        any_law = f", Hoeffding {_to(self.hoeffding)}" if self.hoeffding else ""
        return clean_lines(
            f"{self.first} - {self.second}: {self.difference:.4g} in mean {self.scored_by} ({self.scores[0]:.4g} against "
            f"{self.scores[1]:.4g}, smaller is better) on the same {rows}; {100 * self.prob:g} % intervals: t {t}{any_law}; "
            f"{self.verdict}."
        )


@check_arguments
def compare_forecasts(
    y: Any,
    forecasts: Mapping[str, Any] | TableLike,
    *,
    rule: str | Rule = "brier",
    prob: Probability = 0.95,
    weights: Any = None,
) -> PairedComparison:
    """Compare two forecasters of the same outcomes by a rule of `RULES`.

    In row i the difference can span c_i = max_k d_ik - min_k d_ik with d_ik = S(h1_i, k) - S(h2_i, k), for the Brier
    score 2 |h1_i - h2_i|. Rows with equal forecasts span nothing. Given the forecasts, and outcomes that are
    independent, the mean difference lies within sqrt(log(2/delta) sum c_i^2 / 2) / n of its expectation with
    probability at least 1 - delta.

    Parameters
    ----------
    y : array (n,)
        Outcomes: 0 or 1, or class codes 0 .. K-1.
    forecasts : mapping or table
        Two names with their forecasts, (n,) or (n, K).
    rule : str or Rule
        A name in `RULES`, or a rule.
    prob : float
        Probability of every interval or band, between 0 and 1.
    weights : array (n,), optional
        Frequencies of the rows.

    Returns
    -------
    PairedComparison
        The difference with its intervals.

    References
    ----------
    Hoeffding 1963.

    Examples
    --------
    >>> rain = compare_forecasts([1], {"A": [0.7], "B": [0.8]})
    >>> round(rain.difference, 4), rain.verdict
    (0.05, 'these rows do not tell them apart')
    """
    r = RULES.resolve(rule)
    named = columns_by_name(forecasts)
    first, two = _two(named)
    a, b = (read_scored(y, named[k]) for k in (first, two))
    if a.pair != b.pair or a.p.shape != b.p.shape:
        raise DataError(
            f"{first} has forecasts of shape {np.shape(named[first])} and {two} of {np.shape(named[two])}: give both one "
            "probability per row, or both a row of class probabilities"
        )
    # d_ik = S(h1_i, k) - S(h2_i, k); the difference of row i can span c_i = max_k d_ik - min_k d_ik.
    unit = r.unit(a.pair)
    # both infinite: both forecasts have probability 0, and do not differ
    with np.errstate(invalid="ignore"):
        differences = np.where(a.p == b.p, 0.0, r.losses(a.p) - r.losses(b.p)) * unit
    scores = {k: r.at(s.outcome, s.p) * unit for k, s in ((first, a), (two, b))}
    return compare_scores(
        scores,
        scored_by=r.title,
        span=np.ptp(differences, axis=-1),
        prob=prob,
        weights=weights,
    )


@check_arguments
def compare_scores(
    scores: Mapping[str, Any] | TableLike,
    *,
    scored_by: str = "score",
    span: Any = None,
    prob: Probability = 0.95,
    weights: Any = None,
) -> PairedComparison:
    """The paired comparison of two scores of the same rows: difference -+ t sd / sqrt(n), on n - 1 degrees of freedom.

    Parameters
    ----------
    scores : mapping or table
        Two names to scores (n,).
    scored_by : str
        The name of the score.
    span : float or array (n,), optional
        The largest minus the smallest value that the difference of the two can take, for all rows or one per row; with
        it comes the Hoeffding interval.
    prob : float
        Probability of every interval or band, between 0 and 1.
    weights : array (n,), optional
        Frequencies of the rows.

    Returns
    -------
    PairedComparison
        The difference with its intervals.

    Raises
    ------
    DataError
        For an infinite score, which has no mean.

    Examples
    --------
    >>> found = compare_scores({"A": [0.1, 0.2, 0.4, 0.1], "B": [0.3, 0.3, 0.5, 0.5]}, span=2.0)
    >>> print(found)
    A - B: -0.2 in mean score (0.2 against 0.4, smaller is better) on the same 4 rows; 95 % intervals: t -0.425 to 0.025, Hoeffding -1.56 to 1.16; these rows do not tell them apart.
    """
    named = columns_by_name(scores)
    first, two = _two(named)
    same_rows(**{first: named[first], two: named[two]})
    a, b = (_scores(named[k], f"the score of {k}") for k in (first, two))
    if a.shape != b.shape or not len(a):
        raise DataError(
            f"{first} has scores of shape {a.shape} and {two} {b.shape}: the same rows, and at least one"
        )
    w = frequencies(weights, a.shape)
    n = float(w.sum())
    d = a - b
    mean = float(d @ w / n)
    # d_i = S_1i - S_2i: mean d -+ t_(n - 1) (sum_i (d_i - mean d)^2 / (n - 1) / n)^(1/2).
    error = half = np.inf
    if n > 1:
        # se(mean d) = sd(d) / n^(1/2) if the rows are a random sample.
        error = float(np.sqrt(w @ (d - mean) ** 2 / (n - 1) / n))
        # P(|mean d - E| <= t_(n-1, (1 + prob)/2) se) = prob for normal d.
        half = float(stdtrit(n - 1, (1 + prob) / 2)) * error
    hoeffding = None
    if span is not None:
        hoeffding = _hoeffding_interval(mean, _spans(span, d), w, prob)
    return PairedComparison(
        first=first,
        second=two,
        scored_by=scored_by,
        n=n,
        scores=(float(a @ w / n), float(b @ w / n)),
        difference=mean,
        std_error=error,
        t_interval=(mean - half, mean + half),
        hoeffding=hoeffding,
        prob=prob,
    )


def _hoeffding_interval(
    mean: float, span: Array, w: Array, prob: float
) -> tuple[float, float]:
    with np.errstate(invalid="ignore"):
        total = np.where(w > 0, w * span**2, 0.0).sum()
    # P(|mean d - E| >= t) <= 2 exp(-2 n^2 t^2 / sum_i c_i^2), solved for t at probability delta (Hoeffding 1963).
    half = float(np.sqrt(0.5 * np.log(2.0 / (1.0 - prob)) * total) / w.sum())
    return mean - half, mean + half


def _spans(span: Any, d: Array) -> Array:
    spans = floats(span, "span")
    alike(span=spans, scores=d)
    spans = np.broadcast_to(spans, d.shape)
    refuse_values(~(spans >= 0), "a span is not negative", "span", spans)
    return spans


def _scores(values: Any, name: str) -> Array:
    array = as_array(values, name)
    if array.dtype.kind == "f":
        statement = "an infinite score has no mean to compare"
        hint = ": what happened was called impossible; score with brier"
        refuse_values(np.isposinf(array), statement, name, array, hint)
    numbers = finite_numbers(array, name)
    if numbers.ndim != 1:
        raise DataError(f"{name} is one number per row, got shape {numbers.shape}")
    return numbers


def _two(forecasts: Mapping[str, Any]) -> tuple[str, str]:
    named = isinstance(forecasts, Mapping) and all(isinstance(k, str) for k in forecasts)  # fmt: skip
    if not named or len(forecasts) != 2:
        raise DataError(
            f"a paired comparison is of a mapping from two names to numbers, got {shown_value(forecasts)}"
        )
    first, second = forecasts
    return first, second


def _to(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g}"
