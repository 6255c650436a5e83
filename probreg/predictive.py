"""What a fit says about new observations: a finite mixture of the likelihood.

One atom for a plug-in estimate, S atoms for a posterior. Mean, quantiles, log density and samples are those of the
mixture, so maximum likelihood and Bayes answer through the same lines of code.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from probreg.errors import Incompatible
from probreg.likelihoods import Likelihood, OrderedLikelihood

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Predictive:
    """p(y) = (1/S) sum_s p(y | eta_s, aux_s), with eta (S, n, m) and each aux (S, 1).

    >>> from probreg.likelihoods import Gaussian
    >>> one = Predictive(Gaussian(), np.zeros((1, 1, 1)), {"sigma": np.ones((1, 1))})
    >>> one.quantile(0.975).round(4)
    array([1.96])
    """

    likelihood: Likelihood
    eta: Array
    aux: Mapping[str, Array]

    def mean(self) -> Array:
        """E[y], shape (n,); class probabilities (n, K) for a categorical response."""
        return self.means().mean(0)

    def means(self) -> Array:
        """E[y | atom], shape (S, n) or (S, n, K)."""
        return self.likelihood.mean(self.eta, **self.aux)

    def log_prob(self, y: Array) -> Array:
        """log of the mixture density at y (n,), shape (n,)."""
        each = self.likelihood.log_prob(y, self.eta, **self.aux)
        return logsumexp(each, 0) - np.log(len(each))

    def sample(self, rng: np.random.Generator, size: int = 1000) -> Array:
        """Independent draws of new observations, shape (size, n)."""
        s = rng.integers(len(self.eta), size=size)
        return self.likelihood.sample(rng, self.eta[s], **{k: v[s] for k, v in self.aux.items()})

    def cdf(self, y: Array) -> Array:
        """P(Y <= y), shape (n,). Incompatible for classes without an order."""
        return self._ordered().cdf(y, self.eta, **self.aux).mean(0)

    def quantile(self, prob: float) -> Array:
        """The smallest y with P(Y <= y) >= prob, shape (n,): exact for a discrete response, else to 1e-12 in
        probability.

        Newton's method on the mixture's distribution function, kept inside a bracket; bisection where it would leave
        it. Incompatible for unordered classes.
        """
        discrete = not isinstance(self._ordered().support, str)
        low, high = self._bracket(prob)
        if discrete:
            return self._bisect(prob, np.floor(low), np.ceil(high))
        y = (low + high) / 2
        for _ in range(200):
            gap = self.cdf(y) - prob
            low, high = np.where(gap < 0, y, low), np.where(gap < 0, high, y)
            if (np.abs(gap) <= 1e-12).all() or (high - low <= 1e-14 * np.abs(high)).all():
                break
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # a flat density asks for bisection
                step = y - gap / np.exp(self.likelihood.log_prob(y, self.eta, **self.aux)).mean(0)
            y = np.where((step > low) & (step < high), step, (low + high) / 2)
        return y

    def _bisect(self, prob: float, low: Array, high: Array) -> Array:
        """Over the integers, with P(Y <= low) < prob <= P(Y <= high)."""
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            enough = self.cdf(middle) >= prob
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def pit(self, y: Array) -> Array:
        """Probability integral transform P(Y <= y), uniform when the predictive is right (continuous responses)."""
        return self.cdf(y)

    def _bracket(self, prob: float) -> tuple[Array, Array]:
        """Points below and above the quantile, widened geometrically from the centre."""
        centre = self.mean()
        width = np.ones_like(centre) + self.means().std(0)
        low, high = centre - width, centre + width
        for _ in range(1100):
            short_low, short_high = self.cdf(low) >= prob, self.cdf(high) < prob
            if not (short_low.any() or short_high.any()):
                break
            width = 2.0 * width
            low, high = np.where(short_low, centre - width, low), np.where(short_high, centre + width, high)
        return low, high

    def _ordered(self) -> OrderedLikelihood:
        if not isinstance(self.likelihood, OrderedLikelihood):
            raise Incompatible(
                f"a {self.likelihood.name} response has no order, so it has no quantiles; ask for class probabilities"
            )
        return self.likelihood
