"""Ridge as a ball of functions: stability of the fit, and the Rademacher complexity of the ball that contains it.

With a normal prior of covariance V on every column and a known ratio to the noise, the mode minimises the mean loss plus
lam ||f||^2, with f = x'beta in the space of k(x, z) = x'V z / v, v the mean of the diagonal of V: for one scale tau the norm of
beta is ||f||, and k the plain product of rows, or the covariance function if the columns belong to a Gaussian process.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from probreg.diagnostics.findings import NotApplicable
from probreg.diagnostics.guarantee.judged import (
    Array,
    BoundLine,
    Judged,
    flat_columns,
    relative_prior,
    scale_name,
)
from probreg.errors import DataError
from probreg.scores.assumptions import Assumption
from probreg.scores.bounds import kernel, stability


@dataclass(frozen=True, eq=False)
class Ball:
    """The ridge problem of a model: min mean loss + lam ||f||^2 over f = x'beta."""

    lam: float  # of the mean loss
    norm: float  # ||f|| of the fit
    squares: Array  # (n,) k(x_i, x_i)
    r: float | None  # sup sqrt(k(x, x)), where it is known before the rows
    B: float  # |y - offset| <= B
    epsilon: float | None  # of the loss that is minimised; None where it is squared

    @property
    def radius(self) -> float:
        """Lam, an upper bound of ||f||, because lam ||f||^2 is at most the mean loss of f = 0."""
        if self.epsilon is None:
            at_zero = self.B**2
        else:
            at_zero = max(0.0, self.B - self.epsilon)
        return float(np.sqrt(at_zero / self.lam))


def ball_lines(judged: Judged) -> list[BoundLine]:
    """Return the bounds by stability, and by the ball with the trace of the rows and with r if it is known."""
    require_ridge(judged)
    loss = judged.losses[0]
    ball = _ball(judged)
    Lam = ball.radius
    delta = judged.share
    formula = "B / sqrt(lam)"
    if ball.epsilon is not None:
        formula = "sqrt(max(0, B - epsilon) / lam)"
    note = f"Lam = {Lam:.4g} = {formula}, lam = {ball.lam:.4g} of the mean loss, assumed fixed before the rows"
    if judged.chosen_from is None:
        # the smallest Lam_k = 2^(k - 1) B / r that contains the fit, with delta_k = delta / (k (k + 1)); they sum to delta
        first = ball.B / (ball.r or 1.0)
        k = max(1, int(np.ceil(np.log2(max(ball.norm / first, 1e-300)))) + 1)
        Lam = first * 2.0 ** (k - 1)
        delta = judged.delta / (k * (k + 1))
        note = f"Lam = {Lam:.4g}, step {k} of a doubling grid for ||f|| of these rows, with delta / {k * (k + 1)}"
    inside = Assumption(f"||f|| <= {Lam:.4g}", ball.norm, ball.norm <= Lam * (1 + 1e-9))
    arguments: dict[str, Any] = {
        "risk": judged.risk(loss),
        "n": judged.n,
        "norm": Lam,
        "width": loss.width,
        "epsilon": loss.epsilon,
        "delta": delta,
    }
    trace = float(ball.squares.sum())
    bounds = {"trace of the rows": kernel(**arguments, trace=trace)}
    if ball.r is not None:
        bounds[f"r = {ball.r:.4g}"] = kernel(**arguments, row_norm=ball.r)
    lines = judged.lines_or_reason("stability", partial(_stability_lines, ball=ball))
    for words, bound in bounds.items():
        title = f"{bound.theorem}, {words}"
        assumptions = (*bound.assumptions, inside)
        bound = replace(
            bound, theorem=title, assumptions=assumptions, delta=judged.delta
        )
        lines.append(judged.line(title, loss, bound, note))
    return lines


def _stability_lines(judged: Judged, ball: Ball) -> list[BoundLine]:
    fit = judged.fit
    loss = judged.losses[0]
    if judged.chosen_from is None:
        raise NotApplicable(
            "lam was chosen on these rows, and the theorem needs one fixed before them"
        )
    if ball.r is None:
        raise NotApplicable(
            "no bound of k(x, x) is known before the rows: give row_norm="
        )
    if loss.epsilon != ball.epsilon:
        raise NotApplicable("the fit minimises another loss")
    if fit.target != "mode" or not fit.solution.status.good:
        raise NotApplicable(
            "it needs the minimiser, and this fit is not a converged mode"
        )
    bound = stability(
        risk=judged.risk(loss), n=judged.n, lam=ball.lam, row_norm=ball.r, half_width=ball.B, width=loss.width,
        epsilon=loss.epsilon, delta=judged.share,
    )  # fmt: skip
    note = f"lam = {ball.lam:.4g} of the mean loss, assumed fixed before the rows; |y - offset| <= {ball.B:.4g}"
    return [judged.line("stability", loss, bound, note)]


# ---- the model as a ridge problem ------------------------------------------------------------------------------------


def require_ridge(judged: Judged) -> None:
    """Raise NotApplicable with the first assumption that fails, unless the fit is a ridge problem with fixed lam."""
    model = judged.fit.model
    design = judged.design
    lik = model.likelihood
    joint = model.joint
    learned = ", ".join(design.recipe.learned)
    if not (lik.least_squares or lik.insensitive is not None):
        raise NotApplicable(
            f"the loss of the {lik.name} likelihood is neither squared nor absolute error"
        )
    flat = flat_columns(judged.fit)
    if flat:
        raise NotApplicable(
            f"a flat prior on {flat} gives no bound of the norm: leave the intercept out, with offset= the middle of y_range"
        )
    if not joint.gaussian or np.any(joint.center):
        raise NotApplicable("the prior is not normal about zero on every column")
    if relative_prior(judged.fit):
        raise NotApplicable(
            "the prior is relative to these rows: give it on the raw columns"
        )
    scale = scale_name(lik)
    units = joint.sigma_units
    estimated = scale in model.unknown and not (lik.least_squares and units.all())
    if estimated and units.any() and not units.all():
        raise NotApplicable(
            f"{scale} is estimated, and some columns have their prior in its units: fix it"
        )
    if estimated and judged.chosen_from is not None:
        raise NotApplicable(
            f"{scale} is estimated, and so is lam: fix it, or use chosen_from=None"
        )
    if judged.fit.solution.stats.get("ratios_found", 0.0) > 1:
        raise NotApplicable(
            "several scales were estimated by evidence on these rows, and at most one is allowed: fix them"
        )
    if learned:
        raise NotApplicable(
            f"the columns of {learned} depend on these rows, and so does the class"
        )
    if design.offset is not None and np.ptp(design.offset) > 0:
        raise NotApplicable(
            "the offset varies by row, so that no bound of |y - offset| is known before the rows"
        )


def _ball(judged: Judged) -> Ball:
    fit = judged.fit
    design = judged.design
    model = fit.model
    lik = model.likelihood
    joint = model.joint
    if lik.least_squares and joint.sigma_units.all():
        s = 1.0
    else:
        s = float(fit.aux[scale_name(lik)])
    P = joint.precision(s)
    if not np.any(P - np.diag(np.diag(P))):
        V = np.diag(1.0 / np.diag(P))
    else:
        V = np.linalg.inv(P)
    v = float(np.mean(np.diag(V)))
    # |y - f|^2 / (2 s^2) + beta'P beta / 2 times 2 s^2 / m, and |y - f|_eps / s + beta'P beta / 2 times s / m.
    lam = (s**2 if lik.least_squares else s / 2) / (design.n * v)
    beta = fit.solution.beta[:, 0]
    assert judged.y_range is not None
    offset = 0.0 if design.offset is None else float(design.offset.flat[0])
    return Ball(
        lam,
        norm=float(np.sqrt(v * beta @ P @ beta)),
        squares=np.einsum("ij,ij->i", design.X @ (V / v), design.X),
        r=_row_norm(judged, V / v),
        B=max(abs(end - offset) for end in judged.y_range),
        epsilon=None if lik.least_squares else lik.insensitive,
    )


def _row_norm(judged: Judged, V: Array) -> float | None:
    """Return r: as given, or from the bounds of covariance functions. DataError for a row with a larger norm."""
    design = judged.design
    r = judged.row_norm
    if r is not None:
        # rows as they were given, before frequencies
        unrepeated = judged.fit.model.design
        norms = np.sqrt(np.einsum("ij,ij->i", unrepeated.X @ V, unrepeated.X))
        bad = np.flatnonzero(norms > r * (1 + 1e-9))
        if len(bad):
            raise DataError(
                f"row_norm={r:g}, but row {unrepeated.places[bad[0]]} has norm {norms[bad[0]]:.6g}"
            )
        return r
    terms = design.recipe.processes.values()
    if not terms or sum(len(t.columns) for t in terms) < len(design.columns):
        return None
    # k(x, x) = sum over terms of v_t k_t(x, x), v_t the variance of the columns of term t.
    variance = dict(zip(design.columns, np.diag(V)))
    limit = float(sum(variance[t.columns[0]] * t.basis.kernel.bound for t in terms))
    return float(np.sqrt(limit)) if np.isfinite(limit) else None
