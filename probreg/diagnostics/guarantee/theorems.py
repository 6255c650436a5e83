"""The theorems behind a guarantee: held-out rows, ridge and lasso as balls of functions, the number of columns, and PAC-Bayes.

With a normal prior of covariance V on every column and a known ratio to the noise, the mode minimises the mean loss plus
lam ||f||^2, with f = x'beta in the space of k(x, z) = x'V z / v, where v is the mean of the diagonal of V. For one scale tau the norm
of beta is ||f||, and k is the plain product of rows, or the covariance function if the columns belong to a Gaussian process. With
Laplace priors with scales s_j it minimises the mean loss plus lam ||f||, ||f|| = sum_j |beta_j| s / s_j, where s is the mean scale.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from probreg.data import Design
from probreg.diagnostics.conformal.conformal import fit_again
from probreg.diagnostics.findings import NotApplicable
from probreg.diagnostics.guarantee.bound_inputs import (
    Array,
    BoundInputs,
    BoundLine,
    flat_columns,
    mean_at,
    scale_name,
)
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.inference.covariance import ParameterCovariance
from probreg.likelihoods.links import IDENTITY
from probreg.linalg import factor_of
from probreg.priors import Laplace
from probreg.priors.joint import location_of
from probreg.scores.assumptions import Assumption
from probreg.scores.bounds import (
    Bound,
    hold_out,
    kernel,
    l1,
    pac_bayes,
    pseudo_dimension,
    stability,
)
from probreg.scores.bounds.single import HoldOut

_KINDS: tuple[HoldOut, ...] = ("maurer_pontil", "hoeffding")
_WHAT = "a hold-out"
DRAWS = "PAC-Bayes, the mean risk of draws"
_OF_DRAWS = "it is for predictions of draws and, for a convex loss, their mean; not for the fit itself"


# ---- rows that a fit has not used ----


def require_refit(inputs: BoundInputs) -> None:
    """Raise NotApplicable if a fit on a part of the rows depends on the others."""
    learned = inputs.design.recipe.learned_terms
    if inputs.chosen_from is None:
        raise NotApplicable(
            "its prior scale was chosen on all rows, including the hold-out: pass unused rows as data="
        )
    if learned:
        raise NotApplicable(
            f"the columns of {', '.join(learned)} depend on all rows, including the hold-out: pass unused rows as data="
        )


def split_lines(inputs: BoundInputs, share: float) -> list[BoundLine]:
    """Refit the model without a random share of the rows, and bound its risk on the rows left out."""
    require_refit(inputs)
    order = np.random.default_rng(inputs.seed).permutation(inputs.n)
    cut = round(share * inputs.n)
    if cut < 2 or cut == inputs.n:
        raise DataError(
            f"holdout={share:g}: expected at least two and not all of the {inputs.n} rows, got {cut}"
        )
    part = fit_again(inputs.fit, inputs.design.take(np.sort(order[cut:])), _WHAT)
    held_out = inputs.design.take(np.sort(order[:cut]))
    note = f"it is for the fit on the other {inputs.n - cut} rows"
    return unseen_lines(inputs, part, held_out, note)


def unseen_lines(
    inputs: BoundInputs, fit: Fit, design: Design, note: str
) -> list[BoundLine]:
    """Return the bounds of a fit on rows that it has not used, by both inequalities."""
    mean = mean_at(fit, design)
    y = fit.model.likelihood.response(design.observed)
    lines = []
    for loss in inputs.losses:
        for kind in _KINDS:
            bound = hold_out(
                loss.function(mean, y), delta=inputs.share, most=loss.most, kind=kind
            )
            lines.append(inputs.line(bound.theorem, loss, bound, note))
    return lines


# ---- ridge and lasso ----


@dataclass(frozen=True, eq=False)
class Ball:
    """The ridge problem of a model: min mean loss + lam ||f||^2 over f = x'beta."""

    power: ClassVar[int] = 2  # of ||f||
    lam: float  # of the mean loss
    norm: float  # ||f|| of the fit
    size: float  # tr K of the rows
    r: float | None  # sup sqrt(k(x, x)), if it is known before the rows
    B: float  # |y - offset| <= B
    epsilon: float | None  # of the minimised loss; None for squared loss

    @property
    def radius(self) -> float:
        """Lam, an upper bound of ||f||, because lam ||f||^power is at most the mean loss of f = 0."""
        if self.lam == 0:
            return float("inf")
        if self.epsilon is None:
            at_zero = self.B**2
        else:
            at_zero = max(0.0, self.B - self.epsilon)
        return float((at_zero / self.lam) ** (1 / self.power))

    def bounds(self, **arguments: Any) -> dict[str, Bound]:
        """Return the bound by the rows, and the bound by r if it is known."""
        bounds = {"trace of the rows": kernel(**arguments, trace=self.size)}
        if self.r is not None:
            bounds[f"r = {self.r:.4g}"] = kernel(**arguments, row_norm=self.r)
        return bounds


@dataclass(frozen=True, eq=False)
class L1Ball(Ball):
    """The lasso: min mean loss + lam ||f||. `size` is the largest norm of a column, r the largest |x_ij|."""

    power = 1
    columns: int

    def bounds(self, **arguments: Any) -> dict[str, Bound]:
        if arguments.pop("epsilon") is not None:
            raise NotApplicable("the bound of an l1 ball is one of squared errors")
        arguments["columns"] = self.columns
        bounds = {"columns of the rows": l1(**arguments, column_norm=self.size)}
        if self.r is not None:
            bounds[f"r = {self.r:.4g}"] = l1(**arguments, largest=self.r)
        return bounds


def ball_lines(inputs: BoundInputs) -> list[BoundLine]:
    """Return the bounds by stability, and by the ball with the rows and with r if it is known."""
    require_ball(inputs)
    loss = inputs.losses[0]
    ball = _ball(inputs)
    Lam = ball.radius
    delta = inputs.share
    formula = "B / sqrt(lam)"
    if ball.epsilon is not None:
        formula = "sqrt(max(0, B - epsilon) / lam)"
    elif ball.power == 1:
        formula = "B^2 / lam"
    stated = inputs.fit.solution.stats.get("radius")
    note = f"Lam = {Lam:.4g} = {formula}, lam = {ball.lam:.4g} of the mean loss, assumed fixed before the rows"
    if stated is not None:
        Lam = float(stated)
        note = f"Lam = {Lam:.4g}, the stated radius, assumed fixed before the rows"
    elif inputs.chosen_from is None:
        # the smallest Lam_k = 2^(k - 1) B / r that contains the fit, with delta_k = delta / (k (k + 1)); they sum to delta
        first = ball.B / (ball.r or 1.0)
        k = max(1, int(np.ceil(np.log2(max(ball.norm / first, 1e-300)))) + 1)
        Lam = first * 2.0 ** (k - 1)
        delta = inputs.delta / (k * (k + 1))
        note = f"Lam = {Lam:.4g}, step {k} of a doubling grid for ||f|| of these rows, with delta / {k * (k + 1)}"
    inside = Assumption(f"||f|| <= {Lam:.4g}", ball.norm, ball.norm <= Lam * (1 + 1e-9))
    arguments = {
        "risk": inputs.risk(loss),
        "n": inputs.n,
        "norm": Lam,
        "width": loss.width,
        "epsilon": loss.epsilon,
        "delta": delta,
    }
    lines = inputs.lines_or_reason("stability", partial(_stability_lines, ball=ball))
    for words, bound in ball.bounds(**arguments).items():
        title = f"{bound.theorem}, {words}"
        assumptions = (*bound.assumptions, inside)
        bound = replace(
            bound, theorem=title, assumptions=assumptions, delta=inputs.delta
        )
        lines.append(inputs.line(title, loss, bound, note))
    return lines


def _stability_lines(inputs: BoundInputs, ball: Ball) -> list[BoundLine]:
    fit = inputs.fit
    loss = inputs.losses[0]
    if ball.power == 1:
        raise NotApplicable("the penalty of the lasso is not strictly convex")
    if inputs.chosen_from is None:
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
        risk=inputs.risk(loss), n=inputs.n, lam=ball.lam, row_norm=ball.r, half_width=ball.B, width=loss.width,
        epsilon=loss.epsilon, delta=inputs.share,
    )  # fmt: skip
    note = f"lam = {ball.lam:.4g} of the mean loss, assumed fixed before the rows; |y - offset| <= {ball.B:.4g}"
    return [inputs.line("stability", loss, bound, note)]


def require_ball(inputs: BoundInputs) -> None:
    """Raise NotApplicable with the first assumption that fails, unless the fit is ridge with fixed lam or a lasso."""
    model = inputs.fit.model
    design = inputs.design
    lik = model.likelihood
    learned = ", ".join(design.recipe.learned_terms)
    if not (lik.least_squares or lik.insensitive is not None):
        raise NotApplicable(
            f"the loss of the {lik.name} likelihood is neither squared nor absolute error"
        )
    if not _is_inside_stated_ball(inputs.fit):
        _require_prior_of_ball(inputs)
    if learned:
        raise NotApplicable(
            f"the columns of {learned} depend on these rows, and so does the class"
        )
    if design.offset is not None and np.ptp(design.offset) > 0:
        raise NotApplicable(
            "the offset varies by row, so that no bound of |y - offset| is known before the rows"
        )


def _is_inside_stated_ball(fit: Fit) -> bool:
    """Return whether maximum likelihood lies in the ball of `radius=`, by the norm of all columns."""
    columns = fit.model.design.columns
    return (
        fit.solution.stats.get("norm_of_ball") in (1.0, 2.0)
        and "Intercept" not in columns
    )


def _require_prior_of_ball(inputs: BoundInputs) -> None:
    """Raise NotApplicable unless the prior is the prior of ridge with fixed lam, or of a lasso."""
    model = inputs.fit.model
    lik = model.likelihood
    joint = model.joint
    flat = flat_columns(inputs.fit)
    if flat:
        remedy = "use ridge or lasso"
        if "Intercept" in model.design.columns:
            remedy = "leave the intercept out, with offset= the middle of y_range"
        raise NotApplicable(
            f"a flat prior on {flat} gives no bound of the norm: {remedy}"
        )
    lasso = lik.least_squares and joint.of_kind(Laplace)
    known = joint.gaussian or lasso
    if not known or any(np.any(location_of(b)) for b in joint.blocks):
        raise NotApplicable(
            "the prior is not normal, or Laplace with squared errors, about zero on every column"
        )
    if inputs.fit.model.has_relative_prior:
        raise NotApplicable(
            "the prior is relative to these rows: give it on the raw columns"
        )
    scale = scale_name(lik)
    units = joint.sigma_units
    estimated = scale in model.unknown and not (
        lik.least_squares and units.all() and joint.gaussian
    )
    if estimated and units.any() and not units.all():
        raise NotApplicable(
            f"{scale} is estimated, and some columns have their prior in its units: fix it"
        )
    if estimated and inputs.chosen_from is not None:
        raise NotApplicable(
            f"{scale} is estimated, and so is lam: fix it, or use chosen_from=None"
        )
    if inputs.fit.solution.stats.get("ratios_found", 0.0) > 1:
        raise NotApplicable(
            "several scales were estimated by evidence on these rows, and at most one is allowed: fix them"
        )


def _ball(inputs: BoundInputs) -> Ball:
    fit = inputs.fit
    design = inputs.design
    model = fit.model
    lik = model.likelihood
    joint = model.joint
    beta = fit.solution.beta[:, 0]
    assert inputs.y_range is not None
    offset = 0.0 if design.offset is None else design.offset.flat[0]
    B = max(abs(end - offset) for end in inputs.y_range)
    is_stated = _is_inside_stated_ball(fit)
    if is_stated and fit.solution.stats["norm_of_ball"] == 2.0:
        ones = np.ones(len(beta))
        r = _row_norm(inputs, lambda rows: np.linalg.norm(rows, axis=1), ones)
        norm = float(np.linalg.norm(beta))
        return Ball(0.0, norm, np.square(design.X).sum(), r, B, None)
    if is_stated or not joint.gaussian:
        return _l1_ball(inputs, beta, B)
    if lik.least_squares and joint.sigma_units.all():
        s = 1.0
    else:
        s = fit.aux[scale_name(lik)]
    P = joint.precision(s)
    if not np.any(P - np.diag(np.diag(P))):
        V = np.diag(1.0 / np.diag(P))
    else:
        V = np.linalg.inv(P)
    v = np.mean(np.diag(V))
    # |y - f|^2 / (2 s^2) + beta'P beta / 2 times 2 s^2 / m, and |y - f|_eps / s + beta'P beta / 2 times s / m.
    weight = s**2
    epsilon = None
    if not lik.least_squares:
        weight = s / 2
        epsilon = lik.insensitive
    lam = weight / (design.n * v)

    def norms(X: Array) -> Array:
        return np.sqrt(np.einsum("ij,ij->i", X @ (V / v), X))

    return Ball(
        lam,
        norm=float(np.sqrt(v * beta @ P @ beta)),
        size=np.square(norms(design.X)).sum(),
        r=_row_norm(inputs, norms, np.diag(V / v)),
        B=B,
        epsilon=epsilon,
    )


def _l1_ball(inputs: BoundInputs, beta: Array, B: float) -> L1Ball:
    """Return the ball of the lasso, or the ball of `radius=` if the constraint does not bind, so that lam = 0."""
    design = inputs.design
    lam = 0.0
    unit = np.ones(len(beta))
    if not _is_inside_stated_ball(inputs.fit):
        s = inputs.fit.aux[scale_name(inputs.fit.model.likelihood)]
        scales = np.zeros(len(beta))
        for b in inputs.fit.model.joint.blocks:
            prior: Any = b.prior
            scales[list(b.columns)] = prior.scales * prior.unit(s)
        mean = scales.mean()
        unit = scales / mean
        # |y - f|^2 / (2 s^2) + sum |beta_j| / scale_j times 2 s^2 / m
        lam = 2 * s**2 / (design.n * mean)
    return L1Ball(
        lam,
        norm=float(np.sum(np.abs(beta) / unit)),
        size=np.linalg.norm(design.X * unit, axis=0).max(),
        r=_row_norm(inputs, lambda X: np.abs(X * unit).max(1), unit),
        B=B,
        epsilon=None,
        columns=len(beta),
    )


def _row_norm(
    inputs: BoundInputs, norms_of: Callable[[Array], Array], variances: Array
) -> float | None:
    """Return r: as given, or from the bounds of covariance functions. DataError for a row with a larger norm."""
    design = inputs.design
    r = inputs.row_norm
    if r is not None:
        # the user's rows, before frequencies
        unrepeated = inputs.fit.model.design
        norms = norms_of(unrepeated.X)
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
    variance = dict(zip(design.columns, variances))
    limit = float(sum(variance[t.columns[0]] * t.basis.kernel.bound for t in terms))
    return float(np.sqrt(limit)) if np.isfinite(limit) else None


# ---- the number of columns, and PAC-Bayes ----


def dimension_lines(inputs: BoundInputs) -> list[BoundLine]:
    """Return the bounds by pseudo-dimension: p for x'beta over p columns, and for any increasing function of it."""
    design = inputs.design
    recipe = design.recipe
    likelihood = inputs.fit.model.likelihood
    p = len(design.columns)
    if likelihood.width > 1:
        raise NotApplicable("a row has several linear predictors")
    if inputs.fit.target != "mode" and likelihood.link is not IDENTITY:
        raise NotApplicable(
            "a posterior mean under a nonlinear link is not a function of one linear predictor"
        )
    if recipe.learned_terms or any(
        t.basis.holds_rows for t in recipe.processes.values()
    ):
        raise NotApplicable(
            "columns of smooth functions and processes depend on these rows, and so does the class"
        )
    if inputs.n < p:
        raise NotApplicable(f"fewer rows ({inputs.n}) than columns ({p})")
    lines = []
    for loss in inputs.losses:
        # a classification by a threshold has the dimension of the predictor itself
        bound = pseudo_dimension(
            risk=inputs.risk(loss),
            n=inputs.n,
            dimension=p,
            delta=inputs.delta,
            most=loss.most,
            of="predictions" if loss.of_probabilities else "loss",
        )
        bound = replace(bound, theorem=f"pseudo-dimension {p}")
        note = "it holds for any choice of the prior"
        lines.append(BoundLine(bound.theorem, loss.name, bound, notes=(note,)))
    return lines


def draw_lines(inputs: BoundInputs) -> list[BoundLine]:
    """PAC-Bayes for rho the normal distribution with the estimate and covariance of the fit, pi the prior."""
    require_stated_prior(inputs)
    model = inputs.fit.model
    s = inputs.fit.solution
    m = model.shape[1]
    P = model.joint.precision_of_entries(m, model.noise(inputs.fit.aux))
    S = s.covariance
    shift = s.beta.ravel() - np.repeat(model.joint.center, m)
    # KL(N(b, S) || N(c, P^-1)) = [tr(P S) + (b - c)'P (b - c) - k - log|P| - log|S|] / 2
    sign, log_det_P = np.linalg.slogdet(P)
    log_det = S.log_det()
    if not (sign > 0 and np.isfinite(log_det)):
        raise NotApplicable("the covariance of the estimate is singular")
    twice = (
        np.sum(P * S.matrix()) + shift @ P @ shift - len(shift) - log_det_P - log_det
    )
    divergence = max(0.0, 0.5 * twice)
    note = f"KL = {divergence:.4g}; {inputs.draws} draws of N(estimate, covariance), which use half of delta"
    lines = []
    for loss, risk in zip(inputs.losses, _risks_of_draws(inputs, S)):
        bound = pac_bayes(
            risk=risk,
            n=inputs.n,
            divergence=divergence,
            delta=inputs.share,
            most=loss.most,
            draws=inputs.draws,
        )
        lines.append(inputs.line(DRAWS, loss, bound, note, _OF_DRAWS))
    return lines


def require_stated_prior(inputs: BoundInputs) -> None:
    """Raise NotApplicable without a finite divergence from a prior that was fixed before the rows."""
    most_coefficients = 2000  # largest dimension of a normal distribution here
    fit = inputs.fit
    model = fit.model
    joint = model.joint
    ratios = fit.solution.stats.get("ratios_found")
    learned = ", ".join(inputs.design.recipe.learned_terms)
    flat = flat_columns(fit)
    if flat:
        raise NotApplicable(f"the divergence from the flat prior of {flat} is infinite")
    if not (joint.gaussian and joint.proper) or fit.model.has_relative_prior:
        raise NotApplicable("the prior is not a normal one on the raw columns")
    if ratios or inputs.chosen_from is None:
        raise NotApplicable(
            "the scale of the prior was estimated on these rows: fix it, or give the size of a grid as chosen_from="
        )
    name = scale_name(model.likelihood)
    in_units = joint.sigma_units.any() or model.likelihood.insensitive is not None
    if (joint.sigma_units.any() and name in model.unknown) or (
        in_units and ratios is not None
    ):
        raise NotApplicable(
            f"the prior is in units of {name}, which was estimated on these rows: fix it"
        )
    if learned:
        raise NotApplicable(
            f"the columns of {learned} depend on these rows, and so does the prior"
        )
    if fit.solution.beta.size > most_coefficients:
        raise NotApplicable(
            f"{fit.solution.beta.size} coefficients, and the limit is {most_coefficients}"
        )


def _risks_of_draws(inputs: BoundInputs, S: ParameterCovariance) -> list[float]:
    """The mean loss on the rows of independent draws beta ~ N(estimate, S), for each loss."""
    most_numbers = 2_000_000  # predictions in memory at once
    fit = inputs.fit
    design = inputs.design
    lik = inputs.fit.model.likelihood
    p, m = fit.model.shape
    # a lower triangular root, so that a seed gives the same draws in any coordinates
    L = np.asarray(factor_of(S.raw_root()[: S.coefficients].T)).T
    rng = np.random.default_rng([inputs.seed, 1])
    size = max(1, most_numbers // (design.n * m))
    total = np.zeros(len(inputs.losses))
    for start in range(0, inputs.draws, size):
        count = min(size, inputs.draws - start)
        z = rng.standard_normal((count, p * m))
        beta = (fit.solution.beta.ravel() + z @ L.T).reshape(count, p, m)
        h = lik.mean(design.eta(beta), **fit.aux, **fit.model.given(design))
        losses = [loss.function(h, inputs.response) for loss in inputs.losses]
        total += [values.mean(-1).sum() for values in losses]
    return list(total / inputs.draws)
