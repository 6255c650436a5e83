"""The sums over rows that a model needs, as pure functions of a block of rows.

Each takes a `Block` of any size and returns the sums over its rows, so that it works for a whole matrix in memory, a batch of a
file and a partition on another machine. All are module-level functions of arrays and values, so that they can be pickled.
Sums of many densities use the compiled density of the likelihood, others NumPy: see COMPILED.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np

from probreg.compiled import CompiledDensity, loops_of
from probreg.data import AnyMoments, Block, Frame, Moments
from probreg.data.checked_arrays import plus_offset, times_weights
from probreg.data.implicit_columns import PredictorColumns
from probreg.likelihoods import DifferentiableLikelihood, Likelihood
from probreg.linalg import weighted_gram
from probreg.special import differentiate

Array = np.ndarray
Sums = tuple[Array, ...]

# Compiled code computes the sums of blocks with at least this product: rows x points x linear predictors. NumPy needs about 10 ms
# for such a block. numba takes 0.3 s to load and 2 s for the first use of a density on a machine, too long for a fit of few rows.
COMPILED = 400_000
_PREDICTOR_STEP = 1e-3  # of a linear predictor, in units of the noise, and of log aux: differences of fourth order then have an error of 1e-12


def log_lik(
    block: Block,
    *,
    likelihood: Likelihood,
    beta: Array,
    aux_values: Mapping[str, Array],
) -> Sums:
    """sum_i w_i log p(y_i | x_i beta, aux), shape (...,) for beta (..., p, m) and each aux (..., 1).

    >>> from probreg.likelihoods import Gaussian
    >>> block = Block(np.ones((2, 1)), np.array([0.0, 2.0]))
    >>> log_lik(block, likelihood=Gaussian(), beta=np.ones((1, 1)), aux_values={"sigma": np.ones(1)})[0].round(6).item()
    -2.837877
    """

    points = np.broadcast_shapes(
        beta.shape[:-2], *(np.shape(v)[:-1] for v in aux_values.values())
    )
    p, m = beta.shape[-2:]
    log_densities = log_densities_at(
        block,
        likelihood,
        np.broadcast_to(beta, (*points, p, m)).reshape(-1, p, m),
        {k: np.broadcast_to(v, (*points, 1)) for k, v in aux_values.items()},
    )

    def part(rows: Block) -> Sums:
        return (_weighted_sum(log_densities(rows), rows.weights),)

    width = max(p, math.prod(points) * m)
    return (block.sweep(part, width=width)[0].reshape(points),)


def _weighted_sum(values: Array, weights: Array | None) -> Array:
    """sum_i w_i v_i (...) of values (..., n)."""
    return np.asarray((values if weights is None else values * weights).sum(-1))


def saturated_gain(
    block: Block,
    *,
    likelihood: Likelihood,
    beta: Array,
    aux_values: Mapping[str, float],
) -> Sums:
    """sum_i w_i (log p(y_i | its own eta) - log p(y_i | x_i beta)), half a deviance over its dispersion."""

    def part(rows: Block) -> Sums:
        aux_rows = likelihood.at_rows(aux_values, rows.precision)
        eta = rows.eta(beta)
        gain = likelihood.saturated_log_prob(rows.y, eta, **aux_rows)
        gain = gain - likelihood.log_prob(rows.y, eta, **aux_rows)
        return (_weighted_sum(gain, rows.weights),)

    return block.sweep(part, width=beta.shape[-2])


def residual_squares(block: Block, *, beta: Array) -> Sums:
    """sum_i w_i omega_i (y_i - x_i beta)^2 of one linear predictor."""

    def part(rows: Block) -> Sums:
        r = rows.y - rows.eta(beta)[..., 0]
        square = r * r if rows.precision is None else rows.precision * r * r
        return (_weighted_sum(square, rows.weights),)

    return block.sweep(part, width=beta.shape[-2])


def compiled_density_of(
    likelihood: Likelihood, block: Block, points: int
) -> CompiledDensity | None:
    """Return the compiled density if there is one and it saves time, else None."""
    rows = max(block.rows, _whole.get())
    if (
        not isinstance(likelihood, DifferentiableLikelihood)
        or likelihood.least_squares
        or rows * points * likelihood.width < COMPILED
    ):
        return None
    return likelihood.compiled_density


@contextmanager
def sample_of(rows: int) -> Iterator[None]:
    """Inside this context blocks are a sample of `rows` rows: compiled code sums them if it would sum all these rows.

    >>> with sample_of(10**6):
    ...     _whole.get()
    1000000
    """
    token = _whole.set(max(rows, _whole.get()))
    try:
        yield
    finally:
        _whole.reset(token)


_whole: ContextVar[int] = ContextVar("whole", default=0)


def log_densities_at(
    block: Block, likelihood: Any, beta: Array, aux_values: Mapping[str, Array | float]
) -> Callable[[Block], Array]:
    """Return the function from a part of the rows of `block` to log p(y_i | x_i beta_s, aux_s) (S, b).

    It uses compiled code if this saves time.

    Parameters
    ----------
    block : Block
        All rows.
    likelihood : Likelihood
        Its density.
    beta : Array
        (S, p, m) points.
    aux_values : mapping
        Each nuisance parameter, with S values or one number.

    Examples
    --------
    >>> from probreg.likelihoods import Gaussian
    >>> block = Block(np.ones((2, 1)), np.array([0.0, 2.0]))
    >>> log_densities_at(block, Gaussian(), np.ones((1, 1, 1)), {"sigma": 1.0})(block).round(4)
    array([[-1.4189, -1.4189]])
    """
    S = len(beta)
    aux = {
        k: np.broadcast_to(np.reshape(v, (-1, 1)), (S, 1))
        for k, v in aux_values.items()
    }
    density = compiled_density_of(likelihood, block, S)
    if density is None:
        return lambda rows: likelihood.log_prob(
            rows.y, rows.eta(beta), **likelihood.at_rows(aux, rows.precision)
        )
    values = loops_of(density).values
    points = writable(density_coefficients(block.X, likelihood, beta).mT)
    settings = likelihood.settings(**{k: v[:, 0] for k, v in aux.items()})
    t = np.array([np.broadcast_to(v, S) for v in settings])
    t = writable(t.reshape(len(settings), S).T)

    def compiled(rows: Block) -> Array:
        X, y, _, offset = plain_rows(rows, rows.X, likelihood)
        log_p = np.empty((S, rows.rows))
        values(X, y, offset, points, t, log_p)
        log_p += base_measure_of_rows(rows, likelihood)
        return log_p

    return compiled


def density_places(X: Any, likelihood: DifferentiableLikelihood) -> Array:
    """The place of each entry of vec(beta) among the coefficients of rows X (n, p) in compiled loops, (p, width) row by row."""
    rows = np.array(likelihood.density_rows)
    first = likelihood.density_width * np.arange(X.shape[1])
    if isinstance(X, PredictorColumns):
        return first + rows[X.owner]
    return np.add.outer(first, rows).ravel()


def density_coefficients(
    X: Any, likelihood: DifferentiableLikelihood, beta: Array
) -> Array:
    """The coefficients (..., p, width) of compiled loops from beta (..., p, m)."""
    *points, p, _ = beta.shape
    values = np.zeros((*points, p * likelihood.density_width))
    values[..., density_places(X, likelihood)] = beta.reshape(*points, -1)
    return values.reshape(*points, p, -1)


def plain_rows(
    rows: Block, U: Any, likelihood: DifferentiableLikelihood
) -> tuple[Array, Array, Array, Array]:
    """Return rows in the layout of compiled loops: without weights their shape is (0,), and the offset is (width, b) or (0, b)."""
    w = np.zeros(0)
    offset = np.zeros((0, rows.rows))
    y = rows.y
    if rows.weights is not None:
        w = writable(rows.weights)
    if rows.offset is not None:
        offset = np.zeros((likelihood.density_width, rows.rows))
        offset[likelihood.density_rows] = rows.offset.T
    # p(y | eta, s) = f((y - eta) / s) / s: rows times root w have one noise scale
    if rows.precision is not None:
        root = np.sqrt(rows.precision)
        U = U * root[:, None]
        y = y * root
        offset = offset * root
    return writable(U), writable(y), w, writable(offset)


def writable(values: Array) -> Array:
    """Return writable floats in C order, the only type that loops are compiled for; other arrays are copied."""
    return np.require(values, float, ["C", "W", "E"])


def base_measure_of_rows(rows: Block, likelihood: DifferentiableLikelihood) -> Array:
    """Return the terms of log p_i that the density omits, (b,); for rows multiplied by root w also log(w) / 2."""
    base = likelihood.base_measure(rows.y)
    if rows.precision is None:
        return base
    return base + 0.5 * np.log(rows.precision)


def value_grad_hessian(
    block: Block, *, likelihood: DifferentiableLikelihood, unknown: tuple[str, ...], gamma: Array, frame: Frame | None,
    aux_values: Mapping[str, float], curved: bool,
) -> Sums:  # fmt: skip
    """The log-likelihood with its slopes and negative second derivatives over (gamma, log aux), in one pass.

    A `frame` standardises the columns. Returns the value, d/d gamma (p, m), d/d log aux (a,), and if
    `curved` the curvatures (p m, p m), (p, m, a) and (a, a). Without curvature and aux the value is nan.
    """
    p, a = len(gamma), len(unknown)
    m = likelihood.width
    density = compiled_density_of(likelihood, block, 1)
    if density is not None and density.hessian is not None:
        return block.sweep(_derivative_sums(density, likelihood, gamma, frame, curved))

    def part(rows: Block) -> Sums:
        U = rows.X if frame is None else frame.rows(rows.X)
        # np.dot, since @ does not release the interpreter's lock here
        eta = np.dot(U, gamma)
        eta = plus_offset(eta, rows.offset)
        if not curved and not a:
            g = likelihood.score(
                rows.y, eta, **likelihood.at_rows(aux_values, rows.precision)
            )
            g = times_weights(g, rows.weights)
            return np.array(np.nan), np.dot(U.T, g), np.zeros(0)
        derivatives = likelihood.derivatives_over(
            unknown, rows.y, eta, aux_values, rows.precision
        )
        log_p, g, h = (times_weights(v, rows.weights) for v in derivatives)
        # d/d gamma = U'(w g), g_i = d log p_i / d eta_i; d/d log aux = sum_i w_i d log p_i / d log aux.
        slopes = log_p.sum(), np.dot(U.T, g[:, :m]), g[:, m:].sum(0)
        if not curved:
            return slopes
        # With h_i = -d^2 log p_i over (eta_i, log aux): H = sum_i w_i u_i u_i' kron h_i^(eta eta), the cross term
        # sum_i w_i u_i h_i^(eta aux), and sum_i w_i h_i^(aux aux).
        cross = np.zeros((*gamma.shape, a))
        for k in range(a):
            cross[..., k] = np.dot(U.T, h[:, :m, m + k])
        return *slopes, weighted_gram(U, h[:, :m, :m]), cross, h[:, m:, m:].sum(0)

    return block.sweep(part, width=max(p, m * m))


def _derivative_sums(
    density: CompiledDensity,
    likelihood: DifferentiableLikelihood,
    gamma: Array,
    frame: Frame | None,
    curved: bool,
) -> Callable[[Block], Sums]:
    """The sums of `value_grad_hessian` over a part by compiled code, for a density with a `hessian`, which has no nuisance parameters."""
    derivatives, (p, m) = loops_of(density).derivatives, gamma.shape
    beta = writable(gamma)
    t = np.array(likelihood.settings(), dtype=float)
    pairs = np.triu_indices(m)

    def part(rows: Block) -> Sums:
        slope = np.empty(p * m)
        H = np.empty((len(pairs[0]) if curved else 0, p, p))
        U = rows.X if frame is None else frame.rows(rows.X)
        value = derivatives(*plain_rows(rows, U, likelihood), beta, t, slope, H)
        of_beta = slope.reshape(p, m)
        if not curved:
            return np.array(np.nan), of_beta, np.zeros(0)
        base = _weighted_sum(base_measure_of_rows(rows, likelihood), rows.weights)
        full = np.empty((p, m, p, m))
        for c, d, G in zip(*pairs, np.triu(H)):
            full[:, c, :, d] = full[:, d, :, c] = G + np.triu(G, 1).T
        second = full.reshape(p * m, p * m), np.zeros((p, m, 0)), np.zeros((0, 0))
        return value + base, of_beta, np.zeros(0), *second

    return part


def expected_information(
    block: Block,
    *,
    likelihood: DifferentiableLikelihood,
    beta: Array,
    aux_values: Mapping[str, float],
    view: Callable[[Any], Any] | None = None,
) -> Sums:
    """X' W X (p m, p m) with W the expected information of each row, times its weight; `view` returns other columns
    of X, such as standardised ones."""

    def part(rows: Block) -> Sums:
        aux_rows = likelihood.at_rows(aux_values, rows.precision) | likelihood.given(
            rows.y
        )
        # W_i = E[-d^2 log p_i / d eta_i^2] under the model: the Fisher information of eta_i.
        W = likelihood.information(rows.eta(beta), **aux_rows)
        U = rows.X if view is None else view(rows.X)
        return (weighted_gram(U, times_weights(W, rows.weights)),)

    return block.sweep(part, width=max(len(beta), likelihood.width**2))


def information_slope(
    block: Block,
    *,
    likelihood: DifferentiableLikelihood,
    beta: Array,
    inverse: Array,
    aux_values: Mapping[str, float],
) -> Sums:
    """sum_i x_i tr(h_i dW_i / d eta_i) / 2 (p, m), with h_i the part of X I^-1 X' that belongs to row i, times its weight;
    `inverse` is I^-1 as (p, m, p, m)."""
    X = block.X
    # d log |I|^(1/2) / d beta = tr(I^-1 dI/d beta) / 2 with I = sum_i w_i x_i' W_i x_i. A row adds tr(h_i dW_i) / 2
    # with h_i = x_i I^-1 x_i' (m, m).
    h = np.einsum("np,paqb,nq->nab", X, inverse, X, optimize=True)
    h = times_weights(h, block.weights)
    slope = likelihood.information_slope(
        block.eta(beta), **aux_values, **likelihood.given(block.y)
    )
    return (X.T @ (0.5 * np.einsum("nab,nabc->nc", h, slope)),)


def curvature_slopes(
    block: Block, *, likelihood: DifferentiableLikelihood, unknown: tuple[str, ...], gamma: Array, frame: Frame,
    aux_values: Mapping[str, float], direction: Array, onto: Array,
) -> Sums:  # fmt: skip
    """d (a'H a) of the log-likelihood's curvature H over (gamma, log aux) on standardised columns: (K, J) for directions
    `direction` (k, K) and vectors a in `onto` (k, J). Third derivatives of a row are differences of fourth order."""
    p, a = len(gamma), len(unknown)
    m = likelihood.width
    # in units of the noise, where there is one
    size = _PREDICTOR_STEP * likelihood.noise(aux_values)

    def local(U: Array, directions: Array) -> Array:
        # d (eta_i, log aux) along each direction: (n, m + a, K)
        K = directions.shape[1]
        eta = (U @ directions[: gamma.size].reshape(p, -1)).reshape(len(U), m, K)
        of_aux = np.broadcast_to(directions[gamma.size :], (len(U), a, K))
        return np.concatenate([eta, of_aux], 1)

    def part(rows: Block) -> Sums:
        U = frame.rows(rows.X)
        eta = plus_offset(np.dot(U, gamma), rows.offset)
        moves = local(U, direction)
        ends = local(U, onto)

        def curvature(c: int, step: float) -> Array:
            eta_c, aux = eta, dict(aux_values)
            if c < m:
                eta_c = eta + step * np.eye(m)[c]
            else:
                aux[unknown[c - m]] = aux[unknown[c - m]] * np.exp(step)
            return likelihood.derivatives_over(
                unknown, rows.y, eta_c, aux, rows.precision
            ).curvature

        totals = np.zeros((direction.shape[1], onto.shape[1]))
        for c in range(m + a):
            step = size if c < m else _PREDICTOR_STEP
            slope = differentiate(partial(curvature, c), step)
            # sum_i w_i (d x_ic) a_i' (dh_i / dx_c) a_i, x_i = (eta_i, log aux)
            row_slopes = np.einsum("nab,naj,nbj->nj", slope, ends, ends, optimize=True)
            totals += moves[:, c].T @ times_weights(row_slopes, rows.weights)
        return (totals,)

    return block.sweep(part)


def trials(block: Block, *, likelihood: Likelihood) -> Sums:
    """The weighted number of trials."""
    return (_weighted_sum(likelihood.given(block.y)["trials"], block.weights),)


def largest_predictor(block: Block, *, beta: Array) -> float:
    """The largest |eta| of any row; parts are combined by their maximum."""
    peaks = [0.0]

    def part(rows: Block) -> Sums:
        peaks.append(float(np.abs(rows.eta(beta)).max(initial=0.0)))
        return ()

    block.sweep(part)
    return max(peaks)


def log_lik_of_moments(moments: AnyMoments, beta: Array, sigma: Array) -> Array:
    """The Gaussian log-likelihood -W/2 log(2 pi sigma^2) + sum_i log(w_i) / 2 - (RSS + |z - R beta|^2) / (2 sigma^2) with
    precisions w, shape (...,) for beta (..., p, 1) and sigma (...,), at a cost that does not depend on the number of rows."""
    # |y - X beta|^2 = RSS + |z - R beta|^2, [R z; 0 RSS^(1/2)] the triangular factor of [X y].
    return _log_lik_at(moments, moments.rss_at(beta[..., 0]), sigma)


def _log_lik_at(moments: AnyMoments, square: Array, sigma: Array) -> Array:
    normalised = 0.5 * moments.log_precision - 0.5 * moments.weight * np.log(
        2.0 * np.pi * sigma**2
    )
    return np.asarray(normalised - square / (2.0 * sigma**2))


def of_moments(
    moments: Moments, gamma: Array, T: Array, sigma: float, unknown: bool
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return the sums of `value_grad_hessian` for a Gaussian model, from the moments of its rows: with A = R T, r = z - A gamma
    and S = RSS + r'r, log p = -W log sigma - S / (2 sigma^2) + constant, over (gamma, log sigma), beta = T gamma."""
    # if T subtracts the means, R T has centred columns, so that squares of the means cannot cancel
    A = np.asarray(moments.R @ T, dtype=float)
    z = np.asarray(moments.z, dtype=float)
    r = z - A @ gamma[:, 0]
    # d/d gamma = A'r / sigma^2, d/d log sigma = S / sigma^2 - W; the negative second derivatives are A'A / sigma^2,
    # 2 A'r / sigma^2 and 2 S / sigma^2.
    S = float(moments.factor[-1, -1]) ** 2 + r @ r
    w = 1.0 / sigma**2
    g = (A.T @ r * w)[:, None]
    a = int(unknown)
    value = _log_lik_at(moments, S, np.asarray(sigma))
    slope = np.full(a, S * w - moments.weight)
    return (
        value,
        g,
        slope,
        A.T @ A * w,
        np.repeat(2.0 * g[..., None], a, -1),
        np.full((a, a), 2.0 * S * w),
    )
