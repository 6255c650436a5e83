"""A model, the method that fitted it and the solution, and what is read off them without labels or tables."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from probreg.arguments.types import DataArray, Dataset
from probreg.data.weights import refuse_sampling
from probreg.fits.inference_data import estimate_group, parameter_names
from probreg.fits.prediction import require_predictive
from probreg.inference import Method, Solution
from probreg.model.model import Model


@dataclass(frozen=True, eq=False)
class Fitted:
    """What every part of a fit reads: the fields, the estimate, the nuisance parameters, the log-likelihood."""

    model: Model
    method: Method
    solution: Solution
    seed: int = 0
    notes: tuple[str, ...] = ()
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
        return model.likelihood.at_rows(self.aux, model.design.precision) | model.given(model.design)

    @property
    def parameter_names(self) -> list[str]:
        """One name per coefficient, `column` or `column: outcome`, in the order of the covariance."""
        return parameter_names(self.model)

    @cached_property
    def log_likelihood(self) -> float:
        """The log-likelihood log p(y | estimate), summed over the observations; at the posterior mean for a posterior.

        Returns
        -------
        float
            In nats; inf where sigma = 0.

        Raises
        ------
        Incompatible
            Under sampling weights, which make a pseudo-likelihood.
        NotConverged
            Without an estimate.
        """
        refuse_sampling(self.model.design.weight_kind, "the log-likelihood")
        if self.likelihood_at_estimate is not None:
            return self.likelihood_at_estimate
        require_predictive(self.solution, self.method)
        if any(self.solution.aux.get(a) == 0 for a in self.model.unknown):
            return np.inf  # as many coefficients as rows: sigma = 0
        return float(self.model.log_lik(self.solution.beta, **self.solution.aux))

    @property
    def described(self) -> dict[str, Any]:
        """What was done, in words: the modelled quantity, the method, a sampler's engine, its status, its notes."""
        s = self.solution
        status = s.status.value + (f" ({s.detail})" if s.detail else "")
        notes = (*self.notes, *s.notes, *self.model.design.notes)
        model = self.model.likelihood.describe(self.model.design.response)
        engine = {"engine": s.draws.engine} if s.draws is not None and s.draws.engine else {}
        return {"models": model, "method": self.method.name, **engine, "status": status, "notes": notes}
