"""The covariance of averages over rows that are a sample from a population.

The average theta = sum_i a_i h(x_i, beta) / sum_i a_i of one unit of row i has the influence function

    IF_i = a_i (h(x_i, beta) - theta) / sum a + G V u_i,

with G = d theta / d beta, V the inverse observed information and u_i the score of the
unit, so Var(theta) = sum_i IF_i^2. With a canonical link and an intercept IF_i = (y_i -
mean(y)) / n for the average of the mean: the standard error equals the sample mean's.
With a prior, groups or smooth functions there are no scores of independent rows: the
two parts are independent under the model, and Var(theta) = G V G' + sum_i a_i^2 (h_i -
theta)^2 / (sum a)^2, after adding the rows of a group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from probreg.data.checked_arrays import some_rows
from probreg.errors import Incompatible
from probreg.inference.base import Array, Solution
from probreg.inference.uncertainty.clusters import (
    bartlett_square,
    cluster_square,
    cross_codes,
)
from probreg.inference.uncertainty.covariance import (
    SANDWICHES,
    Settings,
    Words,
    check_lags,
    cluster_factor,
    row_factor,
)
from probreg.inference.uncertainty.information import (
    Estimate,
    RowDerivatives,
    estimate_of,
)
from probreg.likelihoods import OfTrials
from probreg.linalg import one_blas_thread, row_blocks
from probreg.model.model import Model

INFLUENCE = (
    *SANDWICHES,
    "cluster",
    "HAC",
)  # kinds of covariance that sum influence functions of rows


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Rows as a sample: their contributions to R averages.

    Attributes
    ----------
    moves : array (n, R)
        (h_i - theta) a_i / sum a of one unit of a row.
    units : array (n,)
        Independent units in each row: copies of a frequency weight, times trials.
    trials : bool
        Whether units are single trials.
    clusters : sequence of arrays (n,)
        Codes of the groups of the model, for each way of grouping.
    eta : array (n, m), optional
        The linear predictors at the estimate, if they are known.
    """

    moves: Array
    units: Array
    trials: bool = False
    clusters: Sequence[Array] = ()
    eta: Array | None = None

    def covariance(self) -> Array:
        """(R, R), from the sampling of rows only: rows of a group are added, several
        groupings by inclusion and exclusion."""
        rows = self.moves * self.units[:, None]
        if not self.clusters:
            return rows.T @ self.moves
        total = np.zeros((rows.shape[1], rows.shape[1]))
        for size in range(1, len(self.clusters) + 1):
            for ways in combinations(self.clusters, size):
                codes = ways[0]
                for further in ways[1:]:
                    codes = cross_codes(codes, further)
                total += (-1.0) ** (size + 1) * cluster_square(rows, codes)
        value, vector = np.linalg.eigh(total)
        if value[0] >= 0.0:
            return total
        return (vector * np.where(value > 0.0, value, 0.0)) @ vector.T

    @property
    def count(self) -> float:
        """The number of independent units: groups of the coarsest grouping, or rows and trials."""
        if self.clusters:
            return float(min(int(c.max()) + 1 for c in self.clusters))
        return float(self.units.sum())


def ways_of_groups(codes: Sequence[Array]) -> list[Array]:
    """Return the groupings without duplicates and without those nested in another."""
    selected: list[Array] = []
    for way in sorted(codes, key=lambda c: int(c.max())):
        if not any(
            len(np.unique(cross_codes(way, coarse))) == len(np.unique(way))
            for coarse in selected
        ):
            selected.append(way)
    return selected


@one_blas_thread()
def influence_covariance(
    model: Model,
    solution: Solution,
    G: Array,
    rows: SampledRows,
    kind: str,
    settings: Settings,
) -> tuple[Array, float | None, Words]:
    """Return (R, R) of averages with the gradients G (R, p m + a) over (vec beta, log
    aux), degrees of freedom and a description, by a kind of sandwich.

    Incompatible, NotConverged or DataError if the fit has no scores, or the kind does
    not suit the model.
    """
    estimate = estimate_of(model, solution, "the influence of each row", in_memory=True)
    # d theta_r = (G V)_r u_i, over (vec gamma, log aux) of the frame
    k = solution.beta.size
    over_beta = G[:, :k].reshape(len(G), *model.shape)
    over_gamma = model.design.frame.gradients(over_beta).reshape(len(G), -1)
    nuisance = model.likelihood.nuisance
    of_unknown = [k + nuisance.index(a) for a in estimate.model.unknown]
    over_theta = np.hstack([over_gamma, G[:, of_unknown]])
    # V g for the rows g of `over_theta`
    A = estimate.inside @ estimate.bread
    slopes = A @ (over_theta @ A).T
    df = solution.df
    words = {"kind": f"influence functions ({kind})"}
    if kind in ("cluster", "HAC"):
        total = np.zeros(rows.moves.shape)
        for count, influence, block in _influences(estimate, slopes, rows, None):
            total[block] += count[:, None] * influence
        if kind == "HAC":
            lags, factor = check_lags(estimate, settings)
            return factor * bartlett_square(total, lags), df, words
        groups = [int(c.max()) + 1 for c in settings.groups]
        factor = cluster_factor(estimate, min(groups), settings.small_sample)
        as_groups = replace(
            rows, moves=total, units=np.ones(len(total)), clusters=settings.groups
        )
        return factor * as_groups.covariance(), min(groups) - 1.0, words
    power = SANDWICHES[kind]
    factor = row_factor(
        estimate, kind, float(rows.units.sum()) if rows.trials else None
    )
    M = np.zeros((len(G), len(G)))
    for count, influence, _ in _influences(estimate, slopes, rows, power):
        M += (count[:, None] * influence).T @ influence
    return factor * M, df, words


def _influences(
    estimate: Estimate, slopes: Array, rows: SampledRows, power: float | None
) -> Iterator[tuple[Array, Array, slice]]:
    """Yield counts (b,) and influence functions (b, R) of the units in blocks of rows;
    for trials once for each class."""
    model = estimate.model
    design = estimate.model.design
    sampled = design.weight_kind == "sampling"
    root = None if power is None else estimate.root
    classes: Array | None = None
    if rows.trials:
        assert isinstance(model.likelihood, OfTrials)
        classes = model.likelihood.single_trials()
        if power is not None:
            raise Incompatible(
                "HC2 and HC3 use the leverage of a row, not of a trial: use unit='row', or 'HC1'"
            )
    for part in row_blocks(design.n, estimate.size):
        block = design.block.part(part)
        eta = some_rows(rows.eta, part)
        derivatives = RowDerivatives(estimate.at, block, eta)
        weights = derivatives.weights
        moves = rows.moves[part]
        if classes is None:
            scores = derivatives.less_leverage(root, power or 0.0)
            u = _times_slopes(derivatives, scores, slopes)
            if sampled:
                yield np.ones(len(u)), moves + weights[:, None] * u, part
            else:
                yield rows.units[part], moves + u, part
            continue
        tally = model.likelihood.tally(block.y)  # type: ignore[attr-defined]
        for c, y in enumerate(classes):
            single = block._replace(y=np.broadcast_to(y, (block.rows, len(y))))
            of_class = RowDerivatives(estimate.at, single, eta)
            yield (
                weights * tally[:, c],
                moves + _times_slopes(of_class, of_class.scores, slopes),
                part,
            )


def _times_slopes(rows: RowDerivatives, scores: Array, slopes: Array) -> Array:
    """Return score_rows(scores) @ slopes, (b, R), without forming the scores over all coefficients."""
    p, k = len(rows.at.beta), rows.at.beta.size
    m = rows.at.likelihood.width
    by_row = rows.U @ slopes[:k].reshape(p, -1)
    product = scores[:, m:] @ slopes[k:]
    for j, of_predictor in enumerate(np.split(by_row, m, axis=1)):
        product += of_predictor * scores[:, [j]]
    return product


def is_constant(moves: Array, values: Array, units: Array) -> bool:
    """Whether every row has the same effect as the average, so that the sampling of rows has no effect."""
    # relative to the averages: a row's effect this close to the average equals it
    tolerance = 1e-10
    return bool((np.abs(moves) * units.sum() <= tolerance * np.abs(values)).all())
