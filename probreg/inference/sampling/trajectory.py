"""One chain of the No-U-Turn sampler, as plain functions for compilation.

The density is a function pointer, so they are compiled once for all models, and no step
needs the interpreter's lock.

A point z has the momentum p ~ N(0, M), M diagonal, and the energy H(z, p) = p' M^-1 p /
2 - log p(z). From it the trajectory of H is followed, forward or backward in time at
random, twice as far at each doubling, until its ends begin to approach each other; a
point of it is drawn with weights exp(-H). Sources: Hoffman & Gelman 2014 for the
trajectory and the step size; Betancourt 2017 for the weights; Phan, Pradhan & Jankowiak
2019 for the tree without recursion.

All vectors are rows of one array w (ROWS, d), and functions take row numbers from
`Places`, because slices of many arrays take longer to compile. The numbers are an
argument, because numba compiles a function for each constant.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST_DOUBLINGS = 10

# The columns of the statistics of draws. ACCEPTED is the mean of min(1, exp(H_0 - H)) over the steps.
DIVERGING, ENERGY, DEPTH, STEPS, STEP, ACCEPTED, LOG_P = range(7)
# the entries of the state of dual averaging
MIDDLE, LOG_STEP, LOG_MEAN, SHORTFALL, COUNT = range(5)


class Places(NamedTuple):
    """The first rows of the vectors of a chain in w."""

    point: int = 0  # z, slope: the current point
    chosen: int = 2  # z, slope: a point drawn from the last half of the trajectory
    backward: int = 4  # z, p, slope: its ends
    forward: int = 7
    near: int = 10  # z, p: the start of the last half
    firsts: int = 12  # z, p of leaves that are first in a piece, and last in a left half, by level
    lasts: int = 12 + 2 * (MOST_DOUBLINGS + 1)


MASS = 12 + 4 * (MOST_DOUBLINGS + 1)  # the row of the diagonal of M^-1
ROWS = MASS + 1


def uniform(rng: Any) -> float:
    """A number from [0, 1); compiled code uses the C function of the generator."""
    return float(rng.random())


def density_at(density: Any, w: Array, z: int, slope: int, data: Any) -> float:
    """log p at row z of w, its slopes into row `slope`; compiled code calls a C function."""
    return float(density(w[z], w[slope], data))


def kinetic(w: Array, p: int) -> float:
    """p' M^-1 p / 2 of row p."""
    total = 0.0
    for i in range(w.shape[1]):
        total += w[p, i] * w[MASS, i] * w[p, i]
    return 0.5 * total


def leapfrog(density: Any, data: Any, w: Array, end: int, step: float) -> float:
    """Make one step of Hamilton's equations from the rows z, p, slope at `end`, in
    place; return log p at its end."""
    z = end
    p = end + 1
    slope = end + 2
    # p <- p + (e/2) grad, z <- z + e M^-1 p, p <- p + (e/2) grad, which preserves
    # volume and is reversible.
    for i in range(w.shape[1]):
        w[p, i] += 0.5 * step * w[slope, i]
        w[z, i] += step * w[MASS, i] * w[p, i]
    log_p = density_at(density, w, z, slope, data)
    for i in range(w.shape[1]):
        w[p, i] += 0.5 * step * w[slope, i]
    return log_p


def has_turned(w: Array, last: int, first: int, way: float) -> bool:
    """Whether one end of a piece approaches the other end; both are rows z, p."""
    # d/dt |z - z_other|^2 / 2 = (z - z_other)'p <= 0 at either end, with time in the
    # direction of the piece.
    at_last, at_first = 0.0, 0.0
    for i in range(w.shape[1]):
        gap = way * (w[last, i] - w[first, i])
        at_last += gap * w[last + 1, i]
        at_first += gap * w[first + 1, i]
    return at_last <= 0.0 or at_first <= 0.0


def has_turned_jointly(
    w: Array, first: int, middle: int, before: int, last: int, way: float
) -> bool:
    """Whether two adjacent pieces have turned, together or at their junction: the rows
    z, p of the first leaf, the first leaf of the second piece, the leaf before it and
    the last leaf."""
    # The two further checks find a turn that the ends miss if steps and a half period
    # are in resonance.
    return (
        has_turned(w, last, first, way)
        or has_turned(w, middle, first, way)
        or has_turned(w, last, before, way)
    )


def copy(w: Array, source: int, target: int) -> None:
    """Copy the two rows at `source` to `target`."""
    for i in range(w.shape[1]):
        w[target, i] = w[source, i]
        w[target + 1, i] = w[source + 1, i]


def log_sum(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    top, low = (a, b) if a > b else (b, a)
    if top == -math.inf:
        return top
    return top + math.log1p(math.exp(low - top))


def extend(
    density: Any, data: Any, w: Array, places: Any, end: int, step: float, leaves: int, start: float, rng: Any, halt: Array, stats: Array,
    s: int,
) -> tuple[bool, float, float]:  # fmt: skip
    """Make `leaves` steps from `end`, which is moved.

    Returns whether there was no turn and no divergence, the log of their total weight
    exp(H_0 - H), H_0 = `start`, and log p of `chosen`, one of them drawn by weight. Row
    s of `stats` counts.
    """
    way = 1.0 if step > 0.0 else -1.0
    weight, log_p_chosen, complete = -math.inf, -math.inf, True
    for n in range(leaves):
        if halt[0] != 0.0:
            complete = False
            break
        log_p = leapfrog(density, data, w, end, step)
        energy = kinetic(w, end + 1) - log_p
        error = energy - start
        stats[s, STEPS] += 1.0
        if not error < 1000.0:  # the step diverges; nan too
            stats[s, DIVERGING] = 1.0
            complete = False
            break
        stats[s, ACCEPTED] += 1.0 if error < 0.0 else math.exp(-error)
        # Each leaf replaces the chosen one with its share of the weight so far, so that
        # all have their shares at the end.
        weight = log_sum(weight, -error)
        if math.log(uniform(rng)) < -error - weight:
            for i in range(w.shape[1]):
                w[places.chosen, i] = w[end, i]
                w[places.chosen + 1, i] = w[end + 2, i]
            log_p_chosen = log_p
            stats[s, ENERGY] = energy
        # A binary tree over the leaves: a piece of 2^r leaves that ends at leaf n
        # begins at n with its last r ones replaced by zeros. A first
        # leaf is stored at its number of ones, and the last leaf of a left half at its
        # number of trailing ones; none is
        # overwritten while it is needed.
        first = places.firsts
        last = places.lasts
        bits = n
        while bits:
            first += 2 * (bits & 1)
            bits >>= 1
        copy(w, end, first)
        bits = n
        while bits & 1 and complete:
            first = first - 2
            bits = bits >> 1
            complete = not has_turned_jointly(w, first, first + 2, last, end, way)
            last += 2
        if not complete:
            break
        copy(w, end, last)
    return complete, weight, log_p_chosen


def transition(
    density: Any, data: Any, w: Array, places: Any, log_p: float, draws: Array, step: float, rng: Any, halt: Array, stats: Array, s: int
) -> float:  # fmt: skip
    """Move from the current point to the next, in place; return log p there. Row s of
    `draws` (S, d) are standard normal numbers."""
    for i in range(w.shape[1]):
        p = draws[s, i] / math.sqrt(w[MASS, i])
        for end in (places.backward, places.forward):
            w[end, i], w[end + 1, i], w[end + 2, i] = (
                w[places.point, i],
                p,
                w[places.point + 1, i],
            )
    start = kinetic(w, places.forward + 1) - log_p
    weight, depth = 0.0, 0
    for k in range(stats.shape[1]):
        stats[s, k] = 0.0
    energy = start
    while depth < MOST_DOUBLINGS:
        end = places.backward
        other_end = places.forward
        way = -1.0
        if uniform(rng) < 0.5:
            end = places.forward
            other_end = places.backward
            way = 1.0
        copy(w, end, places.near)
        complete, weight_new, log_p_chosen = extend(
            density,
            data,
            w,
            places,
            end,
            way * step,
            1 << depth,
            start,
            rng,
            halt,
            stats,
            s,
        )
        if not complete:
            break
        depth += 1
        # A point of the new half with probability min(1, its weight / weight of the old
        # half): farther than by shares.
        if math.log(uniform(rng)) < weight_new - weight:
            copy(w, places.chosen, places.point)
            log_p = log_p_chosen
            energy = stats[s, ENERGY]
        weight = log_sum(weight, weight_new)
        if has_turned_jointly(w, other_end, places.firsts, places.near, end, way):
            break
    stats[s, ENERGY], stats[s, DEPTH], stats[s, STEP], stats[s, LOG_P] = (
        energy,
        depth,
        step,
        log_p,
    )
    if stats[s, STEPS] > 1.0:
        stats[s, ACCEPTED] /= stats[s, STEPS]
    return log_p


def adapt(state: Array, short: float) -> None:
    """Dual averaging of log step, towards a target acceptance probability: `short` is
    target - acceptance."""
    # Hoffman & Gelman 2014, section 3.2.1, with their t_0 = 10 and kappa = 0.75, and
    # gamma = 0.2 instead of 0.05: steps vary
    # less about their mean, which then has the target acceptance and not 0.1 more.
    # h <- h + (short - h) / (t + t_0), log e = middle - h sqrt(t) / gamma, log mean e <- its mean with weights t^-kappa.
    state[COUNT] += 1.0
    t = state[COUNT]
    state[SHORTFALL] += (short - state[SHORTFALL]) / (t + 10.0)
    state[LOG_STEP] = state[MIDDLE] - state[SHORTFALL] * math.sqrt(t) / 0.2
    share = t**-0.75
    state[LOG_MEAN] += share * (state[LOG_STEP] - state[LOG_MEAN])


def run_chain(
    density: Any, data: Any, w: Array, places: Any, state: Array, target: float, rng: Any, halt: Array, done: Array, draws: Array,
    stats: Array,
) -> float:  # fmt: skip
    """Make as many draws as `draws` (S, d) has rows, with their statistics (S, 7);
    return log p at the last.

    If `target` is above zero the step is adapted, otherwise it is the mean of the
    adapted ones. `draws` contains standard normal numbers at the start; each row is the
    momentum of its draw before the draw replaces it.
    """
    log_p = density_at(density, w, places.point, places.point + 1, data)
    for s in range(draws.shape[0]):
        step = math.exp(state[LOG_STEP] if target > 0.0 else state[LOG_MEAN])
        log_p = transition(
            density, data, w, places, log_p, draws, step, rng, halt, stats, s
        )
        if halt[0] != 0.0:
            break
        if target > 0.0:
            adapt(state, target - stats[s, ACCEPTED])
        for i in range(w.shape[1]):
            draws[s, i] = w[places.point, i]
        done[0] += 1.0
    return log_p


def named_statistics(stats: Array) -> dict[str, Any]:
    """Return the statistics (..., 7) of draws by their names in ArviZ."""
    return {
        "diverging": stats[..., DIVERGING] > 0.0,
        "energy": stats[..., ENERGY],
        "tree_depth": stats[..., DEPTH].astype(int),
        "reached_max_treedepth": stats[..., DEPTH] >= MOST_DOUBLINGS,
        "n_steps": stats[..., STEPS].astype(int),
        "step_size": stats[..., STEP],
        "acceptance_rate": stats[..., ACCEPTED],
        "lp_unconstrained": stats[..., LOG_P],
    }
