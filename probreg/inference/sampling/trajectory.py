"""One chain of the No-U-Turn sampler, as plain functions that are compiled: the density is a function pointer, so that they are
compiled once for all models, and no step asks for the interpreter's lock.

A point z has the momentum p ~ N(0, M), M diagonal, and the energy H(z, p) = p' M^-1 p / 2 - log p(z). From it the trajectory
of H is followed, forward or backward in time as a coin falls, twice as far at each doubling, until its ends begin to come
closer to each other; a point of it is drawn with weights exp(-H). Sources: Hoffman & Gelman 2014 for the trajectory and the
step size; Betancourt 2017 for the weights; Phan, Pradhan & Jankowiak 2019 for the tree without recursion.

All vectors are rows of one array w (ROWS, d), and functions take the numbers of rows, which `Places` names: compiling slices of many
arrays took half as long again. The numbers come as an argument, since numba compiles a function again for each constant it is called with.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST_DOUBLINGS = 10
FAR = 1000.0  # of an energy: a step with a larger error diverges

# The columns of the statistics of draws. ACCEPTED is the mean of min(1, exp(H_0 - H)) over the steps.
DIVERGING, ENERGY, DEPTH, STEPS, STEP, ACCEPTED, LOG_P = range(7)
MIDDLE, LOG_STEP, LOG_MEAN, SHORTFALL, COUNT = range(
    5
)  # the entries of the state of dual averaging


class Places(NamedTuple):
    """Where the vectors of a chain begin among the rows of w."""

    point: int = 0  # z, slope: where the chain is
    chosen: int = 2  # z, slope: a point drawn from the last half of the trajectory
    backward: int = 4  # z, p, slope: its ends
    forward: int = 7
    near: int = 10  # z, p: where the last half began
    firsts: int = 12  # z, p of leaves that are first in a piece, and last in a left half, by level
    lasts: int = 12 + 2 * (MOST_DOUBLINGS + 1)


MASS = 12 + 4 * (MOST_DOUBLINGS + 1)  # the row of the diagonal of M^-1
ROWS = MASS + 1


def uniform(rng: Any) -> float:
    """A number from [0, 1); compiled code takes it from the C function of the generator."""
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
    """One step of Hamilton's equations from the rows z, p, slope at `end`, in place; log p where it ends."""
    z = end
    p = end + 1
    slope = end + 2
    # p <- p + (e/2) grad, z <- z + e M^-1 p, p <- p + (e/2) grad, which keeps volume and can be run back.
    for i in range(w.shape[1]):
        w[p, i] += 0.5 * step * w[slope, i]
        w[z, i] += step * w[MASS, i] * w[p, i]
    log_p = density_at(density, w, z, slope, data)
    for i in range(w.shape[1]):
        w[p, i] += 0.5 * step * w[slope, i]
    return log_p


def turned(w: Array, last: int, first: int, way: float) -> bool:
    """Whether one end of a piece, as it moves on, comes closer to the other end; both are rows z, p."""
    # d/dt |z - z_then|^2 / 2 = (z - z_then)'p <= 0 at either end, with time running the piece's way.
    here, there = 0.0, 0.0
    for i in range(w.shape[1]):
        apart = way * (w[last, i] - w[first, i])
        here += apart * w[last + 1, i]
        there += apart * w[first + 1, i]
    return here <= 0.0 or there <= 0.0


def turned_joint(
    w: Array, first: int, middle: int, before: int, last: int, way: float
) -> bool:
    """Whether two adjacent pieces have turned, as one or where they meet: the rows z, p of the first leaf, the first leaf of
    the second piece, the leaf before it and the last leaf."""
    # The two further checks find a turn that the ends miss where steps and a half period are in resonance.
    return (
        turned(w, last, first, way)
        or turned(w, middle, first, way)
        or turned(w, last, before, way)
    )


def copy(w: Array, this: int, there: int) -> None:
    """The two rows at `this` into those at `there`."""
    for i in range(w.shape[1]):
        w[there, i] = w[this, i]
        w[there + 1, i] = w[this + 1, i]


def log_sum(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    top, low = (a, b) if a > b else (b, a)
    if top == -math.inf:
        return top
    return top + math.log1p(math.exp(low - top))


def extend(
    density: Any, data: Any, w: Array, at: Any, end: int, step: float, leaves: int, start: float, rng: Any, halt: Array, stats: Array,
    s: int,
) -> tuple[bool, float, float]:  # fmt: skip
    """`leaves` steps on from `end`, which is moved: whether they ended without a turn or a divergence, the log of their total weight
    exp(H_0 - H), H_0 = `start`, and log p of `chosen`, one of them drawn by weight. Row s of `stats` counts."""
    way = 1.0 if step > 0.0 else -1.0
    weight, log_p_chosen, whole = -math.inf, -math.inf, True
    for n in range(leaves):
        if halt[0] != 0.0:
            whole = False
            break
        log_p = leapfrog(density, data, w, end, step)
        energy = kinetic(w, end + 1) - log_p
        error = energy - start
        stats[s, STEPS] += 1.0
        if not error < FAR:  # nan too
            stats[s, DIVERGING] = 1.0
            whole = False
            break
        stats[s, ACCEPTED] += 1.0 if error < 0.0 else math.exp(-error)
        # Each leaf takes the place of those before it with its share of their weight, so that all have their shares at the end.
        weight = log_sum(weight, -error)
        if math.log(uniform(rng)) < -error - weight:
            for i in range(w.shape[1]):
                w[at.chosen, i] = w[end, i]
                w[at.chosen + 1, i] = w[end + 2, i]
            log_p_chosen = log_p
            stats[s, ENERGY] = energy
        # A binary tree over the leaves: a piece of 2^r leaves that ends at leaf n begins at n with its last r ones made zeros. A first
        # leaf is kept in the place of its number of ones, and the last leaf of a left half in that of its ones at the end; none is
        # overwritten while it is needed.
        first = at.firsts
        last = at.lasts
        rest = n
        while rest:
            first += 2 * (rest & 1)
            rest >>= 1
        copy(w, end, first)
        rest = n
        while rest & 1 and whole:
            first = first - 2
            rest = rest >> 1
            whole = not turned_joint(w, first, first + 2, last, end, way)
            last += 2
        if not whole:
            break
        copy(w, end, last)
    return whole, weight, log_p_chosen


def transition(
    density: Any, data: Any, w: Array, at: Any, log_p: float, draws: Array, step: float, rng: Any, halt: Array, stats: Array, s: int
) -> float:  # fmt: skip
    """From the point of the chain to the next, in place; log p there. Row s of `draws` (S, d) are standard normal numbers."""
    for i in range(w.shape[1]):
        p = draws[s, i] / math.sqrt(w[MASS, i])
        for end in (at.backward, at.forward):
            w[end, i], w[end + 1, i], w[end + 2, i] = (
                w[at.point, i],
                p,
                w[at.point + 1, i],
            )
    start = kinetic(w, at.forward + 1) - log_p
    weight, depth = 0.0, 0
    for k in range(stats.shape[1]):
        stats[s, k] = 0.0
    energy = start
    while depth < MOST_DOUBLINGS:
        end = at.backward
        other = at.forward
        way = -1.0
        if uniform(rng) < 0.5:
            end = at.forward
            other = at.backward
            way = 1.0
        copy(w, end, at.near)
        whole, more, log_p_chosen = extend(
            density,
            data,
            w,
            at,
            end,
            way * step,
            1 << depth,
            start,
            rng,
            halt,
            stats,
            s,
        )
        if not whole:
            break
        depth += 1
        # A point of the new half with probability min(1, its weight / that of the old half): farther than by shares.
        if math.log(uniform(rng)) < more - weight:
            copy(w, at.chosen, at.point)
            log_p = log_p_chosen
            energy = stats[s, ENERGY]
        weight = log_sum(weight, more)
        if turned_joint(w, other, at.firsts, at.near, end, way):
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
    """Dual averaging of log step, towards a mean acceptance probability of the target: `short` is target - acceptance."""
    # Hoffman & Gelman 2014, section 3.2.1, with their t_0 = 10 and kappa = 0.75, and gamma = 0.2 in place of 0.05: steps that vary
    # less about their mean, whose acceptance is then the target and not 0.1 above it.
    # h <- h + (short - h) / (t + t_0), log e = middle - h sqrt(t) / gamma, log mean e <- its mean with weights t^-kappa.
    state[COUNT] += 1.0
    t = state[COUNT]
    state[SHORTFALL] += (short - state[SHORTFALL]) / (t + 10.0)
    state[LOG_STEP] = state[MIDDLE] - state[SHORTFALL] * math.sqrt(t) / 0.2
    share = t**-0.75
    state[LOG_MEAN] += share * (state[LOG_STEP] - state[LOG_MEAN])


def walk(
    density: Any, data: Any, w: Array, at: Any, state: Array, target: float, rng: Any, halt: Array, done: Array, draws: Array,
    stats: Array,
) -> float:  # fmt: skip
    """As many draws as `draws` (S, d) has rows, from the point of w on, with their statistics (S, 7), and log p at the last. Where `target`
    is above zero the step is adapted, and else it is the mean of those met. `draws` comes with standard normal numbers, of which each row
    is the momentum of its draw before the draw takes its place: compiling numba's own normal numbers takes 0.3 s."""
    log_p = density_at(density, w, at.point, at.point + 1, data)
    for s in range(draws.shape[0]):
        step = math.exp(state[LOG_STEP] if target > 0.0 else state[LOG_MEAN])
        log_p = transition(
            density, data, w, at, log_p, draws, step, rng, halt, stats, s
        )
        if halt[0] != 0.0:
            break
        if target > 0.0:
            adapt(state, target - stats[s, ACCEPTED])
        for i in range(w.shape[1]):
            draws[s, i] = w[at.point, i]
        done[0] += 1.0
    return log_p


def named_statistics(stats: Array) -> dict[str, Any]:
    """What ArviZ calls the statistics (..., 7) of draws."""
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
