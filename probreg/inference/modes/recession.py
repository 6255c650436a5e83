"""The cone of directions in which a likelihood never falls, by linear programming on well-scaled coordinates.

A direction D (p, m) of the coefficients belongs to the cone when c_r'(x_r D) >= 0 for every constraint r that
the likelihood lists, with equality where it says so. The arithmetic runs on coordinates delta = R gamma of
orthonormal columns, so that neither units, shifts nor near-collinearity of the columns decide what counts as
zero.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.errors import NotConverged
from probreg.likelihoods import Recession

Array = np.ndarray
SLACK = 1e-9  # a margin above -SLACK is not negative; constraints have unit norm and the solver keeps to 1e-10
STRICT = 1e-7  # a margin above it is positive; directions lie in the box [-1, 1]
_AT_ONCE = 1000  # constraints that join the linear programme per round


@dataclass(frozen=True, eq=False)
class Cone:
    """{delta (k, m): c_r'(q_r delta) >= 0}, for the rows q_r of Q (n, k) and the constraints of a Recession.

    >>> upwards = Recession(np.array([0, 1]), np.array([[-1.0], [1.0]]), np.zeros(2, bool))
    >>> Cone(np.array([[-0.6], [0.8]]), upwards).interior()[1]
    array([ True,  True])
    """

    Q: Array
    recession: Recession

    @property
    def shape(self) -> tuple[int, int]:
        return self.Q.shape[1], self.recession.directions.shape[1]

    def normals(self, which: Array) -> Array:
        """The constraints `which` as unit vectors over vec delta, (len(which), k m)."""
        rec = self.recession
        both = self.Q[rec.rows[which], :, None] * rec.directions[which, None, :]
        return both.reshape(len(which), int(np.prod(self.shape))) * self._unit[which, None]

    @cached_property
    def _unit(self) -> Array:
        norm = np.linalg.norm(self.Q, axis=1)[self.recession.rows] * np.linalg.norm(self.recession.directions, axis=1)
        return np.where(norm > 0, 1.0 / np.where(norm > 0, norm, 1.0), 0.0)

    def margins(self, delta: Array) -> Array:
        """c_r'(q_r delta) of every constraint, at unit norm."""
        rec = self.recession
        return ((self.Q @ delta)[rec.rows] * rec.directions).sum(1) * self._unit

    def span(self, flat: Array) -> Array:
        """Orthonormal directions (k m, r) along which the constraints in `flat` all stay at equality."""
        where, width = np.flatnonzero(flat), int(np.prod(self.shape))
        F = np.zeros((0, width))
        for some in np.array_split(where, len(where) // 20_000 + 1):
            F = np.linalg.qr(np.vstack([F, self.normals(some)]), mode="r")
        values, vectors = np.linalg.svd(F)[1:]
        rank = int((values > 1e-9 * values.max(initial=1.0)).sum())
        return vectors[rank:].T

    def interior(self) -> tuple[Array, Array]:
        """A direction (k, m) that makes strict every inequality that some direction of the cone makes strict,
        and which inequalities those are (bool, one per constraint; none when the maximum of the likelihood is
        attained).

        The cone is convex, so directions add up: maximise the sum of the margins that are still zero, until
        none moves.
        """
        equal = self.recession.equal
        inside = self.span(equal) if equal.any() else np.eye(int(np.prod(self.shape)))
        direction, strict, loose = np.zeros(self.shape), np.zeros(len(equal), bool), ~equal
        while inside.size and loose.any():
            step = self._climb(inside, loose)
            fresh = loose & (self.margins(step) > STRICT)
            if not fresh.any():
                break
            direction, strict, loose = direction + step, strict | fresh, loose & ~fresh
        return direction, strict

    def _climb(self, inside: Array, loose: Array) -> Array:
        """The direction of the cone within the box [-1, 1] that maximises the sum of the margins marked in
        `loose`.

        Constraints join as they are violated. A subset of them allows more directions than all do, so that a
        maximum of zero over the subset is a certificate for all rows.
        """
        rec, start = self.recession, np.flatnonzero(~self.recession.equal)
        used = start[np.linspace(0, len(start) - 1, min(len(start), _AT_ONCE + 10 * inside.shape[1])).astype(int)]
        gain = inside.T @ (self.Q[rec.rows[loose]].T @ (rec.directions * self._unit[:, None])[loose]).ravel()
        while True:
            step = inside @ _maximise(gain, np.unique((self.normals(used) @ inside).round(14), axis=0))
            delta = step.reshape(self.shape)
            if gain @ (inside.T @ step) <= SLACK * loose.sum():
                return np.zeros(self.shape)
            margins = np.where(rec.equal, 0.0, self.margins(delta))
            violated = np.setdiff1d(np.flatnonzero(margins < -SLACK), used)
            if not len(violated):
                return delta
            used = np.r_[used, violated[np.argsort(margins[violated])[:_AT_ONCE]]]


def _maximise(gain: Array, normals: Array) -> Array:
    """argmax gain'v subject to normals v >= 0 and -1 <= v <= 1."""
    from scipy.optimize import linprog

    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for method in ("highs-ds", "highs-ipm"):
        found = linprog(
            -gain,
            A_ub=-normals,
            b_ub=np.zeros(len(normals)),
            bounds=(-1.0, 1.0),
            method=method,
            options=tight,
        )
        if found.status == 0:
            return np.asarray(found.x)
    raise NotConverged(
        f"whether the data are separated is not decided: the linear programme of {len(normals)} constraints "
        f"on {len(gain)} coefficients stopped with: {found.message} "
        "Rescale the columns, or use a prior on them."
    )
