"""The part of a prior with kinks, and the search for a mode under it: its coordinates,
its start, and its steps.

Blocks of `ProximalPrior` are separated from the smooth ones: the smooth part is a separate
model, with gradient and curvature. The kinked part is a `KinkedPenalty`. Each step minimises the quadratic expansion of the smooth part plus the prior itself (Lee, Sun & Saunders 2014), on centred
and scaled columns and on log aux. Coefficients in units of an unknown sigma are
searched as phi, with beta = location + sigma (phi - location): their prior then depends
on sigma only by -q m log sigma, and stays separable.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Frame
from probreg.errors import DataError
from probreg.inference.base import Array, Status, estimated_aux
from probreg.inference.modes.newton import (
    check_start,
    find_mode,
    rough_start,
)
from probreg.inference.modes.separation import frame_with_shifts
from probreg.inference.penalized.penalty import KinkedPenalty, minimise
from probreg.linalg import one_blas_thread, unit_diagonal, weighted_gram
from probreg.linalg.halving import halvings
from probreg.linalg.vec import between_outcomes, map_of_columns
from probreg.model.model import Model
from probreg.priors import ExponentialPower, Flat, Normal, ProximalPrior
from probreg.priors.joint import PENALTY_OF_CLASSES, BlockPrior, JointPrior, mapping_of


def no_errors(model: Model) -> str:
    """Return why a mode under a prior with kinks has no standard errors, and which
    method gives a spread."""
    if model.joint.contrast is not None:
        return f"a mode under a prior with kinks has no standard errors, and {PENALTY_OF_CLASSES}"
    return "a mode under a prior with kinks has no standard errors: nuts samples the posterior and gives its spread"


def has_nonsmooth_terms(model: Model) -> bool:
    """Whether some block of the prior is not twice differentiable."""
    return any(isinstance(b.prior, ProximalPrior) for b in model.joint.blocks)


@dataclass(frozen=True, eq=False)
class NonsmoothTerms:
    """-log p of the kinked blocks as a function of phi (p, m), up to a constant: `penalty` of each of its m columns.

    phi is beta, except in the columns marked `in_sigma_units`, in units of sigma: beta =
    location + sigma (phi - location). For K classes with a common contrast C, phi (p,
    K) are their scores, with beta = phi C.
    """

    penalty: KinkedPenalty  # over p columns
    shape: tuple[int, int]
    kinked: Array  # (p,) bool: columns with kinks in their prior
    in_sigma_units: Array  # (p,) bool: in units of an unknown sigma
    convex: bool
    joint: JointPrior

    @classmethod
    def of(cls, model: Model) -> "NonsmoothTerms":
        p = model.shape[0]
        penalty = KinkedPenalty.zero(p)
        kinked = np.zeros(p, bool)
        in_sigma_units = np.zeros(p, bool)
        priors = []
        for b in model.joint.blocks:
            if not isinstance(b.prior, ProximalPrior):
                continue
            prior: Any = b.prior
            columns = np.array(b.columns)
            kinks = prior.kinks(len(columns))
            unit = prior.unit(model.noise())
            penalty.metric[columns] = kinks.metric / unit
            penalty.exponent[columns] = kinks.exponent
            penalty.ridge[columns] = kinks.ridge / unit**2
            penalty.center[columns] = prior.location
            for g in kinks.groups:
                penalty.label[columns[g]] = columns[g[0]]
            kinked[columns] = True
            in_sigma_units[columns] = prior.sigma_units and model.noise_unknown
            priors.append(prior)
        contrast = model.joint.contrast
        m = model.shape[1] if contrast is None else len(contrast)
        convex = all(prior.convex for prior in priors)
        return cls(penalty, (p, m), kinked, in_sigma_units, convex, model.joint)

    @property
    def contrast(self) -> Array | None:
        """(K, m), if the prior covers the coefficients of all K classes."""
        return self.joint.contrast

    def phi(self, beta: Array, sigma: float) -> Array:
        """(p, m), beta except in the columns marked `in_sigma_units`; the scores (p, K) for
        classes."""
        if self.contrast is not None:
            return self.joint.scores(beta)
        # beta = b + sigma (phi - b)
        center = self.penalty.center[:, None]
        return np.where(
            self.in_sigma_units[:, None], center + (beta - center) / sigma, beta
        )

    def beta(self, phi: Array) -> Array:
        """(p, m) from the scores of classes, with any common shift; otherwise phi
        itself."""
        # the columns of C are orthonormal and sum to zero
        if self.contrast is None:
            return phi
        return phi @ self.contrast

    def between_scores(self, M: Array) -> Array:
        """For classes, convert a matrix over vec(beta) to one over vec(phi)."""
        if self.contrast is None:
            return M
        return between_outcomes(M, self.contrast)

    def at(self, phi: Array) -> Array:
        """(p, m) bool: entries at the center of a prior that is not twice
        differentiable there."""
        return (
            self.penalty.repeated(phi.shape[1]).at_kink(phi.ravel()).reshape(phi.shape)
        )


def smooth_part(model: Model) -> Model:
    """Return the model with the smooth blocks only; the other columns have flat
    priors."""
    # flat priors are explicit, because the columns of a smooth function have another
    # default
    smooth = [
        replace(b, prior=Flat()) if isinstance(b.prior, ProximalPrior) else b
        for b in model.joint.blocks
    ]
    return model.with_prior(mapping_of(smooth, model.design.columns))


class SearchPoint(NamedTuple):
    """The negative log posterior at x = (vec gamma, log aux): its smooth part with gradient and curvature."""

    x: Array
    smooth: float
    gradient: Array
    curvature: Array


@dataclass(frozen=True, eq=False)
class SearchCoordinates:
    """The coordinates of the search: beta = T (a + sigma^s (gamma - a)), with the kinks a, and s = 1 in columns in units of sigma.

    Under a penalty of all K classes they are the scores (p, K). The likelihood does not
    change if all classes of a column are shifted by the same number. This shift is 0 in
    columns without a kink, and the penalty determines it in the others.
    """

    model: Model

    @cached_property
    def nonsmooth(self) -> NonsmoothTerms:
        return NonsmoothTerms.of(self.model)

    @cached_property
    def smooth(self) -> Model:
        return smooth_part(self.model)

    @cached_property
    def basis(self) -> Frame:
        intercept = self.model.design.intercept
        absorbs = intercept is None or not self.nonsmooth.kinked[intercept]
        return frame_with_shifts(self.model, absorbs)

    @cached_property
    def penalty(self) -> KinkedPenalty:
        of_columns = self.nonsmooth.penalty.on_scaled(self.basis.scale)
        return of_columns.repeated(self.shape[1], extra=len(self.model.unknown))

    def units(self, x: Array) -> Array:
        """(p, 1), sigma^s."""
        s = self.nonsmooth.in_sigma_units
        units = np.ones((len(s), 1))
        if s.any():
            units[s] = np.exp(x[-1])
        return units

    def beta(self, x: Array) -> Array:
        """The coefficients on the raw columns; exactly at the kink if gamma is."""
        at_kink = (
            x[: self._k].reshape(self.shape) == self._center
        ) & self.nonsmooth.kinked[:, None]
        return self.nonsmooth.beta(
            np.where(
                at_kink,
                self.nonsmooth.penalty.center[:, None],
                self.basis.T @ self._kappa(x),
            )
        )

    def x(self, beta: Array, log_aux: Array) -> Array:
        x = np.r_[np.zeros(self._k), log_aux]
        if self.nonsmooth.contrast is None:
            phi = beta
        else:
            phi = self.nonsmooth.phi(beta, 1.0)
        x[: self._k] = (
            self._center + (self.basis.T_inverse @ phi - self._center) / self.units(x)
        ).ravel()
        return self._without_shift(x)

    def _without_shift(self, x: Array) -> Array:
        """Subtract the mean over the classes in columns without a kink."""
        if self.nonsmooth.contrast is None:
            return x
        scores = x.reshape(self.shape)
        return np.where(
            self.nonsmooth.kinked[:, None],
            scores,
            scores - scores.mean(1, keepdims=True),
        ).ravel()

    def _kappa(self, x: Array) -> Array:
        return self._center + self.units(x) * (
            x[: self._k].reshape(self.shape) - self._center
        )

    @cached_property
    def _center(self) -> Array:
        """(p, 1)"""
        return (self.nonsmooth.penalty.center * self.basis.scale)[:, None]

    @property
    def shape(self) -> tuple[int, int]:
        return self.nonsmooth.shape

    @property
    def _k(self) -> int:
        return self.shape[0] * self.shape[1]

    def aux(self, x: Array) -> dict[str, float]:
        return estimated_aux(self.model, x[self._k :])

    def at(self, x: Array) -> SearchPoint:
        """-log p at x without the kinked part, but including its -q m log sigma."""
        k, (_, m) = self._k, self.shape
        x = self._without_shift(x)
        # kappa = a + u (x - a), u = sigma^s: the coefficients on standardised columns;
        # f = -log p has g and H over them.
        units = self.units(x)
        kappa = self._kappa(x)
        # too long a step gives inf or nan, and is halved
        with np.errstate(all="ignore"):
            value, g, H = self._expansion(kappa, self.aux(x))
        value = -value
        g = -g
        H = H.copy()
        moving = self.nonsmooth.in_sigma_units
        if moving.any():
            # d kappa_j / d x_j = u_j, d kappa_j / d log sigma = s_j (kappa_j - a_j): the new gradient is J'g, the new
            # Hessian J'H J + sum_j g_j d^2 kappa_j, with d^2 kappa_j / d x_j d log sigma = s_j u_j and d^2 kappa_j / d
            # (log sigma)^2 = s_j (kappa_j - a_j). -log p(phi) gains log sigma for every entry in units of sigma.
            s = np.repeat(moving, m)
            u = np.repeat(units.ravel(), m)
            r = (kappa - self._center).ravel()
            J = np.eye(len(x))
            J[:k, :k] = np.diag(u)
            J[:k, -1] = np.where(s, r, 0.0)
            second = np.zeros_like(H)
            second[:k, -1] = second[-1, :k] = np.where(s, u * g[:k], 0.0)
            second[-1, -1] = (r * g[:k])[s].sum()
            H = J.T @ H @ J + second
            g = J.T @ g
            value, g[-1] = value + s.sum() * x[-1], g[-1] + s.sum()
        return SearchPoint(x, value, g, H)

    def _expansion(
        self, kappa: Array, aux: dict[str, float]
    ) -> tuple[float, Array, Array]:
        """The smooth part over kappa; over scores of classes with a curvature against the shift in
        columns without a kink, which keeps it at 0."""
        beta = self.nonsmooth.beta(kappa)
        local = self.smooth.in_frame(beta, self.basis, aux)
        C, (p, K) = self.nonsmooth.contrast, self.shape
        if C is None:
            return local
        H = self.nonsmooth.between_scores(local.curvature)
        mean_diagonal = np.diagonal(H).reshape(p, K).mean(1)
        blocks = H.reshape(p, K, p, K)  # a view
        for j in np.flatnonzero(~self.nonsmooth.kinked):
            blocks[j, :, j, :] += mean_diagonal[j] / K
        return local.value, (local.gradient.reshape(p, -1) @ C.T).ravel(), H

    def kkt(self, point: SearchPoint) -> float:
        """The distance of zero from the subdifferential, in conditional standard errors of each coordinate."""
        curvature = np.diagonal(point.curvature)
        return self.penalty.kkt(point.gradient, point.x, curvature)


class SearchResult(NamedTuple):
    """The end of the search."""

    at: SearchPoint
    kkt: float
    steps: int
    status: Status


def start_of(search: SearchCoordinates, start: Any) -> Array:
    """Return the start: the user's coefficients; for a cusp the mode under a normal
    prior of the same spread; else a penalised regression on a rough eta."""
    model = search.model
    if not model.design.has_rows:
        raise DataError(
            f"the mode needs sums over the rows, and {model.design.rows_needed}"
        )
    if start is not None:
        return search.x(check_start(model, start), rough_start(model).log_aux)
    if not search.nonsmooth.convex:
        smooth = with_normal_priors(model)
        mode = find_mode(smooth)
        return search.x(smooth.design.frame.T @ mode.gamma, mode.log_aux)
    return _rough_start(search)


def _rough_start(search: SearchCoordinates) -> Array:
    """Return the prior's centre, improved by one penalised regression on the
    likelihood's rough eta."""
    model = search.model
    design = model.design.sample
    target, weight, log_aux = rough_start(model)
    x = search.x(
        np.repeat(search.nonsmooth.penalty.center[:, None], model.shape[1], 1), log_aux
    )
    x[: search._k] = search.penalty.center[: search._k]
    if not target.any():
        return x
    U = search.basis.rows(design.X)
    k = search._k
    G = np.zeros((len(x), len(x)))
    c = np.zeros(len(x))
    # x = argmin x'G x / 2 - c'x + penalty(x): weighted least squares of the rough eta, with the kinked prior.
    G[:k, :k] = map_of_columns(weighted_gram(U, weight), model.shape[1])
    c[:k] = (U.T @ (weight[:, None] * target)).ravel()
    G[:k, :k] += 1e-8 * np.diag(np.diagonal(G)[:k])
    G[range(k, len(x)), range(k, len(x))], c[k:] = 1.0, x[k:]
    return minimise(G, c, search.penalty, x, tol=1e-3, rounds=5)[0]


def with_normal_priors(model: Model) -> Model:
    """Return the model with each kinked prior replaced by a normal one of its standard
    deviation.

    For an elastic net it is the standard deviation of the Laplace prior of its scale.
    """
    blocks = list[BlockPrior]()
    for b in model.joint.blocks:
        prior: Any = b.prior
        if isinstance(b.prior, ProximalPrior):
            spread = entry_sd(b.prior, len(b.columns))
            prior = Normal(
                prior.scales * spread,
                location=prior.location,
                sigma_units=prior.sigma_units,
            )
        if model.joint.informative[list(b.columns)].any():
            blocks.append(replace(b, prior=prior))
    return model.with_prior(mapping_of(blocks, model.design.columns))


def entry_sd(prior: ProximalPrior, q: int) -> Array:
    """Return the standard deviation (q,) of each entry in its scales; for an elastic
    net, of the Laplace prior of its scale."""
    from scipy.special import gammaln

    power = prior.q if isinstance(prior, ExponentialPower) else 1.0
    d = np.ones(q)
    for g in prior.kinks(q).groups:
        d[g] = len(g)
    # p(r) proportional to exp(-|r|^q) of d entries: E |r|^2 = Gamma((d + 2) / q) / Gamma(d / q).
    return np.exp(0.5 * (gammaln((d + 2.0) / power) - gammaln(d / power))) / np.sqrt(d)


@one_blas_thread()
def minimise_nonsmooth(
    search: SearchCoordinates, x: Array, *, tol: float, max_steps: int
) -> SearchResult:
    """Make proximal Newton steps, halved until the objective decreases, until the
    certificate is true."""
    point = search.at(x)
    for number in range(max_steps + 1):
        kkt = search.kkt(point)
        if kkt <= tol:
            return SearchResult(point, kkt, number, Status.CONVERGED)
        if number == max_steps:
            break
        H = _convexify(point.curvature)
        inner = max(0.1 * tol, min(0.1, kkt) * 0.01 * kkt)
        # aim = argmin g'(x - x_t) + (x - x_t)'H(x - x_t)/2 + penalty(x), that is x'H x/2 - (H x_t - g)'x + penalty(x)
        # (Lee, Sun & Saunders 2014).
        aim, _ = minimise(
            H, H @ point.x - point.gradient, search.penalty, point.x, tol=inner
        )
        next_point = _halve(search, point, aim - point.x)
        if next_point is None:
            return SearchResult(point, kkt, number, Status.SADDLE)
        point = next_point
    return SearchResult(point, kkt, max_steps, Status.STEP_LIMIT)


def _convexify(H: Array) -> Array:
    """Return H, or if it is not positive definite, H with the absolute values of its
    eigenvalues."""
    scaled, d = unit_diagonal(H)
    try:
        np.linalg.cholesky(scaled + 1e-12 * np.eye(len(H)))
        return H
    except np.linalg.LinAlgError:
        value, vector = np.linalg.eigh(scaled)
        value = np.maximum(np.abs(value), 1e-8 * max(float(np.abs(value).max()), 1.0))
        return (vector * value) @ vector.T * np.outer(d, d)


def _halve(
    search: SearchCoordinates, current: SearchPoint, step: Array
) -> SearchPoint | None:
    """Return the first of x + t step, t = 1, 1/2, ..., with a sufficient decrease of
    the objective, or None."""
    penalty = search.penalty
    value = search.penalty.value(current.x)
    # The decrease of the expansion is Delta = g'd + penalty(x + d) - penalty(x) < 0,
    # and the condition is f(x + t d) + penalty(x +
    # t d) <= f(x) + penalty(x) + 1e-4 t Delta.
    slope = float(current.gradient @ step) + penalty.value(current.x + step) - value
    noise = 1e-13 * (abs(current.smooth) + abs(value))
    if not slope < noise:
        return None
    for t in halvings(current.x, step):
        new = current.x + t * step
        stays = (current.x == penalty.center) & (step == 0.0)
        arrived = (t == 1.0) & (np.abs(new - penalty.center) <= 4e-16 * np.abs(step))
        new = np.where(stays | (arrived & penalty.has_kink), penalty.center, new)
        trial = search.at(new)
        total = trial.smooth + penalty.value(new)
        if (
            np.isfinite(total)
            and np.isfinite(trial.curvature).all()
            and total <= current.smooth + value + 1e-4 * t * slope + noise
        ):
            return trial
    return None
