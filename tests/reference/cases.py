"""Reading certified cases, and the judges that are independent of the package: rational arithmetic, scores, quadrature.

A case with published results is compared with them. A case that is data only is compared with a judge: least squares
solved in fractions, the score of a likelihood written out in NumPy, or a posterior marginalised the other way round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tests.conftest import PLACES

ONES = (
    "1",
    "(Intercept)",
    "const",
)  # the names under which the files carry a column of ones

Array = np.ndarray


def cases(*folders: str) -> list[str]:
    """Names `folder/case` of all certified cases in these folders."""
    return sorted(
        {
            f"{f}/{p.stem}"
            for f in folders
            for place in PLACES
            for p in (place / f).glob("*.json")
        }
    )


@dataclass(frozen=True, eq=False)
class Columns:
    """A design as `Model.from_arrays` takes it, and the order in which the file lists the coefficients."""

    X: Array  # (n, q), without the column of ones
    names: tuple[str, ...]
    intercept: bool
    # names as the package reports them, in the order of the file
    order: tuple[str, ...]

    @property
    def full(self) -> Array:
        """The design with its column of ones, in the order of the file."""
        parts = [
            np.ones(len(self.X))
            if name == "Intercept"
            else self.X[:, self.names.index(name)]
            for name in self.order
        ]
        return np.column_stack(parts)

    @property
    def arguments(self) -> dict[str, Any]:
        return {"columns": list(self.names), "intercept": self.intercept}


def columns_of(X: Any, names: list[str]) -> Columns:
    """Takes the file's column of ones out of X, since an intercept has a role of its own in a model."""
    array = np.asarray(X, dtype=float).reshape(len(X), -1)
    ones = [i for i, name in enumerate(names) if name in ONES]
    assert len(ones) <= 1
    assert all((array[:, i] == 1).all() for i in ones)
    keep = [i for i in range(len(names)) if i not in ones]
    order = tuple("Intercept" if i in ones else name for i, name in enumerate(names))
    return Columns(array[:, keep], tuple(names[i] for i in keep), bool(ones), order)


def in_order(values: Any, columns: Columns) -> Array:
    """Reported coefficients in the order of the file."""
    return np.asarray(values.sel(coef=list(columns.order)).values)


def half_unit(printed: str) -> float:
    """Half a unit of the last printed digit of a number such as "-3.482e+03" or "0.0385"."""
    mantissa, _, exponent = printed.lower().partition("e")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def rounds_to(value: float, printed: str, *, slack: float = 1e-6) -> bool:
    """Whether `printed` is a rounding of `value`; `slack` (in half units) lets a tie fall to either side."""
    return abs(value - float(printed)) <= (1.0 + slack) * half_unit(printed)


def digits(value: Any, certified: Any) -> Array:
    """Log relative error -log10(|q - c| / |c|), at most 15; absolute where c = 0. A nan has no digits."""
    q, c = np.asarray(value, dtype=float), np.asarray(certified, dtype=float)
    error = np.abs(q - c) / np.where(c == 0, 1.0, np.abs(c))
    return np.where(np.isnan(error), -np.inf, -np.log10(np.maximum(error, 1e-15)))


# ---- least squares in fractions ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Exact least squares, rounded once at the end."""

    coef: Array
    std_error: Array
    residual_sd: float
    rss: float
    df: int
    unscaled: Array  # diagonal of (X'X)^-1


def exact_least_squares(X: list[list[Fraction]], y: list[Fraction]) -> LeastSquares:
    """Normal equations over the rationals, where their conditioning does no harm; rows X (n, p)."""
    p, columns = len(X[0]), list(zip(*X))
    gram = [[_dot(a, b) for b in columns] + [_dot(a, y)] + [Fraction(int(i == j)) for j in range(p)]
            for i, a in enumerate(columns)]  # fmt: skip
    for i in range(p):
        k = next(k for k in range(i, p) if gram[k][i])
        gram[i], gram[k] = gram[k], gram[i]
        gram[i] = [v / gram[i][i] for v in gram[i]]
        for k in range(p):
            if k != i and (f := gram[k][i]):
                gram[k] = [a - f * b for a, b in zip(gram[k], gram[i])]
    beta = [row[p] for row in gram]
    rss = _dot(y, y) - _dot(beta, [_dot(a, y) for a in columns])
    inverse = [gram[i][p + 1 + i] for i in range(p)]
    df = len(y) - p
    return LeastSquares(
        coef=np.array([float(b) for b in beta]),
        std_error=np.array([float(v * rss / df) ** 0.5 for v in inverse]),
        residual_sd=float(rss / df) ** 0.5,
        rss=float(rss),
        df=df,
        unscaled=np.array([float(v) for v in inverse]),
    )


def _dot(a: Any, b: Any) -> Fraction:
    return sum((x * z for x, z in zip(a, b)), Fraction(0))


def fractions(X: Any) -> Any:
    """The numbers as they stand: a decimal string as the decimal, a float as the binary number it is."""
    return [fractions(v) for v in X] if isinstance(X, list) else Fraction(X)


# ---- scores and information ----------------------------------------------------------------------------------------


def softmax_certificate(
    X: Array, counts: Array, B: Array, *, precision: Array | float = 0.0
) -> tuple[float, Array, Array]:
    """How far B (p, K - 1), the coefficients against class 0, lies from the mode, in standard errors; and those.

    Returns sqrt(g' H^-1 g), standard errors (p, K - 1), and the covariance over (class, column). `precision` (p,) is
    that of a normal prior about zero. The log posterior is concave, so a vanishing score is the whole proof.
    """
    eta = np.column_stack([np.zeros(len(X)), X @ B])
    p = np.exp(eta - eta.max(1, keepdims=True))
    p = (p / p.sum(1, keepdims=True))[:, 1:]
    trials, m = counts.sum(1), B.shape[1]
    P = np.broadcast_to(np.asarray(precision, dtype=float), len(B))
    g = (X.T @ (counts[:, 1:] - trials[:, None] * p) - P[:, None] * B).T.ravel()
    W = trials[:, None, None] * (
        p[:, :, None] * np.eye(m) - p[:, :, None] * p[:, None, :]
    )
    H = np.einsum("nj,nkl,ni->kjli", X, W, X, optimize=True).reshape(
        len(g), len(g)
    ) + np.diag(np.tile(P, m))
    d = np.sqrt(np.diagonal(H))
    inverse = cho_solve(cho_factor(H / np.outer(d, d)), np.eye(len(d))) / np.outer(d, d)
    return (
        float(np.sqrt(max(g @ inverse @ g, 0.0))),
        np.sqrt(np.diagonal(inverse)).reshape(m, -1).T,
        inverse,
    )


def binary_counts(y: Any, trials: Any = None) -> Array:
    """(n, 2): failures and successes, so that a logistic regression is a softmax of two classes."""
    y = np.asarray(y, dtype=float)
    return np.column_stack(
        [
            (np.ones_like(y) if trials is None else np.asarray(trials, dtype=float))
            - y,
            y,
        ]
    )


def expanded(X: Array, counts: Array, classes: list[str]) -> tuple[Array, Array, Array]:
    """Rows of X, class names and frequency weights, one row for each cell that is not empty."""
    row, which = np.nonzero(counts)
    return X[row], np.array(classes)[which], counts[row, which]


# ---- Gaussian posteriors, marginalised the other way round ---------------------------------------------------------


def gaussian_posterior(
    X: Array,
    y: Array,
    prior_sd: Array,
    log_p_sigma: Callable[[Array], Array],
    *,
    around: float,
) -> tuple[Array, Array]:
    """Means and standard deviations of (beta, sigma) with beta ~ N(0, diag(prior_sd^2)), by y ~ N(0, s^2 I + X S X').

    The marginal of y is diagonalised once by the singular values of X S^1/2; then a trapezium rule on a fine grid of
    log sigma, whose error falls exponentially for a density that vanishes at both ends.
    """
    U, d, Vt = np.linalg.svd(X * prior_sd, full_matrices=False)
    z, rest = U.T @ y, float(y @ y - (U.T @ y) @ (U.T @ y))
    # few rows leave sigma a tail of a small power
    u = np.log(around) + np.linspace(-24, 24, 12_001)
    s2 = np.exp(2 * u)[:, None]
    log_p = (
        -0.5 * (np.log(s2 + d**2) + z**2 / (s2 + d**2)).sum(1)
        - (len(y) - len(d)) * u
        - 0.5 * rest / s2[:, 0]
    )
    log_p = log_p + log_p_sigma(np.exp(u)) + u
    w = np.exp(log_p - log_p.max())
    w /= w.sum()
    assert max(w[0], w[-1]) < 1e-12  # the grid holds the whole posterior
    root = prior_sd[:, None] * Vt.T
    means = (d * z / (s2 + d**2)) @ root.T
    inside = (s2 / (s2 + d**2)) @ (root**2).T
    # directions of the prior that no row of X touches
    beyond = np.maximum(prior_sd**2 - (root**2).sum(1), 0.0)
    mean = w @ means
    var = w @ (inside + beyond + (means - mean) ** 2)
    m, v = w @ np.exp(u), w @ np.exp(2 * u)
    return np.append(mean, m), np.sqrt(np.append(var, v - m**2))


# ---- importance sampling --------------------------------------------------------------------------------------------


def importance(
    fit: Any, target: Any, columns: Columns
) -> tuple[Array, Array, Array, Array]:
    """The posterior of `target` by the draws of a Laplace approximation: draws (S, p, m), weights (S,), means (p, m) and
    their Monte Carlo standard errors.

    The mean of the normal is its mode exactly, so that only weighted minus plain mean is estimated, which has a
    fraction of the error of either (a control variate).
    """
    beta = fit.solution.draws["beta"].reshape(-1, *target.shape)
    log_p = np.concatenate([target.log_posterior(b) for b in np.array_split(beta, 50)])
    log_w = log_p - fit.solution.draws.stats["log_q"].ravel()
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    where = [target.design.columns.index(c) for c in columns.order]
    draws, centre = beta[:, where], fit.solution.beta[where]
    pull = w - 1 / len(w)
    mean = centre + np.tensordot(pull, draws, 1)
    error = np.sqrt(np.tensordot(pull**2, (draws - mean) ** 2, 1))
    return draws, w, mean, error


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    order = np.argsort(values)
    return float(
        np.interp(level, np.cumsum(weights[order]) - weights[order] / 2, values[order])
    )
