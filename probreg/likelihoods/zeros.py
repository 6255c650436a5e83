"""Counts with more or fewer zeros than their family: zero inflation and hurdles.

Both are mixtures of a point mass at 0 with a distribution of the other counts, the family itself or the family truncated above 0.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cache
from math import exp, log
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity, Row, with_functions
from probreg.errors import Incompatible
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    AuxValues,
    IntervalLikelihood,
    Likelihood,
    LineAndSlopes,
    MayDiverge,
    PymcVariable,
    Recession,
    Reported,
    Start,
    ValueGradHessian,
    flatten_rows,
    line_and_slopes,
)
from probreg.likelihoods.composite import OfBase
from probreg.likelihoods.counts import CountLikelihood, Poisson
from probreg.likelihoods.links import LOG
from probreg.likelihoods.truncated import Truncated, condition_on_complement
from probreg.special import expit

# replaced by functions of the base and of the mixture: `_bind`
base_row: Any = None
base_settings: Any = None
mix: Any = None

# log p and its slopes over eta, log w and log alpha
MixedRow = tuple[float, float, float, float]


def _inflate(y: float, eta: float, t: Array) -> MixedRow:
    """The row of a zero-inflated count, without branches; t has the settings of the base, log(1 + w) and w."""
    w = t[-1]
    log_p, over_eta, over_aux = base_row(y, eta, t)
    p = exp(log_p)
    log_zero = log(w + p)
    q = p / (w + p)
    log_p = log_zero if y == 0.0 else log_p
    q = q if y == 0.0 else 1.0
    return log_p - t[-2], q * over_eta, 1.0 / (1.0 + w) - q, q * over_aux


def _hurdle(y: float, eta: float, t: Array) -> MixedRow:
    w = t[-1]
    if y == 0.0:
        return log(w) - t[-2], 0.0, 1.0 / (1.0 + w), 0.0
    log_p, over_eta, over_aux = condition_on_complement(
        base_row(y, eta, t), base_row(0.0, eta, t)
    )
    return log_p - t[-2], over_eta, -w / (1.0 + w), over_aux


def _mixed_row(y: float, eta: float, t: Array) -> Row:
    log_p, over_eta, over_odds, _ = mix(y, eta, t)
    return log_p, over_eta, over_odds


def _mixed_row_with_aux(
    y: float, eta: float, t: Array, slopes: Array
) -> tuple[float, float]:
    log_p, over_eta, slopes[0], slopes[1] = mix(y, eta, t)
    return log_p, over_eta


def _mixed_settings(values: Any, constants: Any) -> tuple[Any, ...]:
    return (*base_settings(values[1:], constants), np.log1p(values[0]), values[0])


def _no_settings(values: Any, constants: Any) -> tuple[Any, ...]:
    return ()


@cache
def _bind(base: CompiledDensity, mix: Any, has_aux: bool) -> CompiledDensity:
    """Return the density of a mixture with a base of at most one nuisance parameter."""
    of_base = {"mix": with_functions(mix, {"base_row": base.row})}
    settings = {"base_settings": base.settings or _no_settings}
    return CompiledDensity(
        with_functions(_mixed_row_with_aux if has_aux else _mixed_row, of_base),
        settings=with_functions(_mixed_settings, settings),
    )


class ZeroMixture(OfBase, MayDiverge):
    """y = 0 with probability w / (1 + w), otherwise a draw of `part`; w is the nuisance parameter `zero_odds`.

    With the odds u = log w and F0 = log P(part = 0), log p(0) = log(w + exp F0) - log(1 + w), and a zero is a draw of `part` with
    probability q = exp F0 / (w + exp F0), which weighs the derivatives of F0.
    """

    base: Likelihood
    link = LOG
    exact_information = is_count = True
    # the smallest count of `part`
    first: ClassVar[float]
    # for compiled code
    mix: ClassVar[Any]
    reported_zero: ClassVar[str]
    # the prefix of PyMC's classes
    prefix: ClassVar[str]
    # the model at zero_odds = 0
    without_zeros: ClassVar[str]

    def __post_init__(self) -> None:
        # other values get the usual error of a field
        if isinstance(self.base, Likelihood) and not isinstance(
            self.base, CountLikelihood
        ):
            raise Incompatible(
                f"base={self.base}: expected a likelihood of counts, Poisson() or NegativeBinomial()"
            )
        super().__post_init__()

    @property
    def part(self) -> IntervalLikelihood | Truncated:
        """The distribution of counts that are not extra zeros."""
        return self.family

    def log_zero(self, eta: Array, values: AuxValues) -> Array:
        """F0 = log P(part = 0)."""
        return self.base.log_prob(np.zeros(eta.shape[-2:-1]), eta, **values)

    def log_kept(self, eta: Array, values: AuxValues) -> Any:
        """log P(a count of the base is a possible value of `part`)."""
        return 0.0

    def draw_part(self, rng: Generator, eta: Array, values: AuxValues) -> Array:
        return self.part.sample(rng, eta, **values)

    @property
    def compiled_density(self) -> CompiledDensity | None:  # type: ignore[override]
        density = self.family.compiled_density
        if density is None or density.row is None or density.fills_slopes:
            return None
        return _bind(density, self.mix, bool(self.base.nuisance))

    @property
    def nuisance(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("zero_odds", *self.base.nuisance)

    @property
    def parameters(self) -> tuple[str, ...]:
        mean, *log_parameters = self.base.parameters
        return (mean, "logit zero", *log_parameters)

    @property
    def at_zero(self) -> Any:  # type: ignore[override]
        limit = self.without_zeros.format(self.base.name.replace("_", " "))
        return {"zero_odds": limit, **self.base.at_zero}

    def report_parameters(self, intercept: Any, **aux: Any) -> Reported:
        p = expit(_log(aux["zero_odds"]))
        base_values = [aux[a] for a in self.base.nuisance]
        values = np.stack(np.broadcast_arrays(p + 0.0 * intercept, *base_values), -1)
        slopes = np.zeros((*values.shape, 1 + values.shape[-1]))
        i = np.arange(values.shape[-1])
        slopes[..., i, 1 + i] = values
        slopes[..., 0, 1] *= 1.0 - values[..., 0]
        return Reported(
            (self.reported_zero, *self.base.nuisance),
            values,
            slopes,
            ("unit", *("positive" for _ in base_values)),
        )

    def initial_eta(self, y: Array) -> Start:
        zeros = np.sum(y == 0)
        typical = y.sum() / max(len(y) - zeros, 1)
        eta, aux = self.base.initial_eta(np.where(y == 0, typical, y))
        odds = (zeros + 0.5) / (len(y) - zeros + 0.5)
        return eta, {"zero_odds": float(odds), **aux}

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        return self.part.saturated_predictor(
            np.maximum(y, self.first), **_split(aux)[1]
        )

    def recession(self, y: Array) -> Recession:
        # the smallest count of `part` becomes more probable as eta decreases
        rows = np.flatnonzero(y >= self.first)
        return Recession(rows, -np.ones((len(rows), 1)), y[rows] > self.first)

    def absent_outcomes(self, y: Array) -> Array:
        return np.array([not np.any(y > self.first)])

    def infinite_intercept(self, absent: Array, rows: int) -> str:
        return f"none of {rows} rows has a count above {self.first:g}: the mean of {self.base.name} counts is estimated as 0, at infinity on the log scale"

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        u, values = _split(aux)
        with np.errstate(invalid="ignore"):
            zero = np.logaddexp(u, self.log_zero(eta, values))
            count = self.part.log_prob(y, eta, **values)
        return np.where(np.asarray(y) == 0, zero, count) - np.logaddexp(0.0, u)

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        # with v = (g, -1), g the part's gradient and -1 for u: q H'' + q (1 - q) v v', and the curvature of log(1 + w)
        u, values = _split(aux)
        with np.errstate(invalid="ignore"):
            # the probability that a count is a draw of `part`
            q = np.where(y == 0, expit(self.log_zero(eta, values) - u), 1.0)
        part = self.part.value_grad_hessian(y, eta, **values)
        gradient = np.insert(part.gradient, 1, 0.0, 1)
        v = np.insert(part.gradient, 1, -1.0, 1)
        H = np.insert(np.insert(part.curvature, 1, 0.0, 1), 1, 0.0, 2)
        mixed = (q * (1.0 - q))[:, None, None] * v[:, :, None] * v[:, None, :]
        gradient = q[:, None] * gradient
        gradient[:, 1] = 1.0 - q - expit(u)
        H = q[:, None, None] * H - mixed
        H[:, 1, 1] += expit(u) * expit(-u)
        return ValueGradHessian(self.log_prob(y, eta, **aux), gradient, H)

    def _scale(self, eta: Array, u: Array, values: AuxValues) -> Array:
        """K = (1 + w) / P(a count of the base is kept): E f(y) = E f(base count) / K for f(0) = 0."""
        return np.exp(np.logaddexp(0.0, u) + self.log_kept(eta, values))

    def mean(self, eta: Array, **aux: Any) -> Array:
        u, values = _split(aux)
        return self.base.mean(eta, **values) / self._scale(eta, u, values)

    def response_variance(self, eta: Array, **aux: Any) -> Array:
        u, values = _split(aux)
        m = self.base.mean(eta, **values)
        K = self._scale(eta, u, values)
        V = self.base.response_variance(eta, **values)
        return (V + m * m) / K - (m / K) ** 2

    def log_mean(self, eta: Array, **aux: Any) -> Array:
        """log E[y]."""
        u, values = _split(aux)
        scale = np.logaddexp(0.0, u) + self.log_kept(eta, values)
        return self.family.log_mean(eta) - scale

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        return line_and_slopes(self.log_mean, eta, aux, self.nuisance)

    @abstractmethod
    def lost_share(self, F0: Array, u: Array) -> Array:
        """c in the information (I - c g g') / K, where I is the information of the base and g the slope of F0."""

    def information(self, eta: Array, **aux: Any) -> Array:
        u, values = _split(aux)
        zero = np.zeros(eta.shape[-2])
        # counts that are almost surely 0, or almost surely not
        with np.errstate(all="ignore"):
            c = self.lost_share(self.base.log_prob(zero, eta, **values), u)
            zero_part = c * self.family.score(zero, eta, **values)[..., 0] ** 2
        information = self.family.information(eta, **values)[..., 0, 0]
        positive = np.maximum(information - np.nan_to_num(zero_part), 0.0)
        return (positive / self._scale(eta, u, values))[..., None, None]

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        u, values = _split(aux)
        p = expit(-u) * self.part.cdf(y, eta, **values) + expit(u)
        return np.where(np.asarray(y) < 0, 0.0, p)

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        shape, rows, values_of_rows = flatten_rows(eta, aux)
        u, values = _split(values_of_rows)
        y = self.draw_part(rng, rows, values)
        return np.where(rng.random(len(y)) < expit(u), 0.0, y).reshape(shape)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        values = dict(aux)
        psi = 1.0 / (1.0 + values.pop("zero_odds"))
        kind, parameters = self.base.pymc(eta, **values)
        return getattr(pm, self.prefix + kind.__name__), {"psi": psi, **parameters}


@LIKELIHOODS.register
@dataclass(frozen=True)
class ZeroInflated(ZeroMixture):
    """Counts with extra zeros: y = 0 with probability pi, otherwise a count of the family `base`, which may be 0 as well.

    pi = w / (1 + w) with the odds w = `zero_odds`. The linear predictor gives the mean mu of `base`, and the mean of y is
    (1 - pi) mu. A formula for "logit zero" = log w gives pi its own linear predictor, with positive coefficients for more extra
    zeros, as in glmmTMB and R's `zeroinfl`. A fit without one reports pi as `p_extra_zero`.

    Parameters
    ----------
    base : Likelihood
        The family of counts, `Poisson()` or `NegativeBinomial()`.

    References
    ----------
    Lambert 1992; Zeileis, Kleiber & Jackman 2008.

    Examples
    --------
    >>> float(ZeroInflated(Poisson()).log_prob(np.array(2.0), np.array([0.0]), zero_odds=1.0).round(6))
    -2.386294
    """

    base: Likelihood = field(default_factory=Poisson)

    name = "zero_inflated"
    first = 0.0
    mix = staticmethod(_inflate)
    reported_zero = "p_extra_zero"
    prefix = "ZeroInflated"
    without_zeros = "the {} model"

    def describe(self, response: str) -> str:
        return f"{self.base.describe(response)}, before extra zeros"

    def lost_share(self, F0: Array, u: Array) -> Array:
        return np.exp(F0) * expit(u - F0)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Hurdle(ZeroMixture):
    """Counts in two parts: y = 0 with probability p, otherwise a count above 0 of the family `base`, truncated at 0.

    p = w / (1 + w) with the odds w = `zero_odds`. The linear predictor gives the mean mu of `base` before truncation, and the
    mean of y is (1 - p) mu / P(base > 0). A formula for "logit zero" = log w gives p its own linear predictor. Its coefficients
    are for the log odds of a zero, as in glmmTMB; R's `pscl::hurdle` models a count above 0, so that its signs are opposite.
    A fit without this formula reports p as `p_zero`.

    Parameters
    ----------
    base : Likelihood
        The family of counts, `Poisson()` or `NegativeBinomial()`.

    References
    ----------
    Mullahy 1986; Zeileis, Kleiber & Jackman 2008.

    Examples
    --------
    >>> float(Hurdle(Poisson()).log_prob(np.array(0.0), np.array([0.0]), zero_odds=1.0).round(6))
    -0.693147
    """

    base: Likelihood = field(default_factory=Poisson)

    name = "hurdle"
    first = 1.0
    mix = staticmethod(_hurdle)
    reported_zero = "p_zero"
    prefix = "Hurdle"
    without_zeros = "the {} model truncated at 0"

    @property
    def concave(self) -> bool:  # type: ignore[override]
        return self.part.concave

    def describe(self, response: str) -> str:
        return (
            f"{self.base.describe(response)}, before truncation at 0; zeros by a hurdle"
        )

    @property
    def part(self) -> Truncated:
        return Truncated(self.base, lower=self.first)

    def log_zero(self, eta: Array, values: AuxValues) -> Array:
        return np.full(eta.shape[:-1], -np.inf)

    def log_kept(self, eta: Array, values: AuxValues) -> Array:
        return self.family.log_interval(np.zeros(1), np.full(1, np.inf), eta, **values)

    def lost_share(self, F0: Array, u: Array) -> Array:
        return 1.0 / np.expm1(-F0)

    def draw_part(self, rng: Generator, eta: Array, values: AuxValues) -> Array:
        y = np.zeros(len(eta))
        zeros = np.arange(len(eta))

        def values_of_zeros() -> dict[str, Any]:
            return {a: v[zeros] for a, v in values.items()}

        # rejection, then inversion if a count above 0 is rare
        for _ in range(100):
            y[zeros] = self.base.sample(rng, eta[zeros], **values_of_zeros())
            zeros = zeros[y[zeros] == 0]
        prob = (1.0 - 1e-12) * rng.random(len(zeros))
        while len(zeros):
            y[zeros] += 1.0
            prob = prob - np.exp(
                self.part.log_prob(y[zeros], eta[zeros], **values_of_zeros())
            )
            zeros, prob = zeros[prob > 0], prob[prob > 0]
        return y


def _log(odds: Any) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(odds)


def _split(aux: AuxValues) -> tuple[Array, dict[str, Any]]:
    """The log odds of an extra zero, and the nuisance parameters of the base."""
    return _log(aux["zero_odds"]), {a: v for a, v in aux.items() if a != "zero_odds"}
