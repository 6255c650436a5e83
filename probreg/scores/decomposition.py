"""Decompositions of a mean score, with a known truth or only from forecasts and outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Count, check_arguments, shown_value
from probreg.errors import DataError, Incompatible
from probreg.scores.reading import (
    Scored,
    both,
    finite_numbers,
    frequencies,
    read_scored,
)
from probreg.scores.rules import RULES, Rule
from probreg.system.terminal import clean_lines

Array = np.ndarray


@dataclass(frozen=True)
class Goal:
    """The identity goal = observed - intrinsic - chance of mean scores against a known truth; the result of `goal`.

    Parameters
    ----------
    rule : str
        The name of the rule.
    goal : float
        The excess score over the truth, E[(h - p)^2] for the Brier score.
    observed : float
        The score of the forecasts.
    intrinsic : float
        The score of the truth itself.
    chance : float
        The part with mean zero over outcomes.
    chance_error : float
        Its standard error.
    """

    rule: str
    goal: float
    observed: float
    intrinsic: float
    chance: float
    chance_error: float

    def __str__(self) -> str:
        return clean_lines(
            f"{RULES[self.rule].title}: goal {self.goal:.4g} = observed {self.observed:.4g} - intrinsic {self.intrinsic:.4g} "
            f"- chance {self.chance:.4g} (zero on average, standard error {self.chance_error:.2g})"
        )


@check_arguments
def goal(y: Any, forecast: Any, *, truth: Any, rule: str | Rule = "brier") -> Goal:
    """The goal E[(h - p)^2] = E[(h - y)^2] - E[(p - y)^2]: the observed score minus the intrinsic one.

    The identity is true in expectation over y given p. In a sample the remainder is chance, mean_i sum_k (1[y_i = k] -
    p_ik)(S(h_i, k) - S(p_i, k)), which is 2 mean (h - p)(p - y) for the Brier score of an event.

    Parameters
    ----------
    y : array (n,)
        Outcomes: 0 or 1, or class codes 0 .. K-1.
    forecast : array (n,) or (n, K)
        The forecasts.
    truth : array (n,) or (n, K)
        The probabilities that outcomes were drawn from.
    rule : str or Rule
        A name in `RULES`, or a rule.

    Returns
    -------
    Goal
        Its parts, which print as a sentence.

    Raises
    ------
    DataError
        For a row that is no probability or outcome, with its number.

    Examples
    --------
    >>> found = goal([1, 0, 1, 0], [0.8, 0.8, 0.5, 0.5], truth=[0.5, 0.5, 0.5, 0.5])
    >>> round(found.goal, 3), round(found.observed, 3), round(found.intrinsic, 3), round(found.chance, 3)
    (0.045, 0.295, 0.25, 0.0)
    """
    r = RULES.resolve(rule)
    s = read_scored(y, forecast)
    if s.outcome.ndim != 1:
        raise DataError(f"outcomes are one per row, got shape {s.outcome.shape}")
    p, h, _ = both(truth, forecast)
    unit = r.unit(s.pair)
    with np.errstate(invalid="ignore"):  # infinite losses on both sides
        # gap_ik = S(h_i, k) - S(p_i, k): its mean over k ~ p_i is the divergence, and gap_(i y_i) less that mean is
        # chance, of variance sum_k p_ik (gap_ik - divergence_i)^2.
        gap = np.where(p > 0, r.losses(h) - r.losses(p), 0.0)
    centre = (p * gap).sum(-1)
    happened = np.take_along_axis(gap, s.outcome[:, None], -1)[:, 0]
    variance = (p * (gap - centre[:, None]) ** 2).sum(-1)
    # observed - intrinsic = mean_i gap_(i y_i) = goal + chance.
    return Goal(
        rule=r.name,
        goal=float(centre.mean() * unit),
        observed=float(r.at(s.outcome, h).mean() * unit),
        intrinsic=float(r.at(s.outcome, p).mean() * unit),
        chance=float((happened - centre).mean() * unit),
        chance_error=float(np.sqrt(variance.sum()) / len(variance) * unit),
    )


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The identity score = calibration + refinement + within, refinement = uncertainty - resolution; the result of `decompose`.

    Parameters
    ----------
    rule : str
        The name of the rule.
    score : float
        The mean score.
    calibration : float
        The distance of the observed shares from the forecasts.
    resolution : float
        The differences of the observed shares between forecasts.
    uncertainty : float
        The score of a constant forecast, the overall share.
    within : float
        The differences of forecasts within one bin; zero for repeated forecasts.
    forecast : array (g,) or (g, K)
        Forecast of each group.
    observed : array (g,) or (g, K)
        The share in each group.
    count : array (g,)
        Observations of each group.
    """

    rule: str
    score: float
    calibration: float
    resolution: float
    uncertainty: float
    within: float
    forecast: Array
    observed: Array
    count: Array

    @property
    def refinement(self) -> float:
        """uncertainty - resolution: the score if every forecast were replaced by its observed share."""
        return self.uncertainty - self.resolution

    def __str__(self) -> str:
        within = ""
        if self.within:
            within = f" + within bins {self.within:.4g}"
        groups = f"{len(self.count)} groups of {self.count.sum():g} forecasts"
        thin = ""
        if len(self.count) > 0.5 * self.count.sum():
            thin = "; hardly any forecast repeats, so give bins="
        return clean_lines(
            f"{RULES[self.rule].title} {self.score:.4g} = calibration {self.calibration:.4g} + refinement {self.refinement:.4g}"
            f" (uncertainty {self.uncertainty:.4g} - resolution {self.resolution:.4g}){within}; {groups}{thin}"
        )


@check_arguments
def decompose(
    y: Any,
    forecast: Any,
    *,
    rule: str | Rule = "brier",
    bins: Count | Sequence[float] | None = None,
    weights: Any = None,
) -> Decomposition:
    """The parts of a mean score: calibration + refinement + within = calibration - resolution + uncertainty + within.

    With o_g the observed shares and h_g the forecast of group g, in any proper rule: calibration is the mean divergence
    of h_g from o_g, resolution the mean divergence of the overall share from o_g, uncertainty the entropy of the overall share.
    Forecasts that are equal form a group, and `within` is zero. With `bins` h_g is the mean forecast of the bin and
    within = mean of S(h_i, y_i) - S(h_g, y_i); for the Brier score of an event that is Var(h) - 2 Cov(h, y) inside the
    bins.

    In small groups calibration is estimated too high by about p(1 - p)/count each, and resolution by as much.

    Parameters
    ----------
    y : array (n,)
        Outcomes: 0 or 1, or class codes 0 .. K-1.
    forecast : array (n,) or (n, K)
        The forecasts.
    rule : str or Rule
        A name in `RULES`, or a rule.
    bins : int or sequence of float, optional
        A number of groups of about equal size, or their edges.
    weights : array (n,), optional
        Frequencies of the rows.

    Returns
    -------
    Decomposition
        Its parts, which add up to rounding.

    Raises
    ------
    Incompatible
        For an improper rule.

    References
    ----------
    Murphy 1973; Stephenson, Coelho & Jolliffe 2008; Broecker 2009.

    Examples
    --------
    >>> print(decompose([1, 0, 1, 1], [0.4, 0.4, 0.9, 0.9]))
    Brier score 0.135 = calibration 0.01 + refinement 0.125 (uncertainty 0.1875 - resolution 0.0625); 2 groups of 4 forecasts
    """
    r = RULES.resolve(rule)
    if r.proper == "no":
        raise Incompatible(
            f"the {r.title} is improper, so it has no calibration to speak of; use brier or log"
        )
    s = read_scored(y, forecast)
    if s.outcome.ndim != 1 or not len(s.outcome):
        raise DataError(
            f"outcomes are one per row and at least one, got shape {s.outcome.shape}"
        )
    w = frequencies(weights, s.outcome.shape)
    if bins is not None:
        place = _number_bins(s, bins, w)
    elif s.pair:
        place = np.unique(s.p[:, 1], return_inverse=True)[1]
    else:
        place = np.unique(s.p, axis=0, return_inverse=True)[1].ravel()
    return _decompose_groups(r, s, place, w)


def _decompose_groups(r: Rule, s: Scored, place: Array, w: Array) -> Decomposition:
    unit = r.unit(s.pair)
    count = np.bincount(place, w)
    keep = np.flatnonzero(count > 0)
    # h_g = sum_{i in g} w_i h_i / W_g and o_g = sum_{i in g} w_i e_(y_i) / W_g, W_g = sum_{i in g} w_i.
    happened = np.eye(s.p.shape[-1])[s.outcome]
    h = _group_means(s.p, place, w)
    o = _group_means(happened, place, w)
    # W_g / W, and the overall share o = sum_i w_i e_(y_i) / W.
    share = count[keep] / count.sum()
    overall = (w @ happened) / w.sum()
    everywhere = np.broadcast_to(overall, o[keep].shape)
    # S(h; o) = sum_k o_k S(h, k): calibration = mean_g [S(h_g; o_g) - S(o_g; o_g)], resolution = mean_g [S(o; o_g) -
    # S(o_g; o_g)], uncertainty = S(o; o), o the overall share (Broecker 2009).
    inner = r.mean(o[keep], o[keep])
    score = r.at(s.outcome, s.p)
    # infinite on both sides if a repeated forecast is 0; set to 0 below
    with np.errstate(invalid="ignore"):
        # within = mean_i [S(h_i, y_i) - S(h_g, y_i)]   (Stephenson, Coelho & Jolliffe 2008)
        separated = np.where(
            (s.p == h[place]).all(-1), 0.0, score - r.at(s.outcome, h[place])
        )
    forecast = h[keep]
    observed = o[keep]
    if s.pair:
        forecast = forecast[:, 1]
        observed = observed[:, 1]
    return Decomposition(
        rule=r.name,
        score=_weighted_mean(score, w) * unit,
        calibration=float(share @ (r.mean(o[keep], h[keep]) - inner)) * unit,
        resolution=float(share @ (r.mean(o[keep], everywhere) - inner)) * unit,
        uncertainty=float(r.mean(overall, overall)) * unit,
        within=_weighted_mean(separated, w) * unit,
        forecast=forecast,
        observed=observed,
        count=count[keep],
    )


def _weighted_mean(values: Array, w: Array) -> float:
    return float((values[w > 0] * w[w > 0]).sum() / w.sum())


def _group_means(values: Array, place: Array, w: Array) -> Array:
    """(g, K) means over each group, relative to its first row, so that equal values give exactly this value."""
    first = values[np.unique(place, return_index=True)[1]]
    deviations = values - first[place]
    total = np.bincount(place, w)
    # mean_g = v_1 + sum_i w_i (v_i - v_1) / W_g, v_1 the first value of the group.
    sums = np.stack([np.bincount(place, w * c) for c in deviations.T], 1)
    return first + sums / np.where(total > 0, total, 1.0)[:, None]


def _number_bins(s: Scored, bins: int | Sequence[float], w: Array) -> Array:
    if not s.pair:
        raise DataError(
            "bins put forecasts of one event in order; for K classes take one class against the rest"
        )
    p = s.p[:, 1]
    if isinstance(bins, int | np.integer):
        edges = _equal_shares(p, bins, w)
    else:
        edges = finite_numbers(bins, "an edge")
        if edges.ndim != 1 or (np.diff(edges) <= 0).any():
            raise DataError(
                f"bins={shown_value(bins)}: expected a number of bins, or their edges in rising order"
            )
    # Bin g contains the forecasts in [edge_g, edge_(g+1)).
    return np.unique(np.searchsorted(edges, p, side="right"), return_inverse=True)[1]


def _equal_shares(p: Array, bins: int, w: Array) -> Array:
    """Inner edges of bins with about equal numbers of observations; equal forecasts share a bin."""
    order = np.argsort(p, kind="stable")
    before = np.cumsum(w[order]) - w[order]
    # Edge b is the first forecast with a share of at least b / bins of the weight before it.
    starts = np.searchsorted(before, np.arange(1, bins) * w.sum() / bins)
    return np.unique(p[order][np.minimum(starts, len(p) - 1)])
