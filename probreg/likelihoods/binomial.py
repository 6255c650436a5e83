"""Two levels, and successes out of trials: logistic regression, and the beta-binomial for counts that vary more."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log1p
from typing import Annotated, Any, Self

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Count, LevelSequence
from probreg.compiled.density import CompiledDensity, Row, keep_values
from probreg.errors import DataError, require_rows
from probreg.likelihoods.base import (
    INFINITE_PREDICTOR,
    LIKELIHOODS,
    Array,
    AuxValues,
    DifferentiableLikelihood,
    Level,
    Levels,
    Likelihood,
    OfTrials,
    PymcVariable,
    Start,
    ValueGradHessian,
)
from probreg.likelihoods.beta import BetaShapes, expand_shapes
from probreg.likelihoods.binary import (
    BinaryLikelihood,
    BinaryLinkName,
    OrderedLinkName,
    densities_of_links,
    symbolic_probability,
)
from probreg.likelihoods.links import LOGIT
from probreg.likelihoods.log_gamma import rising_squares, rising_sums
from probreg.likelihoods.response import (
    codes,
    one_of,
    refuse_fractions,
    response_levels,
    whole_counts,
)
from probreg.likelihoods.tails import tails
from probreg.special import betainc, gammaln


def evaluate_binomial_row(y: Array, eta: float, t: Array) -> Row:
    k = y[0]
    n = y[1]
    e = exp(-abs(eta))
    mu = (1.0 if eta > 0.0 else e) / (1.0 + e)
    # k log p + (n - k) log(1 - p), and its slope k - n p.
    return -k * max(-eta, 0.0) - (n - k) * max(eta, 0.0) - n * log1p(e), k - n * mu, 0.0


def _binomial_row_of_link(y: Array, eta: float, t: Array) -> Row:
    k = y[0]
    failures = y[1] - k
    log_p, rate_p, log_q, rate_q = tails(eta)
    # without the product of 0 and an infinite logarithm
    value = k * log_p if k > 0.0 else 0.0
    if failures > 0.0:
        value += failures * log_q
    return value, k * rate_p - failures * rate_q, 0.0


@LIKELIHOODS.register
@dataclass(frozen=True)
class Binomial(BinaryLikelihood, OfTrials):
    """Successes k of n trials with P(success) = p, p = 1 / (1 + exp(-eta)) by the logit link: binomial counts.

    log p(k) = log (n over k) + k log p + (n - k) log(1 - p).

    A row y is (k, n) and one observation; its mean is p, per trial. Bernoulli is the case n = 1 with named levels.

    Parameters
    ----------
    trials : int, optional
        The number of trials, if it is the same in every row; otherwise it is part of each row of the response.
    link : {"logit", "probit", "cloglog", "cauchit", "log", "identity"}
        eta = log(p / (1 - p)), the normal quantile of p, log(-log(1 - p)), the Cauchy quantile of p, log(p) or p.

    Examples
    --------
    >>> float(Binomial().log_prob(np.array([1.0, 2.0]), np.array([0.0])).round(6))
    -0.693147
    >>> float(Binomial().information(np.array([[0.0]]), trials=10)[0, 0, 0])
    2.5
    """

    trials: Count | None = None
    link: BinaryLinkName = LOGIT  # type: ignore[assignment]

    name, single = "binomial", "bernoulli"
    wider = "fit a BetaBinomial likelihood, with probabilities that vary between rows"
    classes = ("failure", "success")
    levels = ()
    support = np.arange(500.0)
    event_remedy = "p(k, n) counts the event; to count the other one, write p(n - k, n)"
    compiled_density = CompiledDensity(evaluate_binomial_row)
    densities_of_links = densities_of_links(_binomial_row_of_link)

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        zero_one = np.ndim(values) == 1 and self.trials is None
        bound = replace(self, trials=1) if zero_one else self
        bound.encode(values)
        return bound

    def encode(self, values: Array) -> Array:
        """Return (n, 2), successes and trials, from such pairs, or from successes (n,) with `trials`."""
        kind = type(self).__name__
        values = np.asarray(values)
        if values.ndim == 1:
            if self.trials is None:
                raise DataError(
                    f"a {kind} response is successes out of trials: write p(successes, trials) in a formula, or pass trials="
                )
            k = whole_counts(values, kind)
            values = np.stack([k, np.full(len(k), float(self.trials))], -1)
        y = whole_counts(values, kind)
        if y.ndim != 2 or y.shape[1] != 2:
            raise DataError(
                f"a {kind} response is successes and trials, one of each per row; got an array of shape {y.shape}"
            )
        k, n = y.T
        message = " has {:g} successes in {:g} trials; expected at most as many: write p(successes, trials) in a formula, or pass trials="
        require_rows(k <= n, "", message, k, n)
        if self.trials is not None:
            message = (
                f" has {{:g}} trials, and this {kind} has {self.trials} in every row"
            )
            require_rows(n == self.trials, "", message, n)
        return y

    def of_counts(self) -> Self:
        return self

    def given(self, y: Array) -> dict[str, Array]:
        return {"trials": np.asarray(y)[..., 1]}

    def drawn(self, y: Array) -> Array:
        return np.asarray(y)[..., 0]

    def join(self, drawn: Array, **given: Array) -> Array:
        return np.stack(
            np.broadcast_arrays(np.asarray(drawn, dtype=float), self.size(**given)), -1
        )

    def single_trials(self) -> Array:
        return np.array([[0.0, 1.0], [1.0, 1.0]])

    def tally(self, y: Array) -> Array:
        k = self.drawn(y)
        n = np.asarray(y)[..., 1]
        return np.stack([n - k, k], -1)

    def response(self, y: Array) -> Array:
        with np.errstate(invalid="ignore"):  # no share of no trials
            return np.asarray(y)[..., 0] / np.asarray(y)[..., 1]

    def describe(self, response: str) -> str:
        return f"the probability of a success ({response}) on the {self.link} scale"

    def mean_name(self, response: str) -> str:
        return f"P(success), {response}"

    def initial_eta(self, y: Array) -> Start:
        k = y[:, 0]
        n = y[:, 1]
        # The empirical logit, and the same for other links: finite if k is 0 or n.
        return self.link_function.forward((k + 0.5) / (n + 1.0))[:, None], {}

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        return super().log_prob(y, eta) + self.base_measure(y)

    def base_measure(self, y: Array) -> Array:
        """log (n over k)."""
        k, failures = self._events_and_failures(y)
        log_factorials = gammaln(k + 1.0) + gammaln(failures + 1.0)
        return gammaln(k + failures + 1.0) - log_factorials

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        # P(K <= k) = I_{1 - p}(n - k, k + 1), the regularised incomplete beta function (DLMF 8.17.5)
        k = np.floor(self.drawn(y))
        n = np.asarray(y)[..., 1]
        inside = betainc(
            np.maximum(n - k, 1e-300),
            np.maximum(k, 0.0) + 1.0,
            self.tails.q(eta[..., 0]),
        )
        return np.where(k < 0, 0.0, np.where(k >= n, 1.0, inside))

    def draw_probability(self, rng: Generator, eta: Array, known: AuxValues) -> Array:
        """The probability of a success in each row, which may vary between draws."""
        return self.mean(eta)

    def sample(self, rng: Generator, eta: Array, **known: Any) -> Array:
        p = self.draw_probability(rng, eta, known)
        n = np.broadcast_to(self.size(**known), p.shape)
        k = rng.binomial(n.astype(np.int64), p)
        return np.stack([k.astype(float), n.astype(float)], -1)

    def pymc(self, eta: Any, **known: Any) -> PymcVariable:
        import pymc as pm

        return pm.Binomial, {
            **symbolic_probability(self.link, eta[:, 0]),
            "n": np.asarray(self.size(**known)).astype(int),
        }


def _evaluate_beta_binomial_row(y: Array, eta: float, t: Array) -> Row:
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
        The number of trials, if it is the same in every row; otherwise it is part of each row of the response.
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
    compiled_density = CompiledDensity(
        _evaluate_beta_binomial_row, settings=keep_values
    )
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
        return self.find_zero_score(y, -INFINITE_PREDICTOR, INFINITE_PREDICTOR, **aux)

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


def _bernoulli_product(y: float, eta: float, t: Array) -> Row:
    # log expit(s) = min(s, 0) - log(1 + exp(-|s|)), which does not overflow or lose digits; d/d eta = y - mu.
    s = eta if y > 0.5 else -eta
    e = exp(-abs(s))
    mu = (1.0 if eta > 0.0 else e) / (1.0 + e)
    return (s if s < 0.0 else 0.0), e, y - mu


def _evaluate_bernoulli_row(y: float, eta: float, t: Array) -> Row:
    a, e, slope = _bernoulli_product(y, eta, t)
    return a - log1p(e), slope, 0.0


def _bernoulli_row_of_link(y: float, eta: float, t: Array) -> Row:
    log_p, rate_p, log_q, rate_q = tails(eta)
    if y > 0.5:
        return log_p, rate_p, 0.0
    return log_q, -rate_q, 0.0


@LIKELIHOODS.register
@dataclass(frozen=True)
class Bernoulli(BinaryLikelihood):
    """One of two classes, P(y = 1) = p, by the logit link 1 / (1 + exp(-eta)): log p(y) = y eta - log(1 + exp(eta)).

    Parameters
    ----------
    levels : tuple
        (the other level, the event); without them the event is the level that sorts last.
    link : {"logit", "probit", "cloglog", "cauchit", "log", "identity"}
        eta = log(p / (1 - p)), the normal quantile of p, log(-log(1 - p)), the Cauchy quantile of p, log(p) or p.

    Examples
    --------
    >>> float(Bernoulli().log_prob(np.array(1.0), np.array([0.0])).round(6))
    -0.693147
    """

    levels: Annotated[tuple[Level, Level], LevelSequence(2)] = (0, 1)
    link: BinaryLinkName = LOGIT  # type: ignore[assignment]

    name = "bernoulli"
    support = np.arange(2.0)
    binary = True
    chosen_level = "event"
    compiled_density = CompiledDensity(
        _evaluate_bernoulli_row, product=_bernoulli_product
    )
    densities_of_links = densities_of_links(_bernoulli_row_of_link)

    def stated_choice(self) -> Level | None:
        levels = self.stated_levels()
        return levels[-1] if levels else None

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        known = self.stated_levels() or levels
        found_levels = response_levels(values, known, chosen)
        # whole numbers come as int
        if levels is not None or any(isinstance(v, float) for v in found_levels):
            refuse_fractions(
                values,
                "a Bernoulli response has two levels; ",
                "For shares of several trials give successes and trials: 'p(successes, trials) ~ x', or trials= in from_arrays.",
            )
        if len(found_levels) == 1:
            raise DataError(
                f"a Bernoulli response has two levels; this one is constant ({found_levels[0]!r}), and its other level is not known: "
                "code it as 0 or 1, or declare the levels of a categorical column."
            )
        if len(found_levels) != 2:
            shown = ", ".join(map(str, found_levels[:6])) + "…" * (
                len(found_levels) > 6
            )
            raise DataError(
                f"a Bernoulli response has two levels; this one has {len(found_levels)} levels ({shown}). For more than two use Categorical."
            )
        first, last = found_levels
        if chosen is not None and one_of(found_levels, chosen, "event") == first:
            first, last = last, first
        return replace(self, levels=(first, last))

    def encode(self, values: Array) -> Array:
        return codes(values, self.levels)

    def of_counts(self) -> Likelihood:
        return Binomial(link=self.link)

    def describe(self, response: str) -> str:
        return f"P({response} = {self.levels[1]}) on the {self.link} scale; the other level is {self.levels[0]}"

    def tally(self, y: Array) -> Array:
        return np.stack([1.0 - np.asarray(y), y], -1)

    def mean_name(self, response: str) -> str:
        return f"P({response} = {self.levels[1]})"

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return np.where(y < 0, 0.0, np.where(y < 1, self.tails.q(eta[..., 0]), 1.0))

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        return (rng.random(eta.shape[:-1]) < self.mean(eta)).astype(float)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.Bernoulli, symbolic_probability(self.link, eta[:, 0])
