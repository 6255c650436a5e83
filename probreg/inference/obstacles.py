"""The reasons why a method cannot fit a model: the kinds of its likelihood and priors, improper posteriors, columns that determine the response."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from probreg.data import Block
from probreg.data.blocks.block import Sums
from probreg.inference.base import METHODS, Array, Method, with_proper_correlations
from probreg.likelihoods import Likelihood
from probreg.linalg import rank_of, triangular
from probreg.model.found import FoundValue
from probreg.model.model import Model
from probreg.model.term_priors import interpolation
from probreg.priors import PRIORS, Flat, HierarchicalPrior, Reference
from probreg.system.terminal import few_names


def method_obstacle(method: Method, model: Model) -> str | None:
    """Return why a method cannot fit this model, including reasons common to all
    methods."""
    if method.target == "posterior":
        model, _ = with_proper_correlations(model)
        reason = improper_effects(method, model)
        if reason is not None:
            return reason
    if (
        not method.pseudo
        and (reason := model.design.without_likelihood(method.name)) is not None
    ):
        return reason
    for b, prior in model.joint.hierarchical:
        if prior.in_columns and not method.rebuilds:
            names = " and ".join(prior.in_columns)
            return (
                f"{method.name} cannot estimate the {names} of {model.design.describe_columns(b.columns)}, because its columns depend on it: use "
                "evidence, or basis='hsgp', whose prior contains it"
            )
    found_values = [
        f"{a}={float(v):.6g}" for a, v in model.aux.items() if isinstance(v, FoundValue)
    ]
    if method.target == "posterior" and found_values:
        return (
            f"{method.name}: {found_values[0]} was estimated from the residuals, because C fixes only a ratio of scales. Set it with "
            f"model.with_aux({found_values[0]}) or give it a prior, and set the prior scale of the coefficients"
        )
    if (
        method.target == "posterior"
        and (reason := improper_noise(method, model)) is not None
    ):
        return reason
    message = interpolation(model.design, model.joint)
    if message is not None:
        return f"{message}; omit the prior to estimate its scale, or give one such as Normal(1.0)"
    return method.obstacle(model)


def unsupported_kinds(method: Method, model: Model) -> str | None:
    """Return the first requirement of the method that the model does not meet, in
    words."""
    if not isinstance(model.likelihood, method.likelihood):
        # "Gaussian", "SmoothLikelihood", "PiecewiseLinearLikelihood"
        kind, is_abstract, _ = method.likelihood.__name__.partition("Likelihood")
        if is_abstract:
            kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()
        return f"{method.name} needs a {kind} likelihood, and {model.likelihood.name} is not one"
    taken = method.prior if isinstance(method.prior, tuple) else (method.prior,)
    if not model.joint.of_kind(*taken):
        wrong = set()
        for b in model.joint.blocks:
            if not isinstance(b.prior, (Flat, *taken)):
                is_unknown = isinstance(b.prior, HierarchicalPrior)
                scale = " of unknown scale" if is_unknown else ""
                wrong.add(b.prior.name + scale)
        able = [
            p.name
            for p in PRIORS.values()
            if issubclass(p, taken) and p is not Flat and not p.derived
        ]
        return f"{method.name} needs flat or {', '.join(able)} priors, and this model has: {', '.join(sorted(wrong))}"
    return None


def bounded_aux(method: Method, model: Model) -> str | None:
    """Return why a mode over log aux may lie on the boundary of a prior's support, or
    None."""
    for name in model.unknown:
        prior = model.aux_prior(name)
        if prior.has_bounded_support:
            return f"{method.name} searches for a zero of the gradient, and the {prior.name} prior of {name} has bounded support; use quadrature or nuts"
    return None


def improper_effects(method: Method, model: Model) -> str | None:
    """Return why the posterior is improper if standard deviations of effects have an
    improper prior.

    The message proposes a proper prior in units of the response.
    """
    for b, prior in model.joint.hierarchical:
        labels = prior.hyper_labels.items()
        wrong = [name for k, name in labels if not prior.hyper[k].prior.proper]
        if wrong:
            term = model.design.grouped_of(b.columns)
            key = "" if term is None else term.key
            has_noise = model.likelihood.noise_scale is not None
            scale = model.design.y_scale if has_noise else 2.5
            return (
                f"{method.name}: the posterior is improper, since the prior of {few_names(wrong)} is. Give sd a proper prior, such as "
                f"prior={{{key!r}: pr.Covariance(pr.HalfNormal({scale:.2g}))}}, or use evidence"
            )
    return None


def improper_scales(method: Method, model: Model) -> str | None:
    """Return why the posterior is improper if a hyperparameter has an improper prior."""
    for b, prior in model.joint.hierarchical:
        for name, hyper in prior.hyper.items():
            if hyper.prior.proper:
                continue
            subject = name
            example = f"{name}=HalfNormal(1.0)"
            if name == "tau":
                subject = "scale"
                example = f"{type(prior.base).__name__}(HalfNormal(1.0))"
            reason = (
                f"{method.name}: the {subject} of {model.design.describe_columns(b.columns)} has an improper prior, so the posterior is "
                f"improper. Give a proper one such as {example}"
            )
            if METHODS["evidence"]().obstacle(model) is None:
                reason += ", or use evidence, which takes its most probable value"
            return reason
    return None


def improper_aux(method: Method, model: Model) -> str | None:
    """Return why the posterior has infinite mass where a nuisance parameter goes to a limit, or a coefficient to infinity, or None.

    If the likelihood does not fall as v goes to 0 or infinity, it tends to the likelihood of a limiting model, and the integral
    of dv / v diverges.
    """
    likelihood = model.likelihood
    improper = f"{method.name}: the posterior is improper, since"
    for end, sign, limits, prior in (
        ("0", -1.0, likelihood.at_zero, "HalfNormal(1.0)"),
        ("infinity", 1.0, likelihood.at_infinity, "HalfNormal(20.0)"),
    ):
        for name in model.unknown:
            # the density of a noise scale falls on both sides
            is_reference = (
                isinstance(model.aux_prior(name), Reference)
                and name != likelihood.noise_scale
            )
            if is_reference and not _falls(model, name, sign):
                limit = limits.get(name, "where the likelihood does not fall to 0")
                return (
                    f"{improper} p({name}) ∝ 1/{name} has no finite mass at {end} ({limit}): give it a proper prior, such as "
                    f"aux={{{name!r}: {prior}}}"
                )
    for column, end in _directions_without_fall(model):
        return (
            f"{improper} {column!r} has a flat prior and the likelihood does not fall to 0 as it goes to {end}: give it a proper prior, "
            f"such as prior={{{column!r}: Normal(2.5)}}"
        )
    j = model.design.intercept
    if likelihood.positive_limit and j is not None and not model.joint.informative[j]:
        return (
            f"{improper} the intercept has a flat prior, and {likelihood.positive_limit}: give it a proper prior, such as "
            "prior={'Intercept': Normal(2.5)}"
        )
    return None


def _falls(model: Model, name: str, sign: float) -> bool:
    """Return whether the likelihood falls to 0 as the log of a nuisance parameter goes to sign times infinity.

    The likelihood of a hurdle model falls to 0 with `zero_odds` if there are zeros.
    """
    falling = partial(
        _is_falling,
        parameter=name,
        sign=sign,
        likelihood=model.likelihood,
        aux={**model.fixed, **dict.fromkeys(model.unknown, 1.0)},
    )

    def count(block: Block) -> Sums:
        return block.sweep(lambda rows: (falling(rows).sum(),), width=1)

    return bool(model.design.sum_over_rows(count)[0] > 0)


def _directions_without_fall(model: Model) -> Iterator[tuple[str, str]]:
    """Yield the columns with a flat prior in the formulas of nuisance parameters along which the likelihood does not fall to 0, and the
    end, -infinity or infinity."""
    design = model.design
    if design.owner is None:
        return
    places = np.flatnonzero((design.owner > 0) & ~model.joint.informative)
    if not len(places):
        return
    count = partial(
        _count_falling_by_column,
        likelihood=model.likelihood,
        aux={**model.fixed, **dict.fromkeys(model.unknown, 1.0)},
        places=places,
        predictors=design.owner[places].tolist(),
    )
    for end, falling in zip(("-infinity", "infinity"), design.sum_over_rows(count)):
        for place in places[falling == 0]:
            yield design.columns[place], end


def _count_falling_by_column(
    block: Block, *, places: Array, predictors: list[int], **settings: Any
) -> Sums:
    """Return (columns,) twice: the number of rows with a density that falls to 0 as a coefficient goes to -infinity, and to infinity.

    `places` (columns,) are the columns in X, and `predictors` (columns,) those that they belong to.
    """

    def part(rows: Block) -> Sums:
        def falling(sign: float) -> Array:
            of_predictor = {
                k: _is_falling(rows, k, sign, **settings) for k in set(predictors)
            }
            return np.column_stack([of_predictor[k] for k in predictors])

        x = np.asarray(rows.X[:, places])
        down, up = falling(-1.0), falling(1.0)
        to_minus = (x > 0) & down | (x < 0) & up
        to_plus = (x > 0) & up | (x < 0) & down
        return to_minus.sum(0), to_plus.sum(0)

    return block.sweep(part)


def _is_falling(
    rows: Block,
    parameter: int | str,
    sign: float,
    *,
    likelihood: Likelihood,
    aux: Mapping[str, float],
) -> Array:
    """Return (b,) bool: the density of a row falls to 0 as a linear predictor, or the log of a nuisance parameter, goes to sign times
    infinity.

    A density that stays positive is constant far out, and the logarithm of one that falls does so by at least one for each unit.
    """

    def log_density(distance: float) -> Array:
        eta = np.ones((rows.rows, likelihood.width))  # 1 is in the domain of every link
        values = dict(aux)
        if isinstance(parameter, str):
            values[parameter] = math.exp(sign * distance)
        else:
            eta[:, parameter] = sign * distance
        return likelihood.log_prob(
            rows.y, eta, **likelihood.at_rows(values, rows.precision)
        )

    with np.errstate(all="ignore"):  # the logarithm of a density of 0
        return ~(log_density(150.0) - log_density(300.0) <= 1.0)


def improper_noise(method: Method, model: Model) -> str | None:
    """Return why the posterior has infinite mass as the noise scale goes to 0, or None.

    If the columns reproduce N responses and have rank r, the likelihood with the coefficients integrated out rises as
    sigma^-(N - r) when sigma falls to 0. The posterior of log sigma is proper there only if sigma p(sigma) falls faster.
    """
    if not model.noise_unknown:
        return None
    name = model.noise_scale
    power = model.noise_prior.powers[0]
    if power == np.inf or (spare := spare_rows(model)) is None or power > spare:
        return None
    return f"{method.name}: the posterior is improper. The columns reproduce the response exactly, {VANISHING_NOISE.format(name)}"


VANISHING_NOISE = (
    "so the density increases without bound as {0} goes to 0. Fix {0} at a value, or give it a prior that vanishes at 0, such as "
    "InverseGamma(1.0, 1.0)"
)


def spare_rows(model: Model) -> float | None:
    """Return N - r, the number of responses less the rank of the columns that reproduce
    them all; None if they do not.

    Where they do, the joint posterior density increases without bound as sigma goes
    to 0. Columns with priors in units of sigma are not counted: these priors increase
    together with the likelihood.
    """
    if model.design.is_lazy and model.design.n > model.shape[0]:
        return None
    moments = model.design.moments
    columns = np.flatnonzero(~model.joint.sigma_units)
    tiny = (4 * np.finfo(float).eps) ** 2 * float(
        np.square(moments.factor[:, -1]).sum()
    )
    # all columns leave at most the residual of some: if it is far from 0, the
    # decompositions below are not needed
    if moments.factor[-1, -1] ** 2 > 1e6 * tiny and moments.weight > len(columns):
        return None
    F = np.asarray(triangular(moments.factor[:, [*columns, moments.p]]), dtype=float)
    rank = rank_of(F[:-1, :-1])
    if triangular(F[:, [*rank.kept, -1]])[len(rank.kept), -1] ** 2 <= tiny:
        return max(moments.weight - rank.rank, 0.0)
    # columns that are dependent only up to rounding reproduce any response if there are as many as rows
    if F[-1, -1] ** 2 <= tiny or moments.weight <= rank.rank:
        return 0.0
    return None
