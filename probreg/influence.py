"""What the prior did to a fit, coefficient by coefficient: its share, its pull, and whether prior and data conflict.

Everything is set against the same likelihood under flat priors. With P and J the curvatures of the log prior and of the
log likelihood at the estimate and H = P + J, the prior's share is (P H^-1)_jj, for independent normal priors the posterior
variance in units of the prior's, and P_jj / H_jj with the other coefficients held. The sum of 1 minus the former is the effective number of parameters. The pull H^-1 grad log p(beta) is the first-order bias of a mode, and by
how much a little more of the prior would move it.
"""

import warnings
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from probreg.compare.shares import information, prior_curvature, shares
from probreg.diagnose.power import has_prior, power_scaling
from probreg.errors import Incompatible, NotConverged, ProbregError, ProbregWarning
from probreg.fit import Fit, fit as fit_model
from probreg.inference import Status
from probreg.priors import Flat, ProximalPrior, SmoothPrior
from probreg.tree import shown

Array = np.ndarray
CONFLICT = 0.05  # p-value of the maximum likelihood estimate under what the prior expects of it
MUCH = 0.5  # share of the precision from which a coefficient is the prior's more than the data's
_DRAWS = 20_000  # of the prior, for the p-value: its Monte Carlo error at 0.05 is at most 0.0015


@dataclass(frozen=True, eq=False)
class Influence:
    """`table` has one row per coefficient: estimate and sd, the estimate and standard error of maximum likelihood, the
    shift between them in standard errors, the prior's share of the precision (the other coefficients free, and held), the
    pull in raw units, the p-value of a conflict, and for draws the sensitivities to the powers of prior and likelihood.
    `effective` is the number of coefficients that the data settle, of `free` that can vary (a symmetric softmax reports
    one more for each column, but they sum to zero)."""

    table: Any
    effective: float
    free: int
    sentences: tuple[str, ...]
    ml_status: str

    def __repr__(self) -> str:
        text = self.table.to_string(float_format=lambda v: f"{v:.3g}", na_rep="-")
        count = f"effective number of coefficients {self.effective:.3g} of {self.free}"
        return "\n".join([text, count, *self.sentences])

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{escape(s)}</li>" for s in self.sentences)
        return f"{self.table.to_html(float_format=lambda v: f'{v:.3g}', border=0)}<ul>{said}</ul>"


def influence(fit: Fit) -> Influence:
    """What the prior of a fit did: shares, shift from maximum likelihood, pull, conflict and power-scaling sensitivity.

    Numbers that do not exist are nan: no maximum likelihood estimate under separation, no curvature at a kink. Incompatible
    for a model whose priors are all flat. Sources: MacKay 1992 (effective numbers); Box 1980 and Evans & Moshonov 2006
    (conflict); Kallioinen et al. 2024 (power scaling).

    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1.0, 2.0, 3.0, 4.0], [1.1, 1.9, 3.2, 3.9], columns=["x"], aux={"sigma": 0.2})
    >>> influence(pr.fit(model.with_prior(pr.Normal(0.05, location=0.9)))).sentences[0]
    'x: the prior holds 76.2 % of the precision and moved the estimate by -0.596 standard errors from maximum likelihood'
    """
    import pandas as pd

    if not fit.model.joint.informative.any():
        raise Incompatible("every prior of coefficients in this model is flat: it has no influence to measure")
    ml, se, status = maximum_likelihood(fit)
    estimate, sd = fit.coef.values.ravel(), fit.std_error.values.ravel()
    held, free, _ = shares(fit)
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = (estimate - ml) / se
    table = pd.DataFrame(
        {
            "estimate": estimate, "sd": sd, "ml": ml, "ml_se": se, "shift": shift,
            "share": free.ravel(), "held_share": held.ravel(), "pull": _pull(fit), "conflict": _conflict(fit, ml, se),
        },
        index=pd.Index(fit.parameter_names, name="coef"),
    )  # fmt: skip
    if fit.solution.draws is not None and has_prior(fit):
        power = power_scaling(fit)
        table["prior_power"] = power["prior"].reindex(table.index)
        table["likelihood_power"] = power["likelihood"].reindex(table.index)
    # the K directions that a symmetric softmax reports of K - 1 predictors have K / (K - 1) times their trace
    count = fit.solution.beta.size
    effective = count * (1.0 - float(table["share"].mean(skipna=False)))
    return Influence(table, effective, count, tuple(_sentences(table)), status)


def maximum_likelihood(fit: Fit) -> tuple[Array, Array, str]:
    """Estimates and standard errors of the reported coefficients under flat priors, nan where there are none, and the
    status of that fit in words."""
    plain = replace(fit.model, prior=Flat(), aux=dict(fit.model.fixed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProbregWarning)
        try:
            found = fit_model(plain, seed=fit.seed)
        except (NotConverged, Incompatible) as error:
            nothing = np.full(fit.coef.size, np.nan)
            return nothing, nothing, str(error)
    s = found.solution
    return (
        found.coef.values.ravel(),
        found.std_error.values.ravel(),
        s.status.value if s.status is not Status.EXACT else "exact",
    )


def _pull(fit: Fit) -> Array:
    """H^-1 times the slope of the log prior at the estimate, for the reported coefficients; nan at a kink."""
    model, s = fit.model, fit.solution
    slope = np.zeros(s.beta.shape)
    sigma = fit.aux.get("sigma", 1.0)
    for b in model.joint.blocks:
        where, unit = list(b.columns), sigma if b.prior.sigma_units else 1.0
        if not isinstance(b.prior, Flat):
            slope[where] = _slope_of(b.prior, s.beta[where], unit)
    H = prior_curvature(fit) + information(fit)[0]
    if not (np.isfinite(H).all() and np.isfinite(slope).all()):
        return np.full(fit.coef.size, np.nan)
    try:
        moved = np.linalg.solve(H, slope.ravel()).reshape(s.beta.shape)
    except np.linalg.LinAlgError:
        return np.full(fit.coef.size, np.nan)
    return shown(model, moved).ravel()


def _slope_of(prior: Any, beta: Array, unit: float) -> Array:
    if isinstance(prior, SmoothPrior):
        return prior.derivatives(beta, unit)[0].reshape(beta.shape)
    if isinstance(prior, ProximalPrior):
        low, high = prior.subgradient(beta, unit)
        return np.where(low == high, -low, np.nan)
    return np.full(beta.shape, np.nan)


def _conflict(fit: Fit, ml: Array, se: Array) -> Array:
    """P(|b - centre| >= |ml - centre|) for b drawn from the prior and then estimated with this standard error, centred at
    the prior's median; nan where the prior is flat or has no draws, or there is no estimate."""
    model = fit.model
    p, k = model.shape[0], fit.coef.size // model.shape[0]
    out = np.full((p, k), np.nan)
    rng = np.random.default_rng([fit.seed, 3])
    sigma = fit.aux.get("sigma", 1.0)
    ml, se = ml.reshape(p, k), se.reshape(p, k)
    for b in model.joint.blocks:
        where = list(b.columns)
        if isinstance(b.prior, Flat):
            continue
        try:
            unit = sigma if b.prior.sigma_units else 1.0
            draws = b.prior.sample(rng, (_DRAWS, len(where), model.shape[1]), unit)
        except ProbregError:
            continue  # a prior known up to a constant only
        reported = shown(model, draws).reshape(len(draws), len(where), k)
        centre = np.median(reported, axis=0)
        expected = reported + se[where] * rng.standard_normal(reported.shape)
        beyond = (np.abs(expected - centre) >= np.abs(ml[where] - centre)).mean(0)
        out[where] = np.where(np.isfinite(ml[where]) & np.isfinite(se[where]), beyond, np.nan)
    return out.ravel()


def _sentences(table: Any) -> list[str]:
    """Where the prior weighs more than the data, and where both disagree; worst first."""
    said: list[tuple[float, str]] = []
    for name, row in table.iterrows():
        parts, weight = [], 0.0
        if row["share"] >= MUCH:
            moved = (
                f" and moved the estimate by {row['shift']:.3g} standard errors from maximum likelihood"
                if np.isfinite(row["shift"])
                else ", and there is no maximum likelihood estimate"
            )
            parts.append(f"the prior holds {100 * row['share']:.3g} % of the precision{moved}")
            weight = row["share"]
        if row["conflict"] < CONFLICT:
            odds = f"p = {row['conflict']:.2g}" if row["conflict"] > 0 else f"p < {1 / _DRAWS:.0e}"
            parts.append(
                f"prior and data conflict: maximum likelihood is {row['ml']:.3g}, which the prior hardly expects ({odds})"
            )
            weight = 2.0 - row["conflict"]
        if parts:
            said.append((weight, f"{name}: {'; '.join(parts)}"))
    return [s for _, s in sorted(said, key=lambda pair: -pair[0])] or [
        "no coefficient is the prior's more than the data's, and none is where the prior does not expect it"
    ]
