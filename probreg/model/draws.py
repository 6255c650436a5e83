"""The log prior at the draws of a posterior, and the values of processes at new rows given the draws of a fit.

Draws of a process, or of effects by group, include their hyperparameters h, because the density of the coefficients alone is not
known: the log prior of a draw is log p(beta | h) + log p(h). Every other prior of unknown scale has a density p(beta) with the scale
integrated out.

Given f(A) and h, a process has the distribution N(k(x, A) k(A, A)^+ f(A), s^2 R(x, z)) at other points, where
R = k(x, z) - k(x, A) k(A, A)^+ k(A, z) and k depends on h. Each column of the design is 1 at one row of A and 0 elsewhere. So each
draw receives this mean minus the sum from the columns, and noise with covariance s^2 R.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from probreg.data import Design
from probreg.errors import DataError, Incompatible
from probreg.kernels.anchored import AnchoredBasis, RowValues
from probreg.kernels.sums import RowSums, covariance_left, root_left
from probreg.linalg import symmetric_root
from probreg.model.group_effects import LinearSums, inputs_of, weigh_sums
from probreg.model.model import Model
from probreg.model.term_priors import hyper_at, hyper_names
from probreg.priors import HierarchicalPrior
from probreg.priors.gaussian_process import FunctionValues, nodes_of

Array = np.ndarray


def needed_hyper(model: Model) -> dict[int, dict[str, str]]:
    """Return the names in draws of the hyperparameters that the density of a block needs, by the number of the block."""
    names = hyper_names(model.joint, model.design)
    return {
        i: draw_names
        for i, draw_names in names.items()
        if not model.joint.blocks[i].prior.known
    }


def blocks_given_scales(model: Model) -> frozenset[int]:
    """Return the numbers of the blocks with coefficients that are drawn given their hyperparameters: effects by group, and processes.

    Their density p(b | h) is a part of the model, not a prior that a user states.
    """
    grouped = {
        i
        for i, b in enumerate(model.joint.blocks)
        if model.design.grouped_of(b.columns) is not None
    }
    return frozenset(grouped | set(needed_hyper(model)))


def log_prob_of_coefficients(
    model: Model,
    draws: Mapping[str, Array],
    *,
    proper: bool = False,
    blocks: Collection[int] | None = None,
) -> Array:
    """log p(beta | sigma, h) (...,) at draws beta (..., p, m) and other parameters (...,), over all blocks or some. With `proper`
    only over proper blocks with a density that does not need h."""
    hyper = {
        i: hyper_at(model.joint, model.design, i, draws)
        for i in needed_hyper(model)
        if (blocks is None or i in blocks) and not proper
    }
    sigma = np.asarray(model.noise(draws))
    return model.joint.log_prob_given(
        draws["beta"], hyper, sigma, proper=proper, blocks=blocks
    )


def log_prob_of_hyper(
    model: Model, draws: Mapping[str, Array], *, proper: bool = False
) -> dict[str, Array]:
    """log p(h) (...,) of each hyperparameter in the density of the coefficients."""
    log_probs: dict[str, Array] = {}
    for i, names in needed_hyper(model).items():
        prior = model.joint.blocks[i].prior
        if isinstance(prior, HierarchicalPrior) and (prior.proper or not proper):
            densities = prior.log_prob_of_hyper(
                {h: draws[name] for h, name in names.items()}
            )
            log_probs |= {name: densities[h] for h, name in names.items()}
    return log_probs


def log_prior_of_draws(
    model: Model, draws: Mapping[str, Array], *, proper: bool = False
) -> Array:
    """log p(beta, aux, h) (...,) at each draw; with `proper` only of the proper parts of the prior, and for a process only log p(h).

    A power of p(beta | h) would change h more for a process with more columns (Kallioinen et al. 2024 scale the priors of h).
    """
    # log p(beta, aux, h) = log p(beta | aux, h) + log p(aux) + log p(h)
    total = log_prob_of_coefficients(model, draws, proper=proper)
    for a in model.unknown:
        if model.aux_prior(a).proper or not proper:
            total = total + model.aux_prior(a).log_prob(draws[a])
    for log_probs in log_prob_of_hyper(model, draws, proper=proper).values():
        total = total + log_probs
    return total


@dataclass(frozen=True, eq=False)
class DrawnProcess:
    """A process given its values and hyperparameters in each atom.

    Attributes
    ----------
    key : str
        The term.
    prior : FunctionValues
        The prior of its columns.
    columns : list of int
        The indices of these columns in the design.
    amplitude : array (S,)
        s.
    table : array (S, d)
        The other hyperparameters, in the order of `prior.unknown`.
    at_rows : array (S, a, m)
        f(A) for each linear predictor.
    """

    predictor: ClassVar[None] = None

    key: str
    prior: FunctionValues
    columns: list[int]
    amplitude: Array
    table: Array
    at_rows: Array

    @property
    def basis(self) -> RowValues:
        return self.prior.basis

    @property
    def _distinct_nodes(self) -> Iterable[tuple[Array, AnchoredBasis, Array]]:
        """The atoms of each distinct h, the basis of k there, and the coefficients u (S', q, m) with phi(x)'u the mean at x."""
        # 0.4 GB at most, for the bases that are cached between parts of the rows
        max_numbers = 5 * 10**7
        if len(np.unique(self.table, axis=0)) * self.basis.size**2 <= max_numbers:
            return self._cached_nodes
        return self._build_nodes()

    @cached_property
    def _cached_nodes(self) -> list[tuple[Array, AnchoredBasis, Array]]:
        return list(self._build_nodes())

    def _build_nodes(self) -> Iterator[tuple[Array, AnchoredBasis, Array]]:
        for node, mine in nodes_of(self.table):
            node_basis, _, places = self.prior.root_at(node)
            # k(x, A) k(A, A)^+ f = k(x, A_p) T T'f_p
            at_places = self.at_rows[mine][:, places]
            yield mine, node_basis, np.einsum("pq,spm->sqm", node_basis.T, at_places)

    def moments(self, design: Design) -> tuple[Array | float, Array | None]:
        """Return the part (S, n, m) of the mean that the columns lack and the variance (S, n), at the rows of a design; 0 and None if all
        these rows are rows of the fit."""
        rows = inputs_of(design, self.key)
        off = np.flatnonzero(~design.X[:, self.columns].any(1))
        if not len(off):
            return 0.0, None
        mean = np.zeros((len(self.table), len(rows), self.at_rows.shape[2]))
        variance = np.zeros((len(self.table), len(rows)))
        for mine, node_basis, u in self._distinct_nodes:
            phi = node_basis.values(rows[off])
            mean[np.ix_(mine, off)] = phi @ u
            variance[np.ix_(mine, off)] = np.square(self.amplitude[mine])[
                :, None
            ] * node_basis.variance_left(rows[off], phi)
        return mean, variance

    def covariance(self, sums: RowSums, weights: list[Any]) -> Array:
        raise Incompatible(
            f"{self.key}: its draws differ in their hyperparameters, so that effects are those of draws"
        )

    def draws_of_sums(
        self, sums: RowSums, weights: list[Any], size: int, rng: Generator
    ) -> Array:
        """Draws (S, E) of weighted sums, minus their part from the columns of the design."""
        self._check_size(len(self.table) * (weights[0].shape[0] + sums.n))
        draws = np.empty((len(self.table), weights[0].shape[0]))
        sum_columns = sums.columns(self.basis.values, self.basis.size)
        for mine, node_basis, u in self._distinct_nodes:
            mean = (
                sums.columns(node_basis.phi, node_basis.size) @ u
                - sum_columns @ self.at_rows[mine]
            )
            covariances = [covariance_left(node_basis, sums, A) for A in weights]
            root = symmetric_root(np.asarray(sum(covariances)))
            z = rng.standard_normal((len(mine), len(root)))
            noise = self.amplitude[mine, None] * (z @ root.T)
            draws[mine] = weigh_sums(weights, mean) + noise
        return draws

    def mean_of_sums(self, sums: RowSums) -> Array:
        """The mean (n, m) over the atoms of sums, minus their part from the columns of the design."""
        mean = -sums.columns(self.basis.values, self.basis.size) @ self.at_rows.mean(0)
        for _, node_basis, u in self._distinct_nodes:
            mean += (
                sums.columns(node_basis.phi, node_basis.size)
                @ u.sum(0)
                / len(self.table)
            )
        return mean

    def joint(self, sums: RowSums, size: int, width: int, rng: Generator) -> LinearSums:
        """Draws of all sums, minus their part from the columns of the design."""
        from scipy.sparse import eye_array

        draws = self.sums(sums, rng)
        sum_columns = sums.columns(self.basis.values, self.basis.size)
        for part in np.array_split(np.arange(len(draws)), 1 + draws.size // 10**7):
            draws[part] -= sum_columns @ self.at_rows[part]
        return LinearSums(eye_array(sums.n, format="csr"), draws)

    def sums(self, sums: RowSums, rng: Generator) -> Array:
        """Draws (S, n, m) of sums of the process itself."""
        m = self.at_rows.shape[2]
        self._check_size(len(self.table) * sums.n * m)
        draws = np.empty((len(self.table), sums.n, m))
        for mine, node_basis, u in self._distinct_nodes:
            G = root_left(node_basis, sums)
            z = (
                rng.standard_normal((len(mine), m, len(G)))
                * self.amplitude[mine, None, None]
            )
            draws[mine] = sums.columns(node_basis.phi, node_basis.size) @ u + (z @ G).mT
        return draws

    def _check_size(self, numbers: int) -> None:
        max_numbers = 10**8  # 0.8 GB of draws of sums
        if numbers > max_numbers:
            raise DataError(
                f"{self.key}: its draws at these rows are {8e-9 * numbers:.1f} GB: take fewer rows, or fewer draws"
            )
