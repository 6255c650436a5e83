"""Newton's method on the log posterior: maximum likelihood and posterior modes of every smooth likelihood.

The iteration runs on standardised columns and on log aux. The step solves the observed curvature, regularised where it is
not positive definite, and is halved until the log posterior rises. It stops on a certificate: the Newton decrement
sqrt(g' H^-1 g), which is the distance to the maximum in standard errors.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, qr

from probreg.data import Design
from probreg.data.moments import refuse_too_wide
from probreg.data.rows import full_weights, minus_offset
from probreg.errors import DataError, NotConverged
from probreg.inference.base import (
    Array,
    Solution,
    Status,
    interpolates,
    log_names,
)
from probreg.inference.covariance import (
    DenseCovariance,
    root_of_curvature,
    root_of_pseudo_inverse,
)
from probreg.inference.modes.closed_form import (
    FreeDirections,
    combinations,
    not_identified,
    null_space,
    open_directions,
)
from probreg.inference.modes.existence import (
    Divergence,
    at_limits,
    divergence_status,
    find_divergence,
    notes_of_mode,
    proves_maximum,
    separation_by_block,
    separation_message,
    undecided,
)
from probreg.inference.modes.separation import Separation
from probreg.inference.notes import Note
from probreg.likelihoods import MayDiverge, SmoothLikelihood
from probreg.model.likelihood_sums import largest_predictor, sample_of
from probreg.model.model import LocalModel, Model
from probreg.numerics.frame import map_of_columns, with_aux
from probreg.numerics.halving import halvings
from probreg.numerics.linalg import one_blas_thread, sum_over_blocks, weighted_gram

_VANISHED = 1e-30  # of the sd of y: no data are recorded to so many digits
_FAR = 12.0  # |eta| beyond which a fitted probability is within 6e-6 of 0 or 1: time to ask whether a maximum exists
_EXACT = 30.0  # |eta| up to which 1 - p keeps three digits or more
_FLAT = 1e-4  # of g'H^-1 g, the squared distance to the mode in standard errors: the value changes by half of it
_ROUNDING = 1e-5  # of a decrement, in standard errors: below it, what is left after a Newton step is rounding
_FAR_OFF = 1e-4  # of its size: a response that varies by less is searched about one of its values
_NEAR = 0.2  # of sqrt(n) standard errors: within it the curvature changes by some tenths at most
# rows from which a start on a sample of the rows saves more than it costs
_SMALL = 20_000


class Mode(NamedTuple):
    """Where the search ended, in the coordinates (vec gamma on standardised columns, log aux)."""

    gamma: Array  # (p, m)
    log_aux: Array  # (a,)
    local: LocalModel
    decrement: float
    steps: int
    status: Status


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore")  # a step too far is halved
def find_mode(
    model: Model, *, tol: float = 1e-7, max_steps: int = 100, start: tuple[tuple[float, ...], ...] | None = None,
    near: Array | None = None, log_aux: Array | None = None,
) -> Mode:  # fmt: skip
    """The mode of the log posterior over (beta, log aux); `near` (k, k) is about its curvature at the start, on standardised
    columns. `start` and `log_aux` are where the search begins."""
    refuse_too_wide(model.shape[0])
    if not (model.design.reachable or model.of_moments):
        raise DataError(
            f"a mode is found by sums over the rows, and {model.design.rows_needed}"
        )
    far = response_shift(model)
    if far != 0.0:
        return _find_about(
            model, far, tol=tol, max_steps=max_steps, start=start, log_aux=log_aux
        )
    gamma, rough, H = _start(model, start)
    log_aux = rough if log_aux is None else log_aux
    shape = gamma.shape
    k = gamma.size
    n = model.design.total
    many = model.design.count >= _SMALL
    tol = tol * max(1.0, np.sqrt(n))
    H = near if near is not None and many else H
    point = np.concatenate([gamma.ravel(), log_aux])
    if H is not None:
        point = _bfgs_passes(model, point, _slope(model, point, shape), H, tol)
    local = _evaluate(model, point, shape)
    if H is not None and _bad_start(local, n):
        point = np.concatenate([part.ravel() for part in _initial_point(model)])
        local = _evaluate(model, point, shape)
    if not (np.isfinite(local.gradient).all() and np.isfinite(local.curvature).all()):
        raise DataError(
            "newton: the log posterior is beyond double precision where its search starts. State columns and response in units of "
            "like size, and look for values far from all others"
        )
    status = Status.STEP_LIMIT
    decrement = np.inf
    number = 0
    for number in range(1, max_steps + 1):  # noqa: B007  reported after the loop
        step, convex = newton_step(local)
        # lambda = (g' H^-1 g)^(1/2), the Newton decrement: the distance to the maximum in standard errors
        # (Boyd & Vandenberghe 2004, section 9.5).
        before = decrement
        decrement = float(np.sqrt(max(local.gradient @ step, 0.0)))
        if decrement < tol and convex:
            # From here the error squares, so the last step needs no new gradient; the curvature, which gives the
            # standard errors, is taken anew where that costs little.
            point = point + step
            if not many:
                local = _evaluate(model, point, shape)
            status = Status.CONVERGED
            break
        if convex and before <= decrement < _ROUNDING:
            # So near the mode each step squares the error: a decrement that no longer falls is rounding.
            status = Status.CONVERGED
            break
        if many and convex and decrement < _NEAR * np.sqrt(n):
            nearer = _bfgs_passes(model, point, local.gradient, local.curvature, tol)
            if nearer is not point:
                point = nearer
                local = _evaluate(model, nearer, shape)
                continue
        moved = _halve(model, point, step, local, shape)
        if moved is None:
            # No step rises: the maximum is reached to rounding, or the point is none.
            if decrement < _ROUNDING and convex:
                status = Status.CONVERGED
            else:
                status = Status.SADDLE
            break
        point, local = moved
    return Mode(point[:k].reshape(shape), point[k:], local, decrement, number, status)


def response_shift(model: Model) -> float:
    """The middle c of a response that lies far from zero for how it varies, where y - c is as good: under a noise scale
    p(y | eta) is a density of y - eta, and a flat intercept takes up c. There y - eta would lose the digits of eta."""
    design = model.design
    i = design.intercept
    if (
        model.likelihood.noise_scale is None
        or i is None
        or not design.n
        or model.joint.informative[i]
    ):
        return 0.0
    low = float(design.observed.min())
    high = float(design.observed.max())
    if high - low < _FAR_OFF * max(abs(low), abs(high)):
        return low
    return 0.0


def _find_about(
    model: Model,
    far: float,
    *,
    tol: float,
    max_steps: int,
    start: tuple[tuple[float, ...], ...] | None,
    log_aux: Array | None,
) -> Mode:
    """The mode by that of y - far: eta = X beta + far, so that the intercept alone is another."""
    design = model.design
    i = design.intercept
    assert i is not None
    if start is not None:
        moved = np.array(start)
        moved[i] -= far
        start = tuple(tuple(row) for row in moved.tolist())
    near = replace(model, design=replace(design, y=design.observed - far))
    found = find_mode(near, tol=tol, max_steps=max_steps, start=start, log_aux=log_aux)
    gamma = found.gamma.copy()
    gamma[i] += far
    return found._replace(gamma=gamma)


def _bad_start(local: LocalModel, n: float) -> bool:
    """A sample may be separated, or all but, where the rows are not: its mode is then far out, where all is flat."""
    step, convex = newton_step(local)
    return (
        not convex
        or not np.isfinite(local.value)
        or bool(local.gradient @ step > 100.0 * n)
    )


def _bfgs_passes(
    model: Model, point: Array, gradient: Array, H: Array, tol: float
) -> Array:
    """Quasi-Newton steps from a held curvature, by passes that take the gradient only: with many rows, near the mode, the
    curvature hardly changes and is most of the cost of a pass. Its small changes are learned from the steps (BFGS, two
    loops; Nocedal & Wright 2006, section 7.2). Returns the point itself when the first step does not help."""
    p, m = model.shape
    pairs: list[tuple[Array, Array]] = []
    before = np.inf
    rate = 0.0
    for _ in range(30):
        step = _two_loops(gradient, H, pairs)
        decrement = float(np.sqrt(max(gradient @ step, 0.0)))
        if decrement < tol / 3:
            break
        # Linear convergence: the next decrement is lambda times lambda / lambda_before, here of the slower of the last two steps.
        slower = max(rate, decrement / before)
        rate = decrement / before
        if pairs and decrement * slower < tol / 2:
            return (
                point + step
            )  # the pass that takes the curvature finds out, and goes on where that is not so
        before = decrement
        new = _slope(model, point + step, (p, m))
        if not np.abs(new).max() < 0.7 * np.abs(gradient).max():
            break
        # (s, y) with y = -(change of g): H s is about y, as H is the negative Hessian.
        pairs.append((step, gradient - new))
        point = point + step
        gradient = new
    return point


def _two_loops(gradient: Array, H: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """The quasi-Newton step: H corrected by the (step, fall of the gradient) pairs seen, solved against the gradient."""
    q = gradient
    used: list[float] = []
    # Newest pair first: a_i = s_i'q / s_i'y_i, q <- q - a_i y_i.
    for s, y in reversed(pairs):
        a = (s @ q) / (s @ y)
        q = q - a * y
        used = [a, *used]
    r, _ = newton_step(LocalModel(np.nan, q, H))
    # Oldest pair first: r <- r + s_i (a_i - y_i'r / s_i'y_i).
    for (s, y), a in zip(pairs, used):
        r = r + s * (a - (y @ r) / (s @ y))
    return r


def _slope(model: Model, point: Array, shape: tuple[int, int]) -> Array:
    return _evaluate(model, point, shape, curved=False).gradient


def _evaluate(
    model: Model, point: Array, shape: tuple[int, int], *, curved: bool = True
) -> LocalModel:
    k = shape[0] * shape[1]
    if curved:
        look = model.value_grad_hessian_standardised
    else:
        look = model.gradient_standardised
    with np.errstate(all="ignore"):  # a step too far gives inf or nan, and is halved
        # numpy's floats, whose powers are inf beyond double precision, where Python's raise an OverflowError
        aux = {a: np.float64(np.exp(u)) for a, u in zip(model.unknown, point[k:])}
        return look(point[:k].reshape(shape), **aux)


def newton_step(local: LocalModel) -> tuple[Array, bool]:
    """H^-1 g with rows scaled to unit diagonal; where H is not positive definite, its eigenvalues are made so."""
    H = local.curvature
    g = local.gradient
    if not g.size:  # every scale is at its edge
        return g, True
    d = np.sqrt(np.maximum(np.abs(np.diagonal(H)), np.finfo(float).tiny))
    scaled = H / np.outer(d, d)
    # LAPACK itself: a step of few parameters is a tenth of what SciPy's checks of its arguments take
    _, unit, info = lapack.dposv(np.asarray_chkfinite(scaled), g / d)
    if info == 0:
        # H^-1 g = D^-1 (D^-1 H D^-1)^-1 D^-1 g with D = diag(H)^(1/2), free of the units of the columns.
        return unit / d, True
    value, vector = np.linalg.eigh(scaled)
    # D^-1 H D^-1 = V diag(v) V', and the step D^-1 V diag(1/|v|) V' D^-1 g rises along every direction.
    floor = 1e-10 * max(float(np.abs(value).max()), 1.0)
    null = np.abs(value) <= floor
    value = np.where(
        null, np.inf, np.abs(value)
    )  # no step along directions that change nothing
    convex = bool((np.linalg.eigvalsh(scaled) >= -floor).all())
    return (vector / value) @ (vector.T @ (g / d)) / d, convex


def _halve(
    model: Model, point: Array, step: Array, local: LocalModel, shape: tuple[int, int]
) -> tuple[Array, LocalModel] | None:
    # Armijo: log p(x + t d) >= log p(x) + 1e-4 t g'd, up to rounding of log p.
    slope = float(local.gradient @ step)
    noise = 1e-13 * abs(local.value)
    if slope < _FLAT:
        # The value is a sum in which large terms may cancel; so near the mode the gradient judges the step: g'H^-1 g falls.
        at = _evaluate(model, point + step, shape)
        left, _ = newton_step(local._replace(gradient=at.gradient))
        if (
            np.isfinite(at.value)
            and np.isfinite(at.curvature).all()
            and 0.0 <= at.gradient @ left < 0.25 * slope
        ):
            return point + step, at
    for t in halvings(point, step):
        new = point + t * step
        at = _evaluate(model, new, shape)
        if (
            np.isfinite(at.value)
            and np.isfinite(at.curvature).all()
            and at.value >= local.value + 1e-4 * t * slope - noise
        ):
            return new, at
    return None


def _start(
    model: Model, start: tuple[tuple[float, ...], ...] | None
) -> tuple[Array, Array, Array | None]:
    """Coefficients, log aux and, where a sample of the rows gave one, a curvature that stands for that of all rows.

    The start is the caller's, the mode of evenly spaced rows that count for those between them when there are many, or
    a regression on a rough eta.
    """
    design = model.design
    if start is not None:
        beta = check_start(model, start)
        return design.frame.from_raw(beta), rough_log_aux(model), None
    some = sample_of_rows(model)
    if some is None:
        return *_initial_point(model), None
    part = Model(some, model.likelihood, model.with_prior_frozen.prior, model.aux)
    with sample_of(design.n):
        found = find_mode(part, tol=1e-3, max_steps=12)
    if found.status is not Status.CONVERGED:
        return *_initial_point(model), None
    to_part = part.design.frame.from_raw(design.frame.T)
    # T_part gamma_part = T gamma = beta, so that gamma_part = M gamma and H over gamma is M' H_part M.
    M = with_aux(map_of_columns(to_part, found.gamma.shape[1]), len(found.log_aux))
    return (
        np.linalg.solve(to_part, found.gamma),
        found.log_aux,
        M.T @ found.local.curvature @ M,
    )


def check_start(model: Model, start: tuple[tuple[float, ...], ...]) -> Array:
    """A warm start (p, m). DataError for one of another shape."""
    beta = np.asarray(start)
    if beta.shape != model.shape:
        raise DataError(
            f"start has shape {beta.shape}; this model has coefficients of shape {model.shape}"
        )
    return beta


def sample_of_rows(model: Model) -> Design | None:
    """Evenly spaced rows, weighted for those between them; None where they would save less than they cost.

    One row in eight is 3 standard errors from the mode of all, and its curvature so near that three passes for slopes follow at
    (1e6, 20); one in sixteen takes four.
    """
    design = model.design
    needed = 20 * len(design.columns) * model.likelihood.width
    if design.source is not None:
        some = design.sample
        if some.n == design.count or some.n < needed:
            return None
        return some
    stride = min(8, design.n // max(_SMALL // 2, needed))
    if design.n < _SMALL or stride < 4:
        return None
    some = design.take(slice(None, None, stride))
    return replace(some, weights=stride * (full_weights(some.weights, some.n)))


def _initial_point(model: Model) -> tuple[Array, Array]:
    """One weighted regression of the likelihood's rough eta on the standardised columns."""
    design = model.design.sample
    likelihood = model.likelihood
    log_aux = rough_log_aux(model)
    if not design.n and model.of_moments:
        return design.frame.from_raw(
            design.moments.least_squares()[0][:, None]
        ), log_aux
    assert isinstance(likelihood, SmoothLikelihood)
    eta, aux = likelihood.initial_eta(design.observed)
    if not eta.any() and design.offset is None:
        return np.zeros(model.shape), log_aux
    target = minus_offset(eta, design.offset)
    known = likelihood.at_rows({**aux, **model.fixed}, design.precision) | model.given(
        design
    )
    weight = likelihood.information(eta, **known)
    weight = np.einsum("nkk->n", weight) * (
        1.0 if design.weights is None else design.weights
    )

    def part(rows: slice, X: Array) -> tuple[Array, Array]:
        U = model.design.frame.rows(X)
        v = weight[rows]
        return weighted_gram(U, v), np.dot(U.T, v[:, None] * target[rows])

    # gamma = argmin sum_i v_i |eta_i - offset_i - u_i gamma|^2, v_i = w_i tr W_i at the rough eta: one step of IRLS.
    H, slope = sum_over_blocks(design.X, part)
    return np.linalg.lstsq(H, slope, rcond=1e-10)[0], log_aux


def rough_log_aux(model: Model) -> Array:
    """Logs of the nuisance parameters, from the response alone."""
    design = model.design.sample
    likelihood = model.likelihood
    if not design.n and model.of_moments:
        sigma = np.sqrt(design.moments.rss / design.moments.weight) or 1.0
        return np.log([sigma for _ in model.unknown])
    assert isinstance(likelihood, SmoothLikelihood)
    aux = likelihood.initial_eta(design.observed)[1]
    return np.log([aux[a] for a in model.unknown])


@one_blas_thread()
def solution_at(model: Model, mode: Mode) -> Solution:
    """The mode on the raw columns with its curvature, and whether it exists and is identified."""
    frame = model.design.frame
    m = model.shape[1]
    k = mode.gamma.size
    beta = frame.to_raw(mode.gamma)
    status = mode.status
    detail = ""
    not_estimable = None
    null = None
    separated, said = _check_separation(model, mode)
    if separated is not None:
        lost = None
    else:
        lost = check_divergence(model, mode.gamma, mode.log_aux, mode.local)
    if separated is None and lost is None:
        opened = None
    else:
        opened = open_directions(model)
    if separated is not None:
        status = Status.NO_MAXIMUM
        detail = separation_message(separated)
        not_estimable = separated.not_estimable
        cov = _covariance_given_fixed(
            model,
            mode,
            not_estimable,
            _fixed_coefficients(model, separated, opened),
            (),
        )
    elif lost is not None:
        status, detail, not_estimable = divergence_status(model, lost)
        gone_aux = [model.unknown.index(a) for a in lost.to_zero + lost.to_infinity]
        cov = _covariance_given_fixed(
            model,
            mode,
            lost.not_estimable,
            _fixed_coefficients(model, lost, opened),
            gone_aux,
        )
    else:
        root = root_of_curvature(mode.local.curvature)
        if root is None or (
            _may_be_open(model) and _condition(mode.local.curvature[:k, :k]) > 1e13
        ):
            cov, null = _rank_deficient_covariance(model, mode, root)
        else:
            cov = DenseCovariance(frame, m, log_names(model), root=root)
        if null is not None:
            # The member of least norm of beta + N c: beta - N N^+ beta.
            beta = beta - null @ np.linalg.pinv(null) @ beta
            status = Status.NOT_IDENTIFIED
            detail = combinations(model.design.moments.rank, model.design.columns)
            not_estimable = np.repeat(
                not_identified(null)[:, None], len(model.likelihood.contrast_matrix), 1
            )
    if (
        opened is not None
    ):  # what runs away and what is not identified are two reasons, and either is enough
        nothing = np.zeros(
            (len(beta), len(model.likelihood.contrast_matrix)), dtype=bool
        )
        not_estimable, detail = opened.joined(
            nothing if not_estimable is None else not_estimable, detail
        )
        if (
            lost is not None and not lost.not_estimable.any()
        ):  # nuisance parameters alone run away
            null = opened.directions
            beta = beta - null @ np.linalg.pinv(null) @ beta
    aux = np.exp(mode.log_aux)
    # The delta method: sd(v) = v sd(log v).
    sd = aux * cov.errors()[k:]
    return Solution(
        beta=beta,
        scale=cov,
        aux=at_limits(dict(zip(model.unknown, aux)), lost),
        aux_sd=dict(zip(model.unknown, map(float, sd))),
        status=status,
        detail=detail,
        not_estimable=not_estimable,
        null_space=null,
        stats={
            "n": model.design.total,
            "decrement": mode.decrement,
            "steps": float(mode.steps),
        },
        notes=(*notes_of_mode(model, mode.steps, mode.decrement, status), *said),
    )


def unbounded_density_message(model: Model) -> str | None:
    """Why beta and sigma have no joint mode, in words; None where columns leave residuals."""
    if (
        not model.noise_unknown
        or model.noise_prior.powers[0] == np.inf
        or not interpolates(model)
    ):
        return None
    name = model.noise_scale
    return (
        f"newton: the columns reproduce the response exactly, so that the density rises without bound as {name} falls to 0. Hold "
        f"{name} at a value, state priors in its units (sigma_units=True), or give {name} a prior that vanishes at 0, such as "
        "InverseGamma(1.0, 1.0)."
    )


def vanishing_noise_message(model: Model, mode: Mode) -> str | None:
    """Return the message for a search that ends at a vanishing noise scale, or None."""
    name = model.likelihood.noise_scale
    if name not in model.unknown:
        return None
    value = float(np.exp(mode.log_aux[model.unknown.index(name)]))
    if value > _VANISHED * model.design.y_scale:
        return None
    return (
        f"newton: {name} falls to 0 ({value:.3g}), since coefficients meet some responses exactly and the density then "
        f"rises without bound. Hold {name} at a value, or give it a prior that vanishes at 0, such as InverseGamma(1.0, 1.0)."
    )


def _may_be_open(model: Model) -> bool:
    """Whether columns other than the intercept have no prior: only with those is a direction open that a rounding closes."""
    flat = np.flatnonzero(~model.joint.informative)
    return len(flat) > 1 or bool(len(flat) and flat[0] != model.design.intercept)


def _condition(H: Array) -> float:
    """The ratio of the largest to the smallest singular value of a symmetric matrix, which are its eigenvalues in size."""
    size = np.abs(np.linalg.eigvalsh(H))
    if size.min() > 0:
        return float(size.max() / size.min())
    return np.inf


def _check_separation(
    model: Model, mode: Mode
) -> tuple[Separation | None, tuple[Note, ...]]:
    """Asks the linear programme only where the fit looks like running away: it is exact and takes time."""
    if not isinstance(model.likelihood, MayDiverge) or model.joint.informative.all():
        return None, ()
    far = _largest_direction(model, model.design.frame.to_raw(mode.gamma))
    near = mode.status is Status.CONVERGED and mode.steps < 15
    if (far < _FAR and near) or (far < _EXACT and _proved(model, mode)):
        return None, ()
    found, notes = separation_by_block(model)
    return (None if found.kind == "none" else found), notes


def _proved(model: Model, mode: Mode) -> bool:
    """The maximum is proved to exist by its neighbourhood, where no prior has a part in that."""
    k = mode.gamma.size
    H = mode.local.curvature
    if (
        model.joint.informative.any()
        or not np.isfinite(H).all()
        or np.linalg.cond(H[:k, :k]) > 1e13
    ):
        return False
    return proves_maximum(
        model, mode.local.gradient[:k], np.linalg.inv(H[:k, :k])
    )  # given the nuisance parameters


def _largest_direction(model: Model, beta: Array) -> float:
    """The largest |eta| of any row."""
    return model.design.fold(partial(largest_predictor, beta=beta), max)


def check_divergence(
    model: Model, gamma: Array, log_aux: Array, local: LocalModel
) -> Divergence | None:
    """Where the likelihood does not fall from the end of a search, for what no exact method decides."""
    if not any(undecided(model)) or not (
        np.isfinite(local.gradient).all() and np.isfinite(local.curvature).all()
    ):
        return None
    return find_divergence(model, gamma, log_aux, local, newton_step(local)[0])


def _fixed_coefficients(
    model: Model, found: Separation | Divergence, opened: FreeDirections | None
) -> Array:
    """Coefficients (p, m) that are held where they are, as many as there are directions without curvature: those along which
    the limit of the likelihood is the same, and those that leave X beta as it is.

    The others keep their curvature, so that what is estimated has the variance that it has in the limit: where the reference
    level of a factor runs away, its other levels do with it, but their differences have estimates   (Geyer 2009).
    """
    p, m = model.shape
    if found.span is None:
        gone = found.not_estimable
        if gone.shape[1] == m:
            return gone
        return np.repeat(gone.any(1)[:, None], m, 1)
    span = found.span.reshape(p * m, -1)
    if opened is not None:
        span = np.hstack([span, np.kron(opened.directions, np.eye(m))])
    held = np.zeros(p * m, dtype=bool)
    if span.shape[1]:
        # in units of the standardised columns; the pivots are coefficients that no direction leaves where they are
        unit = np.repeat(np.linalg.norm(model.design.frame.T, axis=1), m)
        held[
            qr((span / unit[:, None]).T, mode="r", pivoting=True)[1][: span.shape[1]]
        ] = True
    return held.reshape(p, m)


def _covariance_given_fixed(
    model: Model, mode: Mode, not_estimable: Array, held: Array, gone_aux: Sequence[int]
) -> DenseCovariance:
    """The covariance with some coefficients and nuisance parameters held where they are; those that run away are missing."""
    m = mode.gamma.shape[1]
    # Where reported coefficients mix the model's own (a symmetric softmax), a column runs away as a whole.
    if not_estimable.shape[1] == m:
        gone = not_estimable
    else:
        gone = np.repeat(not_estimable.any(1)[:, None], m, 1)
    aux = np.zeros(len(mode.log_aux), dtype=bool)
    aux[np.array(gone_aux, dtype=int)] = True
    # phi with (gamma, log aux) = Z phi spans the directions along which nothing that is held moves
    S = with_aux(map_of_columns(model.design.frame.T, m), len(mode.log_aux))
    fixed = S[np.concatenate([held.ravel(), aux])]
    Z = np.linalg.qr(
        (fixed / np.linalg.norm(fixed, axis=1, keepdims=True)).T, mode="complete"
    )[0][:, len(fixed) :]
    root = Z @ root_of_pseudo_inverse(
        Z.T @ mode.local.curvature @ Z, 1e-15 * max(1, Z.shape[1])
    )
    missing = np.concatenate([(gone | held).ravel(), aux])
    return DenseCovariance(
        model.design.frame,
        m,
        log_names(model),
        missing if missing.any() else None,
        root=root,
    )


def _rank_deficient_covariance(
    model: Model, mode: Mode, root: Array | None
) -> tuple[DenseCovariance, Array | None]:
    """The covariance, and the directions (p, j) that collinear columns without a prior leave open: there the covariance is that
    of the coefficients of least norm."""
    frame = model.design.frame
    m = model.shape[1]
    k = mode.gamma.size
    rank = model.design.moments.rank
    dropped = np.array(rank.dropped, dtype=int)
    if not len(dropped) or model.joint.informative[dropped].all():
        if root is None:
            raise NotConverged(
                unbounded_density_message(model)
                or "newton: the curvature at the end is not positive definite: start elsewhere, or give a prior"
            )
        return DenseCovariance(frame, m, log_names(model), root=root), None
    N = null_space(rank, model.shape[0])
    root = root_of_pseudo_inverse(mode.local.curvature)
    of_beta = (frame.to_raw(root[:k].reshape(len(N), -1))).reshape(len(N), -1)
    of_beta = (of_beta - N @ (np.linalg.pinv(N) @ of_beta)).reshape(k, -1)
    return DenseCovariance.of_raw_root(
        frame, m, np.vstack([of_beta, root[k:]]), log_names(model)
    ), N
