"""Maximise the log posterior with one quantity fixed, for profiles and score tests.

A quantity is psi = c'theta, theta = (vec gamma, log aux) on standardised columns. With
psi fixed, Newton steps over the other directions start from the nearest known maximum,
moved along the path of the maximum.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy

from probreg.errors import NotConverged
from probreg.inference.base import Array, Solution
from probreg.inference.modes.maximise import newton_step
from probreg.linalg import one_blas_thread
from probreg.linalg.halving import halvings
from probreg.linalg.vec import map_of_columns, with_aux
from probreg.model.model import LocalModel, Model

_STEPS = 100
_GAIN = 1e-12  # predicted gain of the log posterior in the last step, which then has an error of about its square
_FAR = 1e5  # standard errors (or units of eta) beyond which an end counts as infinite
_GROW = 2.0  # growth factor of the search while no end is found


@dataclass(frozen=True, eq=False)
class Surface:
    """The log posterior over theta, within the identified directions B (d, r)."""

    model: Model
    B: Array

    def evaluate(self, theta: Array) -> LocalModel:
        """Value, gradient and negative Hessian over theta; nan if exp overflows."""
        p, m = self.model.shape
        aux = {a: float(np.exp(u)) for a, u in zip(self.model.unknown, theta[p * m :])}
        with np.errstate(all="ignore"):
            return self.model.value_grad_hessian_standardised(
                theta[: p * m].reshape(p, m), **aux
            )

    def across(self, C: Array) -> Array:
        """Orthonormal directions inside B that keep C'theta constant, for C (d,) or
        independent columns (d, q)."""
        # B v with v orthogonal to B'C, so that C'Bv = 0.
        inner = self.B.T @ (C[:, None] if C.ndim == 1 else C)
        return self.B @ np.linalg.qr(inner, mode="complete")[0][:, inner.shape[1] :]

    def maximise(self, theta: Array, Z: Array) -> tuple[Array, LocalModel] | None:
        """Return the maximum over theta + span(Z), with the log posterior there; None
        if no steps lead to one."""
        local = self.evaluate(theta)
        if not np.isfinite(local.value) or not np.isfinite(local.curvature).all():
            return None
        enough = max(_GAIN, 1e-16 * self.model.design.total)
        for _ in range(_STEPS):
            # Newton within span(Z): step = Z (Z'HZ)^-1 Z'g, with the predicted
            # first-order gain g'step.
            part = LocalModel(
                local.value, Z.T @ local.gradient, Z.T @ local.curvature @ Z
            )
            inner = newton_step(part)[0] if Z.shape[1] else np.zeros(0)
            step = _within_reach(Z @ inner, theta)
            gain = float(local.gradient @ step)
            next_point = _uphill(self, theta, step, local, gain)
            if next_point is not None:
                theta, local = next_point
            if next_point is None or gain < enough:
                if self._level(theta, local, Z):
                    return (theta, local)
                return None
        return None

    def _level(self, theta: Array, local: LocalModel, Z: Array) -> bool:
        """Whether no direction increases the value, including those without curvature,
        which Newton steps ignore."""
        slope = float(np.linalg.norm(Z.T @ local.gradient)) * _reach(theta)
        return slope < 1e-4 * np.sqrt(self.model.design.total)


def _within_reach(step: Array, theta: Array) -> Array:
    """Limit a step to twice the size of theta; without curvature a Newton step is
    arbitrary."""
    # BLAS scales a norm, so that a divergent step does not overflow
    length = float(scipy.linalg.norm(step, check_finite=False))
    return step * min(1.0, _reach(theta) / length) if length > 0.0 else step


def _reach(theta: Array) -> float:
    return 2.0 + 2.0 * float(np.linalg.norm(theta))


def _uphill(
    surface_: Surface, theta: Array, step: Array, local: LocalModel, gain: float
) -> tuple[Array, LocalModel] | None:
    """Return the first of the halved steps with a sufficient increase, up to
    rounding."""
    # l(theta + t step) >= l(theta) + 1e-4 t g'step   (Armijo 1966).
    noise = 1e-13 * abs(local.value) + 1e-16 * surface_.model.design.total
    for t in halvings(theta, step):
        local_new = surface_.evaluate(theta + t * step)
        if (
            np.isfinite(local_new.curvature).all()
            and local_new.value >= local.value + 1e-4 * t * gain - noise
        ):
            return theta + t * step, local_new
    return None


def identified_basis(model: Model, solution: Solution) -> Array:
    """Return B (d, r): orthonormal directions of theta that the rows and priors
    identify."""
    m = model.shape[1]
    a = len(model.unknown)
    Q = np.eye(model.shape[0])
    if solution.null_space is not None:
        # beta = N c does not change X beta; in gamma = T^-1 N c: B is the orthonormal
        # complement of T^-1 N.
        Q = np.linalg.qr(
            model.design.frame.from_raw(solution.null_space), mode="complete"
        )[0][:, solution.null_space.shape[1] :]
    return with_aux(map_of_columns(Q, m), a)


def start(model: Model, solution: Solution, beta: Array) -> Array:
    """Return theta at coefficients beta (p, m) and the nuisance parameters of a
    solution."""
    with np.errstate(
        divide="ignore"
    ):  # an exact fit has sigma = 0, where no search can start
        log_aux = np.log([solution.aux[name] for name in model.unknown])
    return np.concatenate([model.design.frame.from_raw(beta).ravel(), log_aux])


def surface(model: Model, solution: Solution) -> tuple[Surface, Array, LocalModel]:
    """Return the surface, its maximum and the log posterior there, started from a
    solution. NotConverged if there is none."""
    surface_ = Surface(model, identified_basis(model, solution))
    maximum = surface_.maximise(start(model, solution, solution.beta), surface_.B)
    if maximum is None:
        raise NotConverged(
            "the log posterior has no maximum to start from (an exact fit, or a fit that did not converge)"
        )
    return surface_, *maximum


@dataclass(eq=False)
class ConstrainedPath:
    """Constrained maxima of one quantity c'theta, each started from the nearest known
    one."""

    at: Surface
    c: Array
    top: tuple[Array, LocalModel]
    known: list[tuple[float, Array, LocalModel]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.Z = self.at.across(self.c)
        self.best = float(self.c @ self.top[0])
        self.known = [(self.best, *self.top)]

    def maximum(self, psi: float) -> tuple[Array, LocalModel] | None:
        """Return the maximum with c'theta = psi; None if the log posterior overflows,
        NotConverged if no steps lead there."""
        finite = False
        for start in self._starts(psi):
            maximum = self.at.maximise(start, self.Z)
            if maximum is not None:
                self.known.append((psi, *maximum))
                return maximum
            finite = finite or bool(np.isfinite(self.at.evaluate(start).value))
        if finite:
            raise NotConverged(
                "the maximum with one coefficient fixed was not found, so its interval is unknown: rescale the columns, or "
                "give a prior"
            )
        return None

    def _starts(self, psi: float) -> Iterator[Array]:
        """Yield starts from the two nearest known points, along the path or straight,
        then coefficients near zero."""
        shortest = self.c / (self.c @ self.c)
        for psi_known, theta, local in sorted(
            self.known, key=lambda k: abs(k[0] - psi)
        )[:2]:
            yield theta + (psi - psi_known) * self._along(local)
            yield theta + (psi - psi_known) * shortest
        k = self.at.model.shape[0] * self.at.model.shape[1]
        yield psi * shortest + np.where(
            np.arange(len(self.c)) < k, 0.0, self.top[0] * (self.c == 0)
        )

    def _along(self, local: LocalModel) -> Array:
        """d theta / d psi of the constrained maximum, H^-1 c / c'H^-1 c."""
        B = self.at.B
        # max l with c'theta = psi: g = lambda c, so -H d theta = c d lambda, and c'd theta = d psi gives
        # d theta / d psi = H^-1 c / c'H^-1 c.
        step, _ = newton_step(LocalModel(0.0, B.T @ self.c, B.T @ local.curvature @ B))
        length = float(self.c @ (B @ step))
        if np.isfinite(length) and length > 0:
            return B @ step / length
        return self.c / (self.c @ self.c)


Statistic = Callable[
    [ConstrainedPath, float], float
]  # increases from 0 at the estimate to either side; inf out of reach


@one_blas_thread()
def end(
    path: ConstrainedPath,
    statistic: Statistic,
    z: float,
    side: int,
    unit: float,
    *,
    runaway: bool = False,
) -> float:
    """Return the nearest psi on this side (-1 or 1) of the estimate at which the
    statistic reaches z; infinite if it never does.

    `unit` is the first distance of the search, a standard error if there is one. A
    divergent estimate is arbitrarily far out, so the search then starts from 0.
    """
    from scipy.optimize import brentq

    centre = inner = path.best
    if runaway and side * centre < 0:
        centre = 0.0
        inner = _inside(path, statistic, z, side, unit)
    if centre != inner:
        outer = centre
    else:
        outer = centre + side * unit * z
    reach = _GROW * unit * z
    seen: dict[float, float] = {}

    def excess(
        psi: float,
    ) -> float:  # cached, because from other neighbours its sign may change by rounding
        if psi not in seen:
            seen[psi] = (
                min(statistic(path, psi), 1e3 * z) - z
            )  # out of reach is beyond the end
        return seen[psi]

    while excess(outer) < 0:
        inner = outer
        outer = centre + side * reach
        reach = _GROW * reach
        if reach > _FAR * unit:
            return side * np.inf

    # statistic(psi) = z has a root between inner, which is not rejected, and outer,
    # which is.
    try:
        return float(
            brentq(excess, inner, outer, xtol=1e-11 * abs(outer - inner), rtol=1e-14)
        )
    except RuntimeError:
        raise NotConverged(
            "the end of an interval was not found: state columns in units of similar size"
        ) from None


def _inside(
    path: ConstrainedPath, statistic: Statistic, z: float, side: int, unit: float
) -> float:
    """Return the point nearest to 0, towards an estimate at infinity, that the
    statistic does not reject; further out rounding dominates."""
    reach = unit * z
    while statistic(path, -side * reach) >= z and reach < abs(path.best):
        reach *= _GROW
    return -side * reach
