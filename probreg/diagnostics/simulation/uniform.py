"""The distribution of an empirical distribution function of uniform values: an exact test and simultaneous bands.

At increasing points z_i the counts #{u <= z_i} of n independent uniforms are a Markov chain, so that the probability of
staying inside any band is a product of small matrices (Säilynoja, Bürkner & Vehtari 2022).
"""

import numpy as np
from scipy.special import bdtr, gammaln

Array = np.ndarray


def within(low: Array, high: Array, positions: Array, n: int) -> float:
    """P(low_i <= #{u <= at_i} <= high_i for every i) for n independent uniform u and increasing points `positions` in (0, 1).

    Exact: the counts are a Markov chain, N_i+1 - N_i ~ Binomial(n - N_i, (at_i+1 - at_i) / (1 - at_i)). Source:
    Säilynoja, Bürkner & Vehtari 2022, algorithm 2.

    >>> within(np.array([0]), np.array([1]), np.array([0.5]), 2)  # not both below one half
    0.75
    """
    state = np.array([0])
    mass = np.array([1.0])
    before = 0.0
    for lo, hi, z in zip(low, high, positions):
        reached = np.arange(int(lo), int(hi) + 1)
        if not len(reached):
            return 0.0
        # P(N_i+1 = k) = sum_j P(N_i+1 = k | N_i = j) P(N_i = j), summed over the j inside the band only.
        step = _binomial_mass(
            reached[:, None] - state, n - state, (z - before) / (1.0 - before)
        )
        state = reached
        mass = step @ mass
        before = float(z)
    return float(mass.sum())


def _binomial_mass(k: Array, n: Array, p: float) -> Array:
    """P(K = k) for K ~ Binomial(n, p), 0 < p < 1, zero outside 0 .. n."""
    k, n = np.broadcast_arrays(k, n)
    inside = (k >= 0) & (k <= n)
    k = np.where(inside, k, 0)
    # log C(n, k) + k log p + (n - k) log(1 - p)
    log_choices = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    mass = np.exp(log_choices + k * np.log(p) + (n - k) * np.log1p(-p))
    return np.where(inside, mass, 0.0)


def _tails(positions: Array, n: int) -> Array:
    """The two-sided tail probability 2 min(P(K <= k), P(K >= k)) of each count k at each point, (points, n + 1)."""
    k = np.arange(n + 1.0)
    below = bdtr(k, n, positions[:, None])
    # P(K >= k) = 1 - P(K <= k - 1).
    above = 1.0 - np.concatenate([np.zeros((len(positions), 1)), below[:, :-1]], 1)
    return 2.0 * np.minimum(below, above)


def _acceptance_region(
    tails: Array, gamma: float, *, strict: bool = False
) -> tuple[Array, Array]:
    """Return the smallest and largest count with a tail probability of at least (above, if strict) gamma."""
    keep = tails > gamma if strict else tails >= gamma
    n = keep.shape[1] - 1
    empty = ~keep.any(1)
    return np.where(empty, 1, keep.argmax(1)), np.where(
        empty, 0, n - keep[:, ::-1].argmax(1)
    )


def simultaneous(positions: Array, n: int, prob: float) -> tuple[Array, Array]:
    """Return counts (low, high) at each point that contain all counts of n uniforms with probability at least `prob`: the
    narrowest such band with equal tail probabilities at all points.

    >>> low, high = simultaneous(np.array([0.25, 0.5, 0.75]), 100, 0.95)
    >>> low.tolist(), high.tolist()
    ([15, 39, 65], [35, 61, 85])
    """
    tails = _tails(positions, n)
    # Bonferroni's bound lies between, a point alone is the most
    lower_level = 0.0
    upper_level = 1.0 - prob
    # Bisection for the largest gamma such that the band {k: tail(k) >= gamma} contains all counts with probability prob.
    for _ in range(40):
        middle = (lower_level + upper_level) / 2
        if within(*_acceptance_region(tails, middle), positions, n) >= prob:
            lower_level = middle
        else:
            upper_level = middle
    return _acceptance_region(tails, lower_level)


def uniformity(counts: Array, positions: Array, n: int) -> float:
    """Return the exact p-value of H0: n values are independent and uniform, from counts[i] = #{u <= at_i}.

    It is the probability that some point has a tail probability as small as the smallest observed one.

    >>> round(uniformity(np.array([1]), np.array([0.5]), 2), 6), round(uniformity(np.array([0]), np.array([0.5]), 2), 6)
    (1.0, 0.5)
    """
    tails = _tails(positions, n)
    # p = 1 - P(every point has a tail probability above the smallest that was seen).
    smallest = float(
        tails[np.arange(len(positions)), np.asarray(counts, int)].min()
    ) * (1.0 + 1e-9)
    return max(
        0.0,
        1.0 - within(*_acceptance_region(tails, smallest, strict=True), positions, n),
    )


def describe_departure(what: str, mean: float, spread: float, n: int) -> str:
    """Describe how n values in (0, 1), from their mean and the ratio of their variance to 1/12, depart from uniform.

    >>> describe_departure("draws", 0.5, 2.0, 100)
    'draws are too narrow'
    """
    far = 2.0  # standard errors of the mean or variance of ranks that name the shape of a departure
    # Var mean = 1 / (12 n); the variance of a sample variance over its square is (kurtosis - 1) / n = (9/5 - 1) / n.
    tilt = (mean - 0.5) * np.sqrt(12.0 * n)
    width = (spread - 1.0) * np.sqrt(1.25 * n)
    words = []
    if abs(tilt) > far:
        words.append(f"{what} are too {'low' if tilt > 0 else 'high'}")
    if abs(width) > far:
        words.append(f"{what} are too {'narrow' if width > 0 else 'wide'}")
    return " and ".join(words) or f"{what} have the wrong shape"
