"""A response with K unordered classes: the softmax."""

from dataclasses import dataclass, replace
from math import exp, log
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from probreg.errors import DataError
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    Expansion,
    Level,
    Recession,
    SeparableLikelihood,
    SmoothLikelihood,
)
from probreg.likelihoods.response import codes, levels_of, one_of, refuse
from probreg.links import LOGIT
from probreg.native.kernel import Kernel


def _tile(y: Array, eta: Array, t: Array, log_p: Array, slope: Array) -> None:
    """f = C eta with C (K, m) in t, row by row; log p = f_y - log sum exp f, its slope over eta C' (e_y - p)."""
    m, b = eta.shape[0], y.size
    K = t.size // m
    p, top, total = np.zeros((K, b)), np.full(b, -np.inf), np.zeros(b)
    for k in range(K):
        f = p[k]
        for c in range(m):
            if t[k * m + c] != 0.0:
                e, weight = eta[c], t[k * m + c]
                for i in range(b):
                    f[i] += weight * e[i]
        for i in range(b):
            top[i] = max(top[i], f[i])
    for k in range(K):
        f = p[k]
        for i in range(b):
            d = f[i] - top[i]
            log_p[i] = d if y[i] == k else log_p[i]
            f[i] = exp(d)
            total[i] += f[i]
    for i in range(b):
        log_p[i] -= log(total[i])
        total[i] = 1.0 / total[i]
    slope[:, :b] = 0.0
    for k in range(K):
        f = p[k]
        for i in range(b):
            f[i] = (1.0 if y[i] == k else 0.0) - f[i] * total[i]
        for c in range(m):
            if t[k * m + c] != 0.0:
                s, weight = slope[c], t[k * m + c]
                for i in range(b):
                    s[i] += weight * f[i]


def _bend(y: Array, eta: Array, t: Array, curve: Array) -> None:
    """C' (diag p - p p') C, row by row: what varies of C over the classes."""
    m, b = eta.shape[0], y.size
    K = t.size // m
    p, top, total, mean = np.zeros((K, b)), np.full(b, -np.inf), np.zeros(b), np.zeros((m, b))
    for k in range(K):
        f = p[k]
        for c in range(m):
            if t[k * m + c] != 0.0:
                e, weight = eta[c], t[k * m + c]
                for i in range(b):
                    f[i] += weight * e[i]
        for i in range(b):
            top[i] = max(top[i], f[i])
    for k in range(K):
        f = p[k]
        for i in range(b):
            f[i] = exp(f[i] - top[i])
            total[i] += f[i]
    for k in range(K):
        f = p[k]
        for i in range(b):
            f[i] /= total[i]
        for c in range(m):
            if t[k * m + c] != 0.0:
                s, weight = mean[c], t[k * m + c]
                for i in range(b):
                    s[i] += weight * f[i]
    pair = 0
    for c in range(m):
        for d in range(c, m):
            w, left, right = curve[pair], mean[c], mean[d]
            for i in range(b):
                w[i] = -left[i] * right[i]
            for k in range(K):
                weight = t[k * m + c] * t[k * m + d]
                if weight != 0.0:
                    f = p[k]
                    for i in range(b):
                        w[i] += weight * f[i]
            pair += 1


@LIKELIHOODS.register
@dataclass(frozen=True)
class Categorical(SmoothLikelihood, SeparableLikelihood):
    """P(y = k) = exp(f_k) / sum_l exp(f_l) with f = C eta: K classes on K - 1 linear predictors.

    A common shift of all f changes nothing, so the K columns are written through a (K, K - 1) contrast C.
    Reference form: f is 0 for the reference class (the level that sorts first unless `reference` names one) and a
    coefficient is a log odds against it. Symmetric form: C is an orthonormal basis of the vectors that sum to zero,
    no class is singled out, and the K reported coefficients of a column sum to zero; it goes with a flat prior or
    with normal priors, which do not depend on the choice of that basis.

    >>> three = Categorical(levels=("a", "b", "c"))
    >>> three.mean(np.array([[0.0, np.log(2.0)]])).tolist()
    [[0.25, 0.25, 0.5]]
    >>> three.outcomes
    ('b', 'c')
    """

    levels: tuple[Level, ...] = (0, 1, 2)
    reference: Level | None = None
    symmetric: bool = False

    name = "categorical"
    link = LOGIT
    kernel = Kernel(tile=_tile, bend=_bend)
    concave = True

    def __post_init__(self) -> None:
        if self.symmetric and self.reference is not None:
            raise DataError(f"a symmetric softmax has no reference class, got reference={self.reference!r}")

    def bind(
        self, values: Array, *, levels: tuple[Level, ...] | None, event: Level | None, reference: Level | None
    ) -> Self:
        refuse("Categorical", event=event)
        values = np.asarray(values)
        if values.dtype.kind == "f" and len(bad := np.flatnonzero(values % 1 != 0)):
            raise DataError(
                f"a categorical response holds class labels; row {bad[0]} holds {values[bad[0]]:g}. For real numbers use Gaussian."
            )
        met = levels_of(values, levels)
        if len(met) < 2:
            raise DataError(f"a categorical response has two or more classes; this one is constant ({met[0]!r})")
        if len(met) > 20 and len(met) > len(values) / 2:
            raise DataError(
                f"a categorical response with {len(met)} classes in {len(values)} rows: are these identifiers or numbers?"
            )
        wanted = reference if reference is not None else self.reference
        return replace(self, levels=met, reference=None if wanted is None else one_of(met, wanted, "reference"))

    def code(self, values: Array) -> Array:
        return codes(values, self.levels)

    def describe(self, response: str) -> str:
        if self.symmetric:
            return f"the log odds of each class of {response} against their geometric mean (coefficients of a column sum to zero)"
        return f"the log odds of each class of {response} against the reference class {self.levels[self._base]}"

    @property
    def support(self) -> Array:
        return np.arange(float(len(self.levels)))

    @property
    def width(self) -> int:
        return len(self.levels) - 1

    @property
    def outcomes(self) -> tuple[str, ...]:
        return tuple(str(v) for i, v in enumerate(self.levels) if self.symmetric or i != self._base)

    @property
    def display(self) -> Array:
        return self.contrast if self.symmetric else np.eye(self.width)

    @property
    def contrast(self) -> Array:
        """C, shape (K, K - 1)."""
        k = len(self.levels)
        if not self.symmetric:
            return np.delete(np.eye(k), self._base, axis=1)
        columns = [np.r_[np.full(j, 1.0), -j, np.zeros(k - j - 1)] / np.sqrt(j * (j + 1.0)) for j in range(1, k)]
        return np.stack(columns, 1)

    @property
    def _base(self) -> int:
        return 0 if self.reference is None else self.levels.index(self.reference)

    def guess(self, y: Array) -> tuple[Array, dict[str, float]]:
        return np.zeros((len(y), self.width)), {}

    def scores(self, eta: Array) -> Array:
        """f = C eta, shape (..., n, K)."""
        return eta @ self.contrast.T

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        log_p = log_softmax(self.scores(eta), -1)
        index = np.broadcast_to(np.asarray(y, int), log_p.shape[:-1])
        return np.take_along_axis(log_p, index[..., None], -1)[..., 0]

    def mean(self, eta: Array, **aux: Any) -> Array:
        return softmax(self.scores(eta), -1)

    def mean_line(self, eta: Array) -> tuple[Array, Array]:
        f, k = self.scores(eta), len(self.levels)
        others = np.where(np.eye(k, dtype=bool), -np.inf, f[..., None, :])  # row k: the scores of all classes but k
        slope = np.eye(k) - softmax(others, -1)
        return f - logsumexp(others, -1), slope @ self.contrast

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        u = rng.random((*eta.shape[:-1], 1))
        return (self.mean(eta)[..., :-1].cumsum(-1) < u).sum(-1).astype(float)

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        hot = np.asarray(y)[..., None] == np.arange(len(self.levels))
        return (hot - self.mean(eta)) @ self.contrast

    def information(self, eta: Array, **aux: Any) -> Array:
        return self._information(self.mean(eta))

    def _information(self, p: Array) -> Array:
        C = self.contrast
        if not self.symmetric:
            q = p @ C  # the probabilities of the classes that have a predictor
            return q[..., None] * (np.eye(self.width) - q[..., None, :])
        mixed = p @ C
        return np.einsum("...k,ka,kb->...ab", p, C, C, optimize=True) - mixed[..., :, None] * mixed[..., None, :]

    def information_slope(self, eta: Array, **aux: Any) -> Array:
        """The third cumulants of the contrasts: sum_k p_k c_k c_k c_k, with c_k = C_k - sum p C."""
        p = self.mean(eta)
        c = self.contrast - (p @ self.contrast)[..., None, :]
        return np.einsum("...k,...ka,...kb,...kc->...abc", p, c, c, c, optimize=True)

    def expansion(self, y: Array, eta: Array, **aux: Any) -> Expansion:
        log_p = log_softmax(self.scores(eta), -1)
        p, index = np.exp(log_p), np.asarray(y, int)
        rows = np.arange(len(index))
        residual = -p
        residual[rows, index] += 1.0
        return Expansion(log_p[rows, index], residual @ self.contrast, self._information(p))

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        return tuple(self.contrast.ravel())

    def recession(self, y: Array) -> Recession:
        index, k = np.asarray(y, int), len(self.levels)
        rows, other = (a.ravel() for a in np.indices((len(index), k)))
        keep = other != index[rows]
        rows, other = rows[keep], other[keep]
        C = self.contrast
        return Recession(rows, C[index[rows]] - C[other], np.zeros(len(rows), bool))

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        return pm.Categorical, {"logit_p": eta @ self.contrast.T}
