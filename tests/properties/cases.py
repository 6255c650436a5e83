"""Instances of whatever is registered, with no setting at its default, and the numerical tools that laws are stated with.

A new class needs no entry here: floats are moved off their defaults and every switch is tried both ways. `SPECIAL` holds
what cannot be guessed from a field, such as a matrix.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.arguments.scalars import declared_fields
from probreg.inference import METHODS, Method
from probreg.likelihoods import LIKELIHOODS, Likelihood, OfTrials, SmoothLikelihood
from probreg.priors import (
    AUX_PRIORS,
    PRIORS,
    AuxPrior,
    BetaPrime,
    Covariance,
    Flat,
    GaussianProcess,
    GPrior,
    GroupLaplace,
    GroupNormal,
    HierarchicalPrior,
    Horseshoe,
    MultivariateNormal,
    Normal,
    Prior,
    ScaleMixture,
)
from tests.conftest import covering as _covering

Array = np.ndarray
Q = 3  # columns that a prior touches in these laws
SIGMA = 0.7  # the value of an auxiliary parameter that is held fixed: not 1
PRECISION = ((2.0, 0.6, 0.0), (0.6, 1.5, -0.4), (0.0, -0.4, 0.8))


def moved(value: float) -> float:
    """A float that is not the default; a fraction stays one."""
    if 0 < value < 1:
        return 0.7 * value + 0.25
    return 4.1 if np.isinf(value) else 1.3 * value + 0.4


def variants(cls: type) -> Iterator[Any]:
    """One instance for each setting of the switches and each link of all real eta, every float moved; others: test_links.py.

    A Gaussian mean by the inverse link is infinite at eta = 0, about which the rows of these laws lie.
    """
    fields = [f for f in dataclasses.fields(cls) if f.init]
    floats = {f.name: moved(f.default) for f in fields if isinstance(f.default, float)}
    switches = [f.name for f in fields if isinstance(f.default, bool)]
    choices = {name: [False, True] for name in switches}
    if "link" in declared_fields(cls):
        choices["link"] = [link for _, link in declared_fields(cls)["link"].options]
    for setting in itertools.product(*choices.values()):
        variant = cls(**floats, **dict(zip(choices, setting)))
        ends = getattr(variant, "domain", (-np.inf, np.inf))
        inverse = getattr(variant, "link", "") == "inverse"
        # by other links the proportions of these laws round to 1
        rounds = cls is pr.Beta and variant != cls()
        if ends == (-np.inf, np.inf) and not rounds and not inverse:
            yield variant


SPECIAL_LIKELIHOODS = [
    pr.Categorical(levels=("a", "b", "c", "d"), reference="b"),
    pr.Bernoulli(levels=("yes", "no")),
    pr.Ordinal(link="probit"),
    pr.Ordinal(link="cloglog"),
    pr.NegativeBinomial(variance="nb1"),
]
SPECIAL_PRIORS = [
    Normal(precision_matrix=PRECISION, location=(0.3, -0.2, 0.1)),
    Normal(precision_matrix=PRECISION, location=(0.3, -0.2, 0.1), sigma_units=True),
    GroupLaplace(0.3, groups=((0, 2), (1,))),
    GroupLaplace(
        (0.7, 1.6, 1.1),
        groups=((0, 1, 2),),
        location=(0.3, -0.2, 0.1),
        sigma_units=True,
    ),
    GroupNormal(((1.4, 0.0, 0.0), (0.3, 0.7, 0.0), (-0.4, 0.2, 1.1))),
    GroupNormal(((0.6,),), groups=3),
]
# censored and truncated responses have a file of their own, test_censoring.py: a row of the former is an interval
_OF_BASE = (pr.likelihoods.Censored, pr.likelihoods.Truncated)
# successes of six trials in every row, which needs no trials= beside y; tests of trials that vary are their own
_VARIANTS = [
    dataclasses.replace(v, trials=6) if isinstance(v, pr.Binomial) else v
    for cls in LIKELIHOODS.values()
    if cls not in _OF_BASE
    for v in variants(cls)
]
LIKELIHOOD_CASES = _VARIANTS + SPECIAL_LIKELIHOODS


def likelihood_kind(likelihood: Likelihood, *_: Any) -> tuple[Any, ...]:
    """What methods see of a likelihood: its derivatives and its kinds of parameters. Laws of methods
    have quick cases of each kind; laws of a likelihood's own code have one of each likelihood."""
    return (
        isinstance(likelihood, SmoothLikelihood),
        likelihood.width > 1,
        bool(likelihood.nuisance),
        likelihood.least_squares,
    )


# one prior of all coefficients has a size of its own: it is held where a posterior is carried on
# a GaussianProcess is of the columns of a term alone, see test_gaussian_process.py, and so is a Covariance, see test_covariance.py
_OF_TERMS = (GaussianProcess, Covariance)
_STATED = [
    v
    for cls in PRIORS.values()
    if cls not in (MultivariateNormal, GroupNormal, *_OF_TERMS)
    for v in variants(cls)
]
SCALAR_PRIORS = [
    v for v in _STATED if not v.data_dependent and not isinstance(v, HierarchicalPrior)
]
# coefficients that share an unknown scale: not independent of one another
HIERARCHICAL_PRIORS = [
    *(v for v in _STATED if not v.data_dependent and isinstance(v, HierarchicalPrior)),
    Horseshoe((0.7, 1.6, 1.1), tau=0.4, slab=3.0),
    ScaleMixture(Normal((0.7, 1.6, 1.1), location=0.2), pr.HalfNormal(0.8)),
    ScaleMixture(
        Normal(precision_matrix=PRECISION, sigma_units=True),
        pr.priors.InverseGamma(0.5, 0.7),
    ),
    ScaleMixture(pr.Laplace(0.7, location=-0.3), pr.priors.HalfCauchy(0.5)),
    ScaleMixture(GroupLaplace(0.7, groups=((2, 0), (1,))), pr.HalfNormal(0.8)),
    ScaleMixture(pr.priors.StudentT(0.7, nu=5.3), BetaPrime(1.5, 2.5, scale=0.8)),
]
# stated relative to the rows, or with an unknown scale: what they are depends on the model they stand in
DATA_DEPENDENT_PRIORS = [
    v for v in _STATED if v.data_dependent and not v.sigma_units
] + [
    Normal(pr.HalfNormal(0.8)),
    pr.Laplace(pr.priors.HalfCauchy(0.5), scaled=True),
    Normal(pr.priors.InverseGamma(2.0, 0.7), sigma_units=True),
    GPrior(pr.priors.HalfCauchy(0.6)),
    GPrior(7.0),
    GroupLaplace(0.3, groups=(("x1", "x3"),), root_size=True, scaled=True),
    GroupLaplace(pr.HalfNormal(0.4), groups=(("x2", "x3"),)),
    Horseshoe(tau=0.3),
]
AUX_CASES = [v for cls in AUX_PRIORS.values() for v in variants(cls)] + [
    pr.priors.Uniform(),
    pr.priors.InverseGamma(2.5, 0.6),
]


def quick(cls: type[Method]) -> Method:
    """The method with few draws or replicates, where it makes them."""
    few = {"draws": 500, "chains": 3, "reps": 5}
    return cls(
        **{f.name: few[f.name] for f in dataclasses.fields(cls) if f.name in few}
    )


def own(registry: Mapping[str, Any]) -> list[str]:
    """The names in a registry that the package itself defines: what a user registers beside them is held to the laws, and
    stands in no list of the package's files."""
    return [
        name
        for name, thing in registry.items()
        if thing.__module__.startswith("probreg.")
    ]


# methods that choose another and its model, and no draws of their own
CHOOSING = ("auto", "posterior", "evidence")
# Markov chains carry Monte Carlo error, and have laws of their own in test_chains.py
METHOD_CASES = [
    quick(cls)
    for name, cls in METHODS.items()
    if name not in CHOOSING and not cls.makes_chains
]
# a classifier estimates no parameter of the likelihood; moments by importance carry Monte Carlo error, and have laws of
# their own in test_importance.py
ESTIMATORS = [k for k in METHOD_CASES if k.probabilities and k.name != "importance"]


def per_column(prior: Prior) -> Prior:
    """The same prior with a different value for each of Q columns in every field that takes one."""
    spread = np.array([1.0, 1.6, 0.7])
    fields = {f.name for f in dataclasses.fields(prior)} & {"scale", "location"}
    return dataclasses.replace(
        prior, **{k: tuple(getattr(prior, k) * spread) for k in fields}
    )


PRIOR_CASES = [
    *SCALAR_PRIORS,
    *(per_column(p) for p in SCALAR_PRIORS if p.size is None and p.name != "flat"),
    *SPECIAL_PRIORS,
]
PROPER_PRIORS = [p for p in PRIOR_CASES if not isinstance(p, Flat)]


def auxiliaries(likelihood: Likelihood) -> dict[str, float]:
    # a precision of proportions: with one below 1 many draws are nearer to 1 than double precision tells
    value = 30.0 * SIGMA if isinstance(likelihood, pr.Beta) else SIGMA
    # small counts that vary more than their mean in most samples
    if likelihood == pr.NegativeBinomial(variance="nb1"):
        value = 4.0 * SIGMA
    if isinstance(likelihood, pr.BetaBinomial):
        value = 5.0 * SIGMA
    values = dict.fromkeys(likelihood.nuisance, value)
    if "nu" in values:  # moments need more than 2 degrees of freedom
        values["nu"] = 8.0 * SIGMA
    return values


def proper_aux(likelihood: Likelihood) -> dict[str, Any]:
    """Priors for the nuisance parameters under whose default a posterior has no finite mass: those that may run to 0 or infinity."""
    limits = {**likelihood.at_zero, **likelihood.at_infinity}
    return {a: pr.priors.InverseGamma(2.5, 0.6) for a in limits}


def proper_prior(likelihood: Likelihood, prior: Prior) -> Any:
    """The prior, or one of the intercept alone if the posterior by a flat one would have infinite mass."""
    return {"Intercept": Normal(2.5)} if likelihood.positive_limit else prior


def is_short(likelihood: Likelihood, method: Method) -> bool:
    """Whether stochastic gradients stay short of the maximum: a row of a Gaussian with a log link has the information
    (mean / sigma)^2, from 0.05 to 100 in these laws, and the largest one bounds the steps."""
    return method.name == "sgd" and str(likelihood) == "Gaussian(link='log')"


def given_for(likelihood: Likelihood, n: int, seed: int = 4) -> dict[str, Array]:
    """What is given of n rows: trials that vary from row to row, where the likelihood counts them."""
    if not isinstance(likelihood, OfTrials) or likelihood.trials:
        return {}
    return {"trials": np.random.default_rng(seed).integers(1, 9, n).astype(float)}


def rows_for(
    likelihood: Likelihood, n: int = 60, q: int = Q, seed: int = 3
) -> tuple[Array, Array]:
    """X (n, q) without intercept and a response in the likelihood's own levels, drawn from the likelihood itself."""
    rng = np.random.default_rng(seed)
    X = (
        rng.normal(size=(n, q)) * np.array([1.0, 0.6, 1.4])[:q]
        + np.array([0.2, -0.5, 1.0])[:q]
    )
    beta = rng.uniform(-0.6, 0.6, (q, likelihood.width))
    y = likelihood.sample(
        rng, 0.3 + X @ beta, **auxiliaries(likelihood), **given_for(likelihood, n)
    )
    if isinstance(likelihood, OfTrials):
        return X, likelihood.drawn(y)
    return X, np.array(likelihood.levels)[y.astype(int)] if likelihood.levels else y


def recipe_of(likelihood: Likelihood) -> dict[str, Any]:
    """The arguments that bring back this likelihood when its response is read again."""
    options: dict[str, Any] = {"likelihood": likelihood}
    return options | (
        {"event": likelihood.levels[1]} if isinstance(likelihood, pr.Bernoulli) else {}
    )


def smooth_rows(
    n: int, levels: str, seed: int = 8
) -> tuple[dict[str, Array], dict[str, Array]]:
    """A table of x on (0, 10), z on (-1, 1), a factor g and a normal w, and responses about sin x + z / 2 by their likelihood."""
    data = np.random.default_rng(seed)
    table = {
        "x": data.uniform(0, 10, n),
        "z": data.uniform(-1, 1, n),
        "g": np.array(list(levels))[data.integers(0, len(levels), n)],
        "w": data.normal(size=n),
    }
    eta = np.sin(table["x"]) + 0.5 * table["z"]
    return table, {
        "gaussian": eta + 0.3 * data.normal(size=n),
        "bernoulli": (eta + data.logistic(size=n) > 0).astype(int),
        "poisson": data.poisson(np.exp(eta)),
        "categorical": np.array(["u", "v", "w"])[
            np.clip(np.round(eta + data.normal(size=n)) + 1, 0, 2).astype(int)
        ],
    }


def model_for(
    likelihood: Likelihood,
    prior: Any = None,
    *,
    seed: int = 3,
    n: int = 60,
    q: int = Q,
    **more: Any,
) -> pr.Model:
    X, y = rows_for(likelihood, n, q, seed)
    return pr.Model.from_arrays(
        X, y, **recipe_of(likelihood), prior=Flat() if prior is None else prior, **more
    )


def accepted(
    likelihood: Likelihood, prior: Any, aux: Mapping[str, Any] | None = None
) -> pr.Model | None:
    """The model, or None when this likelihood and prior do not go together. Files that ask for the same model share it."""
    try:
        return _accepted(likelihood, prior, tuple((aux or {}).items()))
    except TypeError:  # a prior for each column is a dictionary, which is no key
        return _accepted.__wrapped__(likelihood, prior, tuple((aux or {}).items()))


_flat_model = cache(model_for)  # of a likelihood: its rows are read and drawn once


@cache
def _accepted(
    likelihood: Likelihood, prior: Any, aux: tuple[tuple[str, Any], ...]
) -> pr.Model | None:
    rows = _flat_model(likelihood)
    prior = Flat() if prior is None else prior
    try:
        # the last step of Model.from_arrays
        return pr.Model._from_design(rows.design, rows.likelihood, prior, dict(aux))
    except pr.Incompatible:
        return None


def aux_choices(likelihood: Likelihood) -> list[dict[str, Any]]:
    """Unknown by default, held fixed, and under an informative prior; nothing where there is no such parameter."""
    if not likelihood.nuisance:
        return [{}]
    return [
        {},
        auxiliaries(likelihood),
        {a: pr.priors.HalfCauchy(0.4) for a in likelihood.nuisance},
        {a: pr.priors.InverseGamma(2.5, 0.6) for a in likelihood.nuisance},
    ]


def models_of(priors: Sequence[Any]) -> Iterator[pr.Model]:
    """Models of every likelihood with each of these priors: a Gaussian one with every treatment of sigma, the others in turn."""
    for (i, likelihood), (j, prior) in itertools.product(
        enumerate(LIKELIHOOD_CASES), enumerate(priors)
    ):
        choices = aux_choices(likelihood)
        if type(likelihood) is not pr.Gaussian:
            choices = [choices[(i + j) % len(choices)]]
        models = (accepted(likelihood, prior, aux) for aux in choices)
        yield from (model for model in models if model is not None)


def triples() -> Iterator[tuple[pr.Model, Method]]:
    """Models of every registered likelihood with every prior, and every method."""
    models = models_of([*PRIOR_CASES, *DATA_DEPENDENT_PRIORS])
    return itertools.product(models, METHOD_CASES)


def named(thing: Any) -> str:
    """A short readable id."""
    if isinstance(thing, Likelihood | Prior | AuxPrior | Method):
        settings = [
            f"{f.name}={getattr(thing, f.name)}"
            for f in dataclasses.fields(thing)
            if getattr(thing, f.name) != f.default
        ]
        return f"{thing.name}({','.join(settings).replace(' ', '')[:60]})"
    if isinstance(thing, pr.Model):
        aux = ",".join(
            f"{k}={v if isinstance(v, float) else v.name}" for k, v in thing.aux.items()
        )
        return f"{named(thing.likelihood)}-{named(thing.prior)}-{aux}"
    return str(thing)


covering = partial(_covering, name=named)


# The densities that compile soonest, with a nuisance parameter and without, of one outcome and of several.
SOON = ("bernoulli", "student", "categorical", "gaussian", "poisson")


def soon(likelihood: Any, *_: Any) -> str:
    """Its name, or that of another where it takes longer to compile: no kind of its own."""
    return likelihood.name if likelihood.name in SOON else SOON[0]


def row_with_slopes(density: Any, y: Any, eta: float, t: Array, a: int) -> list[float]:
    """log p of a row, its slope over eta and its slopes over the logs of a nuisance parameters, as plain Python."""
    if not density.fills_slopes:
        return list(density.row(y, eta, t)[: 2 + a])
    slopes = np.full(a, np.nan)
    return [*density.row(y, eta, t, slopes), *slopes]


def compiled_cases(likelihoods: list[Any]) -> list[Any]:
    """Quick are those that compile soonest."""
    return covering(sorted(likelihoods, key=lambda v: v.name not in SOON), soon)


@contextmanager
def case(*things: Any) -> Iterator[None]:
    """Of many cases in one test, the one that fails is named under its error."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as failure:
        failure.add_note(f"case: {'-'.join(map(named, things))}")
        raise


def slope(f: Callable[[float], Any], h: float = 2e-3) -> Array:
    """df/dt at 0 by central differences, extrapolated once: error of order h^4 f''''' and of rounding / h, both 1e-11 here."""
    near, far = (np.asarray(f(k * h)) - np.asarray(f(-k * h)) for k in (1, 2))
    return (8 * near - far) / (12 * h)


def gradient(f: Callable[[Array], Any], x: Array, h: float = 2e-3) -> Array:
    """All partial derivatives of f at the vector x, on the last axis."""
    unit = np.eye(len(x))
    return np.stack([slope(lambda t, e=e: f(x + t * e), h) for e in unit], -1)


def line(centre: Array | float = 0.0, scale: float = 1.0) -> tuple[Array, Array]:
    """Nodes and weights of an integral over the real line: y = centre + sinh(pi/2 sinh u), trapezoids in u. The error for
    an analytic integrand falls exponentially in the nodes and is below 1e-12 for the densities here."""
    u, step = np.linspace(-4.6, 4.6, 2001, retstep=True)
    inner = np.pi / 2 * np.sinh(u)
    y, dy = np.sinh(inner), np.cosh(inner) * np.pi / 2 * np.cosh(u)
    return centre + scale * y, scale * dy * step


def pieces(breaks: Array, scale: float = 1.0) -> tuple[Array, Array]:
    """Nodes and weights of an integral over the real line of what is analytic between breaks: Gauss-Legendre on each interval, and
    on panels that double in width beyond the last."""
    far = scale * np.r_[0.0, 0.25 * 2.0 ** np.arange(11)]
    edges = np.r_[
        np.min(breaks) - far[:0:-1], np.unique(breaks), np.max(breaks) + far[1:]
    ]
    z, w = np.polynomial.legendre.leggauss(40)
    half = np.diff(edges) / 2.0
    return (edges[:-1, None] + half[:, None] * (1.0 + z)).ravel(), (
        half[:, None] * w
    ).ravel()


def half_line(scale: float = 1.0) -> tuple[Array, Array]:
    """The same over v > 0: v = exp(pi/2 sinh u)."""
    u, step = np.linspace(-4.3, 4.3, 4001, retstep=True)
    v = np.exp(np.pi / 2 * np.sinh(u))
    return scale * v, scale * v * np.pi / 2 * np.cosh(u) * step


def dkw(n: int) -> float:
    """The distance between an empirical and its true distribution function that is passed once in a million (Massart 1990)."""
    return float(np.sqrt(np.log(2e6) / (2 * n)))
