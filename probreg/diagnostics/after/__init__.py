"""Diagnostics of a fit, one topic per file. To add a diagnostic, write its file and import it here."""

from probreg.arguments.scalars import Flag, check_arguments
from probreg.data.weights import refuse_sampling
from probreg.diagnostics.after import (
    approximation as approximation,
    autocorrelation as autocorrelation,
    calibration as calibration,
    chains as chains,
    dispersion as dispersion,
    distribution as distribution,
    exactness as exactness,
    functional_form as functional_form,
    group_effects as group_effects,
    heteroscedasticity as heteroscedasticity,
    influence as influence,
    linearity as linearity,
    loo as loo,
    outliers as outliers,
    predictive_checks as predictive_checks,
    prior_data_conflict as prior_data_conflict,
)
from probreg.diagnostics.after.base import (
    DIAGNOSTICS as DIAGNOSTICS,
    Diagnostic as Diagnostic,
    catalogue_markdown as catalogue_markdown,
)
from probreg.diagnostics.after.influence import influence_measures as influence_measures
from probreg.diagnostics.after.power_scaling import power_scaling as power_scaling
from probreg.diagnostics.after.residuals import residuals as residuals
from probreg.diagnostics.before import CHECKS, RowsCheck, check
from probreg.diagnostics.findings import Finding, Findings, Verdict
from probreg.fits.fit import Fit
from probreg.inference.modes.wide import refuse_written_out
from probreg.registry import Registry
from probreg.system.progress import progress_bar


@check_arguments
def diagnose(
    fit: Fit,
    *,
    skipped: Flag = False,
    before: Flag = True,
    verbose: Flag = False,
    progress: Flag | None = None,
) -> Findings:
    """Diagnose a fit; findings are in order of severity, each with a remedy and the picture to look at.

    It prints the findings that need attention and the number of diagnostics that passed. For a fit without rows in memory
    the finding "rows" lists the missing diagnostics.

    Parameters
    ----------
    fit : Fit
        A fit.
    skipped : bool
        List and print the diagnostics that do not apply too, each with its reason.
    before : bool
        Include the findings of `check` on the model.
    verbose : bool
        Print all findings, as `.show(verbose=True)` does.
    progress : bool, optional
        Show a progress bar; by default after a second, in a terminal or a notebook.

    Returns
    -------
    Findings
        Each with its verdict, sentence and remedy.

    Raises
    ------
    Incompatible
        If `fit` is not a Fit.

    Examples
    --------
    >>> import probreg as pr
    >>> found = diagnose(pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"))))
    >>> found.worst.name, [f.check for f in found.at_least(found.worst)]
    ('NOTE', ['cook', 'dfbetas'])
    """
    refuse_sampling(fit.model.design.weight_kind, "the diagnostics of a fit")
    refuse_written_out(fit.solution, "diagnose")
    names: Registry[object] = Registry("check or diagnostic")
    names.update({**CHECKS, **DIAGNOSTICS})
    items = _model_findings(fit, before)
    with progress_bar("diagnose", len(DIAGNOSTICS), show=progress) as bar:
        for diagnostic in bar.over(DIAGNOSTICS.values()):
            findings = diagnostic().run(fit)
            if findings[0].applies:
                items = [f for f in items if f.check != diagnostic.replaces]
            elif not skipped:
                continue
            items += findings
    return Findings.of(items, names, verbose=verbose or skipped)


def _model_findings(fit: Fit, before: bool) -> list[Finding]:
    """Return the findings of the checks of the model, or a note on why the rows are missing."""
    design = fit.model.design
    if design.n:
        return list(check(fit.model)) if before else []
    content = "checks and diagnostics" if before else "diagnostics"
    sentence = f"no {content} of single rows: {design.rows_absent}"
    return RowsCheck().report(Verdict.NOTE, sentence, design.remedy)
