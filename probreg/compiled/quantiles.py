"""Two neighbouring order statistics of each row of a matrix, and the quantile between them: exact, in some four passes over a row.
Mean and standard deviation of each row.

A threshold that little more than the wanted numbers lie below is found by counting, which is one vectorised pass for each guess; then
these few alone are moved and partly sorted. Per number and quantile that is about a nanosecond, where `np.partition` of a row of 4,000
takes some twenty. numba is imported here.
"""

import math

import numpy as np
from numpy.typing import NDArray

from probreg.compiled.cache import cached_njit
from probreg.compiled.elementary import inline, summing

Array = NDArray[np.float64]
compiled = cached_njit(nogil=True, error_model="numpy", fastmath={"contract"})


@compiled
def quantiles_of_rows(x: Array, place: Array, z: Array, out: Array) -> None:
    """Quantiles of the rows of x (n, S), S >= 2, into `out` (n, k): between the two order statistics around each of the places (k,),
    which count from 0 to S - 1, by linear interpolation; nan where a row has a nan. z (k,) are the normal quantiles of these
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
    """low + share (high - low), exact at both ends, infinite ones too."""
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

    The result is inf if no guess succeeds. `mean` and `sd` are of sign * x, and mean + z sd is the first guess.
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
