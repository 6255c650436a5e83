"""The log posterior of a model with effects by group and unknown covariance, as
evaluated by the compiled sampler.

Coordinates are those of `reparameterisation` for the coefficients, then the logs of the
hyperparameters, then the nuisance parameters. A non-centred block has b_g = Lambda u_g
with u_g ~ N(0, I); a centred one is sampled directly. Both need only the root Lambda
(K, K) and its slopes, not a matrix of all effects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from probreg.inference.base import Array
from probreg.inference.sampling.log_density import Sum, rows_and_priors
from probreg.inference.sampling.reparameterisation import (
    Reparameterisation,
    reparameterise,
    rough_sigma,
    typical_scales,
)
from probreg.model.model import Model
from probreg.model.pymc_graph import hyper_names
from probreg.priors import LatentPrior

_ABOUT = 0.2  # a log: distance of chain starts from typical values of hyperparameters
_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class GroupBlock:
    """A block of effects by group, with the positions of its entries and
    hyperparameters."""

    prior: LatentPrior
    names: tuple[str, ...]  # reported names of its hyperparameters
    entries: Array  # (G K m,) of vec(beta)
    hyper: slice  # of the logs of all hyperparameters
    loose: bool
    predictors: int

    def root(self, logs: Array) -> tuple[Array, Array]:
        """Lambda (K, K) with its slopes (d, K, K), at the logs of all hyperparameters."""
        found = self.prior.root(logs[self.hyper])
        assert found is not None  # effects by group have one
        return found

    def by_groups(self, values: Array) -> Array:
        """(G, K, m) of the entries of a vector."""
        return values.reshape(-1, len(self.prior.effects), self.predictors)  # type: ignore[attr-defined]

    def centred(
        self, b: Array, root: Array, root_slopes: Array
    ) -> tuple[float, Array, Array]:
        """Return log p of effects (G, K, m) at a root, its slopes over them (G, K, m),
        and over the logs (d,)."""
        count = b.shape[0] * b.shape[2]
        flat = np.moveaxis(b, 1, 0).reshape(len(root), count)
        w = solve_triangular(root, flat, lower=True)
        pull = solve_triangular(root, w, lower=True, trans="T")
        # log p = - |w|^2 / 2 - G m log |Lambda|, w = Lambda^-1 b: d/db = - Lambda'^-1 w, d/dLambda = Lambda'^-1 (w w' - G m I)
        log_slopes = solve_triangular(
            root, w @ w.T - count * np.eye(len(root)), lower=True, trans="T"
        )
        value = (
            -0.5 * float((w * w).sum())
            - count * float(np.log(np.diagonal(root)).sum())
            - _HALF_LOG_2PI * b.size
        )
        slope = -np.moveaxis(pull.reshape(len(root), b.shape[0], b.shape[2]), 0, 1)
        return value, slope, np.einsum("dkl,kl->d", root_slopes, log_slopes)


@dataclass(frozen=True, eq=False)
class GroupDensity:
    """x -> log posterior of (beta, hyperparameters, aux) with its gradient, as a density of the coordinates."""

    model: Model
    at: Reparameterisation
    parts: tuple[
        Sum, ...
    ]  # likelihood, other priors, and priors of aux, over (vec beta, log aux)
    compiled: bool
    middle: Array  # (d,) logs of typical hyperparameters

    @classmethod
    def of(cls, model: Model) -> "GroupDensity":
        """Create the density in the coordinates of `reparameterise`."""
        typical = typical_scales(model)
        coordinates = reparameterise(model, typical)
        parts, rows = rows_and_priors(
            model, np.r_[coordinates.centre, np.zeros(len(model.unknown))]
        )
        logs = [np.log(v) for i in sorted(typical) for v in typical[i].hyper.values()]
        return cls(model, coordinates, tuple(parts), rows is not None, np.array(logs))

    @cached_property
    def blocks(self) -> tuple[GroupBlock, ...]:
        """Blocks with effects by group."""
        names = hyper_names(self.model.joint, self.model.design)
        blocks = list[GroupBlock]()
        first = 0
        loose = {b.block for b in self.at.loose}
        m = self.model.shape[1]
        for i, b in enumerate(self.model.joint.blocks):
            if isinstance(b.prior, LatentPrior):
                hyper = slice(first, first := first + len(b.prior.hyper))
                labels = tuple(names[i].values())
                blocks.append(
                    GroupBlock(
                        b.prior, labels, b.entries(m), hyper, i in loose, b.width(m)
                    )
                )
        return tuple(blocks)

    @cached_property
    def _outer(self) -> Array:
        """(n,) entries of loose blocks in order."""
        empty = [np.zeros(0, dtype=int)]
        return np.concatenate([*empty, *(b.entries for b in self.at.loose)])

    @cached_property
    def _others(self) -> Array:
        return np.setdiff1d(np.arange(len(self.at.centre)), self._outer)

    @cached_property
    def _inner_map(self) -> tuple[Array, Array]:
        """The columns of z for the other entries, and their rows of A; loose entries
        are coordinates themselves."""
        inside = self.at.A[self._others]
        used = np.flatnonzero(inside.any(0))
        return used, np.ascontiguousarray(inside[:, used])

    @cached_property
    def _loose_columns(self) -> Array:
        """The column of z of each loose entry."""
        if len(self._outer):
            return np.argmax(self.at.A[self._outer] != 0, axis=1)
        return np.zeros(0, dtype=int)

    @property
    def size(self) -> int:
        """The length of x."""
        return self.at.A.shape[1] + len(self.middle) + len(self.model.unknown)

    def start(self, rng: np.random.Generator) -> Array:
        """A random start near typical values."""
        x = np.concatenate(
            [
                rng.standard_normal(self.at.A.shape[1]),
                self.middle,
                np.zeros(len(self.model.unknown)),
            ]
        )
        if self.model.likelihood.least_squares and self.model.unknown:
            x[-1] = np.log(float(rough_sigma(self.model)))
        x[self.at.A.shape[1] :] += _ABOUT * rng.standard_normal(
            len(self.middle) + len(self.model.unknown)
        )
        return x

    def _beta(self, x: Array, roots: Mapping[int, Array]) -> Array:
        """vec(beta): loose effects are Lambda u, and the others follow by their
        regression on these."""
        beta, (used, A) = np.empty(len(self.at.centre)), self._inner_map
        beta[self._outer] = x[self._loose_columns]
        for k, b in enumerate(self.blocks):
            if b.loose:
                u = b.by_groups(beta[b.entries])
                beta[b.entries] = np.einsum("kl,glm->gkm", roots[k], u).ravel()
        following = self.at.centre[self._others] + A.dot(x[used])
        if len(self._outer):
            following = following + self.at.follow.dot(
                beta[self._outer] - self.at.centre[self._outer]
            )
        beta[self._others] = following
        return beta

    def _split(self, x: Array) -> tuple[Array, Array]:
        k = self.at.A.shape[1]
        return x[k : k + len(self.middle)], x[k + len(self.middle) :]

    def log_prob(self, x: Array) -> tuple[float, Array]:
        """The log density and its gradient."""
        model, (used, A) = self.model, self._inner_map
        logs, log_aux = self._split(x)
        rooted = [b.root(logs) for b in self.blocks]
        beta = self._beta(x, {k: root for k, (root, _) in enumerate(rooted)})
        count = len(beta)
        slopes = np.zeros(len(beta) + len(log_aux))
        aux = {**model.fixed, **dict(zip(model.unknown, np.exp(log_aux)))}
        value = sum(part(beta, aux, slopes) for part in self.parts)
        over_logs = np.zeros(len(logs))
        for b, (root, root_slopes) in zip(self.blocks, rooted):
            if not b.loose:
                log_p, slope, log_slopes = b.centred(
                    b.by_groups(beta[b.entries]), root, root_slopes
                )
                value, over_logs[b.hyper] = value + log_p, log_slopes
                slopes[b.entries] += slope.ravel()
            for h, (t, hyper) in enumerate(zip(logs[b.hyper], b.prior.hyper.values())):
                v = float(np.exp(t))
                value += float(hyper.prior.log_prob(np.asarray(v))) + t
                over_logs[b.hyper.start + h] += hyper.prior.slopes(v)[0]
        gradient = np.zeros(len(x))
        # beta_f = theta_f + follow (beta_n - centre_n): indirect slopes of the loose
        # entries
        gradient[used] = slopes[self._others].dot(A)
        if len(self._outer):
            slopes[self._outer] += slopes[self._others].dot(self.at.follow)
        gradient[self._loose_columns] = slopes[self._outer]
        place = dict(zip(self._outer.tolist(), self._loose_columns.tolist()))
        for b, (root, root_slopes) in zip(self.blocks, rooted):
            if b.loose:
                columns = [place[e] for e in b.entries.tolist()]
                u = b.by_groups(x[columns])
                s = b.by_groups(slopes[b.entries])
                # b = Lambda u: d/du = Lambda's - u, d/dLambda = sum_g s_g u_g'
                gradient[columns] = (np.einsum("kl,gkm->glm", root, s) - u).ravel()
                over_logs[b.hyper] += np.einsum(
                    "dkl,kl->d", root_slopes, np.einsum("gkm,glm->kl", s, u)
                )
                value -= 0.5 * float((u * u).sum()) + _HALF_LOG_2PI * u.size
        first = self.at.A.shape[1]
        gradient[first : first + len(logs)] = over_logs
        gradient[first + len(logs) :] = slopes[count:]
        return float(value), gradient

    def unfold(self, x: Array) -> dict[str, Array]:
        """`beta` (p, m), every unknown aux, and the reported hyperparameters."""
        logs, log_aux = self._split(x)
        roots = {k: b.root(logs)[0] for k, b in enumerate(self.blocks)}
        values: dict[str, Any] = {
            "beta": self._beta(x, roots).reshape(self.model.shape)
        }
        values |= {
            a: np.asarray(np.exp(v)) for a, v in zip(self.model.unknown, log_aux)
        }
        for b in self.blocks:
            natural = b.prior.natural(dict(zip(b.prior.hyper, np.exp(logs[b.hyper]))))
            values |= {
                name: np.asarray(float(v)) for name, v in zip(b.names, natural.values())
            }
        return values
