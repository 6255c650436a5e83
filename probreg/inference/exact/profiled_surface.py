"""The likelihood of scales by Laplace's method with flat coefficients at their maximum: f(theta, b, log a), b and a not integrated.

With x the coefficients beta_I of informative priors, which are integrated, and l = log p(y | x, b, a) + log p(x | theta) + log p(a),

    f = max_x l + (q/2) log 2 pi - log |H_xx| / 2,
    d f / d b = d l / d b - g'(d (x, b, a) / d b),   g = grad log |H_xx|^(1/2),   d x / d b = -H_xx^-1 H_xb

which is the likelihood that lme4 maximises for generalised models (Bates et al. 2015). Its Hessian holds H_xx, and steers only.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from probreg.errors import Incompatible
from probreg.inference.base import Array
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import EvidencePoint, log_prior_of_logs, with_priors
from probreg.model.model import LocalModel, Model
from probreg.numerics.frame import vec_entries
from probreg.numerics.halving import halvings

_LOG_2PI = float(np.log(2.0 * np.pi))
_STEPS = 100
_TOL = 1e-20  # of the squared decrement, in standard errors


class ProfiledMode(NamedTuple):
    """The mode of the integrated coefficients where the others are given."""

    model: Model
    point: Array  # (p m + a,) vec beta and log aux
    local: LocalModel  # over the same, raw columns
    root: Array  # (p m + a, q), root root' = H_xx^-1, with zeros for what is given
    value: float


class ProfiledSurface(LaplaceSurface):
    """f(logs of the hyperparameters, flat coefficients, logs of nuisance parameters)."""

    @property
    def _given(self) -> Array:
        """The places of flat coefficients and of log aux in (vec beta, log aux)."""
        (p, m), a = self.model.shape, len(self.model.unknown)
        flat = vec_entries(np.flatnonzero(~self.model.joint.informative), m)
        return np.r_[flat, p * m + np.arange(a)]

    def mode(self, theta: Array) -> ProfiledMode:
        """By Newton's method over the integrated coefficients, made to rise."""
        d, given = len(self.groups.priors), self._given
        model = self.model.with_prior(self._prior_at(np.exp(theta[:d])))
        k = model.shape[0] * model.shape[1] + len(model.unknown)
        inside = np.setdiff1d(np.arange(k), given)
        point = np.zeros(k) if self._warm is None else self._warm.copy()
        point[given] = theta[d:]
        at = self._local(model, point)
        for _ in range(_STEPS):
            factor = cho_factor(at.curvature[np.ix_(inside, inside)])
            step = cho_solve(factor, at.gradient[inside])
            if float(at.gradient[inside] @ step) < _TOL:
                break
            point, at = self._rise(model, point, inside, step, at)
        else:
            raise Incompatible(f"evidence: no mode of the integrated coefficients at scales {np.exp(theta[:d])}")
        self._warm = point
        root = np.zeros((k, len(inside)))
        lower = np.linalg.cholesky(at.curvature[np.ix_(inside, inside)])
        root[inside] = solve_triangular(lower, np.eye(len(inside)), lower=True).T
        log_det = 2.0 * float(np.log(np.diagonal(lower)).sum())
        return ProfiledMode(model, point, at, root, at.value + 0.5 * (len(inside) * _LOG_2PI - log_det))

    _warm: Array | None = None

    def _local(self, model: Model, point: Array) -> LocalModel:
        k = model.shape[0] * model.shape[1]
        return model.value_grad_hessian(point[:k].reshape(model.shape), **dict(zip(model.unknown, np.exp(point[k:]))))

    def _rise(self, model: Model, point: Array, inside: Array, step: Array, at: LocalModel) -> tuple[Array, LocalModel]:
        for t in halvings(point, step):
            new = point.copy()
            new[inside] += t * step
            there = self._local(model, new)
            if np.isfinite(there.value) and there.value >= at.value - 1e-13 * abs(at.value):
                return new, there
        return point, at

    def __call__(self, theta: Array) -> EvidencePoint:
        at, given, d = self.mode(theta), self._given, len(self.groups.priors)
        k = self.model.shape[0] * self.model.shape[1]
        beta, aux = at.point[:k].reshape(self.model.shape), dict(zip(self.model.unknown, np.exp(at.point[k:])))
        over = self._slopes(theta[:d], at.model, beta, aux, at.root)
        gradient, hessian = np.zeros(len(theta)), np.zeros((len(theta),) * 2)
        gradient[:d], hessian[:d, :d] = over.gradient, over.hessian
        # how the mode moves with what is given
        follow = -at.root @ (at.root.T @ at.local.curvature[:, given])
        follow[given] = np.eye(len(given))
        gradient[d:] = at.local.gradient[given] - over.log_det @ follow
        # the curvature of max_x l over what is given: H_bb - H_bx H_xx^-1 H_xb
        hessian[d:, d:] = -(at.local.curvature[given] @ follow)
        hessian[d:, :d] = -at.local.curvature[given] @ over.moves
        hessian[:d, d:] = hessian[d:, :d].T
        point = EvidencePoint(at.value, gradient[:d], hessian[:d, :d], at.value, over.effective)
        point = with_priors(point, theta[:d], self.priors)
        gradient[:d], hessian[:d, :d] = point.gradient, point.hessian
        return point._replace(gradient=gradient, hessian=hessian)

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta, as of `__call__`."""
        d = len(self.groups.priors)
        return np.array([self.mode(t).value for t in theta]) + log_prior_of_logs(theta[:, :d], self.priors)

    def starts(self) -> list[Array]:
        """Those of the integrated likelihood, with the joint mode there."""
        out = []
        for theta in LaplaceSurface(self.model, self.groups, self._prior_at).starts():
            at = self._mode(theta)
            point = np.concatenate([at.beta.ravel(), np.log(list(at.aux.values()))])
            self._warm = point
            out.append(np.concatenate([theta, point[self._given]]))
        return out
