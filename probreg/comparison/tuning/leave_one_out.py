"""Leave-one-out as a criterion: for the mode, and for the posterior by Pareto-smoothed importance sampling.

The mode without each row is exact for Gaussian models with normal priors, and one Newton step with refits of rows in doubt for others.
"""

from dataclasses import dataclass

import numpy as np

from probreg.arguments.scalars import check_fields
from probreg.comparison.leave_out.modes import (
    RowModes,
    has_closed_form,
    modes_without_rows,
    refit_without_rows,
    relative_move,
    ridge_without_rows,
    rows_in_doubt,
)
from probreg.comparison.tuning.criteria import (
    CRITERIA,
    LOSSES,
    Array,
    Assessment,
    Criterion,
    LossName,
    Request,
    estimated_aux_at,
    found_modes,
    mean_and_error,
    row_losses,
)
from probreg.data.rows import full_weights
from probreg.errors import Incompatible, such_rows
from probreg.fits.fit import fit
from probreg.fits.leave_one_out import PARETO_LIMIT
from probreg.inference import METHODS, Method, PathSolution
from probreg.model.model import Model
from probreg.system.progress import each_of

_POSTERIOR_METHODS = ("conjugate", "quadrature", "nuts")


@CRITERIA.register
@dataclass(frozen=True)
class PSIS(Criterion):
    """-elpd_loo / n: the mean negative log posterior predictive density of each observation given the others.

    The source is Vehtari, Gelman & Gabry (2017). The posterior is sampled by `method`: a name, a
    Method, or "auto" for conjugate, quadrature or nuts.
    """

    method: str | Method = "auto"

    def __post_init__(self) -> None:
        check_fields(self)

    name = "psis"
    grid = 9
    of_modes = False

    def obstacle(self, model: Model) -> str | None:
        chosen = self.choose_method(model)
        if chosen.target != "posterior":
            return f"psis judges a posterior, and {chosen.name} finds a mode: use loo, or a method such as nuts"
        return chosen.obstacle(model) or model.design.rows_obstacle("psis")

    def choose_method(self, model: Model) -> Method:
        """Return the sampling method."""
        if self.method != "auto":
            return METHODS.resolve(self.method)
        for name in _POSTERIOR_METHODS:
            method = METHODS[name]()
            if method.obstacle(model) is None:
                return method
        raise Incompatible(f"psis: {METHODS['nuts']().obstacle(model)}")

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        method = self.choose_method(path.base)
        results = each_of(
            lambda i: fit(path.model(i), method, seed=ask.seed).loo(),
            range(len(path.scales)),
            "scales",
        )
        # elpd = sum_i log p(y_i | y without i), of which -elpd / n is the mean loss; se of the sum over n.
        n = path.base.design.total
        elpd = np.array([float(r.elpd) for r in results])
        se = np.array([float(r.se) for r in results])
        bad = np.array([int((r.pareto_k > PARETO_LIMIT).sum()) for r in results])
        description = (
            "the mean leave-one-out negative log posterior predictive density per observation, by PSIS over the draws of "
            f"{method.name}"
        )
        notes: tuple[str, ...] = ()
        if bad.any():
            notes = (
                f"Pareto k is above {PARETO_LIMIT} for up to {bad.max()} observations (column bad_k): their terms are not reliable",
            )
        columns = {"elpd_loo": elpd, "bad_k": bad}
        return Assessment(-elpd / n, description, se / n, columns, notes=notes)


@CRITERIA.register
@dataclass(frozen=True)
class LeaveOneOut(Criterion):
    """The mean loss of each observation under the mode without it; its standard error is sd / sqrt(n).

    For squared error of a Gaussian model the mean is PRESS / n (Allen 1974).
    """

    name = "loo"
    holds_out = True

    def obstacle(self, model: Model) -> str | None:
        return model.design.rows_obstacle("loo")

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        model = path.base
        exact: list[RowModes | None] = [None] * len(path.scales)
        if path.ridge is not None:
            exact = list(ridge_without_rows(path.ridge, path.scales))
        results = each_of(
            lambda i: _losses(path, i, ask.loss, exact[i]), range(len(exact)), "scales"
        )
        parts = np.stack([losses for losses, _ in results])
        refits = sum(count for _, count in results)
        good = found_modes(path)
        bad = np.flatnonzero(np.isnan(parts[good]).all(0))
        if good.any() and len(bad):
            raise Incompatible(
                f"loo: without row {model.design.row_name(bad[0])} some coefficient has no estimate ({such_rows(len(bad))}): give its "
                "column a prior, or use cv with folds that keep such rows together"
            )
        weight = full_weights(model.design.weights, model.design.n)
        score, se = mean_and_error(parts, weight, weight.sum())
        method, notes = _describe_method(model, refits, parts.size)
        description = f"the mean leave-one-out {LOSSES[ask.loss]} per observation of the mode, {method}"
        return Assessment(score, description, se, parts=parts, notes=notes)


def _losses(
    path: PathSolution, i: int, loss: LossName, exact: RowModes | None
) -> tuple[Array, int]:
    """Return the loss of each observation at the i-th scale, and how many modes were refitted; `exact` are known modes."""
    model = path.base
    if not path.status[i].good:
        return np.full(model.design.n, np.nan), 0
    beta = path.beta[i]
    aux = estimated_aux_at(path, i)
    at_scale = path.model(i)
    modes = exact or modes_without_rows(at_scale, beta, aux)
    likelihood = model.likelihood
    losses = row_losses(
        loss, likelihood, model.design, modes.eta, model.fixed | modes.aux
    )
    # with more coefficients than rows or a kink, refits are expensive
    few_rows = model.design.n <= model.shape[0] * model.shape[1]
    if exact is not None or few_rows or not model.joint.smooth:
        return losses, 0
    full_losses = row_losses(
        loss, likelihood, model.design, model.eta(beta), model.fixed | aux
    )
    move = relative_move(model, beta, aux, modes)
    weight = full_weights(model.design.weights, model.design.n)
    n = weight.sum()
    se = float(mean_and_error(losses[None], weight, n)[1][0])
    allowed = 1e-2  # of the standard error of the score: error of one Newton step
    rows = rows_in_doubt(losses, full_losses, move, weight, allowed * se * n)
    if len(rows):
        frozen = at_scale.with_prior_frozen
        refits = refit_without_rows(frozen, beta, aux, rows, shared=True)
        losses[rows] = row_losses(
            loss,
            likelihood,
            model.design.take(rows),
            refits.eta,
            model.fixed | refits.aux,
        )
    return losses, len(rows)


def _describe_method(
    model: Model, refits: int, losses: int
) -> tuple[str, tuple[str, ...]]:
    """Return how the losses were computed, and notes."""
    notes: tuple[str, ...] = ()
    if model.design.weights is not None:
        notes = ("one observation is left out: a row of weight w loses one of its w",)
    if has_closed_form(model):
        return "exactly, in closed form", notes
    method = "approximately, by one Newton step from the mode of all rows"
    if not model.joint.smooth:
        method += ", coefficients at a kink fixed there"
        if model.unknown:
            method += f", {', '.join(model.unknown)} fixed"
    if refits:
        method += ", and by refits where that is in doubt"
        notes = (*notes, f"{refits} of {losses} leave-one-out losses are of refits")
    return method, notes
