"""Groups of columns with a normal prior, known or with unknown hyperparameters, and theta, the logs of all these hyperparameters.

The prior of a group is N(mu, C D(theta)^2 C'), C C' its covariance at D = I and D
diagonal. The coordinates gamma = C^-1 (beta - mu) = D u have u ~ N(0, I) a priori. theta has the logs of the hyperparameters of the unknown groups, in
order, and then log sigma if it is unknown and the likelihood is Gaussian.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import Any, Literal, NamedTuple

import numpy as np

from probreg.data import Design
from probreg.errors import Incompatible
from probreg.inference.base import Array
from probreg.inference.covariance import (
    ArrowCovariance,
    DenseCovariance,
    ParameterCovariance,
)
from probreg.kernels.anchored import RowValues
from probreg.kernels.spectral import SineBasis
from probreg.linalg import inverse_upper
from probreg.model.model import Model
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    Flat,
    GaussianPrior,
    LatentPrior,
    Prior,
    ScaleMixture,
)


class NoMode(Incompatible):
    """The log posterior has no mode at these scales, so Laplace's method has no value there."""


LikelihoodCriterion = Literal["REML", "ML"]
# the mean (p, m) of the coefficients given the hyperparameters, and their covariance
CoefficientEstimate = tuple[Array, ArrowCovariance | DenseCovariance]
LOG_DIFFERENCE = 1e-3  # of the logs: an error of about 1e-6 of the curvature


@dataclass(frozen=True)
class LatentGroup:
    """Columns of one block, or one of them: their normal prior at D = I, and the prior with D; None if D = I."""

    columns: tuple[int, ...]
    base: GaussianPrior
    prior: LatentPrior | None
    block: int
    left: float = 0.0  # weighted sum over the rows of the variance outside a basis of few anchors at D = I
    # None if all linear predictors have independent copies
    predictor: int | None = None

    def width(self, m: int) -> int:
        """The number of linear predictors, of m."""
        return m if self.predictor is None else 1

    @cached_property
    def root(self) -> Any:
        """C (q, q), sparse and upper triangular, with C C' the covariance at D = I."""
        from scipy.sparse import csr_array, diags_array

        q = len(self.columns)
        sd = self.base.independent(q)
        if sd is not None:
            return csr_array(diags_array(sd))
        return csr_array(inverse_upper(np.linalg.cholesky(self.base.precision(q)).T))

    @cached_property
    def hyper(self) -> Mapping[str, AuxPrior]:
        """The priors of its hyperparameters by name."""
        if self.prior is None:
            return {}
        return {name: h.prior for name, h in self.prior.hyper.items()}

    def values_at(self, logs: Array) -> dict[str, float]:
        """Its hyperparameters by name at their logs (d,)."""
        return dict(zip(self.hyper, np.exp(logs).tolist()))

    def root_at(self, logs: Array, *, repeated: bool = True) -> tuple[Array, Array]:
        """L (S, R, K, K) with gamma = L u at logs (S, d), and its slopes (d, R, K, K) at
        the first: one root for all groups (R = 1) if they have one and `repeated`, else
        a scale of each coordinate (K = 1)."""
        q = len(self.columns)
        if self.prior is None:
            return np.ones((len(logs), q, 1, 1)), np.zeros((0, q, 1, 1))
        roots: list[Any] = [None]
        if repeated:
            roots = [self.prior.root(row) for row in logs]
        if roots[0] is not None:
            value = np.array([root[0] for root in roots])
            return value[:, None], roots[0][1][:, None]
        D = np.exp(self.prior.log_scales(logs, q))
        slopes = self.prior.log_scale_slopes(logs[0], q).T * D[0]
        return D[..., None, None], slopes[..., None, None]


class LatentGroups:
    """All groups, the unknown ones first.

    Attributes
    ----------
    priors : list of AuxPrior
        The priors of the hyperparameters, in the order of theta.
    with_hyper : list of tuple
        Each group with the places of its hyperparameters in theta.
    of : array (q,)
        The group of each coordinate.
    group_of : array (d,)
        The group of each hyperparameter.
    sizes : array (d,)
        Coordinates of the group if the hyperparameter may go to zero; 0 otherwise.
    scaling : array (d,)
        Whether a hyperparameter is a scale.
    scalar : bool
        Whether there is only one group with one scale.
    """

    def __init__(self, groups: Sequence[LatentGroup]) -> None:
        self.groups = tuple(groups)
        self.priors = list[AuxPrior]()
        self.with_hyper = list[tuple[LatentGroup, slice]]()
        sizes = list[float]()
        scaling = list[bool]()
        for g in self.groups:
            start = len(self.priors)
            self.priors += g.hyper.values()
            self.with_hyper.append((g, slice(start, len(self.priors))))
            if g.prior is not None:
                sizes += [float(len(g.columns)) * may for may in g.prior.may_vanish]
                scaling += g.prior.scales
        numbers = np.arange(len(self.groups))
        self.of = np.repeat(numbers, [len(g.columns) for g in self.groups])
        self.group_of = np.repeat(numbers, [len(g.hyper) for g in self.groups])
        self.sizes = np.array(sizes)
        self.scaling = np.array(scaling, dtype=bool)
        self.scalar = len(self.groups) == 1 and all(
            g.prior is None or g.prior.scalar for g in self.groups
        )

    def starts(self) -> list[Array]:
        """Return starts of a search as logs (d,), with scales at 1: every combination of the groups' starts."""
        starts_of_groups = [g.prior.starts() for g in self.groups if g.prior]
        points = []
        for chosen in product(*starts_of_groups):
            theta = np.zeros(len(self.priors))
            places = np.flatnonzero(~self.scaling)
            theta[places] = np.log([value for part in chosen for value in part])
            points.append(theta)
        return points

    def at_scales(
        self, other_hyper: Array, log_tau: float | Array, log_sigma: float | Array
    ) -> Array:
        """Return logs (d,), or (S, d) at (S, 1) of tau and sigma, with every scale at
        tau times sigma, or at tau if it is in units of sigma."""
        relative = np.array([g.base.sigma_units for g in self.groups], dtype=float)[
            self.group_of
        ]
        return np.where(
            self.scaling, log_tau + (1.0 - relative) * log_sigma, other_hyper
        )

    def branches(self, theta: Array) -> list[Array]:
        """Return points near theta with the correlations of each group of effects at
        either sign and near either boundary.

        Given one standard deviation, the evidence may have a maximum on each side, and
        at a correlation of -1 and 1.
        """
        correlations = (1.0, 5.0)  # atanh of 0.76 and of 0.9999
        points = list[Array]()
        places = np.arange(len(self.priors))
        for k, g in enumerate(self.groups):
            hyper = places[self.group_of == k]
            if (
                g.prior is None
                or not g.prior.hyper_labels
                or not (cors := hyper[~self.scaling[hyper]]).size
            ):
                continue
            for size in correlations:
                for signs in sign_patterns(len(cors)):
                    point = theta.copy()
                    point[cors] = np.multiply(size, signs)
                    points.append(point)
        return points


def sign_patterns(n: int) -> Iterable[tuple[float, ...]]:
    """Return the first few of all patterns of signs (n,)."""
    max_patterns = 4
    return islice(product((1.0, -1.0), repeat=n), max_patterns)


class EvidencePoint(NamedTuple):
    """The evidence, times the priors of the hyperparameters over their logs, at one point theta of the logs."""

    value: float
    gradient: Array
    hessian: Array
    evidence: float  # without the priors of the hyperparameters
    effective: Array  # (d,) parameters determined by the data, for the group of each hyperparameter


class EvidenceSurface(ABC):
    """f(theta): the log evidence times the priors of the hyperparameters over their logs.

    Attributes
    ----------
    tol : float
        Tolerance of the search for its maximum, in standard errors of theta.
    secant : bool
        Whether its Hessian is approximate, so that a search corrects it by the
        changes of the gradient.
    layout : ArrowLayout or None
        Its columns in arrow order.
    outer : tuple of str
        Nuisance parameters with logs in theta, after the hyperparameters.
    priors : list of AuxPrior
        The priors of the coordinates of theta that are logs of positive numbers, in
        order.
    """

    tol: float
    secant: bool = True
    layout: Any = None

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        criterion: LikelihoodCriterion = "REML",
        outer: tuple[str, ...] | None = None,
    ) -> None:
        self.model, self.groups, self.criterion = model, groups, criterion
        self.outer = model.unknown if outer is None else outer
        self.priors = [*groups.priors, *map(model.aux_prior, self.outer)]

    @abstractmethod
    def __call__(self, theta: Array) -> EvidencePoint: ...

    @abstractmethod
    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""

    @abstractmethod
    def starts(self) -> list[Array]:
        """Starts of a search."""

    def impossible(self, theta: Array) -> EvidencePoint:
        """The point at theta, if it has no value."""
        d = len(theta)
        unknown = np.full(d, np.nan)
        hessian = np.full((d, d), np.nan)
        effective = unknown[: len(self.groups.priors)]
        return EvidencePoint(-np.inf, unknown, hessian, -np.inf, effective)

    def log_noise(self, theta: Array) -> Array:
        """log 1 / sigma^2 (S,) of a Gaussian likelihood at theta (S, d)."""
        sigma = self.model.noise_held
        if sigma is None:
            return -2.0 * theta[:, -1]
        return np.full(len(theta), -2.0 * np.log(sigma))

    @property
    def dear(self) -> bool:
        """Whether one value takes more than a millisecond, such as with a mode."""
        return True

    def hessian(self, theta: Array, hessian_near: Array) -> Array:
        """The Hessian at theta; if the Hessian of `__call__` is approximate, by central
        differences of the gradient, with steps from `hessian_near`."""
        if not self.secant:
            return self(theta).hessian
        size = np.full(len(theta), LOG_DIFFERENCE)
        d = len(self.priors)
        # in standard errors for coordinates that are not logs of positive parameters
        size[d:] *= np.diagonal(-hessian_near)[d:] ** -0.5
        H = np.array(
            [
                (self(theta + s).gradient - self(theta - s).gradient)
                for s in np.diag(size)
            ]
        )
        H = H / (2.0 * size[:, None])
        return (H + H.T) / 2.0

    @property
    def response_scale(self) -> float:
        """The standard deviation of the response, the reference for a noise scale among the coordinates."""
        return 1.0

    def inner_at(self, theta: Array) -> tuple["EvidenceSurface", Array]:
        """The surface of the columns at theta, and theta without coordinates that change the columns."""
        return self, theta

    def choose_at(self, theta: Array) -> bool:
        """Reselect at theta the anchors that are fixed during a search; False if there are none."""
        return False

    def coefficients(self, theta: Array) -> Array:
        """The coefficients (p, m) given theta, without another search for them."""
        raise NotImplementedError

    def slope_of_mode(self, theta: Array, k: int, design: Design) -> Array:
        """The derivative (p, m) of the coefficients given theta over its coordinate k, on
        the columns of another design; by a central difference."""
        step = 3e-4  # of a log: an error of about 1e-7 of the derivative
        move = step * (np.arange(len(theta)) == k)

        def mode(at: Array) -> Array:
            surface, others = self.inner_at(at)
            beta = surface.coefficients(others)
            return transfer_coefficients(beta, surface.model.design, design)

        return (mode(theta + move) - mode(theta - move)) / (2.0 * step)

    def estimate(self, theta: Array) -> CoefficientEstimate:
        """The coefficients given theta, with their covariance."""
        raise NotImplementedError

    def mixture(
        self, theta: Array, weight: Array, chosen: Array, rng: np.random.Generator
    ) -> "NodeMixture":
        """The posterior of a Gaussian likelihood at nodes theta (S, d) with weights, with
        draws at the nodes `chosen`."""
        raise NotImplementedError

    def beyond(self, theta: Array, vanished: Array, start: Array) -> list[Array]:
        """New starts after a search that ended at theta, because `vanished` (d,) scales
        may hide a higher maximum; it started at `start`."""
        if self.layout is None:
            return []
        points: list[Array] = self.layout.beyond(theta, vanished, start)
        return points


def transfer_coefficients(beta: Array, before: Design, after: Design) -> Array:
    """Return coefficients (p, m) for another design from coefficients for the design `before`;
    they differ in the columns of processes."""
    place = before.place
    moved = np.zeros((len(after.columns), beta.shape[1]))
    for j, c in enumerate(after.columns):
        if c in place:
            moved[j] = beta[place[c]]
    for key, term in after.recipe.processes.items():
        old_term = before.recipe.processes[key]
        if term.basis is old_term.basis:
            continue
        old = [place[c] for c in old_term.columns]
        new = [after.place[c] for c in term.columns]
        if isinstance(term.basis, SineBasis):  # their scales are in its columns
            size, size_before = (
                np.linalg.norm(design.sample.X[:, columns], axis=0)
                for design, columns in ((after, new), (before, old))
            )
            unit = np.divide(size_before, size, where=size > 0, out=np.ones_like(size))
            moved[new] = unit[:, None] * beta[old]
        elif isinstance(term.basis, RowValues):
            moved[new] = old_term.basis.phi(term.basis.anchors) @ beta[old]
        else:
            values = before.X[:, old] @ beta[old]
            moved[new] = process_coefficients(after.X[:, new], values)
    return moved


def process_coefficients(X: Array, values: Array) -> Array:
    """Return the coefficients (q, m) of a process with these values (n, m)."""
    rank = 1e-5  # relative to the largest singular value of the columns: below it rounding of the values dominates
    return np.linalg.lstsq(X, values, rcond=rank)[0]


class NodeMixture(NamedTuple):
    """A mixture of normals of the coefficients over nodes: draws, and exact moments."""

    beta: Array  # (draws, p)
    mean: Array  # (p,)
    covariance: ParameterCovariance
    node_mean: Array  # (S, p)
    node_sd: Array  # (S, p)


def log_prior_of_logs(theta: Array, priors: Sequence[AuxPrior]) -> Array:
    """Return the sum of log densities of positive numbers, as densities of their logs: (S,) from theta (S, d)."""
    # p(log v) = p(v) v
    log_p = np.zeros(len(theta))
    for log, prior in zip(theta.T, priors):
        log_p += prior.log_prob(np.exp(log)) + log
    return log_p


def with_priors(
    point: EvidencePoint, theta: Array, priors: Sequence[AuxPrior]
) -> EvidencePoint:
    """Multiply by the density of each positive parameter, the first coordinates of theta, as a density of its log."""
    slopes = np.zeros((len(point.gradient), 2))
    for i, prior in enumerate(priors):
        slopes[i] = prior.slopes(float(np.exp(theta[i])))
    return point._replace(
        value=point.value + float(log_prior_of_logs(theta[None], priors)[0]),
        gradient=point.gradient + slopes[:, 0],
        hessian=point.hessian + np.diag(slopes[:, 1]),
    )


def as_groups(
    blocks: Sequence[BlockPrior],
    per_column: bool,
    variance_left: Mapping[int, float],
) -> LatentGroups:
    """Return the informative blocks, with unknown scales first, by column if each has
    its own; `variance_left` by block."""
    first = list[LatentGroup]()
    last = list[LatentGroup]()
    for i, b in enumerate(blocks):
        if isinstance(b.prior, Flat):
            continue
        base: Prior = b.prior
        prior = None
        if isinstance(base, LatentPrior):
            prior = base
            base = prior.base
        assert isinstance(base, GaussianPrior)  # callers check this
        group = LatentGroup(
            b.columns, base, prior, i, variance_left.get(i, 0.0), b.predictor
        )
        if prior is None:
            last.append(group)
        elif per_column and isinstance(prior, ScaleMixture):
            for a, j in enumerate(b.columns):
                part: Any = one(base, a)
                scale = ScaleMixture(part, prior.tau)
                first.append(
                    replace(group, columns=(j,), base=part, prior=scale, left=0.0)
                )
        else:
            first.append(group)
    return LatentGroups([*first, *last])


def one(base: Prior, a: int) -> Prior:
    """Return the prior of column a, for a prior of independent columns."""
    fields: dict = {k: v[a] for k, v in vars(base).items() if isinstance(v, tuple)}
    return replace(base, **fields)  # type: ignore[type-var]
