"""The integral of the shares along a path of priors: Gauss-Legendre nodes on intervals that are halved until the shares
sum to the distance between the modes at their ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from probreg.comparison.causes import SpecificCause
from probreg.comparison.prior_path import FIRST, LAST, PathPoint, PriorPath
from probreg.numerics.linalg import one_blas_thread

Array = np.ndarray
_NODES = 8  # in each interval
_INTERVALS = 24  # halved at most
_PATIENCE = 4  # halvings over which the error has to fall by half
_MILD = 0.5  # log ratio of curvatures up to which t serves as it is
_CLOSED = 1e-6  # what is left of a sum, in SE, at which a path is known; it goes with the largest share


class Found(NamedTuple):
    """A path: its ends and the shares, over the parameters of the table (J,) and the parts (K,)."""

    causes: tuple[SpecificCause, ...]  # (K,)
    ends: tuple[Array, Array]  # modes (J,)
    log_se: tuple[Array, Array]  # (J,)
    shift: Array  # (K, J), in units of the parameter
    log_ratio: Array  # (K, J)


@one_blas_thread()
def integrate_path(
    path: PriorPath, start: Array, end: Array, tol: float
) -> Found | None:
    """Return the shares, refined until they sum to the shift to `tol` SE and to the log SE ratio to `tol`; None if there is no smooth
    path from the mode near `start` to the mode near `end`."""
    first = path.mode(start, FIRST)
    last = path.mode(end, LAST)
    if first is None or last is None:
        return None
    H = path.local(first, FIRST).curvature, path.local(last, LAST).curvature
    ends = path.ends_of(first, FIRST, H[0]), path.ends_of(last, LAST, H[1])
    if ends[0] is None or ends[1] is None:
        return None
    se = np.exp(ends[0][1])
    none = np.zeros((len(path.causes), len(ends[0][0])))
    pieces: list[_Piece] | None = (
        []
        if not path.causes
        else _pieces(path, (first, last), H, (ends[0][:2], ends[1][:2]))
    )
    errors_left = list[float]()
    for _ in range(_INTERVALS):
        if pieces is None or any(piece.slopes is None for piece in pieces):
            return None
        errors = [piece.error(se) for piece in pieces]
        errors_left.append(sum(errors))
        # done, or what is left is rounding: halves have no less of it
        if errors_left[-1] < tol or (
            len(errors_left) > 1 and _CLOSED > errors_left[-1] > 0.7 * errors_left[-2]
        ):
            break
        if (
            len(errors_left) > _PATIENCE
            and errors_left[-1] > 0.5 * errors_left[-_PATIENCE]
        ):
            return None  # the mode jumps: nothing falls however short the intervals
        halves = pieces.pop(int(np.argmax(errors))).halves()
        pieces = None if halves is None else pieces + halves
    if pieces is None or any(piece.slopes is None for piece in pieces):
        return None
    shift, ratio = (
        sum((piece.sums[i] for piece in pieces), none.copy()) for i in (0, 1)
    )
    remainder = [
        ends[1][0] - ends[0][0] - shift.sum(0),
        ends[1][1] - ends[0][1] - ratio.sum(0),
    ]
    if not max(
        float(np.abs(remainder[0] / se).max()), float(np.abs(remainder[1]).max())
    ) < max(_CLOSED, tol):
        return None
    for part, addition in zip((shift, ratio), remainder):
        if len(part):
            part[np.abs(part).argmax(0), np.arange(len(se))] += addition
    return Found(
        path.causes, (ends[0][0], ends[1][0]), (ends[0][1], ends[1][1]), shift, ratio
    )


def _pieces(
    path: PriorPath, modes: tuple[Array, Array], H: tuple[Array, Array], ends: "Ends"
) -> "list[_Piece] | None":
    """Return the whole path, or with strong priors its two halves, each with its own scale."""
    # what is held at one end is held with the precision that the other end has: half of it in the middle
    curvatures = [
        np.abs(np.diagonal(H[int(name in path.a.fixed)])) for name in path.like.unknown
    ]
    units = {
        name: float(d[i])
        for i, (name, d) in enumerate(zip(path.like.unknown, curvatures), start=path.k)
    }
    path = replace(path, units=units)
    steep = _steepness(path, modes[0], H[0], 1), _steepness(path, modes[1], H[1], 0)
    piece = _Piece(path, steep, (0.0, 1.0), modes, ends)
    return [piece] if max(steep) < _MILD else piece.halves()


def _steepness(path: PriorPath, theta: Array, H: Array, side: int) -> float:
    """Return log(1 + the largest ratio of the curvature of the other side's priors to the whole curvature at one end)."""
    k = path.k
    change = path.sides(theta)[side][1].scale_rows(path.members.sum(0))
    largest = eigh(
        path.columns.T @ change.H @ path.columns, H[:k, :k], eigvals_only=True
    )[-1]
    for name in path.changing_aux:
        i = k + path.like.unknown.index(name)
        largest = max(
            largest, -path.aux_terms(name, float(theta[i]))[side, 1] / abs(H[i, i])
        )
    return float(np.log1p(max(largest, 0.0)))


Ends = tuple[tuple[Array, Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class _Piece:
    """A part of a path between two modes, in s from 0 to 1: t = expm1(2 c s) / expm1(c) / 2 up to the middle and the mirror
    image beyond, so that a prior which settles all within t of exp(-c) is met by few nodes; t = s where nothing is steep."""

    path: PriorPath
    steep: tuple[float, float]
    at: tuple[float, float]
    modes: tuple[Array, Array]
    ends: Ends  # values and log SE (J,) at both
    met: dict[float, Array] = field(default_factory=dict)  # modes found within

    def _path_weights(self, s: float) -> tuple[PathPoint, float]:
        """Return the weights at s, and dt / ds."""
        if max(self.steep) < _MILD:
            return PathPoint(1.0 - s, s), 1.0
        first = s < 0.5
        if first:
            c = self.steep[0]
            x = s
        else:
            c = self.steep[1]
            x = 1.0 - s
        c = max(c, 1e-3)
        t = 0.5 * np.expm1(2.0 * c * x) / np.expm1(c)
        slope = c * np.exp(2.0 * c * x) / np.expm1(c)
        return (PathPoint(1.0 - t, t) if first else PathPoint(t, 1.0 - t)), float(slope)

    @cached_property
    def slopes(self) -> tuple[Array, Array] | None:
        """The integrals (K, J) of both derivatives; None if a mode is not found."""
        low, high = self.at
        modes = dict(zip(self.at, self.modes))
        total = np.zeros(())
        for x, w in zip(*np.polynomial.legendre.leggauss(_NODES)):
            s = 0.5 * (low + high) + 0.5 * (high - low) * x
            t, rate = self._path_weights(s)
            theta = self.path.mode(_interpolate_modes(modes, s), t)
            if theta is None:
                derivatives = None
            else:
                derivatives = self.path.slopes(theta, t)
            if theta is None or derivatives is None:
                return None
            modes[s] = theta
            total = total + 0.5 * (high - low) * w * rate * np.array(derivatives)
        self.met.update(modes)
        return total[0], total[1]

    @property
    def sums(self) -> tuple[Array, Array]:
        assert self.slopes is not None  # the caller checks this first
        return self.slopes

    def error(self, se: Array) -> float:
        """The error of the shares, in SE or in log SE, whichever is larger."""
        remainder = [b - a - part.sum(0) for a, b, part in zip(*self.ends, self.sums)]
        return max(
            float(np.abs(remainder[0] / se).max()), float(np.abs(remainder[1]).max())
        )

    def halves(self) -> "list[_Piece] | None":
        """Return both halves; None if there is no mode between them."""
        middle = 0.5 * (self.at[0] + self.at[1])
        t, _ = self._path_weights(middle)
        theta = self.path.mode(
            _interpolate_modes(self.met or dict(zip(self.at, self.modes)), middle), t
        )
        if theta is None:
            end = None
        else:
            end = self.path.ends_of(theta, t, self.path.local(theta, t).curvature)
        if theta is None or end is None:
            return None
        first = (self.at[0], middle)
        last = (middle, self.at[1])
        return [
            _Piece(
                self.path,
                self.steep,
                first,
                (self.modes[0], theta),
                (self.ends[0], end[:2]),
            ),
            _Piece(
                self.path,
                self.steep,
                last,
                (theta, self.modes[1]),
                (end[:2], self.ends[1]),
            ),
        ]


def _interpolate_modes(known_modes: Mapping[float, Array], s: float) -> Array:
    """Interpolate theta at s by the polynomial through the known modes."""
    points = np.array(list(known_modes))
    modes = np.array(list(known_modes.values()))
    same = np.flatnonzero(points == s)
    if same.size:
        return np.asarray(modes[same[0]])
    # theta(s) = sum_i w_i theta_i / (s - s_i) / sum_i w_i / (s - s_i), w_i = 1 / prod_(j != i) (s_i - s_j)
    gaps = points[:, None] - points
    np.fill_diagonal(gaps, 1.0)
    weight = 1.0 / (gaps.prod(1) * (s - points))
    return np.asarray(weight @ modes / weight.sum())
