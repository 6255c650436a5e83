"""Criteria for the scale of a prior: the request to a criterion, its result, losses of predictions, AIC, BIC, GCV and the evidence."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import gammaln

from probreg.data import Design
from probreg.errors import NotConverged
from probreg.inference import METHODS, PathSolution, mode_path
from probreg.inference.base import positive_limits
from probreg.inference.penalized.ridge_modes import RidgeModes
from probreg.likelihoods import Likelihood, SmoothLikelihood
from probreg.model.model import Model
from probreg.model.off_span import total_variance_left, variance_left_at_rows
from probreg.priors import InverseGamma, Reference
from probreg.registry import Registry

# losses of held-out observations, as `tune` describes them
LOSSES = {
    "log": "negative log density",
    "squared": "squared error",
    "zero_one": "share of wrong classes",
}
LossName = Literal["log", "squared", "zero_one"]
Array = np.ndarray


CRITERIA: Registry["Criterion"] = Registry("criterion")


@dataclass(frozen=True, eq=False)
class Request:
    """The user's settings for a criterion with held-out rows; `model` is the user's model, which names the columns of groups."""

    loss: LossName
    folds: Any = 10
    groups: Any = None
    seed: int | None = None
    model: Model | None = None


@dataclass(frozen=True, eq=False)
class Assessment:
    """Scores (S,) of a criterion at the scales of a path, with their standard errors (S,), or nan if there is none.

    `description` describes the scores, `columns` are further columns of the table, and `parts` (S, K) the scores of K folds or
    observations.
    """

    score: Array
    description: str
    se: Any = np.nan
    columns: Mapping[str, Array] = field(default_factory=dict)
    parts: Array | None = None
    notes: tuple[str, ...] = ()


class Criterion(ABC):
    """A criterion that scores every scale of a path."""

    name: ClassVar[str]
    # takes a loss, and its score has a standard error
    holds_out: ClassVar[bool] = False
    deals: ClassVar[bool] = False  # takes folds, groups and a seed for them
    grid: ClassVar[int] = 50  # scales when none are given

    def obstacle(self, model: Model) -> str | None:
        """Return why the criterion is not defined for this model, or None."""
        return None

    @abstractmethod
    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        """The score at every scale of the path."""


_SIGMA = (
    "no joint mode of the coefficients and sigma at some scale: where the columns can reproduce the response, sigma runs to 0 "
    "under a weak prior. Hold sigma (aux={'sigma': ...}), state the prior in its units (sigma_units=True), or give smaller scales"
)


def modes(model: Model, grid: Array) -> PathSolution:
    """Return the modes along a grid; NotConverged with a remedy if sigma, unknown under priors on the raw scale, runs to 0."""
    try:
        return mode_path(model, grid)
    except NotConverged as error:
        if not model.mode_free_of_sigma and model.design.count <= model.shape[0]:
            raise NotConverged(f"{_SIGMA} ({error})") from error
        raise


def found_modes(path: PathSolution) -> Array:
    """Return bool (S,): the scales where a mode was found, of the model or of its limiting model."""
    return np.array([status.is_mode for status in path.status])


def modes_with_curvature(path: PathSolution) -> list[int]:
    """Return the numbers of the scales where a mode inside the parameter space was found."""
    return [i for i, status in enumerate(path.status) if status.good]


def aux_columns(path: PathSolution) -> dict[str, Array]:
    """Return the estimated nuisance parameters (S,) by column name: `scale` is "noise_scale", since a path has scales of the prior."""
    return {"noise_scale" if a == "scale" else a: v for a, v in path.aux.items()}


def estimated_aux_at(path: PathSolution, i: int) -> dict[str, float]:
    """The auxiliary parameters that were estimated, at the i-th scale."""
    return {a: float(v[i]) for a, v in path.aux.items()}


def all_aux_at(path: PathSolution, i: int) -> dict[str, float]:
    """All auxiliary parameters at the i-th scale, where densities have values."""
    return {**path.base.fixed, **positive_limits(estimated_aux_at(path, i))}


def row_losses(
    loss: LossName, likelihood: Likelihood, rows: Design, eta: Array, aux: Any
) -> Array:
    """Return the loss of each row (n,) at its linear predictors eta (n, m); a nuisance parameter is one number, or one for each row.

    "log" is -log p(y | eta) in nats. "squared" is (y - E[y])^2, over classes sum_k (p_k - 1[y = k])^2 (Brier 1950), and of trials
    (k / n - p)^2. "zero_one" is 1 where the most probable class is not the observed one; it is not proper, because it ignores the
    probabilities.

    >>> model = Model.from_arrays([0.0, 1.0], [3.0, 2.0])
    >>> row_losses("squared", model.likelihood, model.design, np.ones((2, 1)), {"sigma": 1.0})
    array([4., 1.])
    """
    parameters = likelihood.at_rows(aux, rows.precision)
    y = rows.observed
    if loss == "log":
        return -likelihood.log_prob(y, eta, **parameters)
    mean = likelihood.mean(eta, **parameters)
    of_classes = mean.ndim == eta.ndim
    if loss == "squared":
        square = np.square(mean - likelihood.response(y))
        return square.sum(-1) if of_classes else square
    # of two classes the event where p > 1/2
    likely = mean.argmax(-1) if of_classes else mean > 0.5
    return (likely != y).astype(float)


def mean_and_error(parts: Array, weight: Array, count: float) -> tuple[Array, Array]:
    """The mean of parts (S, K) of weight (K,) and its standard error sqrt(sum w (v - mean)^2 / (W (count - 1))), `count`
    the number of independent parts: K folds, or as many observations as the weights add up to.

    >>> mean_and_error(np.array([[1.0, 2.0, 3.0]]), np.ones(3), 3)
    (array([2.]), array([0.57735027]))
    """
    # mean = sum_k w_k v_k / W, se^2 = sum_k w_k (v_k - mean)^2 / (W (count - 1)).
    total = weight.sum()
    mean = parts @ weight / total
    return mean, np.sqrt(
        np.square(parts - mean[:, None]) @ weight / total / max(count - 1.0, 1.0)
    )


# ---- information criteria; a parameter under a prior counts by its effective degrees of freedom --------------------------


def criteria(path: PathSolution) -> dict[str, Array]:
    """AIC and BIC (S,): -2 log p(y | mode) + k penalty, with k = df + the number of unknown auxiliary parameters; nan where no
    mode was found."""
    k = np.where(found_modes(path), path.df + len(path.aux), np.nan)
    prices = {"aic": 2.0, "bic": np.log(path.base.design.total)}
    return {name: price * k - 2.0 * path.log_lik for name, price in prices.items()}


class _Counted(Criterion):
    """A criterion that counts parameters."""

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        price = "2" if self.name == "aic" else f"log({path.base.design.total:g})"
        description = f"{self.name.upper()} = -2 log p(y | mode) + {price} k, k the effective degrees of freedom of the coefficients"
        if path.aux:
            description += f", plus {len(path.aux)} for {', '.join(path.aux)}"
        score = criteria(path)[self.name]
        columns = {"log_likelihood": path.log_lik}
        return Assessment(score, description, columns=columns)


@CRITERIA.register
@dataclass(frozen=True)
class AIC(_Counted):
    """-2 log p(y | mode) + 2 k, k = df + unknown auxiliary parameters (Akaike 1973; Hastie & Tibshirani 1990, ch. 3)."""

    name = "aic"


@CRITERIA.register
@dataclass(frozen=True)
class BIC(_Counted):
    """-2 log p(y | mode) + log(n) k, n the observations, k as for AIC (Schwarz 1978; Zou, Hastie & Tibshirani 2007)."""

    name = "bic"


@CRITERIA.register
@dataclass(frozen=True)
class GCV(Criterion):
    """Generalised cross-validation: n RSS / (n - df)^2, for Gaussian models with normal priors.

    It is the mean squared leave-one-out error if every row has the same leverage (Golub, Heath & Wahba 1979).
    """

    name = "gcv"

    def obstacle(self, model: Model) -> str | None:
        reason = METHODS["closed_form"]().obstacle(model)
        if reason is None:
            return None
        return f"gcv is of Gaussian models with normal priors, sigma fixed or in their units ({reason}): use loo or cv"

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        # a path of a closed form has one decomposition
        assert path.ridge is not None
        n = path.base.design.total
        rss = path.ridge.rss(path.scales)
        # GCV = n RSS / (n - tr H)^2
        score = n * rss / np.square(n - path.df)
        score[~found_modes(path) | (path.df >= n)] = np.nan
        description = (
            "the generalised cross-validation score n RSS / (n - df)^2 of the mode"
        )
        return Assessment(score, description, columns={"rss": rss})


def has_closed_evidence(model: Model) -> bool:
    """Return whether the evidence has a closed form: Gaussian, normal priors, and sigma fixed or unknown with all priors in its units."""
    if not (model.likelihood.least_squares and model.joint.gaussian):
        return False
    known = not model.unknown or isinstance(model.noise_prior, Reference | InverseGamma)
    return known and model.mode_free_of_sigma


def log_evidence_at(ridge: RidgeModes, scales: Array) -> Array:
    """log p(y) (L,) in closed form with every scale of the prior multiplied by each of `scales`, flat columns with density 1; nan where
    flat columns are not identified.

    For a process with a basis of few anchors it is Titsias' lower bound.

    >>> from probreg.priors import Normal
    >>> model = Model.from_arrays([0.0, 1.0], [0.0, 3.0], intercept=False, prior=Normal(2.0), aux={"sigma": 1.0})
    >>> one = np.ones(1)
    >>> log_evidence_at(RidgeModes.of(model, one), one).round(6).tolist()  # N(0; 0, 1) N(3; 0, 1 + 4)
    [-3.542596]
    """
    if ridge.deficient:
        return np.full(len(scales), np.nan)
    model = ridge.model
    rss = ridge.penalised_rss(scales)
    # beta integrated out: p(y | sigma) = prod w_i^(1/2) (2 pi sigma^2)^(-(n - f)/2) |P|^(1/2) / |R| exp(-RSS_P / (2 sigma^2)),
    # f the flat columns, n the observations, w the precisions of the rows.
    power = model.design.total - len(ridge.flat)
    value = (
        0.5 * model.design.log_precision
        + ridge.log_integral(scales)
        - 0.5 * power * np.log(2.0 * np.pi)
        - ridge.bound(scales)
    )
    if not model.unknown:
        sigma = model.fixed[model.noise_scale]
        return value - power * np.log(sigma) - rss / (2.0 * sigma**2)
    a0, b0, constant = 0.0, 0.0, -np.log(2.0)
    prior = model.noise_prior
    if isinstance(prior, InverseGamma):
        a0, b0 = prior.shape, prior.scale
        constant = a0 * np.log(b0) - gammaln(a0)
    # sigma^2 ~ InvGamma(a0, b0): with a = a0 + (n - f)/2 and b = b0 + RSS_P/2 the rest is exp(constant) Gamma(a) b^-a
    # (O'Hagan & Forster 2004, chapter 11).
    a = a0 + power / 2.0
    b = b0 + rss / 2.0
    if a <= 0:
        return np.full(len(scales), np.nan)
    return value + constant + gammaln(a) - a * np.log(np.where(b > 0, b, np.nan))


def laplace_evidence(model: Model, beta: Array, aux: dict[str, float]) -> float:
    """log p at the mode over (beta, log aux) + (d/2) log 2 pi - log |H| / 2 (Tierney & Kadane 1986)."""
    expansion = model.value_grad_hessian_standardised(
        model.design.frame.from_raw(beta), **aux
    )
    # log p(y) ~ log p(y, mode) + d/2 log 2 pi - 1/2 log |H| over (gamma, log aux), and d beta = |T|^m d gamma.
    sign, log_det = np.linalg.slogdet(expansion.curvature)
    log_scale = model.shape[1] * np.linalg.slogdet(model.design.frame.T)[1]
    # of a Gaussian model through a basis of few anchors: less tau^2 trace(K - Q) / (2 sigma^2), sigma at the mode
    bound = 0.0
    if model.likelihood.least_squares:
        bound = 0.5 * total_variance_left(model, model.noise(aux))
    value = (
        expansion.value
        + 0.5 * (len(expansion.gradient) * np.log(2.0 * np.pi) - log_det)
        + log_scale
        - bound
    )
    return value if sign > 0 else np.nan


@CRITERIA.register
@dataclass(frozen=True)
class EvidenceCriterion(Criterion):
    """-log p(y | scale), in nats: type-II maximum likelihood over the scale (MacKay 1992).

    It uses the closed form if there is one, otherwise the Laplace approximation, with a note.
    """

    name = "evidence"

    def obstacle(self, model: Model) -> str | None:
        if has_closed_evidence(model) or (
            isinstance(model.likelihood, SmoothLikelihood) and model.joint.smooth
        ):
            return None
        return "evidence is closed form or a Laplace approximation, and a prior with a kink has neither: use cv or loo"

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        model = path.base
        if has_closed_evidence(model):
            value = evidence_along(path)
            how = "in closed form"
        else:
            value = np.full(len(path.scales), np.nan)
            for i in modes_with_curvature(path):
                aux = estimated_aux_at(path, i)
                value[i] = laplace_evidence(path.model(i), path.beta[i], aux)
            how = "by the Laplace approximation about each mode"
        over = " and sigma" if model.unknown else ""
        notes: tuple[str, ...] = ()
        if not model.joint.informative.all():
            notes = (
                "columns with a flat prior count with density 1: the evidence compares scales, not models",
            )
        bound = ""
        if model.likelihood.least_squares and variance_left_at_rows(model):
            bound = " (its lower bound for a basis of few anchors)"
        description = f"the negative log evidence -log p(y | scale){bound}, coefficients{over} integrated out {how}"
        columns = {"log_evidence": value}
        return Assessment(-value, description, columns=columns, notes=notes)


def evidence_along(path: PathSolution) -> Array:
    """log p(y | scale) (S,) in closed form, from the decomposition that all scales of a path share; nan if there is no mode."""
    ridge = path.ridge or RidgeModes.of(path.base, path.scales)
    return np.where(found_modes(path), log_evidence_at(ridge, path.scales), np.nan)
