"""The hsgp basis of a stationary covariance function: sines on an interval [-L, L], scaled by roots of its spectral density.

The sines contain no rows and do not depend on the hyperparameters, so a length can be unknown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from probreg.arguments.arrays import brief
from probreg.arguments.scalars import ArrayLike, Fraction, check_arguments
from probreg.errors import DataError
from probreg.kernels.base import Array, CovarianceFunction, read_rows
from probreg.kernels.basis import BASES, Beyond, KernelBasis, resolved_at

MOST_FUNCTIONS = 10_000
# logs of the largest over the smallest root of the density; smaller roots add less than 1e-20 of the variance
LOG_RANGE = 23.0
_TERMS = 20_000  # of the sum over frequencies that is looked at for its tail


@dataclass(frozen=True, eq=False)
class SineBasis(KernelBasis):
    """Sines prod_j sin(a_j pi (x_j - centre_j + L_j) / (2 L_j)) / sqrt(L_j), a_j = 1, 2, ..., times roots of the density."""

    centre: Array  # (d,)
    reach: Array  # (d,) S: half the range that it serves
    half_width: Array  # (d,) L
    frequencies: Array  # (q, d), a_j pi / (2 L_j)
    plain: bool = False  # the columns are the sines themselves; the prior contains their scales, since its lengths are unknown

    @property
    def size(self) -> int:
        return len(self.frequencies)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of sines in each column."""
        return tuple(len(np.unique(w)) for w in self.frequencies.T)

    @property
    def error_words(self) -> str:
        counts = "x".join(map(str, self.counts))
        L = ", ".join(f"{w:.4g}" for w in self.half_width)
        ends = " x ".join(f"[{low:.6g}, {high:.6g}]" for low, high in self.ends)
        return f"hsgp: {counts} sines of half-width {L} are off k by at most {self.error:.3g} within {ends}"

    @property
    def ends(self) -> Array:
        return np.stack([self.centre - self.reach, self.centre + self.reach], axis=1)

    def first_beyond(self, rows: Array) -> Beyond | None:
        rounding = 1e-12 * (self.reach + np.abs(self.centre))
        beyond = np.abs(rows - self.centre) > self.reach + rounding
        if not beyond.any():
            return None
        i, j = np.argwhere(beyond)[0]
        return Beyond(int(i), int(j), float(rows[i, j]), *self.ends[j].tolist())

    def sines(self, X: ArrayLike) -> Array:
        """The columns before they are scaled (n, q), which no hyperparameter changes."""
        return self._sines(read_rows(X, "X", self.width))

    def refuse_beyond(self, rows: Array) -> Array:
        """x - centre. DataError for a row beyond the range that is served."""
        beyond = self.first_beyond(rows)
        if beyond is not None:
            i, j, value, low, high = beyond
            raise DataError(
                f"row {i}, column {j} holds {value:g}, beyond the range {low:g} to {high:g} of this basis: "
                f"make it with range=({min(low, value):g}, {max(high, value):g})"
            )
        return rows - self.centre

    def _sines(self, rows: Array) -> Array:
        z = self.refuse_beyond(rows)
        sines = np.full(
            (len(rows), self.size), 1.0 / math.sqrt(float(np.prod(self.half_width)))
        )
        for j in range(self.width):
            # sin at the distinct frequencies of this column, then in the places of their products
            distinct, place = np.unique(self.frequencies[:, j], return_inverse=True)
            sines *= np.sin(np.outer(z[:, j] + self.half_width[j], distinct))[:, place]
        return sines

    def roots(self, **hyper: Any) -> Array:
        """Return the scales sqrt(S(omega)) (q,) of the columns, at least exp(-LOG_RANGE) times the largest.

        The hyperparameters are by default taken from `kernel`. Without the bound the density of a long length underflows, and
        a column of 1e-157 overflows in the curvature of its prior.
        """
        density = self.kernel.at(**hyper).spectral_density(self.frequencies)
        roots = np.sqrt(density)
        return np.maximum(roots, roots.max() * math.exp(-LOG_RANGE))

    def values(self, rows: Array) -> Array:
        if self.plain:
            return self._sines(rows)
        return self.phi(rows)

    def phi(self, rows: Array) -> Array:
        return self._sines(rows) * self.roots()

    def error_of(self, kernel: CovarianceFunction) -> float:
        """Return the error of these sines for another function, as a share of its k(x, x): images behind the ends, and the density
        beyond the last sine."""
        errors = [
            _image(k, w, s) + _tails(k, w)[m]
            for k, w, s, m in zip(
                (kernel.along(j) for j in range(self.width)),
                self.half_width,
                self.reach,
                self.counts,
                strict=True,
            )
        ]
        return float(sum(errors)) / kernel.bound

    def rebuilt(
        self, kernel: CovarianceFunction, X: ArrayLike, **settings: Any
    ) -> KernelBasis:
        return self.with_kernel(kernel)

    def for_kernel_range(
        self,
        low: CovarianceFunction,
        high: CovarianceFunction,
        X: ArrayLike,
        **settings: Any,
    ) -> "SineBasis":
        """Plain sines for every function between one of the shortest lengths and one of the longest, within the same range and with
        the stated `settings`."""
        ends = self.ends
        half = hsgp(high, X, range=ends, **settings).half_width.tolist()
        settings["half_width"] = half
        if "size" in settings:
            settings.pop("tol", None)
        counts = hsgp(low, X, range=ends, **settings).counts
        return replace(
            hsgp(self.kernel, X, range=ends, half_width=half, size=list(counts)),
            plain=True,
        )

    def left_over(self, left: Array, largest: Array) -> Array:
        # the error of k, of either sign: a row with too much variance has none to add
        return np.maximum(left, 0.0)

    def with_kernel(self, kernel: CovarianceFunction) -> Self:
        # the sines are the same for every length; their scales are roots of the density
        return replace(self, kernel=kernel, error=self.error_of(kernel) * kernel.bound)

    def check_shapes(self) -> bool:
        same_width = (
            self.centre.shape
            == self.reach.shape
            == self.half_width.shape
            == (self.width,)
        )
        return (
            same_width
            and self.frequencies.ndim == 2
            and self.frequencies.shape[1] == self.width
        )


@check_arguments
def hsgp(
    kernel: CovarianceFunction | str,
    X: ArrayLike,
    *,
    range: ArrayLike | None = None,
    tol: Fraction | None = None,
    size: Any = None,
    half_width: Any = None,
) -> SineBasis:
    """The Hilbert-space basis: sines that vanish at centre -L and +L, with variances S(omega), for up to three columns.

    The sines act as if every row had a mirror image beyond each end, so that k has an error of k(2 (L - S)) at the end of the range of
    half-width S:
    L = S + k^-1(tol) / 2. There are as many sines as leave a tail of the density below tol.

    Parameters
    ----------
    kernel : CovarianceFunction or str
        Stationary, with a spectral density.
    X : array (n, d)
        Rows; d is at most 3.
    range : (low, high) or sequence of them, optional
        The range of the basis, for all columns or for each; by default the range of X. Rows beyond it raise DataError.
    tol : float, optional
        The error of either kind that is allowed, as a share of k(x, x), 1e-3 by default; not with both `size` and `half_width`.
    size : int or sequence of int, optional
        The number of sines, for all columns or for each.
    half_width : float or sequence of float, optional
        L, for all columns or for each; more than half the range.

    Returns
    -------
    SineBasis
        A basis with `sines`, `frequencies` and `roots`; `error` bounds the error of k within the range.

    Notes
    -----
    If the length is unknown, the largest plausible length determines L, and the smallest the number of sines at that L:
    `half_width` and `counts` of two bases are the settings of the third. `roots(length=...)` are its scales at each length.

    References
    ----------
    Solin & Sarkka 2020; Riutort-Mayol et al. 2023.

    Examples
    --------
    >>> from probreg.kernels import RBF, hsgp
    >>> found = hsgp(RBF(0.5), [-1.0, 1.0], tol=1e-3)
    >>> found.half_width.round(3), found.size, bool(found.error < 2e-3)
    (array([1.929]), 8, True)
    """
    resolved, rows = resolved_at(kernel, X)
    d = rows.shape[1]
    if d > 3:  # the number of functions is a product over columns
        raise DataError(
            f"hsgp takes up to 3 columns, got {d}: write 'cholesky' in its place"
        )
    resolved.spectral_density(np.ones((1, d)))  # raises an error if there is none
    low, high = served_ends(range, rows)
    centre = (low + high) / 2.0
    reach = (high - low) / 2.0
    profiles = [resolved.along(j) for j, _ in enumerate(low)]
    widths, sizes = _one_each("half_width", half_width, d), _one_each("size", size, d)
    if tol is not None and None not in (*widths, *sizes):
        raise DataError(
            "tol= has no effect beside size= and half_width=: leave one of the three out"
        )
    tol = 1e-3 if tol is None else tol
    L = _half_widths(profiles, reach, tol, widths)
    counts = [
        _functions(k, w, tol) if m is None else _check_size(m)
        for k, w, m in zip(profiles, L, sizes, strict=True)
    ]
    if math.prod(counts) > MOST_FUNCTIONS:
        shape = " x ".join(f"{m:,}" for m in counts)
        raise DataError(
            f"this hsgp basis needs {shape} functions: take a larger tol, size=, a longer length, or 'cholesky'"
        )
    grid = np.meshgrid(
        *(np.arange(1, m + 1) * np.pi / (2.0 * w) for m, w in zip(counts, L)),
        indexing="ij",
    )
    frequencies = np.stack(grid, -1).reshape(-1, d)
    sine_basis = SineBasis(
        resolved, "hsgp", d, 0.0, False, centre, reach, L, frequencies
    ).with_kernel(resolved)
    sine_basis.refuse_beyond(rows)
    return sine_basis


def served_ends(stated_range: Any, rows: Array) -> tuple[Array, Array]:
    """Return the least and largest value of each column from `range`, or from rows (n, d) if it is None."""
    d = rows.shape[1]
    if stated_range is None:
        low = rows.min(0)
        high = rows.max(0)
    else:
        ends = read_rows(stated_range, "range")
        if ends.shape == (2, 1):
            ends = ends.T
        if ends.shape not in ((1, 2), (d, 2)):
            raise DataError(
                f"range is (low, high), or one such pair for each of {d} columns, got {brief(stated_range)}"
            )
        low = np.broadcast_to(ends[:, 0], d)
        high = np.broadcast_to(ends[:, 1], d)
    if not (low < high).all():
        j = int(np.argmin(low < high))
        raise DataError(
            f"column {j} has the range {low[j]:g} to {high[j]:g}, which is empty: give range=(low, high)"
        )
    return low, high


def _one_each(name: str, value: Any, d: int) -> list[Any]:
    """One value for each column from one value for all, or from as many as there are columns."""
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        several = list(value)
    else:
        several = [value] * d
    if len(several) != d:
        raise DataError(
            f"{name} is one number, or one for each of {d} columns, got {len(several)}"
        )
    return several


def _check_size(m: Any) -> int:
    if (
        not isinstance(m, int | np.integer)
        or isinstance(m, bool)
        or not 1 <= m <= MOST_FUNCTIONS
    ):
        raise DataError(
            f"size is a whole number from 1 to {MOST_FUNCTIONS:,}, or one for each column, got {brief(m)}"
        )
    return int(m)


def _half_widths(
    profiles: Sequence[CovarianceFunction],
    reach: Array,
    tol: float,
    stated_widths: list[Any],
) -> Array:
    half_widths = []
    for j, (k, s, w) in enumerate(zip(profiles, reach, stated_widths, strict=True)):
        if w is None:
            half_widths.append(s + _inverse_distance(k, tol, s) / 2.0)
        elif not isinstance(w, int | float | np.number) or not np.isfinite(w) or w <= s:
            raise DataError(
                f"half_width is more than {s:g}, half the range of column {j}, got {brief(w)}"
            )
        else:
            half_widths.append(float(w))
    return np.array(half_widths)


def _inverse_distance(k: CovarianceFunction, tol: float, start: float) -> float:
    """k^-1(tol): the distance where a function of one column has fallen to tol k(0)."""
    from scipy.optimize import brentq

    upper = start
    over = lambda r: k([0.0], [r]).item() / k.bound - tol
    while over(upper) > 0:
        upper *= 2.0
    return brentq(over, 0.0, upper, xtol=1e-12 * upper)


def _tails(k: CovarianceFunction, L: float) -> Array:
    """sum_(a > m) S(a pi / 2L) / L for m = 0, 1, ...: the largest contribution of the sines beyond the m-th to k."""
    a = np.arange(1, _TERMS + 1)
    S = k.spectral_density(a * np.pi / (2.0 * L)) / L
    remainder = _TERMS * S[-1]  # a density falls at least as omega^-2
    return np.append(np.cumsum(S[::-1])[::-1], 0.0) + remainder


def _functions(k: CovarianceFunction, L: float, tol: float) -> int:
    """Return the smallest m with a tail of at most tol k(0)."""
    enough = _tails(k, L) <= tol * k.bound
    return int(np.argmax(enough)) if enough.any() else _TERMS


def _image(k: CovarianceFunction, L: float, reach: float) -> float:
    """k(2 (L - S)) + k(2 (L + S)): the images, behind either end of the interval, of a row where the range ends."""
    return float(k([0.0], [2.0 * (L - reach), 2.0 * (L + reach)]).sum())


BASES["hsgp"] = hsgp
