"""The integral of the shares along a path of priors, where one connects the modes of two fits.

Gauss-Legendre rules of 4, 8, 16, ... nodes on each half are applied until the shares sum to the distance between the modes at the ends.
"""

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from probreg.comparison.differences import SpecificCause
from probreg.comparison.prior_path import (
    FIRST,
    LAST,
    PathLocal,
    PathMode,
    PathPoint,
    PriorPath,
    PriorTerms,
)
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit
from probreg.inference import Status
from probreg.inference.base import has_effects
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import one_blas_thread
from probreg.system.terminal import shorten_names

Array = np.ndarray


def path_obstacle(a: Fit, b: Fit) -> str:
    """Return why no path of priors connects the modes of two fits; "" if a path may exist."""
    design = a.model.design
    likelihood = a.model.likelihood
    if design.columns != b.model.design.columns:
        return "the columns are in another order"
    if likelihood != b.model.likelihood:
        return "the likelihoods differ"
    if has_effects(a.model) or has_effects(b.model):
        return "the standard deviations of effects are found from the rows"
    for fit in (a, b):
        s = fit.solution
        lost = s.status in (Status.NO_MAXIMUM, Status.NOT_IDENTIFIED, Status.AT_ZERO)
        priors = [fit.model.aux_prior(name) for name in fit.model.unknown]
        bounded = [prior for prior in priors if prior.has_bounded_support]
        without_likelihood = not fit.method.probabilities
        obstacles = {
            "one of them meets every response exactly": exact_fit(fit),
            "one of them has no estimate": lost or np.any(s.not_estimable),
            "a nuisance parameter is 0": min(s.aux.values(), default=1.0) <= 0,
            f"{fit.method.name} has no likelihood": without_likelihood,
            "a prior has a kink or an unknown scale": not fit.model.joint.smooth,
            "the prior of a nuisance parameter has bounded support": bounded,
        }
        for reason, applies in obstacles.items():
            if applies:
                return reason
    if not isinstance(likelihood, SmoothLikelihood) or likelihood.expected_curvature:
        return f"the {likelihood.name} likelihood is not twice differentiable"
    reachable = design.has_rows or b.model.design.has_rows
    if not (likelihood.least_squares or reachable):
        return design.rows_absent
    most_coefficients = 300  # coefficients of a path: of more the systems take seconds
    if a.solution.beta.size > most_coefficients:
        return f"more than {most_coefficients} coefficients"
    return ""


def changing_groups(a: Fit, b: Fit) -> dict[str, tuple[int, ...]]:
    """The sets of columns with different priors in the two fits, by name: columns that a prior ties together are one set,
    and with very many columns each term of the formula is one set."""
    model = a.model
    p, m = model.shape
    changed = np.zeros(p, bool)
    tied = np.eye(p, dtype=bool)
    size = np.abs(a.solution.beta) + np.abs(b.solution.beta) + 1e-3
    noise = np.random.default_rng(0).normal(size=size.shape)
    place = a.solution.beta + size * noise
    for aux in (a.aux, b.aux):
        sides = [PriorTerms.of(fit.model, place, aux) for fit in (a, b)]
        for quantity in ("slope", "log_sigma", "log_sigma_curvature", "mixed", "H"):
            first, second = [getattr(side, quantity) for side in sides]
            bound = 1e-9 * (np.abs(first) + np.abs(second))
            changed |= (np.abs(first - second) > bound).reshape(p, -1).any(1)
        for side in sides:
            tied |= (side.H.reshape(p, m, p, m) != 0).any((1, 3))
    smooth = {c: t.name for t in model.design.recipe.terms for c in t.columns}
    columns = model.design.columns
    # without the levels of factors
    terms = [smooth.get(c) or re.sub(r"\[[^\]]*\]", "", c) for c in columns]
    most_alone = 12  # columns with priors of their own up to which each is a cause; of more each term of a formula
    many = changed.sum() > most_alone
    for i, j in zip(*np.triu_indices(p, 1)):
        if terms[i] == terms[j] and (many or columns[i] in smooth):
            tied[i, j] = tied[j, i] = True
    from scipy.sparse.csgraph import connected_components

    number = connected_components(tied, directed=False)[1]
    groups = {}
    for n in dict.fromkeys(number[changed]):
        indices = tuple(map(int, np.flatnonzero(number == n)))
        names = list(dict.fromkeys([terms[i] for i in indices]))
        if len(indices) == p > 1 and len(names) > 1:
            name = "all coefficients"
        elif len(names) < len(indices) != 1:
            name = shorten_names(names, 3)
        else:
            name = shorten_names([columns[i] for i in indices], 3)
        groups[name] = indices
    return groups


class PathShares(NamedTuple):
    """A path: its ends and the shares, over the parameters of the table (J,) and the causes (K,)."""

    causes: tuple[SpecificCause, ...]  # (K,)
    ends: tuple[PathMode, PathMode]
    shift: Array  # (K, J), in units of the parameter
    log_ratio: Array  # (K, J)


@one_blas_thread()
def integrate_path(
    path: PriorPath, start: Array, end: Array, tol: float
) -> PathShares | None:
    """Return the shares, refined until they sum to the shift to `tol` SE and to the log SE ratio to `tol`; None if there is no smooth
    path from the mode near `start` to the mode near `end`."""
    first = path.mode(start, FIRST)
    last = path.mode(end, LAST)
    if first is None or last is None:
        return None
    # the baseline's SE
    unit = np.array([np.exp(first.log_se), np.ones(len(first.log_se))])
    total = np.array([last.value - first.value, last.log_se - first.log_se])
    shares = np.zeros((2, len(path.causes), total.shape[1]))
    largest_remainder = 1e-6  # what is left of a sum, in SE, at which a path is known; it goes with the largest share
    if path.causes:
        # what is held at one end is held with the precision that the other end has: half of it in the middle
        units = {}
        for name in path.held:
            free = last if name in path.a.fixed else first
            i = path.unknown[name]
            units[name] = float(abs(free.local.H[i, i]))
        path = replace(path, units=units)
        steep = _steepness(path, first.local), _steepness(path, last.local, -1.0)
        known = {0.0: first.local.theta, 1.0: last.local.theta}
        before = np.inf
        for n in (4, 8, 16, 32, 64, 128):
            rule = _apply_rule(path, n, steep, known)
            if rule is None:
                return None
            shares = rule
            error = float(np.abs((total - shares.sum(1)) / unit).max())
            # done, or what is left is rounding
            if error < tol or 0.7 * before < error < largest_remainder:
                break
            if n > 8 and error > 0.5 * before:
                return None  # the mode jumps
            before = error
    remainder = total - shares.sum(1)
    if not np.abs(remainder / unit).max() < max(largest_remainder, tol):
        return None
    for part, addition in zip(shares, remainder):
        if len(part):
            part[np.abs(part).argmax(0), np.arange(len(addition))] += addition
    return PathShares(path.causes, (first, last), *shares)


def _steepness(path: PriorPath, end: PathLocal, sign: float = 1.0) -> float:
    """Return log(1 + the largest ratio of the added curvature of the other side's priors to the whole curvature at one end)."""
    k = len(path.columns)
    change = path.over_theta(end.priors[0].mix(end.priors[1], (-sign, sign)))[1]
    largest = eigh(change[:k, :k], end.H[:k, :k], eigvals_only=True)[-1]
    for cause in path.causes[len(path.members) :]:
        i = path.unknown[cause.subject]
        added = end.priors[int(sign > 0)].aux_curvature[i - k]
        largest = max(largest, added / abs(end.H[i, i]))
    return float(np.log1p(max(largest, 0.0)))


def _apply_rule(
    path: PriorPath, n: int, steep: tuple[float, float], known: dict[float, Array]
) -> Array | None:
    """Return the shares (2, K, J) by n nodes in s on each half of the path; None if a mode is not found.

    t = expm1(2 c s) / expm1(c) / 2 up to the middle and the mirror image beyond, so that a prior which determines everything within
    t of exp(-c) needs few nodes. Modes that are found are added to `known`.
    """
    from scipy.interpolate import krogh_interpolate

    nodes, weights = np.polynomial.legendre.leggauss(n)
    total = np.zeros(())
    n_nearest = 8  # known modes through which the start of a search is interpolated
    for half, ratio in enumerate(steep):
        c = max(ratio, 1e-3)
        # x from the end of this half to the middle
        for x, w in zip(0.5 * (1.0 + nodes), 0.5 * weights):
            weight = 0.5 * float(np.expm1(c * x) / np.expm1(c))
            s, t = 0.5 * x, PathPoint(1.0 - weight, weight)
            if half:
                s, t = 1.0 - s, PathPoint(weight, 1.0 - weight)
            rate = 0.5 * float(c * np.exp(c * x) / np.expm1(c))
            places = np.array([*known])
            near = places[np.argsort(np.abs(places - s), kind="stable")[:n_nearest]]
            start = krogh_interpolate(near, [known[v] for v in near], s)
            mode = path.mode(start, t)
            if mode is None:
                return None
            known[s] = mode.local.theta
            total = total + w * rate * np.array(path.slopes(mode))
    return np.asarray(total)
