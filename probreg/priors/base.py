"""The base classes of priors of a block of coefficients, also of priors with unknown parameters, and the flat prior.

A block is an array of shape (..., q, m): q columns, m linear predictors, any leading axes for draws. A scale is stated
for coefficients on the raw columns, one for all or one per column; the m predictors of a column are independent copies.
`unit` multiplies every scale: it is sigma for a prior that is stated in units of the noise (`sigma_units=True`).

The subclass of a prior shows its further properties: a `SmoothPrior` has slopes, a `GaussianPrior` a precision, a `ProximalPrior` a
proximal map. A prior that is stated relative to the rows (on standardised columns, in units of X'X, through the Fisher
information) or with an unknown scale needs the rows: `prepare` turns it into a plain prior or a mixture.

Samplers draw the hyperparameters with the coefficients, and `given` is the plain prior at some values of them. Latent
normal priors are beta ~ N(b, C D(h)^2 C') with D diagonal and C C' known; their evidence p(y | h) is known or approximated.
Their hyperparameters are positive numbers, and a search changes their logs. The coordinates u = D^-1 C^-1 (beta - b) ~ N(0, I) allow
a scale of zero, which removes a column, without an infinite precision.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator as Generator

from probreg.arguments.scalars import (
    NamedSettings,
    PerColumn as PerColumn,
    PositivePerColumn as PositivePerColumn,
)
from probreg.errors import DataError
from probreg.kernels import KERNELS, KernelBasis
from probreg.linalg.vec import map_of_columns
from probreg.priors.correlations import CORRELATION_PRIORS
from probreg.priors.positive import AUX_PRIORS, AuxPrior
from probreg.registry import Registry

PRIORS: Registry["Prior"] = Registry(
    "prior", parts=(AUX_PRIORS, CORRELATION_PRIORS, KERNELS)
)

Array = np.ndarray
Shape = tuple[int, ...]
PymcVariable = tuple[Any, dict[str, Any]]  # PyMC's distribution and its parameters
Scale = PositivePerColumn | AuxPrior


@dataclass(frozen=True, eq=False)
class PriorData:
    """The properties of the rows that a prior can use: of its own q columns, and the standard deviation of the response."""

    columns: tuple[str, ...]
    n: float  # observations, including weights
    spread: Callable[[], Array]  # (q,) standard deviations with divisor n - 1
    # the standard deviation of y if sigma is a noise scale; None for other likelihoods
    response_sd: Callable[[], float | None]
    # X'WX (q, q), of centred columns if there is an intercept; a row counts by its trials
    gram: Callable[[], Array]
    # Fisher information of one observation, or trial, at eta = 0 and sigma = 1
    unit_information: float | None
    # beta (p, m) -> Fisher information (p m, p m) of all coefficients and the gradient of half its log determinant;
    # None if the information does not vary with beta
    fisher: Callable[[Array], tuple[Array, Array]] | None
    process: KernelBasis | None = None  # the basis, if these are all of its columns
    grouped: Any = None  # the term of varying effects, if these are all of its columns: effects, levels, correlated
    # the term of each column in the formula
    terms: Callable[[], tuple[str, ...]] = tuple

    @cached_property
    def sd(self) -> Array:
        """(q,), DataError for a column that does not vary."""
        sd = self.spread()
        for name, v in zip(self.columns, sd):
            if not v > 0:
                raise DataError(
                    f"column {name!r} does not vary, so no scale can be stated in its standard deviations; leave it out, or give "
                    "a prior without scaled=True"
                )
        return sd

    def scale_unit(self, *, sigma_units: bool) -> Array:
        """Return sd(y) / sd(x_j) (q,), the unit of a scale on standardised columns; 1 / sd(x_j) for scales in units of sigma."""
        response = None if sigma_units else self.response_sd()
        return (1.0 if response is None else response) / self.sd


class Prior(NamedSettings, ABC):
    """p(beta): independent of the likelihood, and normalised unless it is improper."""

    name: ClassVar[str]
    whole: ClassVar[bool] = False  # applies to every column, also to the intercept
    proper: bool = True
    sigma_units: bool = False
    # p(beta) is known without values of its hyperparameters
    known: ClassVar[bool] = True
    tail: float = np.inf  # degrees of freedom: p falls as |beta|^-(tail + 1) far out, inf if faster than any power
    # made from another prior by `prepare`, not written by users
    derived: ClassVar[bool] = False

    @property
    def size(self) -> int | None:
        """The number of columns that the prior is stated for; None if it has one scale for any number."""
        return None

    @abstractmethod
    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        """log p of a block (..., q, m), summed over the block; `unit` broadcasts against the leading axes."""

    @abstractmethod
    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        """Draws of shape (..., q, m), independent over the leading axes; `unit` is one number, or of shape (..., 1, 1).
        DataError for an improper prior."""

    def sample_with_hyper(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> tuple[Array, dict[str, Array]]:
        """Return draws and their hyperparameters (...,) by name, if the prior has any."""
        return self.sample(rng, shape, unit), {}

    @abstractmethod
    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        """Return PyMC's distribution class and parameters, for a variable with the q columns on its last axis."""

    def unit(self, sigma: Any) -> Any:
        """Return the unit of its scales at this noise scale: sigma if they are stated in units of sigma, else 1."""
        if self.sigma_units:
            return sigma
        return 1.0

    def penalty_weight(self, q: int, unit: float = 1.0) -> Array | None:
        """Return the weights (q,) in -log p(beta) = weight R(beta) + constant at this unit of its scales; None if there are none."""
        return None

    @property
    def data_dependent(self) -> bool:
        """Whether it is relative to the rows or has an unknown scale, so that it needs `prepare`."""
        return False

    @property
    def of_terms(self) -> bool:
        """Whether a prior for all columns applies to smooth functions and processes too, block by block."""
        return False

    def prepare(self, rows: PriorData) -> "Prior":
        """Return this prior at these rows, in raw units; a prior in raw units is unchanged."""
        return self

    def for_posterior(self) -> "Prior":
        """Return the prior for a posterior: a proper one in place of a flat one that is enough for a mode."""
        return self

    def root_of_groups(self, values: Mapping[str, Any]) -> Any:
        """Return Lambda (K, K) of a prior b_g ~ N(0, Lambda Lambda') of groups of K consecutive columns, at hyperparameters that are
        numbers or symbols; None for other priors."""
        return None

    def part(self, places: Sequence[int]) -> "Prior | None":
        """Return the prior of some of its columns, given by their places; None if the prior is no product over columns."""
        return None

    def times(self, factor: float) -> "Prior":
        """Return the same prior with every scale multiplied by this factor. DataError for a prior without a scale."""
        raise DataError(f"the {self.name} prior has no scale to multiply")

    def rescale_stated(self, factor: float) -> "Prior | None":
        """Return `times` of the prior before `prepare`, so that a relative prior stays relative to rows; None if only the prepared
        prior can be multiplied."""
        if self.data_dependent:
            return None
        return self.times(factor)


class SmoothPrior(Prior):
    """Twice differentiable: Newton's method applies, but there may be several modes."""

    @abstractmethod
    def slopes(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        """First and second derivative of log p over each entry of a block (q, m), with the other entries fixed."""

    def derivatives(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        """Gradient of log p (q m,) and its negative Hessian (q m, q m) over vec(block); from `slopes` for independent
        entries."""
        g, h = self.slopes(beta, unit)
        return g.ravel(), np.diag(-h.ravel())


class GaussianPrior(SmoothPrior):
    """log p is quadratic: Newton steps, closed forms and conjugacy apply."""

    @abstractmethod
    def precision(self, q: int) -> Array:
        """(q, q) at unit 1."""

    def center(self, q: int) -> Array:
        """(q,), the mean."""
        return np.zeros(q)

    @abstractmethod
    def independent(self, q: int) -> Array | None:
        """(q,) standard deviations at unit 1 of independent entries; None if entries are not independent."""

    def slopes(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        # log p = -(beta - b)'P(beta - b) / 2 + constant, one such term for each predictor.
        P = self.precision(len(beta)) / unit**2
        slope = -P @ (beta - self.center(len(beta))[:, None])
        return slope, np.repeat(-np.diagonal(P)[:, None], beta.shape[1], 1)

    def derivatives(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        P = self.precision(len(beta)) / unit**2
        return self.slopes(beta, unit)[0].ravel(), map_of_columns(P, beta.shape[1])


class WholePrior(SmoothPrior):
    """One density of all columns and predictors together, the only prior of a model; in PyMC it is a potential on flat coefficients."""

    whole = True

    def slopes(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        g, H = self.derivatives(beta)
        return g.reshape(beta.shape), -np.diagonal(H).reshape(beta.shape)

    @abstractmethod
    def derivatives(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        """Gradient of log p (p m,) and its negative Hessian (p m, p m) over vec(beta)."""

    @abstractmethod
    def potential(self, beta: Any) -> Any:
        """log p as a symbolic scalar of symbolic coefficients (p, m)."""

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        import pymc as pm

        return pm.Flat, {}


class Kinks(NamedTuple):
    """-log p = sum over groups |metric r|^exponent + sum_j ridge_j r_j^2 / 2 + constant, r = beta - location of one predictor.

    A column that is in none of the `groups` is its own group; the exponent of `groups` is 1. If `metric` is 0 there is no kink.
    """

    metric: Array  # (q,)
    ridge: Array  # (q,)
    exponent: float = 1.0
    groups: tuple[Array, ...] = ()


class ProximalPrior(Prior):
    """A prior with kinks of a known form: modes have a certificate although log p is not differentiable there.

    If -log p is convex (`convex`), the mode is global. Entries are independent, or the groups of a `GroupLaplace`.
    """

    location: PerColumn

    @property
    @abstractmethod
    def convex(self) -> bool:
        """-log p is convex."""

    @abstractmethod
    def kinks(self, q: int) -> Kinks:
        """-log p of a block of q columns, at unit 1."""

    def subgradient(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        """Lower and upper end of the subdifferential of -log p over each entry of a block (q, m), with the other entries fixed."""
        q = len(beta)
        kinks = self.kinks(q)
        power = kinks.exponent
        r = beta - np.broadcast_to(self.location, q)[:, None]
        metric = kinks.metric[:, None] / unit
        z = metric * r
        with np.errstate(divide="ignore", invalid="ignore"):
            # d|z|^e / dz = sign(z) e |z|^(e - 1); at 0 any value up to the slope at the smallest number
            slope = np.sign(z) * power * np.abs(z) ** (power - 1.0)
            steepest = power * float(np.finfo(float).tiny) ** (power - 1.0)
        if power < 1.0:  # a cusp
            steepest = np.inf
        low, high = (np.where(z == 0, end, slope) for end in (-steepest, steepest))
        for g in kinks.groups:
            # d|z_g| = z_g / |z_g|; at the kink it is the unit ball, from -1 to 1 over each entry
            length = np.linalg.norm(z[g], axis=0)
            slope = z[g] / np.where(length > 0, length, 1.0)
            low[g] = np.where(length > 0, slope, -1.0)
            high[g] = np.where(length > 0, slope, 1.0)
        ridge = kinks.ridge[:, None] / unit**2 * r
        return metric * low + ridge, metric * high + ridge

    def remove_common_shift(self, scores: Array) -> Array | None:
        """Return scores - c for scores (..., q, K) of K classes, where the number c of each column minimises -log p.

        None if the prior has no such form.
        """
        return None


class DataDependentPrior(Prior):
    """A prior that has no density before `prepare` binds it to the rows."""

    @property
    def data_dependent(self) -> bool:
        return True

    def _raise_unbound(self, *_: Any, **__: Any) -> Any:
        raise unbound_error(self)

    log_prob = sample = pymc = _raise_unbound


def unbound_error(prior: Prior) -> DataError:
    """Return the error for a relative prior that is used before its rows are known."""
    return DataError(
        f"{prior!r} depends on the rows: a Model binds it to them (model.joint), or .prepare(rows)"
    )


class Hyper(NamedTuple):
    """The prior of a hyperparameter: one value for the block, or one for each column and predictor."""

    prior: AuxPrior
    each: bool = False


class HierarchicalPrior(Prior):
    """p(beta) = integral of p(beta | h) p(h) dh, where p(beta | h) is a plain prior: `base` with its scales multiplied by `spread(h)`."""

    base: Prior
    # several linear predictors have the same values of the hyperparameters
    shared: bool = False

    @property
    def in_columns(self) -> tuple[str, ...]:
        """Hyperparameters that change the columns themselves, by name; none if only the prior depends on them."""
        return ()

    @property
    @abstractmethod
    def hyper(self) -> Mapping[str, Hyper]:
        """Hyperparameters by name."""

    @property
    def hyper_labels(self) -> Mapping[str, str]:
        """The labels of hyperparameters with full names; others get a label from their columns."""
        return {}

    def natural(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reported values (numbers, arrays or symbols) at these hyperparameters, by the same names."""
        return dict(values)

    def internal(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return hyperparameters (numbers or arrays) from reported values: the inverse of `natural`."""
        return dict(values)

    def log_prob_of_hyper(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return log densities of the reported values, elementwise, by the names of the hyperparameters."""
        return {name: h.prior.log_prob(values[name]) for name, h in self.hyper.items()}

    @abstractmethod
    def spread(self, **values: Any) -> Any:
        """Return the factor of the scales of `base` at these hyperparameters, numbers or symbols: one factor for all, or one of
        each column, which is then the last axis."""

    @abstractmethod
    def given(self, **values: Any) -> Prior:
        """Return the prior of the coefficients of one predictor at these hyperparameters, a number or (q,) each."""

    def root_given(self, **values: Any) -> Array | None:
        """Return A (q, q) with beta = A u at these hyperparameters, where u has the prior `base`; None if `given` is a prior of beta itself."""
        return None

    def log_prob_given(
        self, beta: Array, values: Mapping[str, Array], unit: Array | float = 1.0
    ) -> Array:
        """log p(beta | h) of blocks (..., q, m) at hyperparameters (...,), for priors that are not `known` without them."""
        raise DataError(
            f"the {self.name} prior has a density without its hyperparameters: `log_prob`"
        )

    def draw_hyper(self, rng: Generator, size: int) -> dict[str, Array]:
        """Return draws (size,) of the hyperparameters from their priors. DataError if one is improper."""
        if not self.proper:
            raise DataError(
                f"the hyperparameters of this {self.name} prior have an improper prior, so there are no draws; give proper ones"
            )
        return {name: h.prior.sample(rng, size) for name, h in self.hyper.items()}

    def size_at(self, values: Mapping[str, float]) -> float | None:
        """Return the standard deviation of the function of these columns if hyperparameters give it, else None."""
        return None

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        raise DataError(
            f"the {self.name} prior has hyperparameters: PyMC takes it through `given`, variable by variable"
        )


class LatentPrior(HierarchicalPrior):
    """beta ~ N(b, C D(h)^2 C') with positive hyperparameters h, by name in `hyper`."""

    scalar: bool = False  # D is the only hyperparameter times the unit matrix

    @property
    def normal(self) -> bool:
        """Its base is normal, so that the evidence of h is known."""
        return isinstance(self.base, GaussianPrior)

    @property
    @abstractmethod
    def scales(self) -> tuple[bool, ...]:
        """For each hyperparameter whether it multiplies D, so that the prior is a point mass at b if it is 0."""

    @property
    def may_vanish(self) -> tuple[bool, ...]:
        """Return for each hyperparameter whether a part of the prior vanishes at 0, so that a search may end there."""
        return self.scales

    @abstractmethod
    def log_scales(self, logs: Array, q: int) -> Array:
        """log D (S, q) at logs (S, d) of the hyperparameters, in the order of `hyper`."""

    @abstractmethod
    def log_scale_slopes(self, logs: Array, q: int) -> Array:
        """The derivatives (q, d) of log D over the logs (d,)."""

    def log_scale_curvature(self, logs: Array, q: int) -> Array:
        """The second derivatives (q, d, d) of log D over the logs (d,)."""
        return np.zeros((q, len(logs), len(logs)))

    def root(self, logs: Array) -> tuple[Array, Array] | None:
        """Lambda (K, K) with its slopes (d, K, K) if beta ~ N(0, I kron Lambda Lambda') repeats; None if D is enough."""
        return None

    def starts(self) -> tuple[tuple[float, ...], ...]:
        """Starting values of the hyperparameters that are no scales; one empty tuple if there are none."""
        return ((),)


class ConditionalPrior(LatentPrior):
    """Standard normal coefficients of a root or of scales: given the hyperparameters their density is known."""

    known = False

    @property
    def proper(self) -> bool:  # type: ignore[override]
        return all(h.prior.proper for h in self.hyper.values())

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        raise DataError(
            f"the {self.name} prior has no density without its hyperparameters: fit it, or hold them"
        )


@PRIORS.register
@dataclass(frozen=True)
class Flat(GaussianPrior):
    """The flat prior p(beta) ∝ 1, improper: the normal prior of infinite scale, log p = 0.

    Examples
    --------
    >>> float(Flat().log_prob(np.ones((3, 1))))
    0.0
    """

    name = "flat"
    proper = False

    def rescale_stated(self, factor: float) -> "Flat":
        return self

    def part(self, places: Sequence[int]) -> "Flat":
        return self

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        return np.zeros(beta.shape[:-2])

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        raise DataError(
            "a flat prior is improper and has no draws; name a proper prior for these columns"
        )

    def precision(self, q: int) -> Array:
        return np.zeros((q, q))

    def independent(self, q: int) -> Array | None:
        return np.full(q, np.inf)

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        import pymc as pm

        return pm.Flat, {}
