"""Successes out of trials that vary more than binomial counts: the beta-binomial."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from probreg.compiled.density import (
    CompiledDensity,
    Row,
    keep_values,
)
from probreg.errors import DataError
from probreg.likelihoods.base import (
    FAR,
    LIKELIHOODS,
    Array,
    AuxValues,
    DifferentiableLikelihood,
    Level,
    Levels,
    PymcVariable,
    Start,
    ValueGradHessian,
)
from probreg.likelihoods.beta import BetaShapes, expand_shapes
from probreg.likelihoods.binary import OrderedLinkName
from probreg.likelihoods.binomial import Binomial, evaluate_binomial_row
from probreg.likelihoods.links import LOGIT
from probreg.likelihoods.log_gamma import rising_squares, rising_sums


def _evaluate_row(y: Array, eta: float, t: Array) -> Row:
    phi = t[0]
    e = exp(-abs(eta))
    larger = 1.0 / (1.0 + e)
    p = larger if eta > 0.0 else e * larger
    q = e * larger if eta > 0.0 else larger
    sums_a, a = rising_sums(y[0], max(phi * p, 1e-300))
    sums_b, b = rising_sums(y[1] - y[0], max(phi * q, 1e-300))
    sums, c = rising_sums(y[1], phi)
    log_p = evaluate_binomial_row(y, eta, t)[0]
    return log_p + sums_a + sums_b - sums, q * a - p * b, a + b - c


@LIKELIHOODS.register
@dataclass(frozen=True)
class BetaBinomial(Binomial, BetaShapes):
    """Successes k of n trials, k | p ~ Binomial(n, p) with p ~ Beta(a, b): counts that vary more than binomial ones.

    a = mu phi and b = (1 - mu) phi with the mean mu = 1 / (1 + exp(-eta)) by the logit link and the precision phi. The variance of k
    is n mu (1 - mu) (1 + (n - 1) / (1 + phi)); the binomial is the limit of a large phi.

    log p(k) = log (n over k) + log B(k + a, n - k + b) - log B(a, b). It is not concave in eta.

    Parameters
    ----------
    trials : int, optional
        The number of trials of every row, where it is one number; else each row brings its own.
    link : {"logit", "probit", "cloglog"}
        eta = log(mu / (1 - mu)), the normal quantile of mu, or log(-log(1 - mu)).

    References
    ----------
    Williams 1975; Prentice 1986.

    Examples
    --------
    >>> float(BetaBinomial().log_prob(np.array([1.0, 2.0]), np.array([0.0]), phi=2.0).round(6))
    -1.098612
    """

    link: OrderedLinkName = LOGIT  # type: ignore[assignment]

    name = "beta_binomial"
    nuisance = ("phi",)
    dependent_trials = True
    wider = ""
    at_infinity = {"phi": "the Binomial model"}  # noqa: RUF012  a constant of the class
    concave = is_orthogonal = False
    compiled_density = CompiledDensity(_evaluate_row, settings=keep_values)
    densities_of_links = {}  # noqa: RUF012  a constant of the class

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        bound = super().bind(values, levels, chosen)
        y = bound.encode(values)
        if len(y) and y[:, 1].max() < 2:
            raise DataError(
                "no row has two trials or more, so that phi has no estimate: use Bernoulli or Binomial"
            )
        return bound

    def describe(self, response: str) -> str:
        return f"{super().describe(response)}, with beta-binomial variance"

    def initial_eta(self, y: Array) -> Start:
        # the mean of (k - n mu)^2 / (n mu (1 - mu)) is 1 + (n - 1) / (1 + phi) about
        k, n = y.T
        mu = (k.sum() + 0.5) / (n.sum() + 1.0)
        ratio = np.mean((k - n * mu) ** 2 / np.maximum(n * mu * (1.0 - mu), 0.1))
        phi = (n.mean() - 1.0) / max(ratio - 1.0, 1e-3) - 1.0
        return super().initial_eta(y)[0], {"phi": float(np.clip(phi, 0.5, 50.0))}

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        a, b = self.shapes(eta, aux)
        k, failures = self._events_and_failures(y)
        sums = rising_sums(k, a)[0] + rising_sums(failures, b)[0]
        return (
            super().log_prob(y, eta)
            + sums
            - rising_sums(k + failures, aux["phi"] * 1.0)[0]
        )

    def response_variance(self, eta: Array, **known: Any) -> Array:
        n = self.size(**known)
        binomial = super().response_variance(eta, **known)
        return binomial * (1.0 + (n - 1.0) / (1.0 + known["phi"]))

    # trials depend on each other, so that the formula of an exponential family does not apply
    information_slope = DifferentiableLikelihood.information_slope

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        a, b = self.shapes(eta, aux)
        k, failures = self._events_and_failures(y)
        h, g, _ = self._rates(eta)
        return (h * rising_sums(k, a)[1] - g * rising_sums(failures, b)[1])[..., None]

    def information(self, eta: Array, **known: Any) -> Array:
        # h^2 E[S2(K, a)] + g^2 E[S2(n - K, b)], S2(k, a) the sum over j < k of (a / (a + j))^2
        a, b = self.shapes(eta, known)
        h, g, _ = self._rates(eta)
        n = np.asarray(self.size(**known), dtype=float)
        total = h**2 * _expected_squares(n, a, b) + g**2 * _expected_squares(n, b, a)
        return total[..., None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        # with S1(k, a), S2(k, a) the sums over j < k of a / (a + j) and its square, d S1 / d log a = S1 - S2
        a, b = self.shapes(eta, aux)
        phi = np.broadcast_to(aux["phi"] * 1.0, a.shape)
        k, failures = self._events_and_failures(y)
        n = k + failures
        gradient, H = expand_shapes(
            self._rates(eta),
            (rising_sums(k, a)[1], rising_squares(k, a)),
            (rising_sums(failures, b)[1], rising_squares(failures, b)),
            (-rising_sums(n, phi)[1], -rising_squares(n, phi)),
        )
        return ValueGradHessian(self.log_prob(y, eta, **aux), gradient, H)

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        return self.find_zero_score(y, -FAR, FAR, **aux)

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        k = np.floor(self.drawn(y))
        n = np.asarray(y)[..., 1]
        masses = enumerate(_masses(n, *self.shapes(eta, aux)))
        total = sum((mass * (j <= k) for j, mass in masses), np.zeros(()))
        return np.where(k >= n, 1.0, np.minimum(total, 1.0))

    def draw_probability(self, rng: Generator, eta: Array, known: AuxValues) -> Array:
        return rng.beta(*self.shapes(eta, known))

    def pymc(self, eta: Any, **known: Any) -> PymcVariable:
        import pymc as pm

        parameters = super().pymc(eta, **known)[1]
        log_odds = parameters.pop("logit_p")
        alpha = known["phi"] * pm.math.sigmoid(log_odds)
        beta = known["phi"] * pm.math.sigmoid(-log_odds)
        return pm.BetaBinomial, {"alpha": alpha, "beta": beta, **parameters}


def _masses(n: Array, a: Array, b: Array) -> Iterator[Array]:
    """P(K = k) for k = 0, 1, ..., the largest n."""
    phi = a + b
    log_p = rising_sums(n, b)[0] - rising_sums(n, phi)[0] + n * np.log(b / phi)
    for k in range(int(np.max(n, initial=0.0)) + 1):
        yield np.exp(log_p)
        trials_left = np.maximum(n - k, 0.0)
        odds = (a + k) / (np.maximum(trials_left - 1.0, 0.0) + b)
        with np.errstate(divide="ignore"):  # no trials are left
            log_p = log_p + np.log(trials_left / (k + 1.0)) + np.log(odds)


def _expected_squares(n: Array, a: Array, b: Array) -> Array:
    """E of the sum over j < K of (a / (a + j))^2."""
    total = np.zeros(np.broadcast_shapes(n.shape, a.shape))
    squares = np.zeros(np.shape(a))
    for k, mass in enumerate(_masses(n, a, b)):
        total += mass * squares
        squares = squares + (a / (a + k)) ** 2
    return total
