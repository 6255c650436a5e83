"""The base classes of likelihoods: y given its linear predictors.

Linear predictors `eta` are an array of shape (..., n, m): n rows, m linear predictors (m = 1 for all but the softmax),
any number of leading axes for draws. Nuisance parameters such as sigma arrive as keywords that broadcast against
(..., n). Derivatives with respect to a nuisance parameter are on its log scale, where it is unconstrained.

A row of y is one observation: a number, or several numbers on a last axis (successes and trials, counts by class). Methods
with y need nothing else. Methods without y (`information`, `sample`, ...) take the values that are *given* for a row, as
keywords in addition to aux: `information(eta, **aux, **likelihood.given(y))`, with `trials=` (n,) if y counts trials.

A likelihood is an immutable value. Before it has data it is a specification (`Bernoulli()`); `prepare` reads the response and
returns the likelihood with its levels; `encode` turns response values into the numbers y.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import NamedSettings, RegistryName, with_article
from probreg.compiled.density import CompiledDensity, CustomDensity, forget_inherited
from probreg.errors import DataError, Incompatible
from probreg.likelihoods.link_densities import density_by_link
from probreg.likelihoods.links import LINKS, LOG, Link
from probreg.likelihoods.response import Level, check_variation, codes, is_level
from probreg.likelihoods.tails import TAILS, Tails
from probreg.registry import Registry
from probreg.special import differentiate

# the linear predictor in place of infinity, if the mean is at the edge of its range
INFINITE_PREDICTOR = 700.0
_DENSITY = frozenset({"log_prob", "value_grad_hessian", "score", "information", "mean"})

LIKELIHOODS: Registry["Likelihood"] = Registry("likelihood", example="student(nu=4)")
# a likelihood of censored responses contains another one
LIKELIHOODS.parts = (LIKELIHOODS,)

# The names of LIKELIHOODS, for completion in editors and for type checkers; a test checks that the two are equal.
LikelihoodName = Annotated[
    Literal[
        "absolute",
        "bernoulli",
        "beta",
        "beta_binomial",
        "binomial",
        "categorical",
        "censored",
        "epsilon_insensitive",
        "exponential",
        "gamma",
        "gaussian",
        "huber",
        "hurdle",
        "inverse_gaussian",
        "log_logistic",
        "log_normal",
        "multinomial",
        "negative_binomial",
        "ordinal",
        "poisson",
        "power",
        "quantile",
        "student",
        "truncated",
        "weibull",
        "zero_inflated",
    ],
    RegistryName(),
]

Array = np.ndarray
Shape = tuple[int, ...]
AuxValues = Mapping[str, Any]  # nuisance parameters by name
Levels = tuple[Level, ...]
Start = tuple[Array, dict[str, float]]  # eta (n, m) and nuisance parameters
# link(mean), and its slopes over eta and the log of each nuisance parameter
LineAndSlopes = tuple[Array, Array, Array]
PymcVariable = tuple[Any, dict[str, Any]]  # PyMC's distribution and its parameters
Support = Literal["real", "positive", "unit"]  # the line, (0, inf) and (0, 1)


class ValueGradHessian(NamedTuple):
    """log p(y_i) and its first and (negative) second derivatives over (eta_i, log aux), row by row."""

    log_prob: Array  # (n,)
    gradient: Array  # (n, m + a)
    curvature: Array  # (n, m + a, m + a), the observed information, or the expected one for densities with kinks or an infinite curvature


@dataclass(frozen=True)
class Recession:
    """Directions where the likelihood never falls.

    A direction d of beta belongs to the cone if c_r'(x_r d) >= 0 for every listed (row r, vector c_r), with
    equality where `equal` is set.

    Along a direction of the cone with some strict inequality the likelihood increases without limit, so that
    the maximum likelihood estimate does not exist (Albert & Anderson 1984; Haberman 1974).
    """

    rows: Array  # (r,) row numbers
    directions: Array  # (r, m)
    equal: Array  # (r,) bool
    # (r, a), the terms that directions of nuisance parameters, in the order of `nuisance`, add to c_r'(x_r d) of each constraint
    over_aux: Array | None = None


class Reported(NamedTuple):
    """Parameters that a fit reports in place of the nuisance parameters: functions of the intercept and of log aux."""

    names: tuple[str, ...]  # (r,)
    values: Array  # (..., r)
    slopes: Array  # (..., r, 1 + a), over the intercept and the log of each nuisance parameter
    supports: tuple[str, ...]  # a `Support` for each value

    def part(self, places: Sequence[int]) -> "Reported":
        """Return some of the parameters."""
        return Reported(
            tuple(self.names[i] for i in places),
            self.values[..., places],
            self.slopes[..., places, :],
            tuple(self.supports[i] for i in places),
        )


class Likelihood(NamedSettings, ABC):
    """p(y | eta, aux): a density of one observation as a function of its linear predictors."""

    name: ClassVar[str]
    # the interval where the response has a density, or its discrete values (counts are cut far in the tail)
    support: Support | Array
    # an interval of the mean is symmetric on this scale
    link: Any
    # the functional of the response that the inverse link gives, such as its mean, its median or its centre
    centre: str = "mean"
    # the levels of the response, code by code; empty for a number
    levels: Levels = ()
    # m, the number of linear predictors per row
    width: int = 1
    # names of the reported linear predictors; empty when there is only one
    outcomes: tuple[str, ...] = ()
    # (len(outcomes), m): reported coefficients are beta @ contrast_matrix.T
    contrast_matrix: Array = np.ones((1, 1))
    # names of linear predictors that have separate hyperparameters; empty for one predictor, and for exchangeable ones
    predictors_apart: tuple[str, ...] = ()
    nuisance: ClassVar[tuple[str, ...]] = ()  # positive nuisance parameters, by name
    # the nuisance parameter s with p(y | eta, s) = f((y - eta) / s) / s: precision weights w divide it by sqrt(w)
    noise_scale: ClassVar[str | None] = None
    # log p = -(y - eta)^2 / (2 s^2) - log s + constant, s the noise scale: least squares, which needs only the moments of the rows
    least_squares: ClassVar[bool] = False
    # k of the dispersion s^k, s the first of `nuisance`; 0 without one
    dispersion_power: float = 0.0
    # epsilon, where -log p = max(0, |y - eta| - epsilon) / s + constant, s the first of `nuisance`: errors within it cost nothing
    insensitive: ClassVar[float | None] = None
    # whether the likelihood of some data increases without limit, so that no estimate exists; None: not known, and inferred
    # from where a search ended (`probreg.inference.modes.existence`). False if it falls along
    # every direction that changes eta. True goes with `recession`: see `MayDiverge`
    may_diverge: ClassVar[bool | None] = None
    # the argument that chooses one level of the response: "event", "reference", or none
    chosen_level: ClassVar[str] = ""
    # the remedy for an `event` that the response does not have
    event_remedy: ClassVar[str] = "that is for Bernoulli"
    # whether y is 0 or 1 in each row, so that its residuals take two values at each mean
    binary: ClassVar[bool] = False
    # whether y counts events, 0, 1, 2, ..., without an upper limit
    is_count: ClassVar[bool] = False
    # remedy, as text, for responses that vary more than under this likelihood: a model for responses further from their mean
    wider: ClassVar[str] = ""
    # whether the response has an order and a distribution function: quantiles, quantile residuals and PIT values
    has_cdf: ClassVar[bool] = False
    # Compiled code, (prob, eta (S, n, 1), aux, weights (S,)) -> the quantiles (n,) of a mixture, nan if the general search is needed; a
    # test compares it with `cdf`. It applies only to the class that defines it: a subclass may be another density.
    compiled_quantile: ClassVar[Any] = None
    # whether `mean` is one number for each row, and not a probability of each class
    has_scalar_mean: ClassVar[bool] = False
    # whether `information` is the Fisher information, and not an approximation for starts
    exact_information: ClassVar[bool] = True
    # whether the scores of eta and of the nuisance parameters are uncorrelated, so that `information` is all that tests and deletion
    # of coefficients need
    is_orthogonal: ClassVar[bool] = False
    # a text if the density only defines an estimate and is no model of the response, so that its standard errors give no tests
    working: ClassVar[str] = ""
    # the model in the limit of a nuisance parameter at 0, {"alpha": "the Poisson model"}, if an estimate may go there;
    # write a parameter such that its limit is at 0, for instance 1 / shape
    at_zero: ClassVar[Mapping[str, str]] = MappingProxyType({})
    # the same for a nuisance parameter at infinity, such as a precision
    at_infinity: ClassVar[Mapping[str, str]] = MappingProxyType({})

    # the reason, as text, if the density of any y has a positive limit as eta goes to infinity in every row, so that a posterior
    # needs a proper prior of the intercept
    positive_limit: ClassVar[str] = ""

    # the texts of the default priors of nuisance parameters that need a proper prior, by name; all others default to `Reference()`
    default_aux: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __post_init__(self) -> None:
        super().__post_init__()
        if "link" in vars(self):
            # the user gives a name, and the field keeps the link
            object.__setattr__(self, "link", LINKS[vars(self)["link"]])

    def prepare(
        self,
        values: Array,
        *,
        levels: Levels | None,
        event: Level | None,
        reference: Level | None,
    ) -> Self:
        """Return the likelihood for this response, with its levels. DataError for values that the likelihood does not allow."""
        chosen = {"event": event, "reference": reference}
        remedies = {
            "event": self.event_remedy,
            "reference": "that is for Categorical",
        }
        for word, value in chosen.items():
            if value is not None and word != self.chosen_level:
                raise DataError(
                    f"{word}={value!r} was given, but {with_article(type(self).__name__)} response has no {word}; {remedies[word]}"
                )
        word = self.chosen_level
        value = chosen.get(word)
        stated = self.stated_choice()
        agree = stated is None or value is None or is_level(stated, value)
        if not agree:
            raise DataError(
                f"{word}={value!r} contradicts likelihood={self}, which has the {word} {stated!r}: give one of them"
            )
        return self.bind(values, levels, value)

    def stated_choice(self) -> Level | None:
        """Return the `chosen_level` that the user passed to the constructor; None without one."""
        return None

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        """Return the likelihood with the levels of this response; by default it has none, and `check_response` checks its values."""
        self.check_response(values)
        return self

    def check_response(self, values: Array) -> None:
        """Raise DataError for values that allow no estimate."""
        y = self.encode(values)
        if not self.is_discrete:
            check_variation(y)

    @abstractmethod
    def encode(self, values: Array) -> Array:
        """The response as numbers y, (n,) or (n, c). DataError names the first row with an invalid value."""

    def given(self, y: Array) -> dict[str, Array]:
        """Return the values of a row that are not random, as keywords: `trials` (..., n) if y counts trials."""
        return {}

    def size(self, **known: Any) -> Any:
        """The number of draws in each row, from its given values: 1 unless y counts trials."""
        return 1.0

    def drawn(self, y: Array) -> Array:
        """Return the random part of y, (..., n) or (..., n, K): y without its trials."""
        return y

    def join(self, drawn: Array, **given: Array) -> Array:
        """Return y from its random part and its given values: the inverse of `drawn` and `given`."""
        return drawn

    def response(self, y: Array) -> Array:
        """y on the scale of `mean`: y itself, the share of trials, 1 for the observed class and 0 for the others (..., n, K)."""
        return y

    def is_censored(self, y: Array) -> Array:
        """(n,) bool, the rows with a response that is only known to lie in an interval."""
        return np.zeros(len(y), dtype=bool)

    def has_orthogonal_information(self, unknown: tuple[str, ...]) -> bool:
        """Whether tests and deletion of coefficients need only `information`, if these nuisance parameters are estimated too."""
        return self.exact_information and (self.is_orthogonal or not unknown)

    def require_exact(self, y: Array, purpose: str, instead: str) -> None:
        """Raise Incompatible for `purpose`, which needs the value of each response, if some rows are censored."""
        count = int(self.is_censored(y).sum())
        if count:
            raise Incompatible(
                f"{purpose} needs the value of each response, and {count} of {len(y)} rows are censored: {instead}"
            )

    def of_counts(self) -> "Likelihood | None":
        """Return the likelihood of rows that count several draws of this one; None if there is no such likelihood."""
        return None

    @abstractmethod
    def describe(self, response: str) -> str:
        """A description of the model: the event, the reference class, the link."""

    @property
    def named(self) -> str:
        """Its name in a sentence, such as "a gaussian" or "an absolute"."""
        return with_article(self.name.replace("_", " "))

    def __str__(self) -> str:
        """The call that returns this likelihood, without default arguments, such as "Hurdle(base=Poisson())"."""
        if not is_dataclass(self):
            return repr(self)
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        arguments = [
            f"{name}={value if isinstance(value, Likelihood) else repr(value)}"
            for name, (value, default) in values.items()
            if value != default
        ]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def mean_name(self, response: str) -> str:
        """Return the name of the mean: the response, or the modelled probability."""
        return response

    @property
    def is_discrete(self) -> bool:
        """Whether the response has probabilities of single values in place of a density."""
        return not isinstance(self.support, str)

    @property
    def level_names(self) -> list[str]:
        """The levels as texts."""
        return list(map(str, self.levels))

    @property
    def link_function(self) -> Link:
        """`link`, which families with several links take by its name."""
        return self.link

    @abstractmethod
    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        """Return the linear predictors (n, m) that maximise p(y), truncated if p(y) increases without bound."""

    def saturated_log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        """log p(y) at the largest value over the mean (n,); `eta` (n, m) has the other linear predictors."""
        return self.log_prob(y, self.saturated_predictor(y, **aux), **aux)

    def initial_eta(self, y: Array) -> Start:
        """Return a rough eta (n, m) and aux from the response alone, as the start of Newton's method; zeros by default."""
        return np.zeros((len(y), self.width)), {}

    @abstractmethod
    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        """log p(y | eta, aux), shape (..., n)."""

    @abstractmethod
    def mean(self, eta: Array, **aux: Any) -> Array:
        """E[y | eta], shape (..., n), per trial if y counts trials; class probabilities (..., n, K) for classes."""

    def response_variance(self, eta: Array, **known: Any) -> Array | None:
        """Var of a new response on the scale of `mean`; None if there is no formula, so that it is simulated."""
        return None

    @abstractmethod
    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        """link(mean) (..., n, D), its derivative over eta (..., n, D, m), and over the log of each nuisance parameter (..., n, D, a)."""

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        """P(Y <= y | eta, aux), shape (..., n), for a response with an order (`has_cdf`)."""
        raise Incompatible(f"{self.named} response has no order, so it has no cdf")

    def lower_end(self, y: Array) -> Array:
        """Return the response with P(Y < y) as its `cdf`: y itself for a continuous response, y - 1 for a count."""
        if not self.is_discrete:
            return y
        return self.join(self.drawn(y) - 1.0, **self.given(y))

    @abstractmethod
    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        """Draws of y, shape (..., n)."""

    def sample_like(self, y: Array, rng: Generator, eta: Array, **aux: Any) -> Array:
        """Draws of a response at the rows of y, with its trials. A draw in the interval of a censored row is censored."""
        return self.sample(rng, eta, **aux, **self.given(y))

    @abstractmethod
    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        """PyMC's distribution class and its parameters at a symbolic eta (n, m)."""

    def no_aux_slopes(self, line: Array) -> Array:
        """Return zeros (..., n, D, a): link(mean), `line` (..., n, D), depends on no nuisance parameter."""
        return np.zeros((*line.shape, len(self.nuisance)))

    def pymc_value(self, y: Array) -> Array:
        """Return the observed value of the variable of `pymc`."""
        return self.drawn(y)

    def noise(self, aux: AuxValues, default: Any = 1.0) -> Any:
        """The noise scale from these nuisance parameters; `default` if the likelihood has none, or if it is missing."""
        return aux.get(self.noise_scale or "", default)

    def report_parameters(self, intercept: Any, **aux: Any) -> Reported | None:
        """Return the parameters to report in place of the nuisance parameters; None: the nuisance parameters themselves."""
        return None

    def with_intercept_at(self, name: str) -> "Likelihood":
        """Return the same likelihood, written so that this reported parameter is minus the intercept."""
        raise NotImplementedError(f"{name} does not depend on the intercept")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the linear predictors that a parameter may have: of the mean, and of the log of each nuisance parameter."""
        return ("mu", *(f"log {name}" for name in self.nuisance))

    @property
    def without_formulas(self) -> "Likelihood":
        """The likelihood without formulas of its nuisance parameters."""
        return self

    def dispersion(self, aux: Mapping[str, float]) -> float:
        """phi in the deviance 2 phi sum (log p(y | y) - log p(y | eta)): it removes the unit of the noise, if there is one."""
        if not self.dispersion_power:
            return 1.0
        return float(aux[self.nuisance[0]]) ** self.dispersion_power

    def at_rows(self, aux: AuxValues, precision: Array | None) -> dict[str, Any]:
        """The nuisance parameters of rows with precisions w (n,): the noise scale of row i is s / sqrt(w_i)."""
        if precision is None or self.noise_scale is None:
            return dict(aux)
        return {**aux, self.noise_scale: aux[self.noise_scale] / np.sqrt(precision)}


class UnivariateLikelihood(Likelihood):
    """One linear predictor, a mean of one number, and a response with an order: it has a distribution function."""

    has_cdf = has_scalar_mean = True

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        def line(eta: Array, **aux: Any) -> Array:
            return self.link_function.forward(self.mean(eta, **aux))

        return line_and_slopes(line, eta, aux, self.nuisance)

    @abstractmethod
    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        """P(Y <= y | eta, aux), shape (..., n)."""

    def symbolic_log_prob(self, y: Any, mu: Any, *values: Any) -> Any:
        """log p(y) of symbols, with the nuisance parameters in order; for families that PyMC lacks."""
        raise NotImplementedError

    def custom_density(
        self, eta: Any, aux: AuxValues, signature: str | None = None
    ) -> PymcVariable:
        """Return a variable of PyMC with the density `symbolic_log_prob` and the draws of `sample`."""

        def draw(mu: Array, *values: Any, rng: Generator, size: Any) -> Array:
            if size is None:
                size = np.broadcast_shapes(np.shape(mu), *map(np.shape, values))
            parameters = dict(zip(self.nuisance, values))
            return self.sample(rng, np.broadcast_to(mu, size)[..., None], **parameters)

        parameters = {"mu": eta[:, 0], **{a: aux[a] for a in self.nuisance}}
        return CustomDensity(self.symbolic_log_prob, draw, signature), parameters


class MeanByLink(UnivariateLikelihood):
    """The mean is the inverse link of eta, and the density of y is largest at a mean of y."""

    def mean(self, eta: Array, **aux: Any) -> Array:
        return self.link_function.inverse(eta[..., 0])

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        return eta, np.ones((*eta.shape, 1)), self.no_aux_slopes(eta)

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        # the link of a mean at the edge of its range is infinite
        with np.errstate(all="ignore"):
            eta = self.link.forward(self.response(y))
        return np.nan_to_num(
            eta, posinf=INFINITE_PREDICTOR, neginf=-INFINITE_PREDICTOR
        )[..., None]


class DifferentiableLikelihood(Likelihood):
    """Differentiable in (eta, log aux) except at kinks: samplers and normal approximations by the expected information apply."""

    @abstractmethod
    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        """d log p / d eta, shape (..., n, m); at a kink a value between the two one-sided derivatives."""

    @abstractmethod
    def information(self, eta: Array, **aux: Any) -> Array:
        """E[score score'], the Fisher information, shape (..., n, m, m)."""

    def joint_information(self, eta: Array, **known: Any) -> Array | None:
        """The Fisher information of rows eta (n, m) over eta and the logs of all nuisance parameters, (n, m + a, m + a); None without
        a formula, or if it has too many terms."""
        if not self.is_discrete:
            return None
        # the mean of the curvature over y = 0, 1, ...
        total: Any = 0.0
        left = np.ones(len(eta))
        # more terms take about twenty seconds
        most = min(100_000.0, 5e7 // len(eta))
        for k in np.arange(most):
            y = self.join(np.full(len(eta), k), **known)
            with np.errstate(all="ignore"):  # beyond the number of trials
                local = self.value_grad_hessian(y, eta, **known)
                p = np.nan_to_num(np.exp(local.log_prob))
            total = total + p[:, None, None] * np.nan_to_num(local.curvature)
            left -= p
            if left.max() < 1e-12:
                return np.asarray(total)
        return None

    def information_slope(self, eta: Array, **aux: Any) -> Array:
        """d information / d eta, shape (..., n, m, m, m), the last axis for eta; by differences of fourth order."""

        def slope(direction: Array) -> Array:
            def information(h: float) -> Array:
                return self.information(eta + h * direction, **aux)

            return differentiate(information, 1e-3)

        return np.stack([slope(e) for e in np.eye(eta.shape[-1])], -1)

    @abstractmethod
    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        """log p with its gradient and curvature over (eta, log aux), for one eta of shape (n, m): the observed curvature, or
        the expected one if log p is not twice differentiable."""

    def derivatives_over(
        self,
        unknown: tuple[str, ...],
        y: Array,
        eta: Array,
        aux: AuxValues,
        precision: Array | None,
    ) -> ValueGradHessian:
        """`value_grad_hessian` of rows with precisions, over eta and the logs of the nuisance parameters `unknown`."""
        m = self.width
        local = self.value_grad_hessian(y, eta, **self.at_rows(aux, precision))
        if len(unknown) == local.gradient.shape[1] - m:
            return local
        places = self.places_over(unknown)
        curvature = local.curvature[:, places][:, :, places]
        return ValueGradHessian(local.log_prob, local.gradient[:, places], curvature)

    def places_over(self, unknown: Sequence[str]) -> list[int]:
        """Return the places of eta and of these nuisance parameters among eta and all nuisance parameters."""
        m = self.width
        return [*range(m), *(m + self.nuisance.index(name) for name in unknown)]

    # whether `value_grad_hessian` gives the expected curvature in place of the observed one
    expected_curvature: ClassVar[bool] = False
    # why Newton's method may reach its step limit, with a remedy
    obstacle_to_search: ClassVar[str] = ""
    # whether the curvature jumps where eta passes a kink of the gradient, so that the evidence jumps too
    curvature_jumps: ClassVar[bool] = False
    # whether the curvature has a slope, which the slopes of Laplace's approximation of the evidence need
    curvature_has_slope: ClassVar[bool] = True
    # log p is concave in eta; a sum of concave terms, with concave log priors, has one maximum
    concave: ClassVar[bool] = False

    # For compiled code; a test compares it with log_prob and score. Without it NumPy is used, and samplers use PyMC's graph.
    compiled_density: ClassVar[CompiledDensity | None] = None
    # compiled densities for links other than the default, if they have more digits than a density from `density_by_link`
    densities_of_links: ClassVar[Mapping[str, CompiledDensity]] = MappingProxyType({})

    def __post_init__(self) -> None:
        super().__post_init__()
        default = type(self).link
        link = vars(self).get("link", default)
        if link is not default and self.compiled_density is not None:
            density = self.densities_of_links.get(link) or density_by_link(
                self.compiled_density, default, link
            )
            object.__setattr__(self, "compiled_density", density)

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        forget_inherited(cls, _DENSITY)

    @property
    def density_rows(self) -> list[int]:
        """The index of each linear predictor among the predictors of the compiled density."""
        return list(range(self.width))

    @property
    def density_width(self) -> int:
        """The number of linear predictors of the compiled density."""
        return self.width

    @property
    def density_nuisance(self) -> tuple[str, ...]:
        """The nuisance parameters, in order: the compiled density has slopes over their logs."""
        return self.nuisance

    # numbers of the density that are not estimated
    constants: tuple[float, ...] = ()

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        """The array t of the density, number by number: functions of aux (each may be an array) and of the constants."""
        values = [aux[a] for a in self.nuisance]
        density = self.compiled_density
        if density is None or density.settings is None:
            return (*values, *self.constants)
        return tuple(density.settings(values, self.constants))

    def base_measure(self, y: Array) -> Array:
        """Return the terms of log p that the density omits, a function of y alone, (n,)."""
        return np.zeros(len(y))


class SmoothLikelihood(DifferentiableLikelihood):
    """Twice differentiable in (eta, log aux): Newton's method and Laplace's approximation apply."""

    @property
    def tails(self) -> Tails:
        """The distribution function that is the inverse of the link, accurate near 0 and 1."""
        return TAILS[self.link]

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        of_row = np.shape(self.drawn(y))
        parts = np.shape(y)[len(of_row) :]  # such as trials
        shape, predictors, values = flatten_rows(eta, aux, of_row)
        rows = np.broadcast_to(y, (*shape, *parts)).reshape(-1, *parts)
        gradient = self.value_grad_hessian(rows, predictors, **values).gradient
        return gradient[:, : self.width].reshape(*shape, self.width)

    def find_zero_score(self, y: Array, low: Any, high: Any, **aux: Any) -> Array:
        """Return the eta (n, 1) between `low` and `high` where the score changes from positive to negative.

        Newton's method; a row bisects the bracket if its step leaves it, or is more than half of the step before.
        """
        n = len(y)
        ends = np.hstack([np.broadcast_to(end, (n, 1)) for end in (low, high)])
        values = {name: np.broadcast_to(value, n) for name, value in aux.items()}
        eta = ends.mean(1)
        size = ends[:, 1] - ends[:, 0]
        i = np.arange(n)  # rows on the way
        for _ in range(60):
            known = {name: value[i] for name, value in values.items()}
            with np.errstate(all="ignore"):  # far from the data
                _, gradient, curvature = self.value_grad_hessian(
                    y[i], eta[i, None], **known
                )
                step = gradient[:, 0] / curvature[:, 0, 0]
            rises = gradient[:, 0] > 0.0
            ends[i, np.where(rises, 0, 1)] = eta[i]
            start, stop = ends[i].T
            is_newton = (start < eta[i] + step) & (eta[i] + step < stop)
            is_newton &= np.abs(step) < 0.5 * size[i]
            step = np.where(is_newton, step, 0.5 * (start + stop) - eta[i])
            eta[i] += step
            size[i] = np.abs(step)
            # log p is flat there: its error is of the order of the square
            i = i[size[i] > 1e-9 * (1.0 + np.abs(eta[i]))]
            if not len(i):
                break
        return eta[:, None]


def line_and_slopes(
    line: Callable[..., Array],
    eta: Array,
    aux: AuxValues,
    nuisance: tuple[str, ...],
) -> LineAndSlopes:
    """Return line(eta, **aux) (..., n, 1), and its slopes over eta and the log of each nuisance parameter, as `link_mean_and_slope`.

    The slopes are five-point differences; 0 where the line is infinite.
    """
    step = 2e-3  # the error, step^4 / 30, and rounding are both near 1e-13

    def slope(direction: Array, name: str | None) -> Array:
        def line_at(t: float) -> Array:
            values = dict(aux)
            if name is not None:
                values[name] = aux[name] * np.exp(t)
            return line(eta + t * direction, **values)

        with np.errstate(invalid="ignore"):
            change = differentiate(line_at, step)
        return np.where(np.isfinite(change), change, 0.0)

    value = line(eta, **aux)
    no_step = np.zeros(eta.shape[-1])
    J = [slope(direction, None) for direction in np.eye(eta.shape[-1])]
    A = [slope(no_step, name) for name in nuisance]
    over_aux = np.stack(A, -1) if A else np.zeros((*value.shape, 0))
    return value[..., None], np.stack(J, -1)[..., None, :], over_aux[..., None, :]


def symmetric_pairs(first: Array, cross: Array, second: Array) -> Array:
    """Return the matrices [[first, cross], [cross, second]], (..., 2, 2)."""
    rows = [np.stack([first, cross], -1), np.stack([cross, second], -1)]
    return np.stack(rows, -2)


def flatten_rows(
    eta: Array, values: AuxValues, *shapes: Shape
) -> tuple[Shape, Array, dict[str, Any]]:
    """Return the common shape (..., n), and predictors (N, m) and values (N,) of all of its rows and draws."""
    m = eta.shape[-1]
    of_values = map(np.shape, values.values())
    shape = np.broadcast_shapes(eta.shape[:-1], *of_values, *shapes)
    rows = np.broadcast_to(eta, (*shape, m)).reshape(-1, m)
    return (
        shape,
        rows,
        {a: np.broadcast_to(v, shape).ravel() for a, v in values.items()},
    )


class IntervalLikelihood(UnivariateLikelihood, SmoothLikelihood):
    """A family with P(lower < Y <= upper) and its derivatives, so that its response can be censored or truncated.

    Ends may be infinite.
    """

    @abstractmethod
    def log_interval(self, lower: Array, upper: Array, eta: Array, **aux: Any) -> Array:
        """log P(lower < Y <= upper), shape (..., n)."""

    def symbolic_tails(self, y: Any, mu: Any, **aux: Any) -> tuple[Any, Any]:
        """log P(Y <= y) and log P(Y > y) of symbols, for PyMC's graph of censored responses."""
        raise Incompatible(
            f"censored responses of {self.named} likelihood have no PyMC model"
        )

    @abstractmethod
    def expand_interval(
        self, lower: Array, upper: Array, eta: Array, **aux: Any
    ) -> ValueGradHessian:
        """`log_interval` with its gradient and negative second derivatives over (eta, log aux), for one eta (n, 1)."""


class FromBase:
    """An attribute or a method that a likelihood takes from its `base`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, likelihood: Any, owner: type | None = None) -> Any:
        return self if likelihood is None else getattr(likelihood.base, self.name)


from_base: Any = FromBase


class ResponseOfBase(Likelihood):
    """A likelihood with the response and the link of another one, its `base`."""

    base: Any

    support = from_base()
    levels = from_base()
    link = from_base()
    centre = from_base()
    mean_name = from_base()
    encode = from_base()
    given = from_base()
    drawn = from_base()
    join = from_base()
    is_censored = from_base()
    lower_end = from_base()
    pymc_value = from_base()
    response = from_base()
    initial_eta = from_base()
    base_measure = from_base()


class ProximalLikelihood(DifferentiableLikelihood):
    """Concave in eta, with kinks: at a mode on a kink log p has no second derivative."""

    concave = expected_curvature = True


class MayDiverge(Likelihood):
    """A likelihood with a maximum that may be at infinity: a linear programme detects separation."""

    may_diverge = True

    @abstractmethod
    def recession(self, y: Array) -> Recession:
        """Return the rows and directions that bound the cone where the likelihood never falls."""

    @abstractmethod
    def absent_outcomes(self, y: Array) -> Array:
        """(k,) bool: outcomes that occur in no row of y, so that the estimate of an intercept without a prior is infinite."""

    @abstractmethod
    def infinite_intercept(self, absent: Array, rows: int) -> str:
        """The reason why an intercept without a prior has no estimate if these outcomes occur in no row."""


class OfClasses(Likelihood):
    """The outcome is one of several classes, once in a row or in each of its trials."""

    def stated_levels(self) -> Levels:
        """Return the levels that the user passed to the constructor; empty for the default ones."""
        if self.levels == type(self)().levels:
            return ()
        return self.levels

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, (K,); with two classes the event is the last."""
        return tuple(self.level_names)

    @abstractmethod
    def tally(self, y: Array) -> Array:
        """Return the counts of each class, (..., n, K)."""

    def absent_outcomes(self, y: Array) -> Array:
        """(K,) bool: classes that occur in no row of y."""
        return self.tally(y).sum(0) == 0

    def infinite_intercept(self, absent: Array, rows: int) -> str:
        """The reason why an intercept without a prior has no estimate if these classes occur in no row."""
        name = self.classes[int(np.argmax(absent))]
        return f"class {name} occurs in none of {rows} rows: its probability is estimated as 0, at infinity on the {self.link} scale"


class OneOfClasses(OfClasses):
    """The response of a row is one of K classes, encoded as 0, ..., K - 1; `mean` has the probabilities."""

    def encode(self, values: Array) -> Array:
        return codes(values, self.levels)

    @property
    def support(self) -> Array:  # type: ignore[override]
        return np.arange(float(len(self.levels)))

    def response(self, y: Array) -> Array:
        return (np.asarray(y)[..., None] == self.support).astype(float)

    def tally(self, y: Array) -> Array:
        return self.response(y)

    def mean_name(self, response: str) -> str:
        return f"P({response})"

    def response_variance(self, eta: Array, **known: Any) -> Array:
        p = self.mean(eta, **known)
        return p * (1.0 - p)

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        p = self.mean(eta, **aux)
        u = rng.random((*p.shape[:-1], 1))
        # the inverse distribution function: the number of k with P(class <= k) < u
        return (p[..., :-1].cumsum(-1) < u).sum(-1).astype(float)


def class_probabilities(mean: Array) -> Array:
    """Return the probabilities (n, K) of all classes from the mean of a response: (n, K), or (n,) of one event."""
    return mean if mean.ndim == 2 else np.stack([1.0 - mean, mean], 1)


class OfTrials(OfClasses):
    """y counts the trials of a row: the successes, or the counts of each class. One row is one observation."""

    single: ClassVar[str]  # the name of the likelihood of one trial
    # whether the trials of a row depend on each other, so that they are not units of a sample
    dependent_trials: ClassVar[bool] = False
    # the trials of every row, if they are one number that is known without y
    trials: int | None = None

    @abstractmethod
    def single_trials(self) -> Array:
        """(K, width), for each class the response of a row with one trial in this class, in the order of `tally`."""

    def size(self, **known: Any) -> Any:
        """The number of trials of each row. DataError if it is not known, because there is no default."""
        trials = known.get("trials", self.trials)
        if trials is None:
            kind = with_article(type(self).__name__)
            raise DataError(
                f"{kind} row counts trials, and their number is not known here: pass trials=, one per row"
            )
        return np.asarray(trials)


class ExponentialFamily(MeanByLink, SmoothLikelihood):
    """A link mu(eta) and a variance V(mu): the generalised linear models (McCullagh & Nelder 1989, section 2.2).

    d log p / d eta = (y - n mu) theta', theta' = mu' / V the slope of the natural parameter, so that the expected information is
    n mu' theta' and the observed one n mu' theta' - (y - n mu) theta''. A `canonical` link has theta = eta. n is 1 unless y
    counts trials. A family with a nuisance parameter adds the derivatives over it.
    """

    is_orthogonal = True  # E[y - mu] = 0 at any value of a nuisance parameter
    canonical: ClassVar[bool] = False
    # the ends of the means
    mean_range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)

    @cached_property
    def domain(self) -> tuple[float, float]:
        """The ends of eta for means in `mean_range`: log p is -inf beyond them."""
        if self.canonical:  # avoids the import of SciPy's logit, 0.04 s
            return -np.inf, np.inf
        with np.errstate(divide="ignore"):
            low, high = np.sort(self.link.forward(np.array(self.mean_range)))
        return float(low), float(high)

    def in_domain(self, eta: Array) -> Array:
        """(..., n) bool, whether eta is inside the domain."""
        low, high = self.domain
        e = eta[..., 0]
        return (low < e) & (e < high)

    def within_domain(self, eta: Array, log_p: Array) -> Array:
        """Return log p, -inf where eta is beyond the domain."""
        low, high = self.domain
        if low == -np.inf and high == np.inf:
            return log_p
        e = eta[..., 0]
        return np.where((low <= e) & (e <= high), log_p, -np.inf)

    def log_mean(self, eta: Array) -> Array:
        """log mu."""
        if self.link is LOG:
            return eta[..., 0]
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.mean(eta), 0.0))

    @abstractmethod
    def variance(self, mu: Array, **aux: Any) -> Array:
        """Var of one draw as a function of its mean."""

    @abstractmethod
    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        """dV / d mu."""

    def mean(self, eta: Array, **known: Any) -> Array:
        low, high = self.domain
        e = eta[..., 0]
        if low > -np.inf or high < np.inf:  # draws of coefficients may leave it
            e = np.clip(e, low, high)
        return self.link.inverse(e)

    def response_variance(self, eta: Array, **known: Any) -> Array | None:
        return self.variance(self.mean(eta), **known) / self.size(**known)

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        # d log p / d eta = (y - n mu) theta', theta' = 1 for the canonical link.
        n = self.size(**self.given(y))
        slope = self._natural(eta, aux)[0]
        return ((self.drawn(y) - n * self.mean(eta)) * slope)[..., None]

    def information(self, eta: Array, **known: Any) -> Array:
        # W = n mu'^2 / V = n mu' theta'.
        slope = self.link.slope(eta[..., 0]) * self._natural(eta, known)[0]
        return (self.size(**known) * slope)[..., None, None]

    def joint_information(self, eta: Array, **known: Any) -> Array | None:
        if self.is_discrete:
            return super().joint_information(eta, **known)
        # log p = A(y, mu) / s + c(s) + B(y): -d2 log p / (d log s)^2 minus the slope (which has mean 0) is the same for every y
        mu = self.mean(eta)
        slope, second = self.slopes_over_log_scale(mu, mu, known[self.nuisance[0]])
        W = self.information(eta, **known)[..., 0, 0]
        return symmetric_pairs(W, 0.0 * W, second - slope)

    def information_slope(self, eta: Array, **known: Any) -> Array:
        # dW / d eta = n (mu'' theta' + mu' theta'').
        first, second = self._natural(eta, known)
        e = eta[..., 0]
        slope = self.link.hessian(e) * first
        if not self.canonical:
            slope = slope + self.link.slope(e) * second
        return (self.size(**known) * slope)[..., None, None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        n = self.size(**self.given(y))
        residual = self.drawn(y) - n * self.mean(eta)
        # -d^2 log p / d eta^2 = n mu' theta' - (y - n mu) theta''.
        first, second = self._natural(eta, aux)
        h = n * self.link.slope(eta[..., 0]) * first
        if not self.canonical:  # a residual may be infinite
            h = h - residual * second
        g = np.multiply(residual, first, out=residual)
        log_p = self.log_prob(y, eta, **aux)
        if not self.nuisance:
            return ValueGradHessian(log_p, g[:, None], h[:, None, None])
        scale = aux[self.nuisance[0]]
        slope, second = self.slopes_over_log_scale(y, self.mean(eta), scale)
        # the score is proportional to s^-k: -d2 log p / (d eta d log s) is k times the score
        H = symmetric_pairs(h, self.dispersion_power * g, second)
        return ValueGradHessian(log_p, np.stack([g, slope], -1), H)

    def slopes_over_log_scale(
        self, y: Array, mu: Array, scale: Any
    ) -> tuple[Array, Array]:
        """Return d log p / d log s and the negative second derivative; a family with a dispersion s^k defines it."""
        raise NotImplementedError(
            f"{type(self).__name__} has the nuisance parameter {self.nuisance[0]}: define value_grad_hessian over eta and its log"
        )

    def _natural(self, eta: Array, aux: AuxValues) -> tuple[Any, Any]:
        """theta' = mu' / V and theta'' = mu'' / V - mu'^2 V' / V^2, over eta; 1 and 0 for the canonical link."""
        if self.canonical:
            return 1.0, 0.0
        e = eta[..., 0]
        mu = self.mean(eta)
        V = self.variance(mu, **aux)
        slope = self.link.slope(e)
        with np.errstate(all="ignore"):  # at the ends of the domain
            first = slope / V
            bend = first**2 * self.variance_slope(mu, **aux)
            return first, self.link.hessian(e) / V - bend
