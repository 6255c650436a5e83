"""Ordered classes: cumulative logit, probit and complementary log-log regression."""

from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from probreg.arguments.arrays import OrderedLevels
from probreg.arguments.scalars import LevelSequence
from probreg.compiled.density import CompiledDensity, keep_values, with_functions
from probreg.errors import DataError
from probreg.likelihoods.base import (
    INFINITE_PREDICTOR,
    LIKELIHOODS,
    Array,
    Level,
    Levels,
    MayDiverge,
    OneOfClasses,
    PymcVariable,
    Recession,
    Reported,
    SmoothLikelihood,
    Start,
    ValueGradHessian,
)
from probreg.likelihoods.binary import OrderedLinkName
from probreg.likelihoods.links import CLOGLOG, LOGIT, PROBIT
from probreg.likelihoods.response import refuse_fractions, response_levels
from probreg.likelihoods.tails import TAILS, interval, symbolic_log_q


def _evaluate_row(y: float, eta: float, t: Array, slopes: Array) -> tuple[float, float]:
    # t: the gaps
    log_p, slope, _ = _row_at_scale(y, eta, t, 1.0, slopes)
    return log_p, slope


def _evaluate_scaled_row(
    y: float, eta: float, t: Array, slopes: Array
) -> tuple[float, float]:
    # t: the scale and the gaps
    log_p, slope, slopes[0] = _row_at_scale(y, eta, t[1:], t[0], slopes[1:])
    return log_p, slope


def _row_at_scale(
    y: float, eta: float, t: Array, s: float, slopes: Array
) -> tuple[float, float, float]:
    # P(y = k) = F((c_k - eta) / s) - F((c_(k-1) - eta) / s), c_k = c_(k-1) + gap; the last result is the slope over log s
    k = int(y)
    lower = -inf
    upper = inf
    cut = 0.0
    for i in range(k - 1):
        cut += t[i]
    if k > 0:
        lower = (cut - eta) / s
        cut += t[k - 1] if k <= t.size else 0.0
    if k <= t.size:
        upper = (cut - eta) / s
    log_p, at_lower, at_upper = interval(lower, upper)
    over_log_s = 0.0
    if k > 0:
        over_log_s += at_lower * lower
    if k <= t.size:
        over_log_s -= at_upper * upper
    at_lower /= s
    at_upper /= s
    for i in range(t.size):
        slopes[i] = 0.0
        if i < k:
            slopes[i] += t[i] * at_upper
        if i < k - 1:
            slopes[i] -= t[i] * at_lower
    return log_p, at_lower - at_upper, over_log_s


def _evaluate_tile(y: Array, eta: Array, t: Array, log_p: Array, slope: Array) -> None:
    """Compute the rows of a tile, in loops over rows without branches, which become vector instructions."""
    e = eta[0]
    lower = slope[0]
    upper = slope[1]
    for i in range(y.size):
        lower[i] = -inf
        upper[i] = inf
    cut = 0.0
    for k in range(t.size + 1):
        for i in range(y.size):
            lower[i] = cut - e[i] if y[i] > k else lower[i]
            upper[i] = cut - e[i] if y[i] == k else upper[i]
        cut += t[min(k, t.size - 1)]
    for i in range(y.size):
        log_p[i], lower[i], upper[i] = interval(lower[i], upper[i])
    for k in range(1, t.size):
        over_gap = slope[1 + k]
        for i in range(y.size):
            above = upper[i] if y[i] > k else 0.0
            below = lower[i] if y[i] > k + 1 else 0.0
            over_gap[i] = t[k] * (above - below)
    # the slopes over eta and over the first gap overwrite `lower` and `upper`
    for i in range(y.size):
        above = upper[i] if y[i] > 0 else 0.0
        below = lower[i] if y[i] > 1 else 0.0
        lower[i] -= upper[i]
        upper[i] = t[0] * (above - below)


# densities without a scale, and with the scale as the first nuisance parameter
_DENSITIES: dict[str, CompiledDensity] = {}
SCALED_DENSITIES: dict[str, CompiledDensity] = {}
for _link in (LOGIT, PROBIT, CLOGLOG):
    _interval = {"interval": TAILS[_link].compiled_interval}
    _parts = {"_row_at_scale": with_functions(_row_at_scale, _interval)}
    _DENSITIES[_link] = CompiledDensity(
        with_functions(_evaluate_row, _parts),
        with_functions(_evaluate_tile, _interval),
        settings=keep_values,
    )
    SCALED_DENSITIES[_link] = CompiledDensity(
        with_functions(_evaluate_scaled_row, _parts),
        settings=keep_values,
        by_predictors=True,
    )


@LIKELIHOODS.register
@dataclass(frozen=True)
class Ordinal(SmoothLikelihood, OneOfClasses, MayDiverge):
    """One of K ordered classes: P(y <= k) = F(c_k - eta), with thresholds c_1 < ... < c_(K-1).

    F is the logistic, normal or complementary log-log distribution function. A positive coefficient moves the response towards the
    last class. The first threshold is minus the intercept, and the gaps between thresholds are nuisance parameters; a fit reports the
    thresholds. An effect that is the same at each threshold is the assumption of proportional odds.

    Parameters
    ----------
    levels : tuple
        The classes, in order. By default the order of numbers, or of a categorical column. If its categories are sorted by name, the
        column must be declared as ordered. The summary prints the order.
    link : {"logit", "probit", "cloglog"}
        The distribution function F is the inverse of the link.

    References
    ----------
    McCullagh 1980.

    Examples
    --------
    >>> three = Ordinal(levels=("low", "medium", "high"))
    >>> three.mean(np.array([[0.0]]), gap_2=np.log(3.0)).round(6).tolist()
    [[0.5, 0.25, 0.25]]
    """

    levels: Annotated[Levels, LevelSequence()] = (0, 1, 2)
    link: OrderedLinkName = LOGIT  # type: ignore[assignment]

    name = "ordinal"
    has_cdf = concave = True
    compiled_density = _DENSITIES[LOGIT]
    densities_of_links = _DENSITIES
    # the threshold that is minus the intercept, counted from 0
    anchor: ClassVar[int] = 0

    @property
    def nuisance(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the gaps below each threshold from the second on."""
        return tuple(f"gap_{k}" for k in range(2, len(self.levels)))

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        refuse_fractions(
            values,
            "an ordinal response holds class labels; ",
            "For real numbers use Gaussian.",
        )
        order = self.stated_levels() or levels
        present = response_levels(values, order)
        # categories that are sorted by name may have been sorted by pandas
        is_known = order is not None and (
            order is not levels
            or isinstance(order, OrderedLevels)
            or present != tuple(sorted(present))
        )
        if not is_known and any(isinstance(v, str) for v in present):
            raise DataError(
                f"the order of {', '.join(map(str, present[:6]))} is not known: use an ordered categorical column, or "
                f"Ordinal(levels={present!r}) in the right order"
            )
        if len(present) < 3:
            raise DataError(
                f"an ordinal response has three or more classes, and this one has {len(present)}: use Bernoulli for two"
            )
        return replace(self, levels=present)

    def describe(self, response: str) -> str:
        order = " < ".join(map(str, self.levels))
        return f"P({response} above a threshold), {order}, on the {self.link} scale"

    def thresholds(self, aux: Any) -> list[Any]:
        """Return the thresholds relative to the one that is minus the intercept."""
        cuts = [0.0]
        for name in self.nuisance:
            cuts.append(cuts[-1] + aux[name])
        return [c - cuts[self.anchor] for c in cuts]

    @property
    def _slopes(self) -> Array:
        """(K + 1, a), d c_k / d gap of the thresholds, between two rows of zeros."""
        a = len(self.nuisance)
        below = np.tri(a + 1, a, -1)
        return np.pad(below - below[self.anchor], ((1, 1), (0, 0)))

    def report_parameters(self, intercept: Any, **aux: Any) -> Reported:
        names = tuple(f"{a}|{b}" for a, b in zip(self.levels, self.levels[1:]))
        values = np.stack(
            np.broadcast_arrays(*(c - intercept for c in self.thresholds(aux))), -1
        )
        gaps = [np.broadcast_to(aux[a], np.shape(intercept)) for a in self.nuisance]
        over_gaps = self._slopes[1:-1] * np.stack(gaps, -1)[..., None, :]
        return Reported(
            names,
            values,
            np.concatenate([np.full((*values.shape, 1), -1.0), over_gaps], -1),
            ("real",) * len(names),
        )

    def with_intercept_at(self, name: str) -> "Ordinal":
        likelihood = replace(self)
        names = [f"{a}|{b}" for a, b in zip(self.levels, self.levels[1:])]
        object.__setattr__(likelihood, "anchor", names.index(name))
        if likelihood.anchor:
            object.__setattr__(likelihood, "compiled_density", None)
        return likelihood

    def recession(self, y: Array) -> Recession:
        # the threshold above a row may only move up relative to eta, and the one below only down
        k = np.asarray(y).astype(int)
        above = np.flatnonzero(k < len(self.levels) - 1)
        below = np.flatnonzero(k > 0)
        side = np.repeat([-1.0, 1.0], [len(above), len(below)])
        thresholds = self._slopes[np.concatenate([k[above] + 1, k[below]])]
        rows = np.concatenate([above, below])
        return Recession(
            rows, side[:, None], np.zeros(len(rows), bool), -side[:, None] * thresholds
        )

    def initial_eta(self, y: Array) -> Start:
        count = np.bincount(y.astype(int), minlength=len(self.levels)) + 0.5
        z = self.link_function.forward(count[:-1].cumsum() / count.sum())
        gaps = dict(zip(self.nuisance, np.diff(z).tolist()))
        return np.full((len(y), 1), -z[self.anchor]), gaps

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        k = np.asarray(y).astype(int)
        cuts = self.thresholds(aux)
        eta = np.where(k == 0, -INFINITE_PREDICTOR, INFINITE_PREDICTOR)
        for j, name in enumerate(self.nuisance, start=1):
            eta = np.where(k == j, cuts[j - 1] - self.tails.steepest(aux[name]), eta)
        return eta[..., None]

    def saturated_log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        # the observed class has probability 1: the deviance is -2 log L, as in R's polr
        return np.zeros(np.shape(y))

    def _ends(self, y: Array, eta: Array, aux: Any) -> tuple[Array, Array]:
        """Return c_k - eta and c_(k-1) - eta of each class k, infinite at the first and last."""
        k = np.asarray(y).astype(int)
        upper, lower = np.full(k.shape, np.inf), np.full(k.shape, -np.inf)
        for j, c in enumerate(self.thresholds(aux)):
            upper = np.where(k == j, c, upper)
            lower = np.where(k == j + 1, c, lower)
        e = eta[..., 0]
        if self.link is CLOGLOG:
            # -log P of a class above the first increases as exp(-eta), and is still finite here
            e = np.maximum(e, self.thresholds(aux)[-1] - 300.0)
        return upper - e, lower - e

    def _ends_of_classes(self, eta: Array, aux: Any) -> tuple[Array, Array]:
        """Return `_ends` of all classes, two arrays (K, ..., n)."""
        return self._ends(self.support.reshape(-1, *[1] * (eta.ndim - 1)), eta, aux)

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        return self.tails.log_change(*self._ends(y, eta, aux))

    def mean(self, eta: Array, **aux: Any) -> Array:
        log_p = self.tails.log_change(*self._ends_of_classes(eta, aux))
        return np.exp(np.moveaxis(log_p, 0, -1))

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        k = np.clip(np.floor(y), -1, len(self.levels) - 1)
        upper, _ = self._ends(np.maximum(k, 0.0), eta, aux)
        with np.errstate(over="ignore"):
            return np.where(k < 0, 0.0, self.link_function.inverse(upper))

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> tuple[Array, Array, Array]:
        p = np.clip(self.mean(eta, **aux), 1e-300, 1.0 - 1e-16)
        line = self.link_function.forward(p)
        ends = self._ends_of_classes(eta, aux)
        upper, lower = (
            np.moveaxis(slopes, 0, -1)[..., None]
            for slopes in self.tails.slopes_of_change(*ends)
        )
        gaps = np.stack(np.broadcast_arrays(*(aux[a] for a in self.nuisance)), -1)
        over_gaps = upper * self._slopes[1:] - lower * self._slopes[:-1]
        scale = (p / self.link_function.slope(line))[..., None]  # d p = p d log p
        return line, (lower - upper) * scale, over_gaps * gaps[..., None, :] * scale

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        upper, lower = self.tails.slopes_of_change(*self._ends(y, eta, aux))
        return (lower - upper)[..., None]

    def information(self, eta: Array, **aux: Any) -> Array:
        ends = self._ends_of_classes(eta, aux)
        upper, lower = self.tails.slopes_of_change(*ends)
        p = np.exp(self.tails.log_change(*ends))
        return (p * np.square(upper - lower)).sum(0)[..., None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        ends = np.stack(self._ends(y, eta, aux), -1)
        u, v = ends[:, 0], ends[:, 1]
        over_u, minus_over_v = self.tails.slopes_of_change(u, v)
        g = np.stack([over_u, -minus_over_v], -1)
        with np.errstate(all="ignore"):
            bend = np.where(np.isinf(ends), 0.0, self.tails.bend(ends))
        # with u = c_k - eta and c_k a sum of gaps: J of both ends over (eta, log gaps)
        k = np.asarray(y).astype(int)
        gaps = np.stack([np.broadcast_to(aux[a], k.shape) for a in self.nuisance], -1)
        over_gaps = self._slopes[np.stack([k + 1, k], -1)] * gaps[:, None]
        J = np.concatenate([np.full((len(k), 2, 1), -1.0), over_gaps], -1)
        gradient = (g[:, None] @ J)[:, 0]
        # over both ends d2 / du2 = gu (f'/f - gu), d2 / du dv = -gu gv, and likewise over v
        second = -g[:, :, None] * g[:, None]
        second[:, [0, 1], [0, 1]] = g * (bend - g)
        H = J.mT @ second @ J
        i = np.arange(1, 1 + len(self.nuisance))
        H[:, i, i] += gradient[:, 1:]  # of exp(log gap)
        return ValueGradHessian(self.tails.log_change(u, v), gradient, -H)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm
        import pytensor.tensor as pt

        cuts = pt.stack(pt.broadcast_arrays(*self.thresholds(aux)), axis=-1)
        if self.link is LOGIT:
            parameters = {"eta": eta[:, 0], "cutpoints": cuts, "compute_p": False}
            return pm.OrderedLogistic, parameters
        x = cuts - eta
        # P(y > k); pm.OrderedProbit keeps fewer digits
        above = pt.exp(symbolic_log_q(self.link, x))
        ones = pt.ones_like(eta)
        edges = pt.concatenate([ones, above, 0.0 * ones], axis=1)
        return pm.Categorical, {"p": edges[:, :-1] - edges[:, 1:]}
