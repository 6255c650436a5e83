"""Diagnostics of a fit, one topic per file. To add a diagnostic, write its file and import it here."""

from operator import attrgetter

from probreg.arguments.scalars import Flag, check_arguments
from probreg.diagnostics.after import (
    dispersion as dispersion,
    draws as draws,
    existence as existence,
    functional_form as functional_form,
    group_effects as group_effects,
    influence as influence,
    predictive as predictive,
    prior as prior,
    residual_tests as residual_tests,
)
from probreg.diagnostics.after.base import (
    DIAGNOSTICS as DIAGNOSTICS,
    Diagnostic as Diagnostic,
    catalogue_markdown as catalogue_markdown,
)
from probreg.diagnostics.after.influence import influence_measures as influence_measures
from probreg.diagnostics.after.prior import power_scaling as power_scaling
from probreg.diagnostics.findings import Findings
from probreg.fits.fit import Fit
from probreg.fits.residuals import residuals as residuals
from probreg.inference.modes.wide import refuse_written_out


@check_arguments
def diagnose(
    fit: Fit,
    *,
    skipped: Flag = False,
    verbose: Flag = False,
) -> Findings:
    """Diagnose a fit: test the assumptions of the model at the estimates, and find influential rows and bad chains.

    Use `check(model)` before the fit: it tests whether columns, responses and priors allow a good fit. Findings are in
    order of severity, each with a remedy and the name of a picture. It prints the findings that need attention and the
    number of diagnostics that passed. A fit without rows in memory has the finding "rows".

    Parameters
    ----------
    fit : Fit
        A fit.
    skipped : bool
        Whether to also list and print the diagnostics that do not apply, each with its reason.
    verbose : bool
        Print all findings, as `.show(verbose=True)` does.

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
    fit.model.design.refuse_sampling("the diagnostics of a fit")
    refuse_written_out(fit.solution, "diagnose")
    findings = []
    for diagnostic in DIAGNOSTICS.values():
        results = diagnostic().run(fit)
        if skipped or results[0].applies:
            findings += results
    findings.sort(key=attrgetter("verdict"), reverse=True)
    return Findings(tuple(findings), DIAGNOSTICS, verbose or skipped)
