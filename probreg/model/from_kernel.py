"""Models of a Gaussian process at the rows of an array: the columns of a basis, and a prior of their coefficients."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from probreg.arguments.arrays import same_rows
from probreg.arguments.scalars import ArrayLike
from probreg.data import INTERCEPT, as_response, own_name
from probreg.data.array_columns import design_of_kernel
from probreg.data.weights import RowWeights, WeightsLike, read_weights
from probreg.errors import DataError
from probreg.kernels import CovarianceFunction
from probreg.likelihoods import Gaussian, Likelihood
from probreg.model.compatibility import Choices
from probreg.model.constructors import in_memory
from probreg.model.model import Model
from probreg.priors import Prior
from probreg.priors.text import AuxLike

Array = np.ndarray


def model_of_kernel(
    X: ArrayLike,
    y: ArrayLike,
    kernel: CovarianceFunction | str | None,
    prior: Prior,
    *,
    basis: str | None = "exact",
    length_known: bool = True,
    intercept: bool = True,
    likelihood: Likelihood | None = None,
    columns: Sequence[str] | None = None,
    aux: AuxLike = MappingProxyType({}),
    weights: WeightsLike | None = None,
    offset: ArrayLike | None = None,
    response: str | None = None,
    labels: ArrayLike | None = None,
    triangular: bool = False,
) -> Model:
    """Return the model of y given X (n, d) with the columns of a basis of a covariance function. Without `length_known` the length of
    a named function is the start of a search. A `triangular` exact basis has the columns of a Cholesky factor.

    >>> from probreg.priors import Normal
    >>> model_of_kernel([0.0, 1.0, 3.0], [1.0, 2.0, 0.0], "rbf", Normal(1.0)).design.columns
    ('Intercept', 'gp(x1)[1]', 'gp(x1)[2]', 'gp(x1)[3]')
    """
    if isinstance(X, str):
        raise DataError(
            f"X is the text {X!r}: expected an array of inputs. A formula of a process is Model.from_formula('y ~ gp(x)', data)"
        )
    same_rows(X=X, y=y, weights=read_weights(weights)[1], offset=offset)
    if response is None:
        response = own_name(y)
    design = design_of_kernel(
        X, kernel, basis=basis, length_known=length_known, columns=columns, intercept=intercept, response=response, offset=offset, weights=weights,
        labels=labels, triangular=triangular,
    )  # fmt: skip
    values, levels = as_response(y)
    if not values.ndim or len(values) != design.n:
        raise DataError(
            f"y has one value per row of X, which has {design.n}, got shape {values.shape}"
        )
    (key,) = design.recipe.processes
    choices = Choices(likelihood or Gaussian(), {key: prior}, aux, None, None)
    return Model._from_choices(
        choices, in_memory(design, values, levels, choices, counts=None)
    )


def inputs_of_formula(
    formula: str, data: Any, options: Mapping[str, Any]
) -> tuple[Array, Array, dict[str, Any]]:
    """Return the inputs (n, d) and the response of a formula of plain columns, and options with their names. Raise DataError for a
    formula with other terms.

    >>> x, y, options = inputs_of_formula("y ~ a + b", {"y": [1.0, 2.0], "a": [0.0, 1.0], "b": [3.0, 5.0]}, {})
    >>> x.tolist(), options["columns"], options["response"]
    ([[0.0, 3.0], [1.0, 5.0]], ('a', 'b'), 'y')
    """
    plain = Model.from_formula(
        formula,
        data,
        likelihood=Gaussian(),
        **{k: options[k] for k in ("weights", "offset", "missing") if k in options},
    )
    design = plain.design
    names = tuple(c for c in design.columns if c != INTERCEPT)
    recipe: Any = design.recipe  # the recipe of a formula, which has its variables
    odd = [c for c in names if c not in recipe.variables]
    if odd:
        raise DataError(
            f"a kernel of a formula takes plain columns of numbers, and {odd[0]!r} is none: pass the inputs as an array"
        )
    weights: Any = design.weights
    if design.precision is not None:
        weights = RowWeights("precision", design.precision)
    elif design.weight_kind == "sampling":
        weights = RowWeights("sampling", weights)
    stated: dict[str, Any] = {
        "columns": names,
        "response": design.response,
        "weights": weights,
        "offset": design.offset,
        "intercept": None if design.intercept is not None else False,
        "labels": design.labels,
    }
    stated = {word: value for word, value in stated.items() if value is not None}
    return (
        design.X[:, [design.columns.index(c) for c in names]],
        design.observed,
        {k: v for k, v in {**options, **stated}.items() if k != "missing"},
    )
