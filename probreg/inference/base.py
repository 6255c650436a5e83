"""Base classes of the methods, which turn a model into a solution of plain arrays.

A method is a frozen dataclass of settings. `obstacle` returns why it cannot fit a
model. `target` is "mode" (the mode of the log posterior) or "posterior" (draws). The
notes of the solution describe the treatment of sigma.

Functions here map the model's own coefficients to the reported ones and back: a softmax
fits m predictors and reports every outcome, and random effects are reported separately
(`effects_of_groups`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import NamedSettings, RegistryName
from probreg.errors import Incompatible
from probreg.inference.covariance import MatrixCovariance, ParameterCovariance
from probreg.inference.status import (
    Note,
    Status as Status,
    Topic,
    important_note,
    routine_note,
    without_topic,
)
from probreg.inference.varying import OF_EFFECTS, FoundScales
from probreg.likelihoods import Likelihood
from probreg.linalg.vec import between_outcomes, map_of_predictors, vec_entries
from probreg.model.model import Model
from probreg.model.term_priors import hyper_names
from probreg.priors import HierarchicalPrior, Prior
from probreg.registry import Registry
from probreg.system.terminal import few_names

if TYPE_CHECKING:
    from probreg.online import Guarantee

METHODS: Registry["Method"] = Registry(
    "method", files="probreg.inference.methods", example="nuts(draws=2000)"
)
METHODS.parts = (METHODS,)  # a method may wrap another

# The names of METHODS for editors and type checkers; a test compares the two.
MethodName = Annotated[
    Literal[
        "auto",
        "bootstrap",
        "closed_form",
        "conjugate",
        "coordinate_descent",
        "evidence",
        "importance",
        "integrate",
        "interior_point",
        "laplace",
        "lms",
        "newton",
        "nuts",
        "perceptron",
        "posterior",
        "proximal_newton",
        "pymc",
        "quadrature",
        "sgd",
    ],
    RegistryName(),
]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of a posterior with their statistics. `draws["beta"]` is one of its
    `values`."""

    # beta (chain, draw, p, m), every other parameter (chain, draw)
    values: Mapping[str, Array]
    # of each draw: name -> (chain, draw)
    stats: Mapping[str, Array] = field(default_factory=dict)
    # names of unknown prior scales that are reported with aux
    hyper: tuple[str, ...] = ()
    elliptical: bool = False  # beta is Student-t (normal without df) about the estimate, with its `scale`
    # exact marginals as mixtures of normals over nodes: weight (K,), mean and sd (K,
    # p); if the nodes are values of log
    # sigma alone, also these in order, log_sigma (K,)
    marginals: Mapping[str, Array] | None = None
    # standard deviations of nuisance parameters by formula, nodes or weighted points,
    # which are more accurate than standard deviations of the draws
    aux_sd: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        return self.values[name]

    @property
    def count(self) -> int:
        """Chains times draws."""
        return self["beta"].shape[0] * self["beta"].shape[1]

    @property
    def flat(self) -> dict[str, Array]:
        """Each array of values with its chains concatenated, (chain draw, ...)."""
        return {k: v.reshape(-1, *v.shape[2:]) for k, v in self.values.items()}


class _CovarianceMadeOnUse:
    """The covariance of a solution: it may be given as a function, called at the first
    read, or as a matrix by a user's method."""

    def __get__(self, instance: Any, owner: type | None = None) -> ParameterCovariance:
        if instance is None:
            raise AttributeError("scale")  # so that the field has no default
        value = instance.__dict__["scale"]
        if callable(value):
            value = value()
        if isinstance(value, np.ndarray):
            value = MatrixCovariance.of(value, instance.beta.shape[1])
        instance.__dict__["scale"] = value
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__["scale"] = value


@dataclass(frozen=True, eq=False)
class Solution:
    """An estimate as plain arrays, its draws if there are any, and the status of the
    method.

    vec(beta) runs row by row: column first, then linear predictor. `scale` is the squared scale of vec(beta) and of nuisance
    parameters on their logs: the covariance when `df` is None or the target is a mode, times df / (df - 2) for a posterior
    with Student-t marginals. `not_estimable` marks reported coefficients that have no estimate (not identified, or at infinity).
    """

    beta: Array  # (p, m)
    scale: ParameterCovariance = _CovarianceMadeOnUse()  # type: ignore[assignment]
    df: float | None = None
    # nuisance parameters that were unknown
    aux: Mapping[str, float] = field(default_factory=dict)
    not_estimable: Array | None = None  # (p, outcomes) bool
    # (p, k), directions of beta that do not change X beta; beta is then the least-norm
    # one
    null_space: Array | None = None
    # the kind of covariance in `scale`, if it is not the method's default
    sandwich: str = ""
    # (n,), the dual of a loss with kinks: each row's share of the gradient over the
    # coefficients
    multipliers: Array | None = None

    draws: Draws | None = None  # of a posterior
    # scales at the maximum of the evidence, which are fixed in the model
    scales: FoundScales | None = None
    # given the scales and nuisance parameters, where `scale` counts their errors
    conditional: ParameterCovariance | None = None
    # of a bootstrapped estimate: name -> (replicate, ...)
    replicates: Mapping[str, Array] | None = None

    status: Status = Status.EXACT
    detail: str = ""
    # named numbers: rss, rank, log_evidence ...
    stats: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    trace: Mapping[str, Array] = field(default_factory=dict)  # numbers of each pass

    @property
    def posterior(self) -> Draws:
        """The draws of a solution with a posterior as its target."""
        assert self.draws is not None
        return self.draws

    @property
    def reason_without_errors(self) -> str:
        """The reason why an estimate has no standard errors: the notes on it, else the status."""
        topics = (Topic.STANDARD_ERRORS, Topic.LIKELIHOOD)
        texts = [str(note) for note in self.notes if note.topic in topics]
        return "; ".join(texts) or self.status.describe(self.detail)

    @property
    def covariance(self) -> ParameterCovariance:
        """`scale`, times df / (df - 2) for a posterior with Student-t marginals, inf up to df = 2."""
        if self.draws is None or self.df is None:
            return self.scale
        if self.df <= 2.0:
            return self.scale.unbounded_at(self.scale.diagonal() > 0.0)
        return self.scale.scale_by(self.df / (self.df - 2.0))

    @property
    def aux_sd(self) -> dict[str, float]:
        """Standard errors of nuisance parameters: of the posterior, of replicates, or
        by the delta method, sd(v) = v sd(log v)."""
        if not self.aux:
            return {}
        if self.draws is not None:
            sampled = {a: self.draws[a].std().item() for a in self.aux}
            return {**sampled, **self.draws.aux_sd}
        if self.replicates is not None:
            replicates = self.replicates
            return {a: np.nanstd(replicates[a], ddof=1).item() for a in self.aux}
        errors = self.scale.errors()[self.scale.coefficients :]
        named = dict(zip(self.scale.further, errors.tolist()))
        return {a: v * named.get(f"log {a}", np.nan) for a, v in self.aux.items()}

    @property
    def scalars(self) -> dict[str, tuple[float, float]]:
        """Estimates and standard errors, or nan, of scalar parameters by name.

        These are the covariance of effects, nuisance parameters and the prior scales in
        `Draws.hyper`.
        """
        errors = self.aux_sd
        nuisance = {a: (value, errors[a]) for a, value in self.aux.items()}
        if self.draws is not None:
            names = self.draws.hyper
            hyper = {
                k: (float(self.draws[k].mean()), float(self.draws[k].std()))
                for k in names
            }
            effects = {k: v for k, v in hyper.items() if k.startswith(OF_EFFECTS)}
            return {**effects, **nuisance, **hyper}
        return {**self.hyper, **nuisance}

    @property
    def has_found_scales(self) -> bool:
        """Whether scales of the prior were estimated on the rows, by the evidence or as the dual of a radius.

        An estimate of sigma does not count: under a prior in units of sigma the mode does not depend on it.
        """
        return self.stats.get("ratios_found", 0.0) > 0 or "radius" in self.stats

    @property
    def given_scales(self) -> ParameterCovariance:
        """`covariance` given the estimated scales and nuisance parameters."""
        if self.conditional is None:
            return self.covariance
        return self.conditional

    @property
    def effect_scales(self) -> FoundScales | None:
        """The scales at the maximum of the evidence if some belong to effects by
        group."""
        if self.scales is not None and self.scales.stated.design.recipe.grouped:
            return self.scales
        return None

    @property
    def scale_values(self) -> dict[str, float]:
        """Estimates of the parameters at the maximum of the evidence, by their reported
        names, without standard errors."""
        if self.scales is None:
            return {}
        unknown = self.scales.stated.unknown
        return {
            name: v
            for name, v in self.scales.values.items()
            if self.effect_scales is not None or name in unknown
        }

    @property
    def hyper(self) -> dict[str, tuple[float, float]]:
        """Estimates and standard errors of the parameters at the maximum of the
        evidence, by their reported names.

        These are scales of effects by group, and nuisance parameters.
        """
        if self.scales is None:
            return {}
        reported = self.scale_values
        if self.replicates is None:
            errors = self.scales.errors
        else:
            errors = dict.fromkeys(reported, np.nan)
            for name in reported.keys() & self.replicates.keys():
                finite = self.replicates[name][np.isfinite(self.replicates[name])]
                if len(finite) > 1:
                    errors[name] = float(finite.std(ddof=1))
        return {name: (value, errors[name]) for name, value in reported.items()}


class Resolved(NamedTuple):
    """The model and method that remain after a choice, notes on the choice, and the
    solution if the choice computed it."""

    model: Model
    method: "Method"
    notes: tuple[Note, ...] = ()
    stats: Mapping[str, float] = MappingProxyType({})
    solution: Solution | None = None
    found: FoundScales | None = None

    def solve(self, rng: Generator) -> Solution:
        """Return the solution, from the method if the choice did not compute it."""
        if self.solution is not None:
            return self.solution
        return self.method.solve(self.model, rng)

    def complete(self, rng: Generator) -> Solution:
        """Return the solution with the notes, statistics and scales of the choice."""
        solution = self.solve(rng)
        solution = replace(
            solution,
            stats={**solution.stats, **self.stats},
            notes=(*self.notes, *solution.notes),
        )
        if self.found is None:
            return solution
        return with_found_scales(self.model, solution, self.found)


class Method(NamedSettings, ABC):
    """An algorithm that turns a Model into a Solution; its class defines which likelihoods and priors it takes.

    Attributes
    ----------
    name : str
        In the registry `METHODS`.
    likelihood : type
        The kind of likelihood it takes.
    prior : type or tuple of types
        The kinds of prior it takes; a flat prior is always possible.
    target : str
        "mode" or "posterior".
    """

    name: ClassVar[str]
    likelihood: ClassVar[type] = Likelihood
    # the kinds of prior it takes; a flat prior is always possible
    prior: ClassVar[type | tuple[type, ...]] = Prior
    target: ClassVar[str] = "mode"  # "mode" or "posterior"
    # its draws are Markov chains, with R-hat, effective sample sizes, traces and a
    # convergence status
    makes_chains: ClassVar[bool] = False
    # False for a classifier, because its coefficients do not determine P(y)
    probabilities: ClassVar[bool] = True
    # it rebuilds the columns of a process at other lengths, or delegates to a method
    # that does
    rebuilds: ClassVar[bool] = False
    # it processes single rows, so sums over blocks are not enough
    in_memory: ClassVar[bool] = False
    # it maximises any weighted sum of log densities, so it can use sampling weights
    pseudo: ClassVar[bool] = False
    # distance from the maximum that a mode may keep, in standard errors; 0 is rounding
    accuracy: ClassVar[float] = 0.0
    # whether to show a progress bar; None: only for long runs, at a terminal or in a
    # notebook
    progress: bool | None = None

    def describe(self, model: Model) -> str:
        """Describe in words the meaning of the linear predictor."""
        return model.likelihood.describe(model.design.response)

    @abstractmethod
    def obstacle(self, model: Model) -> str | None:
        """Return why this method cannot fit this model, or None."""

    @abstractmethod
    def solve(self, model: Model, rng: Generator) -> Solution: ...

    def resolve(self, model: Model, rng: Generator) -> Resolved:
        """Return the model and method to report; a method that chooses another one, or
        estimates scales, returns these."""
        if self.target != "posterior":
            return Resolved(model, self)
        model, notes = with_proper_correlations(model)
        return Resolved(model, self, notes)

    def guarantee(self, model: Model, solution: Solution) -> "Guarantee":
        """Return the theorem's guarantee for the steps of this method, or raise
        Incompatible."""
        raise Incompatible(
            f"{self.name} has no guarantee for its steps; lms and perceptron have one. pr.guarantee(fit) bounds the risk of any fit"
        )


def with_proper_correlations(model: Model) -> tuple[Model, tuple[Note, ...]]:
    """Return the model with proper priors of correlations, as a posterior needs, and
    notes on the change."""
    correlations = [
        name
        for i, b in enumerate(model.joint.blocks)
        if isinstance(b.prior, HierarchicalPrior)
        and b.prior.for_posterior() is not b.prior
        for name in hyper_names(model.joint, model.design)[i].values()
        if name.startswith("cor(")
    ]
    if not correlations or not isinstance(model.prior, Mapping):
        return model, ()
    proper = {key: prior.for_posterior() for key, prior in model.prior.items()}
    note = routine_note(
        Topic.PRIOR,
        "{names}: LKJ(1), uniform over correlation matrices, as no prior is given",
        names=few_names(correlations),
    )
    return replace(model, prior=proper), (note,)


def hold_at_limits(model: Model, solution: Solution) -> Model:
    """Fix the nuisance parameters of a fit that ended at their limit, 0 or infinity, where the
    log-likelihood has no curvature."""
    return hold_aux_at_limits(model, solution.aux, solution.status)


def has_zero_noise(model: Model, solution: Solution) -> bool:
    """Return whether an unknown nuisance parameter went to 0, so that the fit has no residuals."""
    unknown = hold_at_limits(model, solution).unknown
    return any(solution.aux.get(name) == 0 for name in unknown)


def has_exact_law(model: Model, solution: Solution) -> bool:
    """Return whether combinations of the coefficients of this posterior are Student-t or normal by a formula."""
    if not (model.likelihood.least_squares and solution.posterior.elliptical):
        return False
    return "sigma2_scale" in solution.stats or not model.unknown


def hold_aux_at_limits(model: Model, aux: Mapping[str, float], status: Status) -> Model:
    """Fix the nuisance parameters of a mode that are at their limit, 0 or infinity."""
    likelihood = model.likelihood
    is_at_infinity = status is Status.AT_INFINITY
    at_limit = {
        name: aux[name]
        for name in model.unknown
        if name in aux
        and (
            (name in likelihood.at_zero and aux[name] == 0.0)
            or (name in likelihood.at_infinity and is_at_infinity)
        )
    }
    limits = positive_limits(at_limit)
    return replace(model, aux={**model.aux, **limits}) if limits else model


def status_at_limits(limits: Mapping[str, float]) -> Status:
    """Return the status of an estimate at these limits of nuisance parameters."""
    return Status.AT_INFINITY if np.inf in limits.values() else Status.AT_ZERO


def describe_limits(likelihood: Likelihood, limits: Mapping[str, float]) -> list[str]:
    """Describe the limits of nuisance parameters, first 0 and then infinity, with the limiting model if there is one.

    >>> from probreg.likelihoods import NegativeBinomial
    >>> describe_limits(NegativeBinomial(), {"size": np.inf, "alpha": 0.0})
    ['alpha runs to 0: the Poisson model', 'size runs to infinity']
    """
    sentences = []
    for name, limit in sorted(limits.items(), key=lambda item: item[1]):
        end = "infinity" if limit else "0"
        models = likelihood.at_infinity if limit else likelihood.at_zero
        meaning = f": {models[name]}" if name in models else ""
        sentences.append(f"{name} runs to {end}{meaning}")
    return sentences


def positive_limits(aux: Mapping[str, float]) -> dict[str, float]:
    """Replace an exact 0 of a nuisance parameter by a tiny positive number; densities
    equal the limit to all digits."""
    return {name: float(v) if v != 0.0 else 1e-100 for name, v in aux.items()}


def times_root(z: Array, root: Array) -> Array:
    """Return root z_s for each row of z (S, k), root (k, k), summed in a fixed order
    for reproducible bits.

    >>> times_root(np.array([[1.0, 2.0]]), np.array([[1.0, 3.0], [0.0, 2.0]]))
    array([[7., 4.]])
    """
    # up to this number of columns an ordered product takes about ten milliseconds
    max_in_order = 64
    R = np.asarray(root, dtype=float)
    if len(R) > max_in_order:
        return z @ R.T
    product = np.zeros_like(z)
    for k in range(len(R)):
        product += z[:, k, None] * R[:, k]
    return product


def with_found_scales(
    model: Model, solution: Solution, scales: FoundScales
) -> Solution:
    """Return the solution at scales estimated by evidence, with notes that call the
    noise scale estimated."""
    notes = solution.notes
    if scales.stated.noise_unknown and model.noise_held is not None:
        notes = without_topic(notes, Topic.SIGMA)
    status = solution.status
    detail = solution.detail
    if status is Status.EXACT and scales.stated.design.recipe.grouped:
        status = Status.CONVERGED
    if status.good and (limits := scales.limits):
        status = status_at_limits(limits)
        detail = "; ".join(describe_limits(model.likelihood, limits))
    is_conditional = (
        solution.draws is None and solution.replicates is None and not solution.sandwich
    )
    errors: dict[str, Any] = {}
    estimated = solution.status.good or scales.separated
    if scales.joint_of is not None and estimated and is_conditional:
        given = solution.scale
        joint = partial(scales.joint_of, scales, given, model)
        errors = {"scale": joint, "conditional": given}
    return replace(
        solution, scales=scales, notes=notes, status=status, detail=detail, **errors
    )


def chains_of(values: Array, chains: int) -> Array:
    """Return an array (chain draw, ...) as (chain, draw, ...)."""
    return values.reshape(chains, -1, *values.shape[1:])


def sigma_note(model: Model, note: Note | None) -> tuple[Note, ...]:
    """Return the note on the noise scale: its value if it is fixed, else `note`; none if the likelihood has no noise scale."""
    if model.noise_held is not None:
        return (
            important_note(
                Topic.SIGMA,
                "{name} is fixed at {value:g}",
                name=model.noise_scale,
                value=model.noise_held,
            ),
        )
    return (note,) if note is not None and model.noise_unknown else ()


def reported_coefficients(model: Model, beta: Array) -> Array:
    """Reported coefficients, of h of the p columns: (..., h) for one predictor, (..., h, outcomes) for several."""
    if model.joint.contrast is not None:
        return model.joint.scores(beta)[..., model.design.ungrouped, :]
    if has_effects(model):
        beta = beta[..., model.design.ungrouped, :]
    return outcomes_of(model, beta)


def outcomes_of(model: Model, beta: Array) -> Array:
    """Coefficients (..., q, m) of any columns by outcome: (..., q), or (..., q, outcomes)."""
    if not model.likelihood.outcomes:
        return beta[..., 0]
    return beta @ model.likelihood.contrast_matrix.T


def split_parameters(model: Model, theta: Array) -> tuple[Array, dict[str, Any]]:
    """Return the coefficients (..., p, m), and nuisance parameters (...) by name, at points theta = (vec beta, log aux) (..., p m + a).

    NumPy floats overflow to inf, where powers of Python floats raise OverflowError.
    """
    p, m = model.shape
    beta = theta[..., : p * m].reshape(*theta.shape[:-1], p, m)
    aux = np.exp(np.moveaxis(theta[..., p * m :], -1, 0))
    return beta, dict(zip(model.unknown, aux))


def estimated_aux(model: Model, log_aux: Array) -> dict[str, float]:
    """Return the estimated nuisance parameters by name, from their logs (a,)."""
    return dict(zip(model.unknown, np.exp(log_aux).tolist()))


def aux_from_log(model: Model, log_aux: Array) -> dict[str, float]:
    """Return all nuisance parameters by name, from the logs (a,) of the estimated ones."""
    return {**model.fixed, **estimated_aux(model, log_aux)}


def logs_of_aux(model: Model, aux: Mapping[str, float]) -> Array:
    """Return the logs (a,) of the estimated nuisance parameters."""
    return np.log([aux[name] for name in model.unknown])


def log_names(model: Model) -> tuple[str, ...]:
    """The parameters after the coefficients in a `ParameterCovariance`: logs of nuisance parameters."""
    return tuple(f"log {name}" for name in model.unknown)


def aux_names(likelihood: Likelihood) -> tuple[str, ...]:
    """The logs of all nuisance parameters, also fixed ones, in the order of `Likelihood.link_mean_and_slope`."""
    return tuple(f"log {name}" for name in likelihood.nuisance)


def has_effects(model: Model) -> bool:
    """Whether some columns are effects that vary by a group."""
    return len(model.design.ungrouped) < len(model.design.columns)


def reported_marginals(model: Model, draws: Draws) -> Mapping[str, Array] | None:
    """Return the exact marginals of the reported coefficients of one predictor: weight
    (K,), mean and sd (K, h), or None."""
    marginals = draws.marginals
    if marginals is None or not has_effects(model):
        return marginals
    return {
        k: v[:, model.design.ungrouped] if k in ("mean", "sd") else v
        for k, v in marginals.items()
    }


def coefficients_of_reported(model: Model, beta: Array) -> Array:
    """Return coefficients (..., q, m) of any columns from coefficients by outcome."""
    if model.likelihood.outcomes:
        return beta @ np.linalg.pinv(model.likelihood.contrast_matrix).T
    return beta[..., None]


def reported_matrix(model: Model, M: Array) -> Array:
    """Convert a matrix over vec(beta) to a matrix over the reported coefficients, column first, then outcome."""
    m = model.shape[1]
    if has_effects(model):
        entries = vec_entries(tuple(model.design.ungrouped.tolist()), m)
        M = M[np.ix_(entries, entries)]
    if not _mixes(model):
        return M
    return between_outcomes(M, model.likelihood.contrast_matrix)


def reported_covariance(
    model: Model, solution: Solution, scale: ParameterCovariance
) -> Array:
    """The covariance of the reported coefficients, nan for a coefficient without an estimate."""
    replicates = _replicates_with_shift(model, solution)
    if replicates is not None:
        covariance = np.cov(replicates.reshape(len(replicates), -1).T)
    elif has_effects(model) or _mixes(model):
        D = model.likelihood.contrast_matrix
        h = model.design.ungrouped
        L = np.zeros((len(h), len(D), *model.shape))
        L[np.arange(len(h)), :, h] = D
        B = scale.half(L.reshape(len(h) * len(D), model.n_coefficients))
        covariance = B @ B.T
        covariance[np.diag_indices(len(covariance))] = np.square(
            reported_errors(model, solution, scale).ravel()
        )
    else:
        covariance = scale.matrix()
    missing = _without_estimate(model, solution).ravel()
    if missing.any():
        covariance[missing] = np.nan
        covariance[:, missing] = np.nan
    return covariance


def reported_errors(
    model: Model, solution: Solution, scale: ParameterCovariance
) -> Array:
    """(h,) or (h, outcomes), the standard errors of the reported coefficients, nan without an estimate."""
    replicates = _replicates_with_shift(model, solution)
    if replicates is not None:
        errors = replicates.std(0, ddof=1)
    else:
        errors = scale.errors_of(model.likelihood.contrast_matrix)
        errors = errors[model.design.ungrouped]
    errors = np.where(_without_estimate(model, solution), np.nan, errors)
    if model.likelihood.outcomes:
        return errors
    return errors[:, 0]


def _replicates_with_shift(model: Model, solution: Solution) -> Array | None:
    """Bootstrap replicates (R, h, outcomes) of reported coefficients that are no linear combinations of the model's coefficients."""
    if model.joint.contrast is None or solution.replicates is None:
        return None
    coef = solution.replicates["coef"][:, model.design.ungrouped]
    return coef[np.isfinite(coef).all((1, 2))]


def covariance_of_reported(model: Model, V: Array) -> MatrixCovariance:
    """Return the covariance of vec(beta) from a user's covariance of the reported coefficients."""
    if has_effects(model):
        raise Incompatible(
            "a covariance of the coefficients does not include effects that vary by a group: name its kind instead"
        )
    P = map_of_predictors(
        np.linalg.pinv(model.likelihood.contrast_matrix), model.shape[0]
    )
    missing = np.isnan(np.diagonal(V))
    covariance = P @ np.where(missing[:, None] | missing, 0.0, V) @ P.T
    affected = (P[:, missing] != 0).any(1)
    covariance[affected], covariance[:, affected] = np.nan, np.nan
    return MatrixCovariance.of(covariance, model.shape[1], model.design.columns)


class Estimated(NamedTuple):
    """Reported coefficients and their standard errors; nan where no estimate exists."""

    beta: Array  # (h,) or (h, outcomes)
    error: Array


def reported_estimate(model: Model, solution: Solution) -> Estimated:
    """Return the reported coefficients of a solution with their standard errors."""
    beta = reported_coefficients(model, solution.beta)
    missing = _without_estimate(model, solution).reshape(beta.shape)
    beta = np.where(missing, np.nan, beta)
    return Estimated(beta, reported_errors(model, solution, solution.scale))


def _without_estimate(model: Model, solution: Solution) -> Array:
    """(h, outcomes) bool: reported coefficients without an estimate."""
    marks = solution.not_estimable
    if marks is None:
        marks = no_marks(model)
    return marks[model.design.ungrouped]


def no_marks(model: Model) -> Array:
    """(p, outcomes) of False, the marks of no coefficient by outcome."""
    return np.zeros((model.shape[0], len(model.likelihood.contrast_matrix)), bool)


def _mixes(model: Model) -> bool:
    """Whether reported coefficients are combinations of the model's coefficients, so that a
    coefficient without an estimate affects others."""
    return len(model.likelihood.contrast_matrix) != model.shape[1]
