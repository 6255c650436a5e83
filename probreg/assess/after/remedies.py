"""What can be done where a response is spread otherwise than its likelihood says: only what there is."""

from probreg.fits.fit import Fit
from probreg.likelihoods import Gaussian, OfClasses, OfTrials, StudentT, UnivariateLikelihood


def heavier_tails(fit: Fit) -> str:
    """The likelihood that allows far responses, where there is one."""
    likelihood = fit.model.likelihood
    if isinstance(likelihood, Gaussian):
        return "fit a StudentT likelihood, which allows far responses"
    if isinstance(likelihood, StudentT):
        return "take fewer degrees of freedom nu"
    if isinstance(likelihood, OfTrials):
        return "trials of a row depend on one another, or the mean lacks a term: see dispersion"
    if isinstance(likelihood, UnivariateLikelihood) and not isinstance(likelihood, OfClasses):
        return "look for a column that the mean lacks; no likelihood of counts here has heavier tails"
    return "look for a wrong label, or a column that the probabilities lack"


def other_spread(fit: Fit) -> str:
    """What to do about counts, or trials, that vary more or less than their mean says."""
    kind, groups = (
        ("trials", ", or 'cluster' by group") if isinstance(fit.model.likelihood, OfTrials) else ("counts", "")
    )
    robust = f"use robust standard errors, fit.covariance('HC1'){groups}"
    if fit.target == "posterior":
        robust = f"a mode has robust standard errors, pr.fit(model).covariance('HC1'){groups}, and a posterior none"
    return (
        f"look for a column that the mean lacks; no likelihood here holds {kind} that vary otherwise than their mean says; "
        f"{robust}"
    )
