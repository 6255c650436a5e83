"""Whether a path of priors connects the modes of two fits, and the sets of columns with priors that change along it."""

import re

import numpy as np

from probreg.comparison.prior_path import MOST
from probreg.comparison.prior_terms_by_entry import PriorSide
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit
from probreg.inference import Status
from probreg.inference.base import has_effects
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model

_MANY = 12  # columns with priors of their own up to which each is a cause; of more each term of a formula
_LOST = (Status.NO_MAXIMUM, Status.NOT_IDENTIFIED, Status.AT_ZERO)


def obstacle(a: Fit, b: Fit) -> str:
    """Return why no path of priors connects the modes of two fits; "" if a path may exist."""
    if a.model.design.columns != b.model.design.columns:
        return "the columns are in another order"
    if a.model.likelihood != b.model.likelihood:
        return "the likelihoods differ"
    if has_effects(a.model) or has_effects(b.model):
        return "the standard deviations of effects are found from the rows"
    if exact_fit(a) or exact_fit(b):
        return "one of them meets every response exactly"
    reason = _obstacle_of_fit(a) or _obstacle_of_fit(b)
    if reason:
        return reason
    model = a.model
    if (
        not isinstance(model.likelihood, SmoothLikelihood)
        or model.likelihood.expected_curvature
    ):
        return f"the {model.likelihood.name} likelihood is not twice differentiable"
    if not (
        model.likelihood.least_squares
        or model.design.reachable
        or b.model.design.reachable
    ):
        return model.design.rows_absent
    if model.shape[0] * model.shape[1] > MOST:
        return f"more than {MOST} coefficients"
    return ""


def _obstacle_of_fit(fit: Fit) -> str:
    """Return why a path of priors cannot start at the mode of a fit, or ""."""
    s = fit.solution
    model = fit.model
    if s.status in _LOST or (s.not_estimable is not None and s.not_estimable.any()):
        return "one of them has no estimate"
    if not all(v > 0 for v in s.aux.values()):
        return "a nuisance parameter is 0"
    if not fit.method.probabilities:
        return f"{fit.method.name} has no likelihood at its answer"
    if not model.joint.smooth:
        return "a prior has a kink or an unknown scale"
    if any(model.aux_prior(name).has_bounded_support for name in model.unknown):
        return "the prior of a nuisance parameter has an edge"
    return ""


def groups_of(a: Fit, b: Fit) -> dict[str, tuple[int, ...]]:
    """The sets of columns with different priors in the two fits, by name: columns that a prior ties together are one set,
    and with very many columns each term of the formula is one set."""
    model = a.model
    (p, m), changed = model.shape, np.zeros(model.shape[0], bool)
    rng = np.random.default_rng(0)
    places = [f.solution.beta for f in (a, b)]
    size = np.abs(places[0]) + np.abs(places[1]) + 1e-3
    sigmas = [f.model.noise(f.aux) for f in (a, b)]
    tied = np.eye(p, dtype=bool)
    for point in (
        *places,
        *(places[i] + size * rng.normal(size=size.shape) for i in (0, 1)),
    ):
        for sigma in sigmas:
            sides = [PriorSide(f.model.joint, m).terms(point, sigma)[1] for f in (a, b)]
            for first, second in zip(*sides):
                unlike = np.abs(first - second) > 1e-9 * (
                    np.abs(first) + np.abs(second)
                )
                changed |= unlike.reshape(p, -1).any(1)
            for side in sides:
                tied |= (side.H.reshape(p, m, p, m) != 0).any((1, 3))
    term = [_term(model, c) for c in model.design.columns]
    smooth = {c for t in model.design.recipe.terms for c in t.columns}
    many = len(set(np.flatnonzero(changed))) > _MANY
    for i, j in zip(*np.triu_indices(p, 1)):
        if term[i] == term[j] and (many or model.design.columns[i] in smooth):
            tied[i, j] = tied[j, i] = True
    from scipy.sparse.csgraph import connected_components

    number = connected_components(tied, directed=False)[1]
    sets = [
        tuple(map(int, np.flatnonzero(number == k)))
        for k in dict.fromkeys(number[changed])
    ]
    return {_block_name(model, point, term): point for point in sets}


def _term(model: Model, column: str) -> str:
    """Return the smooth function of a column, otherwise its name without the levels of factors."""
    names = [t.name for t in model.design.recipe.terms if column in t.columns]
    if names:
        return names[0]
    return re.sub(r"\[[^\]]*\]", "", column)


def _block_name(model: Model, indices: tuple[int, ...], term: list[str]) -> str:
    columns = [model.design.columns[i] for i in indices]
    if len(columns) == 1:
        return columns[0]
    terms = list(dict.fromkeys(term[i] for i in indices))
    if len(columns) == model.shape[0] and len(terms) > 1:
        return "all coefficients"
    names = terms if len(terms) < len(columns) else columns
    return ", ".join(names[:3]) + (
        f" and {len(names) - 3} more" if len(names) > 3 else ""
    )
