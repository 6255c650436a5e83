"""A process off the rows of a fit whose draws hold its hyperparameters h and its values f(A) at the distinct rows A.

Given both it is at other points N(k(x, A) k(A, A)^+ f(A), s^2 R(x, z)), R = k(x, z) - k(x, A) k(A, A)^+ k(A, z), all at h. The columns
of the design are 1 at one of these rows and 0 elsewhere, so that this mean, less what they say, is added to each draw with R.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from probreg.data import Design
from probreg.errors import DataError, Incompatible
from probreg.kernels.anchored import AnchoredBasis
from probreg.kernels.row_values import RowValues
from probreg.kernels.sums import RowSums, covariance_left, root_left
from probreg.model.group_effects import LinearSums, inputs_of, weigh_sums
from probreg.priors.gaussian_process import FunctionValues, nodes_of

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class DrawnProcess:
    """A process given its values and hyperparameters in each atom.

    Attributes
    ----------
    key : str
        The term.
    prior : FunctionValues
        Of its columns.
    columns : list of int
        Where these stand in the design.
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
        # 0.4 GB at the most, of bases that are held from one part of the rows to the next
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
        """The mean (S, n, m) that the columns lack and the variance (S, n), at the rows of a design; 0 and None where all are among those
        of the fit."""
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
        self, sums: RowSums, weights: list[Any], size: int, rng: np.random.Generator
    ) -> Array:
        """Draws (S, E) of weighted sums, less what the columns say of them."""
        self._check_size(len(self.table) * (weights[0].shape[0] + sums.n))
        draws = np.empty((len(self.table), weights[0].shape[0]))
        sum_columns = self._columns_of(sums)
        for mine, node_basis, u in self._distinct_nodes:
            mean = sums.columns(node_basis) @ u - sum_columns @ self.at_rows[mine]
            covariances = [covariance_left(node_basis, sums, A) for A in weights]
            value, vector = np.linalg.eigh(np.asarray(sum(covariances)))
            z = rng.standard_normal((len(mine), len(value))) * np.sqrt(
                np.maximum(value, 0.0)
            )
            noise = self.amplitude[mine, None] * (z @ vector.T)
            draws[mine] = weigh_sums(weights, mean) + noise
        return draws

    def mean_of_sums(self, sums: RowSums) -> Array:
        """The mean over the atoms (n, m) of sums, less what the columns say of them."""
        mean = -self._columns_of(sums) @ self.at_rows.mean(0)
        for _, node_basis, u in self._distinct_nodes:
            mean += sums.columns(node_basis) @ u.sum(0) / len(self.table)
        return mean

    def joint(
        self, sums: RowSums, size: int, width: int, rng: np.random.Generator
    ) -> LinearSums:
        """Draws of all sums, less what the columns say of them."""
        from scipy.sparse import eye_array

        draws = self.sums(sums, rng)
        sum_columns = self._columns_of(sums)
        for part in np.array_split(np.arange(len(draws)), 1 + draws.size // 10**7):
            draws[part] -= sum_columns @ self.at_rows[part]
        return LinearSums(eye_array(sums.n, format="csr"), draws)

    def sums(self, sums: RowSums, rng: np.random.Generator) -> Array:
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
            draws[mine] = sums.columns(node_basis) @ u + np.moveaxis(z @ G, 1, 2)
        return draws

    def _columns_of(self, sums: RowSums) -> Array:
        """The sums of the columns of the design, (n, a)."""
        columns = np.zeros((sums.n, self.basis.size))
        for k, c in enumerate(sums.coefficients.T):
            used = np.flatnonzero(c)
            if len(used):
                columns[used] += c[used, None] * self.basis.values(sums.rows[used, k])
        return columns

    def _check_size(self, numbers: int) -> None:
        max_numbers = 10**8  # 0.8 GB of draws of sums
        if numbers > max_numbers:
            raise DataError(
                f"{self.key}: its draws at these rows are {8e-9 * numbers:.1f} GB: take fewer rows, or fewer draws"
            )
