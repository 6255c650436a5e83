"""Leave-one-out: of the mode without refits, of the posterior by Pareto-smoothed importance sampling over its draws.

Of the mode it is exact for Gaussian models with normal priors, one Newton step for others.

With V the inverse curvature of the penalised sum of squares, h_i = x_i'V x_i and e_i the residual, the residual without
observation i is e_i / (1 - h_i) and the penalised sum of squares falls by e_i^2 / (1 - h_i) (Cook & Weisberg 1982).
Elsewhere, with z_i = (eta_i, log aux), g_i and W_i the gradient and curvature of -(log p_i) over z_i, and h_i = J_i H^-1 J_i',
one Newton step from the mode of all rows leads to z_i + (I - h_i W_i)^-1 h_i g_i (Pregibon 1981; Rad & Maleki 2020, who
restrict H to the coefficients off their kinks). One observation is left out: a row of weight w loses one of its w.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from probreg.arguments.scalars import check_fields
from probreg.comparison.tuning.criteria import (
    CRITERIA,
    Array,
    Assessment,
    Criterion,
    PredictionLoss,
    Request,
    estimated_aux_at,
    has_mode,
    likelihood_alone,
    mean_and_error,
    modes,
)
from probreg.comparison.tuning.cross_validation import held_out_losses
from probreg.data.rows import full_weights
from probreg.errors import Incompatible, such_rows
from probreg.fits.fit import Fit, fit
from probreg.inference import METHODS, Method, PathSolution
from probreg.inference.penalized.degrees import smooth_prior_curvature
from probreg.inference.penalized.left_out_modes import RowsInParts
from probreg.inference.penalized.nonsmooth import NonsmoothTerms
from probreg.inference.penalized.ridge_modes import RidgeModes
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.frame import between_outcomes
from probreg.system.progress import each_of

_LADDER = ("conjugate", "quadrature", "nuts")
# of the standard error of the score: what one Newton step may leave out of it
_SHARE = 1e-2
_K = 0.7  # Pareto k above which importance sampling is not to be trusted


@CRITERIA.register
@dataclass(frozen=True)
class PSIS(Criterion):
    """-elpd_loo / n: the mean negative log posterior predictive density of each observation given the others (Vehtari,
    Gelman & Gabry 2017), with the posterior by `method`: a name, a Method, or "auto" for conjugate, quadrature or nuts."""

    method: str | Method = "auto"

    def __post_init__(self) -> None:
        check_fields(self)

    name = "psis"
    grid = 9
    of_modes = False

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        chosen = self.choose_method(model)
        if chosen.target != "posterior":
            return f"psis judges a posterior, and {chosen.name} finds a mode: use loo, or a method such as nuts"
        return chosen.obstacle(model) or model.design.rows_obstacle("psis")

    def choose_method(self, model: Model) -> Method:
        """Return the sampling method."""
        if self.method != "auto":
            return METHODS.resolve(self.method)
        for name in _LADDER:
            method = METHODS[name]()
            if method.obstacle(model) is None:
                return method
        raise Incompatible(f"psis: {METHODS['nuts']().obstacle(model)}")

    def assess(self, found: PathSolution, ask: Request) -> Assessment:
        method = self.choose_method(found.base)
        each = each_of(
            lambda i: _leave_out(fit(found.model(i), method, seed=ask.seed)),
            range(len(found.scales)),
            "scales",
        )
        # elpd = sum_i log p(y_i | y without i), of which -elpd / n is the mean loss; se of the sum over n.
        n = found.base.design.total
        elpd, se, bad = (
            np.array([getattr(e, name) for e in each]) for name in ("elpd", "se", "bad")
        )
        said = (
            "the mean leave-one-out negative log posterior predictive density per observation, by PSIS over the draws of "
            f"{method.name}"
        )
        notes: tuple[str, ...] = ()
        if bad.any():
            worst = f"Pareto k is above {_K} for up to {bad.max()} observations (column bad_k): their terms are not to be trusted"
            notes = (worst,)
        return Assessment(
            -elpd / n, said, se / n, {"elpd_loo": elpd, "bad_k": bad}, notes=notes
        )


@dataclass(frozen=True)
class _LeftOut:
    elpd: float
    se: float
    bad: int


def _leave_out(fitted: Fit) -> _LeftOut:
    found = fitted.loo()
    return _LeftOut(
        float(found.elpd), float(found.se), int((np.asarray(found.pareto_k) > _K).sum())
    )


class Without(NamedTuple):
    """What each row is predicted by when one observation of it is left out: eta (n, m), sigma or other aux (n,) each, and
    the leverage h (n,) with the penalised RSS and its degrees of freedom, where the closed form knows them."""

    eta: Array
    aux: dict[str, Array]
    h: Array | None = None
    # (n,) the least penalised sum of squares without the observation
    rss: Array | None = None
    power: float = 0.0  # its degrees of freedom


def _has_closed_form(model: Model) -> bool:
    """The closed form of ridge serves."""
    return METHODS["closed_form"]().obstacle(model) is None


def without_each(model: Model, beta: Array, aux: dict[str, float]) -> Without:
    """The predictions of each row by the mode without one observation of it; nan for a row that alone decides a coefficient."""
    if not _has_closed_form(model):
        return _one_step(model, beta, aux)
    return ridge_without_each(RidgeModes.of(model, np.ones(1)), np.ones(1))[0]


def ridge_without_each(ridge: RidgeModes, scales: Array) -> list[Without]:
    """The same of a Gaussian model with normal priors at each scale."""
    model = ridge.model
    out = ridge.left_out(scales)
    eta = model.design.observed - out.residual
    # sigma_(i)^2 = RSS_(i) / (n - 1 + q), the joint mode over log sigma.
    power = model.design.total + len(ridge.columns) - 1.0
    if model.unknown:
        held = {model.noise_scale: np.sqrt(np.maximum(out.rss, 0.0) / power)}
    else:
        held = {}
    return [
        Without(
            eta[i][:, None],
            {a: v[i] for a, v in held.items()},
            1.0 - out.rest[i],
            out.rss[i],
            power - model.shape[0],
        )
        for i in range(len(scales))
    ]


def _one_step(model: Model, beta: Array, aux: dict[str, float]) -> Without:
    likelihood = model.likelihood
    d = model.design
    assert isinstance(likelihood, SmoothLikelihood)  # a path has asked for it
    moving = model.unknown if model.joint.smooth else ()
    eta = model.eta(beta)
    known = {**model.fixed, **aux}
    m = model.shape[1]
    _, g, W = likelihood.value_grad_hessian(
        d.observed, eta, **likelihood.at_rows(known, d.precision)
    )
    pick = [*range(m), *(likelihood.aux.index(a) + m for a in moving)]
    h = _leverage_blocks(model, beta, aux)
    g = g[:, pick]
    W = W[:, pick][:, :, pick]
    # Without row i the gradient is -J_i'g_i and the curvature H - J_i'W_i J_i, g_i = d log p_i / d z_i: one step moves
    # z_i by -J_i (H - J_i'W_i J_i)^-1 J_i'g_i = -(I - h_i W_i)^-1 h_i g_i (Woodbury).
    left = np.eye(len(pick)) - h @ W
    sound = np.linalg.det(left) > 1e-10
    step = np.linalg.solve(
        np.where(sound[:, None, None], left, np.eye(len(pick))), h @ g[..., None]
    )[..., 0]
    step = np.where(sound[:, None], step, np.nan)
    out = {a: np.full(d.n, v) for a, v in aux.items()}
    out |= {a: aux[a] * np.exp(-step[:, m + i]) for i, a in enumerate(moving)}
    return Without(eta - step[:, :m], out)


def _leverage_blocks(model: Model, beta: Array, aux: dict[str, float]) -> Array:
    """Return h_i = J_i H^-1 J_i' (n, k, k) over (eta, log aux); coefficients at a kink are fixed, and aux with them."""
    (p, m), X = model.shape, model.design.X
    if model.joint.smooth:
        H = model.value_grad_hessian(beta, **aux).curvature
        use = np.ones(p * m, bool)
    else:
        nonsmooth = NonsmoothTerms.of(model)
        H = nonsmooth.between_scores(
            likelihood_alone(model, aux).value_grad_hessian(beta).curvature
        )
        H = H + smooth_prior_curvature(model, beta, **aux)
        use = ~nonsmooth.at(nonsmooth.phi(beta, model.noise(aux))).ravel()
    k = len(H) - len(use)
    at = np.r_[use, np.ones(k, bool)]
    V = np.zeros_like(H)
    V[np.ix_(at, at)] = _inverse_hessian(H[np.ix_(at, at)])
    if model.joint.contrast is not None:
        V = between_outcomes(V, model.joint.contrast.T)  # beta = scores C
    # J_i = d(eta_i, log aux) / d(vec beta, log aux) = [x_i' kron I_m, 0; 0, I]; h_i = J_i V J_i', block by block.
    V4 = V[: p * m, : p * m].reshape(p, m, p, m)
    h = np.empty((len(X), m + k, m + k))
    for a in range(m):
        for b in range(m):
            h[:, a, b] = ((X @ V4[:, a, :, b]) * X).sum(1)
    cross = np.einsum("np,pac->nac", X, V[: p * m, p * m :].reshape(p, m, k))
    h[:, :m, m:], h[:, m:, :m], h[:, m:, m:] = (
        cross,
        cross.swapaxes(1, 2),
        V[p * m :, p * m :],
    )
    return h


def _inverse_hessian(H: Array) -> Array:
    """Return H^-1, with rows scaled to unit diagonal."""
    d = np.sqrt(np.abs(np.diagonal(H)))
    d = np.where(d > 0, d, 1.0)
    # H^-1 = D^-1 (D^-1 H D^-1)^+ D^-1, D = diag(H)^(1/2).
    return np.linalg.pinv(H / np.outer(d, d), rcond=1e-14, hermitian=True) / np.outer(
        d, d
    )


def predictive_loss(model: Model, found: Without) -> Array:
    """-log p(y_i | y without i) (n,), beta and sigma integrated out: normal with sigma held, Student-t else."""
    assert found.h is not None  # the closed form knows them
    assert found.rss is not None
    w = 1.0 if model.design.precision is None else model.design.precision
    e = model.design.observed - found.eta[:, 0]
    rest = (1.0 - found.h) * w
    if not model.unknown:
        # y_i | others ~ N(x_i'b_(i), sigma^2 / (w_i (1 - h_i))).
        variance = model.fixed[model.noise_scale] ** 2 / rest
        return 0.5 * (np.log(2.0 * np.pi * variance) + e**2 / variance)
    # y_i | others is Student-t on nu = n - 1 + q - p about x_i'b_(i), scale^2 = RSS_(i) / nu / (w_i (1 - h_i)).
    df = found.power
    variance = found.rss / df / rest
    constant = gammaln((df + 1.0) / 2.0) - gammaln(df / 2.0) - 0.5 * np.log(df * np.pi)
    return (
        0.5 * np.log(variance)
        - constant
        + (df + 1.0) / 2.0 * np.log1p(e**2 / (df * variance))
    )


@CRITERIA.register
@dataclass(frozen=True)
class LeaveOneOut(Criterion):
    """The mean loss of each observation under the mode without it; its standard error is sd / sqrt(n).

    For squared error of a Gaussian model the mean is PRESS / n (Allen 1974).
    """

    name = "loo"
    holds_out = True

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        why = model.design.rows_obstacle("loo")
        if why is not None:
            return why
        if loss.name == "predictive" and not _has_closed_form(model):
            return (
                "score='predictive' is closed form for Gaussian models with normal priors, sigma held or in their units, and "
                "this model is not one. The leave-one-out of a posterior is by='psis'"
            )
        return loss.obstacle(model.likelihood)

    def assess(self, found: PathSolution, ask: Request) -> Assessment:
        model = found.base
        each = (
            [None] * len(found.scales)
            if found.ridge is None
            else ridge_without_each(found.ridge, found.scales)
        )
        made = each_of(
            lambda i: _losses(found, i, ask.loss, each[i]), range(len(each)), "scales"
        )
        parts = np.stack([losses for losses, _ in made])
        refits = sum(count for _, count in made)
        _require_estimates(found, parts)
        weight = full_weights(model.design.weights, model.design.n)
        score, se = mean_and_error(parts, weight, weight.sum())
        how, notes = _how(model, refits, parts.size)
        if ask.loss.name == "predictive":
            subject = ""
        else:
            subject = " of the mode"
        said = (
            f"the mean leave-one-out {ask.loss.title} per observation{subject}, {how}"
        )
        return Assessment(score, said, se, parts=parts, notes=notes)


def _require_estimates(found: PathSolution, parts: Array) -> None:
    """Incompatible names a row without which some coefficient that no prior holds has no estimate, at any scale."""
    good = [i for i in range(len(parts)) if has_mode(found, i)]
    if not good or not len(bad := np.flatnonzero(np.isnan(parts[good]).all(0))):
        return
    design = found.base.design
    if design.labels is None:
        labels = np.arange(design.n)
    else:
        labels = design.labels
    raise Incompatible(
        f"loo: without row {labels[bad[0]]} some coefficient has no estimate ({such_rows(len(bad))}): give its column a prior, "
        "or use cv with folds that keep such rows together"
    )


def _losses(
    found: PathSolution, i: int, loss: PredictionLoss, out: Without | None
) -> tuple[Array, int]:
    """Of each observation at the i-th scale, by `out` where it is known; and how many were refitted."""
    model = found.base
    if not has_mode(found, i):
        return np.full(model.design.n, np.nan), 0
    exact = out is not None
    if out is None:
        out = without_each(found.model(i), found.beta[i], estimated_aux_at(found, i))
    if loss.name == "predictive":
        return predictive_loss(model, out), 0
    losses = _losses_at(model, loss, out.eta, out.aux)
    if exact or not _refits(model):
        return losses, 0
    whole = _losses_at(
        model, loss, model.eta(found.beta[i]), estimated_aux_at(found, i)
    )
    moved = np.abs(out.eta - model.eta(found.beta[i])).max(1) / model.noise(
        estimated_aux_at(found, i)
    )
    weight = full_weights(model.design.weights, model.design.n)
    allowed = (
        _SHARE
        * float(mean_and_error(losses[None], weight, weight.sum())[1][0])
        * weight.sum()
    )
    rows = doubtful(losses, whole, moved, weight, allowed)
    losses[rows] = refitted_losses(found, i, loss, rows)
    return losses, len(rows)


def _losses_at(
    model: Model, loss: PredictionLoss, eta: Array, aux: Mapping[str, Any]
) -> Array:
    aux = model.likelihood.at_rows({**model.fixed, **aux}, model.design.precision)
    return np.array(loss(model.likelihood, model.design.observed, eta, aux))


def _refits(model: Model) -> bool:
    """Rows outnumber coefficients and the prior has no kinks: one Newton step is then mostly enough, and refits are cheap."""
    return model.joint.smooth and model.design.n > model.shape[0] * model.shape[1]


def doubtful(
    losses: Array, whole: Array, moved: Array, weight: Array, allowed: float
) -> Array:
    """The rows whose losses by one Newton step are to be refitted, so that what the step leaves out of the others moves their sum
    by no more than `allowed`. `whole` (n,) are the losses with the row itself, `moved` (n,) how far its linear
    predictor went, in units of the noise where there is one, `weight` (n,) how often a row counts."""
    # the second step is about |move| / 2 of the first
    error = np.nan_to_num(
        np.abs(losses - whole) * np.minimum(moved / 2.0, 1.0), nan=np.inf, posinf=np.inf
    )
    order = np.argsort(error)
    over = np.flatnonzero(~(np.cumsum(error[order] * weight[order]) <= allowed))
    # rows that are alike are refitted alike
    if len(over):
        return np.flatnonzero(error >= (1.0 - 1e-6) * error[order[over[0]]])
    return over


def refitted_losses(
    found: PathSolution, i: int, loss: PredictionLoss, rows: Array
) -> Array:
    """Of some rows (r,) at the i-th scale, by the modes without one observation of each."""
    model = found.base
    at = found.model(i)
    out = np.full(len(rows), np.nan)
    weight = full_weights(model.design.weights, model.design.n)
    part = np.full(model.design.n, -1)
    part[rows] = np.arange(len(rows))
    if len(rows):
        parts = RowsInParts.of(model, part, weight - 1.0)
    else:
        parts = None
    left = None
    if parts is not None:
        left, _ = parts.without(
            at, parts.rows.point(found.beta[i], estimated_aux_at(found, i))
        )
        aux = model.likelihood.at_rows(
            {**model.fixed, **left.aux},
            None if model.design.precision is None else model.design.precision[rows],
        )
        out = np.array(
            loss(model.likelihood, model.design.observed[rows], left.eta, aux)
        )
    for k in range(len(rows)) if left is None else np.flatnonzero(~left.good):
        fewer = weight - (np.arange(len(weight)) == rows[k])
        kept = model.design.take(np.flatnonzero(fewer > 0))
        if model.design.weights is not None:
            kept = replace(kept, weights=fewer[fewer > 0])
        alone = modes(
            replace(model.with_prior_frozen, design=kept), found.scales[i : i + 1]
        )
        out[k] = held_out_losses(alone, model.design.take(rows[k : k + 1]), loss)[0, 0]
    return out


def _how(model: Model, refits: int, losses: int) -> tuple[str, tuple[str, ...]]:
    """How it was computed, and what to know of it."""
    notes = (
        ("one observation is left out: a row of weight w loses one of its w",)
        if model.design.weights is not None
        else ()
    )
    if _has_closed_form(model):
        return "exactly, in closed form", notes
    if model.joint.smooth:
        held = []
    else:
        held = ["coefficients at a kink held there"]
    if not model.joint.smooth and model.unknown:
        held.append(f"{', '.join(model.unknown)} held")
    if refits:
        held.append("and by refits where that is in doubt")
        notes = (
            *notes,
            f"{refits} of {losses} leave-one-out losses are of modes found anew",
        )
    return "approximately, by one Newton step from the mode of all rows" + "".join(
        f", {h}" for h in held
    ), notes
