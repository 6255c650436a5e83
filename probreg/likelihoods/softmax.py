"""Responses in K unordered classes, one class or counts by class per row: softmax regression."""

from dataclasses import dataclass, replace
from math import log
from typing import Annotated, Any, Self

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Flag, LevelSequence
from probreg.compiled.density import CompiledDensity
from probreg.errors import DataError
from probreg.likelihoods.base import (
    INFINITE_PREDICTOR,
    LIKELIHOODS,
    Array,
    Level,
    Levels,
    Likelihood,
    LineAndSlopes,
    MayDiverge,
    OfClasses,
    OfTrials,
    OneOfClasses,
    PymcVariable,
    Recession,
    SmoothLikelihood,
    ValueGradHessian,
)
from probreg.likelihoods.links import LOGIT
from probreg.likelihoods.response import (
    one_of,
    refuse_fractions,
    response_levels,
    whole_counts,
)
from probreg.likelihoods.softmax_scores import apply_contrasts, exponentiate, scores_of
from probreg.special import gammaln, log_softmax, logsumexp, softmax


def tile_of_counts(
    counts: Array, n: Array, eta: Array, t: Array, log_p: Array, slope: Array
) -> None:
    """log p = sum_k y_k f_k - n log sum exp f for counts y (K, b) with f = C eta; its slope over eta is C' (y - n p)."""
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
        # log p = sum_k y_k f_k - n log sum_k exp f_k, with f minus its largest entry, without the multinomial coefficient.
        log_p[i] -= n[i] * log(total[i])
        total[i] = n[i] / total[i]
    for k in range(K):
        f = p[k]
        for i in range(b):
            # d log p / d f = y - n p
            f[i] = counts[k, i] - f[i] * total[i]
    apply_contrasts(p, t, b, slope)


def curve_of(eta: Array, t: Array, n: Array, curve: Array) -> None:
    """n C' (diag p - p p') C for each row: the covariance of C'y for n draws of classes."""
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

    A common shift of all f has no effect, so a (K, K - 1) contrast C maps the K - 1 linear predictors to f.
    Reference form: f is 0 for the reference class (the first unless `reference` names one) and a coefficient is a log odds
    against it. Symmetric form: C is an orthonormal basis of the vectors that sum to zero, all classes are treated in the same way, and the K
    reported coefficients of a column sum to zero. It needs a flat prior or normal priors, which do not depend on the
    choice of this basis. Laplace and elastic-net priors are penalties of the K coefficients, as in glmnet: the coefficients then
    have the common shift with the smallest penalty in place of the sum zero, so that some are exactly 0. A normal prior of unknown
    scale has one scale for all classes in the symmetric form, and one for each predictor in the reference form.
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
        # draws that are adjacent in memory stay adjacent: class by class
        f = np.zeros_like(eta, shape=(*eta.shape[:-1], len(self.levels)))
        for k, j in np.argwhere(self.contrast):
            f[..., k] += self.contrast[k, j] * eta[..., j]
        return f

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        """C eta = log share, up to a shift, with the share of an unobserved class truncated at exp(-FAR)."""
        with np.errstate(divide="ignore"):
            # The shift drops out with M = 1 - 11'/K: M C eta = M log share, eta = (M C)^+ log share.
            f = np.maximum(np.log(self.response(y)), -INFINITE_PREDICTOR)
        return f @ np.linalg.pinv(self.contrast - self.contrast.mean(0)).T

    def mean(self, eta: Array, **aux: Any) -> Array:
        p = self.scores(eta)
        np.exp(np.subtract(p, p.max(-1, keepdims=True), out=p), out=p)
        return np.divide(p, p.sum(-1, keepdims=True), out=p)

    def response_variance(self, eta: Array, **known: Any) -> Array:
        """Return the variance of the share of each class."""
        p = self.mean(eta)
        return p * (1.0 - p) / np.asarray(self.size(**known))[..., None]

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        f = self.scores(eta)
        k = len(self.levels)
        # logit p_k = f_k - log sum_{l not k} exp f_l, with the slope e_k - softmax of the others over f.
        # row k: the scores of all classes but k
        p_others = np.where(np.eye(k, dtype=bool), -np.inf, f[..., None, :])
        slope = np.eye(k) - softmax(p_others, -1)
        line = f - logsumexp(p_others, -1)
        return line, slope @ self.contrast, self.no_aux_slopes(line)

    def _information_of_trials(self, p: Array, n: Any) -> Array:
        """n C'(diag p - pp')C of n trials (..., 1) with probabilities p (..., K)."""
        C = self.contrast
        q = p @ C
        # q are the probabilities of the classes with a predictor
        if not self.symmetric:
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
        # If both classes were observed, f_k - f_j stays constant; if only one class was observed, its f may only grow relative to the other.
        pairs = np.array([(k, j) for k in range(len(C)) for j in range(k)])
        first = positive[:, pairs[:, 0]]
        second = positive[:, pairs[:, 1]]
        rows, pair = np.nonzero(first | second)
        side = np.where(first[rows, pair], 1.0, -1.0)[:, None]
        c = side * (C[pairs[pair, 0]] - C[pairs[pair, 1]])
        return Recession(rows, c, (first & second)[rows, pair])

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        return tuple(self.contrast.ravel())


def _multinomial_tile(
    y: Array, eta: Array, t: Array, log_p: Array, slope: Array
) -> None:
    """log p = sum_k y_k f_k - n log sum exp f with f = C eta; its slope over eta is C' (y - n p)."""
    tile_of_counts(y.T, _trials(y), eta, t, log_p, slope)


def _trials(y: Array) -> Array:
    n = np.zeros(y.shape[0])
    for k in range(y.shape[1]):
        for i in range(n.size):
            n[i] += y[i, k]
    return n


def _multinomial_hessian(y: Array, eta: Array, t: Array, curve: Array) -> None:
    curve_of(eta, t, _trials(y), curve)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Multinomial(SoftmaxLikelihood, OfTrials):
    """Counts y_1, ..., y_K of K classes in n trials: log p = log (n! / (y_1! ... y_K!)) + sum_k y_k log p_k.

    n = sum y; a row is one observation, and p are the probabilities of a softmax (see `Softmax` for C, `reference` and
    `symmetric`). Its mean is p, per trial; Categorical is the case n = 1.

    Parameters
    ----------
    levels : tuple
        The classes, in the order of the columns of counts; without them the names of the columns.
    reference : level, optional
        The base class of the log odds; without it the first.
    symmetric : bool
        Whether every class has its own coefficients, without a base class.

    Examples
    --------
    >>> three = Multinomial(levels=("a", "b", "c"))
    >>> float(np.exp(three.log_prob(np.array([1.0, 0.0, 1.0]), np.array([0.0, 0.0]))).round(6))
    0.222222
    """

    name, single = "multinomial", "categorical"
    support = np.arange(500.0)
    compiled_density = CompiledDensity(
        tile=_multinomial_tile, hessian=_multinomial_hessian
    )

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        y = _counts(values)
        if y.shape[1] < 2:
            raise DataError(
                "a Multinomial response counts two or more classes; this one has a single column"
            )
        stated = self.stated_levels()
        if stated and levels and stated != tuple(levels):
            raise DataError(
                f"levels={stated!r} of Multinomial are not the columns of counts, {', '.join(map(str, levels))}, in their order"
            )
        names = stated or levels or tuple(range(y.shape[1]))
        if len(set(names)) != y.shape[1]:
            raise DataError(
                f"a Multinomial response of {y.shape[1]} columns has as many classes with different names; got {', '.join(map(str, names))}"
            )
        return self._of_levels(names, chosen)

    def encode(self, values: Array) -> Array:
        y = _counts(values)
        if y.shape[1] != len(self.levels):
            raise DataError(
                f"expected counts of {len(self.levels)} classes ({', '.join(map(str, self.levels))}), got {y.shape[1]}"
            )
        return y

    def of_counts(self) -> "Multinomial":
        return self

    def given(self, y: Array) -> dict[str, Array]:
        return {"trials": np.asarray(y).sum(-1)}

    def single_trials(self) -> Array:
        return np.eye(len(self.levels))

    def tally(self, y: Array) -> Array:
        return np.asarray(y)

    def response(self, y: Array) -> Array:
        with np.errstate(invalid="ignore"):  # no share of no trials
            return np.asarray(y) / np.asarray(y).sum(-1, keepdims=True)

    def mean_name(self, response: str) -> str:
        return f"P(class), {response}"

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        return super().log_prob(y, eta) + self.base_measure(y)

    def base_measure(self, y: Array) -> Array:
        """log (n! / (y_1! ... y_K!))."""
        y = np.asarray(y)
        return gammaln(y.sum(-1) + 1.0) - gammaln(y + 1.0).sum(-1)

    def sample(self, rng: Generator, eta: Array, **known: Any) -> Array:
        n = np.broadcast_to(self.size(**known), eta.shape[:-1])
        return rng.multinomial(n.astype(np.int64), self.mean(eta)).astype(float)

    def pymc(self, eta: Any, **known: Any) -> PymcVariable:
        import pymc as pm

        p = pm.math.softmax(eta @ self.contrast.T, axis=-1)
        return pm.Multinomial, {"n": self.size(**known).astype(int), "p": p}


def _counts(values: Array) -> Array:
    y = whole_counts(values, "Multinomial")
    if y.ndim != 2:
        raise DataError(
            f"a Multinomial response is a table of counts, a row each and a column for each class; got an array of shape {y.shape}. "
            "For one class per row use Categorical"
        )
    return y


def _categorical_tile(
    y: Array, eta: Array, t: Array, log_p: Array, slope: Array
) -> None:
    """f = C eta with C (K, m) in t, row by row; log p = f_y - log sum exp f, with the slope C' (e_y - p) over eta."""
    b = y.shape[0]
    counts = np.zeros((t.size // eta.shape[0], b))
    for k in range(counts.shape[0]):
        for i in range(b):
            counts[k, i] = 1.0 if y[i] == k else 0.0
    tile_of_counts(counts, np.ones(b), eta, t, log_p, slope)


def _categorical_hessian(y: Array, eta: Array, t: Array, curve: Array) -> None:
    curve_of(eta, t, np.ones(y.shape[0]), curve)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Categorical(OneOfClasses, SoftmaxLikelihood):
    """One of K classes, with the probabilities of a softmax: log p = log p_y, p = softmax(C eta).

    See `Softmax` for C, `reference` and `symmetric`.

    Parameters
    ----------
    levels : tuple
        The classes, in order; classes without rows are left out. The default is the declared or sorted levels of the response.
    reference : level, optional
        The base class of the log odds; without it the first.
    symmetric : bool
        Whether every class has its own coefficients, without a base class.

    Examples
    --------
    >>> three = Categorical(levels=("a", "b", "c"))
    >>> three.mean(np.array([[0.0, np.log(2.0)]])).tolist()
    [[0.25, 0.25, 0.5]]
    >>> three.outcomes
    ('b', 'c')
    """

    name = "categorical"
    compiled_density = CompiledDensity(
        tile=_categorical_tile, hessian=_categorical_hessian
    )

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        refuse_fractions(
            values,
            "a categorical response holds class labels; ",
            "For real numbers use Gaussian.",
        )
        present = response_levels(values, self.stated_levels() or levels, chosen)
        if len(present) < 2:
            raise DataError(
                f"a categorical response has two or more classes; this one is constant ({present[0]!r}), and its other classes are not "
                "known: declare the levels of a categorical column"
            )
        if len(present) > 20 and len(present) > len(values) / 2:
            raise DataError(
                f"a categorical response with {len(present)} classes in {len(values)} rows: are these identifiers or numbers?"
            )
        return self._of_levels(present, chosen)

    def of_counts(self) -> Likelihood:
        return Multinomial(reference=self.reference, symmetric=self.symmetric)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.Categorical, {"logit_p": eta @ self.contrast.T}
