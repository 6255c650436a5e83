"""Local maxima of a log posterior that is not concave: Newton's method from several starting points.

A likelihood such as Student-t, or a prior with heavy tails, can give a log posterior more than one local maximum. The starting
points are the centre of the prior, the maximum of the likelihood, and for a noise scale exact fits of a few rows. A starting
point is used only if the log posterior falls somewhere on the line from it to each maximum that is already known.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from probreg.data.rows import minus_offset
from probreg.errors import Incompatible, ProbregError
from probreg.inference.base import Array, Solution, Status, times_root
from probreg.inference.modes.existence import multimodality_cause
from probreg.inference.modes.newton import Mode, find_mode, solution_at
from probreg.inference.notes import Topic, important_note, routine_note
from probreg.inference.penalized.piecewise_linear import any_mode
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread
from probreg.priors import Flat
from probreg.system.terminal import percent

_MODE_DISTANCE = 1.0  # standard deviations between two modes
_START_DISTANCE = (
    3.0  # standard deviations of a starting point from every mode that is known
)
_MAX_START_DROP = 30.0  # log posterior of a starting point below the first mode, at most: Newton's method climbs from it
# of a log: a mode with less than a millionth of the probability of another
_MAX_MASS_DROP = 14.0
_MAX_FURTHER_MODES = 4  # further modes
_N_SUBSETS = 30  # exact fits: if half of the rows belong to each cluster, four of them have all of three rows in one
_LOG_SCALE_DROPS = (
    0.0,
    1.5,
    3.0,
)  # of a log: rows of one cluster have a smaller noise scale of their own
_MAX_COLUMNS = 10  # with more columns an exact fit has rows of several clusters
_MAX_ROWS = 500  # with more rows the search uses a sample of so many, in which a cluster of 5 % of the rows has 25
_LINE_POINTS = 24  # points between a starting point and a mode
_N_NAMED = 3  # coefficients that describe a mode
SHARE = 0.01  # probability about a mode, from which leaving it out shifts an interval of 95 %


class Peak(NamedTuple):
    """The mode of the log posterior and its curvature, as the map z -> (vec beta, log aux) = centre + root z under which
    the curvature is the identity.

    `root` is the inverse of the upper Cholesky factor of the curvature on the raw columns, so that the same z means the
    same draw in whatever units the columns are, and about whatever zero.
    """

    found: Solution  # the mode with its covariance, which is dense
    centre: Array  # (p m + a,)
    root: Array  # (p m + a, p m + a)
    value: float = np.nan  # of the log posterior over (vec beta, log aux)

    @classmethod
    def of(cls, mode: Mode, found: Solution) -> "Peak":
        """At the end of a search that converged."""
        # z = root^-1 (theta - mode) has the curvature 1
        return cls(
            found,
            np.concatenate([found.beta.ravel(), mode.log_aux]),
            found.scale.raw_root(),
            mode.local.value,
        )

    @property
    def log_mass(self) -> float:
        """The log of the probability about this mode by Laplace's approximation, up to a constant that all modes share."""
        return self.value + self.log_det

    def relative_to(self, other: "Peak") -> tuple[Array, Array]:
        """Return its centre and root in the coordinates z of another peak."""
        return np.linalg.solve(other.root, self.centre - other.centre), np.linalg.solve(
            other.root, self.root
        )

    def distance(self, points: Array) -> Array:
        """Standard deviations between this mode and points (..., p m + a)."""
        return np.linalg.norm(
            np.linalg.solve(self.root, np.moveaxis(points - self.centre, -1, 0)), axis=0
        )

    @property
    def log_det(self) -> float:
        """log |d (vec beta, log aux) / d z|."""
        return float(np.linalg.slogdet(self.root)[1])

    def points(self, z: Array) -> tuple[Array, Array]:
        """beta (S, p, m) and log aux (S, a) at z (S, p m + a)."""
        # (vec beta, log aux) = centre + root z, with covariance root root' = H^-1.
        at = self.centre + times_root(z, self.root)
        k = self.found.beta.size
        return at[:, :k].reshape(-1, *self.found.beta.shape), at[:, k:]


def find_peak(model: Model, name: str, *, tol: float, max_steps: int) -> Peak:
    """The mode and its curvature, the expected one where the likelihood has kinks. Incompatible, in the name of a method, where there is none."""
    mode = any_mode(model, tol=tol, max_steps=max_steps)
    found = solution_at(model, mode)
    if found.status is not Status.CONVERGED:
        raise Incompatible(
            f"{name} has no mode to expand about: {found.status.value} ({found.detail})"
        )
    return Peak.of(mode, found)


@one_blas_thread()
def find_peaks(model: Model, name: str, *, tol: float, max_steps: int) -> list[Peak]:
    """The mode that `find_peak` finds, and other modes with some of the probability."""
    found = add_peaks(
        model,
        find_peak(model, name, tol=tol, max_steps=max_steps),
        tol=tol,
        max_steps=max_steps,
    )
    most = max(p.log_mass for p in found)
    return [found[0], *(p for p in found[1:] if p.log_mass > most - _MAX_MASS_DROP)]


def probability_shares(found: Sequence[Peak]) -> Array:
    """The probability about each mode by Laplace's approximation, of sum one."""
    log_mass = np.array([p.log_mass for p in found])
    return np.exp(log_mass - np.logaddexp.reduce(log_mass))


@one_blas_thread()
def add_peaks(model: Model, first: Peak, *, tol: float, max_steps: int) -> list[Peak]:
    """A mode and the further ones that Newton's method finds, where the log posterior can have several."""
    found = [first]
    design = model.design
    if multimodality_cause(model) is None or not _can_search(model):
        return found
    if design.n <= _MAX_ROWS:
        starts = _starting_points(model, first)
    else:
        rows = np.sort(
            np.random.default_rng(0).choice(design.n, _MAX_ROWS, replace=False)
        )
        part = replace(model.with_prior_frozen, design=design.take(rows))
        try:
            own = find_peaks(part, "", tol=tol, max_steps=max_steps)
        except (ProbregError, np.linalg.LinAlgError):  # the sample has no mode
            return found
        starts = np.array(
            [p.centre for p in own if p.distance(first.centre) > _START_DISTANCE]
        ).reshape(-1, len(first.centre))
    value = log_density_at(model, starts)
    queue = _select_distinct_starts(
        model,
        starts[np.argsort(-value)][
            : np.count_nonzero(value > first.value - _MAX_START_DROP)
        ],
        first,
    )
    while len(queue) and len(found) <= _MAX_FURTHER_MODES:
        other = _find_peak_from(model, queue[0], tol=tol, max_steps=max_steps)
        queue = queue[1:]
        if other is not None and all(
            p.distance(other.centre) > _MODE_DISTANCE for p in found
        ):
            found.append(other)
            queue = _select_distinct_starts(model, queue, other)
    return found


def _can_search(model: Model) -> bool:
    return (
        isinstance(model.likelihood, SmoothLikelihood)
        and model.joint.smooth
        and bool(model.design.n)
    )


def log_density_at(model: Model, points: Array) -> Array:
    """log p over (vec beta, log aux) at points (k, p m + a)."""
    k = model.shape[0] * model.shape[1]
    with np.errstate(all="ignore"):  # a far point overflows to no density
        aux = dict(zip(model.unknown, np.exp(points[:, k:].T)))
        value = model.log_posterior(
            points[:, :k].reshape(-1, *model.shape), **aux
        ) + points[:, k:].sum(1)
    return np.where(np.isnan(value), -np.inf, value)


def _select_distinct_starts(model: Model, starts: Array, peak: Peak) -> Array:
    """Select the points (k, p m + a) far from a mode between which and the mode the log posterior falls somewhere."""
    if len(starts):
        far = starts[peak.distance(starts) > _START_DISTANCE]
    else:
        far = starts
    t = np.linspace(0.0, 1.0, _LINE_POINTS)[:, None]
    falls = [
        bool((np.diff(log_density_at(model, s + t * (peak.centre - s))) < 0.0).any())
        for s in far
    ]
    return far[np.array(falls, dtype=bool)]


def _find_peak_from(
    model: Model, start: Array, *, tol: float, max_steps: int
) -> Peak | None:
    """The mode that Newton's method finds from a point, or None."""
    k = model.shape[0] * model.shape[1]
    try:
        beta = tuple(map(tuple, start[:k].reshape(model.shape).tolist()))
        mode = find_mode(
            model, tol=tol, max_steps=max_steps, start=beta, log_aux=start[k:]
        )
        found = solution_at(model, mode)
    except (ProbregError, np.linalg.LinAlgError):  # no mode is found from this point
        return None
    if found.status is Status.CONVERGED:
        return Peak.of(mode, found)
    return None


def _starting_points(model: Model, first: Peak) -> Array:
    """Points (k, p m + a) from which another mode may be found: the centre of the prior, all at once and one coefficient after
    another, the maximum of the likelihood by one step of Newton's method, and of a noise scale the exact fits of as many rows as
    there are columns, with a smaller noise scale too."""
    k = first.found.beta.size
    at = first.centre
    centre = np.zeros(model.shape)
    for b in model.joint.blocks:
        centre[list(b.columns)] = np.reshape(getattr(b.prior, "location", 0.0), (-1, 1))
    informed = np.repeat(model.joint.informative, model.shape[1])
    swaps = np.tile(at, (int(informed.sum()) + 2, 1))
    swaps[0, :k][informed] = centre.ravel()[informed]
    for row, j in enumerate(np.flatnonzero(informed)):
        swaps[row + 1, j] = centre.ravel()[j]
    if informed.any():
        aux = dict(zip(model.unknown, np.exp(at[k:]).tolist()))
        local = replace(model, prior=Flat()).value_grad_hessian(
            at[:k].reshape(model.shape), **aux
        )
        swaps[-1, :k] += np.linalg.lstsq(
            local.curvature[:k, :k], local.gradient[:k], rcond=1e-10
        )[0]
    if model.likelihood.noise_scale is None or model.shape[0] > _MAX_COLUMNS:
        return swaps
    rng = np.random.default_rng(0)
    design = model.design
    y = minus_offset(design.observed, design.offset)
    size = min(design.n, model.shape[0])
    rows = [rng.choice(design.n, size, replace=False) for _ in range(_N_SUBSETS)]
    exact = np.stack(
        [np.linalg.lstsq(np.asarray(design.X[r]), y[r], rcond=None)[0] for r in rows]
    )
    scales = _LOG_SCALE_DROPS if model.unknown else _LOG_SCALE_DROPS[:1]
    parts = [
        np.hstack([exact, np.tile(at[k:] - less, (len(exact), 1))]) for less in scales
    ]
    return np.vstack([swaps, *parts])


@one_blas_thread()
def highest_solution(
    model: Model, first: Peak, *, tol: float, max_steps: int
) -> Solution:
    """The solution at the highest of the modes that are found, with a note on the others."""
    found = add_peaks(model, first, tol=tol, max_steps=max_steps)
    best = max(found, key=lambda p: p.value)
    if best.value <= first.value + 1e-9 * abs(first.value):  # equal to rounding
        best = first
    if len(found) == 1:
        note = routine_note(Topic.MODES, describe_modes(model, found))
    else:
        others = "; ".join(
            f"{best.value - p.value:.3g} lower at {describe_place(model, p, best)}"
            for p in found
            if p is not best
        )
        name = "likelihood" if model.flat else "log posterior"
        note = important_note(
            Topic.MODES,
            "the {name} has {n} local maxima, and this is the highest that was found. The log density is {others}",
            name=name,
            n=len(found),
            others=others,
        )
    return replace(best.found, notes=(*best.found.notes, note))


def describe_place(model: Model, peak: Peak, other: Peak) -> str:
    """Describe a mode by the coefficients that differ most from another mode, in standard deviations. Columns of rotated
    coordinates (names that begin with a blank) are left out."""
    D = model.likelihood.contrast_matrix
    columns = model.design.columns
    outcomes = model.likelihood.outcomes
    beta = peak.found.beta @ D.T
    far = np.abs(beta - other.found.beta @ D.T) / peak.found.scale.errors_of(D)
    entries = [divmod(int(i), len(D)) for i in np.argsort(-far, axis=None)]
    entries = [(j, d) for j, d in entries if not columns[j].startswith(" ")][:_N_NAMED]
    if not entries:
        return f"a distance of {peak.distance(other.centre):.3g} standard deviations"
    names = [
        f"{columns[j]} ({outcomes[d]})" if outcomes else columns[j]
        for j, d in sorted(entries)
    ]
    return ", ".join(
        f"{name} = {beta[at]:.4g}" for name, at in zip(names, sorted(entries))
    )


def describe_modes(model: Model, found: Sequence[Peak], use: str = "") -> str:
    """Describe the modes of a posterior and how a method uses them."""
    if len(found) == 1:
        return f"{multimodality_cause(model)}; the search for others found none"
    shares = ", ".join(percent(v, 2) for v in probability_shares(found))
    return f"the posterior has {len(found)} modes, with about {shares} of the probability; {use}"
