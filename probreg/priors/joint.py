"""The prior of all coefficients: independent blocks of columns, each with its own prior."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from probreg.arguments.scalars import shown_value
from probreg.errors import DataError, Incompatible
from probreg.linalg.vec import map_of_columns, vec_entries
from probreg.priors.base import (
    Array,
    DataDependentPrior,
    Flat,
    GaussianPrior,
    Generator,
    HierarchicalPrior,
    Prior,
    PriorData,
    ProximalPrior,
    SmoothPrior,
)
from probreg.priors.positive import AuxPrior

PENALTY_OF_CLASSES = (
    "a lasso or elastic net of all classes (symmetric=True) has a mode and no draws; priors of log odds against a reference "
    "class, likelihood='categorical', have both"
)

Key = str | tuple[str, ...]


@dataclass(frozen=True)
class PerPredictor(DataDependentPrior):
    """One prior for each linear predictor of some columns: `joint` makes a block of each."""

    priors: tuple[Prior, ...]

    name = "per_predictor"
    derived = True

    @property
    def size(self) -> int | None:
        return self.priors[0].size

    @property
    def data_dependent(self) -> bool:
        return any(p.data_dependent for p in self.priors)

    def prepare(self, rows: PriorData) -> Prior:
        return PerPredictor(tuple(p.prepare(rows) for p in self.priors))

    def for_posterior(self) -> Prior:
        return PerPredictor(tuple(p.for_posterior() for p in self.priors))

    def times(self, factor: float) -> Prior:
        return PerPredictor(tuple(p.times(factor) for p in self.priors))


@dataclass(frozen=True)
class BlockPrior:
    """One prior and its coefficients: some columns, in every linear predictor or in one.

    Attributes
    ----------
    prior : Prior
        The prior of a block (q, m), or (q, 1) for one predictor.
    columns : tuple of int
        The places of q columns.
    stated : bool
        False for columns without a stated prior, which have a flat one.
    predictor : int, optional
        The linear predictor; None for all of them.
    outcome : str
        The name of this predictor.
    """

    prior: Prior
    columns: tuple[int, ...]
    stated: bool = True
    predictor: int | None = None
    outcome: str = ""

    @property
    def first(self) -> bool:
        """Whether it is the first of the blocks of its columns."""
        return not self.predictor

    def width(self, m: int) -> int:
        """The number of linear predictors of the block, of m in the model."""
        return m if self.predictor is None else 1

    def entries(self, m: int) -> Array:
        """The places of its coefficients in vec(beta), column by column."""
        if self.predictor is None:
            return vec_entries(self.columns, m)
        return np.asarray(self.columns, dtype=int) * m + self.predictor

    @property
    def _predictors(self) -> slice:
        if self.predictor is None:
            return slice(None)
        return slice(self.predictor, self.predictor + 1)

    def take(self, beta: Any) -> Any:
        """The coefficients (..., q, m) or (..., q, 1) of beta (..., p, m)."""
        return beta[..., list(self.columns), self._predictors]

    def put(self, out: Array, values: Array) -> None:
        """Write the coefficients into out (..., p, m)."""
        out[..., list(self.columns), self._predictors] = values


def first_of(blocks: Iterable[BlockPrior]) -> list[BlockPrior]:
    """The first block of each set of columns, of all linear predictors."""
    return [b for b in blocks if b.first]


def mapping_of(blocks: Iterable[BlockPrior], names: Sequence[str]) -> dict[Key, Prior]:
    """The priors of blocks by tuples of the names of their columns, as `joint` reads them."""
    mapping: dict[Key, Prior] = {}
    by_predictor: dict[Key, list[Prior]] = {}
    for b in blocks:
        key = tuple(names[j] for j in b.columns)
        if b.predictor is None:
            mapping[key] = b.prior
        else:
            by_predictor.setdefault(key, []).append(b.prior)
            mapping[key] = PerPredictor(tuple(by_predictor[key]))
    return mapping


@dataclass(frozen=True)
class JointPrior:
    """log p(beta) = sum over blocks of log p_b(beta[columns_b]), for beta of shape (..., p, m).

    With a `contrast` C (K, m), priors with kinks apply to the K coefficients of a column over all classes. beta determines these, beta C',
    only up to a shift. They get the shift with the largest density, as in glmnet, and log p is known up to a constant.
    """

    blocks: tuple[BlockPrior, ...]
    contrast: Array | None = field(default=None, compare=False)

    @cached_property
    def hierarchical(self) -> tuple[tuple[BlockPrior, HierarchicalPrior], ...]:
        """The blocks of unknown hyperparameters, with their priors."""
        return tuple(
            (b, b.prior) for b in self.blocks if isinstance(b.prior, HierarchicalPrior)
        )

    def scores(self, beta: Array) -> Array:
        """Return the coefficients (..., p, K) of all classes under a `contrast`; those without a kink sum to zero."""
        assert self.contrast is not None  # callers check first
        class_scores = beta @ self.contrast.T
        for b in self.blocks:
            if isinstance(b.prior, ProximalPrior):
                class_scores[..., list(b.columns), :] = self._argument(b, beta)
        return class_scores

    def require_draws(self) -> None:
        """Raise Incompatible for a penalty of all classes, which is a function of coefficients and no density of them."""
        if self.contrast is not None:
            raise Incompatible(PENALTY_OF_CLASSES)

    def _argument(self, block: BlockPrior, beta: Array) -> Array:
        """The coefficients that are the argument of a block's density."""
        inside = block.take(beta)
        if self.contrast is None or not isinstance(block.prior, ProximalPrior):
            return inside
        scores = block.prior.remove_common_shift(inside @ self.contrast.T)
        assert scores is not None  # the model raises an error for other priors
        return scores

    def log_prob(self, beta: Array, sigma: Array | float = 1.0) -> Array:
        """Shape (...,); `sigma` is for priors in units of sigma."""
        return self.log_prob_given(beta, {}, sigma)

    def log_prob_given(
        self,
        beta: Array,
        hyper: Mapping[int, Mapping[str, Array]],
        sigma: Array | float = 1.0,
        *,
        proper: bool = False,
        blocks: Collection[int] | None = None,
    ) -> Array:
        """The same (...,). A block that is not `known` without its hyperparameters takes them, (...,) each, from `hyper` by its number.
        With `proper` only over proper blocks that are known, with `blocks` only over these."""
        # log p(beta) = sum of log p(beta_b) over blocks, which are independent given sigma.
        total = np.zeros(beta.shape[:-2])
        for i, b in enumerate(self.blocks):
            inside = self._argument(b, beta)
            unit = b.prior.unit(sigma)
            prior = b.prior
            if proper and not (prior.proper and prior.known):
                continue
            if blocks is not None and i not in blocks:
                continue
            if i in hyper and isinstance(prior, HierarchicalPrior):
                total = total + prior.log_prob_given(inside, hyper[i], unit)
            else:
                total = total + prior.log_prob(inside, unit)
        return total

    def sample_with_hyper(
        self,
        rng: Generator,
        shape: tuple[int, ...],
        sigma: Array | float | None = 1.0,
        *,
        proper: bool = False,
    ) -> tuple[Array, dict[int, dict[str, Array]]]:
        """Return draws (..., p, m), and the hyperparameters (...,) by number of block; with `proper` nan for improper blocks, and
        for blocks in units of sigma if sigma is None."""
        self.require_draws()
        beta = np.full(shape, np.nan)
        hyper = {}
        for i, b in enumerate(self.blocks):
            in_sigma = b.prior.sigma_units
            if proper and (not b.prior.proper or (in_sigma and sigma is None)):
                continue
            unit = np.asarray(sigma)[..., None, None] if in_sigma else 1.0
            values, hyper[i] = b.prior.sample_with_hyper(
                rng, (*shape[:-2], len(b.columns), b.width(shape[-1])), unit
            )
            b.put(beta, values)
        return beta, hyper

    @cached_property
    def p(self) -> int:
        return len({j for b in self.blocks for j in b.columns})

    @cached_property
    def gaussian(self) -> bool:
        """Whether every block is quadratic."""
        return self.of_kind(GaussianPrior)

    @cached_property
    def smooth(self) -> bool:
        """Whether every block has slopes and a curvature."""
        return self.of_kind(SmoothPrior)

    @cached_property
    def known(self) -> bool:
        """Whether p(beta) is known without values of hyperparameters."""
        return all(b.prior.known for b in self.blocks)

    @cached_property
    def proper(self) -> bool:
        """Whether every block has total mass one."""
        return all(b.prior.proper for b in self.blocks)

    def of_kind(self, *kinds: type) -> bool:
        """Whether every block that is not flat is of one of these kinds."""
        return all(isinstance(b.prior, (Flat, *kinds)) for b in self.blocks)

    @cached_property
    def informative(self) -> Array:
        """(p,) bool: columns with a prior that is not flat."""
        blocks = [b for b in self.blocks if not isinstance(b.prior, Flat)]
        return np.isin(np.arange(self.p), [j for b in blocks for j in b.columns])

    @cached_property
    def sigma_units(self) -> Array:
        """(p,) bool: columns with a scale in units of sigma."""
        blocks = [b for b in self.blocks if b.prior.sigma_units]
        return np.isin(np.arange(self.p), [j for b in blocks for j in b.columns])

    @property
    def apart(self) -> bool:
        """Whether linear predictors have different priors."""
        return any(b.predictor is not None for b in self.blocks)

    def precision_of_entries(self, m: int, sigma: float) -> Array:
        """The precision (p m, p m) over vec(beta) of m linear predictors, with scales in units of sigma at this sigma; Gaussian blocks only."""
        P_all = np.zeros((self.p * m, self.p * m))
        for b in self.blocks:
            unit = b.prior.unit(sigma)
            # A scale of s sigma is a precision of s^-2 / sigma^2.
            P = _gaussian_prior(b).precision(len(b.columns)) / unit**2
            entries = b.entries(m)
            P_all[np.ix_(entries, entries)] = map_of_columns(P, b.width(m))
        return P_all

    def precision(self, sigma: float = 1.0) -> Array:
        """(p, p) of one linear predictor; only for Gaussian blocks that are the same for all predictors."""
        assert not self.apart  # see `precision_of_entries`
        return self.precision_of_entries(1, sigma)

    @cached_property
    def center(self) -> Array:
        """(p,), the mean; Gaussian blocks only."""
        means = np.zeros(self.p)
        for b in self.blocks:
            means[list(b.columns)] = _gaussian_prior(b).center(len(b.columns))
        return means

    def normal_columns(self, *flat: type) -> "NormalColumns | None":
        """Return the prior by column, where priors of the classes `flat` count as flat. None if other priors are not independent
        normal ones, or differ between linear predictors."""
        if self.apart:
            return None
        center = np.zeros(self.p)
        sd = np.full(self.p, np.inf)
        for b in self.blocks:
            if isinstance(b.prior, (Flat, *flat)):
                continue
            if not isinstance(b.prior, GaussianPrior):
                return None
            columns = list(b.columns)
            scales = b.prior.independent(len(columns))
            if scales is None:
                return None
            center[columns] = b.prior.center(len(columns))
            sd[columns] = scales
        return NormalColumns(center, sd, self.sigma_units)

    def value_grad_hessian(
        self, beta: Array, sigma: float
    ) -> tuple[float, Array, Array]:
        """log p with its `derivatives`; smooth blocks only."""
        return float(self.log_prob(beta, sigma)), *self.derivatives(beta, sigma)

    def derivatives(self, beta: Array, sigma: float) -> tuple[Array, Array]:
        """The gradient of log p and its negative Hessian over (vec beta, log sigma), vec row by row; smooth blocks only.

        A prior in units of sigma is a function of r / sigma, r = beta - location, minus q m log sigma. With the first two
        derivatives g and h over beta, the derivatives over log sigma are -r'g - q m and r'g + r'h r, and the mixed one is -h r - g.
        """
        p, m = beta.shape
        gradient = np.zeros(p * m + 1)
        curvature = np.zeros((p * m + 1, p * m + 1))
        for b in self.blocks:
            if isinstance(b.prior, Flat):
                continue
            unit = b.prior.unit(sigma)
            assert isinstance(b.prior, SmoothPrior)  # callers check `smooth` first
            inside = b.take(beta)
            g, H = b.prior.derivatives(inside, unit)
            entries = b.entries(m)
            gradient[entries] += g
            curvature[np.ix_(entries, entries)] += H
            if b.prior.sigma_units:
                r = (inside - location_of(b)[:, None]).ravel()
                # r = beta - location, log p = f(r / sigma) - q m log sigma: d/d log sigma = -r'g - q m, its negative
                # second derivative r'H r - r'g, and the mixed one g - H r.
                gradient[-1] -= r @ g + len(entries)
                curvature[-1, -1] += r @ H @ r - r @ g
                curvature[-1, entries] += g - H @ r
                curvature[entries, -1] += g - H @ r
        return gradient, curvature

    def curvature(self, beta: Array, sigma: float) -> Array:
        """The negative Hessian over vec(beta), (p m, p m); smooth blocks only."""
        return self.derivatives(beta, sigma)[1][:-1, :-1]


@dataclass(frozen=True, eq=False)
class NormalColumns:
    """Independent normal priors by column; a flat prior has an infinite sd."""

    center: Array  # (p,)
    sd: Array  # (p,), at unit 1
    relative: Array  # (p,) bool: the scale is in units of the noise scale

    def at(self, sigma: float) -> Array:
        """(p,) the precisions of the coefficients at this noise scale."""
        return 1.0 / np.square(np.where(self.relative, sigma * self.sd, self.sd))

    @property
    def size(self) -> int:
        """The number of columns with an informative prior."""
        return int(np.isfinite(self.sd).sum())


def location_of(block: BlockPrior) -> Array:
    """Return the location (q,) of a block: the r of `value_grad_hessian` is beta minus it."""
    this: Any = block.prior
    q = len(block.columns)
    if isinstance(this, GaussianPrior):
        return this.center(q)
    return np.broadcast_to(np.asarray(this.location), q)


def _gaussian_prior(block: BlockPrior) -> GaussianPrior:
    assert isinstance(block.prior, GaussianPrior)  # callers check `gaussian` first
    return block.prior


def joint(
    spec: Prior | Mapping[Key, Prior],
    columns: Sequence[str],
    free: Array,
    rows: Callable[[tuple[int, ...]], PriorData] | None = None,
    shown: Sequence[str] | None = None,
    outcomes: Sequence[str] = (),
) -> JointPrior:
    """Return the joint prior from one prior for every column that is not free, or from a mapping from columns or terms to priors.

    `rows` returns the properties of some columns for priors relative to them; the blocks contain the bound priors. `shown` are
    the columns as an error lists them, with all columns of a term as one. `outcomes` are the names of several linear predictors
    that have separate hyperparameters.

    Columns that a mapping does not name are flat. A key may be a column (`"x"`), a term with several columns
    (`"species"` for `species[T.Gentoo]`), or a tuple of columns that share one prior. DataError for unknown names, for
    columns named twice and for a prior of another number of columns.
    """
    if isinstance(spec, Prior):
        touched = tuple(int(i) for i in np.flatnonzero(~free | spec.whole))
        chosen = [(spec, touched)] if touched else []
    elif isinstance(spec, Mapping):
        chosen = []
        for key, prior in spec.items():
            if not isinstance(prior, Prior):
                raise DataError(
                    f"the prior of {key!r} is a Prior, got {_describe_value(prior)}"
                )
            chosen.append((prior, _columns_of(key, columns, shown or columns)))
    else:
        raise DataError(
            f"prior is a Prior or a mapping from columns to Priors, got {_describe_value(spec)}"
        )
    taken = [i for _, c in chosen for i in c]
    if len(taken) != len(set(taken)):
        twice = sorted({columns[i] for i in taken if taken.count(i) > 1})
        raise DataError(f"two priors were given for {', '.join(twice)}")
    for prior, where in chosen:
        if prior.size not in (None, len(where)):
            names = ", ".join(columns[i] for i in where)
            hint = ""
            if isinstance(spec, Prior) and free.any():
                hint = " (the intercept is free unless named in a mapping)"
            raise DataError(
                f"the {prior.name} prior is stated for {prior.size} columns and touches {len(where)}: {names}{hint}"
            )
    flat_columns = tuple(sorted(set(range(len(columns))).difference(taken)))
    blocks = list[BlockPrior]()
    if flat_columns:
        blocks.append(BlockPrior(Flat(), flat_columns, stated=False))
    for prior, where in chosen:
        if prior.whole and flat_columns:
            raise DataError(
                f"the {prior.name} prior is one of all columns together: give it alone, not by column"
            )
        bound = prior.prepare(rows(where)) if rows else prior
        blocks += _blocks_of(bound, where, outcomes)
    return JointPrior(tuple(blocks))


def _blocks_of(
    prior: Prior, where: tuple[int, ...], outcomes: Sequence[str]
) -> list[BlockPrior]:
    """Return one block, or one for each linear predictor if these have different priors or hyperparameters."""
    if isinstance(prior, PerPredictor):
        if len(prior.priors) != len(outcomes):
            raise DataError(
                f"{len(prior.priors)} priors were given, one for each linear predictor, and there are {len(outcomes)}"
            )
        priors = prior.priors
    elif outcomes and isinstance(prior, HierarchicalPrior) and not prior.shared:
        priors = (prior,) * len(outcomes)
    else:
        return [BlockPrior(prior, where)]
    return [
        BlockPrior(p, where, predictor=k, outcome=name)
        for k, (p, name) in enumerate(zip(priors, outcomes))
    ]


def _describe_value(value: Any) -> str:
    """Describe a value that is no prior; for a class of priors, describe how to make an instance."""
    if isinstance(value, type) and issubclass(value, Prior):
        return f"the class {value.__name__}: write {value.__name__}(...)"
    if isinstance(value, AuxPrior):
        return (
            f"{type(value).__name__}, the prior of a positive number: write it into aux={{...}} for a parameter of the likelihood such "
            "as sigma, or into pr.Covariance(sd=...) for random effects"
        )
    if value is None:
        return "None: write pr.Flat() for no prior"
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return f"{value}: write pr.Normal({value}) for a scale"
    return (
        f"{shown_value(value)}, a {type(value).__name__} from {type(value).__module__}"
    )


def _columns_of(
    key: Key, columns: Sequence[str], shown: Sequence[str]
) -> tuple[int, ...]:
    if isinstance(key, tuple) and key:
        place = {c: i for i, c in enumerate(columns)}
        places = list[int]()
        for name in key:
            if name in place:
                places.append(place[name])
            else:
                places += _columns_of(name, columns, shown)
        return tuple(places)
    if not isinstance(key, str):
        raise DataError(
            f"a prior is given for a column, a term or a tuple of them by name, got {key!r}: {', '.join(shown)}"
        )
    places = list(columns_called(key, columns))
    if not places:
        hint = f": {', '.join(shown)}"
        similar = _terms_with(key, shown)
        if similar:
            hint = f"; did you mean {' or '.join(map(repr, similar))}?"
        raise DataError(f"a prior was given for {key!r}, which is not a column{hint}")
    return tuple(places)


def _terms_with(name: str, shown: Sequence[str]) -> list[str]:
    """Return the terms that contain a variable, by the keys of a prior.

    >>> _terms_with("job", ["Intercept", "C(job)[T.2]", "C(job)[T.3]", "s(job, k=5) (4 columns)", "jobs"])
    ['C(job)', 's(job, k=5)']
    """
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w.])")
    return list(
        dict.fromkeys(
            re.split(r"\[| \(\d", text)[0] for text in shown if word.search(text)
        )
    )


def columns_called(key: str, columns: Sequence[str]) -> tuple[int, ...]:
    """Return the places of the column of this name, else of the columns of the term.

    >>> columns_called("g", ["x", "g[T.b]", "g[T.c]", "g[T.b]:x"])
    (1, 2)
    """
    exact = tuple(i for i, c in enumerate(columns) if c == key)
    term = _plain_factors(key)
    return exact or tuple(
        i for i, c in enumerate(columns) if _is_of_term(_plain_factors(c), term)
    )


def same_term(one: str, other: str) -> bool:
    """Whether two texts name the same term, apart from spaces.

    >>> same_term("s(x,k = 5)", "s(x, k=5)")
    True
    """
    return _plain_factors(one) == _plain_factors(other)


def _plain_factors(name: str) -> list[str]:
    """Return the factors of a name without the optional spaces of a formula: within brackets and around colons.

    >>> _plain_factors("bs( bmi, df = 6 ) : dose group")
    ['bs(bmi,df=6)', 'dose group']
    """
    parts = []
    for factor in factors_of_name(name):
        head, bracket, arguments = factor.strip().partition("(")
        if bracket:
            inside = "".join(arguments.split()).replace('"', "'")
            head = f"{head.rstrip()}({inside}"
        parts.append(head)
    return parts


def _is_of_term(column: list[str], term: list[str]) -> bool:
    """Whether a column belongs to a term, factor by factor: `g[T.b]:x` belongs to `g:x` only."""
    return len(column) == len(term) and all(
        c == t or c.startswith(f"{t}[") for c, t in zip(column, term)
    )


def factors_of_name(name: str) -> list[str]:
    """Return the parts of a name between colons outside brackets."""
    parts = [""]
    depth = 0
    for letter in name:
        depth += (letter in "[(") - (letter in ")]")
        if letter == ":" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
