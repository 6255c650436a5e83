"""Leave-one-out of the posterior: Pareto-smoothed importance sampling over its draws, by ArviZ."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import check_fields
from probreg.comparison.tuning.criteria import CRITERIA, Assessment, Criterion, Request
from probreg.comparison.tuning.losses import PredictionLoss
from probreg.errors import Incompatible
from probreg.fits.fit import Fit, fit
from probreg.inference import METHODS, Method, PathSolution
from probreg.model.model import Model

_LADDER = ("conjugate", "quadrature", "nuts")
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

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        chosen = self.chosen(model)
        if chosen.target != "posterior":
            return f"psis judges a posterior, and {chosen.name} finds a mode: use loo, or a method such as nuts"
        return chosen.obstacle(model) or model.design.rows_obstacle("psis")

    def chosen(self, model: Model) -> Method:
        """The method that samples."""
        if self.method != "auto":
            return METHODS.resolve(self.method)
        for name in _LADDER:
            if (method := METHODS[name]()).obstacle(model) is None:
                return method
        raise Incompatible(f"psis: {METHODS['nuts']().obstacle(model)}")

    def assess(self, found: PathSolution, ask: Request) -> Assessment:
        method = self.chosen(found.base)
        each = [_leave_out(fit(found.model(i), method, seed=ask.seed)) for i in range(len(found.scales))]
        n = found.base.design.total
        elpd, se, bad = (np.array([getattr(e, name) for e in each]) for name in ("elpd", "se", "bad"))
        said = (
            "the mean leave-one-out negative log posterior predictive density per observation, by PSIS over the draws of "
            f"{method.name}"
        )
        notes: tuple[str, ...] = ()
        if bad.any():
            worst = f"Pareto k is above {_K} for up to {bad.max()} observations (column bad_k): their terms are not to be trusted"
            notes = (worst,)
        return Assessment(-elpd / n, said, se / n, {"elpd_loo": elpd, "bad_k": bad}, notes=notes)


@dataclass(frozen=True)
class _LeftOut:
    elpd: float
    se: float
    bad: int


def _leave_out(fitted: Fit) -> _LeftOut:
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its verdict on Pareto k is told in the notes
        found: Any = az.loo(fitted.tree, pointwise=True)
    return _LeftOut(float(found.elpd), float(found.se), int((np.asarray(found.pareto_k) > _K).sum()))
