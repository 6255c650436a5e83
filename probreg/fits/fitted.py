"""A model, the method that fitted it and the solution, with the results that need no labels or tables."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from probreg.arguments.scalars import DataArray, Dataset
from probreg.errors import Incompatible, NotConverged
from probreg.fits.inference_data import estimate_group, parameter_names
from probreg.inference import Method, Solution, Status
from probreg.inference.base import has_zero_noise
from probreg.inference.status import Note, Topic, important_note
from probreg.model.model import Model

LAPLACE = "Laplace's approximation"
POINTS = "{} points of adaptive quadrature"
LIKELIHOOD_OF_REML = (
    "REML has a restricted likelihood, which is none of y: its criterion is in summary() and glance(); for a log-likelihood fit with "
    "Evidence(criterion='ML')"
)

# prefix of saved statistics that cannot be computed without the rows
OF_ROWS = "of_rows_"


@dataclass(frozen=True, eq=False)
class Fitted:
    """The base of a fit: its fields, the estimate, the nuisance parameters and the log-likelihood."""

    model: Model
    method: Method
    solution: Solution
    seed: int = 0
    notes: tuple[Note, ...] = ()

    @property
    def target(self) -> str:
        """The word "mode" for a point estimate, "posterior" for a posterior."""
        return self.method.target

    def once[T](self, make: Callable[[Self], T]) -> T:
        """Return make(self), computed at the first call and then cached with this fit.

        Parameters
        ----------
        make : callable
            A function of the fit.

        Returns
        -------
        object
            The result of `make`.
        """
        if make not in self._results_cache:
            self._results_cache[make] = make(self)
        return self._results_cache[make]

    @cached_property
    def _results_cache(self) -> dict[Any, Any]:
        return {}

    @cached_property
    def estimate(self) -> Dataset:
        """Return the mode, or posterior means and standard deviations.

        Returns
        -------
        Dataset
            beta, std_error and auxiliary parameters.
        """
        return estimate_group(self.model, self.solution)

    @property
    def coef(self) -> DataArray:
        """Return the coefficients on the raw columns: the mode, or posterior means.

        Returns
        -------
        DataArray (coef) or (coef, outcome)
            In units of the linear predictor per unit of the column; nan where no estimate exists.
        """
        return self.estimate["beta"]

    @property
    def aux(self) -> dict[str, float]:
        """Return the auxiliary parameters such as sigma, both estimated and fixed.

        Returns
        -------
        dict of float
            One number per name.
        """
        return {**self.model.fixed, **self.solution.aux}

    @property
    def aux_of_rows(self) -> dict[str, Any]:
        """Return the auxiliary parameters of each training row, and its number of trials if the response has trials.

        Returns
        -------
        dict
            Numbers, or arrays (n,): under precisions w the noise scale of row i is sigma / sqrt(w_i).
        """
        model = self.model
        return model.likelihood.at_rows(self.aux, model.design.precision) | model.given(
            model.design
        )

    @property
    def parameter_names(self) -> list[str]:
        """Return one name per coefficient, `column` or `column: outcome`, in the order of the covariance."""
        return parameter_names(self.model)

    @cached_property
    def log_likelihood(self) -> float:
        """Return the log-likelihood log p(y | estimate), summed over the observations.

        For a posterior it is evaluated at the posterior mean. For a maximum likelihood fit with random effects it is marginal: the
        effects are integrated out, as in AIC.

        Returns
        -------
        float
            In nats; nan if no degrees of freedom are left for sigma, otherwise inf if sigma = 0. For a posterior with random effects it is
            conditional on their means.

        Raises
        ------
        Incompatible
            Under sampling weights, which give a pseudo-likelihood; for REML, because its criterion is not a likelihood of y.
        NotConverged
            If there is no estimate.
        """
        self.model.design.refuse_sampling("the log-likelihood")
        scales = self.solution.effect_scales
        if scales is not None and self.target == "mode":
            if scales.criterion != "ML":
                raise Incompatible(LIKELIHOOD_OF_REML)
            return scales.value  # log p(y | beta, scales)
        return self.conditional_log_likelihood

    @cached_property
    def conditional_log_likelihood(self) -> float:
        """Return log p(y | estimate) conditional on the random effects; equal to `log_likelihood` without random effects.

        Returns
        -------
        float
            In nats.
        """
        solution = self.solution
        self.model.design.refuse_sampling("the log-likelihood")
        saved = statistic_saved_without_rows(self, "log_likelihood")
        if saved is not None:
            return saved
        require_predictive(self)
        if solution.df is not None and solution.df <= 0:
            return np.nan  # as many coefficients as rows: sigma has no estimate
        if has_zero_noise(self.model, solution):
            return np.inf
        return float(self.model.log_lik(solution.beta, **solution.aux))

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """Return the notes of `fit`, of the method, of the likelihood and of the rows."""
        working = []
        if has_working_errors(self):
            working = [important_note(Topic.LIKELIHOOD, self.model.likelihood.working)]
        rows = [important_note(Topic.ROWS, text) for text in self.model.design.notes]
        return (*self.notes, *self.solution.notes, *working, *rows)

    @property
    def described(self) -> dict[str, Any]:
        """Return a description of the fit: the modelled quantity, the method, its status, its notes."""
        s = self.solution
        status = s.status.describe(s.detail)
        notes = tuple(map(str, self.all_notes))
        model = self.method.describe(self.model)
        return {
            "models": model,
            "method": self.method_label,
            "status": status,
            "notes": notes,
        }

    @property
    def method_label(self) -> str:
        """Return the name of the method, with "evidence" if evidence found the scales. With random effects it is the criterion, such as REML."""
        scales = self.solution.effect_scales
        if scales is None:
            if self.solution.stats.get("ratios_found", 0.0) > 0.0:
                return f"evidence, {self.method.name}"
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
    """Return a statistic of the rows that `save` wrote, for a fit saved without its rows; None for other fits."""
    if fit.model.design.has_rows:
        return None
    return fit.solution.stats.get(f"{OF_ROWS}{name}")


def has_working_errors(fit: Fitted) -> bool:
    """Whether the standard errors of a mode come from a working density, which is not a model of the response."""
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


def require_predictive(fit: Fitted) -> None:
    """Raise NotConverged if there is no estimate to predict from, and Incompatible if there are no probabilities."""
    if not fit.method.probabilities:
        raise Incompatible(
            f"{fit.method.name} has no probabilities: np.sign(X @ coef) classifies, and newton or nuts predict"
        )
    s = fit.solution
    if s.status in (Status.NO_MAXIMUM, Status.SCALE_AT_INFINITY):
        raise NotConverged(
            f"{fit.method.name}: nothing to predict from, because {s.status.describe(s.detail)}"
        )
