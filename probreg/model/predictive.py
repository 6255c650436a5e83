"""The predictive distribution of new observations, a finite mixture of the likelihood, and quantities of a row by name.

It has one atom for a plug-in estimate, S atoms for a posterior, and nodes with weights if
the linear predictor of an atom has a normal distribution. Mean, quantiles, log density and
samples come from the mixture, so that maximum likelihood and Bayes use the same code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from probreg.arguments.scalars import check_prob
from probreg.errors import DataError, Incompatible
from probreg.likelihoods import Likelihood
from probreg.likelihoods.base import flatten_rows
from probreg.likelihoods.links import IDENTITY, LINKS, LOG
from probreg.likelihoods.location_scale import AdditiveNoise
from probreg.likelihoods.quantities import Parameter, Quantity, RowQuantity
from probreg.special import logsumexp
from probreg.tables import PrintsTable, Table

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Predictive(PrintsTable):
    """p(y) = sum_s w_s p(y | eta_s, aux_s), w_s = `share` or 1/S, with eta (S, n, m) and each aux (S, 1), or (S, n) if rows differ in it.

    >>> from probreg.likelihoods import Gaussian
    >>> one = Predictive(Gaussian(), np.zeros((1, 1, 1)), {"sigma": np.ones((1, 1))})
    >>> one.quantile(0.975).round(4)
    array([1.96])
    """

    likelihood: Likelihood
    eta: Array
    aux: Mapping[str, Array]
    # constants of each row, such as its trials (n,)
    given: Mapping[str, Array] = MappingProxyType({})
    # (S,) or (S, n) weights of the atoms, which sum to one; None if all are equal
    share: Array | None = None

    @property
    def _display_table(self) -> Table:
        atoms, n = self.eta.shape[:2]
        head = f"predictive distribution of {n} rows: {self.likelihood.name}, atoms: {atoms}"
        return Table((), head=(head,))

    def mean(self, quantity: Quantity | None = None) -> Array:
        """E[y], shape (n,), per trial for binomial counts; class probabilities (n, K) for classes; or the mean of another quantity."""
        quantity = quantity or self.likelihood
        if self.share is not None and quantity.link is LOG:
            # exp of a node can overflow although the mean does not
            line = quantity.link_mean_and_slope(self.eta, **self.aux)[0][..., 0]
            with np.errstate(over="ignore"):  # exp(mean + sd^2 / 2) above 1e308 is inf
                return np.exp(logsumexp(line, 0, b=self._atom_weights))
        return self._average_atoms(quantity.mean(self.eta, **self.aux))

    @property
    def _atom_weights(self) -> Array:
        """`share` as (S, 1) or (S, n)."""
        assert self.share is not None
        if self.share.ndim == 2:
            return self.share
        return self.share[:, None]

    def _average_atoms(self, values: Array) -> Array:
        """The mean over the atoms of values (S, ...)."""
        if self.share is None:
            return values.mean(0)
        weights = np.broadcast_to(self._atom_weights, values.shape[:2])
        return np.einsum("sn,sn...->n...", weights, values)

    def means(self) -> Array:
        """E[y | atom], shape (S, n) or (S, n, K)."""
        return self.likelihood.mean(self.eta, **self.aux)

    def log_prob(self, y: Array) -> Array:
        """log of the mixture density at y (n,), shape (n,); y (n, K) for counts by class."""
        atom_log_probs = self.likelihood.log_prob(
            self._join_given(y), self.eta, **self.aux
        )
        if self.share is not None:
            return logsumexp(atom_log_probs, 0, b=self._atom_weights)
        return logsumexp(atom_log_probs, 0) - np.log(len(atom_log_probs))

    def sample(self, rng: np.random.Generator, size: int = 1000) -> Array:
        """Independent draws of new observations, shape (size, n): the number of successes for binomial counts; counts by class
        are (size, n, K)."""
        atoms: Any
        aux = self.aux
        if self.share is None:
            atoms = rng.integers(len(self.eta), size=size)
        elif self.share.ndim == 1:
            atoms = rng.choice(len(self.eta), size, p=self.share)
        else:  # rows differ in their weights, and so in the atoms drawn
            shape = self.eta.shape[:2]
            total = np.cumsum(np.broadcast_to(self.share, shape), 0).T
            u = rng.random((shape[1], size)) * total[:, -1:]
            drawn = [np.searchsorted(c, v) for c, v in zip(total, u)]
            atoms = np.stack(drawn, 1), np.arange(shape[1])
            aux = {k: np.broadcast_to(v, shape) for k, v in aux.items()}
        values = {k: v[atoms] for k, v in aux.items()}
        y = self.likelihood.sample(rng, self.eta[atoms], **values, **self.given)
        return self.likelihood.drawn(y)

    def cdf(self, y: Array) -> Array:
        """P(Y <= y), shape (n,). Incompatible for classes without an order."""
        return self._average_atoms(
            self._require_order().cdf(self._join_given(y), self.eta, **self.aux)
        )

    def thin(self, atoms: int) -> "Predictive":
        """The same with at most this many atoms, evenly spaced; with weights all atoms are kept."""
        if self.share is not None:
            return self
        every_k = slice(None, None, -(-len(self.eta) // atoms))
        aux = {k: v[every_k] for k, v in self.aux.items()}
        return replace(self, eta=self.eta[every_k], aux=aux)

    def _average_parameters(self) -> "Predictive":
        """Return the likelihood at the mean linear predictors and nuisance parameters, one atom."""
        aux = {a: self._average_atoms(v)[None] for a, v in self.aux.items()}
        eta = self._average_atoms(self.eta)[None]
        return replace(self, eta=eta, aux=aux, share=None)

    def _join_given(self, y: Array) -> Array:
        """Return y joined with the given values of its row, such as trials."""
        if np.ndim(y) == 1:
            return self.likelihood.join(y, **self.given)
        return y

    def quantile(
        self, prob: float, *, tol: float = 1e-12, compiled: bool | None = None
    ) -> Array:
        """The smallest y with P(Y <= y) >= prob, shape (n,): exact for a discrete response, else to `tol` in
        probability, and to 1e-5 of the smaller tail.

        Newton on the mixture's distribution function, from the quantile of a few atoms and inside a bracket; bisection over the integers for a discrete response. Incompatible for unordered classes.
        For a Gaussian or Poisson likelihood with many atoms and rows, or with `compiled`, compiled code searches; rows where it
        finds no quantile use the search above.
        """
        many = 400_000  # compiled code is worth loading from this product of atoms and rows
        family = type(self._require_order())
        prob = check_prob(prob)
        if compiled is None:
            compiled = self.eta.size >= many
        search = family.compiled_quantile
        if (
            not compiled
            or search is None
            or "compiled_quantile" not in vars(family)
            or (self.share is not None and self.share.ndim == 2)
        ):
            return self._search_quantile(prob, tol)
        share = self.share
        if share is None:
            share = np.full(len(self.eta), 1.0 / len(self.eta))
        quantiles = search(prob, self.eta, self.aux, share)
        unsolved = np.flatnonzero(np.isnan(quantiles))
        if len(unsolved):
            quantiles[unsolved] = self._take_rows(unsolved)._search_quantile(prob, tol)
        return quantiles

    def interval(
        self, prob: float, *, tol: float = 1e-12, compiled: bool | None = None
    ) -> tuple[Array, Array]:
        """The ends of the equal-tailed interval, each (n,). For a response of numbers the upper end is found with mirrored noise.

        For other responses the probability below the upper end is at most the largest number below 1. `compiled` as in `quantile`.
        """
        likelihood = self._require_order()
        tail = (1.0 - check_prob(prob)) / 2.0
        lower = self.quantile(tail, tol=tol, compiled=compiled)
        if isinstance(likelihood, AdditiveNoise):
            mirrored = replace(self, likelihood=likelihood.mirror, eta=-self.eta)
            return lower, -mirrored.quantile(tail, tol=tol, compiled=compiled)
        upper = min(1.0 - tail, float(np.nextafter(1.0, 0.0)))
        return lower, self.quantile(upper, tol=tol, compiled=compiled)

    def _search_quantile(self, prob: float, tol: float) -> Array:
        # the search for a count starts here at the latest: a mean of a wide mixture can be infinite
        largest_start = 2.0**52
        few_atoms = 32  # enough to start the search for the quantile of many atoms
        discrete = self._require_order().is_discrete
        few = self.thin(few_atoms)
        thins = len(few.eta) < len(self.eta)
        if discrete:
            if thins:
                start = few._search_quantile(prob, tol)
            elif len(self.eta) > 1:
                start = self._average_parameters()._search_quantile(prob, tol)
            else:
                start = np.floor(np.minimum(self._mean_response(), largest_start))
            # a quantile above 1e308 is inf
            with np.errstate(over="ignore", invalid="ignore"):
                return self._bisect(prob, *self._integers(prob, start))
        start = few.mean()
        if thins:
            start = few._newton_quantile(prob, start, 1e-5)
        return self._newton_quantile(prob, start, tol)

    def _newton_quantile(self, prob: float, y: Array, tol: float) -> Array:
        """Newton on the distribution function from y; a step out of the bracket is replaced by bisection.

        Two points give the slope f' of the density f, and so the error after a step: f' gap^2 / (2 f^2), with f'/f^2
        at least its value in a normal tail, 1/prob. If this error is below `tol`, the step is the last, and
        its end is not checked.
        """
        # the end of a step is not checked if its error is expected to be below this share of the tolerance
        unchecked_share = 0.1
        # the tolerance is at most this share of the smaller tail
        tail_share = 1e-5
        tol = min(tol, max(tail_share * min(prob, 1.0 - prob), float(np.spacing(prob))))
        y, rows, part = y.copy(), np.arange(len(y)), self
        low = np.full_like(y, -np.inf)
        high = np.full_like(y, np.inf)
        error = np.full_like(y, np.inf)
        points = y.copy()
        gap = self.cdf(y) - prob
        f = self._mixture_density(y)
        tail = 1.0 / min(prob, 1.0 - prob)
        # bisect where the density is 0
        with np.errstate(all="ignore"):
            width = np.where(f > 0, 1.0 / f, 1.0 + np.abs(y))
            for number in range(400):
                low = np.where(gap < 0, points, low)
                high = np.where(gap < 0, high, points)
                step = points - gap / f
                safe = (step > low) & (step < high) & (np.abs(step - points) <= width)
                y[rows] = np.where(safe, step, points)
                done = (
                    (np.abs(gap) <= tol)
                    | (high - low <= 1e-14 * np.abs(points))
                    | (safe & (error <= unchecked_share * tol))
                )
                if done.all():
                    break
                halve = np.where(
                    np.isfinite(high - low),
                    (low + high) / 2,
                    np.where(gap < 0, points + width, points - width),
                )
                new = np.where(safe & (number % 5 < 4), step, halve)
                width = np.where(safe, width, 2.0 * width)
                if done.any():
                    rows = rows[~done]
                    part = part._take_rows(~done)
                    low, high, width, points, f, new = (
                        v[~done] for v in (low, high, width, points, f, new)
                    )
                before = f
                f = part._mixture_density(new)
                gap = part.cdf(new) - prob
                hessian = np.where(
                    new == points, np.inf, np.abs(f - before) / np.abs(new - points)
                )
                error = np.maximum(hessian / f**2, tail) * gap**2 / 2.0
                points = new
        return y

    def _mixture_density(self, y: Array) -> Array:
        return self._average_atoms(
            np.exp(self.likelihood.log_prob(self._join_given(y), self.eta, **self.aux))
        )

    def _take_rows(self, index: Array) -> "Predictive":
        aux = {k: v if v.shape[-1] == 1 else v[:, index] for k, v in self.aux.items()}
        row_values = {
            k: np.broadcast_to(v, self.eta.shape[1:2])[index]
            for k, v in self.given.items()
        }
        share = self.share
        if share is not None and share.ndim == 2:
            share = share[:, index]
        return Predictive(self.likelihood, self.eta[:, index], aux, row_values, share)

    def _mean_response(self) -> Array:
        """Return the mean of the response, (n,); for ordered classes the mean of the class numbers."""
        mean = self.mean()
        if mean.ndim == 2:
            mean = mean @ np.arange(mean.shape[1])
        return mean * self.given.get("trials", 1.0)

    def _integers(self, prob: float, start: Array) -> tuple[Array, Array]:
        """Return integers with P(Y <= low) < prob <= P(Y <= high), by steps from the start that double."""
        is_above = self.cdf(start) >= prob  # whether the start is an upper end
        low = np.where(is_above, start - 1.0, start)
        high = np.where(is_above, start, start + 1.0)
        rows = np.arange(len(start))
        part = self
        reach = 1.0
        for _ in range(1100):
            p = part.cdf(np.where(is_above, low, high)[rows])
            unsolved = np.where(is_above[rows], p >= prob, p < prob)
            if not unsolved.any():
                break
            rows = rows[unsolved]
            part = part._take_rows(unsolved)
            down = rows[is_above[rows]]
            up = rows[~is_above[rows]]
            high[down] = low[down]
            low[down] -= reach
            low[up] = high[up]
            high[up] += reach
            reach *= 2.0
        return low, high

    def _bisect(self, prob: float, low: Array, high: Array) -> Array:
        """Bisect over the integers, with P(Y <= low) < prob <= P(Y <= high)."""
        # above 2^53 the next number is more than 1 away
        while len(
            wide := np.flatnonzero(high - low > np.maximum(1.0, np.spacing(high)))
        ):
            middle = np.floor((low[wide] + high[wide]) / 2)
            enough = self._take_rows(wide).cdf(middle) >= prob
            low[wide], high[wide] = (
                np.where(enough, low[wide], middle),
                np.where(enough, middle, high[wide]),
            )
        return high

    def pit(self, y: Array, u: Array | float = 1.0) -> Array:
        """Probability integral transform P(Y < y) + u P(Y = y), shape (n,). It is uniform if the predictive distribution is right:
        for a continuous response for any u, for a discrete response if u (n,) is uniform on (0, 1) (Smith 1985).

        Incompatible for classes without an order.
        """
        upto = self.cdf(y)
        if not self._require_order().is_discrete:
            ends = self._join_given(y)
            below = self._require_order().lower_end(ends)
            return (
                upto if below is ends else upto - (1.0 - u) * (upto - self.cdf(below))
            )
        return upto - (1.0 - u) * np.exp(self.log_prob(y))

    def _require_order(self) -> Likelihood:
        if not self.likelihood.has_cdf:
            raise Incompatible(
                f"{self.likelihood.named} response has no order, so it has no quantiles; ask for class probabilities"
            )
        return self.likelihood


@dataclass(frozen=True)
class Median(RowQuantity):
    """The value y with P(Y <= y) = 1/2 of a continuous response."""

    def line(self, eta: Array, **aux: Any) -> Array:
        # treat each pair of an atom and a row as a row with one atom
        shape, rows, aux = flatten_rows(eta, aux)
        values = {a: v[None] for a, v in aux.items()}
        alone = Predictive(self.likelihood, rows[None], values)
        return self.link.forward(alone.quantile(0.5)).reshape(shape)


def quantity_called(likelihood: Likelihood, what: str) -> Quantity:
    """Return the quantity of this name.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood of a model.
    what : str
        "mean"; "link", the linear predictor of the mean; the name of another linear predictor, such as "log sigma"; the name of
        the parameter itself, such as "sigma"; or "median".

    Returns
    -------
    Likelihood or RowQuantity
        The likelihood for its mean.

    Raises
    ------
    DataError
        For a name that the likelihood does not have.

    Examples
    --------
    >>> import numpy as np
    >>> from probreg.likelihoods import Gaussian
    >>> quantity_called(Gaussian(), "sigma").mean(np.zeros((2, 1)), sigma=3.0).round(6).tolist()
    [3.0, 3.0]
    """
    if what == "mean" or (what == "link" and likelihood.least_squares):
        return likelihood
    quantities: dict[str, RowQuantity] = {}
    parameters = likelihood.parameters
    if likelihood.width + len(likelihood.nuisance) == len(parameters):
        quantities["link"] = Parameter(likelihood, "the linear predictor", IDENTITY, 0)
        for i, name in enumerate(parameters[1:], 1):
            link, parameter = name.split(" ", 1)
            quantities[name] = Parameter(likelihood, name, IDENTITY, i)
            quantities[parameter] = Parameter(likelihood, parameter, LINKS[link], i)
    if likelihood.has_cdf and not likelihood.is_discrete:
        positive = likelihood.support == "positive"
        quantities["median"] = Median(
            likelihood, "the median", LOG if positive else IDENTITY
        )
    if what not in quantities:
        available = ", ".join(map(repr, ("mean", *quantities)))
        raise DataError(f"what={what!r}: {likelihood.named} likelihood has {available}")
    return quantities[what]
