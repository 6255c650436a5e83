"""Findings on a model before any fit: one question per file. Adding one is one file and one line here."""

from probreg.arguments.scalars import Flag, check_arguments
from probreg.assess.before.base import (
    CHECKS as CHECKS,
    Check as Check,
    Finding as Finding,
    Findings as Findings,
    Verdict as Verdict,
    told_once,
)
from probreg.assess.before.cells import CellsCheck as CellsCheck
from probreg.assess.before.condition import (
    ConditionCheck as ConditionCheck,
    condition_indices as condition_indices,
)
from probreg.assess.before.design_leverage import (
    DesignLeverageCheck as DesignLeverageCheck,
    design_leverage as design_leverage,
)
from probreg.assess.before.event import EventCheck as EventCheck
from probreg.assess.before.groups import GroupsCheck as GroupsCheck
from probreg.assess.before.processes import ProcessCheck as ProcessCheck
from probreg.assess.before.rank import RankCheck as RankCheck
from probreg.assess.before.response import ResponseCheck as ResponseCheck
from probreg.assess.before.rows import RowsCheck as RowsCheck
from probreg.assess.before.same_line import SameLineCheck as SameLineCheck
from probreg.assess.before.scale import ScaleCheck as ScaleCheck
from probreg.assess.before.separation import SeparationCheck as SeparationCheck
from probreg.assess.before.term_columns import terms as terms
from probreg.assess.before.vif import VifCheck as VifCheck, vif as vif
from probreg.inference.modes.separation import (
    Separation as Separation,
    separation as separation,
)
from probreg.model.model import Model


@check_arguments
def check(model: Model, *, cheap: Flag = False, verbose: Flag = False) -> Findings:
    """All findings on a model before it is fitted, worst first; what needs attention is printed, and how many checks passed.

    Parameters
    ----------
    model : Model
        A model.
    cheap : bool
        Whether only the cheap checks are made.
    verbose : bool
        Whether those that passed or do not apply are printed too, as by `.show(verbose=True)`.

    Returns
    -------
    Findings
        Each with verdict, sentence and remedy.

    Examples
    --------
    >>> import numpy as np
    >>> check(Model.from_arrays(np.array([1.0, 2.0, 3.0]), [0, 0, 1], likelihood="bernoulli")).worst.name
    'PROBLEM'
    """
    model.design.need_rows("a check before the fit")
    found = [
        f for cls in CHECKS.values() if cls.cheap or not cheap for f in cls().run(model)
    ]
    return Findings.of(
        told_once(found, {name: cls.topic for name, cls in CHECKS.items()}),
        verbose=verbose,
    )
