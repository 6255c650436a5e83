"""Constructors of models: from a formula and a table, from arrays, and from rows that stay in files, blocks or dask.

Each reads the data into a design, binds the likelihood to the response, and makes the model from both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np

from probreg.arguments.arrays import same_rows
from probreg.arguments.scalars import ArrayLike, TableLike, only_known
from probreg.data import (
    INTERCEPT,
    AnyMoments,
    ArrayColumns,
    ArrowMoments,
    Design,
    Moments,
    as_response,
    from_arrays,
    own_name,
    weights_without_empty_trials,
)
from probreg.data.censoring import CensoredResponse
from probreg.data.weights import (
    RowWeights,
    WeightsLike,
    kind_of_blocks,
    read_weights,
)
from probreg.errors import DataError, Incompatible, rows_named
from probreg.formula.terms import Counted
from probreg.likelihoods import Gaussian, Likelihood
from probreg.likelihoods.base import Level, LikelihoodName
from probreg.model.compatibility import (
    Choices,
    notes_on_empty_classes,
    of_rows,
    response_of_counts,
    with_formulas,
    without_zero_weights,
)
from probreg.priors import Flat
from probreg.priors.text import AuxLike, PriorLike

Array = np.ndarray
FLAT = Flat()
GAUSSIAN = Gaussian()


class FromData(ABC):
    """Constructors of models from data."""

    @classmethod
    @abstractmethod
    def _from_design(
        cls,
        design: Design,
        likelihood: Likelihood,
        prior: PriorLike,
        aux: AuxLike,
    ) -> Self:
        """Return the model of a design and a likelihood: the design gets the response, and the likelihood its levels."""

    @classmethod
    def _from_choices(cls, choices: Choices, read: tuple[Design, Likelihood]) -> Self:
        """Return the model of a design, a response and the user's choices."""
        return cls._from_design(*read, choices.prior, choices.aux)

    @classmethod
    @only_known
    def from_formula(
        cls,
        formula: str | Mapping[str, str],
        data: TableLike,
        *,
        likelihood: Likelihood | LikelihoodName | None = None,
        prior: PriorLike = FLAT,
        aux: AuxLike = MappingProxyType({}),
        weights: WeightsLike | None = None,
        offset: str | ArrayLike | None = None,
        event: Level | None = None,
        reference: Level | None = None,
        missing: Literal["raise", "drop"] = "raise",
    ) -> Self:
        """A model from a formula (`"y ~ x1 + C(g) + bs(x2, df=4)"`) and a table.

        Parameters
        ----------
        formula : str or mapping of str to str
            Response and terms, or one formula for each linear predictor: `{"y": "y ~ x", "log sigma": "~ z"}` names the
            parameters of the likelihood (`likelihood.parameters`) that have their own columns. `p(successes, trials) ~ x`
            counts trials and `counts(a, b, c) ~ x` counts classes; a row is one observation. `cens(time, event)`,
            `cens(lower, upper)` and `cens(y, lower=0)` are censored responses, and `trunc(y, lower=1)` is a truncated one.
        data : table
            pandas, polars, arrow, or a mapping from names to columns.
        likelihood : Likelihood or str, optional
            Gaussian unless stated; Binomial for `p(...)` and Multinomial for `counts(...)`.
        prior : Prior or str or mapping
            One prior for every column except the intercept, or a mapping from columns to priors; each an object or a
            text ("normal(2.5)"). "weak" is Normal(2.5, scaled=True): N(0, 2.5 sd(y)/sd(x)), with sd(y) = 1 without a noise
            scale.
        aux : mapping
            From a nuisance parameter to a number (known) or to a prior (unknown), an object or its text.
        weights : str or array (n,) or RowWeights, optional
            Frequencies (a column's name or an array), or `pr.weights.precision(w)`, `pr.weights.sampling(w)`.
        offset : str or array (n,), optional
            An expression over columns, or an array; added to the linear predictor, for a softmax to each of them. `from_arrays` also takes an array (n, m).
        event : level, optional
            The modelled level of a Bernoulli response; without it the one that sorts last.
        reference : level, optional
            The base class of a softmax.
        missing : {"raise", "drop"}
            "drop" omits incomplete rows and reports them in a note.

        Returns
        -------
        Model
            The model.

        Raises
        ------
        DataError
            For invalid data, with column, row and value.

        Examples
        --------
        >>> from probreg.model.model import Model
        >>> Model.from_formula("y ~ x", {"y": [1.0, 2.0, 4.0], "x": [0.0, 1.0, 2.0]}).design.columns
        ('Intercept', 'x')
        """
        from probreg.data.formula.formula import read_formula

        _, row_weights = read_weights(weights)
        same_rows(**{"the data": data, "weights": row_weights, "offset": offset})
        reading = read_formula(
            formula, data, weights=weights, offset=offset, missing=missing
        )
        choices = Choices(likelihood, prior, aux, event, reference)
        return cls._from_choices(
            choices,
            in_memory(
                reading.design,
                reading.response,
                reading.levels,
                choices,
                counts=reading.counted,
            ),
        )

    @classmethod
    @only_known
    def from_arrays(
        cls,
        X: ArrayLike,
        y: ArrayLike | CensoredResponse,
        *,
        columns: Sequence[str] | None = None,
        intercept: bool = True,
        likelihood: Likelihood | LikelihoodName | None = None,
        prior: PriorLike = FLAT,
        aux: AuxLike = MappingProxyType({}),
        weights: WeightsLike | None = None,
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        event: Level | None = None,
        reference: Level | None = None,
        response: str | None = None,
    ) -> Self:
        """A model from a matrix X and a response y, without a formula.

        Parameters
        ----------
        X : array (n, q)
            The columns, without a column of ones.
        y : array (n,) or (n, K)
            The response; counts (n, K) are Multinomial, and `pr.censored(time, event)` is a censored response.
        columns : sequence of str, optional
            Names of the columns; x1, x2, ... without it.
        intercept : bool
            Whether a column of ones is put in front.
        likelihood : Likelihood or str, optional
            Gaussian unless stated; Binomial with `trials`.
        prior : Prior or str or mapping
            One prior for every column except the intercept, or a mapping from columns to priors; each an object or a
            text ("normal(2.5)"). "weak" is Normal(2.5, scaled=True): N(0, 2.5 sd(y)/sd(x)), with sd(y) = 1 without a noise
            scale.
        aux : mapping
            From a nuisance parameter to a number (known) or to a prior (unknown), an object or its text.
        weights : array (n,) or RowWeights, optional
            Frequencies, or `pr.weights.precision(w)`, `pr.weights.sampling(w)`.
        offset : array (n,) or (n, m), optional
            Added to the linear predictor.
        trials : array (n,), optional
            With it y counts successes (Binomial).
        event : level, optional
            The modelled level of a Bernoulli response; without it the one that sorts last.
        reference : level, optional
            The base class of a softmax.
        response : str, optional
            The name of y; by default the name of the column y, or "y".

        Returns
        -------
        Model
            The model.

        Raises
        ------
        DataError
            For invalid data, with column, row and value.

        Examples
        --------
        >>> from probreg.model.model import Model
        >>> Model.from_arrays([0.0, 1.0, 2.0], [1.0, 2.0, 4.0], columns=["dose"]).design.columns
        ('Intercept', 'dose')
        """
        if response is None:
            response = own_name(y)
        _, row_weights = read_weights(weights)
        same_rows(X=X, y=y, weights=row_weights, offset=offset, trials=trials)
        if likelihood is None:
            likelihood, _ = response_of_counts(None, None if trials is None else "p")
        choices = Choices(likelihood, prior, aux, event, reference)
        design = from_arrays(
            X, columns=columns, intercept=intercept, response=response, offset=offset, weights=weights,
        )  # fmt: skip
        if isinstance(y, CensoredResponse):
            values, levels = y.ends, None
        else:
            values, levels = as_response(y)
        if not values.ndim:
            raise DataError(f"y has one value per row of X, got {y!r}")
        if len(values) != design.n:
            raise DataError(
                f"X has {design.n} rows and y has {len(values)}: they must match"
            )
        counts: Counted | None = "cens"
        if not isinstance(y, CensoredResponse):
            values, counts = of_rows(choices.likelihood, values, trials)
        design = replace(
            design, weights=weights_without_empty_trials(values, counts, design.weights)
        )
        return cls._from_choices(
            choices, in_memory(design, values, levels, choices, counts=counts)
        )

    @classmethod
    def from_parquet(
        cls,
        formula: str | Mapping[str, str],
        path: str | Path | Sequence[str | Path],
        **settings: Any,
    ) -> Self:
        """A model of rows that stay in Parquet files and are read in blocks: `from_files(..., format="parquet")`.

        Parameters
        ----------
        formula : str or mapping of str to str
            As in `from_formula`.
        path : path or list of paths
            Files or folders.
        **settings
            As in `from_files`.

        Returns
        -------
        Model
            The model.
        """
        return cls.from_files(formula, path, format="parquet", **settings)

    @classmethod
    @only_known
    def from_files(
        cls,
        formula: str | Mapping[str, str],
        path: str | Path | Sequence[str | Path],
        *,
        format: Literal["parquet", "arrow", "csv", "tsv"] | None = None,
        likelihood: Likelihood | LikelihoodName | None = None,
        prior: PriorLike = FLAT,
        aux: AuxLike = MappingProxyType({}),
        weights: str | RowWeights | None = None,
        offset: str | None = None,
        event: Level | None = None,
        reference: Level | None = None,
        missing: Literal["raise", "drop"] = "raise",
        progress: bool | None = None,
    ) -> Self:
        """A model of rows that stay in Parquet, Arrow IPC (feather) or CSV files: memory does not grow with their number.

        A method that needs all rows at once, such as residuals, raises an error; see docs/how-to/rows.md.

        Parameters
        ----------
        formula : str or mapping of str to str
            As in `from_formula`.
        path : path or list of paths
            A file, a folder (its files by name), or a list of these.
        format : {"parquet", "arrow", "csv", "tsv"}, optional
            The format of the files; by default from their names.
        likelihood : Likelihood or str, optional
            Gaussian unless stated; Binomial for `p(...)` and Multinomial for `counts(...)`.
        prior : Prior or str or mapping
            One prior for every column except the intercept, or a mapping from columns to priors; each an object or a
            text ("normal(2.5)"). "weak" is Normal(2.5, scaled=True): N(0, 2.5 sd(y)/sd(x)), with sd(y) = 1 without a noise
            scale.
        aux : mapping
            From a nuisance parameter to a number (known) or to a prior (unknown), an object or its text.
        weights : str or RowWeights, optional
            The name of a column of frequencies, or a column with its kind: `pr.weights.precision("w")`.
        offset : str, optional
            A column or an expression; added to the linear predictor.
        event : level, optional
            The modelled level of a Bernoulli response; without it the one that sorts last.
        reference : level, optional
            The base class of a softmax.
        missing : {"raise", "drop"}
            "drop" omits incomplete rows and reports them in a note.
        progress : bool, optional
            Whether to show a progress bar of each pass; by default after a second, in a terminal or in a notebook.

        Returns
        -------
        Model
            The model.

        Raises
        ------
        DataError
            For invalid data, with file, column, row and value.
        Incompatible
            When pyarrow is not installed.
        """
        from probreg.data.blocks.files import files_of
        from probreg.model.from_parts import from_tables

        choices = Choices(likelihood, prior, aux, event, reference)
        files = files_of(path, format, progress)
        read = from_tables(
            formula, files, choices, weights=weights, offset=offset, missing=missing
        )
        return cls._from_choices(choices, read)

    @classmethod
    @only_known
    def from_blocks(
        cls,
        blocks: Callable[[], Iterable[Sequence[Any]]] | Sequence[Sequence[Any]],
        *,
        columns: Sequence[str] | None = None,
        intercept: bool = True,
        likelihood: Likelihood | LikelihoodName = GAUSSIAN,
        prior: PriorLike = FLAT,
        aux: AuxLike = MappingProxyType({}),
        weights: Callable[[Any], RowWeights] | None = None,
        event: Level | None = None,
        reference: Level | None = None,
        response: str | None = None,
        progress: bool | None = None,
    ) -> Self:
        """A model of rows that come in blocks (X, y), one block at a time, optionally with weights, offset and trials.

        Parameters
        ----------
        blocks : callable or sequence
            Called at the start of each pass, it yields the same blocks each time; a list of blocks does too. A block is
            (X, y), (X, y, weights), (X, y, weights, offset) or (X, y, weights, offset, trials); write None for an
            array that does not exist.
        columns : sequence of str, optional
            Names of the columns; x1, x2, ... without it.
        intercept : bool
            Whether a column of ones is put in front.
        likelihood : Likelihood or str
            A likelihood, or its name in `LIKELIHOODS`.
        prior : Prior or str or mapping
            One prior for every column except the intercept, or a mapping from columns to priors; each an object or a
            text ("normal(2.5)"). "weak" is Normal(2.5, scaled=True): N(0, 2.5 sd(y)/sd(x)), with sd(y) = 1 without a noise
            scale.
        aux : mapping
            From a nuisance parameter to a number (known) or to a prior (unknown), an object or its text.
        weights : callable, optional
            The kind of the third array of each block: `pr.weights.precision` or `pr.weights.sampling`; frequencies without
            it.
        event : level, optional
            The modelled level of a Bernoulli response; without it the one that sorts last.
        reference : level, optional
            The base class of a softmax.
        response : str, optional
            The name of y; by default the name of the column y, or "y".
        progress : bool, optional
            Whether to show a progress bar of each pass; by default after a second, in a terminal or in a notebook.

        Returns
        -------
        Model
            The model.

        Examples
        --------
        >>> from probreg.model.model import Model
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 2.5, 2.0, 4.0])
        >>> Model.from_blocks([(X[:3], y[:3]), (X[3:], y[3:])], columns=["dose"])
        Model: the mean of y, with Gaussian noise of standard deviation sigma
          rows 4 of blocks, columns Intercept, dose; prior flat; sigma ~ reference
        """
        from probreg.data.blocks.batches import array_blocks
        from probreg.model.from_parts import from_array_blocks

        if likelihood is None:
            raise Incompatible(
                "likelihood=None: name the likelihood of the blocks, or leave likelihood= out for Gaussian noise"
            )
        kind = kind_of_blocks(weights)
        choices = Choices(likelihood, prior, aux, event, reference)
        compose = partial(of_rows, choices.likelihood)
        making, parts = array_blocks(
            blocks,
            columns=columns,
            intercept=intercept,
            kind=kind,
            compose=compose,
            progress=progress,
        )
        return cls._from_choices(
            choices, from_array_blocks(making, parts, choices, response=response or "y")
        )

    @classmethod
    @only_known
    def from_dask(
        cls,
        formula: str | Mapping[str, str],
        data: Any,
        *,
        client: Any = None,
        likelihood: Likelihood | LikelihoodName | None = None,
        prior: PriorLike = FLAT,
        aux: AuxLike = MappingProxyType({}),
        weights: str | RowWeights | None = None,
        offset: str | None = None,
        event: Level | None = None,
        reference: Level | None = None,
        missing: Literal["raise", "drop"] = "raise",
    ) -> Self:
        """A model of rows that stay on the workers of a dask cluster; the workers send sums over partitions.

        They also send at most 20,000 evenly spaced rows. Data that dask has persisted stay in the memory of the workers;
        other data are computed in each pass. A fit raises ProbregError if it loses the workers or the client. See
        docs/how-to/cluster.md.

        Parameters
        ----------
        formula : str or mapping of str to str
            As in `from_formula`.
        data : dask DataFrame
            The rows, for example from `dask.dataframe.read_parquet`.
        client : dask.distributed.Client, optional
            The client to use; without it dask's current one, or its threads on this machine.
        likelihood : Likelihood or str, optional
            Gaussian unless stated; Binomial for `p(...)` and Multinomial for `counts(...)`.
        prior : Prior or str or mapping
            One prior for every column except the intercept, or a mapping from columns to priors; each an object or a
            text ("normal(2.5)"). "weak" is Normal(2.5, scaled=True): N(0, 2.5 sd(y)/sd(x)), with sd(y) = 1 without a noise
            scale.
        aux : mapping
            From a nuisance parameter to a number (known) or to a prior (unknown), an object or its text.
        weights : str or RowWeights, optional
            The name of a column of frequencies, or a column with its kind: `pr.weights.precision("w")`.
        offset : str, optional
            A column or an expression; added to the linear predictor.
        event : level, optional
            The modelled level of a Bernoulli response; without it the one that sorts last.
        reference : level, optional
            The base class of a softmax.
        missing : {"raise", "drop"}
            "drop" omits incomplete rows and reports them in a note.

        Returns
        -------
        Model
            The model.

        Raises
        ------
        DataError
            For invalid data, with partition, column, row and value.
        Incompatible
            When dask is not installed.
        """
        from probreg.data.blocks.frames import frame_of
        from probreg.model.from_parts import from_tables

        choices = Choices(likelihood, prior, aux, event, reference)
        frame = frame_of(data, client)
        read = from_tables(
            formula, frame, choices, weights=weights, offset=offset, missing=missing
        )
        return cls._from_choices(choices, read)

    @classmethod
    @only_known
    def from_moments(
        cls,
        *moments: AnyMoments | str | Path,
        prior: PriorLike = FLAT,
        aux: AuxLike = MappingProxyType({}),
    ) -> Self:
        """A Gaussian model from the moments of rows: their sum determines the likelihood of beta and sigma.

        With F the factor of [X y], F'F = [X y]'W[X y] = sum_k F_k'F_k over the places k, log p(y | beta, sigma) is
        -W/2 log(2 pi sigma^2) - (RSS + ||z - R beta||^2) / (2 sigma^2), F = [[R, z], [0, sqrt(RSS)]]. A method that needs single
        rows (residuals, sandwich errors, leave-one-out) raises an error.

        Parameters
        ----------
        *moments : Moments or ArrowMoments or path
            The `model.moments` of each place, or files that their `save` wrote; they are added up. Groups of varying effects
            from all places are included.
        prior : Prior or str or mapping
            One prior for every column except the intercept, or a mapping from columns to priors; each an object or a
            text ("normal(2.5)"). "weak" is Normal(2.5, scaled=True): N(0, 2.5 sd(y)/sd(x)), with sd(y) = 1 without a noise
            scale.
        aux : mapping
            From a nuisance parameter to a number (known) or to a prior (unknown), an object or its text.

        Returns
        -------
        Model
            The model of the pooled rows; its `moments` are the sum.

        Raises
        ------
        DataError
            For moments of other columns, or of columns that were made with other levels, means or knots.

        References
        ----------
        Chan, Golub & LeVeque 1983.

        Examples
        --------
        >>> import probreg as pr
        >>> north = pr.Model.from_arrays([0.0, 1.0, 2.0], [1.0, 3.0, 4.0])
        >>> south = pr.Model.from_arrays([3.0, 5.0], [8.0, 12.0])
        >>> pr.fit(pr.Model.from_moments(north.moments, south.moments)).coef.round(3).values.tolist()
        [0.635, 2.257]
        """
        from probreg.data.grouped_moments import load_moments

        if not moments:
            raise DataError(
                "from_moments takes the moments of at least one place, or the files that hold them"
            )
        read = [load_moments(m) if isinstance(m, str | Path) else m for m in moments]
        odd = [m for m in read if not isinstance(m, Moments | ArrowMoments)]
        if odd:
            raise DataError(
                f"moments are what model.moments is, or the path of a file of them, got {type(odd[0]).__name__}"
            )
        total: Any = sum(read[1:], read[0])
        return cls._from_design(design_of_moments(total), Gaussian(), prior, aux)


def design_of_moments(moments: AnyMoments) -> Design:
    """Return the design that has these moments and no rows."""
    from probreg.data.array_columns import recipe_from_json

    origin = moments.origin
    columns = moments.columns
    settings: dict[str, Any] = {"response": "y"}
    if origin is not None:
        recipe = recipe_from_json(origin.saved_recipe())
        settings = {"response": origin.response, "weight_kind": origin.weights}
        if origin.offset:
            settings["offset"] = np.zeros((0, 1))
    elif isinstance(moments, ArrowMoments):
        raise DataError(
            "moments by group are taken with how their columns are made: as `model.moments` gives them"
        )
    else:
        has_intercept = columns[:1] == (INTERCEPT,)
        recipe = ArrayColumns(columns[has_intercept:], has_intercept)
    if tuple(recipe.columns) != columns:
        raise DataError(
            f"the moments are of {', '.join(columns)}, and their recipe makes {', '.join(recipe.columns)}"
        )
    return Design(
        X=np.zeros((0, len(columns))), y=np.zeros(0), columns=columns, recipe=recipe, kept=moments, of_moments=True, **settings,
    )  # fmt: skip


def in_memory(
    design: Design,
    values: Array,
    levels: tuple[Level, ...] | None,
    choices: Choices,
    *,
    counts: Counted | None,
) -> tuple[Design, Likelihood]:
    """Return the design of rows in memory, without rows of weight zero, and the likelihood prepared for their response."""
    likelihood, notes = response_of_counts(choices.likelihood, counts)
    design, values = without_zero_weights(
        replace(design, notes=(*design.notes, *notes)), values
    )
    with rows_named(design.labels):
        bound = likelihood.prepare(
            values, levels=levels, event=choices.event, reference=choices.reference
        )
        y = bound.encode(values)
    notes = notes_on_empty_classes(likelihood, bound, levels)
    design = replace(design, notes=(*design.notes, *notes))
    bound = with_formulas(bound, design, design.X)
    return replace(design, y=y), bound
