"""Groups of columns with a normal prior, known or with unknown hyperparameters, and the logs theta of those of all groups.

The prior of a group is N(mu, C D(theta)^2 C'), C C' its covariance at D = I and D diagonal. With C^-1 = L', L L' = P, the
coordinates gamma = L'(beta - mu) = D u have u ~ N(0, I) a priori. theta holds the logs of the hyperparameters of the unknown
groups, in their order, and after them log sigma where it is unknown and the likelihood is Gaussian.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.numerics.frame import vec_entries
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    Flat,
    GaussianPrior,
    LatentPrior,
    Prior,
    ScaleMixture,
)
from probreg.priors.latent import LogScales

_CORRELATIONS = (1.0, 5.0)  # atanh of 0.76 and of 0.9999
_MOST_SIGNS = 4  # of several correlations that are tried
DIFFERENCE = 1e-3  # of the logs: an error of some 1e-6 of the curvature


@dataclass(frozen=True)
class LatentGroup:
    """Columns of one block, or one of them: their normal prior at D = I, and the prior that D is of; None where D = I."""

    columns: tuple[int, ...]
    base: GaussianPrior
    prior: LatentPrior | None
    block: int
    left: float = 0.0  # sum over the rows of what a basis of few anchors leaves of the variance at D = I, weights counted
    # None where all linear predictors have independent copies
    predictor: int | None = None

    def width(self, m: int) -> int:
        """The number of linear predictors, of m."""
        return m if self.predictor is None else 1

    def entries(self, m: int) -> Array:
        """The places of its coefficients in vec(beta), column by column."""
        every = vec_entries(self.columns, m)
        if self.predictor is None:
            return every
        return every[self.predictor :: m]

    @cached_property
    def root(self) -> Array:
        """L with L L' = P, (q, q)."""
        return np.linalg.cholesky(self.base.precision(len(self.columns)))

    @cached_property
    def hyper(self) -> Mapping[str, AuxPrior]:
        """The priors of its hyperparameters by name."""
        if self.prior is None:
            return {}
        return {name: h.prior for name, h in self.prior.hyper.items()}

    def log_scales(self, logs: Array) -> LogScales:
        q = len(self.columns)
        if self.prior is None:
            return LogScales(np.zeros(q), np.zeros((q, 0)), np.zeros((q, 0, 0)))
        return self.prior.log_scales(logs, q)


@dataclass(frozen=True)
class LatentGroups:
    """All groups, the unknown ones first."""

    groups: tuple[LatentGroup, ...]

    @cached_property
    def priors(self) -> list[AuxPrior]:
        """Of the hyperparameters, in the order of theta."""
        return [prior for g in self.groups for prior in g.hyper.values()]

    @cached_property
    def of(self) -> Array:
        """(q,) the group of each coordinate."""
        return np.repeat(
            np.arange(len(self.groups)), [len(g.columns) for g in self.groups]
        )

    def repeats(self, m: int) -> Array:
        """(q,) of each coordinate: the number of linear predictors that have it, of m."""
        return np.array([g.width(m) for g in self.groups], dtype=int)[self.of]

    @cached_property
    def group_of(self) -> Array:
        """(d,) the group of each hyperparameter."""
        return np.repeat(
            np.arange(len(self.groups)), [len(g.hyper) for g in self.groups]
        )

    @cached_property
    def sizes(self) -> Array:
        """(d,) coordinates of the group where the hyperparameter may run to zero; 0 elsewhere."""
        return np.array(
            [
                float(len(g.columns)) * may
                for g in self.groups
                if g.prior
                for may in g.prior.may_vanish
            ]
        )

    @cached_property
    def scaling(self) -> Array:
        """(d,) bool: hyperparameters that are scales."""
        return np.array(
            [scale for g in self.groups if g.prior for scale in g.prior.scales],
            dtype=bool,
        )

    @property
    def scales(self) -> int:
        """The number of hyperparameters that are scales."""
        return int(self.scaling.sum())

    def starts(self) -> list[Array]:
        """Logs (d,) of hyperparameters at which a search begins, scales at 1: every combination of the groups' own."""
        each = [g.prior.starts() for g in self.groups if g.prior]
        out = []
        for chosen in product(*each):
            theta = np.zeros(len(self.priors))
            places = np.flatnonzero(~self.scaling)
            theta[places] = np.log([value for part in chosen for value in part])
            out.append(theta)
        return out

    def at_scales(
        self, others: Array, log_tau: float | Array, log_sigma: float | Array
    ) -> Array:
        """Logs (d,), or (S, d) at (S, 1) of tau and sigma, with every scale at tau times sigma, or at tau where it is in units of sigma."""
        relative = np.array([g.base.sigma_units for g in self.groups], dtype=float)[
            self.group_of
        ]
        return np.where(self.scaling, log_tau + (1.0 - relative) * log_sigma, others)

    def branches(self, theta: Array) -> list[Array]:
        """Points beside theta with the correlations of each group of effects at either sign and near either edge.

        The evidence given one standard deviation may have a maximum on each side, and at a correlation of -1 and 1.
        """
        out = list[Array]()
        places = np.arange(len(self.priors))
        for k, g in enumerate(self.groups):
            own = places[self.group_of == k]
            if (
                g.prior is None
                or not g.prior.hyper_labels
                or not (cors := own[~self.scaling[own]]).size
            ):
                continue
            for size in _CORRELATIONS:
                for signs in islice(
                    product((1.0, -1.0), repeat=len(cors)), _MOST_SIGNS
                ):
                    point = theta.copy()
                    point[cors] = np.multiply(size, signs)
                    out.append(point)
        return out

    @property
    def scalar(self) -> bool:
        """One group with one scale is all there is."""
        return len(self.groups) == 1 and (
            self.groups[0].prior is None or self.groups[0].prior.scalar
        )

    def log_scales(self, logs: Array) -> LogScales:
        """log D of all coordinates (q,) at the logs (d,) of the hyperparameters, with two derivatives."""
        if len(self.groups) == 1:
            return self.groups[0].log_scales(logs)
        q = len(self.of)
        d = len(self.priors)
        at = 0
        value = np.zeros(q)
        slopes = np.zeros((q, d))
        curvature = np.zeros((q, d, d))
        for k, g in enumerate(self.groups):
            rows = np.flatnonzero(self.of == k)
            own = slice(at, at + len(g.hyper))
            found = g.log_scales(logs[own])
            value[rows], slopes[rows, own], curvature[rows, own, own] = found
            at = own.stop
        return LogScales(value, slopes, curvature)

    def values(self, logs: Array) -> Array:
        """log D (S, q) at each of logs (S, d)."""
        out = np.zeros((len(logs), len(self.of)))
        at = 0
        for k, g in enumerate(self.groups):
            own = slice(at, at + len(g.hyper))
            if g.prior is not None:
                out[:, self.of == k] = g.prior.log_scales_at(
                    logs[:, own], len(g.columns)
                )
            at = own.stop
        return out


class EvidencePoint(NamedTuple):
    """The evidence, times the priors of the hyperparameters over their logs, at one point theta of the logs."""

    value: float
    gradient: Array
    hessian: Array
    evidence: float  # without the priors of the hyperparameters
    effective: Array  # (d,) parameters of the group of each hyperparameter that the data settle


class EvidenceSurface(ABC):
    """f(theta): the log evidence times the priors of the hyperparameters over their logs.

    Attributes
    ----------
    tol : float
        The distance to its maximum at which a search ends, in standard errors of theta.
    secant : bool
        Whether its Hessian only steers, so that a search corrects it by the changes of the gradient.
    """

    tol: float
    secant: bool = True

    @abstractmethod
    def __call__(self, theta: Array) -> EvidencePoint: ...

    @abstractmethod
    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""

    @abstractmethod
    def starts(self) -> list[Array]:
        """Points at which a search begins."""

    @property
    @abstractmethod
    def priors(self) -> list[AuxPrior]:
        """Those of the coordinates of theta that are logs of positive numbers, in its order."""

    @property
    @abstractmethod
    def dear(self) -> bool:
        """Whether one value costs a mode, or the factor of a large matrix."""

    def hessian(self, theta: Array, near: Array) -> Array:
        """The Hessian at theta; where that of `__call__` only steers, by central differences of the gradient, with steps from `near`."""
        if not self.secant:
            return self(theta).hessian
        size = np.full(len(theta), DIFFERENCE)
        d = len(self.priors)
        size[d:] *= (
            np.diagonal(-near)[d:] ** -0.5
        )  # in standard errors of what is no log of a positive parameter
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
        """The standard deviation of the response, beside which a noise scale among the coordinates is judged."""
        return 1.0

    def choose_at(self, theta: Array) -> bool:
        """Chooses anew at theta what is held during a search; False where nothing is."""
        return False

    def beyond(self, theta: Array, vanished: Array, start: Array) -> list[Array]:
        """Points from which a search that ended at theta is taken again, where `vanished` (d,) scales may hide a higher maximum; it
        began at `start`."""
        return []


class ConditionalNormal(NamedTuple):
    """A normal distribution of (vec beta, log aux) given theta: mean + root z, z standard normal."""

    mean: Array  # (k,)
    root: Array  # (k, r)


def log_prior_of_logs(theta: Array, priors: Sequence[AuxPrior]) -> Array:
    """The log densities of positive numbers, as of their logs, summed: (S,) from theta (S, d)."""
    # p(log v) = p(v) v
    return sum(
        p.log_prob(np.exp(theta[:, i])) + theta[:, i] for i, p in enumerate(priors)
    ) + np.zeros(len(theta))


def with_priors(
    at: EvidencePoint, theta: Array, priors: Sequence[AuxPrior]
) -> EvidencePoint:
    """Times the density of each positive parameter, the first coordinates of theta, as one of its log."""
    # As a density of the log: log p(v) + log v, whose two derivatives are the slopes.
    slopes = np.zeros((len(at.gradient), 2))
    slopes[: len(priors)] = [p.slopes(float(np.exp(t))) for p, t in zip(priors, theta)]
    log_p = sum(float(p.log_prob(np.exp(t))) + t for p, t in zip(priors, theta))
    return at._replace(
        value=at.value + log_p,
        gradient=at.gradient + slopes[:, 0],
        hessian=at.hessian + np.diag(slopes[:, 1]),
    )


def as_groups(
    blocks: Sequence[BlockPrior],
    unknown: Mapping[int, LatentPrior],
    per_column: bool,
    left: Mapping[int, float],
) -> LatentGroups:
    """The informative blocks, those of unknown scale first and column by column where each has its own; `left` by block."""
    first: list[LatentGroup] = []
    known: list[LatentGroup] = []
    for i, b in enumerate(blocks):
        if isinstance(b.prior, Flat):
            continue
        if i not in unknown:
            assert isinstance(b.prior, GaussianPrior)
            known.append(
                LatentGroup(b.columns, b.prior, None, i, left.get(i, 0.0), b.predictor)
            )
            continue
        prior = unknown[i]
        base = prior.base
        assert isinstance(base, GaussianPrior)  # callers ask `normal` first
        if per_column and isinstance(prior, ScaleMixture):
            parts = [(j, one(base, a)) for a, j in enumerate(b.columns)]
            first += [
                LatentGroup(
                    (j,),
                    part,  # type: ignore[arg-type]
                    ScaleMixture(part, prior.tau),
                    i,
                    predictor=b.predictor,
                )
                for j, part in parts
            ]
        else:
            first.append(
                LatentGroup(b.columns, base, prior, i, left.get(i, 0.0), b.predictor)
            )
    return LatentGroups((*first, *known))


def one(base: Prior, a: int) -> Prior:
    """The prior of column a alone, of a prior of independent columns."""
    fields: dict = {k: v[a] for k, v in vars(base).items() if isinstance(v, tuple)}
    return replace(base, **fields)  # type: ignore[type-var]
