"""Diagnostics of a fit, one topic per file. To add a diagnostic, write its file and import it here."""

from probreg.arguments.scalars import Flag, check_arguments
from probreg.data.weights import refuse_sampling
from probreg.diagnostics.after.approximation import (
    ApproximationDiagnostic as ApproximationDiagnostic,
)
from probreg.diagnostics.after.autocorrelation import (
    AutocorrelationDiagnostic as AutocorrelationDiagnostic,
)
from probreg.diagnostics.after.base import (
    DIAGNOSTICS as DIAGNOSTICS,
    Diagnostic as Diagnostic,
    catalogue as catalogue,
    catalogue_markdown as catalogue_markdown,
)
from probreg.diagnostics.after.calibration import (
    CalibrationDiagnostic as CalibrationDiagnostic,
    hosmer_lemeshow as hosmer_lemeshow,
)
from probreg.diagnostics.after.chains import (
    DivergenceDiagnostic as DivergenceDiagnostic,
    EnergyDiagnostic as EnergyDiagnostic,
    MixingDiagnostic as MixingDiagnostic,
)
from probreg.diagnostics.after.dispersion import (
    DispersionDiagnostic as DispersionDiagnostic,
)
from probreg.diagnostics.after.distribution import (
    DistributionDiagnostic as DistributionDiagnostic,
    NormalityDiagnostic as NormalityDiagnostic,
)
from probreg.diagnostics.after.exactness import (
    ExactnessDiagnostic as ExactnessDiagnostic,
)
from probreg.diagnostics.after.functional_form import (
    ResetDiagnostic as ResetDiagnostic,
    reset as reset,
)
from probreg.diagnostics.after.group_effects import (
    GroupEffectsDiagnostic as GroupEffectsDiagnostic,
)
from probreg.diagnostics.after.heteroscedasticity import (
    HeteroscedasticityDiagnostic as HeteroscedasticityDiagnostic,
)
from probreg.diagnostics.after.influence import (
    CookDiagnostic as CookDiagnostic,
    DfbetasDiagnostic as DfbetasDiagnostic,
    LeverageDiagnostic as LeverageDiagnostic,
    influence_measures as influence_measures,
)
from probreg.diagnostics.after.linearity import (
    LinearityDiagnostic as LinearityDiagnostic,
)
from probreg.diagnostics.after.loo import (
    LeaveOneOutDiagnostic as LeaveOneOutDiagnostic,
    LooPitDiagnostic as LooPitDiagnostic,
)
from probreg.diagnostics.after.outliers import OutlierDiagnostic as OutlierDiagnostic
from probreg.diagnostics.after.power_scaling import (
    PowerScalingDiagnostic as PowerScalingDiagnostic,
    power_scaling as power_scaling,
)
from probreg.diagnostics.after.predictive_checks import (
    PredictiveDiagnostic as PredictiveDiagnostic,
)
from probreg.diagnostics.after.prior_data_conflict import (
    ConflictDiagnostic as ConflictDiagnostic,
)
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
    with progress_bar("diagnose", len(DIAGNOSTICS), show=progress) as bar:
        items = _model_findings(fit, before)
        for cls in bar.over(DIAGNOSTICS.values()):
            diagnostic = cls()
            reason = diagnostic.obstacle(fit)
            if reason is None:
                items = [f for f in items if f.check != cls.replaces]
                items += diagnostic.run(fit)
            elif skipped:
                items += diagnostic.report_not_applicable(reason)
    names: Registry[object] = Registry("check or diagnostic")
    names.update({**CHECKS, **DIAGNOSTICS})
    return Findings.of(items, names, verbose=verbose or skipped)


def _model_findings(fit: Fit, before: bool) -> list[Finding]:
    """Return the findings of the checks of the model, or a note on why the rows are missing."""
    design = fit.model.design
    if design.n:
        return list(check(fit.model)) if before else []
    content = "checks and diagnostics" if before else "diagnostics"
    sentence = f"no {content} of single rows: {design.rows_absent}"
    return RowsCheck().report(Verdict.NOTE, sentence, design.remedy)
