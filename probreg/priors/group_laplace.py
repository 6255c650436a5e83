"""The multivariate double-exponential prior of groups of columns: the group lasso."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, shown_value
from probreg.compiled.density import CustomDensity
from probreg.errors import DataError
from probreg.priors.base import (
    PRIORS,
    Array,
    Generator,
    Kinks,
    PerColumn,
    Prior,
    PriorData,
    ProximalPrior,
    PymcVariable,
    Scale,
    Shape,
)
from probreg.priors.joint import columns_called
from probreg.priors.location_scale import AffinePrior
from probreg.special import gammaln

Groups = tuple[tuple[str, ...], ...] | tuple[tuple[int, ...], ...]


def least_with_norm(b: Array, h: Array) -> Array:
    """argmin_z sum_k h_k z_k^2 / 2 - b'z + |z|, h >= 0: zero if |b| <= 1, a block soft threshold if all h are equal.

    >>> least_with_norm(np.array([3.0, 4.0]), np.array([2.0, 2.0]))  # (1 - 1/5) b / 2
    array([1.2, 1.6])
    """
    max_steps = 100  # only a few are needed
    length = float(np.linalg.norm(b))
    if not length > 1.0:
        return np.zeros_like(b)
    # Off zero (h_k + 1/v) z_k = b_k with v = |z|: z_k = b_k v / (h_k v + 1), and |b / (h v + 1)| = 1 determines v. The inverse
    # of the left side is increasing and concave in v, so that Newton's method converges from points where it is below 1.
    v = (length - 1.0) / float(h.max())
    for _ in range(max_steps):
        p = b / (h * v + 1.0)
        size = float(np.linalg.norm(p))
        move = (size - 1.0) * size**2 / float(p @ (p * h / (h * v + 1.0)))
        v += move
        if abs(move) <= 1e-16 * v:
            break
    return b * v / (h * v + 1.0)


@PRIORS.register
@dataclass(frozen=True)
class GroupLaplace(AffinePrior, ProximalPrior):
    """The density p(beta_g) = exp(-|beta_g - location_g| / scale) / Z of each group g of columns; its mode is the group lasso.

    Z = 2 pi^(d/2) Gamma(d) scale^d / Gamma(d/2) for d columns, so that |beta_g - location_g| / scale ~ Gamma(d, 1) with a
    direction that is uniform. In the posterior mode whole groups are exactly zero. With scales that differ by column
    (`scaled=True`) the density uses the length of the vector (beta_j - location_j) / scale_j. A group of one column is `Laplace`.
    With several linear predictors, such as a softmax, each has its own groups, which are independent copies.

    Parameters
    ----------
    scale : float or tuple of float or AuxPrior
        Positive, one number or one per column; a prior for an unknown scale.
    groups : mapping or sequence, optional
        Sequences of columns or terms, one for each group; a mapping names the groups. A column
        that is in no group is its own group. The default groups are the terms of the formula, or single columns of arrays;
        a smooth function `s(x)` has its penalised part as a group, and `gp(x)` all its columns. With stated groups, smooth functions
        and processes have their own priors. Whole numbers are places among the columns of the prior.
    root_size : bool
        Whether the penalty |beta_g| / scale of a group of d columns is multiplied by d^(1/2), as in Yuan & Lin.
    location : float or tuple of float
        The centre, one number or one per column.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether the scale is stated on standardised columns.

    Raises
    ------
    DataError
        For a column in two groups, or in a group and not under this prior.

    References
    ----------
    Yuan & Lin 2006; Mohri, Rostamizadeh & Talwalkar, chapter 11.

    Examples
    --------
    >>> prior = GroupLaplace(0.7, groups=((0, 1, 2),))
    >>> float(np.exp(-prior.log_prob(np.zeros((3, 1)))).round(8))  # 8 pi 0.7^3
    8.62053024
    """

    scale: Scale = 1.0
    groups: Groups | None = None
    _: KW_ONLY
    root_size: Flag = False
    location: PerColumn = 0.0
    sigma_units: Flag = False
    scaled: Flag = False

    name = "group_laplace"
    convex = True

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "groups", None if self.groups is None else _read_groups(self.groups)
        )
        super().__post_init__()

    @property
    def data_dependent(self) -> bool:
        return self.root_size or not _is_by_place(self.groups) or super().data_dependent

    @property
    def of_terms(self) -> bool:
        return self.groups is None

    def prepare(self, rows: PriorData) -> Prior:
        q = len(rows.columns)
        if _is_by_place(self.groups):
            placed = self
        else:
            placed = replace(self, groups=_group_columns(self.groups, rows))
        groups = placed.members(q)
        bound = replace(
            self, groups=tuple(tuple(g.tolist()) for g in groups), root_size=False
        )
        prior = super(GroupLaplace, bound).prepare(rows)
        if not self.root_size:
            return prior
        size = np.empty(q)
        for g in groups:
            size[g] = len(g)
        # |w_g| / s times d^(1/2): a scale of s d^(-1/2).
        return _rescale_prior(prior, size**-0.5)

    def members(self, q: int) -> tuple[Array, ...]:
        """Return the places of the columns of each group; each of q columns is in one group."""
        groups = [np.array(g, dtype=int) for g in self.groups or ()]
        grouped = np.concatenate([*groups, np.zeros(0, dtype=int)])
        if len(grouped) and grouped.max() >= q:
            raise DataError(
                f"a group of the {self.name} prior has column {grouped.max()}, and there are {q} from 0 on"
            )
        return (*groups, *(np.array([j]) for j in np.setdiff1d(np.arange(q), grouped)))

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        # log p(beta) = -sum_g [|r_g| + log Z_d] - sum_j log s_j, r_j = (beta_j - location_j) / s_j.
        r, log_s = self.standardise(beta, unit)
        total = -np.broadcast_to(log_s, r.shape).sum(-1)
        for g in self.members(r.shape[-1]):
            total = total - np.linalg.norm(r[..., g], axis=-1) - log_mass(len(g))
        return np.asarray(total.sum(-1))

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        z = rng.standard_normal(shape)
        for g in self.members(shape[-2]):
            # |r_g| ~ Gamma(d, 1), and its direction comes from a normal vector.
            part = z[..., g, :]
            radius = rng.gamma(len(g), size=(*shape[:-2], 1, shape[-1]))
            z[..., g, :] = part * (
                radius / np.linalg.norm(part, axis=-2, keepdims=True)
            )
        return z

    def kinks(self, q: int) -> Kinks:
        metric = np.broadcast_to(1.0 / self.scales, q)
        groups = tuple(g for g in self.members(q) if len(g) > 1)
        return Kinks(metric, np.zeros(q), groups=groups)

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        q = max([self.size or 1, *(j + 1 for g in self.groups or () for j in g)])  # type: ignore[operator]
        groups = self.members(q)
        constant = sum(log_mass(len(g)) for g in groups)

        def logp(value: Any, location: Any, scale: Any) -> Any:
            import pytensor.tensor as pt

            r = (value - location) / scale
            lengths = sum(pt.sqrt((r[..., g] ** 2).sum(-1)) for g in groups)
            return -lengths - constant - pt.log(scale).sum(-1)

        def draw(location: Any, scale: Any, rng: Generator, size: Any) -> Array:
            shape = (
                *(() if size is None else tuple(np.atleast_1d(size))),
                np.shape(location)[-1],
                1,
            )
            return location + scale * self.standard_sample(rng, shape)[..., 0]

        location, scale = (
            np.broadcast_to(np.asarray(v, dtype=float), q)
            for v in (self.location, self.scales)
        )
        return CustomDensity(logp, draw, "(q),(q)->(q)"), {
            "location": location,
            "scale": scale * unit,
        }


def log_mass(d: int) -> float:
    """log of the integral of exp(-|r|) over d dimensions, Z at scale 1.

    >>> round(log_mass(1), 6)  # log 2
    0.693147
    """
    # The surface of the unit sphere, 2 pi^(d/2) / Gamma(d/2), times the integral of r^(d - 1) exp(-r), Gamma(d).
    return float(np.log(2.0) + 0.5 * d * np.log(np.pi) + gammaln(d) - gammaln(0.5 * d))


def _rescale_prior(prior: Prior, factor: Array) -> Prior:
    """Return the prior with every scale times its own factor; for a mixture the factor applies to its base."""
    this: Any = prior
    if isinstance(prior, GroupLaplace):
        return replace(prior, scale=prior.scales * factor)
    return replace(this, base=_rescale_prior(this.base, factor))


def _is_by_place(groups: Groups | None) -> bool:
    """Return whether the groups are given by column numbers."""
    return groups is not None and all(isinstance(j, int) for g in groups for j in g)


def _read_groups(given: Any) -> Groups:
    """Return groups as tuples of names or places. DataError for other values, an empty group, and a column in two groups."""
    listed = given.values() if isinstance(given, Mapping) else given
    try:
        groups = tuple((g,) if isinstance(g, str) else tuple(g) for g in listed)
    except TypeError:
        groups = ()
    members = [j for g in groups for j in g]
    are_names = all(isinstance(j, str) for j in members)
    are_places = all(isinstance(j, int | np.integer) and j >= 0 for j in members)
    if (
        isinstance(listed, str)
        or not (groups and all(groups))
        or not (are_names or are_places)
    ):
        raise DataError(
            f"groups= is a sequence of groups, each of columns by name, got {shown_value(given)}"
        )
    for j in members:
        if members.count(j) > 1:
            raise DataError(f"{j!r} is in two groups: name it once")
    if are_places:
        return tuple(tuple(int(j) for j in g) for g in groups)
    return groups


def _group_columns(
    groups: Groups | None, rows: PriorData
) -> tuple[tuple[int, ...], ...]:
    """Return the columns of each group, by default one group per term; raise DataError for unknown or repeated names."""
    if groups is None:
        terms = rows.terms() or rows.columns
        return tuple(
            tuple(j for j, t in enumerate(terms) if t == term)
            for term in dict.fromkeys(terms)
        )
    groups_out = []
    group_of = dict[int, str]()
    for g in groups:
        group_columns: list[int] = []
        for name in map(str, g):
            columns = columns_called(name, rows.columns)
            if not columns:
                raise DataError(
                    f"a group has {name!r}, which is no column under this prior: {', '.join(rows.columns)}"
                )
            for j in columns:
                if j in group_of:
                    raise DataError(
                        f"column {rows.columns[j]!r} is in two groups, by {group_of[j]!r} and by {name!r}"
                    )
                group_of[j] = name
            group_columns += columns
        groups_out.append(tuple(group_columns))
    return tuple(groups_out)
