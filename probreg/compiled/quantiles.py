"""Quantiles of the rows of a matrix, and of mixtures of normals and of Poisson distributions.

Counting finds a threshold with only a few more numbers below it than needed, in one vectorised pass for each guess. Then only these
numbers are copied and partly sorted. This takes about a nanosecond per number and quantile; `np.partition` of a row of 4,000 takes
about twenty. numba is imported here.

For a normal mixture F(y) = sum_s w_s Phi((y - m_s) / sigma_s), so that a pass over the atoms gives F, its slope and its second derivative by
one exponential and one polynomial each, some 4 ns, and Halley's method from a normal start needs two or three passes; SciPy's `ndtr` takes 20 ns
and the general search of `Predictive` four. For a Poisson mixture, the probabilities of 0, 1, 2, ... follow from each other by one
product an atom. numba is imported here.
"""

import math
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import erfcx

from probreg.compiled.cache import cached_njit
from probreg.compiled.elementary import exp, inline, summing

Array = NDArray[np.float64]
compiled = cached_njit(nogil=True, error_model="numpy", fastmath={"contract"})


@compiled
def quantiles_of_rows(x: Array, place: Array, z: Array, out: Array) -> None:
    """Quantiles of the rows of x (n, S), S >= 2, into `out` (n, k): between the two order statistics around each of the places (k,),
    which count from 0 to S - 1, by linear interpolation; nan if a row has a nan. z (k,) are the normal quantiles of these
    shares, the first guess."""
    n, S = x.shape
    few = np.empty(S)
    for i in range(n):
        row = x[i]
        mean, sd = mean_and_deviation(row)
        for q in range(place.size):
            j = min(int(place[q]), S - 2)
            share = place[q] - j
            # of the side with fewer numbers: the ranks j, j + 1 are S - 2 - j, S - 1 - j of -x, the other way round
            if 2 * j < S:
                sign, rank = (1.0, j)
            else:
                sign = -1.0
                rank = S - 2 - j
            count = _below(row, sign, rank + 2, sign * mean, sd, -abs(z[q]), few)
            if count < 0:
                out[i, q] = math.nan
                continue
            first, second = _adjacent_numbers(few[:count], rank)
            if sign > 0.0:
                low, high = (first, second)
            else:
                low, high = (-second, -first)
            out[i, q] = _interpolate(low, high, share)


@inline
def _adjacent_numbers(x: Array, rank: int) -> tuple[float, float]:
    """Return the numbers of this rank, counted from 0, and of the next rank; x is reordered.

    Hoare's selection: `np.partition` would take nine seconds to compile.
    """
    low = 0
    high = x.size - 1
    while low < high:
        pivot = x[(low + high) // 2]
        left = low
        right = high
        while left <= right:
            while x[left] < pivot:
                left += 1
            while x[right] > pivot:
                right -= 1
            if left <= right:
                x[left], x[right] = x[right], x[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return x[rank], x[rank + 1 :].min()


@inline
def _interpolate(low: float, high: float, share: float) -> float:
    """low + share (high - low), exact at both ends, also at infinite ends."""
    if low == high or share == 0.0:
        return low
    step = high - low
    if math.isinf(step):
        return high if share == 1.0 else low + high
    if share < 0.5:
        return low + step * share
    return high - step * (1.0 - share)


@summing
def mean_and_deviation(x: Array) -> tuple[float, float]:
    """Mean and standard deviation."""
    total = 0.0
    for s in range(x.size):
        total += x[s]
    mean = total / x.size
    square = 0.0
    for s in range(x.size):
        square += (x[s] - mean) * (x[s] - mean)
    return mean, math.sqrt(square / x.size)


@inline
def _below(
    x: Array, sign: float, prob: int, mean: float, sd: float, z: float, few: Array
) -> int:
    """Write the numbers of sign * x up to a threshold into `few`, and return how many they are, or -1 for nan.

    At least `wanted` of the numbers do not exceed the threshold.
    """
    high = threshold(x, sign, prob, mean, sd, z)
    count, is_complete = 0, True
    for s in range(x.size):
        value = sign * x[s]
        few[count] = value
        count += value <= high
    if high == math.inf:
        for s in range(x.size):
            is_complete &= x[s] == x[s]
    return count if is_complete else -1


@inline
def threshold(
    x: Array, sign: float, wanted: int, mean: float, sd: float, z: float
) -> float:
    """Return a threshold that at least `wanted`, and few more, of the numbers sign * x do not exceed.

    The result is inf if no guess succeeds. `mean` and `sd` belong to sign * x, and mean + z sd is the first guess.
    """
    guess = mean + z * sd
    low = -math.inf
    high = math.inf
    # numbers beyond the wanted ones that are not worth another guess
    slack = 16 + wanted // 8
    # after eight guesses all numbers below the last one are kept
    for _ in range(8 if 0.0 < sd < math.inf else 0):
        count = _count(x, sign, guess)
        if count < wanted:
            low = guess
        else:
            high = guess
            if count <= wanted + slack:
                break
        # Newton's step to the middle of the allowed range, as if the density were normal; halved towards a bound if it leaves the range
        step = (
            (wanted + slack / 2 - count)
            / x.size
            * sd
            * math.sqrt(2.0 * math.pi)
            * math.exp(0.5 * z * z)
        )
        candidate = guess + step
        if not low < candidate < high:
            if math.isfinite(high - low):
                candidate = (low + high) / 2
            else:
                candidate = guess + 2.0 * step
        guess = candidate
    return high


@inline
def _count(x: Array, sign: float, threshold: float) -> int:
    """How many of sign * x do not exceed the threshold."""
    count = 0
    for s in range(x.size):
        count += sign * x[s] <= threshold
    return count


compiled_mixture = cached_njit(
    nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)
_SHIFT = 3.75
MOST_POISSON_MEAN = 300.0  # up to this mean a Poisson atom starts from the probability of 0: e^-300 does not underflow, and 300 products are few


def _scaled_erfcx(t: Array) -> Array:
    """(1 + 2 x) e^(x^2) erfc(x) at t = (x - 3.75) / (x + 3.75), which varies from 1 at x = 0 to 2 / sqrt(pi) (Shepherd & Laframboise 1981)."""
    x = _SHIFT * (1.0 + t) / np.maximum(1.0 - t, 1e-300)
    return np.where(t < 1.0, (1.0 + 2.0 * x) * erfcx(x), 2.0 / math.sqrt(math.pi))


_interpolated: Any = chebyshev.chebinterpolate
_P = chebyshev.cheb2poly(_interpolated(_scaled_erfcx, 20))  # to 4e-15 of the value


@summing
def _erfcx_polynomial(t: float) -> float:
    """Return the polynomial `_P` at t by Horner's rule."""
    p = _P[20]
    for k in range(19, -1, -1):
        p = p * t + _P[k]
    return p


@summing
def _moments(m: Array, sigma: Array, share: Array) -> tuple[float, float, float]:
    """Return the mean of a mixture of normals, its spread about the mean, and the smallest scale."""
    S = m.size
    centre = 0.0
    square = 0.0
    smallest = math.inf
    for s in range(S):
        centre += share[s] * m[s]
        smallest = sigma[s] if sigma[s] < smallest else smallest
    for s in range(S):
        square += share[s] * (sigma[s] * sigma[s] + (m[s] - centre) * (m[s] - centre))
    width = math.sqrt(square)
    return centre, width, smallest


@compiled_mixture
def normal_mixture_quantiles(
    mean: Array, scale: Array, share: Array, prob: float, z: float, out: Array
) -> None:
    """The quantile at prob <= 1/2 of each row of normals (n, S) with weights (S,), into `out` (n,); scale is (1, S)
    if rows do not differ. z is the normal quantile of `prob`. A row is nan if its search does not converge."""
    n, S = mean.shape
    for i in range(n):
        m = mean[i]
        sigma = scale[i if scale.shape[0] > 1 else 0]
        centre, width, smallest = _moments(m, sigma, share)
        y = centre + z * width
        low = -math.inf
        high = math.inf
        reach = width
        root = math.nan
        for _ in range(200):
            F, f, slope = 0.0, 0.0, 0.0
            for s in range(S):
                r = (y - m[s]) / sigma[s]
                x = abs(r) / math.sqrt(2.0)
                t = (x - _SHIFT) / (x + _SHIFT)
                p = _erfcx_polynomial(t)
                e = exp(-x * x)
                tail = 0.5 * e * p / (1.0 + 2.0 * x)
                F += share[s] * (tail if r < 0.0 else 1.0 - tail)
                # d Phi / d y = phi / sigma, and d2 = -r phi / sigma^2
                d = share[s] * e / sigma[s]
                f += d
                slope -= d * r / sigma[s]
            f = f / math.sqrt(2.0 * math.pi)
            slope = slope / math.sqrt(2.0 * math.pi)
            gap = F - prob
            low, high = (y, high) if gap < 0.0 else (low, y)
            # Halley: y - g f / (f^2 - g f' / 2), g = F - prob, where |g f'| <= f^2; in a lower tail it is below f^2 on the right of the root
            safe = f > 1e-290 and abs(gap * slope) <= f * f
            if safe:
                step = -gap * f / (f * f - 0.5 * gap * slope)
            else:
                step = 0.0
            new = y + step
            safe = safe and low < new < high and abs(step) <= width
            # a step this short, relative to the least scale, leaves the cube of it
            if safe and abs(step) <= 1e-5 * smallest:
                root = new
                break
            if gap == 0.0 or high - low <= 2.3e-16 * abs(y):
                root = y
                break
            if not safe:
                if math.isinf(high) or math.isinf(low):
                    new = y + reach if gap < 0.0 else y - reach
                    reach = 2.0 * reach
                else:
                    new = 0.5 * (low + high)
            y = new
        out[i] = root


@compiled_mixture
def poisson_mixture_quantiles(
    mean: Array, share: Array, prob: float, term: Array, out: Array
) -> None:
    """The least k with sum_s w_s P(Y <= k | mean_s) >= prob of each row of means (n, S) up to `MOST_POISSON_MEAN`, into `out` (n,); `term` (S,) is
    written to."""
    n, S = mean.shape
    for i in range(n):
        m = mean[i]
        upto = 0.0
        top = 0.0
        for s in range(S):
            term[s] = share[s] * exp(-m[s])
            upto += term[s]
            top = m[s] if m[s] > top else top
        k, last = (
            0.0,
            top + 40.0 * math.sqrt(top + 1.0) + 40.0,
        )  # beyond it the rest is rounding
        while upto < prob and k < last:
            # P(k) = P(k - 1) mean / k
            k += 1.0
            remainder = 0.0
            for s in range(S):
                term[s] *= m[s] / k
                remainder += term[s]
            upto += remainder
        out[i] = k
