"""Checks of a model before a fit, one topic per file. To add a check, write its file and import it here."""

from operator import attrgetter

from probreg.arguments.scalars import Flag, check_arguments
from probreg.diagnostics.before import (
    collinearity as collinearity,
    columns as columns,
    sample as sample,
)
from probreg.diagnostics.before.base import CHECKS as CHECKS, Check as Check
from probreg.diagnostics.before.collinearity import (
    condition_indices as condition_indices,
    vif as vif,
)
from probreg.diagnostics.findings import (
    Finding as Finding,
    Findings as Findings,
    Verdict as Verdict,
)
from probreg.inference.modes.separation import separation as separation
from probreg.model.model import Model


@check_arguments
def check(model: Model, *, verbose: Flag = False) -> Findings:
    """Check a model and its data before a fit: collinear columns, separation, scales, few events, far rows.

    Use `diagnose(fit)` after the fit: it tests whether the assumptions of the model agree with the data at the estimates.
    Findings are in order of severity. It prints the findings that need attention and the number of checks that passed.

    Parameters
    ----------
    model : Model
        A model.
    verbose : bool
        Whether to also print the checks that passed or do not apply, like `.show(verbose=True)`.

    Returns
    -------
    Findings
        Each with its verdict, sentence and remedy.

    Examples
    --------
    >>> import numpy as np
    >>> check(Model.from_arrays(np.array([1.0, 2.0, 3.0]), [0, 0, 1], likelihood="bernoulli")).worst.name
    'PROBLEM'
    """
    model.design.need_rows("a check before the fit")
    findings = [f for cls in CHECKS.values() for f in cls().run(model)]
    findings.sort(key=attrgetter("verdict"), reverse=True)
    return Findings(tuple(findings), CHECKS, verbose)
