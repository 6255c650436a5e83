"""Do the chains agree, and are their draws enough? R-hat, effective sample sizes and Monte Carlo errors."""

import numpy as np

from probreg.assess.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    no_chains,
    number_of_chains,
)
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.inference.sampling.convergence import R_HAT
from probreg.system.terminal import percent

ESS_PER_CHAIN, R_HAT_BAD = 100.0, 1.05  # Vehtari et al. 2021


@DIAGNOSTICS.register
class MixingDiagnostic(Diagnostic):
    """Rank-normalised split R-hat at most 1.01 and bulk and tail effective sample sizes of at least 100 per chain, for
    every parameter. The Monte Carlo error of a posterior mean is sd / sqrt(ESS). Source: Vehtari et al. 2021."""

    name = "mixing"
    question = "Do the chains agree, and are their draws enough?"
    target = "posterior"
    rows = False
    picture = "plot.rank"

    def applies(self, fit: Fit) -> str | None:
        return no_chains(fit)

    def run(self, fit: Fit) -> list[Finding]:
        table = fit.summary()
        names = np.array(
            [
                ": ".join(str(p) for p in reversed(k) if p)
                if isinstance(k, tuple)
                else k
                for k in table.index
            ]
        )
        r_hat, bulk, tail = (
            table[c].to_numpy(float) for c in ("r_hat", "ess_bulk", "ess_tail")
        )
        ess = np.fmin(bulk, tail)
        chains = number_of_chains(fit)
        if chains > 1:
            found = _disagreement(self, names, r_hat)
        else:
            found = [
                self.say(
                    Verdict.NOTE,
                    "a single chain cannot disagree with another",
                    "run four, NUTS(chains=4)",
                )
            ]
        found += _report_low_ess(self, names, ess, ESS_PER_CHAIN * chains)
        if found:
            return found
        worst = float(np.nanmax(1.0 / np.sqrt(bulk)))
        sentence = (
            f"R-hat is at most {np.nanmax(r_hat):.3f} and the effective sample size at least {np.nanmin(ess):.0f}; "
            f"the Monte Carlo error of a mean is at most {percent(worst, 2)} of its standard deviation"
        )
        return self.fine(sentence, statistic=np.nanmax(r_hat))


def _disagreement(
    check: MixingDiagnostic, names: np.ndarray, r_hat: np.ndarray
) -> list[Finding]:
    bad = np.flatnonzero(~(r_hat <= R_HAT))  # nan too: a chain that did not move
    if not len(bad):
        return []
    worst = float(np.max(np.nan_to_num(r_hat, nan=np.inf)))
    order = bad[np.argsort(-np.nan_to_num(r_hat[bad], nan=np.inf))]
    few = ", ".join(f"{names[i]} ({r_hat[i]:.3f})" for i in order[:5])
    sentence = f"the chains disagree on {len(bad)} of {len(names)} parameters, R-hat above {R_HAT}: {few}"
    if worst > R_HAT_BAD:
        verdict = Verdict.PROBLEM
    else:
        verdict = Verdict.WARNING
    remedy = "draw more (NUTS(draws=4000, tune=2000)); if they still disagree, use a more informative prior"
    return [
        check.say(
            verdict,
            sentence,
            remedy,
            columns=[str(names[i]) for i in order],
            statistic=worst,
        )
    ]


def _report_low_ess(
    check: MixingDiagnostic, names: np.ndarray, ess: np.ndarray, least: float
) -> list[Finding]:
    bad = np.flatnonzero(ess < least)
    if not len(bad):
        return []
    order = bad[np.argsort(ess[bad])]
    few = ", ".join(f"{names[i]} ({ess[i]:.0f})" for i in order[:5])
    low = float(np.nanmin(ess))
    sentence = (
        f"{len(bad)} of {len(names)} parameters have effective sample sizes below {least:.0f}: {few}; the Monte Carlo error "
        f"of a mean reaches {percent(1.0 / np.sqrt(low), 2)} of its standard deviation"
    )
    factor = int(np.ceil(least / max(low, 1.0)))
    return [
        check.say(Verdict.WARNING, sentence, f"draw about {factor} times as many", columns=[str(names[i]) for i in order],
                  statistic=low)
    ]  # fmt: skip
