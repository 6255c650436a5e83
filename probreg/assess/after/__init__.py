"""Findings on a fit: one question per file. Adding one is one file and one line here."""

from dataclasses import replace

from probreg.arguments.scalars import Flag, check_arguments
from probreg.assess.after.approximation import (
    ApproximationDiagnostic as ApproximationDiagnostic,
)
from probreg.assess.after.autocorrelation import (
    AutocorrelationDiagnostic as AutocorrelationDiagnostic,
)
from probreg.assess.after.base import (
    DIAGNOSTICS as DIAGNOSTICS,
    Diagnostic as Diagnostic,
    catalogue as catalogue,
    catalogue_markdown as catalogue_markdown,
)
from probreg.assess.after.calibration import (
    CalibrationDiagnostic as CalibrationDiagnostic,
    hosmer_lemeshow as hosmer_lemeshow,
)
from probreg.assess.after.cook import CookDiagnostic as CookDiagnostic
from probreg.assess.after.curvature import (
    CurvatureDiagnostic as CurvatureDiagnostic,
    curvature as curvature,
)
from probreg.assess.after.dfbetas import DfbetasDiagnostic as DfbetasDiagnostic
from probreg.assess.after.dispersion import DispersionDiagnostic as DispersionDiagnostic
from probreg.assess.after.distribution import (
    DistributionDiagnostic as DistributionDiagnostic,
)
from probreg.assess.after.divergences import (
    DivergenceDiagnostic as DivergenceDiagnostic,
)
from probreg.assess.after.energy import EnergyDiagnostic as EnergyDiagnostic
from probreg.assess.after.exactness import ExactnessDiagnostic as ExactnessDiagnostic
from probreg.assess.after.group_effects import (
    GroupEffectsDiagnostic as GroupEffectsDiagnostic,
)
from probreg.assess.after.group_influence import (
    GroupInfluenceDiagnostic as GroupInfluenceDiagnostic,
)
from probreg.assess.after.group_residuals import (
    GroupResidualsDiagnostic as GroupResidualsDiagnostic,
)
from probreg.assess.after.heteroscedasticity import (
    HeteroscedasticityDiagnostic as HeteroscedasticityDiagnostic,
)
from probreg.assess.after.influence_measures import (
    influence_measures as influence_measures,
)
from probreg.assess.after.leverage import LeverageDiagnostic as LeverageDiagnostic
from probreg.assess.after.linearity import LinearityDiagnostic as LinearityDiagnostic
from probreg.assess.after.loo import LeaveOneOutDiagnostic as LeaveOneOutDiagnostic
from probreg.assess.after.loo_pit import LooPitDiagnostic as LooPitDiagnostic
from probreg.assess.after.mixing import MixingDiagnostic as MixingDiagnostic
from probreg.assess.after.normality import NormalityDiagnostic as NormalityDiagnostic
from probreg.assess.after.outliers import OutlierDiagnostic as OutlierDiagnostic
from probreg.assess.after.power_scaling import (
    PowerScalingDiagnostic as PowerScalingDiagnostic,
    power_scaling as power_scaling,
)
from probreg.assess.after.predictive_checks import (
    PredictiveDiagnostic as PredictiveDiagnostic,
)
from probreg.assess.after.prior_data_conflict import (
    ConflictDiagnostic as ConflictDiagnostic,
)
from probreg.assess.after.reset import (
    ResetDiagnostic as ResetDiagnostic,
    reset as reset,
)
from probreg.assess.after.residuals import residuals as residuals
from probreg.assess.before import CHECKS, Finding, Findings, RowsCheck, Verdict, check
from probreg.data.weights import refuse_sampling
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
    """All findings on a fit, worst first; each says what to do and names the picture that shows it.

    What needs attention is printed, and how many others passed. What `check` says of the model is named in one line, but for
    problems. Without rows in memory the finding "rows" says what was not asked.

    Parameters
    ----------
    fit : Fit
        A fit.
    skipped : bool
        Whether diagnostics that have no meaning for this fit are listed and printed, each with its reason.
    before : bool
        Whether the findings of `check` on its model come too.
    verbose : bool
        Whether all are printed, as by `.show(verbose=True)`.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    Findings
        Each with verdict, sentence and remedy.

    Raises
    ------
    Incompatible
        For what is no Fit.

    Examples
    --------
    >>> import probreg as pr
    >>> found = diagnose(pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"))))
    >>> found.worst.name, [f.check for f in found.at_least(found.worst)]
    ('NOTE', ['cook', 'dfbetas'])
    """
    refuse_sampling(fit.model.design.weight_kind, "the diagnostics of a fit")
    refuse_written_out(fit.solution, "diagnose")
    with progress_bar("diagnose, questions", len(DIAGNOSTICS), show=progress) as bar:
        items: list[Finding] = _of_rows(fit, before)
        for cls in bar.over(DIAGNOSTICS.values()):
            diagnostic = cls()
            reason = diagnostic.obstacle(fit)
            if reason is None:
                items = [f for f in items if f.check != cls.replaces] + diagnostic.run(
                    fit
                )
            elif skipped:
                items.append(diagnostic.report_not_applicable(reason))
    # Everything that may answer, checks and diagnostics, by name.
    both: Registry[object] = Registry("check or diagnostic")
    both.update({**CHECKS, **DIAGNOSTICS})
    found = Findings.of(items, both, verbose=verbose or skipped)
    if fit.model.design.n:
        return replace(found, earlier=frozenset(CHECKS))
    return found


def _of_rows(fit: Fit, before: bool) -> list[Finding]:
    """The checks of the model; without rows in memory a note of what could not be asked, and why."""
    design = fit.model.design
    if design.n:
        return list(check(fit.model)) if before else []
    if before:
        asked = "neither the checks before the fit nor the diagnostics"
    else:
        asked = "none of the diagnostics"
    sentence = f"{asked} that look at single rows were made: {design.rows_absent}"
    return [Finding(RowsCheck.name, Verdict.NOTE, sentence, design.remedy)]
