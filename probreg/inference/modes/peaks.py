"""Local maxima of a log posterior that is not concave: Newton's method from several starting points.

A likelihood such as Student-t, or a prior with heavy tails, can give a log posterior with several local maxima. The starting
points are the centre of the prior, the maximum of the likelihood, and for a noise scale exact fits of a few rows. A starting
point is used only if the log posterior decreases somewhere on the line from it to each maximum found before.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from probreg.errors import Incompatible, ProbregError
from probreg.inference.base import (
    Array,
    Solution,
    Status,
    split_parameters,
    times_root,
)
from probreg.inference.modes.existence import multimodality_cause
from probreg.inference.modes.newton import Mode, find_mode, solution_at
from probreg.inference.penalized.piecewise_linear import any_mode
from probreg.inference.status import Note, Topic, important_note, routine_note
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import one_blas_thread
from probreg.model.model import Model
from probreg.priors import Flat
from probreg.system.terminal import percent

SHARE = 0.01  # a mode with more probability than this shifts a 95 % interval if it is omitted


class Peak(NamedTuple):
    """A mode of the log posterior and its curvature, as the map z -> (vec beta, log
    aux) = centre + root z. The curvature over z is the identity.

    `root` is the inverse of the upper Cholesky factor of the curvature on the raw
    columns, so the same z gives the same draw for any units and any origin of the
    columns.
    """

    found: Solution  # the mode with its covariance, which is dense
    centre: Array  # (p m + a,)
    root: Array  # (p m + a, p m + a)
    value: float = np.nan  # of the log posterior over (vec beta, log aux)

    @classmethod
    def of(cls, mode: Mode, solution: Solution) -> "Peak":
        """Return the peak at the end of a search that converged."""
        # z = root^-1 (theta - mode) has the curvature 1
        return cls(
            solution,
            np.concatenate([solution.beta.ravel(), mode.log_aux]),
            solution.scale.raw_root(),
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

    def at(self, z: Array) -> Array:
        """Return (vec beta, log aux) (S, p m + a) at z (S, p m + a)."""
        # centre + root z has the covariance root root' = H^-1
        return self.centre + times_root(z, self.root)


def _find_peak(
    model: Model, name: str, start: Array | None = None, **options: Any
) -> Peak:
    """Find a mode and its curvature (the expected one for likelihoods with kinks), by
    Newton's method if from a `start`. Incompatible, naming the method, if there is none."""
    if start is None:
        mode = any_mode(model, **options)
    else:
        k = model.n_coefficients
        beta = start[:k].reshape(model.shape)
        mode = find_mode(model, start=beta, log_aux=start[k:], **options)
    solution = solution_at(model, mode)
    if solution.status is not Status.CONVERGED:
        raise Incompatible(
            f"{name} needs a mode, and the search found none: {solution.status.value} ({solution.detail})"
        )
    return Peak.of(mode, solution)


def _find_peak_from(model: Model, start: Array, **options: Any) -> Peak | None:
    """The mode that Newton's method finds from a point, or None."""
    try:
        return _find_peak(model, "newton", start, **options)
    except (ProbregError, np.linalg.LinAlgError):
        return None


@one_blas_thread()
def find_peaks(model: Model, name: str, **options: Any) -> list[Peak]:
    """Return the mode that a search finds, and other modes with some of the probability."""
    # a log: a mode with less than a millionth of the probability of another
    max_mass_drop = 14.0
    peaks = add_peaks(model, _find_peak(model, name, **options), **options)
    largest = max(p.log_mass for p in peaks)
    return [peaks[0], *(p for p in peaks[1:] if p.log_mass > largest - max_mass_drop)]


def probability_shares(peaks: Sequence[Peak]) -> Array:
    """Return the probability of each mode by Laplace's approximation, with sum one.

    >>> probability_shares([]).tolist()
    []
    """
    log_mass = np.array([p.log_mass for p in peaks])
    # softmax of SciPy does not take an empty list of modes
    return np.exp(log_mass - np.logaddexp.reduce(log_mass))


@one_blas_thread()
def add_peaks(model: Model, first: Peak, **options: Any) -> list[Peak]:
    """Return a mode and further ones found by Newton's method with these `options`, if
    the log posterior can have several."""
    # with more rows the search uses a sample; a cluster of 5 % of the rows then has 25
    max_rows = 500
    # tol of a mode of a sample, in standard errors: it is a start only
    rough = {**options, "tol": 1e-3}
    # largest difference of the log posterior between the first mode and a start of Newton's method
    max_start_drop = 30.0
    mode_distance = 1.0  # standard deviations between two modes
    max_peaks = 5
    peaks = [first]
    design = model.design
    can_search = (
        isinstance(model.likelihood, SmoothLikelihood)
        and model.joint.smooth
        and bool(design.n)
    )
    if multimodality_cause(model) is None or not can_search:
        return peaks
    if design.n <= max_rows:
        starts = _starting_points(model, first)
    else:
        rows = np.sort(
            np.random.default_rng(0).choice(design.n, max_rows, replace=False)
        )
        part = replace(model.with_prior_frozen, design=design.take(rows))
        near = _find_peak_from(part, first.centre, **rough)
        if near is None:  # the sample has no mode
            return peaks
        sample_peaks = add_peaks(part, near, **rough)
        starts = np.array([p.centre for p in sample_peaks])
    value = log_density_at(model, starts)
    high = starts[np.argsort(-value)][: (value > first.value - max_start_drop).sum()]
    queue = _select_distinct_starts(model, high, first)
    while len(queue) and len(peaks) < max_peaks:
        other = _find_peak_from(model, queue[0], **options)
        queue = queue[1:]
        if other is not None and all(
            p.distance(other.centre) > mode_distance for p in peaks
        ):
            peaks.append(other)
            queue = _select_distinct_starts(model, queue, other)
    return peaks


def log_density_at(model: Model, points: Array) -> Array:
    """log p over (vec beta, log aux) at points (k, p m + a)."""
    with np.errstate(all="ignore"):  # the density of a far point overflows
        beta, aux = split_parameters(model, points)
        value = model.log_posterior(beta, **aux) + points[
            :, model.n_coefficients :
        ].sum(1)
    return np.where(np.isnan(value), -np.inf, value)


def _select_distinct_starts(model: Model, starts: Array, peak: Peak) -> Array:
    """Select the points (k, p m + a) that are far from a mode and separated from it by
    a decrease of the log posterior."""
    # standard deviations of a starting point from every mode found before
    start_distance = 3.0
    n_points = 24  # points between a starting point and a mode
    distant = starts[peak.distance(starts) > start_distance] if len(starts) else starts
    t = np.linspace(0.0, 1.0, n_points)[:, None]
    falls = [
        bool((np.diff(log_density_at(model, s + t * (peak.centre - s))) < 0.0).any())
        for s in distant
    ]
    return distant[np.array(falls, dtype=bool)]


def _starting_points(model: Model, first: Peak) -> Array:
    """Return starting points (k, p m + a) where Newton's method may find another mode.

    These are the centre of the prior (all coefficients, and one at a time), the maximum
    of the likelihood by one Newton step, and, with a noise scale, exact fits of as many
    rows as columns, also with a smaller noise scale.
    """
    max_columns = 10  # with more columns an exact fit has rows of several clusters
    # exact fits: if each cluster has half of the rows, about four subsets of three rows lie in one
    n_subsets = 30
    k = first.found.beta.size
    mode = first.centre
    centre = np.zeros(model.shape)
    for b in model.joint.blocks:
        centre[list(b.columns)] = np.reshape(getattr(b.prior, "location", 0.0), (-1, 1))
    informed = np.repeat(model.joint.informative, model.shape[1])
    swaps = np.tile(mode, (int(informed.sum()) + 2, 1))
    swaps[0, :k][informed] = centre.ravel()[informed]
    for row, j in enumerate(np.flatnonzero(informed)):
        swaps[row + 1, j] = centre.ravel()[j]
    if informed.any():
        beta, aux = split_parameters(model, mode)
        local = replace(model, prior=Flat()).value_grad_hessian(beta, **aux)
        swaps[-1, :k] += np.linalg.lstsq(
            local.curvature[:k, :k], local.gradient[:k], rcond=1e-10
        )[0]
    if model.likelihood.noise_scale is None or model.shape[0] > max_columns:
        return swaps
    rng = np.random.default_rng(0)
    design = model.design
    y = design.response_less_offset
    size = min(design.n, model.shape[0])
    rows = np.array(
        [rng.choice(design.n, size, replace=False) for _ in range(n_subsets)]
    )
    X = np.asarray(design.X[rows.ravel()]).reshape(*rows.shape, -1)
    exact = (np.linalg.pinv(X) @ y[rows][..., None])[..., 0]
    # logs: rows of one cluster have a smaller noise scale
    drops = [0.0, 1.5, 3.0] if model.unknown else [0.0]
    parts = [
        np.hstack([exact, np.tile(mode[k:] - drop, (len(exact), 1))]) for drop in drops
    ]
    return np.vstack([swaps, *parts])


@one_blas_thread()
def highest_solution(model: Model, first: Peak, **options: Any) -> Solution:
    """Return the solution at the highest mode, with a note on the others."""
    peaks = add_peaks(model, first, **options)
    best = max(peaks, key=lambda p: p.value)
    if best.value <= first.value + 1e-9 * abs(first.value):  # equal to rounding
        best = first
    if len(peaks) == 1:
        note = routine_note(Topic.MODES, describe_modes(model, peaks))
    else:
        other_modes = "; ".join(
            f"{best.value - p.value:.3g} lower at {describe_place(model, p, best)}"
            for p in peaks
            if p is not best
        )
        name = "likelihood" if model.flat else "log posterior"
        note = important_note(
            Topic.MODES,
            "the {name} has {n} local maxima, and this is the highest that was found. The log density is {others}",
            name=name,
            n=len(peaks),
            others=other_modes,
        )
    return replace(best.found, notes=(*best.found.notes, note))


def describe_place(model: Model, peak: Peak, other: Peak) -> str:
    """Describe a mode by the coefficients that differ most from another mode, in
    standard deviations.

    Columns of rotated coordinates (names that begin with a blank) are omitted.
    """
    n_named = 3  # coefficients that describe a mode
    D = model.likelihood.contrast_matrix
    columns = model.design.columns
    outcomes = model.likelihood.outcomes
    beta = peak.found.beta @ D.T
    distance = np.abs(beta - other.found.beta @ D.T) / peak.found.scale.errors_of(D)
    entries = [divmod(int(i), len(D)) for i in np.argsort(-distance, axis=None)]
    entries = [(j, d) for j, d in entries if not columns[j].startswith(" ")][:n_named]
    if not entries:
        return f"a distance of {peak.distance(other.centre):.3g} standard deviations"
    names = [
        f"{columns[j]} ({outcomes[d]})" if outcomes else columns[j]
        for j, d in sorted(entries)
    ]
    return ", ".join(
        f"{name} = {beta[entry]:.4g}" for name, entry in zip(names, sorted(entries))
    )


def describe_modes(model: Model, peaks: Sequence[Peak], use: str = "") -> str:
    """Describe the modes of a posterior and how a method uses them."""
    if len(peaks) == 1:
        return f"{multimodality_cause(model)}; the search for others found none"
    shares = ", ".join(percent(v, 2) for v in probability_shares(peaks))
    return f"the posterior has {len(peaks)} modes, with about {shares} of the probability; {use}"


def notes_of_modes(model: Model, peaks: Sequence[Peak], use: str) -> tuple[Note, ...]:
    """Return the note on the modes of a posterior that can have several."""
    if multimodality_cause(model) is None:
        return ()
    return (important_note(Topic.MODES, describe_modes(model, peaks, use)),)
