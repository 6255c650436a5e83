"""The base class of responses in K unordered classes: the softmax, its contrasts, its compiled functions."""

from dataclasses import dataclass, replace
from math import log
from typing import Annotated, Any, Self

import numpy as np

from probreg.arguments.scalars import Flag, LevelSequence
from probreg.errors import DataError
from probreg.likelihoods.base import (
    FAR,
    Array,
    Level,
    Levels,
    LineAndSlopes,
    MayDiverge,
    OfClasses,
    Recession,
    SmoothLikelihood,
    ValueGradHessian,
)
from probreg.likelihoods.links import LOGIT
from probreg.likelihoods.response import one_of
from probreg.likelihoods.softmax_scores import apply_contrasts, exponentiate, scores_of
from probreg.special import log_softmax, logsumexp, softmax

# numbers from which compiled code, which takes a third of the time, is worth its import
_COMPILED_FROM = 2**15


def tile_of_counts(
    counts: Array, n: Array, eta: Array, t: Array, log_p: Array, slope: Array
) -> None:
    """log p = sum_k y_k f_k - n log sum exp f of counts y (K, b) with f = C eta, its slope over eta C' (y - n p)."""
    K = counts.shape[0]
    b = n.size
    p = np.zeros((K, b))
    total = np.zeros(b)
    scores_of(eta, t, b, p, total)
    for i in range(b):
        log_p[i] = 0.0
    for k in range(K):
        f = p[k]
        for i in range(b):
            log_p[i] += counts[k, i] * f[i]
    exponentiate(p, b, total)
    for i in range(b):
        # log p = sum_k y_k f_k - n log sum_k exp f_k, f less its largest, without the multinomial coefficient.
        log_p[i] -= n[i] * log(total[i])
        total[i] = n[i] / total[i]
    for k in range(K):
        f = p[k]
        for i in range(b):
            # d log p / d f = y - n p
            f[i] = counts[k, i] - f[i] * total[i]
    apply_contrasts(p, t, b, slope)


def curve_of(eta: Array, t: Array, n: Array, curve: Array) -> None:
    """n C' (diag p - p p') C, row by row: the covariance of C over the classes of n draws."""
    m = eta.shape[0]
    K = t.size // m
    b = n.size
    p = np.zeros((K, b))
    total = np.zeros(b)
    mean = np.zeros((m, b))
    scores_of(eta, t, b, p, total)
    exponentiate(p, b, total)
    for k in range(K):
        f = p[k]
        for i in range(b):
            f[i] /= total[i]
    apply_contrasts(p, t, b, mean)
    pair = 0
    for c in range(m):
        for d in range(c, m):
            w = curve[pair]
            p_c = mean[c]
            right = mean[d]
            for i in range(b):
                # sum_k p_k C_kc C_kd - (C'p)_c (C'p)_d
                w[i] = -p_c[i] * right[i]
            for k in range(K):
                weight = t[k * m + c] * t[k * m + d]
                if weight != 0.0:
                    f = p[k]
                    for i in range(b):
                        w[i] += weight * f[i]
            for i in range(b):
                w[i] *= n[i]
            pair += 1


@dataclass(frozen=True)
class SoftmaxLikelihood(SmoothLikelihood, OfClasses, MayDiverge):
    """P(class k) = exp(f_k) / sum_l exp(f_l) with f = C eta: K classes on K - 1 linear predictors.

    A common shift of all f changes nothing, so the K columns are written through a (K, K - 1) contrast C.
    Reference form: f is 0 for the reference class (the first unless `reference` names one) and a coefficient is a log odds
    against it. Symmetric form: C is an orthonormal basis of the vectors that sum to zero, no class is singled out, and the K
    reported coefficients of a column sum to zero; it goes with a flat prior or with normal priors, which do not depend on the
    choice of that basis. Laplace and elastic-net priors are penalties of the K coefficients, as in glmnet: these then have the common
    shift of the smallest penalty in place of the sum zero, so that some are exactly 0. A normal prior of unknown scale has one scale for all classes in the symmetric form, and one for each predictor in the
    reference form.
    """

    levels: Annotated[Levels, LevelSequence()] = (0, 1, 2)
    reference: Level | None = None
    symmetric: Flag = False

    link = LOGIT
    chosen_level = "reference"
    concave = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.symmetric and self.reference is not None:
            raise DataError(
                f"a symmetric softmax has no reference class, got reference={self.reference!r}"
            )

    def stated_choice(self) -> Level | None:
        return self.reference

    def _of_levels(self, met: Levels, reference: Level | None) -> Self:
        """Return the same likelihood with these classes."""
        base = reference if reference is not None else self.reference
        return replace(
            self,
            levels=met,
            reference=None if base is None else one_of(met, base, "reference"),
        )

    def describe(self, response: str) -> str:
        if self.symmetric:
            return (
                f"the log odds of each class of {response} against their geometric mean"
            )
        return f"the log odds of each class of {response} against the reference class {self.levels[self._reference_index]}"

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.levels) - 1

    @property
    def outcomes(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(
            str(v)
            for i, v in enumerate(self.levels)
            if self.symmetric or i != self._reference_index
        )

    @property
    def predictors_apart(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.width > 1 and not self.symmetric:
            return self.outcomes
        return ()

    @property
    def contrast_matrix(self) -> Array:  # type: ignore[override]
        if self.symmetric:
            return self.contrast
        return np.eye(self.width)

    @property
    def contrast(self) -> Array:
        """C, shape (K, K - 1)."""
        k = len(self.levels)
        if not self.symmetric:
            return np.delete(np.eye(k), self._reference_index, axis=1)
        # Helmert's contrasts: column j is (1, ..., 1, -j, 0, ..., 0) / (j (j + 1))^(1/2), with j ones.
        columns = [
            np.r_[np.full(j, 1.0), -j, np.zeros(k - j - 1)] / np.sqrt(j * (j + 1.0))
            for j in range(1, k)
        ]
        return np.stack(columns, 1)

    @property
    def _reference_index(self) -> int:
        if self.reference is None:
            return 0
        return self.levels.index(self.reference)

    def scores(self, eta: Array) -> Array:
        """f = C eta, shape (..., n, K)."""
        if eta.strides[-1] == eta.itemsize:
            return np.asarray(eta @ self.contrast.T)
        # draws that lie side by side in memory stay so: class by class
        f = np.zeros_like(eta, shape=(*eta.shape[:-1], len(self.levels)))
        for k, j in np.argwhere(self.contrast):
            f[..., k] += self.contrast[k, j] * eta[..., j]
        return f

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        """C eta = log share, up to a shift, with the share of an unobserved class truncated at exp(-FAR)."""
        with np.errstate(divide="ignore"):
            # The shift drops out with M = 1 - 11'/K: M C eta = M log share, eta = (M C)^+ log share.
            f = np.maximum(np.log(self.response(y)), -FAR)
        return f @ np.linalg.pinv(self.contrast - self.contrast.mean(0)).T

    def mean(self, eta: Array, **aux: Any) -> Array:
        is_many = eta.ndim == 3 and eta.size >= _COMPILED_FROM
        if is_many and eta.transpose(1, 2, 0).flags.c_contiguous:
            return self._mean_of_draws(eta.transpose(1, 2, 0))
        p = self.scores(eta)
        np.exp(np.subtract(p, p.max(-1, keepdims=True), out=p), out=p)
        return np.divide(p, p.sum(-1, keepdims=True), out=p)

    def _mean_of_draws(self, eta: Array) -> Array:
        """The same (S, n, K) of eta (n, m, S) by compiled code."""
        from probreg.likelihoods.softmax_of_draws import softmax_of_rows

        p = np.empty((len(eta), len(self.levels), eta.shape[2]))
        softmax_of_rows(eta, self.contrast.ravel(), p)
        return p.transpose(2, 0, 1)

    def response_variance(self, eta: Array, **known: Any) -> Array:
        """Return the variance of the share of each class."""
        p = self.mean(eta)
        return p * (1.0 - p) / np.asarray(self.size(**known))[..., None]

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        f = self.scores(eta)
        k = len(self.levels)
        # logit p_k = f_k - log sum_{l not k} exp f_l, of slope e_k - softmax of the others over f.
        p_others = np.where(
            np.eye(k, dtype=bool), -np.inf, f[..., None, :]
        )  # row k: the scores of all classes but k
        slope = np.eye(k) - softmax(p_others, -1)
        line = f - logsumexp(p_others, -1)
        return line, slope @ self.contrast, self.no_aux_slopes(line)

    def _information_of_trials(self, p: Array, n: Any) -> Array:
        """n C'(diag p - pp')C of n trials (..., 1) with probabilities p (..., K)."""
        C = self.contrast
        q = p @ C
        if (
            not self.symmetric
        ):  # q are the probabilities of the classes with a predictor
            return (n * q)[..., None] * (np.eye(self.width) - q[..., None, :])
        squares = np.einsum("...k,ka,kb->...ab", n * p, C, C, optimize=True)
        return squares - (n * q)[..., :, None] * q[..., None, :]

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        log_p = log_softmax(self.scores(eta), -1)
        return np.einsum("...k,...k->...", self.tally(y), log_p)

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        # d log p / d eta = C'(y - n p)
        n = np.asarray(self.size(**self.given(y)))[..., None]
        return (self.tally(y) - n * self.mean(eta)) @ self.contrast

    def information(self, eta: Array, **known: Any) -> Array:
        n = np.asarray(self.size(**known))[..., None]
        return self._information_of_trials(self.mean(eta), n)

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        counts = self.tally(y)
        n = np.asarray(self.size(**self.given(y)))[..., None]
        log_p = log_softmax(self.scores(eta), -1)
        p = np.exp(log_p)
        return ValueGradHessian(
            np.einsum("...k,...k->...", counts, log_p) + self.base_measure(y),
            (counts - n * p) @ self.contrast,
            self._information_of_trials(p, n),
        )

    def recession(self, y: Array) -> Recession:
        C = self.contrast
        positive = self.tally(y) > 0
        # If both classes were observed, f_k - f_j stays constant; if only one was, its f may only grow relative to the other.
        pairs = np.array([(k, j) for k in range(len(C)) for j in range(k)])
        first = positive[:, pairs[:, 0]]
        second = positive[:, pairs[:, 1]]
        rows, pair = np.nonzero(first | second)
        side = np.where(first[rows, pair], 1.0, -1.0)[:, None]
        c = side * (C[pairs[pair, 0]] - C[pairs[pair, 1]])
        return Recession(rows, c, (first & second)[rows, pair])

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        return tuple(self.contrast.ravel())
