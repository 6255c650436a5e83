"""A model, the method that fitted it and the solution, and what is read off them without labels or tables."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from probreg.arguments.types import DataArray, Dataset
from probreg.data.weights import refuse_sampling
from probreg.errors import Incompatible
from probreg.fits.inference_data import estimate_group, parameter_names
from probreg.fits.prediction import require_predictive
from probreg.inference import Method, Solution
from probreg.inference.base import held_at_limits
from probreg.inference.notes import Note, Topic, important_note
from probreg.model.model import Model

LAPLACE = "Laplace's approximation"
POINTS = "{} points of adaptive quadrature"
LIKELIHOOD_OF_REML = (
    "REML has a restricted likelihood, which is none of y: its criterion is in summary() and glance(); for a log-likelihood fit with "
    "Evidence(criterion='ML')"
)

OF_ROWS = "of_rows_"  # begins the names of saved statistics that only the rows have


@dataclass(frozen=True, eq=False)
class Fitted:
    """What every part of a fit reads: the fields, the estimate, the nuisance parameters, the log-likelihood."""

    model: Model
    method: Method
    solution: Solution
    seed: int = 0
    notes: tuple[Note, ...] = ()
    likelihood_at_estimate: float | None = field(default=None, repr=False)

    @property
    def target(self) -> str:
        """The word "mode" for a point estimate, "posterior" for a posterior."""
        return self.method.target

    @cached_property
    def estimate(self) -> Dataset:
        """The mode, or posterior means and standard deviations.

        Returns
        -------
        Dataset
            beta, std_error and auxiliary parameters.
        """
        return estimate_group(self.model, self.solution)

    @property
    def coef(self) -> DataArray:
        """Coefficients on the raw columns: the mode, or posterior means.

        Returns
        -------
        DataArray (coef) or (coef, outcome)
            In units of the linear predictor per unit of the column; nan where no estimate exists.
        """
        return self.estimate["beta"]

    @property
    def aux(self) -> dict[str, float]:
        """Auxiliary parameters such as sigma: estimated, and those held fixed.

        Returns
        -------
        dict of float
            One number per name.
        """
        return {**self.model.fixed, **self.solution.aux}

    @property
    def aux_of_rows(self) -> dict[str, Any]:
        """Auxiliary parameters of each training row, and its trials where a row counts them.

        Returns
        -------
        dict
            Numbers, or arrays (n,): under precisions w the noise scale of row i is that over sqrt(w_i).
        """
        model = self.model
        return model.likelihood.at_rows(self.aux, model.design.precision) | model.given(
            model.design
        )

    @property
    def parameter_names(self) -> list[str]:
        """One name per coefficient, `column` or `column: outcome`, in the order of the covariance."""
        return parameter_names(self.model)

    @cached_property
    def log_likelihood(self) -> float:
        """The log-likelihood log p(y | estimate), summed over the observations; at the posterior mean for a posterior.

        Of a maximum likelihood fit of effects that vary by a group it is marginal: the effects are integrated out, as in AIC.

        Returns
        -------
        float
            In nats; nan where no degrees of freedom are left for sigma, inf where sigma = 0 otherwise. Of a posterior of effects
            that vary by a group it is given their means.

        Raises
        ------
        Incompatible
            Under sampling weights, which make a pseudo-likelihood; for REML, whose criterion is no likelihood of y.
        NotConverged
            Without an estimate.
        """
        refuse_sampling(self.model.design.weight_kind, "the log-likelihood")
        scales = self.solution.effect_scales
        if scales is not None and self.target == "mode":
            if scales.criterion != "ML":
                raise Incompatible(LIKELIHOOD_OF_REML)
            return scales.value  # log p(y | beta, scales)
        return self.conditional_log_likelihood

    @cached_property
    def conditional_log_likelihood(self) -> float:
        """log p(y | estimate) given the effects of groups, which is `log_likelihood` where there are none.

        Returns
        -------
        float
            In nats.
        """
        refuse_sampling(self.model.design.weight_kind, "the log-likelihood")
        if self.likelihood_at_estimate is not None:
            return self.likelihood_at_estimate
        require_predictive(self.solution, self.method)
        if self.solution.df is not None and self.solution.df <= 0:
            return np.nan  # as many coefficients as rows: sigma has no estimate
        if any(
            self.solution.aux.get(a) == 0
            for a in held_at_limits(self.model, self.solution).unknown
        ):
            return np.inf  # the columns meet every response
        return float(self.model.log_lik(self.solution.beta, **self.solution.aux))

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """Return the notes of `fit`, of the method, of the likelihood and of the rows."""
        working = (
            [important_note(Topic.LIKELIHOOD, self.model.likelihood.working)]
            if has_working_errors(self)
            else []
        )
        rows = [important_note(Topic.ROWS, text) for text in self.model.design.notes]
        return (*self.notes, *self.solution.notes, *working, *rows)

    @property
    def described(self) -> dict[str, Any]:
        """What was done, in words: the modelled quantity, the method, a sampler's engine, its status, its notes."""
        s = self.solution
        status = s.status.describe(s.detail)
        notes = tuple(map(str, self.all_notes))
        model = self.method.describe(self.model)
        if s.draws is not None and s.draws.engine:
            engine = {"engine": s.draws.engine}
        else:
            engine = {}
        return {
            "models": model,
            "method": self._how,
            **engine,
            "status": status,
            "notes": notes,
        }

    @property
    def _how(self) -> str:
        """The method in words; at scales that were found the criterion is what a reader knows it by."""
        scales = self.solution.effect_scales
        if scales is None:
            return self.method.name
        criterion = scales.criterion
        if not scales.plain:
            return f"posterior mode of the scales by evidence, which is not {criterion}"
        if not scales.stated.likelihood.least_squares:
            criterion += (
                f" by {POINTS.format(scales.points) if scales.points > 1 else LAPLACE}"
            )
        is_named = self.target == "posterior" or self.solution.replicates is not None
        return f"{criterion}, {self.method.name}" if is_named else criterion


def statistic_saved_without_rows(fit: Fitted, name: str) -> float | None:
    """A statistic of the rows as `save` wrote it, of a fit that was saved without them; None for other fits."""
    if fit.model.design.reachable:
        return None
    return fit.solution.stats.get(f"{OF_ROWS}{name}")


def has_working_errors(fit: Fitted) -> bool:
    """Whether the standard errors of a mode are those of a working density, which is no statement about the response."""
    s = fit.solution
    if not fit.model.likelihood.working:
        return False
    is_working = (
        s.draws is None
        and not s.sandwich
        and s.replicates is None
        and bool(np.isfinite(s.scale.diagonal()).any())
    )
    return is_working
