"""A model is a likelihood and a prior on one design: log posterior = log p(y | X beta, aux) + log p(beta, aux).

A `Model` has data and two densities. It evaluates their sum and its derivatives row block by
row block, and does not depend on methods. Nuisance parameters are maximised and approximated on their log scale, where
the default prior p(sigma) ∝ 1/sigma is flat, so that with flat priors the posterior mode is maximum likelihood.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probreg.arguments.arrays import as_array, same_rows
from probreg.arguments.scalars import (
    ArrayLike,
    Flag,
    Natural,
    Positive,
    Probability,
    RowsLike,
    Seed,
    Several,
    check_arguments,
    check_fields,
    only_known,
    shown_value,
)
from probreg.data import (
    AnyMoments,
    Design,
    Frame,
    as_response,
    as_weights,
    by_kind,
    weights_without_empty_trials,
)
from probreg.data.censoring import CensoredResponse
from probreg.data.checked_arrays import own_labels
from probreg.data.formula.functions import read_at
from probreg.data.moments import Origin
from probreg.data.weights import WeightsLike, read_weights
from probreg.errors import DataError, Incompatible, rows_named
from probreg.likelihoods import (
    DifferentiableLikelihood,
    Likelihood,
    OfTrials,
    SoftmaxLikelihood,
)
from probreg.linalg.vec import map_of_columns, with_aux
from probreg.model import likelihood_sums as sums
from probreg.model.compatibility import (
    check_design,
    check_joint,
    of_rows,
    read_checked_aux,
    require_outcomes,
    require_proper_aux,
    require_units,
    weights_of_rows,
    without_zero_weights,
)
from probreg.model.constructors import FLAT, FromData
from probreg.model.data_dependent_priors import rows_for
from probreg.model.group_effects import refuse_unseen
from probreg.model.term_priors import bound_terms, with_prior_note
from probreg.peers import OF_MODEL, NamesPeers
from probreg.priors import (
    AuxPrior,
    Flat,
    JointPrior,
    Prior,
    ProximalPrior,
    Reference,
    joint,
)
from probreg.priors.joint import Key, mapping_of
from probreg.priors.text import AuxLike, PriorLike, read_aux, read_prior
from probreg.system.terminal import clean_lines
from probreg.tables.render import notebook_html

if TYPE_CHECKING:
    from probreg.model.prior_predictive import PriorPredictive
    from probreg.priors.penalties import Setting, Spellings

Array = np.ndarray
Aux = Mapping[str, float]


class LocalModel(NamedTuple):
    """log posterior at a point, with gradient and negative Hessian over (vec coefficients, log aux)."""

    value: float
    gradient: Array
    curvature: Array


_UNSTATED = Reference()  # the prior of a nuisance parameter


@dataclass(frozen=True, eq=False)
class Model(FromData, NamesPeers):
    """Likelihood and prior on one design: log p(beta, aux | y) = log p(y | eta, aux) + log p(beta, aux) + constant.

    log p(y | eta, aux) = sum_i w_i log p(y_i | eta_i, aux) with eta_i = x_i beta + offset_i, and log p(beta, aux) = log
    p(beta | aux) + log p(aux). w_i is a frequency; `probreg.weights` has the other kinds of weights: precisions divide
    sigma^2 instead. To make a model use `from_formula` or `from_arrays`; `from_files`, `from_blocks` or `from_dask` if the rows
    stay where they are; and `from_moments` for a Gaussian model from moments only.

    Parameters
    ----------
    design : Design
        Columns, response, weights and offset.
    likelihood : Likelihood
        The density p(y | eta, aux).
    prior : Prior or mapping
        One Prior for every column except the intercept, or a mapping from columns to Priors.
    aux : mapping
        From a nuisance parameter to a number (known) or to a prior (unknown). Without an entry it is unknown with
        p(sigma) ∝ 1/sigma, or for nu of `StudentT(nu=None)` with `priors.Gamma(2, 0.1)`.
    scales_compared : int
        The number of scales that `tune` compared on these rows to choose the prior; 0 for a stated prior.

    Examples
    --------
    >>> model = Model.from_arrays(np.array([2.0, 3.0, 4.0]), np.array([5.0, 7.0, 9.5]), columns=["x"])
    >>> model
    Model: the mean of y, with Gaussian noise of standard deviation sigma
      rows 3, columns Intercept, x; prior flat; sigma ~ reference
    """

    peers = OF_MODEL

    design: Design
    likelihood: Likelihood
    prior: Prior | Mapping[Key, Prior] = FLAT
    aux: Mapping[str, float | AuxPrior] = MappingProxyType({})
    scales_compared: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self, "design", "likelihood", "scales_compared")
        object.__setattr__(self, "aux", read_checked_aux(self.likelihood, self.aux))
        check_design(self.design, self.likelihood)
        check_joint(self.joint, self.likelihood, self.unknown)

    @classmethod
    def _from_design(
        cls,
        design: Design,
        likelihood: Likelihood,
        prior: PriorLike,
        aux: AuxLike,
    ) -> "Model":
        design, bound = bound_terms(prior, design)
        design = with_prior_note(design, prior, bound)
        require_proper_aux(likelihood, aux)
        model = cls(design, likelihood, bound, read_aux(aux))
        require_units(design)
        require_outcomes(model)
        return model

    def with_prior(self, prior: PriorLike) -> "Model":
        """The same data and likelihood under another prior.

        Parameters
        ----------
        prior : Prior or str or mapping
            As in `from_formula`. `Flat()` for all columns also removes the priors of nuisance parameters, so that the mode is the
            maximum likelihood estimate. Fixed values stay, and nu of `StudentT(nu=None)` has its default prior.

        Returns
        -------
        Model
            The new model; this one is unchanged.
        """
        design, bound = bound_terms(prior, self.design)
        design = with_prior_note(design, prior, bound)
        held = {
            name: value
            for name, value in self.aux.items()
            if not isinstance(value, AuxPrior)
        }
        aux = held if isinstance(read_prior(prior), Flat) else self.aux
        return replace(self, design=design, prior=bound, aux=aux, scales_compared=0)

    def with_aux(self, **aux: float | str | AuxPrior) -> "Model":
        """The same model with fixed values or priors for these nuisance parameters.

        Parameters
        ----------
        **aux : float or AuxPrior or str
            A number fixes the parameter, a prior (or its text, "half_normal(2)") leaves it unknown.

        Returns
        -------
        Model
            The new model; this one is unchanged.
        """
        require_proper_aux(self.likelihood, aux)
        return replace(self, aux={**self.aux, **read_aux(aux)})

    @only_known
    def at(
        self,
        data: RowsLike,
        y: ArrayLike | None = None,
        *,
        weights: WeightsLike | None = None,
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "Model":
        """The same columns, likelihood and priors at new rows with their response.

        A prior that is stated relative to the rows is then relative to the new ones.

        Parameters
        ----------
        data : table or array (n, q)
            For a model of a formula a table with the response; for a model of arrays X, with `y`.
        y : array (n,), optional
            The response, if it is not in the table.
        weights : array (n,) or RowWeights, optional
            As in `from_arrays`, or a column's name. By default the weights come from the column that the model was
            fitted with. Required if the model's own weights were given as an array.
        offset : array (n,) or (n, m), optional
            Added to the linear predictor.
        trials : array (n,), optional
            The trials of each row, for a model of trials.

        Returns
        -------
        Model
            The model of the new rows.

        Raises
        ------
        DataError
            For rows that the model cannot read: a missing column, an unseen level, a new class.
        """
        same_rows(
            **{
                "the data": data,
                "y": y,
                "weights": read_weights(weights)[1],
                "offset": offset,
                "trials": trials,
            }
        )
        design = self.design.at(data, offset=offset)
        if design.recipe.grouped:
            reason = "a model of these rows has no column for it; fit all rows together"
            refuse_unseen(design, design.recipe.groups_at(data), reason)
        design = replace(design, read=read_at(design, data))
        if isinstance(y, CensoredResponse):
            values, counts = y.ends, None
        elif y is not None:
            values, counts = of_rows(self.likelihood, as_response(y)[0], trials)
        elif trials is not None:
            raise DataError(
                "trials= goes with y=, the successes; a formula p(successes, trials) reads both from its table"
            )
        else:
            try:
                values = np.asarray(self.design.recipe.outcome_at(data))
            except DataError as error:
                raise DataError(
                    f"{str(error).rstrip('.')}. The response is read from the rows too, or given as y="
                ) from error
            if values.ndim == 1 or self.likelihood.of_counts() is None:
                counts = None
            elif self.likelihood.levels:
                counts = "counts"
            else:
                counts = "p"
        if counts is not None and not isinstance(self.likelihood, OfTrials):
            raise Incompatible(
                f"this model is of one trial per row ({self.likelihood.name}), not of rows that count several"
            )
        if not values.ndim:
            raise DataError(f"y has one value per new row, got {y!r}")
        if len(values) != design.n:
            raise DataError(
                f"there are {design.n} new rows and {len(values)} responses: they must match"
            )
        kind, weight_values = weights_of_rows(self.design, data, weights)
        weights_by_kind, precision = by_kind(
            kind,
            weights_without_empty_trials(
                values, counts, as_weights(weight_values, design.n, kind)
            ),
        )
        design = replace(
            design,
            weights=weights_by_kind,
            precision=precision,
            weight_kind=kind,
            trials=None,
        )
        rows = own_labels(data, design.n)
        design, values = without_zero_weights(design, values)
        with rows_named(rows[design.places]):
            design = replace(design, y=self.likelihood.encode(values))
        return replace(self, design=design, scales_compared=0)

    # ---- shape and parts ------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """(p, m): the number of columns, and of linear predictors that a column is in; m = 1 if each column belongs to one predictor."""
        m = self.design.coefficients_per_column(self.likelihood.width)
        return len(self.design.columns), m

    @property
    def n_coefficients(self) -> int:
        """The number of coefficients, p m."""
        p, m = self.shape
        return p * m

    def given(self, design: Design) -> dict[str, Array]:
        """Return the values of the rows that the likelihood needs in addition to eta and aux.

        Parameters
        ----------
        design : Design
            Training rows or new ones.

        Returns
        -------
        dict
            `trials` (n,) where the likelihood counts them and they are known, of the response or of the new rows.
        """
        if design.y is not None and len(design.y):
            return self.likelihood.given(design.y)
        if not isinstance(self.likelihood, OfTrials):
            return {}
        trials = design.trials
        if self.likelihood.trials:
            trials = np.full(design.n, self.likelihood.trials)
        if trials is None:
            return {}
        return {"trials": trials}

    @cached_property
    def joint(self) -> JointPrior:
        """The prior column by column."""
        result = joint(
            self.prior,
            self.design.columns,
            self.design.is_intercept,
            partial(rows_for, self.design, self.likelihood, self.fixed),
            self.design.shown_columns,
            self.likelihood.predictors_apart,
        )
        symmetric = (
            isinstance(self.likelihood, SoftmaxLikelihood) and self.likelihood.symmetric
        )
        if not (
            symmetric and any(isinstance(b.prior, ProximalPrior) for b in result.blocks)
        ):
            return result
        return replace(result, contrast=self.likelihood.contrast_matrix)

    @property
    def moments(self) -> AnyMoments:
        """The moments of a Gaussian model's rows: the triangular factor of [X y], names, n and weights.

        Moments of two sets of rows have `+` and `-`, and `save(path)` writes them as JSON. `from_moments` makes a model of
        them; the prior is not in them.

        Returns
        -------
        Moments or ArrowMoments
            The moments of y - offset and X: `factor` (p + 1, p + 1), `n`, `weight`, `columns`, `mean`, `scale`. If effects vary by
            group (q columns of groups, h other columns): `head` for the other columns, `inside` (q, q) and `border` (q, h + 1).

        Raises
        ------
        Incompatible
            For other likelihoods, sampling weights, and columns that depend on the rows themselves.

        Examples
        --------
        >>> model = Model.from_arrays([0.0, 1.0, 2.0], [1.0, 3.0, 4.0])
        >>> (model.moments + model.moments).n
        6
        """
        d = self.design
        if not self.likelihood.least_squares:
            raise Incompatible(
                f"moments say all of the rows where the noise is Gaussian only; {self.likelihood.named} likelihood needs the rows"
            )
        if d.weight_kind == "sampling":
            raise Incompatible(
                "moments of rows with sampling weights: their sandwich errors are sums over the rows"
            )
        for term in d.recipe.processes.values():
            if term.basis.holds_rows:
                raise Incompatible(
                    f"moments of {term.short}: its basis is made of the rows; write basis='hsgp'"
                )
        origin = Origin.of(
            d.recipe, d.response, offset=d.offset is not None, weights=d.weight_kind
        )
        return replace(d.moments_by_group or d.moments, origin=origin)

    @property
    def with_prior_frozen(self) -> "Model":
        """The same model with its prior in raw units, computed from these rows: the prior does not change if rows are left out.

        A prior of all coefficients together still depends on its rows.
        """
        columns = self.design.columns
        if isinstance(self.prior, Prior) and (
            self.prior.whole or not self.prior.data_dependent
        ):
            return self
        frozen = self.with_prior(mapping_of(self.joint.blocks, columns))
        return replace(frozen, scales_compared=self.scales_compared)

    @property
    def stated_priors(self) -> tuple[Prior, ...]:
        """The priors of the coefficients as they were stated."""
        if isinstance(self.prior, Prior):
            return (self.prior,)
        return tuple(self.prior.values())

    @property
    def has_relative_prior(self) -> bool:
        """Whether a prior is relative to the rows, so that it changes if a row is left out."""
        return any(prior.data_dependent for prior in self.stated_priors)

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """Names of the nuisance parameters that are estimated."""
        return tuple(a for a in self.likelihood.nuisance if a not in self.fixed)

    @cached_property
    def fixed(self) -> dict[str, float]:
        """Nuisance parameters with a fixed value, by name."""
        return {k: float(v) for k, v in self.aux.items() if not isinstance(v, AuxPrior)}

    def aux_prior(self, name: str) -> AuxPrior:
        """The prior of an unknown nuisance parameter.

        Parameters
        ----------
        name : str
            The name ("sigma").

        Returns
        -------
        AuxPrior
            `Reference()`, unless the model or the likelihood has another prior for this parameter.
        """
        prior = self.aux.get(name, _UNSTATED)
        if not isinstance(prior, AuxPrior):
            raise DataError(f"{name} is not unknown: it is held at {prior}")
        if name not in self.aux and name not in self.likelihood.nuisance:
            raise DataError(
                f"{self.likelihood.named} likelihood has no parameter {name!r}; it has: {', '.join(self.likelihood.nuisance) or 'none'}"
            )
        return prior

    @property
    def noise_scale(self) -> str:
        """The name of the noise scale, if the likelihood has one."""
        # callers know that the likelihood has one
        assert self.likelihood.noise_scale is not None
        return self.likelihood.noise_scale

    def noise(
        self, aux: Mapping[str, Any] = MappingProxyType({}), default: Any = 1.0
    ) -> Any:
        """The value of the noise scale, from the fixed or the given nuisance parameters.

        Parameters
        ----------
        aux : mapping
            Nuisance parameters that have no fixed value, by name.
        default : float
            The value if the likelihood has no noise scale.

        Returns
        -------
        float or array
            In units of the response.
        """
        return self.likelihood.noise({**self.fixed, **aux}, default)

    @property
    def noise_held(self) -> float | None:
        """The fixed value of the noise scale; None if it is unknown, or there is none."""
        return self.fixed.get(self.likelihood.noise_scale or "")

    @property
    def noise_unknown(self) -> bool:
        """Whether the model has an unknown noise scale."""
        return self.likelihood.noise_scale in self.unknown

    @property
    def mode_free_of_sigma(self) -> bool:
        """Whether the noise scale is fixed, or every prior of a coefficient is flat or in units of the noise scale."""
        joint = self.joint
        return not (self.unknown and (joint.informative & ~joint.sigma_units).any())

    @property
    def noise_prior(self) -> AuxPrior:
        """The prior of the noise scale, if it is unknown."""
        return self.aux_prior(self.likelihood.noise_scale or "")

    @property
    def flat(self) -> bool:
        """Whether all priors are flat, so that the posterior mode is the maximum likelihood estimate."""
        return not self.joint.informative.any() and all(
            isinstance(self.aux_prior(a), Reference) for a in self.unknown
        )

    def __repr__(self) -> str:
        from probreg.model.descriptions import describe_model, describe_weak_prior

        head, rows, *lines = describe_model(self)
        return clean_lines(
            head,
            f"  {'; '.join([rows, *lines])}",
            *(f"  {warning}" for warning in describe_weak_prior(self)),
        )

    def _repr_html_(self) -> str:
        from probreg.model.descriptions import describe_model, describe_weak_prior

        head, *lines = describe_model(self)
        return notebook_html([head], notes=[*lines, *describe_weak_prior(self)])

    @property
    def penalty_setting(self) -> "Setting":
        """The properties of the data that other packages' criteria need.

        Returns
        -------
        Setting
            y_sd has divisor N and is after the offset; with precisions both N and y_sd are None.

        Raises
        ------
        Incompatible
            For a softmax with a reference class: other packages penalise the coefficients of all classes.
        """
        from probreg.model.penalties import setting_of

        return setting_of(self)

    @check_arguments
    def penalty(self, *, sigma: Positive | None = None) -> "Spellings":
        """The prior as the penalty that its mode minimises, in every package that has it: calls with their numbers.

        The prior must be Normal, Laplace or ElasticNet about zero, with one scale for all columns except a free intercept. For a
        formula with smooth functions the result has the penalty J of each function and its weight `sp` in RSS + sum_j sp_j J_j
        (or -2 log L + sum_j sp_j J_j), which `pr.gam(..., sp=)` reads.

        Parameters
        ----------
        sigma : float, optional
            The noise scale, if it is unknown in the model and does not cancel (`fit.aux["sigma"]`).

        Returns
        -------
        Spellings
            One call per package, by its name.

        Raises
        ------
        Incompatible
            For a prior that no package has as a penalty.

        Examples
        --------
        >>> from probreg.priors import Normal
        >>> prior = Normal(0.5, sigma_units=True)
        >>> model = Model.from_arrays([[0.0], [1.0], [2.0]], [1.0, 3.0, 6.0], columns=["x"], prior=prior)
        >>> model.penalty()["sklearn"].call
        'Ridge(alpha=4)'
        """
        from probreg.model.penalties import penalty_calls

        return penalty_calls(self, sigma)

    # ---- densities -------------------------------------------------------------------------------------------------

    def eta(self, beta: Array) -> Array:
        """The linear predictor X beta + offset of every row.

        Parameters
        ----------
        beta : array (..., p, m)
            Coefficients on the raw columns.

        Returns
        -------
        array (..., n, m)
            On the link scale.

        Raises
        ------
        DataError
            If the rows are not in memory.
        """
        self.design.need_rows("the linear predictor of every row")
        return self.design.eta(self._as_coefficients(beta))

    def _as_coefficients(self, beta: Any, *, draws: bool = True) -> Array:
        """Return coefficients as an array (..., p, m), from an array of this shape, a flat vector or `fit.coef`.

        DataError for another shape, and for several coefficient arrays unless `draws`.
        """
        p, m = self.shape
        values = as_array(beta, "beta")
        if values.dtype.kind not in "biuf":
            raise DataError(
                f"beta: expected numbers of shape (..., {p}, {m}), got {shown_value(beta)}"
            )
        array = self._reshape_coefficients(values.astype(float, copy=False))
        if not draws and array.ndim > 2:
            raise DataError(
                f"beta: expected one array of coefficients {self.shape}, got {array.shape}"
            )
        return array

    def _reshape_coefficients(self, array: Array) -> Array:
        """Return coefficients (..., p, m) from a flat vector, from reported coefficients or from coefficients of one predictor."""
        p, m = self.shape
        if array.ndim == 1 and array.size == p * m:
            return array.reshape(p, m)
        if array.shape[-2:] == (p, m):
            return array
        D = self.likelihood.contrast_matrix
        if array.shape[-2:] == (
            p,
            len(D),
        ):  # reported coefficients, a linear map of the model's coefficients
            contrast_values = np.linalg.lstsq(D, array.reshape(-1, len(D)).T)[0].T
            if np.allclose(
                contrast_values @ D.T, array.reshape(-1, len(D)), rtol=1e-8, atol=1e-12
            ):
                return contrast_values.reshape(*array.shape[:-1], m)
        if m == 1 and array.ndim > 1 and array.shape[-1] == p:
            return array[..., None]
        raise DataError(
            f"beta: expected coefficients of shape (..., {p}, {m}), columns by linear predictors, got {array.shape}"
        )

    def _complete_aux(self, aux: Mapping[str, Any]) -> dict[str, Any]:
        """Return the nuisance parameters, also the fixed ones. Raise DataError for one without a value, and for an
        unknown name."""
        odd = [name for name in aux if name not in self.likelihood.nuisance]
        if odd:
            raise DataError(
                f"{self.likelihood.named} likelihood has no parameter {odd[0]!r}"
            )
        aux_values = {**self.fixed, **aux}
        lacking = [name for name in self.likelihood.nuisance if name not in aux_values]
        if lacking:
            raise DataError(
                f"{lacking[0]} is unknown: pass its value, {lacking[0]}=, such as fit.aux[{lacking[0]!r}]"
            )
        return aux_values

    def pointwise(self, beta: Array, **aux: Any) -> Array:
        """The log density log p(y_i | x_i beta, aux) of each row; a frequency weight multiplies it.

        Parameters
        ----------
        beta : array (..., p, m)
            Coefficients on the raw columns.
        **aux : float or array (...,)
            Unknown nuisance parameters by name.

        Returns
        -------
        array (..., n)
            In nats.
        """
        beta = self._as_coefficients(beta)
        aux_values = self._complete_aux(aux)
        aux = {k: np.asarray(v)[..., None] for k, v in aux_values.items()}
        log_prob = self.likelihood.log_prob(
            self.design.observed,
            self.eta(beta),
            **self.likelihood.at_rows(aux, self.design.precision),
        )
        if self.design.weights is None:
            return log_prob
        return log_prob * self.design.weights

    def log_lik(self, beta: Array, **aux: Any) -> Array:
        """The log-likelihood log p(y | beta, aux), summed over rows, or from moments.

        Parameters
        ----------
        beta : array (..., p, m)
            Coefficients on the raw columns.
        **aux : float or array (...,)
            Unknown nuisance parameters by name.

        Returns
        -------
        array (...,)
            In nats.
        """
        beta = self._as_coefficients(beta)
        aux_values = self._complete_aux(aux)
        if self.of_moments:
            moments = self.design.kept or self.design.moments
            sigma = np.asarray(aux_values[self.noise_scale], dtype=float)
            return sums.log_lik_of_moments(moments, beta, sigma)
        wide = {k: np.asarray(v)[..., None] for k, v in aux_values.items()}
        return self.design.sum_over_rows(
            partial(
                sums.log_lik, likelihood=self.likelihood, beta=beta, aux_values=wide
            )
        )[0]

    @property
    def of_moments(self) -> bool:
        """Whether this is a Gaussian model of rows in blocks, or of moments, so that computations use the moments."""
        elsewhere = self.design.source is not None or (
            self.design.kept is not None and not self.design.n
        )
        return elsewhere and self.likelihood.least_squares

    def log_prior(self, beta: Array, **aux: Any) -> Array:
        """The log prior log p(beta | aux) + log p(aux); improper parts count as stated in their class.

        Parameters
        ----------
        beta : array (..., p, m)
            Coefficients on the raw columns.
        **aux : float or array (...,)
            Unknown nuisance parameters by name.

        Returns
        -------
        array (...,)
            In nats.
        """
        beta = self._as_coefficients(beta)
        aux_values = self._complete_aux(aux)
        total = self.joint.log_prob(beta, self.likelihood.noise(aux_values))
        for name in self.unknown:
            total = total + self.aux_prior(name).log_prob(np.asarray(aux_values[name]))
        return total

    def log_posterior(self, beta: Array, **aux: Any) -> Array:
        """The log posterior log p(beta, aux | y) up to the log evidence, as a density in aux itself.

        Parameters
        ----------
        beta : array (..., p, m)
            Coefficients on the raw columns.
        **aux : float or array (...,)
            Unknown nuisance parameters by name.

        Returns
        -------
        array (...,)
            In nats.
        """
        beta = self._as_coefficients(beta)
        return self.log_lik(beta, **aux) + self.log_prior(beta, **aux)

    def gradient(self, beta: Array, **aux: float) -> Array:
        """The gradient d log p / d vec(beta) of the log posterior, row by row; smooth priors only.

        Parameters
        ----------
        beta : array (p, m)
            Coefficients on the raw columns.
        **aux : float
            Unknown nuisance parameters by name.

        Returns
        -------
        array (p m,)
            Column first, then predictor.
        """
        beta = self._as_coefficients(beta, draws=False)
        return self.value_grad_hessian(beta, **aux).gradient[: beta.size]

    def information(self, beta: Array, **aux: float) -> Array:
        """Return the expected information X' W X, with W of each row, plus the curvature of the prior.

        Parameters
        ----------
        beta : array (p, m)
            Coefficients on the raw columns.
        **aux : float
            Unknown nuisance parameters by name.

        Returns
        -------
        array (p m, p m)
            Of the log posterior.
        """
        if not self.likelihood.exact_information:
            raise Incompatible(
                f"the expected information has no formula here ({self.likelihood.describe(self.design.response)}): "
                "value_grad_hessian has the observed one"
            )
        beta = self._as_coefficients(beta, draws=False)
        aux_values = self._complete_aux(aux)
        of_prior = self.joint.curvature(beta, self.likelihood.noise(aux_values))
        return self.information_of_rows(beta, aux_values) + of_prior

    def information_of_rows(
        self, beta: Array, aux: Aux, view: Callable[[Array], Array] | None = None
    ) -> Array:
        """Return the expected information X' W X of the log-likelihood, without the prior.

        Parameters
        ----------
        beta : array (p, m)
            Coefficients on the raw columns.
        aux : dict
            Unknown nuisance parameters by name.
        view : callable, optional
            Returns other columns of X for both sides, such as standardised ones.

        Returns
        -------
        array (p m, p m)
            Over vec beta, or over the coefficients of the columns that `view` returns.
        """
        part = partial(
            sums.expected_information,
            likelihood=_require_differentiable(self.likelihood),
            beta=np.asarray(beta),
            aux_values={**self.fixed, **aux},
            view=view,
        )
        return self.design.sum_over_rows(part)[0]

    def value_grad_hessian(self, beta: Array, **aux: float) -> LocalModel:
        """The log posterior with gradient and negative Hessian over (vec beta, log aux), on the raw columns.

        On the log scale of aux the density gains its Jacobian, so the value differs from `log_posterior` by log aux.

        Parameters
        ----------
        beta : array (p, m)
            Coefficients on the raw columns.
        **aux : float
            Unknown nuisance parameters by name.

        Returns
        -------
        LocalModel
            `value`, `gradient` (k,) and `curvature` (k, k).
        """
        beta = self._as_coefficients(beta, draws=False)
        _ = self._complete_aux(aux)
        return self._expand(beta, np.eye(len(beta)), None, aux)

    def value_grad_hessian_standardised(self, gamma: Array, **aux: float) -> LocalModel:
        """The log posterior with gradient and negative Hessian over (vec gamma, log aux), on the standardised columns.

        Parameters
        ----------
        gamma : array (p, m)
            Coefficients of the standardised columns, beta = T gamma.
        **aux : float
            Unknown nuisance parameters by name.

        Returns
        -------
        LocalModel
            `value`, `gradient` (k,) and `curvature` (k, k).
        """
        return self.in_frame(gamma, self.design.frame, aux)

    def in_frame(
        self, gamma: Array, frame: Frame, aux: Aux, *, curved: bool = True
    ) -> LocalModel:
        """The log posterior with gradient and negative Hessian over (vec gamma, log aux), on the columns of a frame.

        Parameters
        ----------
        gamma : array (p, m)
            Coefficients of the columns of the frame, beta = T gamma.
        frame : Frame
            The frame: shift, scale and mix.
        aux : dict
            Unknown nuisance parameters by name.
        curved : bool
            Whether the curvature is needed.

        Returns
        -------
        LocalModel
            `value`, `gradient` (k,) and `curvature` (k, k).
        """
        if not frame.mild:
            return self._expand(gamma, frame.T, frame, aux, curved=curved)
        raw = self._expand(
            frame.to_raw(gamma), np.eye(len(gamma)), None, aux, curved=curved
        )
        S = with_aux(map_of_columns(frame.T, gamma.shape[1]), len(self.unknown))
        curvature = raw.curvature
        if curved:
            curvature = S.T @ curvature @ S
        return LocalModel(raw.value, S.T @ raw.gradient, curvature)

    def _expand(
        self,
        gamma: Array,
        T: Array,
        frame: Frame | None,
        aux: Aux,
        *,
        curved: bool = True,
    ) -> LocalModel:
        """Return sums over blocks of rows; each block is read once while it is in cache."""
        k = gamma.size
        aux_values = {**self.fixed, **aux}
        a = len(self.unknown)
        if self.of_moments:
            log_lik = sums.of_moments(
                self.design.moments,
                gamma,
                T,
                aux_values[self.noise_scale],
                bool(self.unknown),
            )
        else:
            fn = partial(
                sums.value_grad_hessian, likelihood=_require_differentiable(self.likelihood), unknown=self.unknown, gamma=gamma, frame=frame,
                aux_values=aux_values, curved=curved,
            )  # fmt: skip
            log_lik = self.design.sum_over_rows(fn)
        value, g_beta, g_aux, *second = log_lik
        prior = prior_derivatives(self, T @ gamma, T, aux_values)
        curvature = np.zeros((0, 0))
        if curved:
            H, cross, H_aux = second
            curvature = np.zeros((k + a, k + a))
            curvature[:k, :k], curvature[k:, k:] = H, H_aux
            curvature[:k, k:] = cross.reshape(k, -1)
            curvature[k:, :k] = curvature[:k, k:].T
            curvature += prior.curvature
        return LocalModel(
            float(value) + prior.value,
            np.concatenate([g_beta.ravel(), g_aux]) + prior.gradient,
            curvature,
        )

    @check_arguments
    def prior_predictive(
        self, draws: Several = 1000, *, prob: Probability = 0.95, seed: Seed = 0
    ) -> "PriorPredictive":
        """Return the prior predictive distribution: draws of coefficients, means and outcomes at the rows of the model.

        For each column it has the change in the outcome for one standard deviation of the column. If rows are read in
        blocks, an evenly spaced sample is used. Flat priors have no draws; quantities that need them are missing, with a note.

        Parameters
        ----------
        draws : int
            Number of draws.
        prob : float
            Prior probability of the stated moves, between 0 and 1.
        seed : int
            Seed of the draws.

        Returns
        -------
        PriorPredictive
            Draws, and `moves` with a sentence for each column.

        Examples
        --------
        >>> from probreg.priors import Normal
        >>> model = Model.from_arrays([-1.0, 1.0], [0, 1], columns=["x"], likelihood="bernoulli", prior=Normal(1.0))
        >>> model.prior_predictive().moves[0].sentence
        'one sd of x (1.41) moves P(y = 1) by at most 0.6 with prior probability 95 % (typically 0.234)'
        """
        from probreg.model.prior_predictive import prior_predictive

        aux = {a: self.aux.get(a, _UNSTATED) for a in self.likelihood.nuisance}
        sample = self.design.sample
        design = self.design
        # means and outcomes at the sample, spreads of columns over all rows
        if design.source is not None:
            design = replace(sample, weights=None, kept=design.moments)
        return prior_predictive(
            design, self.likelihood, self.joint, aux, draws=draws, prob=prob, seed=seed
        )

    @check_arguments
    def to_pymc(self, *, response: Flag = True, noncentered: Flag = True) -> Any:
        """The plain PyMC model eta = X beta + offset: all rows and named dims, for use with all tools of PyMC.

        Each term of the formula is a variable with its name, effects by group are `effects[g]` over (group, effect), and the response
        has its own name. A term is `beta[name]` if another variable has its name. A prior that is no product over terms,
        or a prior of more than 50 terms, has one variable `beta[first..last]`.

        Parameters
        ----------
        response : bool
            Whether the likelihood is part of it. Without it the model ends at `eta`, for a likelihood of your own.
        noncentered : bool
            Whether coefficients of unknown scale are written as a scale times variables of known scale (`x_offset`), and a prior
            with a cusp as a mixture of uniforms, for faster sampling. Without it the variables have the names and values of the
            posterior of a fit, as `az.loo_moment_match` needs.

        Returns
        -------
        pymc.Model
            With deterministic `beta` (coef) or (coef, outcome), and data `X` (obs, coef).

        Raises
        ------
        DataError
            If the rows are not in memory.

        Examples
        --------
        >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "x": [0.0, 1.0, 2.0, 3.0], "g": ["a", "b", "c", "c"]}
        >>> made = Model.from_formula("y ~ x + g", data).to_pymc()
        >>> [v.name for v in made.free_RVs], list(made.coords["g_dim"])
        (['sigma', 'Intercept', 'x', 'g'], ['b', 'c'])
        """
        from probreg.model.pymc_model import build_pymc_model

        self.joint.require_draws()
        self.design.need_rows("PyMC's model")
        self.design.refuse_sampling("PyMC's model")
        aux = {a: self.aux.get(a, _UNSTATED) for a in self.likelihood.nuisance}
        return build_pymc_model(
            self.design,
            self.likelihood,
            self.joint,
            aux,
            response=response,
            noncentered=noncentered,
        )


def prior_derivatives(model: Model, beta: Array, T: Array, aux: Aux) -> LocalModel:
    """log p(beta, log aux) with gradient and negative Hessian over (vec gamma, log aux), beta = T gamma (p, m)."""
    k = beta.size
    unknown = model.unknown
    if not unknown and not model.joint.informative.any():  # flat: log p = 0
        return LocalModel(0.0, np.zeros(k), np.zeros((k, k)))
    value, g, h = model.joint.value_grad_hessian(beta, model.likelihood.noise(aux))
    if not np.array_equal(T, np.eye(len(T))):
        S = with_aux(map_of_columns(T, beta.shape[1]), 1)
        g = S.T @ g
        h = S.T @ h @ S
    gradient = np.zeros(k + len(unknown))
    curvature = np.zeros((k + len(unknown), k + len(unknown)))
    # the prior's last derivative is over the log of the noise scale, which can have any place among the unknown parameters
    noise = [k + i for i, a in enumerate(unknown) if a == model.likelihood.noise_scale]
    a = [*range(k), *noise]
    gradient[a] = g[: len(a)]
    curvature[np.ix_(a, a)] = h[: len(a), : len(a)]
    for i, name in enumerate(unknown):
        prior = model.aux_prior(name)
        v = aux[name]
        slope, second = prior.slopes(v)
        with np.errstate(divide="ignore", invalid="ignore"):  # at a limit, v = 0
            value += float(prior.log_prob(np.asarray(v)) + np.log(v))
        gradient[k + i] += slope
        curvature[k + i, k + i] -= second
    return LocalModel(value, gradient, curvature)


def _require_differentiable(likelihood: Likelihood) -> DifferentiableLikelihood:
    if not isinstance(likelihood, DifferentiableLikelihood):
        raise Incompatible(
            f"{likelihood.named} likelihood is not twice differentiable, so it has no Newton step"
        )
    return likelihood
