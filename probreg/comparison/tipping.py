"""At which scale of the prior a coefficient would change its sign, or its interval the side of zero that it is on.

The scales of all stated priors are multiplied by one factor c, and the mode is found at each: c -> 0 holds the coefficients at
the prior's centre, c -> infinity is maximum likelihood. The tipping scale is c* times the stated scale, with c* the factor nearest to 1 at
which what is said of the coefficient changes.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy

from probreg.assess.before.scale import prior_scale
from probreg.errors import ProbregError, ProbregWarning
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference import METHODS, Method
from probreg.inference.base import method_obstacle
from probreg.model.model import Model
from probreg.priors import Flat, HierarchicalPrior
from probreg.priors.joint import BlockPrior, mapping_of

Array = np.ndarray
PROB = 0.95  # of the interval whose side of zero is watched
REACH = 10  # doublings of the scale, and halvings, that are looked at
_WORK = 5e6  # rows times columns squared, from which some dozens of fits are more than a moment
_WIDE = 200  # columns, likewise
_MODES = (
    "closed_form",
    "newton",
    "coordinate_descent",
    "proximal_newton",
    "interior_point",
)


class Tipping(NamedTuple):
    """Of each reported coefficient the factor c* and the scale c* s of its own prior, nan where there is none, and what changes there."""

    factor: Array  # (k,)
    scale: Array  # (k,), raw units
    what: tuple[str, ...]  # (k,), "" where nothing changes
    unsaid: str = ""  # why nothing was looked for


class _At(NamedTuple):
    beta: Array  # (k,)
    lower: Array
    upper: Array


def tipping_scales(fit: Fit) -> Tipping:
    """The tipping scale of every reported coefficient with a stated prior.

    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1.0, 2.0], [1.0, 2.0], intercept=False, prior=pr.Normal(2.0), aux={"sigma": 0.5})
    >>> v, z = 0.5**2 / 5.0, 1.959963984540054  # the variance of maximum likelihood, which is 1
    >>> bool(np.isclose(tipping_scales(pr.fit(model)).scale[0], z * v / np.sqrt(1.0 - z**2 * v)))
    True
    """
    model = fit.model
    k = fit.coef.size
    nothing = Tipping(np.full(k, np.nan), np.full(k, np.nan), ("",) * k)
    method = _mode_method(model)
    if any(isinstance(b.prior, HierarchicalPrior) for b in model.joint.blocks):
        return nothing._replace(unsaid="since a scale of the prior is unknown")
    if method is None:
        return nothing._replace(
            unsaid="since no method finds a mode from what is kept of this model"
        )
    n = model.design.count
    p = model.shape[0]
    if p > _WIDE or (not model.likelihood.least_squares and n * p**2 > _WORK):
        return nothing._replace(
            unsaid=f"since {n:,} rows of {p:,} columns are too many to fit for each scale"
        )

    @cache
    def at(log_c: float) -> _At:
        return _mode_at(model, method, float(np.exp(log_c)), fit.seed)

    stated = _stated_scales(model, k)
    log_c = np.full(k, np.nan)
    what = [""] * k
    open_ = [j for j in range(k) if np.isfinite(stated[j])]
    for step in range(1, REACH + 1):
        for j in list(open_):
            found = [hit for sign in (-1, 1) for hit in _crossings(at, j, sign, step)]
            if found:
                log_c[j], what[j] = min(found, key=lambda hit: abs(hit[0]))
                open_.remove(j)
    return Tipping(np.exp(log_c), stated * np.exp(log_c), tuple(what))


def _mode_method(model: Model) -> Method | None:
    """The first method that finds the mode of a model whose scales are all stated."""
    if not model.design.reachable and not model.likelihood.least_squares:
        return None
    return next(
        (m for name in _MODES if method_obstacle(m := METHODS[name](), model) is None),
        None,
    )


def _stated_scales(model: Model, k: int) -> Array:
    """(k,) scales of the priors of reported coefficients, nan for flat ones and those of smooth functions."""
    scale = np.full((model.shape[0], k // model.shape[0]), np.nan)
    for b in model.joint.blocks:
        if (
            not isinstance(b.prior, Flat)
            and not model.design.of_terms[list(b.columns)].any()
        ):
            s = prior_scale(b)
            b.put(
                scale,
                np.broadcast_to(np.nan if s is None else s, len(b.columns))[:, None],
            )
    return scale.ravel()


def _mode_at(model: Model, method: Method, c: float, seed: int) -> _At:
    """The mode with its interval where every stated scale is c times as large; nan where there is none."""
    blocks = list[BlockPrior]()
    for b in model.joint.blocks:
        held = (
            isinstance(b.prior, Flat)
            or model.design.of_terms[list(b.columns)].any()
            or prior_scale(b) is None
        )
        blocks.append(b if held else replace(b, prior=b.prior.times(c)))
    prior = mapping_of(blocks, model.design.columns)
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):  # a search that runs away has no mode, which is nan
        warnings.simplefilter("ignore", ProbregWarning)
        try:
            found = fit_model(model.with_prior(prior), method, seed=seed)
            beta = found.coef.values.ravel()
        except (ProbregError, np.linalg.LinAlgError, ArithmeticError):
            nothing = np.full(_n_reported(model), np.nan)
            return _At(nothing, nothing, nothing)
        try:
            ends = found.interval(PROB)
        except ProbregError:  # no standard errors: a kink
            return _At(beta, np.full(beta.shape, np.nan), np.full(beta.shape, np.nan))
    return _At(beta, ends["lower"].values.ravel(), ends["upper"].values.ravel())


def _n_reported(model: Model) -> int:
    return model.shape[0] * (len(model.likelihood.outcomes) or 1)


def _crossings(
    at: Callable[[float], _At], j: int, sign: int, step: int
) -> Iterator[tuple[float, str]]:
    """The changes of coefficient j between two neighbouring factors 2^(sign (step - 1)) and 2^(sign step), by log c."""
    near = sign * (step - 1) * np.log(2.0)
    far = sign * step * np.log(2.0)
    start = at(0.0)
    beta = start.beta[j]
    holds = start.lower[j] <= 0.0 <= start.upper[j]
    end = "lower" if beta > 0 else "upper"
    watched = {
        "beta": "the mode changes sign",
        "lower": f"the {100 * PROB:g} % interval of the mode {'lies above' if holds else 'holds'} zero",
        "upper": f"the {100 * PROB:g} % interval of the mode {'lies below' if holds else 'holds'} zero",
    }
    for name in watched if holds else ("beta", end):
        a, b = (getattr(at(x), name)[j] for x in (near, far))
        if not (np.isfinite(a) and np.isfinite(b)) or np.sign(a) == np.sign(b):
            continue
        if a == 0.0 or b == 0.0:  # a kink holds it at exactly zero
            yield (
                _edge_of_zero(at, j, near, far),
                f"the mode is {'no longer' if a == 0.0 else 'exactly'} zero",
            )
        else:
            yield (
                float(
                    scipy.optimize.brentq(
                        lambda x, name=name: getattr(at(float(x)), name)[j],
                        near,
                        far,
                        xtol=1e-7,
                    )
                ),
                watched[name],
            )


def _edge_of_zero(at: Callable[[float], _At], j: int, near: float, far: float) -> float:
    """Where the estimate begins, or ends, to be exactly zero, by bisection."""
    zero = at(near).beta[j] == 0.0
    while abs(far - near) > 1e-6:
        middle = (near + far) / 2.0
        if (at(middle).beta[j] == 0.0) == zero:
            near, far = (middle, far)
        else:
            near, far = (near, middle)
    return far
