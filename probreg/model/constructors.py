"""The ways to a model: from a formula and a table, from arrays, and from rows that stay where they are.

Each reads the data into a design, binds the likelihood to the response, and hands both to the model it makes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np

from probreg.arguments.arrays import same_rows
from probreg.arguments.keywords import only_known
from probreg.arguments.scalars import shown_value
from probreg.data import Design, as_response, from_arrays, from_reading, trying
from probreg.data.blocks.files import files_of
from probreg.data.blocks.slices import array_blocks, slices
from probreg.data.formula.layout import Counted
from probreg.data.weights import RowWeights, kind_of_blocks, precision, read_weights, sampling
from probreg.errors import DataError, Incompatible
from probreg.likelihoods import LIKELIHOODS, Gaussian, Likelihood
from probreg.likelihoods.base import Level
from probreg.model.compatibility import counting, of_rows, with_unused, without_zero_weights
from probreg.model.from_dask import from_dask, from_dask_arrays
from probreg.model.from_files import Response, from_files, from_slices
from probreg.priors import AuxPrior, Flat, Prior
from probreg.priors.joint import Key

Array = np.ndarray
FLAT, GAUSSIAN = Flat(), Gaussian()


class FromData(ABC):
    """What makes models out of data."""

    @classmethod
    @abstractmethod
    def _of(
        cls,
        design: Design,
        likelihood: Likelihood,
        prior: Prior | Mapping[Key, Prior],
        aux: Mapping[str, float | AuxPrior],
    ) -> Self:
        """The model of a design that holds its response, and of a likelihood that knows its levels."""

    @classmethod
    @only_known
    def from_formula(
        cls,
        formula: str,
        data: Any,
        *,
        likelihood: Likelihood | str | None = None,
        prior: Prior | Mapping[Key, Prior] = FLAT,
        aux: Mapping[str, float | AuxPrior] = MappingProxyType({}),
        weights: Any = None,
        offset: Any = None,
        event: Level | None = None,
        reference: Level | None = None,
        missing: Literal["raise", "drop"] = "raise",
    ) -> Self:
        """A model from a formula such as `"y ~ x1 + C(g) + bs(x2, df=4)"` and a table (pandas, polars, arrow, mapping).

        `likelihood` is Gaussian unless stated, but for responses that count: `p(successes, trials) ~ x` is Binomial and
        `counts(a, b, c) ~ x` Multinomial, a row being one observation.
        `weights` are frequencies (a column's name or an array), or say their kind: `pr.weights.precision(w)`,
        `pr.weights.sampling(w)`; `offset` is an expression over columns or an array;
        `event` is the modelled level of a Bernoulli response, `reference` the base class of a softmax;
        `missing="drop"` leaves incomplete rows out and says which.
        DataError for what is wrong with the data, naming column, row and value.
        """
        from probreg.data.formula.formula import read_formula

        same_rows(**{"the data": data, "weights": weights, "offset": offset})
        reading = read_formula(formula, data, weights=weights, offset=offset, missing=missing)
        design, values, levels = from_reading(reading)
        return cls._bound(
            design, _stated(likelihood), values, levels, counts=reading.counted,
            prior=prior, aux=aux, event=event, reference=reference,
        )  # fmt: skip

    @classmethod
    @only_known
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        *,
        columns: Sequence[str] | None = None,
        intercept: bool = True,
        likelihood: Likelihood | str | None = None,
        prior: Prior | Mapping[Key, Prior] = FLAT,
        aux: Mapping[str, float | AuxPrior] = MappingProxyType({}),
        weights: Any = None,
        offset: Any = None,
        trials: Any = None,
        event: Level | None = None,
        reference: Level | None = None,
        response: str = "y",
    ) -> Self:
        """A model from a matrix X (n, q) and a response y (n,), or counts by class (n, K), no formula needed.

        `columns` names the columns (x1, x2, ... without it); a column of ones is put in front unless `intercept=False`.
        With `trials` (n,) y counts successes (Binomial); counts (n, K) are Multinomial. Other arguments as in `from_formula`. DataError as there.
        """
        same_rows(X=X, y=y, weights=weights, offset=offset, trials=trials)
        named = _stated(likelihood) or counting(None, None if trials is None else "p")[0]
        if isinstance(X, np.memmap):
            kind, values = read_weights(weights)
            return cls.from_blocks(
                slices(X, y, values, offset, trials), columns=columns, intercept=intercept, likelihood=named,
                prior=prior, aux=aux, event=event, reference=reference, response=response, width=X.shape[1] if X.ndim == 2 else 1,
                weights={"precision": precision, "sampling": sampling}.get(kind),
            )  # fmt: skip
        design = from_arrays(X, columns=columns, intercept=intercept, response=response, offset=offset, weights=weights)
        values, levels = as_response(y)
        if not values.ndim:
            raise DataError(f"y has one value per row of X, got {y!r}")
        if len(values) != design.n:
            raise DataError(f"X has {design.n} rows and y has {len(values)}: they must match")
        values, counts = of_rows(named, values, trials)
        design = replace(design, weights=trying(values, counts, design.weights))
        return cls._bound(
            design, named, values, levels, counts=counts,
            prior=prior, aux=aux, event=event, reference=reference,
        )  # fmt: skip

    @classmethod
    def from_parquet(cls, formula: str, path: Any, **settings: Any) -> Self:
        """A model of rows that stay in Parquet files, read by the block: `from_files(..., format="parquet")`."""
        return cls.from_files(formula, path, format="parquet", **settings)

    @classmethod
    @only_known
    def from_files(
        cls,
        formula: str,
        path: Any,
        *,
        format: Literal["parquet", "arrow", "csv", "tsv"] | None = None,
        likelihood: Likelihood | str | None = None,
        prior: Prior | Mapping[Key, Prior] = FLAT,
        aux: Mapping[str, float | AuxPrior] = MappingProxyType({}),
        weights: str | RowWeights | None = None,
        offset: str | None = None,
        event: Level | None = None,
        reference: Level | None = None,
        missing: Literal["raise", "drop"] = "raise",
        progress: bool | None = None,
    ) -> Self:
        """A model of rows that stay in Parquet, Arrow IPC (feather) or CSV files: memory does not grow with their number.

        `path` is a file, a folder (its files by name) or a list of these, whose format their names tell unless `format`
        does. The other arguments are those of `from_formula`, with `weights` the name of a column and `offset` a column or an
        expression. `progress` writes a line per pass to stderr (None: when a pass takes a second at a terminal). What needs
        all rows at once, such as residuals, refuses; see docs/rows.md. DataError names file, column, row and value of what is
        wrong; Incompatible when pyarrow is not installed.
        """
        kind = _stated(likelihood)
        design, bound = from_files(
            formula, files_of(path, format), kind, Response(event, reference), weights=weights, offset=offset,
            missing=missing, progress=progress,
        )  # fmt: skip
        return cls._of(design, bound, prior, aux)

    @classmethod
    @only_known
    def from_blocks(
        cls,
        blocks: Callable[[], Iterable[Sequence[Any]]] | Sequence[Sequence[Any]],
        *,
        columns: Sequence[str] | None = None,
        intercept: bool = True,
        likelihood: Likelihood | str = GAUSSIAN,
        prior: Prior | Mapping[Key, Prior] = FLAT,
        aux: Mapping[str, float | AuxPrior] = MappingProxyType({}),
        weights: Callable[[Any], RowWeights] | None = None,
        event: Level | None = None,
        reference: Level | None = None,
        response: str = "y",
        width: int | None = None,
        progress: bool | None = None,
    ) -> Self:
        """A model of rows that come in blocks (X, y), (X, y, weights), (X, y, weights, offset) or (X, y, weights, offset,
        trials), None standing for what there is not, one at a time.

        `blocks` is called at the start of each pass and yields the same blocks each time (a list of blocks does too).
        `weights` says what the third array of each block is, `pr.weights.precision` or `pr.weights.sampling`; frequencies
        without it. Other arguments as in `from_arrays`; `width` is the number of columns, for a `blocks` whose first block is costly to make twice.

        >>> from probreg.model.model import Model
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 2.5, 2.0, 4.0])
        >>> Model.from_blocks([(X[:3], y[:3]), (X[3:], y[3:])], columns=["dose"])
        Model: the mean of y, with Gaussian noise of standard deviation sigma
          rows 4 of blocks, columns Intercept, dose; prior flat; sigma ~ reference
        """
        named, kind = _named(likelihood), kind_of_blocks(weights)
        compose = partial(of_rows, named)
        making = array_blocks(blocks, columns=columns, intercept=intercept, width=width, kind=kind, compose=compose)
        chosen = Response(event, reference)
        design, bound = from_slices(making, named, chosen, name=response, progress=progress)
        return cls._of(design, bound, prior, aux)

    @classmethod
    @only_known
    def from_dask(
        cls,
        formula: str,
        data: Any,
        *,
        client: Any = None,
        likelihood: Likelihood | str | None = None,
        prior: Prior | Mapping[Key, Prior] = FLAT,
        aux: Mapping[str, float | AuxPrior] = MappingProxyType({}),
        weights: str | RowWeights | None = None,
        offset: str | None = None,
        event: Level | None = None,
        reference: Level | None = None,
        missing: Literal["raise", "drop"] = "raise",
    ) -> Self:
        """A model of rows that stay on the workers of a dask cluster: sums over partitions are all that travels, with at
        most 20,000 evenly spaced rows.

        `data` is a dask DataFrame, or the path of Parquet files (a list of them) that every worker can read; what dask has
        persisted stays in the memory of the workers, anything else is made anew in each pass. `client` is the
        dask.distributed.Client to use; without it dask's current one, or its threads on this machine. The other arguments are
        those of `from_files`. DataError names partition, column, row and value of what is wrong; Incompatible when dask is
        not installed; a fit raises ProbregError when workers or client are lost. See docs/cluster.md.
        """
        design, bound = from_dask(
            formula, data, _stated(likelihood), Response(event, reference), client=client, weights=weights,
            offset=offset, missing=missing,
        )  # fmt: skip
        return cls._of(design, bound, prior, aux)

    @classmethod
    @only_known
    def from_dask_arrays(
        cls,
        X: Any,
        y: Any,
        *,
        client: Any = None,
        columns: Sequence[str] | None = None,
        intercept: bool = True,
        likelihood: Likelihood | str = GAUSSIAN,
        prior: Prior | Mapping[Key, Prior] = FLAT,
        aux: Mapping[str, float | AuxPrior] = MappingProxyType({}),
        weights: Any = None,
        offset: Any = None,
        trials: Any = None,
        event: Level | None = None,
        reference: Level | None = None,
        response: str = "y",
    ) -> Self:
        """The same of dask arrays: X (n, q), y (n,) or counts (n, K), and `weights` (n,), `offset` (n,) or (n, m) and `trials`
        (n,) if there are any, which are cut where X is. Other arguments as in `from_arrays`, errors as in `from_dask`.
        """
        design, bound = from_dask_arrays(
            X, y, _named(likelihood), Response(event, reference), client=client, columns=columns,
            intercept=intercept, weights=weights, offset=offset, trials=trials, name=response,
        )  # fmt: skip
        return cls._of(design, bound, prior, aux)

    @classmethod
    def _bound(
        cls,
        design: Design,
        likelihood: Likelihood | None,
        values: Array,
        levels: tuple[Level, ...] | None,
        *,
        counts: Counted | None,
        prior: Prior | Mapping[Key, Prior],
        aux: Mapping[str, float | AuxPrior],
        event: Level | None,
        reference: Level | None,
    ) -> Self:
        kind, said = counting(likelihood, counts)
        design, values, left = without_zero_weights(replace(design, notes=(*design.notes, *said)), values)
        bound = kind.prepare(values, levels=levels, event=event, reference=reference)
        design = with_unused(replace(design, y=bound.encode(values)), left, bound)
        return cls._of(design, bound, prior, aux)


def _stated(given: Likelihood | str | None) -> Likelihood | None:
    """The likelihood that was asked for; None leaves it to the response."""
    return None if given is None else _named(given)


def _named(given: Likelihood | str) -> Likelihood:
    found = LIKELIHOODS.resolve(given)
    if not isinstance(found, Likelihood):
        kind = type(found)
        met = shown_value(found) if isinstance(found, type) else f"{kind.__name__} from {kind.__module__}"
        raise Incompatible(f"likelihood is a Likelihood or the name of one, got {met}")
    return found
