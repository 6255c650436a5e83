"""The likelihood of scales by Laplace's method, maximised over flat coefficients:
f(theta, log a, b), with b and a not integrated.

With x the coefficients beta_I of informative priors, which are integrated, and l = log
p(y | x, b, a) + log p(x | theta),

    f = max_x l + (q/2) log 2 pi - log |H_xx| / 2,
    d f / d b = d l / d b - g'(d (x, b, a) / d b),   g = grad log |H_xx|^(1/2),   d x / d b = -H_xx^-1 H_xb

which is the likelihood that lme4 maximises for generalised models (Bates et al. 2015).
Its Hessian keeps H_xx fixed, and only guides the search.
"""

import numpy as np
from scipy.linalg import solve_triangular

from probreg.errors import Incompatible
from probreg.inference.base import Array, Status
from probreg.inference.exact.laplace_surface import LaplaceMode, LaplaceSurface
from probreg.inference.modes.maximise import maximise, newton_step
from probreg.linalg.vec import vec_entries
from probreg.model.model import LocalModel

_LOG_2PI = float(np.log(2.0 * np.pi))
_STEPS = 100
_TOL = 1e-6  # in standard errors, before the last step squares it


class ProfiledSurface(LaplaceSurface):
    """f(logs of the hyperparameters, logs of nuisance parameters, flat coefficients)."""

    _warm: Array | None = None

    @property
    def _flat(self) -> Array:
        """The positions of flat coefficients in vec beta."""
        return vec_entries(
            np.flatnonzero(~self.model.joint.informative), self.model.shape[1]
        )

    @property
    def _inside(self) -> Array:
        """The positions of integrated coefficients in vec beta."""
        return np.setdiff1d(
            np.arange(self.model.shape[0] * self.model.shape[1]), self._flat
        )

    @property
    def _given(self) -> Array:
        return np.append(super()._given, self._flat)

    def mode(self, theta: Array, tol: float = 0.0) -> LaplaceMode:
        """The mode by Newton's method with step halving over the integrated
        coefficients."""
        if self._last is not None and np.array_equal(self._last.theta, theta):
            return self._last
        d = len(self.groups.priors) + len(self.outer)
        model = self.model_at(theta[:d])
        inside = self._inside
        if self._warm is None:
            point = np.zeros(model.shape[0] * model.shape[1])
        else:
            point = self._warm.copy()
        point[self._flat] = theta[d:]

        def local_at(x: Array) -> LocalModel:
            point[inside] = x
            return model.value_grad_hessian(point.reshape(model.shape))

        def evaluate(x: Array) -> LocalModel:
            value, gradient, curvature = local_at(x)
            return LocalModel(
                value, gradient[inside], curvature[np.ix_(inside, inside)]
            )

        start = point[inside]
        top = maximise(
            evaluate, newton_step, start, evaluate(start), tol=_TOL, max_steps=_STEPS
        )
        if top.status is not Status.CONVERGED:
            raise Incompatible(
                f"evidence: no mode of the integrated coefficients at scales {np.exp(theta[:d])}"
            )
        local = local_at(top.x)
        self._warm = point
        log_det = np.linalg.slogdet(top.point.curvature)[1]
        value = local.value + 0.5 * (len(inside) * _LOG_2PI - log_det)
        beta = point.reshape(model.shape)
        self._last = LaplaceMode(theta, tol, model, beta, beta, {}, local, float(value))
        return self._last

    def root(self, mode: LaplaceMode) -> Array:
        """(p m, q), root root' = H_xx^-1, with zeros for coefficients that are
        given."""
        inside = self._inside
        root = np.zeros((len(mode.local.curvature), len(inside)))
        lower = np.linalg.cholesky(mode.local.curvature[np.ix_(inside, inside)])
        root[inside] = solve_triangular(lower, np.eye(len(inside)), lower=True).T
        return root

    def starts(self) -> list[Array]:
        """The starts of the integrated likelihood, with the joint mode there."""
        integrated = LaplaceSurface(self.model, self.groups, self._prior_at)
        points = []
        for theta in integrated.starts():
            self._warm = integrated.mode(theta).beta.ravel()
            points.append(np.concatenate([theta, self._warm[self._flat]]))
        return points
