"""The base class of diagnostics of a fit, their registry, and the conditions and remedies that several of them share."""

from typing import ClassVar

import numpy as np
from scipy.linalg import qr

from probreg.diagnostics.before import CHECKS
from probreg.diagnostics.before.sample import two_values
from probreg.diagnostics.findings import Finder, NotApplicable
from probreg.fits.fit import Fit
from probreg.fits.residuals import noiseless_obstacle, rounding_error
from probreg.inference import Status
from probreg.likelihoods import OfClasses, OfTrials, SmoothLikelihood
from probreg.registry import Registry
from probreg.system.terminal import format_number

Array = np.ndarray
DIAGNOSTICS: Registry["Diagnostic"] = Registry("diagnostic")


class Diagnostic(Finder[Fit]):
    """A diagnostic of a fit: its conditions and its findings.

    `target` is "mode", "posterior" or "any", `when` describes the fits in the catalogue, `rows` is False if the rows are not
    needed.
    """

    target: ClassVar[str] = "any"
    when: ClassVar[str] = ""
    rows: ClassVar[bool] = True

    def require(self, fit: Fit) -> None:
        """Raise NotApplicable for a fit of another target, without an estimate or without rows."""
        if self.target not in ("any", fit.target):
            raise NotApplicable(
                f"it needs a {self.target}, and {fit.method.name} gives a {fit.target}"
            )
        if not fit.method.probabilities:
            raise NotApplicable(f"{fit.method.name} has no probabilities")
        if fit.solution.status is Status.NO_MAXIMUM:
            raise NotApplicable("no estimate, because the likelihood has no maximum")
        if self.rows:
            if not fit.model.design.n:
                raise NotApplicable(fit.model.design.rows_absent)
            reason = noiseless_obstacle(fit)
            if reason is not None:
                raise NotApplicable(reason)


def require_counts(fit: Fit, minimum: int = 8, *, continuous: bool = False) -> None:
    """Raise NotApplicable unless observations can be counted one by one, and `minimum` of them remain after the coefficients.

    `continuous`: a response with only two values does not apply either.
    """
    most_observations = 1_000_000
    design = fit.model.design
    two = two_values(fit.model) if continuous else None
    if two is not None:
        raise NotApplicable(
            f"{design.response} takes only the values {two[0]:g} and {two[1]:g}; see the check response"
        )
    if design.weights is not None and (design.weights % 1 != 0).any():
        raise NotApplicable(
            "weights are not whole numbers, so that observations cannot be counted"
        )
    if design.total > most_observations:
        raise NotApplicable(
            f"there are more than {most_observations:,} observations, and a test would find differences of no importance"
        )
    free = design.total - design.moments.rank.rank if minimum else 0
    if free < minimum:
        raise NotApplicable(
            f"only {free:g} observations remain after the coefficients, and {minimum} are needed"
        )


def require_variation(fit: Fit, values: Array) -> None:
    """Raise NotApplicable if all residuals, or all their squares, are equal."""
    if np.ptp(values) <= rounding_error(fit):
        raise NotApplicable(
            f"the residuals or their squares are constant ({format_number(values[0], 3)}), and the test compares them"
        )


def orthonormal_basis(columns: Array) -> Array:
    """Return an orthonormal basis (n, r) of the span of columns (n, q), by QR with pivoting.

    >>> orthonormal_basis(np.array([[3.0, 6.0, 0.0], [4.0, 8.0, 0.0]])).shape
    (2, 1)
    """
    size = np.linalg.norm(columns, axis=0)
    columns = columns[:, size > 0] / size[size > 0]
    Q, R, _ = qr(columns, mode="economic", pivoting=True)
    # a remainder of 1e-12 of a column is rounding
    return Q[:, : np.sum(np.abs(np.diagonal(R)) > 1e-12)]


def heavier_tails(fit: Fit) -> str:
    """Return the remedy for extreme responses: a likelihood with heavier tails, if there is one."""
    likelihood = fit.model.likelihood
    if likelihood.wider:
        return likelihood.wider
    if isinstance(likelihood, OfTrials):
        return "the trials of a row may be dependent, or the mean may lack a term: see dispersion"
    if isinstance(likelihood, OfClasses):
        return "look for a wrong label, or a missing predictor"
    return "look for a missing predictor; there is no likelihood with heavier tails for such responses"


def robust_errors(fit: Fit, name: str) -> str:
    """Return the last part of a remedy: robust standard errors of this name, if this fit has them."""
    if fit.target == "posterior":
        return f"{name} are available for a mode, not for a posterior"
    # a sandwich needs two derivatives
    if fit.model.joint.smooth and isinstance(fit.model.likelihood, SmoothLikelihood):
        return f"or use {name}"
    return f"{name} need a mode under flat or normal priors"


def other_spread(fit: Fit, *, overdispersed: bool = True) -> str:
    """Return the remedy for counts or trials with more or less variance than the likelihood implies."""
    likelihood = fit.model.likelihood
    kind = "trials" if isinstance(likelihood, OfTrials) else "counts"
    wider = f"no likelihood has {'over' if overdispersed else 'under'}dispersed {kind}"
    if overdispersed and likelihood.wider:
        wider = likelihood.wider
    robust = robust_errors(
        fit, "robust standard errors (covariance('HC1'), or 'cluster' by group)"
    )
    return f"look for a missing predictor; {wider}; {robust}"


def other_likelihood(fit: Fit) -> str:
    """Return the remedy for a response that does not have the distribution of the likelihood."""
    if not fit.model.likelihood.is_discrete:
        return heavier_tails(fit)
    return other_spread(fit)


def catalogue_markdown() -> str:
    """Return the checks before a fit and the diagnostics after it as a Markdown table.

    >>> print(catalogue_markdown().splitlines()[0])
    | name | title | when | picture |
    """
    targets = {"mode": "a point estimate", "posterior": "a posterior", "any": "any fit"}
    rows = [("name", "title", "when", "picture"), ("---",) * 4]
    for name, check in sorted(CHECKS.items()):
        rows.append((f"`{name}`", check.title, "before the fit", "–"))
    for name, cls in sorted(DIAGNOSTICS.items()):
        when = ": ".join(filter(None, (targets[cls.target], cls.when)))
        picture = f"`{cls.picture}`" if cls.picture else "–"
        rows.append((f"`{name}`", cls.title, when, picture))
    return "\n".join([f"| {' | '.join(row)} |" for row in rows])
