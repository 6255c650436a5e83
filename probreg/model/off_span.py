"""The residual of a Gaussian process off the span of its basis.

A term f with cov(f(x), f(z)) = tau^2 k(x, z) is phi(x)'beta plus a process N(0, s^2 R(x, z)) that is independent of beta,
R(x, z) = k(x, z) - phi(x)'phi(z); s is tau, times sigma for a prior in units of sigma. The rows of the fit do not inform it, so
that predictions at other rows add it: without it a prediction far from the data would be certain. For a basis
of anchors the sum is exactly the process given its values at the anchors. For hsgp v(x) = R(x, x) is k(x, x) minus the variance of
its sines, but at least 0: the sines are not a projection, so that their variance can exceed k(x, x).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil
from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.data import Design
from probreg.data.checked_arrays import full_weights
from probreg.data.terms.grouped import GroupedTerm
from probreg.data.terms.process import ProcessTerm
from probreg.errors import Incompatible
from probreg.kernels import KernelBasis
from probreg.kernels.spectral import SineBasis
from probreg.kernels.sums import ON_SPAN, RowSums, covariance_left, root_left
from probreg.linalg import symmetric_root
from probreg.model.draws import DrawnProcess
from probreg.model.group_effects import (
    GroupEffects,
    LinearSums,
    inputs_of,
    weights_of,
)
from probreg.model.model import Model
from probreg.model.term_priors import hyper_names, unit_prior
from probreg.priors import Flat, HierarchicalPrior
from probreg.priors.base import GaussianPrior
from probreg.priors.covariance import VaryingEffects
from probreg.priors.gaussian_process import FunctionValues, SineProcess, is_length
from probreg.priors.joint import BlockPrior
from probreg.special import ndtri

Array = np.ndarray
# up to this standard deviation the nodes of a normal linear predictor are equally spaced
_EQUAL_STEPS = 7.0


@dataclass(frozen=True, eq=False)
class ResidualProcess:
    """N(0, s^2 R(x, z)) of one term.

    Attributes
    ----------
    key : str
        The term.
    basis : KernelBasis
        The columns, with the residual R.
    columns : list of int
        The places of the columns in the design.
    scale : array (S,) or None
        s of each atom, or one for all atoms with S = 1; None if the prior of the columns is not normal with one scale.
    sines : VaryingSines or None
        The scales of sines with hyperparameters that differ between atoms; `basis` is then at their medians, for sums over rows.
    predictor : int or None
        The linear predictor; None if all linear predictors have such processes.
    """

    key: str
    basis: KernelBasis
    columns: list[int]
    scale: Array | None
    sines: "VaryingSines | None" = None
    predictor: int | None = None

    def moments(self, design: Design) -> tuple[float, Array | None]:
        """The mean 0, and s^2 v(x), (S, n) or (1, n), at the rows of a design; None if all rows are in the span."""
        rows = inputs_of(design, self.key)
        phi = design.X[:, self.columns]
        if self.sines is not None:
            return 0.0, self.sines.variance(phi)
        v = self.basis.variance_left(rows, phi)
        v = np.where(v > ON_SPAN * self.basis.kernel.diagonal(rows), v, 0.0)
        scale = self._known_scale(v)
        if scale is None or not v.any():
            return 0.0, None
        return 0.0, np.square(scale)[:, None] * v

    def covariance(self, sums: RowSums, weights: list[Any]) -> Array:
        """E[s^2] sum_l A_l C A_l' (E, E), over linear predictors l that are independent of one another."""
        C = self._of_weighted(sums, weights)
        if self.scale is not None:
            return np.square(self.scale).mean() * C
        return C

    def draws_of_sums(
        self, sums: RowSums, weights: list[Any], size: int, rng: Generator
    ) -> Array | float:
        """Draws (S, E) of weighted sums."""
        root = symmetric_root(self._of_weighted(sums, weights))
        draws = normal_scores(rng, size, len(root), 1)[..., 0] @ root.T
        if self.scale is None:
            return draws
        return self.scale[:, None] * draws

    def joint(self, sums: RowSums, size: int, width: int, rng: Generator) -> LinearSums:
        """Draws of all sums."""
        G = root_left(self.basis, sums)
        scale = self._known_scale(np.abs(G).sum(0))
        z = normal_scores(rng, size, width, len(G))
        if self.predictor is not None:
            z = z * (np.arange(width) == self.predictor)[:, None]
        if scale is not None:
            z = scale[:, None, None] * z
        return LinearSums(G.T, z.mT)

    def _of_weighted(self, sums: RowSums, weights: list[Any]) -> Array:
        if self.scale is None:
            residual, total = sums.variances(self.basis)
            self._known_scale(residual > ON_SPAN * total)
            return np.zeros((weights[0].shape[0],) * 2)
        covariances = [
            covariance_left(self.basis, sums, A)
            for A in weights_of(self.predictor, weights)
        ]
        return np.asarray(sum(covariances))

    def _known_scale(self, residual: Array) -> Array | None:
        """Return s. Raise Incompatible if the process has a residual (n,) and the prior does not give its scale."""
        if self.scale is None and residual.any():
            raise Incompatible(
                f"{self.key}: its prior is not normal with one scale, so row {int(np.flatnonzero(residual)[0])}, off the rows that its "
                "columns were made of, is not known. Give it pr.Normal(scale); after an update, fit all rows together"
            )
        return self.scale


@dataclass(frozen=True, eq=False)
class VaryingSines:
    """The variance of the process (S,) and of the coefficients of its sines (S, q), for each atom."""

    whole: Array
    each: Array

    def variance(self, sines: Array) -> Array | None:
        """s^2 v(x) (S, n) at rows with these sines (n, q); None if the sines have all of k(x, x)."""
        # v(x) = s^2 k(x, x) - sum_j s^2 S(omega_j) sine_j(x)^2 is the error of k; a negative error counts as 0
        residual = self.whole[:, None] - self.each @ np.square(sines).T
        residual = np.where(residual > ON_SPAN * self.whole[:, None], residual, 0.0)
        return residual if residual.any() else None


@dataclass(frozen=True, eq=False)
class OffSpan:
    """The residual processes of a model's terms, independent of one another, of the coefficients and between linear predictors.

    A term with values at rows as its columns also has a mean, the mean of the process given these values.
    """

    processes: tuple[ResidualProcess | DrawnProcess | GroupEffects, ...]
    width: int = 1  # the number of linear predictors

    @property
    def of_processes(self) -> "OffSpan":
        """The same without effects of groups."""
        processes = (p for p in self.processes if not isinstance(p, GroupEffects))
        return replace(self, processes=tuple(processes))

    @property
    def of_groups(self) -> tuple[GroupEffects, ...]:
        """The effects of new groups."""
        return tuple(p for p in self.processes if isinstance(p, GroupEffects))

    def shares_groups(self, design: Design) -> bool:
        """Whether several rows belong to the same new group."""
        rows = [
            inputs_of(design, p.key)[p.is_new(inputs_of(design, p.key)), 0]
            for p in self.of_groups
        ]
        return any(len(np.unique(codes)) < len(codes) for codes in rows)

    def group_draws(
        self, design: Design, atoms: int, m: int, rng: Generator
    ) -> Array | float:
        """Draws (S, n, m) of the effects of new groups at the rows of a design, one for each group, atom and predictor."""
        draws = [
            p.draws(inputs_of(design, p.key), lambda k: normal_scores(rng, atoms, k, m))
            for p in self.of_groups
        ]
        return sum(draws, 0.0)

    def moments(self, design: Design) -> tuple[Array | float, Array | None]:
        """The mean (S, n, m), or 0 if no term has one, and the variance of each linear predictor at the rows of a design.

        The variance is (S, n, m), with 1 in place of S or m if atoms or predictors share it; None if every row is in the span.
        """
        means = list[Array | float]()
        variances = list[Array]()
        for p in self.processes:
            mean, variance = p.moments(design)
            means.append(mean)
            if variance is not None:
                which = p.predictor is None or np.arange(self.width) == p.predictor
                variances.append(variance[..., None] * which)
        return sum(means, 0.0), np.asarray(sum(variances)) if variances else None

    def variance(self, design: Design) -> Array | None:
        """The variance of `moments`."""
        return self.moments(design)[1]

    def covariance(self, sums: Mapping[str, RowSums], weights: list[Any]) -> Array:
        """The covariance (E, E) of weighted sums over all linear predictors, with sparse weights A_l (E, n) of each predictor."""
        covariances = [p.covariance(sums[p.key], weights) for p in self.processes]
        return np.asarray(sum(covariances))

    def draws_of_sums(
        self,
        sums: Mapping[str, RowSums],
        weights: list[Any],
        size: int,
        rng: Generator,
    ) -> Array | float:
        """Draws (S, E) of the weighted sums, one for each of S atoms."""
        return sum(
            p.draws_of_sums(sums[p.key], weights, size, rng) for p in self.processes
        )

    def mean_of_sums(self, sums: Mapping[str, RowSums]) -> Array | None:
        """The mean (n, m) over the atoms of the sums; None if they have the mean 0."""
        means = [
            p.mean_of_sums(sums[p.key])
            for p in self.processes
            if isinstance(p, DrawnProcess)
        ]
        return np.asarray(sum(means)) if means else None

    def joint(
        self,
        sums: Mapping[str, RowSums],
        size: int,
        width: int,
        rng: Generator,
    ) -> "JointDraws":
        """Draws of all sums at once, for each of S atoms and m linear predictors."""
        return JointDraws(
            tuple(p.joint(sums[p.key], size, width, rng) for p in self.processes)
        )


@dataclass(frozen=True, eq=False)
class JointDraws:
    """Draws of all sums, one entry for each term."""

    parts: tuple[LinearSums, ...]

    @property
    def empty(self) -> bool:
        """Whether every sum is in the span."""
        return all(part.empty for part in self.parts)

    def at(self, sums: slice, atoms: slice) -> Array | float:
        """The draws of some sums for some atoms, (S', n', m)."""
        return sum((part.at(sums, atoms) for part in self.parts), 0.0)


# ---- from a model -------------------------------------------------------------------------------------------------------


def off_span(
    model: Model, draws: Mapping[str, Array] | None, noise: Array | float
) -> OffSpan | None:
    """Return the residual processes of a model; None if no term has one.

    Parameters
    ----------
    model : Model
        The fitted model, with known scales in its priors.
    draws : mapping or None
        Draws of hyperparameters by name, (S,) each, if there are any.
    noise : array (S,) or float
        The noise scale of each atom, for priors in its units.
    """
    recipe = model.design.recipe
    place = model.design.place
    names = hyper_names(model.joint, model.design)
    processes = list[ResidualProcess | DrawnProcess | GroupEffects]()
    terms: list[ProcessTerm | GroupedTerm] = [
        *recipe.processes.values(),
        *recipe.grouped.values(),
    ]
    for term in terms:
        if not all(c in place for c in term.columns):
            continue
        columns = [place[c] for c in term.columns]
        blocks = [
            (b, names.get(i, {}))
            for i, b in enumerate(model.joint.blocks)
            if set(columns) <= set(b.columns)
        ]
        for b, hyper in blocks or [(BlockPrior(Flat(), tuple(columns)), {})]:
            owner = model.design.owner
            predictor = b.predictor if owner is None else int(owner[columns[0]])
            block = _TermPrior(columns, b, predictor, hyper, draws, noise)
            if isinstance(term, GroupedTerm):
                root = partial(block.group_root, term)
                processes.append(GroupEffects(term, columns, root, block.predictor))
            else:
                processes += block.processes(term)
    width = model.likelihood.width
    return OffSpan(tuple(processes), width) if processes else None


@dataclass(frozen=True, eq=False)
class _TermPrior:
    """The block of the prior with the columns of a term, at draws of its hyperparameters `names`."""

    columns: list[int]
    block: BlockPrior
    predictor: int | None  # the linear predictor of the term; None for all
    names: Mapping[str, str]
    draws: Mapping[str, Array] | None
    noise: Array | float

    @property
    def prior(self) -> Any:
        """Its prior."""
        return self.block.prior

    @property
    def places(self) -> list[int]:
        """The places of the columns in the block."""
        return [self.block.columns.index(j) for j in self.columns]

    @cached_property
    def hyper(self) -> dict[str, Array] | None:
        """The draws (S,) of its hyperparameters; None if draws of some are missing."""
        draws = self.draws
        if draws is None or not self.names:
            return None
        if not draws.keys() >= set(self.names.values()):
            return None
        values = {k: draws[v] for k, v in self.names.items()}
        return dict(self.prior.internal(values))

    def processes(self, term: ProcessTerm) -> Iterator[ResidualProcess | DrawnProcess]:
        """Yield the residual process of a term.

        Sines with separate hyperparameters for a linear predictor need draws of these. The difference between the sines and
        k(x, x) within their range is smaller than the error of the basis, and is not added.
        """
        prior = self.prior
        is_whole = len(self.columns) == len(self.block.columns)
        if is_whole and self.hyper and isinstance(prior, FunctionValues):
            assert self.draws is not None  # `hyper` is a part of the draws
            beta = self.draws["beta"]
            amplitude = prior.amplitude_at(self.hyper) * np.ones(len(beta))
            table = np.stack([self.hyper[name] for name, _ in prior.unknown], 1)
            at_rows = beta[:, self.columns]
            yield DrawnProcess(term.key, prior, self.columns, amplitude, table, at_rows)
        elif is_whole and self.hyper and isinstance(prior, SineProcess):
            yield self._sines(term, prior, self.hyper)
        elif (
            self.draws is not None
            or self.predictor is None
            or not (isinstance(term.basis, SineBasis) and term.basis.plain)
        ):
            yield ResidualProcess(
                term.key,
                term.basis,
                self.columns,
                self.scale,
                predictor=self.predictor,
            )

    def _sines(
        self, term: ProcessTerm, prior: SineProcess, values: Mapping[str, Array]
    ) -> ResidualProcess:
        """Return the residual process of a term with hyperparameters drawn along with the coefficients of its sines."""
        table = np.stack(list(values.values()), 1)
        amplitude = prior.amplitude_at(values) * np.ones(len(table))
        # k(x, x) does not depend on lengths
        is_length_only = all(is_length(name) for name, _ in prior.unknown)
        rows = (table[:1] if is_length_only else table).tolist()
        bound = np.array(
            [prior.kernel_at(**dict(zip(values, row))).bound for row in rows]
        )
        scales = np.exp(prior.log_scales(np.log(table), len(self.columns)))
        middle = {name: float(np.median(v)) for name, v in values.items()}
        basis = prior.basis_at(prior.kernel_at(**middle), None)
        sines = VaryingSines(np.square(amplitude) * bound, np.square(scales))
        return ResidualProcess(
            term.key, basis, self.columns, amplitude, sines, self.predictor
        )

    @property
    def scale(self) -> Array | None:
        """s of each atom, (S,) or (1,); None unless these columns have a normal prior with one scale."""
        prior = self.prior
        spread: Array | float = prior.unit(self.noise)
        if isinstance(prior, HierarchicalPrior):
            if self.hyper is None or any(h.each for h in prior.hyper.values()):
                return None
            spread = prior.spread(**self.hyper) * spread
            prior = prior.base
        base_scale = _one_scale(prior, len(self.block.columns), self.places)
        return None if base_scale is None else np.atleast_1d(base_scale * spread)

    def group_root(self, term: GroupedTerm) -> Array:
        """Lambda (S, K, K) of the effects of a group at each atom; S is 1 if all atoms have the same."""
        K = len(term.effects)
        prior = self.prior
        if isinstance(prior, VaryingEffects) and not prior.hyper:
            return prior.root(np.zeros(0))[0][None]
        if isinstance(prior, VaryingEffects) and self.hyper is not None:
            logs = [np.log(self.hyper[k]) for k in prior.hyper]
            # draws of an integral take few distinct values
            nodes, index = np.unique(np.column_stack(logs), axis=0, return_inverse=True)
            return np.stack([prior.root(node)[0] for node in nodes])[index.ravel()]
        if isinstance(prior, GaussianPrior) and not isinstance(prior, Flat):
            q = len(self.block.columns)
            places = self.places
            if not np.any(prior.center(q)[places]):
                unit = np.reshape(prior.unit(self.noise), (-1, 1, 1))
                return _given_root(prior, q, places[:K])[None] * unit
        scale = self.scale
        if scale is None:
            raise Incompatible(
                f"{term.key}: effects of a new group are not known, for the prior is not normal with one covariance. Ask for "
                "groups='typical', or fit all rows together where this is an update"
            )
        return scale[:, None, None] * np.eye(K)


def _given_root(prior: GaussianPrior, q: int, places: list[int]) -> Array:
    """Lambda for some columns of a normal prior without unknown hyperparameters."""
    sds = prior.independent(q)
    if sds is not None:
        return np.diag(sds[places])
    root = prior.root_of_groups({})
    if root is not None and len(root) == len(places):
        return root
    return np.linalg.cholesky(np.linalg.inv(prior.precision(q))[np.ix_(places, places)])


def _one_scale(prior: Any, q: int, places: list[int]) -> float | None:
    """The scale of the columns `at` among the q columns of a normal prior; None if they have no common scale."""
    sds = prior.independent(q) if isinstance(prior, GaussianPrior) else None
    if sds is None or not np.isfinite(sds[places]).all() or np.ptp(sds[places]):
        return None
    return float(sds[places[0]])


def total_variance_left(model: Model, sigma: float) -> float:
    """Return the sum of `variance_left_at_rows` over the blocks, relative to sigma^2."""
    total = 0.0
    for i, v in variance_left_at_rows(model).items():
        if not model.joint.blocks[i].prior.sigma_units:
            v /= sigma**2
        total += v
    return total


def variance_left_at_rows(model: Model) -> dict[int, float]:
    """By block, s^2 sum_i w_i (k(x_i, x_i) - |phi(x_i)|^2) of processes through a basis of few anchors, for rows in memory.

    s is the scale in the prior, without the unknown scales that multiply it. Titsias' lower bound of the evidence subtracts half of
    this sum over sigma^2. A prior that is not normal with one scale is a prior of columns, not of a process, and has no such sum.
    """
    d = model.design
    variances = dict[int, float]()
    for i, b in enumerate(model.joint.blocks):
        term = d.process_of(b.columns) if d.inputs else None
        prior = unit_prior(b)
        q = len(b.columns)
        if (
            term is None
            or not term.basis.projects
            or (scale := _one_scale(prior, q, list(range(q)))) is None
        ):
            continue
        weights = full_weights(d.square_weights, d.n)
        variances[i] = scale**2 * float(
            weights @ term.basis.residual_variance(d.inputs[term.key])
        )
    return variances


# ---- draws and nodes of a normal variable -------------------------------------------------------------------------------


def normal_scores(rng: Generator, atoms: int, n: int, m: int) -> Array:
    """Standard normal noise (S, n, m): the scores of S draws in random order at each row and predictor.

    Their mean is 0 and their mean square 1 at each row, so that an average over the atoms has a smaller error than with independent draws.

    >>> z = normal_scores(np.random.default_rng(0), 100, 2, 1)
    >>> z.shape, bool((np.abs(z.mean(0)) < 1e-12).all()), z.std(0).round(12).ravel().tolist()
    ((100, 2, 1), True, [1.0, 1.0])
    """
    score = ndtri((np.arange(atoms) + 0.5) / atoms)
    if atoms > 1:
        score = score / np.sqrt(np.mean(score**2))
    else:
        score = rng.standard_normal(1)
    return np.moveaxis(
        rng.permuted(np.broadcast_to(score, (n, m, atoms)), axis=-1), -1, 0
    )


def normal_nodes(mean: Array, sd: Array) -> tuple[Array, Array]:
    """Return nodes eta (S, n) and weights (S,) or (S, n) of E g(eta), eta ~ N(mean, sd^2) at each of n rows.

    Up to sd = 7 the nodes come from `equal_nodes`. Beyond, z = (eta - mean) / sd has steps of 0.35 / sd near eta = 0, where a
    mean of a logistic or exponential shape varies. Elsewhere the steps grow in proportion to the distance from eta = 0:
    z = z_0 + (h / c) sinh(c t) at whole t, with z_0 = -mean / sd. Their number grows with log(sd) only.

    For g analytic in |Im eta| < a the error is near exp(-2 pi a / 0.35); a is pi for a logistic mean, pi / 2 for exp(-exp),
    and the range leaves room for g as large as exp: the error of a mean is below 1e-10.

    >>> eta, w = normal_nodes(np.zeros(1), np.array([1e8]))
    >>> len(eta), float((w * (1.0 + np.tanh(eta / 2.0)) / 2.0).sum().round(10))
    (3219, 0.5)
    """
    max_tilt = 29.5  # largest shift, in sds, of the centre of a normal variable by exp: beyond it exp(sd^2 / 2) overflows
    growth = 0.0125  # of the step between nodes, relative to the distance from eta = 0: at 40 sds half an sd
    reach = 8.5 + min(float(sd.max()), max_tilt)
    if sd.max() <= _EQUAL_STEPS:
        z, w = equal_nodes(float(sd.max()), reach)
        return mean + sd * z[:, None], w
    first = 0.35 / np.maximum(sd, _EQUAL_STEPS)
    last = ceil(np.arcsinh(2 * reach * growth / first.min()) / growth)
    t = growth * np.arange(-last, last + 1)[:, None]
    middle = np.clip(-mean, -reach * sd, reach * sd) / np.maximum(
        sd, np.finfo(float).tiny
    )
    z = middle + first / growth * np.sinh(t)
    # the weights are phi(z) dz/dt
    w = np.where(
        np.abs(z) <= reach, np.exp(-0.5 * np.square(z)) * first * np.cosh(t), 0.0
    )
    return mean + sd * np.clip(z, -reach, reach), w / w.sum(0)


def equal_nodes(ratio: float, reach: float = 8.5) -> tuple[Array, Array]:
    """Return nodes z and weights of E g(sd z), z ~ N(0, 1), where g varies on a scale of sd / `ratio`: equal steps of z.

    >>> z, w = equal_nodes(2.0, 10.5)
    >>> float((w @ np.exp(2.0 * z)).round(10)) == round(float(np.exp(2.0)), 10)
    True
    """
    step = 0.35 / max(ratio, _EQUAL_STEPS)
    z = step * np.arange(-ceil(reach / step), ceil(reach / step) + 1)
    w = np.exp(-0.5 * z**2)
    return z, w / w.sum()


def normal_points(m: int) -> Array:
    """1,024 points (S, m) of a low-discrepancy sequence that are standard normal, with their mirror images: for m predictors at once."""
    from scipy.stats import qmc

    z = ndtri(qmc.Sobol(m, rng=np.random.default_rng(0)).random(512))
    return np.concatenate([z, -z])
