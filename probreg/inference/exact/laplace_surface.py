"""The log evidence of a model with a smooth likelihood by Laplace's method: a normal at
the mode of the integrated parameters.

f(theta) = log p(y, mode | theta) + (k/2) log 2 pi - log |H| / 2, H the curvature at the
mode. The gradient includes the change of H with the
mode: with P the precision of the prior, d mode / d theta = -H^-1 (dP / d theta) (mode - mu), and g = grad log |H|^(1/2) over (vec beta,
log aux),

    d f / d s_i = alpha_i (H^-1)_ii + alpha_i m_i^2 - 1 - 2 g'H^-1 C_i alpha_i m_i,   alpha_i = D_ii^-2, m = gamma at the mode

(Tierney & Kadane 1986; Wood 2011). Along an outer coordinate o, such as the log of a nuisance parameter, with l the log density of rows
and coefficients, d f / d o = d l / d o - g'(d (mode, o) / d o) and d mode / d o = -H^-1
H_o. The Hessian keeps H fixed, and only guides the search.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Block
from probreg.data.rows import times_weights
from probreg.inference.base import Array, Status
from probreg.inference.covariance import root_of_curvature
from probreg.inference.exact.gaussian_surface import log_scale_derivatives
from probreg.inference.exact.latent_groups import (
    ConditionalNormal,
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    NoMode,
    log_prior_of_logs,
    with_priors,
)
from probreg.inference.modes.newton import find_mode, rough_log_aux, sample_of_rows
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg.vec import map_of_columns, with_aux
from probreg.model.model import LocalModel, Model
from probreg.priors import AuxPrior, Flat, GaussianPrior, Prior, SmoothPrior, WholePrior

_LOG_2PI = float(np.log(2.0 * np.pi))
_KEPT = 10**7  # numbers, 80 MB, of curvatures in the cache of modes
_TOL = 1e-10  # of a mode, in standard errors over the square root of the rows: log |H| is of first order in its error
_ROUGH = 1e-7  # tolerance of modes for weights only, from so many rows on
_MANY = 20_000
_NEAR = 1e-4  # step of differences of a row's curvature, in eta and log aux


class LaplaceMode(NamedTuple):
    """The mode at theta of the integrated parameters."""

    theta: Array
    tol: float
    model: Model  # at theta: its unknown nuisance parameters are integrated
    gamma: Array  # of standardised columns
    beta: Array
    aux: Mapping[str, float]  # integrated ones
    local: LocalModel  # over (vec gamma, log aux)
    evidence: float


class LaplaceSurface(EvidenceSurface):
    """f(logs of the hyperparameters and of outer nuisance parameters) by a normal at the mode over (beta, other log aux)."""

    tol = 1e-4
    dear = True

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        prior_at: Callable[[Array], Any],
        outer: tuple[str, ...] | None = None,
    ) -> None:
        self.model, self.groups, self._prior_at = model, groups, prior_at
        self._outer = model.unknown if outer is None else outer
        (_, m), start = model.shape, 0
        self._repeats = groups.repeats(m)
        self._roots = np.zeros((model.shape[0] * m, int(self._repeats.sum())))
        self._centre = np.zeros(model.shape)
        for g in groups.groups:
            index = g.entries(m)
            self._roots[index, start : start + len(index)] = map_of_columns(
                g.root, g.width(m)
            )
            self._centre.ravel()[index] = np.repeat(
                g.base.center(len(g.columns)), g.width(m)
            )
            start += len(index)
        self._last: LaplaceMode | None = None
        self._kept: dict[bytes, LaplaceMode] = {}

    @property
    def outer(self) -> tuple[str, ...]:
        return self._outer

    def __call__(self, theta: Array) -> EvidencePoint:
        mode = self.mode(theta)
        return with_priors(self._point(mode), theta, self.priors)

    def _point(self, mode: LaplaceMode) -> EvidencePoint:
        """The evidence with its slopes over theta, without the priors of theta."""
        d = len(self.groups.priors)
        k = mode.beta.size
        beta = mode.beta
        # over (vec beta, log of all unknown nuisance parameters), with zeros for
        # parameters that are not integrated
        integrated = self.root(mode)
        root = np.zeros((k + len(self.model.unknown), integrated.shape[1]))
        root[:k] = integrated[:k]
        inner = [k + self.model.unknown.index(name) for name in mode.aux]
        root[inner] = integrated[k:]
        aux = {
            name: mode.aux[name] if name in mode.aux else mode.model.fixed[name]
            for name in self.model.unknown
        }
        # a group in several predictors has independent copies with the same scales
        s, J, curvature = (
            np.repeat(part, self._repeats, axis=0)
            for part in self.groups.log_scales(mode.theta[:d])
        )
        D = np.exp(s)
        # u = D^-1 gamma with gamma = C'(vec beta - mu), C = _roots: its covariance and its mode
        half = self._roots.T @ root[:k] / D[:, None]
        S = half @ half.T
        u = self._roots.T @ (beta - self._centre).ravel() / D
        derivatives = log_scale_derivatives(S, u, S, 0.0, 0.0)
        gradient, hessian = derivatives.through(J, curvature, None)
        # d mode / d theta = 2 H^-1 C (D^-1 u * ds / d theta), which also changes log
        # |H|^(1/2)
        moves = root @ (root[:k].T @ (self._roots @ (2.0 * (u / D)[:, None] * J)))
        model = replace(mode.model, aux=self.model.aux)
        log_det = log_det_gradient(model, beta, aux, root)
        trace = np.bincount(
            np.repeat(self.groups.of, self._repeats), 1.0 - derivatives.diagonal
        )
        gradient = gradient - log_det @ moves
        outer_entries = self._given
        if len(outer_entries):
            local = model.value_grad_hessian(beta, **aux)
            # the derivative of the mode over the outer parameters
            follow = -root @ (root.T @ local.curvature[:, outer_entries])
            follow[outer_entries] += np.eye(len(outer_entries))
            slope = local.gradient[outer_entries]
            # `with_priors` adds the priors of nuisance parameters
            slope[: len(self.outer)] -= [
                model.aux_prior(name).slopes(aux[name])[0] for name in self.outer
            ]
            gradient = np.append(gradient, slope - log_det @ follow)
            # the curvature of max_x l over the outer parameters, H_bb - H_bx H_xx^-1
            # H_xb
            cross = -local.curvature[outer_entries] @ moves
            hessian = np.block(
                [[hessian, cross.T], [cross, -local.curvature[outer_entries] @ follow]]
            )
        return EvidencePoint(
            mode.evidence, gradient, hessian, mode.evidence, trace[self.groups.group_of]
        )

    @property
    def _given(self) -> Array:
        """The positions in (vec beta, log of all unknown nuisance parameters) of theta
        after the hyperparameters."""
        names = self.model.unknown
        return np.array(
            [
                self.model.shape[0] * self.model.shape[1] + names.index(a)
                for a in self.outer
            ],
            dtype=np.intp,
        )

    def root(self, mode: LaplaceMode) -> Array:
        """root root' = H^-1 over (vec beta, log aux) of the raw columns."""
        root = root_of_curvature(mode.local.curvature)
        if root is None:
            raise NoMode(
                "the evidence needs a mode for its approximation, and the posterior is flat in a direction there. Fix nuisance "
                "parameters, or give them and the scales proper priors"
            )
        return np.asarray(
            with_aux(
                map_of_columns(mode.model.design.frame.T, mode.model.shape[1]),
                len(mode.aux),
            )
            @ root
        )

    def mode(self, theta: Array, tol: float = _TOL) -> LaplaceMode:
        """The mode by Newton's method, from the cached mode nearest to theta."""
        cached = self._kept.get(theta.tobytes())
        if cached is not None and cached.tol <= tol:
            return cached
        model = self.model_at(theta)
        start, curvature = self._warm_start(theta)
        mode = find_mode(model, tol=tol, start=start, curvature=curvature)
        if mode.status is not Status.CONVERGED:
            raise NoMode(
                f"the evidence has no mode to be approximated about at scales {np.exp(theta)}: {mode.status.value}"
            )
        basis = model.design.frame
        local = mode.local
        beta = basis.T @ mode.gamma
        aux = dict(zip(model.unknown, np.exp(mode.log_aux).tolist()))
        # Laplace: log p(y | tau) = log p(y, mode) + (d/2) log 2 pi - log |H| / 2, plus
        # the log of |T|^m for beta = T gamma.
        shift = model.shape[1] * np.linalg.slogdet(basis.T)[1]
        log_det = np.linalg.slogdet(local.curvature)[1]
        evidence = (
            local.value + shift + 0.5 * (len(local.curvature) * _LOG_2PI - log_det)
        )
        result = self._last = LaplaceMode(
            theta, tol, model, mode.gamma, beta, aux, local, evidence
        )
        if (len(self._kept) + 1) * local.curvature.size <= _KEPT:
            self._kept[theta.tobytes()] = result
        return result

    def model_at(self, theta: Array) -> Model:
        """The model with the plain priors and the outer nuisance parameters at theta."""
        d = len(self.groups.priors)
        held = dict(zip(self.outer, np.exp(theta[d:]).tolist()))
        return self.model.with_prior(self._prior_at(np.exp(theta[:d]))).with_aux(**held)

    def _warm_start(
        self, theta: Array
    ) -> tuple[tuple[tuple[float, ...], ...] | None, Array | None]:
        """Return a warm start from the cached mode nearest to theta and its Hessian, or
        None."""
        cached = [*self._kept.values(), *([] if self._last is None else [self._last])]
        if not cached:
            return None, None
        nearest = min(
            cached, key=lambda mode: float(np.square(mode.theta - theta).sum())
        )
        if nearest.aux:
            return tuple(map(tuple, nearest.beta.tolist())), None
        # J, the information of the rows, is nearly constant: mode - c = (J + P)^-1 (J +
        # P_0) (mode_0 - c), P_0 the precision at theta_0
        before = self._precision(nearest.theta)
        T = nearest.model.design.frame.T
        H = nearest.local.curvature - before + (after := self._precision(theta))
        difference = nearest.gamma - np.linalg.solve(T, self._centre)
        gamma = nearest.gamma - np.linalg.solve(
            H, (after - before) @ difference.ravel()
        ).reshape(nearest.gamma.shape)
        return tuple(map(tuple, (T @ gamma).tolist())), H

    def _precision(self, theta: Array) -> Array:
        """C D^-2 C' over gamma: the precision of the priors of the groups on standardised columns."""
        m = self.model.shape[1]
        d = len(self.groups.priors)
        D = np.exp(np.repeat(self.groups.values(theta[None, :d])[0], self._repeats))
        half = map_of_columns(self.model.design.frame.T, m).T @ self._roots / D
        return np.asarray(half @ half.T)

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        tol = _ROUGH if self.many_rows else _TOL
        return np.array(
            [self.mode(t, tol).evidence for t in theta]
        ) + log_prior_of_logs(theta, self.priors)

    @property
    def many_rows(self) -> bool:
        """Whether a pass over the rows takes longer than the work on its sums."""
        return self.model.design.count >= _MANY

    def shift(self, theta: Array) -> Array:
        """root' grad log |H|^(1/2) (r,): the first-order difference of mode and mean,
        in standard deviations (Tierney & Kadane 1986)."""
        mode = self.mode(theta)
        root = self.root(mode)
        return np.asarray(
            root.T @ log_det_gradient(mode.model, mode.beta, mode.aux, root)
        )

    def conditional(
        self, theta: Array, shift: Array | None = None
    ) -> ConditionalNormal:
        """Return N(mode - H^-1 grad log |H|^(1/2), H^-1) of (vec beta, log aux).

        With a known `shift` in standard deviations, return N(mode - H^-1/2 shift, H^-1)
        about a mode accurate enough for weights.
        """
        mode = self.mode(theta, _TOL if shift is None else _ROUGH)
        root = self.root(mode)
        centre = np.concatenate([mode.beta.ravel(), np.log(list(mode.aux.values()))])
        return ConditionalNormal(
            centre - root @ (self.shift(theta) if shift is None else shift), root
        )

    def starts(self) -> list[Array]:
        """The best of a few common scales around the balance of prior and data, at each
        start of the other hyperparameters."""
        model, (p, m) = self.model, self.model.shape
        J = replace(model, prior=Flat()).information(
            np.zeros((p, m)), **dict.fromkeys(model.unknown, 1.0)
        )
        log_aux = [
            dict(zip(model.unknown, rough_log_aux(model)))[name] for name in self.outer
        ]
        index = (self._roots != 0).any(1)
        L = np.linalg.inv(self._roots[index])
        points = []
        for other_hyper in self.groups.starts():
            # Where tau^-2 is the mean of the diagonal of D L^-1 J L'^-1 D, J the information of the rows at beta = 0.
            half = (
                np.repeat(
                    np.exp(self.groups.log_scales(other_hyper).value), self._repeats
                )[:, None]
                * L
            )
            typical = (
                float(np.trace(half @ J[np.ix_(index, index)] @ half.T)) / len(L) or 1.0
            )
            points += [
                np.append(
                    self.groups.at_scales(other_hyper, -0.5 * np.log(typical * r), 0.0),
                    log_aux,
                )
                for r in (10.0, 1.0, 0.1, 0.01, 0.001)
            ]
        sample = sample_of_rows(model)
        sampled = self
        if sample is not None:
            sampled = LaplaceSurface(
                replace(model, design=sample), self.groups, self._prior_at, self.outer
            )
        return [points[int(np.argmax(sampled.values(np.array(points))))]]


def log_det_gradient(
    model: Model, beta: Array, aux: Mapping[str, float], root: Array
) -> Array:
    """Return grad log |H|^(1/2) over (vec beta, log aux), with root root' = H^-1.

    With z_i = (eta_i, log aux), W_i the curvature of row i over z_i and V_i = J_i H^-1 J_i' the covariance of z_i, it is
    sum_i J_i' t_i, t_ik = tr(V_i d W_i / d z_ik) / 2, of the rows. Independent entries of the priors, with curvature c_j, add
    (H^-1)_jj d c_j / 2; a normal prior has a constant one.
    """
    parts = model.design.fold(
        partial(_log_det_sums, model=model, beta=beta, aux=aux, root=root)
    )
    gradient = np.concatenate([np.ravel(part) for part in parts])
    m, k = beta.shape[1], beta.size
    blocks = [(b.prior, b.take(beta), b.entries(m)) for b in model.joint.blocks]
    logs = [
        (model.aux_prior(name), value, k + i)
        for i, (name, value) in enumerate(aux.items())
    ]
    return gradient + prior_log_det_slopes(np.square(root).sum(1), blocks, logs)


def prior_log_det_slopes(
    S: Array,
    blocks: Iterable[tuple[Prior, Array, Array]],
    aux: Iterable[tuple[AuxPrior, float, int]],
) -> Array:
    """Return the part of grad log |H|^(1/2) from the priors, (H^-1)_jj d c_j / 2 with
    c_j the curvature of an entry and S the diagonal of H^-1.

    `blocks` has priors with their coefficients (q, m) and entries, `aux` priors of
    nuisance parameters with their values and entries.
    """
    slopes = np.zeros(len(S))
    for prior, x, entries in blocks:
        if isinstance(prior, SmoothPrior) and not isinstance(
            prior, GaussianPrior | Flat | WholePrior
        ):
            h = _NEAR * np.sqrt(S[entries]).reshape(x.shape)
            change = prior.slopes(x - h)[1] - prior.slopes(x + h)[1]
            slopes[entries] = S[entries] * (change / (4 * h)).ravel()
    for aux_prior, value, k in aux:
        up, down = (
            -aux_prior.slopes(value * float(np.exp(step)))[1]
            for step in (_NEAR, -_NEAR)
        )
        slopes[k] = S[k] * (up - down) / (4 * _NEAR)
    return slopes


def _log_det_sums(
    block: Block, *, model: Model, beta: Array, aux: Mapping[str, float], root: Array
) -> tuple[Array, ...]:
    (p, m), likelihood = beta.shape, model.likelihood
    assert isinstance(likelihood, SmoothLikelihood)
    pick = [*range(m), *(m + likelihood.aux.index(name) for name in aux)]

    def curvature(y: Array, eta: Array, precision: Array | None, z: Array) -> Array:
        """W (n, m + a, m + a) at (eta, log aux) plus z (m + a,)."""
        aux_moved = {
            name: v * float(np.exp(h)) for (name, v), h in zip(aux.items(), z[m:])
        }
        values = likelihood.at_rows({**model.fixed, **aux_moved}, precision)
        return likelihood.value_grad_hessian(y, eta + z[:m], **values).curvature[
            :, pick
        ][:, :, pick]

    def part(block_part: Block) -> tuple[Array, Array]:
        eta = block_part.eta(beta)
        # J_i root, J_i = d z_i / d (vec beta, log aux): (n, m + a, r).
        of_eta = (block_part.X @ root[: p * m].reshape(p, -1)).reshape(len(eta), m, -1)
        J = np.concatenate(
            [
                of_eta,
                np.broadcast_to(root[p * m :], (len(eta), len(aux), root.shape[1])),
            ],
            1,
        )
        V = J @ J.transpose(0, 2, 1)
        t = np.empty((len(eta), m + len(aux)))
        for k, e in enumerate(_NEAR * np.eye(m + len(aux))):
            # d W_i / d z_ik by a central difference
            slope = curvature(block_part.y, eta, block_part.precision, e) - curvature(
                block_part.y, eta, block_part.precision, -e
            )
            t[:, k] = np.einsum("njl,njl->n", V, slope) / (4 * _NEAR)
        t = times_weights(t, block_part.weights)
        return block_part.X.T @ t[:, :m], t[:, m:].sum(0)

    return block.sweep(part, width=root.shape[1] * (m + len(aux)))
