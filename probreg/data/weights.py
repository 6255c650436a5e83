"""The kinds of row weights. They are always explicit: a plain array contains whole numbers, the frequencies.

| kind | a row of weight w | n | given as |
| --- | --- | --- | --- |
| frequency | is w equal rows | sum of w | an array, or a column's name |
| precision | has noise variance sigma^2 / w | rows | `precision(w)` |
| sampling | represents w units of a population: pseudo-likelihood sum_i w_i log p_i, w normalised to sum to n | rows | `sampling(w)` |

None of them is a power of the likelihood: a tempered likelihood is another model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from probreg.arguments.scalars import ArrayLike
from probreg.errors import DataError, require_rows

Array = np.ndarray
WeightKind = Literal["frequency", "precision", "sampling"]

THREE = (
    "Say what they are: whole numbers of equal rows; pr.weights.precision(w), noise variance sigma²/w; or "
    "pr.weights.sampling(w), units that a row stands for. None is a power of the likelihood (a tempered likelihood)"
)


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights with their kind, returned by `precision` and `sampling`, for any argument `weights=`.

    Parameters
    ----------
    kind : str
        "precision" or "sampling".
    values : array (n,) or str
        One number per row, or the name of a column of a table.
    """

    kind: WeightKind
    values: ArrayLike | str


if TYPE_CHECKING:
    # One frequency per row, the name of a column of frequencies, or weights with their kind.
    WeightsLike = ArrayLike | str | RowWeights
else:
    WeightsLike = Any


def precision(w: ArrayLike | str) -> RowWeights:
    """Weights as precisions: the noise of row i has variance sigma^2 / w_i, its standard deviation is sigma / sqrt(w_i).

    The likelihood is p(y_i | eta_i, sigma / sqrt(w_i)), so that n counts rows and log p gains sum_i log(w_i) / 2; for
    likelihoods with a noise scale, Gaussian (weighted least squares) and StudentT. sigma belongs to a row of weight 1.

    Parameters
    ----------
    w : array (n,) or str
        Relative precisions, finite, not negative, in units of 1 / sigma^2; 0 drops a row. Or a column's name.

    Returns
    -------
    RowWeights
        For the argument `weights=`.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1.0, 2.0, 4.0], [1.0, 2.0, 6.0], weights=pr.weights.precision([1.0, 0.25, 4.0]))
    >>> pr.fit(model).coef.values.round(3).tolist()
    [-0.795, 1.696]
    """
    return RowWeights("precision", w)


def sampling(w: ArrayLike | str) -> RowWeights:
    """Weights as inverse probabilities of selection: row i represents w_i units of a population.

    The estimate maximises the pseudo-likelihood sum_i w_i log p(y_i | eta_i), w normalised to sum to n; its errors are the
    sandwich with M = n/(n - 1) sum_i w_i^2 u_i u_i' of the rows' scores u_i, where rows are the sampled units.

    Parameters
    ----------
    w : array (n,) or str
        Weights in any unit, finite, not negative; 0 drops a row. Or a column's name.

    Returns
    -------
    RowWeights
        For the argument `weights=`.

    References
    ----------
    Binder, D. (1983). On the variances of asymptotically normal estimators from complex surveys. International
    Statistical Review 51, 279-292.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1, 2, 3, 4], [0, 2, 1, 5], likelihood="poisson", weights=pr.weights.sampling([1, 9, 2, 3]))
    >>> pr.fit(model).covariance().attrs["kind"]
    'sampling-weighted'
    """
    return RowWeights("sampling", w)


def read_weights(weights: Any) -> tuple[WeightKind, Any]:
    """Return the kind of weights, and their values or the name of their column; plain weights are frequencies."""
    if isinstance(weights, RowWeights):
        if weights.values is None:
            raise DataError(
                f"pr.weights.{weights.kind}(None) has no weights: give one number per row, or leave weights= out"
            )
        return weights.kind, weights.values
    if weights is precision or weights is sampling:
        raise DataError(
            f"weights is pr.weights.{weights.__name__} itself: give it the weights, {weights.__name__}(w)"
        )
    return "frequency", weights


def named_weights(text: str | None) -> str | RowWeights | None:
    """Read weights from a command line: "w" is a column of frequencies; "precision:w" and "sampling:w" give the kind.

    >>> named_weights("precision:w").kind
    'precision'
    """
    kind, colon, name = (text or "").partition(":")
    makes = {"precision": precision, "sampling": sampling}
    if colon and kind in makes:
        return makes[kind](name)
    if colon and kind == "frequency":
        return name
    return text


def kind_of_blocks(weights: Callable[[Any], RowWeights] | None) -> WeightKind:
    """Return the kind of weights in blocks of rows, from None or the function `precision` or `sampling`."""
    if weights is None:
        return "frequency"
    if weights is precision:
        return "precision"
    if weights is sampling:
        return "sampling"
    raise DataError(
        "weights= of blocks says what the third array of each block is: pr.weights.precision, pr.weights.sampling, or None "
        f"for frequencies; got {type(weights).__name__}"
    )


def check_values(
    values: Array,
    kind: WeightKind,
    *,
    column: str | None = None,
    may_vanish: bool,
) -> Array:
    """Check weights: finite, not negative, whole numbers for frequencies; not all of them zero unless they `may_vanish`.

    Errors name the column, if there is one, and the row.
    """
    name = "" if column is None else f" {column!r}"
    before = f"the weight{name} of "
    require_rows(
        np.isfinite(values) & (values >= 0),
        before,
        " is {}; weights are finite and not negative (0 leaves a row out)",
        values,
    )
    if kind == "frequency":
        require_rows(
            values % 1 == 0,
            before,
            f" is {{:g}}, and plain weights are frequencies, whole numbers ({{rows}}). {THREE}",
            values,
        )
    with np.errstate(over="ignore"):
        total = values.sum()
    if not np.isfinite(total):
        raise DataError(
            f"the weights{name} sum to more than 1.8e308, the largest number a float holds: take a larger unit"
        )
    if not may_vanish and not total > 0:
        raise DataError(f"the weights{name} sum to zero: no observation is left")
    return values
