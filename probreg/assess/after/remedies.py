"""What can be done where a response is spread otherwise than its likelihood says: only what there is."""

from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses, OfTrials


def heavier_tails(fit: Fit) -> str:
    """The likelihood that allows far responses, where there is one."""
    likelihood = fit.model.likelihood
    if likelihood.wider:
        return likelihood.wider
    if isinstance(likelihood, OfTrials):
        return "trials of a row depend on one another, or the mean lacks a term: see dispersion"
    if not isinstance(likelihood, OfClasses):
        return "look for a column that the mean lacks; no likelihood of such responses here has heavier tails"
    return "look for a wrong label, or a column that the probabilities lack"


def other_spread(fit: Fit, *, more: bool = True) -> str:
    """What to do about counts, or trials, that vary more or less than their mean says."""
    likelihood = fit.model.likelihood
    kind, groups = ("trials", ", or 'cluster' by group") if isinstance(likelihood, OfTrials) else ("counts", "")
    robust = f"use robust standard errors, fit.covariance('HC1'){groups}"
    if fit.target == "posterior":
        robust = f"a mode has robust standard errors, pr.fit(model).covariance('HC1'){groups}, and a posterior none"
    if more and likelihood.wider:
        return f"look for a column that the mean lacks; {likelihood.wider}; or {robust}"
    how = "more" if more else "less"
    return f"look for a column that the mean lacks; no likelihood here holds {kind} that vary {how}; {robust}"
