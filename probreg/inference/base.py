"""A method turns a model into a solution: arrays in, arrays out.

A method is a frozen value with its settings. It says what it needs (`obstacle`) and what its answer is (`target`): the
mode of the log posterior, or draws of the posterior. What it does with sigma stands in the notes of its solution.

From the model's own coefficients to those that are reported, and back: a softmax fits m predictors and shows every outcome, and
effects that vary by a group stand in a place of their own (`effects_of_groups`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from probreg.arguments.scalars import RegistryName
from probreg.data.weights import without_likelihood
from probreg.errors import Incompatible
from probreg.inference.covariance import MatrixCovariance, ParameterCovariance
from probreg.inference.notes import (
    Note,
    Topic,
    important_note,
    routine_note,
    without_topic,
)
from probreg.inference.status import Status as Status
from probreg.inference.varying import OF_EFFECTS, FoundScales
from probreg.likelihoods import Likelihood
from probreg.model.found import FoundValue
from probreg.model.model import Model
from probreg.model.term_priors import interpolation
from probreg.numerics.frame import between_outcomes, map_of_predictors, vec_entries
from probreg.numerics.linalg import rank_of, triangular
from probreg.priors import PRIORS, Flat, HierarchicalPrior, Prior, Reference
from probreg.registry import Registry

if TYPE_CHECKING:
    from probreg.online import Guarantee

METHODS: Registry["Method"] = Registry("method", files="probreg.inference.methods")
METHODS.parts = (METHODS,)  # a method may wrap another

# The names of METHODS, which an editor completes and a type checker knows; a law holds the two equal.
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
        "quadrature",
        "sgd",
    ],
    RegistryName(),
]

Array = np.ndarray
_IN_ORDER = 64  # columns up to which a product in order takes some ten milliseconds


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of a posterior, and what is known of it beside them. `draws["beta"]` is one of its `values`."""

    values: Mapping[
        str, Array
    ]  # beta (chain, draw, p, m), every other parameter (chain, draw)
    stats: Mapping[str, Array] = field(
        default_factory=dict
    )  # of each draw: name -> (chain, draw)
    hyper: tuple[
        str, ...
    ] = ()  # names of unknown scales of priors that are reported beside aux
    elliptical: bool = False  # beta is Student-t (normal without df) about the estimate, with its `scale`
    # exact marginals as mixtures of normals over nodes: weight (K,), mean and sd (K, p), and where they are of log sigma
    # alone, in order, log_sigma (K,)
    marginals: Mapping[str, Array] | None = None
    engine: str = ""  # what evaluated the density, where there is a choice

    def __getitem__(self, name: str) -> Array:
        return self.values[name]

    @property
    def by_chain(self) -> bool:
        """The sampler of Markov chains made them, which counts steps that diverge."""
        return "diverging" in self.stats

    @property
    def count(self) -> int:
        """Chains times draws."""
        return self["beta"].shape[0] * self["beta"].shape[1]

    @property
    def flat(self) -> dict[str, Array]:
        """Each of the values with its chains one after the other, (chain draw, ...)."""
        return {k: v.reshape(-1, *v.shape[2:]) for k, v in self.values.items()}


class _MadeOnUse:
    """A field that may be given as a function, which is called when the field is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            raise AttributeError(self.name)  # so that the field has no default
        value = instance.__dict__[self.name]
        if callable(value):
            value = instance.__dict__[self.name] = value()
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value


@dataclass(frozen=True, eq=False)
class Solution:
    """An estimate as plain arrays, the draws behind it where there are any, and how the method ended.

    vec(beta) runs row by row: column first, then linear predictor. `scale` is the squared scale of vec(beta) and of nuisance
    parameters on their logs: the covariance when `df` is None or the target is a mode, times df / (df - 2) for a posterior
    with Student-t marginals. `not_estimable` marks reported coefficients that have no estimate (not identified, or at infinity).
    """

    beta: Array  # (p, m)
    scale: ParameterCovariance = _MadeOnUse()  # type: ignore[assignment]  # or a matrix (p m, p m), which becomes one
    df: float | None = None
    aux: Mapping[str, float] = field(
        default_factory=dict
    )  # nuisance parameters that were unknown
    aux_sd: Mapping[str, float] = field(default_factory=dict)
    not_estimable: Array | None = None  # (p, outcomes) bool
    # (p, k), directions of beta that leave X beta as it is; beta is then the least-norm one
    null_space: Array | None = None
    # the kind of covariance that `scale` is, where it is not the method's own
    sandwich: str = ""
    # (n,), the dual of a loss with kinks: what each row adds to the pull on the coefficients
    multipliers: Array | None = None

    draws: Draws | None = None  # of a posterior
    # scales at the maximum of the evidence, which the model holds
    scales: FoundScales | None = None
    # given the scales and nuisance parameters, where `scale` counts their errors
    conditional: ParameterCovariance | None = None
    # of a bootstrapped estimate: name -> (replicate, ...)
    replicates: Mapping[str, Array] | None = None

    status: Status = Status.EXACT
    detail: str = ""
    stats: Mapping[str, float] = field(
        default_factory=dict
    )  # named numbers: rss, rank, log_evidence ...
    notes: tuple[Note, ...] = ()
    trace: Mapping[str, Array] = field(default_factory=dict)  # numbers of each pass

    def __post_init__(self) -> None:
        if isinstance(
            V := self.__dict__["scale"], np.ndarray
        ):  # of a method that a user wrote
            names = tuple(f"number {j}" for j in range(len(self.beta)))
            object.__setattr__(
                self, "scale", MatrixCovariance.of(V, names, self.beta.shape[1])
            )

    @property
    def posterior(self) -> Draws:
        """The draws, for those who know that there are any: the target is a posterior."""
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
        return self.scale.scaled(self.df / (self.df - 2.0))

    @property
    def scalars(self) -> dict[str, tuple[float, float]]:
        """Estimate and standard error, or nan, of the covariance of effects, of nuisance parameters and of the prior scales in
        `Draws.hyper`."""
        found = {
            a: (value, self.aux_sd.get(a, np.nan)) for a, value in self.aux.items()
        }
        if self.draws is not None:
            names = self.draws.hyper
            drawn = {
                k: (float(self.draws[k].mean()), float(self.draws[k].std()))
                for k in names
            }
            effects = {k: v for k, v in drawn.items() if k.startswith(OF_EFFECTS)}
            return {**effects, **found, **drawn}
        return {**self.hyper, **found}

    @property
    def given_scales(self) -> ParameterCovariance:
        """`covariance` given the scales and nuisance parameters that were found."""
        if self.conditional is None:
            return self.covariance
        return self.conditional

    @property
    def found(self) -> FoundScales | None:
        """The scales at the maximum of the evidence where some are those of effects by group."""
        if self.scales is not None and self.scales.stated.design.recipe.grouped:
            return self.scales
        return None

    @property
    def hyper(self) -> dict[str, tuple[float, float]]:
        """Estimate and standard error of what was found at the maximum of the evidence, by its natural name: scales of effects by
        group, and nuisance parameters."""
        if self.scales is None:
            return {}
        values = self.scales.values
        unknown = self.scales.stated.unknown
        reported = {
            name: v
            for name, v in values.items()
            if self.found is not None or name in unknown
        }
        if self.replicates is not None:
            kept = {
                name: self.replicates.get(name, np.array([np.nan])) for name in reported
            }
            errors = {
                name: float(v[np.isfinite(v)].std(ddof=1))
                if np.isfinite(v).sum() > 1
                else np.nan
                for name, v in kept.items()
            }
        else:
            errors = self.scales.errors
        return {name: (value, errors[name]) for name, value in reported.items()}


class Resolved(NamedTuple):
    """What is left to do once a method has chosen: a model, a method that solves it, and what to say of the choice; the
    solution too, where choosing was solving."""

    model: Model
    method: "Method"
    notes: tuple[Note, ...] = ()
    stats: Mapping[str, float] = MappingProxyType({})
    solution: Solution | None = None
    found: FoundScales | None = None


class Method(ABC):
    """A way from a Model to a Solution; its class says which likelihoods and priors it takes.

    Attributes
    ----------
    name : str
        In the registry `METHODS`.
    likelihood : type
        The kind of likelihood it takes.
    prior : type or tuple of types
        The kinds of prior it takes, beside a flat one.
    target : str
        "mode" or "posterior".
    """

    name: ClassVar[str]
    likelihood: ClassVar[type] = Likelihood
    # the kinds of prior it takes, beside a flat one
    prior: ClassVar[type | tuple[type, ...]] = Prior
    target: ClassVar[str] = "mode"  # "mode" or "posterior"
    # its draws are Markov chains: R-hat, effective sizes, traces and a verdict follow
    makes_chains: ClassVar[bool] = False
    # for some models they are, which the statistics of the draws say
    may_make_chains: ClassVar[bool] = False
    # False for a classifier, whose coefficients say nothing of P(y)
    probabilities: ClassVar[bool] = True
    # it makes the columns of a process anew at other lengths, or leaves it to a method that does
    rebuilds: ClassVar[bool] = False
    # it takes rows one by one, so that sums over blocks of them will not do
    in_memory: ClassVar[bool] = False
    # it finds the maximum of any weighted sum of log densities: sampling weights will do
    pseudo: ClassVar[bool] = False
    # distance to the maximum that a mode may keep, in standard errors; 0 is rounding
    accuracy: ClassVar[float] = 0.0

    @property
    def progress(self) -> bool | None:
        """Whether a bar is shown while it works; None: once it lasts, at a terminal or in a notebook."""
        return None

    def describe(self, model: Model) -> str:
        """What the linear predictor means, in words."""
        return model.likelihood.describe(model.design.response)

    @abstractmethod
    def obstacle(self, model: Model) -> str | None:
        """Why this method cannot fit this model, or None."""

    @abstractmethod
    def solve(self, model: Model, rng: np.random.Generator) -> Solution: ...

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        """The model and the method that will be reported; a method that chooses another, or finds scales, says which."""
        if self.target != "posterior":
            return Resolved(model, self)
        model, said = with_proper_correlations(model)
        return Resolved(model, self, said)

    def guarantee(self, model: Model, solution: Solution) -> "Guarantee":
        """What a theorem promises for the steps this method took; Incompatible where none is about them."""
        raise Incompatible(
            f"no theorem about its steps is written down for {self.name}; lms and perceptron have one. pr.guarantee(fit) bounds the risk of any fit"
        )


def markov(method: Method, solution: Solution) -> bool:
    """Whether Markov chains made the draws: they always do with this method, or did for this model."""
    return method.makes_chains or (
        method.may_make_chains
        and solution.draws is not None
        and solution.draws.by_chain
    )


def with_proper_correlations(model: Model) -> tuple[Model, tuple[Note, ...]]:
    """The model as a posterior has it: with a density for what a mode leaves flat and a posterior cannot, and what to say of it."""
    changed: list[str] = []
    for b in model.joint.blocks:
        if (
            isinstance(b.prior, HierarchicalPrior)
            and (new := b.prior.for_posterior()) is not b.prior
        ):
            if isinstance(new, HierarchicalPrior):
                after = new.hyper
            else:
                after = {}
            changed += [
                b.prior.hyper_labels.get(k, k)
                for k, h in b.prior.hyper.items()
                if after.get(k) != h
            ]
    if not changed or not isinstance(model.prior, Mapping):
        return model, ()
    bound = replace(
        model, prior={key: prior.for_posterior() for key, prior in model.prior.items()}
    )
    few = ", ".join(changed[:3]) + (
        f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    )
    return bound, (
        routine_note(
            Topic.PRIOR,
            "the prior of {names} is LKJ(1), uniform over correlation matrices",
            names=few,
        ),
    )


def improper_effects(method: Method, model: Model) -> str | None:
    """Why a posterior has no finite mass where standard deviations of effects by group have an improper prior; with a proper one in
    units of the response."""
    for b in model.joint.blocks:
        if isinstance(b.prior, HierarchicalPrior):
            names = b.prior.hyper_labels
        else:
            names = {}
        wrong = [name for k, name in names.items() if not b.prior.hyper[k].prior.proper]  # type: ignore[attr-defined]
        if not wrong:
            continue
        term = model.design.grouped_of(b.columns)
        key = "" if term is None else term.key
        which = " and ".join(wrong[:2]) + (
            f" and {len(wrong) - 2} more" if len(wrong) > 2 else ""
        )
        start = f"{method.name}: the posterior is improper, since the prior of {which} is. Give sd a proper prior"
        if model.likelihood.noise_scale is None:
            given = f"prior={{{key!r}: pr.Covariance(pr.HalfNormal(2.5))}}"
            return f"{start}, such as {given} in units of the linear predictor, or use evidence"
        sd = float(
            model.design.y_scale
            * np.sqrt(model.design.total / max(model.design.total - 1.0, 1.0))
        )
        given = f"prior={{{key!r}: pr.Covariance(pr.HalfNormal({sd:.2g}))}}"
        return f"{start}, such as {given}, or use evidence: sd({model.design.response or 'y'}) is {sd:.3g}"
    return None


def method_obstacle(method: Method, model: Model) -> str | None:
    """Why a method cannot fit this model: its own reasons, and that its answer is of a likelihood where rows have none."""
    if method.target == "posterior":
        model, _ = with_proper_correlations(model)
        why = improper_effects(method, model)
        if why is not None:
            return why
    if (
        not method.pseudo
        and (why := without_likelihood(model.design.weight_kind, method.name))
        is not None
    ):
        return why
    for b in model.joint.blocks:
        if (
            isinstance(b.prior, HierarchicalPrior)
            and b.prior.in_columns
            and not method.rebuilds
        ):
            names = " and ".join(b.prior.in_columns)
            return (
                f"{method.name} cannot move the {names} of {model.design.called(b.columns)}, which stands in its columns: use "
                "evidence, or basis='hsgp', which has it in the prior"
            )
    found = [
        f"{a}={float(v):.6g}" for a, v in model.aux.items() if isinstance(v, FoundValue)
    ]
    if method.target == "posterior" and found:
        return (
            f"{method.name}: {found[0]} was found from the residuals, since C fixes only a ratio of scales. State it, "
            f"model.with_aux({found[0]}), or a prior, and the prior scale of the coefficients"
        )
    if (
        method.target == "posterior"
        and (why := improper_noise(method, model)) is not None
    ):
        return why
    said = interpolation(model.design, model.joint)
    if said is not None:
        return f"{said}; leave the prior out, and its scale is estimated, or state one such as Normal(1.0)"
    return method.obstacle(model)


def kinds(method: Method, model: Model) -> str | None:
    """The first of the method's declared needs that the model does not meet, in words."""
    if not isinstance(model.likelihood, method.likelihood):
        return f"{method.name} needs a {method.likelihood.__name__} likelihood, and {model.likelihood.name} is not one"
    if isinstance(method.prior, tuple):
        kinds_taken = method.prior
    else:
        kinds_taken = (method.prior,)
    if not model.joint.of_kind(*kinds_taken):
        wrong = {
            _called(b.prior)
            for b in model.joint.blocks
            if not isinstance(b.prior, (Flat, *kinds_taken))
        }
        able = [
            p.name
            for p in PRIORS.values()
            if issubclass(p, kinds_taken) and p is not Flat and not p.derived
        ]
        return f"{method.name} needs flat or {', '.join(able)} priors, and this model has: {', '.join(sorted(wrong))}"
    return None


def _called(prior: Prior) -> str:
    if isinstance(prior, HierarchicalPrior):
        return f"{prior.name} of unknown scale"
    return prior.name


def held_at_limits(model: Model, solution: Solution) -> Model:
    """The model with the nuisance parameters held that a fit has at their limit 0, where they have no curvature."""
    gone = [
        name
        for name in model.unknown
        if name in model.likelihood.at_zero and solution.aux.get(name) == 0.0
    ]
    if gone:
        return replace(
            model, aux={**model.aux, **positive_limits(dict.fromkeys(gone, 0.0))}
        )
    return model


def positive_limits(aux: Mapping[str, float]) -> dict[str, float]:
    """Nuisance parameters with a positive number in place of an exact 0: the densities are those of the limit to all digits."""
    return {name: float(v) if v != 0.0 else 1e-100 for name, v in aux.items()}


def edges(method: Method, model: Model) -> str | None:
    """Why a mode over log aux may lie on the edge of a prior's support, where no gradient vanishes; None when it cannot."""
    for name in model.unknown:
        prior = model.aux_prior(name)
        if prior.has_bounded_support:
            return f"{method.name} looks for a vanishing gradient, and the {prior.name} prior of {name} has an edge; use quadrature or nuts"
    return None


def improper(method: Method, model: Model) -> str | None:
    """Why a posterior has no finite mass at the edge of a nuisance parameter, in words; None where no such edge is known.

    Where the likelihood at v = 0 is that of a model, it does not fall as v goes to 0, and the integral of dv / v diverges.
    """
    for name in model.unknown:
        if name in model.likelihood.at_zero and isinstance(
            model.aux_prior(name), Reference
        ):
            return (
                f"{method.name}: the posterior is improper, since p({name}) ∝ 1/{name} has no finite mass at {name} = 0, "
                f"{model.likelihood.at_zero[name]}: give it a proper prior, such as aux={{{name!r}: HalfNormal(1.0)}}"
            )
    return None


def improper_noise(method: Method, model: Model) -> str | None:
    """Return why the posterior has no finite mass where the noise scale runs to 0, or None.

    If the columns reproduce N responses and have rank r, the likelihood with the coefficients integrated out rises as
    sigma^-(N - r) when sigma falls to 0. The posterior of log sigma is proper there only if sigma p(sigma) falls faster.
    """
    if not model.noise_unknown:
        return None
    name = model.noise_scale
    power = model.noise_prior.powers[0]
    if power == np.inf or (spare := spare_rows(model)) is None or power > spare:
        return None
    remedy = (
        f"Hold {name} at a value, aux={{{name!r}: 1.0}}, or give it a prior that vanishes at 0, such as "
        f"aux={{{name!r}: InverseGamma(1.0, 1.0)}}"
    )
    return (
        f"{method.name}: the posterior is improper. The columns reproduce the response exactly, so that the likelihood rises "
        f"without bound as {name} falls to 0, and the prior of {name} does not outweigh it. {remedy}"
    )


def spare_rows(model: Model) -> float | None:
    """Return N - r, the number of responses less the rank of the columns that reproduce them all; None if they do not.

    Columns whose priors are in units of sigma reproduce nothing: their priors rise with the likelihood.
    """
    if model.design.unwritten and model.design.n > model.shape[0]:
        return None
    moments = model.design.moments
    own = np.flatnonzero(~model.joint.sigma_units)
    tiny = (4 * np.finfo(float).eps) ** 2 * float(
        np.square(moments.factor[:, -1]).sum()
    )
    # the residual of all columns is at most that of some: where it is far from 0, none of the decompositions below is needed
    if moments.factor[-1, -1] ** 2 > 1e6 * tiny and moments.weight > len(own):
        return None
    F = np.asarray(triangular(moments.factor[:, [*own, moments.p]]), dtype=float)
    rank = rank_of(F[:-1, :-1])
    if triangular(F[:, [*rank.kept, -1]])[len(rank.kept), -1] ** 2 <= tiny:
        return max(float(moments.weight - rank.rank), 0.0)
    # columns that are dependent up to rounding only reproduce any response where they are as many as the rows
    if F[-1, -1] ** 2 <= tiny or moments.weight <= rank.rank:
        return 0.0
    return None


def interpolates(model: Model) -> bool:
    """Whether columns whose priors are not in units of sigma reproduce the response of a least-squares model, or are as many as
    the rows: the density of a joint mode then rises for ever as sigma runs to 0."""
    return spare_rows(model) is not None


def times_root(z: Array, root: Array) -> Array:
    """root z_s for each row of z (S, k), root (k, k): the sum is taken in order, so that no processor changes a bit.

    >>> times_root(np.array([[1.0, 2.0]]), np.array([[1.0, 3.0], [0.0, 2.0]]))
    array([[7., 4.]])
    """
    R = np.asarray(root, dtype=float)
    if len(R) > _IN_ORDER:
        return np.asarray(z @ R.T)
    out = np.zeros_like(z)
    for k in range(len(R)):
        out += z[:, k, None] * R[:, k]
    return out


def with_found_scales(
    model: Model, solution: Solution, found: FoundScales | None
) -> Solution:
    """The solution at scales found by evidence, which are estimates of it: the noise scale is not called held."""
    if found is None:
        return solution
    notes = solution.notes
    if found.stated.noise_unknown and model.noise_held is not None:
        notes = without_topic(notes, Topic.SIGMA)
    status = solution.status
    detail = solution.detail
    if status is Status.EXACT and found.stated.design.recipe.grouped:
        status = Status.CONVERGED
    if status.good and (zero := found.at_limit):
        limits = model.likelihood.at_zero
        status = Status.AT_ZERO
        detail = "; ".join(f"{name} runs to 0: {limits[name]}" for name in zero)
    own = (
        solution.draws is None and solution.replicates is None and not solution.sandwich
    )
    if found.joint_of is not None and solution.status.good and own:
        known = solution.scale
        scale: Any = partial(found.joint_of, found, known, solution.beta, model)
        return replace(
            solution,
            scale=scale,
            conditional=known,
            scales=found,
            notes=notes,
            status=status,
            detail=detail,
        )
    return replace(solution, scales=found, notes=notes, status=status, detail=detail)


def chains_of(values: Array, chains: int) -> Array:
    """(chain draw, ...) cut into (chain, draw, ...)."""
    return values.reshape(chains, -1, *values.shape[1:])


def sigma_note(model: Model, note: Note | None) -> tuple[Note, ...]:
    """Return the note on the noise scale: its value if it is held, else `note`; none if the likelihood has no noise scale."""
    if model.noise_held is not None:
        return (
            important_note(
                Topic.SIGMA,
                "{name} is held at {value:g}",
                name=model.noise_scale,
                value=model.noise_held,
            ),
        )
    return (note,) if note is not None and model.noise_unknown else ()


def reported_coefficients(model: Model, beta: Array) -> Array:
    """Reported coefficients, of h of the p columns: (..., h) for one predictor, (..., h, outcomes) for several."""
    if model.joint.contrast is not None:
        return model.joint.scores(beta)[..., model.design.head, :]
    return outcomes_of(
        model, beta[..., model.design.head, :] if has_effects(model) else beta
    )


def outcomes_of(model: Model, beta: Array) -> Array:
    """Coefficients (..., q, m) of any columns by outcome: (..., q), or (..., q, outcomes)."""
    if not model.likelihood.outcomes:
        return beta[..., 0]
    if _mixes(model):
        return beta @ model.likelihood.contrast_matrix.T
    return beta


def log_names(model: Model) -> tuple[str, ...]:
    """The parameters behind the coefficients in a `ParameterCovariance`: nuisance parameters on their logs."""
    return tuple(f"log {name}" for name in model.unknown)


def has_effects(model: Model) -> bool:
    """Some columns are effects that vary by a group."""
    return len(model.design.head) < len(model.design.columns)


def reported_marginals(model: Model, draws: Draws) -> Mapping[str, Array] | None:
    """The exact marginals of the reported coefficients of one predictor, where they are known: weight (K,), mean and sd (K, h)."""
    known = draws.marginals
    if known is None or not has_effects(model):
        return known
    return {
        k: v[:, model.design.head] if k in ("mean", "sd") else v
        for k, v in known.items()
    }


def coefficients_of_reported(model: Model, beta: Array) -> Array:
    """Back from coefficients by outcome to (..., q, m), of any columns."""
    if model.likelihood.outcomes:
        return beta @ np.linalg.pinv(model.likelihood.contrast_matrix).T
    return beta[..., None]


def reported_matrix(model: Model, M: Array) -> Array:
    """A matrix over vec(beta) as one over the reported coefficients, column first, then outcome."""
    m = model.shape[1]
    if has_effects(model):
        at = vec_entries(tuple(model.design.head.tolist()), m)
        M = M[np.ix_(at, at)]
    if not _mixes(model):
        return M
    return between_outcomes(M, model.likelihood.contrast_matrix)


def reported_covariance(
    model: Model, solution: Solution, scale: ParameterCovariance
) -> Array:
    """The covariance of the reported coefficients, nan where one has no estimate."""
    replicates = _replicates_with_shift(model, solution)
    if replicates is not None:
        out = np.cov(replicates.reshape(len(replicates), -1).T)
    elif has_effects(model) or _mixes(model):
        D = model.likelihood.contrast_matrix
        h = model.design.head
        L = np.zeros((len(h), len(D), *model.shape))
        L[np.arange(len(h)), :, h] = D
        B = scale.half(L.reshape(len(h) * len(D), -1))
        out = B @ B.T
        out[np.diag_indices(len(out))] = np.square(
            reported_errors(model, solution, scale).ravel()
        )
    else:
        out = scale.matrix()
    if solution.not_estimable is None:
        return out
    gone = _gone(model, solution).ravel()
    return np.where(gone[:, None] | gone, np.nan, out)


def reported_errors(
    model: Model, solution: Solution, scale: ParameterCovariance
) -> Array:
    """(h,) or (h, outcomes), the standard errors of the reported coefficients, nan where one has no estimate."""
    replicates = _replicates_with_shift(model, solution)
    if replicates is not None:
        errors = replicates.std(0, ddof=1)
    elif _mixes(model):
        errors = scale.errors_of(model.likelihood.contrast_matrix)[model.design.head]
    else:
        errors = scale.errors()[: scale.coefficients].reshape(model.shape)[
            model.design.head
        ]
    if solution.not_estimable is not None:
        errors = np.where(_gone(model, solution), np.nan, errors)
    if model.likelihood.outcomes:
        return errors
    return errors[:, 0]


def _replicates_with_shift(model: Model, solution: Solution) -> Array | None:
    """Bootstrap replicates (R, h, outcomes) of reported coefficients that are no linear combinations of the model's own."""
    if model.joint.contrast is None or solution.replicates is None:
        return None
    coef = solution.replicates["coef"][:, model.design.head]
    return coef[np.isfinite(coef).all((1, 2))]


def covariance_of_reported(model: Model, V: Array) -> MatrixCovariance:
    """Back from a covariance of the reported coefficients that a user gave."""
    if has_effects(model):
        raise Incompatible(
            "a covariance of the coefficients alone says nothing of effects that vary by a group: name its kind instead"
        )
    P = map_of_predictors(
        np.linalg.pinv(model.likelihood.contrast_matrix), model.shape[0]
    )
    gone = np.isnan(np.diagonal(V))
    own = P @ np.where(gone[:, None] | gone, 0.0, V) @ P.T
    lost = (P[:, gone] != 0).any(1)
    own[lost], own[:, lost] = np.nan, np.nan
    return MatrixCovariance.of(own, model.design.columns, model.shape[1])


class Estimated(NamedTuple):
    """Reported coefficients and their standard errors, nan where there is no estimate: there a least-norm one means nothing."""

    beta: Array  # (h,) or (h, outcomes)
    error: Array


def reported_estimate(model: Model, solution: Solution) -> Estimated:
    """What a solution reports of its coefficients."""
    beta = reported_coefficients(model, solution.beta)
    if solution.not_estimable is not None:
        beta = np.where(_gone(model, solution).reshape(beta.shape), np.nan, beta)
    return Estimated(beta, reported_errors(model, solution, solution.scale))


def _gone(model: Model, solution: Solution) -> Array:
    """(h, outcomes) bool: reported coefficients without an estimate."""
    assert solution.not_estimable is not None  # callers ask first
    return np.asarray(solution.not_estimable[model.design.head])


def _mixes(model: Model) -> bool:
    """Reported coefficients are combinations of the model's own, so that one without an estimate spoils the others."""
    return len(model.likelihood.contrast_matrix) != model.shape[1]
