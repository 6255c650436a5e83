"""Checks that a design, a likelihood and priors fit together, before a fit starts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.arguments.scalars import Positive, read_argument, shown_value
from probreg.data import AbsentRows, Design, as_weights, read_column, with_trials
from probreg.data.checked_arrays import is_array
from probreg.data.formula.columns import read_columns
from probreg.data.formula.parameters import ParameterRecipe
from probreg.data.weights import WeightKind, read_weights
from probreg.errors import DataError, Incompatible, require_unicode
from probreg.formula.terms import Counted, Truncation
from probreg.likelihoods import (
    LIKELIHOODS,
    Binomial,
    Censored,
    Gaussian,
    Likelihood,
    MayDiverge,
    Multinomial,
    OfClasses,
    SoftmaxLikelihood,
    Truncated,
)
from probreg.likelihoods.base import Level
from probreg.likelihoods.distributional import OrdinalOfScale, with_predictors
from probreg.likelihoods.positive import PositiveLikelihood
from probreg.likelihoods.response import whole_counts
from probreg.priors import (
    AuxPrior,
    FisherPrior,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    JointPrior,
    LatentPrior,
    Prior,
    ProximalPrior,
    Reference,
    WholePrior,
)
from probreg.priors.joint import location_of
from probreg.priors.text import AuxLike, PriorLike, read_aux

Array = np.ndarray


def response_of_counts(
    likelihood: Likelihood | None, counted: Counted | None
) -> tuple[Likelihood, tuple[str, ...]]:
    """Return the likelihood of rows of counts ("p": successes of trials, "counts": by class), and notes on a changed likelihood.
    If none is given, the response determines it: Binomial for p(k, n), Multinomial for counts(...), else Gaussian.

    Raise Incompatible if the likelihood is not one for such counts. Bernoulli of p(k, n) becomes Binomial, and Categorical of
    counts becomes Multinomial.

    >>> from probreg.likelihoods import Bernoulli
    >>> response_of_counts(Bernoulli(), "p")[0]
    Binomial(trials=None, link='logit')
    """
    if likelihood is None and counted in ("p", "counts"):
        return {"p": Binomial, "counts": Multinomial}[counted](), ()
    likelihood = likelihood or Gaussian()
    if counted is None:
        return likelihood, ()
    if counted == "cens":
        if isinstance(likelihood, Censored):
            return likelihood, ()
        return Censored(likelihood), ()
    if isinstance(counted, Truncation):
        return Truncated(likelihood, *counted), ()
    count_likelihood = likelihood.of_counts()
    expected: Any = Multinomial
    content = "counts by class"
    row = "a row counts by class"
    if counted == "p":
        expected = Binomial
        content = "successes out of trials"
        row = "a row counts successes of trials"
    if not isinstance(count_likelihood, expected):
        hint = ""
        if count_likelihood is not None and expected is Multinomial:
            hint = "; for two classes write p(a, a + b)"
        raise Incompatible(
            f"{content} are {expected.__name__} observations, not {likelihood.name}{hint}"
        )
    if count_likelihood is likelihood:
        return likelihood, ()
    note = f"{row}: the likelihood is {expected.__name__}, the same model as {type(likelihood).__name__} of single trials"
    return count_likelihood, (note,)


@dataclass(frozen=True)
class Choices:
    """The likelihood, prior and parameters of a model as the user gave them to a constructor.

    `likelihood` is None if the response determines it; `event` is the modelled level, `reference` the base class.
    """

    likelihood: Any
    prior: PriorLike
    aux: AuxLike
    event: Level | None = None
    reference: Level | None = None

    def __post_init__(self) -> None:
        if self.likelihood is None:
            return
        resolved = LIKELIHOODS.resolve(self.likelihood)
        if not isinstance(resolved, Likelihood):
            shown = shown_value(resolved)
            if not isinstance(resolved, type):
                shown = f"{type(resolved).__name__} from {type(resolved).__module__}"
            raise Incompatible(
                f"likelihood is a Likelihood or the name of one, got {shown}"
            )
        object.__setattr__(self, "likelihood", resolved)


def notes_on_empty_classes(
    likelihood: Likelihood, bound: Likelihood, declared: Sequence[Level] | None
) -> tuple[str, ...]:
    """Return a note on the classes of the likelihood that no row has: the `bound` likelihood leaves them out. Levels declared
    in the data have their own note."""
    if not isinstance(likelihood, OfClasses):
        return ()
    used = {*bound.levels, *(declared or ())}
    empty = [str(level) for level in likelihood.stated_levels() if level not in used]
    if not empty:
        return ()
    return (f"the response has levels without rows, left out: {', '.join(empty)}",)


def of_rows(
    likelihood: Likelihood, values: Array, trials: Any
) -> tuple[Array, Counted | None]:
    """Return the response values, which are (n, 2) if trials are given, and the kind of their counts. Raise DataError or
    Incompatible for values that are no counts of the likelihood."""
    if trials is not None:
        response_of_counts(likelihood, "p")
        return with_trials(values, trials, len(values)), "p"
    # if the likelihood takes one column, `prepare` raises the error
    if np.ndim(values) != 2 or likelihood.of_counts() is None:
        return values, None
    if isinstance(likelihood.of_counts(), Binomial):
        raise DataError(
            f"y has {np.shape(values)[1]} columns, which may be failures or trials: pass the successes as y, and trials="
        )
    kind, _ = response_of_counts(likelihood, "counts")
    return whole_counts(values, type(kind).__name__), "counts"


class AbsentOutcomeError(DataError):
    """An outcome occurs in no row, so that an intercept without a prior has no estimate."""


def require_outcomes(model: Any) -> None:
    """Raise DataError if an outcome occurs in no row and a parameter with a flat prior goes to infinity for this reason: the
    intercept, or the dispersion of counts that are all zero, p(0) = (1 + alpha mu)^(-1 / alpha) -> 1."""
    design = model.design
    likelihood = model.likelihood
    if not isinstance(likelihood, MayDiverge):
        _require_variation(model)
        return
    absent = likelihood.absent_outcomes(design.sample.observed)
    if not absent.any():
        return
    i = design.intercept
    if i is None or model.joint.informative[i]:
        column = None
    else:
        column = design.columns[i]
    aux = next(
        (a for a in model.unknown if isinstance(model.aux_prior(a), Reference)), None
    )
    if column is None and aux is None:
        return
    if design.source is not None:
        absent = design.sum_over_rows(
            lambda block: likelihood.absent_outcomes(block.y), np.logical_and
        )
    if not absent.any():
        return
    if column is not None:
        raise AbsentOutcomeError(
            f"{likelihood.infinite_intercept(absent, design.count)}, since the prior of {column} is flat. Give every column a "
            f"proper prior, such as prior={{{column!r}: Normal(2.5), ...}}"
        )
    raise DataError(
        f"the response is 0 in every one of {design.count} rows: {aux} has no estimate, since its prior is flat. Give it a proper "
        f"prior, such as aux={{{aux!r}: HalfNormal(1.0)}}"
    )


def _require_variation(model: Any) -> None:
    """Raise DataError for a constant response if the noise scale has the flat default prior: its estimate is zero. The posterior
    exists if the scale is known or has a proper prior, or if all priors are in units of the scale."""
    design = model.design
    y = design.sample.observed
    constant = len(y) > 0 and y.ndim == 1 and y.min() == y.max()
    flat = [a for a in model.unknown if isinstance(model.aux_prior(a), Reference)]
    if not constant or not flat or model.joint.sigma_units.all():
        return
    if design.source is not None and design.sum_over_rows(
        lambda block: (block.y != y[0]).any(), np.logical_or
    ):
        return
    raise DataError(
        f"the response is constant (every one of {design.count} rows holds {y[0]:g}), so that the estimate of {flat[0]} is 0. "
        f"Give {flat[0]} a proper prior, such as aux={{{flat[0]!r}: InverseGamma(1.0, 1.0)}}, or hold it at a number"
    )


def require_units(design: Design) -> None:
    """Raise DataError for a column with so little variation that the square of its spread underflows."""
    smallest = 1e-150  # the square of a smaller spread underflows
    if not design.sample.n:
        return
    scale = design.basis.scale
    tiny = np.flatnonzero((scale > 0.0) & (scale < smallest))
    if len(tiny):
        j = int(tiny[0])
        raise DataError(
            f"column {design.columns[j]!r} varies by {scale[j]:.3g}, whose square is below double precision: state it in another unit"
        )


def require_digits(model: Any) -> None:
    """Raise DataError for a column with a prior, in a model with an intercept, if its values are so large that their differences
    have no digits. Without a prior the fit reports the column as not identified, since it is a multiple of the intercept."""
    design = model.design
    if design.intercept is None:
        return
    for j in design.imprecise_columns:
        if model.joint.informative[j]:
            x = design.sample.X[:, j]
            raise DataError(
                f"column {design.columns[j]!r} varies by {np.ptp(x):.3g} about {x[0]:.6g}, of which double precision keeps "
                f"fewer than four digits: subtract {x[0]:.6g} before it is stored"
            )


def read_checked_aux(
    likelihood: Likelihood, aux: AuxLike
) -> dict[str, float | AuxPrior]:
    """Return the numbers and priors of nuisance parameters, with the default priors of the likelihood. Raise DataError for a
    parameter that the likelihood lacks, and for a value that is neither a positive number nor a prior of a positive number.
    """
    values = read_aux(aux)
    for name, value in values.items():
        if name not in likelihood.nuisance:
            raise DataError(
                f"{likelihood.named} likelihood has no parameter {name!r}; it has: {', '.join(likelihood.nuisance) or 'none'}"
            )
        if isinstance(value, Prior):
            raise DataError(
                f"{name} is positive: its prior is one of priors.HalfNormal, HalfCauchy, HalfStudentT, Exponential, Gamma, Uniform, InverseGamma, LogNormal, Reference, not {type(value).__name__}"
            )
        read_argument(name, value, Positive | AuxPrior)
    return read_aux({**likelihood.default_aux, **values})


def require_proper_aux(likelihood: Likelihood, aux: AuxLike) -> None:
    """Raise DataError for an improper prior of a nuisance parameter that needs a proper one."""
    for name, value in read_aux(aux).items():
        if name in likelihood.default_aux and not getattr(value, "proper", True):
            raise DataError(
                f"{name} needs a proper prior, because the likelihood is unbounded where {name} is small: give it one, such as "
                f"{likelihood.default_aux[name]}, or hold it at a number"
            )


def without_zero_weights(design: Design, values: Array) -> tuple[Design, Array]:
    """Return the design and the response without rows of weight zero, which are no observations and must not affect levels or scales.

    Sampling weights are normalised to sum to the number of rows.
    """
    w = design.weights if design.precision is None else design.precision
    if w is None:
        return design, values
    keep = w > 0
    if not keep.all():
        labels = design.row_names
        absent = AbsentRows(np.flatnonzero(~keep), labels[~keep])
        notes = (*design.notes, absent.note(int(keep.sum())))
        kept = replace(design, labels=labels).take(keep)
        design = replace(kept, notes=notes, absent=absent)
    if design.weight_kind == "sampling" and design.weights is not None:
        design = replace(
            design, weights=design.weights * (design.n / design.weights.sum())
        )
    return design, values[keep]


def with_formulas(likelihood: Likelihood, design: Design, rows: Any) -> Likelihood:
    """Return the likelihood with the linear predictors of the formulas of a design; `rows` (n, p) are all rows or a sample of them.

    DataError if columns of the log scale of ordered classes add up to an intercept, which the thresholds contain.
    """
    if not isinstance(design.recipe, ParameterRecipe):
        return likelihood
    bound = with_predictors(likelihood, tuple(design.recipe.parameters))
    if not isinstance(bound, OrdinalOfScale):
        return bound
    names = design.columns
    columns = [j for j in design.ungrouped if names[j].startswith("log scale: ")]
    X = np.asarray(rows[:, columns])
    ones = np.ones(len(X))
    if len(X) and np.allclose(X @ np.linalg.lstsq(X, ones)[0], ones, atol=1e-8):
        raise DataError(
            "'log scale' of ordered classes has no intercept, which the thresholds contain: write '~ 0 + z', and "
            "code categories as columns of 0 and 1 without the first one"
        )
    return bound


def weights_of_rows(
    model_design: Design, data: Any, weights: Any
) -> tuple[WeightKind, Any]:
    """Return the kind and the values (n,) of the weights of new rows with a response; the values are None without weights.

    Without `weights` they are read from the column of the model's weights. Raise DataError if this column is missing, or if
    the model's weights were given as an array, which has no values for new rows.
    """
    kind, values = read_weights(weights)
    if values is None:
        try:
            column_weights = model_design.recipe.weights_at(data)
        except DataError as error:
            raise DataError(
                f"{error}; the model reads its weights from this column, or takes weights="
            ) from None
        if column_weights is None:
            if has_array_weights(model_design):
                own_kind = model_design.weight_kind
                w = "w" if own_kind == "frequency" else f"pr.weights.{own_kind}(w)"
                raise DataError(
                    f"the {own_kind} weights of this model were given as an array: pass weights={w} with one value per new row, or "
                    "fit the model with the name of a column of weights"
                )
            return ("frequency", None)
        return (model_design.weight_kind, column_weights)
    if isinstance(values, str) and not is_array(data):
        values = read_column(data, values)
    return kind, values


def has_array_weights(design: Design) -> bool:
    """Whether the rows have weights that do not come from a column of the table."""
    is_weighted = (
        design.weights is not None
        or design.precision is not None
        or design.weight_kind != "frequency"
    )
    return is_weighted and getattr(design.recipe, "weights", None) is None


def with_precision(
    design: Design, weights: Any, data: Any, likelihood: Likelihood, kind: WeightKind
) -> Design:
    """Return new rows with the given precisions, or with precisions from the model's column of precisions.

    `kind` is the kind of the model's weights. Raise DataError for weights that are not precisions.
    """
    if weights is None:
        name = getattr(design.recipe, "weights", None)
        has_column = name is not None and not is_array(data)
        if kind != "precision" or not has_column or name not in read_columns(data):
            return design
        own = as_weights(
            design.recipe.weights_at(data), design.n, "precision", may_vanish=True
        )
        assert own is not None  # the recipe has their column
        # rows of weight 0 get the noise scale sigma
        precision = np.where(own > 0, own, 1.0)
        return replace(design, precision=precision, weight_kind="precision")
    kind, values = read_weights(weights)
    if kind != "precision":
        raise DataError(
            f"weights= of new rows are their precisions, pr.weights.precision(w): {kind} weights count rows, and a prediction "
            "is of one observation"
        )
    if isinstance(values, str):
        values = read_column(data, values)
    given = as_weights(values, design.n, kind)
    result = replace(design, precision=given, weight_kind=kind)
    check_design(result, likelihood)
    if given is not None and (given == 0).any():
        raise DataError(
            "a precision of 0 is noise without bound: new rows have precisions above 0"
        )
    return result


def check_design(design: Design, likelihood: Likelihood) -> None:
    """Raise DataError for a column with the name of a nuisance parameter or with a name that is no text, and for an offset that does not
    have one column or one for each linear predictor. Raise Incompatible for precisions without a noise scale and for an offset of a
    symmetric softmax."""
    for column in design.columns:
        require_unicode(column)
    shared = set(design.columns) & set(likelihood.nuisance)
    if shared:
        name = shared.pop()
        raise DataError(
            f"a column is called {name!r}, which is a parameter of {likelihood.named} likelihood: rename the column"
        )
    if design.weight_kind == "precision" and likelihood.noise_scale is None:
        remedy = "For successes of trials use Binomial, for exposure an offset"
        if isinstance(likelihood, PositiveLikelihood):
            remedy = 'For rows with dispersion phi / w write the formula "log phi": "~ offset(-log(w))"'
        elif "log sigma" in likelihood.parameters:
            remedy = "For rows with noise sigma / root w add offset(-log(w) / 2) to the formula of 'log sigma'"
        raise Incompatible(
            f"precision weights divide a noise variance, and {likelihood.named} likelihood has no noise scale. {remedy}"
        )

    if design.offset is None:
        return
    width = design.offset.shape[1]
    if width not in (1, likelihood.width):
        raise DataError(
            f"the offset has {width} columns; this likelihood has {likelihood.width} linear predictors"
        )
    if isinstance(likelihood, SoftmaxLikelihood) and likelihood.symmetric:
        raise Incompatible(
            "a symmetric softmax takes no offset: its predictors have no names of their own; use a reference class"
        )


def _is_basis_invariant(prior: Prior, q: int) -> bool:
    """Whether a prior of q columns is the same in every basis of a symmetric softmax. It is if rotations do not change it, for example a
    normal prior with hyperparameters that all linear predictors share, or if it is a prior of the coefficients of all classes."""
    if isinstance(prior, ProximalPrior):
        return prior.remove_common_shift(np.zeros((q, 2))) is not None
    if isinstance(prior, LatentPrior):
        return prior.normal and not np.any(getattr(prior.base, "location", 0.0))
    return isinstance(prior, Flat | GaussianPrior | WholePrior)


def check_joint(
    prior: JointPrior, likelihood: Likelihood, unknown: Sequence[str]
) -> None:
    """Raise Incompatible for priors that have no meaning under this likelihood."""
    jeffreys = any(isinstance(b.prior, FisherPrior) for b in prior.blocks)
    if jeffreys and not likelihood.exact_information:
        raise Incompatible(
            f"Jeffreys' prior is a function of the expected information, which has no formula for {likelihood.named} likelihood with "
            "censored or truncated responses or with formulas for several parameters: name another prior"
        )
    varies = [name for name in unknown if name != likelihood.noise_scale]
    if varies and jeffreys:
        raise Incompatible(
            f"Jeffreys' prior is that of the coefficients at a known {varies[0]}, with which their information varies: hold "
            f"it, aux={{{varies[0]!r}: 1.0}}, or name another prior"
        )
    if prior.sigma_units.any() and likelihood.noise_scale is None:
        raise Incompatible(
            f"a prior in units of sigma needs a likelihood with a noise scale; {likelihood.name} has none"
        )
    if isinstance(likelihood, SoftmaxLikelihood) and likelihood.symmetric:
        wrong = [
            b.prior
            for b in prior.blocks
            if not _is_basis_invariant(b.prior, len(b.columns))
        ]
        if wrong:
            unknown = ""
            if isinstance(wrong[0], HierarchicalPrior):
                unknown = " of unknown scale"
            raise Incompatible(
                f"a symmetric softmax takes flat, normal or Jeffreys priors, or Laplace and elastic-net ones of stated scale, got "
                f"{wrong[0].name}{unknown}. Other priors are stated of log odds against a reference class, likelihood='categorical'"
            )
        if any(
            np.any(location_of(b))
            for b in prior.blocks
            if isinstance(b.prior, GaussianPrior | ProximalPrior)
        ):
            raise Incompatible(
                "a symmetric softmax takes priors with location 0, since a shift that all classes share changes no probability"
            )
