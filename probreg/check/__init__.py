"""Findings on a model before any fit: one question per file. Adding one is one file and one line here."""

from probreg.check.base import (
    CHECKS as CHECKS,
    Check as Check,
    Finding as Finding,
    Findings as Findings,
    Verdict as Verdict,
)
from probreg.check.cells import CellsCheck as CellsCheck
from probreg.check.condition import ConditionCheck as ConditionCheck, condition_indices as condition_indices
from probreg.check.design_leverage import DesignLeverageCheck as DesignLeverageCheck, design_leverage as design_leverage
from probreg.check.event import EventCheck as EventCheck
from probreg.check.rank import RankCheck as RankCheck
from probreg.check.rows import RowsCheck as RowsCheck
from probreg.check.scale import ScaleCheck as ScaleCheck
from probreg.check.separation import Separation as Separation, separation as separation
from probreg.check.vif import VifCheck as VifCheck, terms as terms, vif as vif
from probreg.model import Model


def check(model: Model, *, cheap: bool = False) -> Findings:
    """All findings on a model, worst first; only those of the cheap checks when `cheap` is set.

    >>> import numpy as np
    >>> check(Model.from_arrays(np.array([1.0, 2.0, 3.0]), [0, 0, 1], likelihood="bernoulli")).worst.name
    'PROBLEM'
    """
    model.design.need_rows("a check before the fit")
    return Findings.of([f for cls in CHECKS.values() if cls.cheap or not cheap for f in cls().run(model)])
