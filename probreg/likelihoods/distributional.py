"""Several linear predictors in one likelihood: nuisance parameters that have their own predictors.

The log of a nuisance parameter is an unconstrained parameter of each row, like a linear predictor. So the derivatives of a likelihood
over (eta, log aux) are its derivatives over all predictors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.compiled.density import CompiledDensity
from probreg.errors import DataError
from probreg.likelihoods.base import (
    Array,
    AuxValues,
    Likelihood,
    LineAndSlopes,
    OfClasses,
    OfTrials,
    PymcVariable,
    ResponseOfBase,
    SmoothLikelihood,
    Start,
    ValueGradHessian,
    from_base,
)
from probreg.likelihoods.ordinal import SCALED_DENSITIES, Ordinal

# attributes of the response, the same as for the likelihood without further predictors
_FACTS = (
    "name",
    "binary",
    "is_count",
    "wider",
    "working",
    "has_cdf",
    "has_scalar_mean",
    "positive_limit",
)


def with_predictors(likelihood: Likelihood, names: Sequence[str]) -> "Distributional":
    """Return the likelihood with linear predictors of these names, such as "log sigma", after the linear predictor of its mean.

    Parameters
    ----------
    likelihood : Likelihood
        A smooth likelihood with one linear predictor.
    names : sequence of str
        Names among `likelihood.parameters`, without the first.

    Returns
    -------
    Distributional
        p(y | eta) with eta (n, 1 + len(names)).

    Raises
    ------
    DataError
        For a name that is no parameter of the likelihood.

    Examples
    --------
    >>> from probreg.likelihoods import Gaussian
    >>> wide = with_predictors(Gaussian(), ["log sigma"])
    >>> float(wide.log_prob(np.array(0.0), np.array([0.0, np.log(2.0)])).round(4))
    -1.6121
    """
    if isinstance(likelihood, Ordinal) and tuple(names) == ("log scale",):
        return OrdinalOfScale(likelihood, ("scale",))
    nuisance = dict(zip(likelihood.parameters[1:], likelihood.nuisance))
    unknown = [name for name in names if name not in nuisance]
    if unknown or not isinstance(likelihood, SmoothLikelihood) or likelihood.width > 1:
        available = ", ".join(map(repr, nuisance)) or "none"
        raise DataError(
            f"{(unknown or names)[0]!r} has a formula, and {likelihood.named} likelihood has these parameters beside its mean: {available}"
        )
    kind = (
        OfTrialsDistributional if isinstance(likelihood, OfTrials) else Distributional
    )
    return kind(likelihood, tuple(nuisance[name] for name in names))


def _at_predictors(name: str) -> Any:
    """Return the method of the likelihood at its own predictor and all of its nuisance parameters."""

    def method(self: Any, *arguments: Any, **known: Any) -> Any:
        *others, eta = arguments
        first, values = self.split_predictors(eta, known)
        return getattr(self.base, name)(*others, first, **values)

    return method


@dataclass(frozen=True)
class Distributional(ResponseOfBase, SmoothLikelihood):
    """A likelihood with linear predictors for the logs of some of its nuisance parameters.

    Attributes
    ----------
    base : SmoothLikelihood
        A likelihood with one linear predictor.
    with_formula : tuple of str
        The nuisance parameters with predictors, in the order of these.
    """

    base: Any
    with_formula: tuple[str, ...]

    named = from_base()
    exact_information = False

    def __post_init__(self) -> None:
        base = self.base
        facts = {fact: getattr(base, fact) for fact in _FACTS}
        facts["nuisance"] = tuple(
            a for a in base.nuisance if a not in self.with_formula
        )
        if base.noise_scale in facts["nuisance"]:
            facts["noise_scale"] = base.noise_scale
        for fact in ("at_zero", "at_infinity", "default_aux"):
            facts[fact] = {
                name: text
                for name, text in getattr(base, fact).items()
                if name in facts["nuisance"]
            }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def without_formulas(self) -> Likelihood:
        return self.base

    @property
    def width(self) -> int:  # type: ignore[override]
        return 1 + len(self.with_formula)

    @property
    def parameters(self) -> tuple[str, ...]:
        names = dict(zip(self.base.nuisance, self.base.parameters[1:]))
        order = (*self.with_formula, *self.nuisance)
        return (self.base.parameters[0], *(names[a] for a in order))

    def describe(self, response: str) -> str:
        names = " and ".join(self.parameters[1 : self.width])
        return f"{self.base.describe(response)}; {names} with a formula"

    at_rows = from_base()

    def split_predictors(
        self, eta: Any, aux: AuxValues, exp: Any = np.exp
    ) -> tuple[Any, dict[str, Any]]:
        """Return the predictor (..., n, 1) of the likelihood, and all of its nuisance parameters; symbols need their own `exp`."""
        with np.errstate(over="ignore"):
            values = {a: exp(eta[..., 1 + i]) for i, a in enumerate(self.with_formula)}
        return eta[..., :1], {**aux, **values}

    def _add_predictors(self, first: Array, values: AuxValues) -> Array:
        """Return the predictors (n, m): `first` (n, 1), then the log of each nuisance parameter with a formula, 0 if it has no value."""
        logs = [np.log(values.get(a, 1.0)) for a in self.with_formula]
        return np.hstack([first, np.broadcast_to(logs, (len(first), len(logs)))])

    def initial_eta(self, y: Array) -> Start:
        eta, aux = self.base.initial_eta(y)
        return self._add_predictors(eta, aux), {a: aux[a] for a in self.nuisance}

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        _, start = self.base.initial_eta(y)
        first = self.base.saturated_predictor(y, **start | aux)
        return self._add_predictors(first, start)

    saturated_log_prob = _at_predictors("saturated_log_prob")
    log_prob = _at_predictors("log_prob")
    mean = _at_predictors("mean")
    cdf = _at_predictors("cdf")
    sample = _at_predictors("sample")
    sample_like = _at_predictors("sample_like")
    response_variance = _at_predictors("response_variance")

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        first, values = self.split_predictors(eta, aux)
        line, J, over_aux = self.base.link_mean_and_slope(first, **values)
        over_predictors, over_nuisance = (
            over_aux[..., [self.base.nuisance.index(a) for a in names]]
            for names in (self.with_formula, self.nuisance)
        )
        return line, np.concatenate([J, over_predictors], -1), over_nuisance

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        first, values = self.split_predictors(eta, aux)
        local = self.base.value_grad_hessian(y, first, **values)
        order = self._order_of_predictors()
        return ValueGradHessian(
            local.log_prob,
            local.gradient[:, order],
            local.curvature[:, order][:, :, order],
        )

    def _order_of_predictors(self) -> list[int]:
        """The places of (predictors, log aux) in the order (eta, log aux) of the likelihood."""
        return [0, *map(self._place, (*self.with_formula, *self.nuisance))]

    def _place(self, name: str) -> int:
        return 1 + self.density_nuisance.index(name)

    def information(self, eta: Array, **known: Any) -> Array:
        """Return the information of the mean, and 1 for each other predictor: an approximation, for starts."""
        first, values = self.split_predictors(eta, known)
        information = np.zeros((*eta.shape, self.width))
        information += np.eye(self.width)
        information[..., :1, :1] = self.base.information(first, **values)
        return information

    def joint_information(self, eta: Array, **known: Any) -> Array | None:
        if self.is_discrete:
            return super().joint_information(eta, **known)
        first, values = self.split_predictors(eta, known)
        information = self.base.joint_information(first, **values)
        if information is None:
            return None
        order = self._order_of_predictors()
        return information[:, order][:, :, order]

    @property
    def compiled_density(self) -> CompiledDensity | None:  # type: ignore[override]
        density = self.base.compiled_density
        if density is None or density.settings is None:
            return None
        return density._replace(product=None, by_predictors=True)

    @property
    def density_rows(self) -> list[int]:
        return [0, *map(self._place, self.with_formula)]

    @property
    def density_width(self) -> int:
        return 1 + len(self.density_nuisance)

    @property
    def density_nuisance(self) -> tuple[str, ...]:
        return self.base.nuisance

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        logs = [np.log(aux[a]) if a in aux else 0.0 for a in self.density_nuisance]
        return (*logs, *self.base.constants)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        first, values = self.split_predictors(eta, aux, pm.math.exp)
        return self.base.pymc(first, **values)


class OrdinalOfScale(Distributional, OfClasses):
    """Ordered classes with P(y <= k) = F((c_k - eta) / s), and a predictor without intercept for log s.

    It is the likelihood without s at the predictor eta / s, with the gaps between thresholds divided by s.

    References
    ----------
    McCullagh 1980, section 6.
    """

    classes = from_base()
    tally = from_base()
    report_parameters = from_base()

    def with_intercept_at(self, name: str) -> "OrdinalOfScale":
        return replace(self, base=self.base.with_intercept_at(name))

    @property
    def parameters(self) -> tuple[str, ...]:
        mean, *gaps = self.base.parameters
        return (mean, "log scale", *gaps)

    @property
    def compiled_density(self) -> CompiledDensity | None:  # type: ignore[override]
        return SCALED_DENSITIES[self.base.link] if self.base.anchor == 0 else None

    @property
    def density_nuisance(self) -> tuple[str, ...]:
        return (*self.with_formula, *self.base.nuisance)

    def split_predictors(
        self, eta: Any, aux: AuxValues, exp: Any = np.exp
    ) -> tuple[Any, dict[str, Any]]:
        with np.errstate(over="ignore"):
            precision = exp(-eta[..., 1])
        gaps = {a: aux[a] * precision for a in self.nuisance}
        return eta[..., :1] * precision[..., None], gaps

    def _jacobian(self, first: Array, eta: Array) -> Array:
        """d(eta / s, log(gap / s)) / d(eta, log s, log gap), (..., 1 + a, 2 + a)."""
        a = len(self.nuisance)
        J = np.zeros((*first.shape[:-1], 1 + a, 2 + a))
        J[..., 0, 0] = np.exp(-eta[..., 1])
        J[..., 0, 1] = -first[..., 0]
        J[..., 1:, 1] = -1.0
        J[..., 1:, 2:] = np.eye(a)
        return J

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        first, values = self.split_predictors(eta, aux)
        line, over_eta, over_gaps = self.base.link_mean_and_slope(first, **values)
        slopes = np.concatenate([over_eta, over_gaps], -1) @ self._jacobian(first, eta)
        return line, slopes[..., :2], slopes[..., 2:]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        first, values = self.split_predictors(eta, aux)
        local = self.base.value_grad_hessian(y, first, **values)
        J = self._jacobian(first, eta)
        H = J.mT @ local.curvature @ J
        # minus the slope over eta / s times the second derivatives of eta / s: -1 / s over eta and log s, eta / s over log s twice
        slope = local.gradient[:, 0]
        H[:, 0, 1] += slope * J[:, 0, 0]
        H[:, 1, 0] += slope * J[:, 0, 0]
        H[:, 1, 1] -= slope * first[:, 0]
        gradient = (local.gradient[:, None] @ J)[:, 0]
        return ValueGradHessian(local.log_prob, gradient, H)

    def information(self, eta: Array, **known: Any) -> Array:
        information = super().information(eta, **known)
        information[..., 0, 0] *= np.exp(-2.0 * eta[..., 1])
        return information


class OfTrialsDistributional(Distributional, OfTrials):
    """The same for a likelihood of trials."""

    dependent_trials = from_base()
    trials = from_base()
    size = from_base()
    classes = from_base()
    tally = from_base()
    single_trials = from_base()
