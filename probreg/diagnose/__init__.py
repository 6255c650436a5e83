"""Findings on a fit: one question per file. Adding one is one file and one line here."""

from probreg.check import CHECKS, Finding, Findings, RowsCheck, Verdict, check
from probreg.diagnose.autocorrelation import AutocorrelationDiagnostic as AutocorrelationDiagnostic
from probreg.diagnose.base import DIAGNOSTICS as DIAGNOSTICS, Diagnostic as Diagnostic
from probreg.diagnose.calibration import (
    CalibrationDiagnostic as CalibrationDiagnostic,
    calibration_curve as calibration_curve,
    hosmer_lemeshow as hosmer_lemeshow,
)
from probreg.diagnose.catalogue import catalogue as catalogue, catalogue_markdown as catalogue_markdown
from probreg.diagnose.cook import CookDiagnostic as CookDiagnostic
from probreg.diagnose.curvature import CurvatureDiagnostic as CurvatureDiagnostic, curvature as curvature
from probreg.diagnose.dfbetas import DfbetasDiagnostic as DfbetasDiagnostic
from probreg.diagnose.dispersion import DispersionDiagnostic as DispersionDiagnostic
from probreg.diagnose.distribution import DistributionDiagnostic as DistributionDiagnostic
from probreg.diagnose.heteroscedasticity import HeteroscedasticityDiagnostic as HeteroscedasticityDiagnostic
from probreg.diagnose.leverage import LeverageDiagnostic as LeverageDiagnostic
from probreg.diagnose.measures import measures as measures
from probreg.diagnose.normality import NormalityDiagnostic as NormalityDiagnostic
from probreg.diagnose.outliers import OutlierDiagnostic as OutlierDiagnostic
from probreg.diagnose.posterior_approximation import ApproximationDiagnostic as ApproximationDiagnostic
from probreg.diagnose.posterior_conflict import ConflictDiagnostic as ConflictDiagnostic
from probreg.diagnose.posterior_divergences import DivergenceDiagnostic as DivergenceDiagnostic
from probreg.diagnose.posterior_energy import EnergyDiagnostic as EnergyDiagnostic
from probreg.diagnose.posterior_loo import LeaveOneOutDiagnostic as LeaveOneOutDiagnostic
from probreg.diagnose.posterior_loo_pit import LooPitDiagnostic as LooPitDiagnostic
from probreg.diagnose.posterior_mixing import MixingDiagnostic as MixingDiagnostic
from probreg.diagnose.posterior_power import PowerScalingDiagnostic as PowerScalingDiagnostic
from probreg.diagnose.posterior_predictive import PredictiveDiagnostic as PredictiveDiagnostic
from probreg.diagnose.power import power_scaling as power_scaling
from probreg.diagnose.reset import ResetDiagnostic as ResetDiagnostic, reset as reset
from probreg.diagnose.residuals import residuals as residuals
from probreg.errors import Incompatible
from probreg.fit import Fit
from probreg.registry import Registry


def diagnose(fit: Fit, *, skipped: bool = False, before: bool = True) -> Findings:
    """All findings on a fit, worst first; with `before` those of `check` on its model as well.

    `skipped` adds the diagnostics that have no meaning for this fit, each with its reason. Every finding says what to
    do and names the picture that shows it. Without rows in memory the finding "rows" says what was not asked. Incompatible
    for what is no Fit.

    >>> import probreg as pr
    >>> found = diagnose(pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"))))
    >>> found.worst.name, [f.check for f in found.at_least(found.worst)]
    ('NOTE', ['cook', 'dfbetas'])
    """
    if not isinstance(fit, Fit):
        raise Incompatible(f"diagnose takes a Fit, got {type(fit).__name__}; make one with pr.fit(model)")
    items: list[Finding] = _of_rows(fit, before)
    for cls in DIAGNOSTICS.values():
        diagnostic = cls()
        reason = diagnostic.obstacle(fit)
        if reason is None:
            items = [f for f in items if f.check != cls.replaces] + diagnostic.run(fit)
        elif skipped:
            items.append(diagnostic.skipped(reason))
    return Findings.of(items, names())


def _of_rows(fit: Fit, before: bool) -> list[Finding]:
    """The checks of the model; without rows in memory a note of what could not be asked, and why."""
    design = fit.model.design
    if design.n:
        return list(check(fit.model)) if before else []
    asked = "neither the checks before the fit nor the diagnostics" if before else "none of the diagnostics"
    sentence = f"{asked} that look at single rows were made: {design.elsewhere}"
    return [Finding(RowsCheck.name, Verdict.NOTE, sentence, design.remedy)]


def names() -> Registry[object]:
    """Everything that may answer, checks and diagnostics, by name."""
    both: Registry[object] = Registry("check or diagnostic")
    both.update({**CHECKS, **DIAGNOSTICS})
    return both
