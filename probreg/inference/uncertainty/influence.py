"""The covariance of averages over rows that are a sample of a population.

The average theta = sum_i a_i h(x_i, beta) / sum_i a_i of one unit of row i has the influence function

    IF_i = a_i (h(x_i, beta) - theta) / sum a + G V u_i,

with G = d theta / d beta, V the inverse observed information and u_i the score of the unit, so that Var(theta) = sum_i IF_i^2. With a
canonical link and an intercept IF_i = (y_i - mean(y)) / n for the average of the mean: the standard error is that of the sample
mean. A prior, groups and smooth functions have no scores of independent rows: there the two parts are independent under the model, and
Var(theta) = G V G' + sum_i a_i^2 (h_i - theta)^2 / (sum a)^2, with the rows of a group added first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import Array, Solution
from probreg.inference.covariance import DenseCovariance
from probreg.inference.uncertainty.clusters import (
    bartlett_square,
    cluster_square,
    crossed,
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
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread, row_blocks

INFLUENCE = (
    *SANDWICHES,
    "cluster",
    "HAC",
)  # kinds of covariance that sum influence functions of rows
_AT_TOP = 1e-6  # decrement in standard errors below which the covariance of Newton is that of the estimate
_SAME = 1e-10  # of the averages: the effect of a row that is this near to the average is the average


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Rows as a sample: what their place in R averages adds to these.

    Attributes
    ----------
    moves : array (n, R)
        (h_i - theta) a_i / sum a of one unit of a row.
    units : array (n,)
        Units in each row, independent of one another: copies of a frequency weight, times trials.
    trials : bool
        Whether units are single trials.
    clusters : sequence of arrays (n,)
        Codes of the groups of the model, each way of grouping.
    eta : array (n, m), optional
        The linear predictors at the estimate, where they are at hand.
    """

    moves: Array
    units: Array
    trials: bool = False
    clusters: Sequence[Array] = ()
    eta: Array | None = None

    def covariance(self) -> Array:
        """(R, R), of the place of the rows alone: the rows of a group together, of several ways by inclusion and exclusion."""
        rows = self.moves * self.units[:, None]
        if not self.clusters:
            return rows.T @ self.moves
        total = np.zeros((rows.shape[1], rows.shape[1]))
        for size in range(1, len(self.clusters) + 1):
            for ways in combinations(self.clusters, size):
                codes = ways[0]
                for other in ways[1:]:
                    codes = crossed(codes, other)
                total += (-1.0) ** (size + 1) * cluster_square(rows, codes)
        value, vector = np.linalg.eigh(total)
        if value[0] >= 0.0:
            return total
        return (vector * np.where(value > 0.0, value, 0.0)) @ vector.T

    @property
    def count(self) -> float:
        """Independent units: groups of the smallest grouping, or rows and trials."""
        if self.clusters:
            return float(min(int(c.max()) + 1 for c in self.clusters))
        return float(self.units.sum())


def ways_of_groups(codes: Sequence[Array]) -> list[Array]:
    """Groupings without those whose groups lie within the groups of another, and without copies."""
    kept: list[Array] = []
    for way in sorted(codes, key=lambda c: int(c.max())):
        if not any(
            len(np.unique(crossed(way, coarse))) == len(np.unique(way))
            for coarse in kept
        ):
            kept.append(way)
    return kept


@one_blas_thread()
def influence_covariance(
    model: Model,
    solution: Solution,
    G: Array,
    rows: SampledRows,
    kind: str,
    settings: Settings,
) -> tuple[Array, float | None, Words]:
    """(R, R) of averages with the gradients G (R, p m), the degrees of freedom and what it is, by a kind of sandwich.

    Incompatible, NotConverged or DataError where the fit has no scores, or the kind does not go with the model.
    """
    at = estimate_of(model, solution, "the influence of each row", each=True)
    # d theta_r = (G V)_r u_i, over (vec gamma, log aux) of the frame
    over_gamma = model.design.frame.gradients(G.reshape(len(G), *model.shape)).reshape(
        len(G), -1
    )
    over_theta = np.hstack([over_gamma, np.zeros((len(G), len(at.model.unknown)))])
    slopes = _bread_times(at, over_theta)
    df = solution.df
    words = {"kind": f"influence functions ({kind})"}
    if kind in ("cluster", "HAC"):
        total = np.zeros(rows.moves.shape)
        for count, influence, block in _influences(at, slopes, rows, None):
            total[block] += count[:, None] * influence
        if kind == "HAC":
            lags, factor = check_lags(at, settings)
            return factor * bartlett_square(total, lags), df, words
        groups = [int(c.max()) + 1 for c in settings.groups]
        factor = cluster_factor(at, min(groups), settings.small_sample)
        each = replace(
            rows, moves=total, units=np.ones(len(total)), clusters=settings.groups
        )
        return factor * each.covariance(), min(groups) - 1.0, words
    power = SANDWICHES[kind]
    factor = row_factor(at, kind, float(rows.units.sum()) if rows.trials else None)
    M = np.zeros((len(G), len(G)))
    for count, influence, _ in _influences(at, slopes, rows, power):
        M += (count[:, None] * influence).T @ influence
    return factor * M, df, words


def _bread_times(at: Estimate, over_theta: Array) -> Array:
    """V g (p m + a, R) over (vec gamma, log aux) for the rows g of `over_theta` (R, p m + a)."""
    s = at.solution
    model = at.model
    V = s.given_scales
    if (
        not isinstance(V, DenseCovariance)
        or V.missing is not None
        or s.sandwich
        or not V.frame.equals(model.design.frame)
    ):
        return np.asarray(at.inside @ at.observed @ (over_theta @ at.inside).T)
    # the covariance of the fit is the inverse observed information: no other pass over the rows is needed
    if (
        s.stats.get("decrement", np.inf) < _AT_TOP
        and len(V.root) == over_theta.shape[1]
    ):
        return np.asarray(V.root @ (V.root.T @ over_theta.T))
    if model.likelihood.least_squares and s.df and s.stats.get("rss", 0.0) > 0.0:
        # (X'X)^-1 times the sigma^2 of the scores
        k = at.size
        out = np.zeros(over_theta.T.shape)
        sigma2 = float(model.noise(s.aux)) ** 2
        out[:k] = (
            sigma2
            / (s.stats["rss"] / s.df)
            * (V.root[:k] @ (V.root[:k].T @ over_theta[:, :k].T))
        )
        return out
    return np.asarray(at.inside @ at.observed @ (over_theta @ at.inside).T)


def _influences(
    at: Estimate, slopes: Array, rows: SampledRows, power: float | None
) -> Iterator[tuple[Array, Array, slice]]:
    """Counts (b,) and influence functions (b, R) of the units in blocks of rows; of trials once for each class."""
    model = at.model
    design = at.model.design
    sampled = design.weight_kind == "sampling"
    root = None if power is None else at.root
    classes: Array | None = None
    if rows.trials:
        assert isinstance(model.likelihood, OfTrials)
        classes = model.likelihood.single_trials()
        if power is not None:
            raise Incompatible(
                "HC2 and HC3 have the leverage of a row, and not of a trial: ask for unit='row', or 'HC1'"
            )
    for part in row_blocks(design.n, at.size):
        block = design.block.part(part)
        eta = None if rows.eta is None else rows.eta[part]
        own = RowDerivatives(at.at, block, eta)
        weights = own.weights
        moves = rows.moves[part]
        if classes is None:
            if root is None:
                scores = own.scores
            else:
                scores = own.less_leverage(root, power or 0.0)
            u = _times_slopes(own, scores, slopes)
            if sampled:
                yield np.ones(len(u)), moves + weights[:, None] * u, part
            else:
                yield rows.units[part], moves + u, part
            continue
        tally = model.likelihood.tally(block.y)  # type: ignore[attr-defined]
        for c, y in enumerate(classes):
            one = block._replace(y=np.broadcast_to(y, (block.rows, len(y))))
            each = RowDerivatives(at.at, one, eta)
            yield (
                weights * tally[:, c],
                moves + _times_slopes(each, each.scores, slopes),
                part,
            )


def _times_slopes(rows: RowDerivatives, scores: Array, slopes: Array) -> Array:
    """score_rows(scores) @ slopes, (b, R), without the scores over all coefficients."""
    frame = rows.at.basis
    m = rows.at.beta.shape[1]
    k = rows.at.beta.size
    each = slopes[:k].reshape(-1, m, slopes.shape[1])
    out = scores[:, m:] @ slopes[k:]
    if frame.mild:  # x'c + constant in place of a copy of the standardised rows
        X = np.asarray(rows.block.X)
        c = each / frame.scale[:, None, None]
        constant = (frame.shift[:, None, None] * c).sum(0)
        for j in range(m):
            out += (X @ c[:, j] - constant[j]) * scores[:, [j]]
        return out
    for j in range(m):
        out += (rows.U @ each[:, j]) * scores[:, [j]]
    return out


def is_constant(moves: Array, values: Array, units: Array) -> bool:
    """Whether every row has the effect of the average, so that it does not matter which rows were sampled."""
    return bool((np.abs(moves) * units.sum() <= _SAME * np.abs(values)).all())
