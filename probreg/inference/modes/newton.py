"""Newton's method on the log posterior: maximum likelihood and posterior modes of every
smooth likelihood.

The iteration uses standardised columns and log aux. The step solves the observed
curvature, regularised if it is not positive definite, and is halved until the log
posterior increases. The stopping rule is the Newton decrement sqrt(g' H^-1 g), the
distance to the maximum in standard errors.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy
from scipy.linalg import qr

from probreg.data import Design, Frame
from probreg.data.checked_arrays import minus_offset
from probreg.data.moments import refuse_too_wide
from probreg.errors import DataError, NotConverged
from probreg.inference.base import (
    Array,
    Solution,
    Status,
    estimated_aux,
    log_names,
    logs_of_aux,
    sigma_note,
    split_parameters,
)
from probreg.inference.covariance import DenseCovariance, ParameterCovariance
from probreg.inference.modes.closed_form import open_directions
from probreg.inference.modes.existence import (
    Divergence,
    find_divergence,
    find_separation,
    mode_solution,
)
from probreg.inference.modes.level_rows import FreeDirections
from probreg.inference.modes.maximise import Maximum, maximise, newton_step
from probreg.inference.modes.separation import Separation
from probreg.inference.obstacles import VANISHING_NOISE, spare_rows
from probreg.inference.status import JOINT_SIGMA, Note, Topic, routine_note
from probreg.likelihoods import ExponentialFamily, SmoothLikelihood
from probreg.linalg import (
    one_blas_thread,
    root_of_curvature,
    root_of_pseudo_inverse,
    sum_over_blocks,
    weighted_gram,
)
from probreg.linalg.vec import map_of_columns, with_aux
from probreg.model.likelihood_sums import sample_of
from probreg.model.model import LocalModel, Model

# a start from a sample saves time from this number of rows
_ROWS_OF_SAMPLED_START = 20_000


class Mode(NamedTuple):
    """The end of the search, in the coordinates (vec gamma on standardised columns, log aux)."""

    gamma: Array  # (p, m)
    log_aux: Array  # (a,)
    local: LocalModel
    decrement: float
    steps: int
    status: Status


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore")  # a step too far is halved
def find_mode(
    model: Model, *, tol: float = 1e-7, max_steps: int = 100, start: Array | None = None,
    log_aux: Array | None = None,
) -> Mode:  # fmt: skip
    """Find the mode of the log posterior over (beta, log aux).

    `start` and `log_aux` give the start of the search.
    """
    # in units of sqrt(n) standard errors: closer to the mode the curvature changes by at most some tenths
    near = 0.2
    refuse_too_wide(model.shape[0])
    if not (model.design.has_rows or model.of_moments):
        raise DataError(
            f"the mode needs sums over the rows, and {model.design.rows_needed}"
        )
    shift = response_shift(model)
    if shift is not None:
        # eta = X beta + shift, so only the intercept differs
        shifted = replace(model.design, y=model.design.observed - shift.sum())
        if start is not None:
            start = start - shift
        mode = find_mode(
            replace(model, design=shifted), tol=tol, max_steps=max_steps,
            start=start, log_aux=log_aux,
        )  # fmt: skip
        return mode._replace(gamma=mode.gamma + shift)
    (p, m), n = model.shape, model.design.total
    has_many_rows = model.design.count >= _ROWS_OF_SAMPLED_START
    tol = tol * max(1.0, np.sqrt(n))
    slope = partial(_slope, model)

    def refine(x: Array, local: LocalModel, decrement: float) -> Array:
        if has_many_rows and decrement < near * np.sqrt(n):
            return bfgs_passes(slope, x, local.gradient, local.curvature, tol)
        return x

    # from many rows the last step needs no new curvature, which is most of the cost
    top = maximise(
        partial(evaluate, model),
        newton_step,
        *_first_point(model, start, log_aux, tol),
        tol=tol,
        max_steps=max_steps,
        refine=refine,
        evaluates_last=not has_many_rows,
    )
    likelihood = model.likelihood
    is_expected = (
        isinstance(likelihood, SmoothLikelihood) and likelihood.expected_curvature
    )
    if top.status is Status.STEP_LIMIT and is_expected:
        top = _finish_by_bfgs(model, top, tol)
    gamma = top.x[: p * m].reshape(p, m)
    return Mode(gamma, top.x[p * m :], top.point, top.decrement, top.steps, top.status)


def _first_point(
    model: Model, start: Array | None, log_aux: Array | None, tol: float
) -> tuple[Array, LocalModel]:
    """Return the first point of the search, and its local model: the user's start, the
    mode of a sample if there are many rows, or a regression on a rough eta."""
    if start is not None:
        gamma = model.design.frame.from_raw(check_start(model, start))
        if log_aux is None:
            log_aux = rough_start(model).log_aux
        point = np.concatenate([gamma.ravel(), log_aux])
    else:
        near = _near_mode_of_sample(model, tol)
        if near is not None:
            return near
        point = rough_point(model)
    local = evaluate(model, point)
    if not (np.isfinite(local.gradient).all() and np.isfinite(local.curvature).all()):
        raise DataError(
            "newton: the log posterior overflows double precision at the start of the search. Rescale columns and response to "
            "similar units, and check for extreme values"
        )
    return point, local


def _near_mode_of_sample(model: Model, tol: float) -> tuple[Array, LocalModel] | None:
    """Return a point near the mode by gradient passes from the mode of evenly spaced
    rows, weighted for the rows between them; None if they give none."""
    design = model.design
    sample = sample_of_rows(model) if design.count >= _ROWS_OF_SAMPLED_START else None
    if sample is None:
        return None
    part = Model(sample, model.likelihood, model.with_prior_frozen.prior, model.aux)
    with sample_of(design.n):
        mode = find_mode(part, tol=1e-3, max_steps=12)
    if mode.status is not Status.CONVERGED:
        return None
    to_part = part.design.frame.from_raw(design.frame.T)
    # T_part gamma_part = T gamma = beta, so that gamma_part = M gamma and H over gamma is M' H_part M.
    M = with_aux(map_of_columns(to_part, mode.gamma.shape[1]), len(mode.log_aux))
    gamma = np.linalg.solve(to_part, mode.gamma)
    point = np.concatenate([gamma.ravel(), mode.log_aux])
    slope = partial(_slope, model)
    H = M.T @ mode.local.curvature @ M
    point = bfgs_passes(slope, point, slope(point), H, tol)
    local = evaluate(model, point)
    step, convex = newton_step(local)
    # a sample may be separated, or nearly so, with a mode far away on a flat surface
    is_close = local.gradient @ step <= 100.0 * design.total
    return (point, local) if convex and np.isfinite(local.value) and is_close else None


def response_shift(model: Model) -> Array | None:
    """Return (p, 1) the smallest response c in the place of the intercept, if responses
    vary little relative to their size and subtracting c changes only the intercept.

    With a noise scale p(y | eta) is a density of y - eta, and a flat intercept absorbs c. Without the shift y - eta would lose the
    digits of eta.
    """
    design = model.design
    i = design.intercept
    if model.likelihood.noise_scale is None or i is None or not design.n:
        return None
    low = float(design.observed.min())
    high = float(design.observed.max())
    # relative variation of a response, below which the search subtracts a shift
    if model.joint.informative[i] or high - low >= 1e-4 * max(abs(low), abs(high)):
        return None
    shift = np.zeros((model.shape[0], 1))
    shift[i] = low
    return shift


def _finish_by_bfgs(model: Model, top: Maximum, tol: float) -> Maximum:
    """Continue a search by BFGS: if residuals are nearly zero, the second derivative is far above the expected curvature in
    Newton's steps."""

    def negative(x: Array) -> tuple[float, Array]:
        point = evaluate(model, x)
        return -point.value, -point.gradient

    found = scipy.optimize.minimize(
        negative, top.x, jac=True, method="BFGS", options={"gtol": 0.01 * tol}
    )
    point = evaluate(model, found.x)
    if not np.isfinite(point.value):  # a scale of noise goes to 0
        return top
    step, convex = newton_step(point)
    decrement = float(np.sqrt(max(point.gradient @ step, 0.0)))
    if not convex or decrement >= tol:
        return top
    steps = top.steps + int(found.nit)
    return Maximum(found.x, point, decrement, steps, Status.CONVERGED)


def bfgs_passes(
    slope: Callable[[Array], Array],
    point: Array,
    gradient: Array,
    H: Array,
    tol: float,
) -> Array:
    """Make quasi-Newton steps from a curvature H, with passes that compute only the
    gradient, `slope`.

    With many rows the curvature hardly changes near the mode, and it is most of the
    cost of a pass. BFGS updates it from the steps (Nocedal & Wright 2006, section 6.1).
    Returns the point itself if the first step does not help.
    """
    before = np.inf
    rate = 0.0
    for passes in range(30):
        step, _ = newton_step(LocalModel(np.nan, gradient, H))
        decrement = float(np.sqrt(max(gradient @ step, 0.0)))
        if decrement < tol / 3:
            break
        # Linear convergence: the next decrement is lambda times lambda / lambda_before,
        # for the slower of the last two steps.
        slower = max(rate, decrement / before)
        rate = decrement / before
        if passes and decrement * slower < tol / 2:
            # the pass with curvature checks this, and continues otherwise
            return point + step
        before = decrement
        new = slope(point + step)
        if not np.abs(new).max() < 0.7 * np.abs(gradient).max():
            break
        # H <- H + y y' / s'y - H s s'H / s'H s, with y = -(change of g) and H s = the previous g, because s solves H s = g
        y = gradient - new
        H = (
            H
            + np.outer(y, y) / (step @ y)
            - np.outer(gradient, gradient) / (step @ gradient)
        )
        point = point + step
        gradient = new
    return point


def _slope(model: Model, point: Array) -> Array:
    return evaluate(model, point, curved=False).gradient


def evaluate(model: Model, point: Array, *, curved: bool = True) -> LocalModel:
    """Return the log posterior at (vec gamma, log aux) on standardised columns; nan where it overflows."""
    with np.errstate(all="ignore"):  # too long a step gives inf or nan, and is halved
        gamma, aux = split_parameters(model, point)
        local = model.in_frame(gamma, model.design.frame, aux, curved=curved)
    if np.isfinite(local.curvature).all():
        return local
    return local._replace(value=np.nan)


def check_start(model: Model, start: Any) -> Array:
    """Return a warm start (p, m). DataError if its shape is wrong."""
    beta = np.asarray(start)
    if beta.shape != model.shape:
        raise DataError(
            f"start has shape {beta.shape}; this model has coefficients of shape {model.shape}"
        )
    return beta


def sample_of_rows(model: Model) -> Design | None:
    """Return evenly spaced rows, weighted for the rows between them; None if they would
    not save time.

    With one row in eight the sample mode is 3 standard errors from the mode, and its
    curvature is accurate enough that three gradient passes follow at (1e6, 20); one row
    in sixteen needs four.
    """
    design = model.design
    needed = 20 * len(design.columns) * model.likelihood.width
    if design.source is not None:
        sample = design.sample
        if sample.n == design.count or sample.n < needed:
            return None
        return sample
    stride = min(8, design.n // max(_ROWS_OF_SAMPLED_START // 2, needed))
    if design.n < _ROWS_OF_SAMPLED_START or stride < 4:
        return None
    sample = design.take(slice(None, None, stride))
    return replace(sample, weights=stride * sample.row_weights)


def rough_point(model: Model) -> Array:
    """Return the weighted regression of the likelihood's rough eta on the standardised columns, and rough log aux."""
    design = model.design.sample
    frame = model.design.frame
    gamma = np.zeros(model.shape)
    target, weight, log_aux = rough_start(model)
    if model.of_moments and not design.n:
        gamma = frame.from_raw(design.moments.least_squares()[0][:, None])
    elif target.any():

        def part(rows: slice, X: Array) -> tuple[Array, Array]:
            U = frame.rows(X)
            v = weight[rows]
            return weighted_gram(U, v), np.dot(U.T, v[:, None] * target[rows])

        # gamma = argmin sum_i v_i |eta_i - offset_i - u_i gamma|^2, v_i = w_i tr W_i at the rough eta: one step of IRLS.
        H, slope = sum_over_blocks(design.X, part)
        gamma = np.linalg.lstsq(H, slope, rcond=1e-10)[0]
    if isinstance(model.likelihood, ExponentialFamily):
        gamma = _move_into_domain(model.likelihood, design, frame, gamma)
    return np.concatenate([gamma.ravel(), log_aux])


def _move_into_domain(
    likelihood: ExponentialFamily, design: Design, frame: Frame, gamma: Array
) -> Array:
    """Return the start, moved towards the predictor of the mean response in every row until eta is in the domain of the link."""
    low, high = likelihood.domain
    if low == -np.inf and high == np.inf:
        return gamma
    U = frame.rows(design.X)
    offset = 0.0 if design.offset is None else design.offset
    mean = np.average(likelihood.response(design.observed), weights=design.weights)
    target = np.broadcast_to(likelihood.link.forward(mean) - offset, design.n)
    centre = np.linalg.lstsq(U, target, rcond=None)[0][:, None]
    for share in (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, 0.0):
        start = share * gamma + (1.0 - share) * centre
        eta = U @ start + np.reshape(offset, (-1, 1))
        inside = likelihood.in_domain(eta)
        if inside.all():
            return start
    row = int(np.argmin(inside))
    raise DataError(
        f"row {design.row_name(row)}: the linear predictor starts at {eta[row, 0]:.4g}, and the {likelihood.link} link needs values between "
        f"{low:g} and {high:g}: pass start= with coefficients that have such values in all rows, or use link='{type(likelihood).link}'"
    )


class RoughStart(NamedTuple):
    """The likelihood's rough eta minus the offset, with weights for a regression on it,
    and rough logs of nuisance parameters."""

    target: Array  # (n, m) of the rows in memory
    weight: Array  # (n,), 0 for rows without information
    log_aux: Array


def rough_start(model: Model) -> RoughStart:
    """Return rough predictors and nuisance parameters from the response only."""
    design = model.design.sample
    likelihood = model.likelihood
    if model.of_moments and not design.n:
        sigma = np.sqrt(design.moments.rss / design.moments.weight) or 1.0
        log_aux = np.log([sigma for _ in model.unknown])
        return RoughStart(np.zeros((0, 1)), np.zeros(0), log_aux)
    assert isinstance(likelihood, SmoothLikelihood)
    eta, aux = likelihood.initial_eta(design.observed)
    target = minus_offset(eta, design.offset)
    weight = np.zeros(design.n)
    if target.any():
        values = likelihood.at_rows({**aux, **model.fixed}, design.precision)
        information = likelihood.information(eta, **values, **model.given(design))
        weight = np.einsum("nkk->n", information)
        weight = weight * design.row_weights
    return RoughStart(target, weight, logs_of_aux(model, aux))


@one_blas_thread()
def solution_at(model: Model, mode: Mode) -> Solution:
    """Return the mode on the raw columns with its covariance, after checks that it exists and is identified."""
    beta = model.design.frame.to_raw(mode.gamma)
    cause: Separation | Divergence | None
    cause, notes = find_separation(model, beta, mode.status, mode.steps)
    if cause is None:
        cause = find_divergence(model, mode.gamma, mode.log_aux, mode.local)
    if cause is not None:
        opened = open_directions(model)
        cov = _covariance_given_fixed(model, mode, cause, opened)
    else:
        H = mode.local.curvature
        root = root_of_curvature(H)
        # only columns without a prior, except the intercept, can be dependent; H_jj
        # times the variance of their coefficients is then above 1e10
        flat = set(np.flatnonzero(~model.joint.informative)) - {model.design.intercept}
        if root is None or (
            flat
            and (np.diagonal(H) * np.square(root).sum(1))[: mode.gamma.size].max()
            > 1e10
        ):
            cov, opened = _rank_deficient_covariance(model, mode, root)
        else:
            cov, opened = _covariance_of_root(model, root), None
    return solution_of(model, beta, mode.log_aux, mode, cause, opened, cov, notes)


def solution_of(
    model: Model,
    beta: Array,
    log_aux: Array,
    end: Mode | Maximum,
    cause: Separation | Divergence | None,
    opened: FreeDirections | None,
    covariance: ParameterCovariance,
    notes: tuple[Note, ...] = (),
) -> Solution:
    """Return the end of a search as a solution with coefficients beta (p, m), and the
    distance to the maximum if there is one."""
    steps = end.steps
    if cause is not None:
        limit = "0" if cause.status is Status.AT_ZERO else "infinity"
        text = f"stopped after {steps} steps, where the likelihood still increases towards {limit}"
    elif end.status is Status.SADDLE:
        text = f"stopped after {steps} steps at a point that is not a maximum"
    else:
        text = f"distance to the maximum {end.decrement:.1e} standard errors after {steps} steps"
    return mode_solution(
        model,
        beta,
        estimated_aux(model, log_aux),
        end.status,
        cause,
        opened,
        scale=covariance,
        stats={
            "n": model.design.total,
            "decrement": end.decrement,
            "steps": float(steps),
        },
        notes=(
            *sigma_note(model, JOINT_SIGMA),
            routine_note(Topic.CONVERGENCE, text),
            *notes,
        ),
    )


def unbounded_density_message(model: Model) -> str | None:
    """Return why beta and sigma have no joint mode, or None if the columns leave residuals."""
    if (
        not model.noise_unknown
        or model.noise_prior.powers[0] == np.inf
        or spare_rows(model) is None
    ):
        return None
    noise = VANISHING_NOISE.format(model.noise_scale)
    return f"newton: the columns reproduce the response exactly, {noise}"


def exact_fit_message(model: Model) -> str | None:
    """Return a message that the loss has no curvature at an exact fit, or None if some residual is not zero."""
    if model.likelihood.noise_scale is None or spare_rows(model) is None:
        return None
    return (
        f"newton: the columns reproduce the response exactly, where the curvature of {model.likelihood.named} likelihood is zero, so "
        "that coefficients have no standard errors. Least squares (likelihood='gaussian') has the same fit."
    )


def vanishing_noise_message(model: Model, mode: Mode) -> str | None:
    """Return the message for a search that ends at a vanishing noise scale, or None."""
    smallest = 1e-30  # relative to the sd of y; no data have so many digits
    name = model.likelihood.noise_scale
    if name not in model.unknown:
        return None
    value = float(np.exp(mode.log_aux[model.unknown.index(name)]))
    if value > smallest * model.design.y_scale:
        return None
    message = f"newton: the coefficients fit some responses exactly, {VANISHING_NOISE.format(name)}"
    shape = [a for a in model.unknown if a != name]
    if shape:
        message += f". Or hold {shape[0]} at a larger number, or give it a prior with less mass near 0"
    return message


def fixed_coefficients(
    model: Model, cause: Separation | Divergence, opened: FreeDirections | None
) -> Array:
    """Return coefficients (p, m) that are fixed at their values, one for each direction
    without curvature.

    These are directions along which the limit of the likelihood is constant, and
    directions that do not change X beta. The other coefficients keep their curvature,
    so estimable ones have their limiting variance: if the reference level of a factor
    diverges, its other levels do too, but their differences have estimates (Geyer
    2009).
    """
    p, m = model.shape
    if cause.span is None:
        return marks_by_predictor(cause.not_estimable, m)
    span = cause.span.reshape(p * m, -1)
    if opened is not None:
        span = np.hstack([span, np.kron(opened.directions, np.eye(m))])
    fixed = np.zeros(p * m, dtype=bool)
    if span.shape[1]:
        # in units of the standardised columns; the pivots are coefficients that every direction changes
        unit = np.repeat(np.linalg.norm(model.design.frame.T, axis=1), m)
        fixed[
            qr((span / unit[:, None]).T, mode="r", pivoting=True)[1][: span.shape[1]]
        ] = True
    return fixed.reshape(p, m)


def marks_by_predictor(marked: Array, m: int) -> Array:
    """(p, m) from marks of the reported coefficients (p, D). If these mix the model's
    own (a symmetric softmax), a column diverges as a whole."""
    if marked.shape[1] == m:
        return marked
    return np.repeat(marked.any(1)[:, None], m, 1)


def _covariance_given_fixed(
    model: Model,
    mode: Mode,
    cause: Separation | Divergence,
    opened: FreeDirections | None,
) -> DenseCovariance:
    """Return the covariance with some coefficients and nuisance parameters fixed; diverging ones are missing."""
    m = mode.gamma.shape[1]
    held = fixed_coefficients(model, cause, opened)
    aux = np.array([name in cause.limits for name in model.unknown], dtype=bool)
    # phi with (gamma, log aux) = Z phi spans the directions that do not change a fixed parameter
    S = with_aux(map_of_columns(model.design.frame.T, m), len(aux))
    fixed = S[np.concatenate([held.ravel(), aux])]
    Z = np.linalg.qr(
        (fixed / np.linalg.norm(fixed, axis=1, keepdims=True)).T, mode="complete"
    )[0][:, len(fixed) :]
    root = Z @ root_of_pseudo_inverse(
        Z.T @ mode.local.curvature @ Z, 1e-15 * max(1, Z.shape[1])
    )
    at_infinity = marks_by_predictor(cause.not_estimable, m)
    missing = np.concatenate([(at_infinity | held).ravel(), aux])
    return replace(
        _covariance_of_root(model, root), missing=missing if missing.any() else None
    )


def _covariance_of_root(model: Model, root: Array) -> DenseCovariance:
    """Return the covariance with a root over (vec gamma, log aux)."""
    return DenseCovariance(
        model.design.frame, model.shape[1], log_names(model), root=root
    )


def _rank_deficient_covariance(
    model: Model, mode: Mode, root: Array | None
) -> tuple[DenseCovariance, FreeDirections | None]:
    """Return the covariance of the least-norm coefficients, and the directions that
    collinear columns leave undetermined."""
    opened = open_directions(model)
    if opened is None:
        if root is None:
            raise NotConverged(
                unbounded_density_message(model)
                or exact_fit_message(model)
                or "newton: the curvature at the end is not positive definite: try another start, or give a prior"
            )
        return _covariance_of_root(model, root), None
    root = root_of_pseudo_inverse(mode.local.curvature)
    covariance = _covariance_of_root(model, root)
    return covariance.of_least_norm(opened.directions), opened
