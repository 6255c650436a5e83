"""E-BFMI: whether the sampler's changes of energy cover the energies of the posterior."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic, chains_obstacle
from probreg.assess.findings import Finding, Verdict
from probreg.fits.fit import Fit

LEAST = 0.3  # Betancourt 2016


def bfmi(energy: np.ndarray) -> np.ndarray:
    """Estimated Bayesian fraction of missing information, sum (E_t - E_t-1)^2 / sum (E_t - mean)^2, per chain.

    >>> bfmi(np.array([[0.0, 1.0, 2.0, 3.0], [0.0, 3.0, 1.0, 2.0]])).round(2)
    array([0.6, 2.8])
    """
    centred = energy - energy.mean(1, keepdims=True)
    return np.square(np.diff(energy, axis=1)).sum(1) / np.square(centred).sum(1)


@DIAGNOSTICS.register
class EnergyDiagnostic(Diagnostic):
    """Reports chains with E-BFMI below 0.3, a sign of heavy tails that the chains explore too slowly (Betancourt 2016)."""

    name = "energy"
    title = "E-BFMI"
    target = "posterior"
    rows = False
    picture = "plot.energy"

    def applies(self, fit: Fit) -> str | None:
        reason = chains_obstacle(fit)
        if reason is not None:
            return reason
        if "energy" not in fit.solution.posterior.stats:
            return "the sampler stores no energies"
        if len(fit.solution.posterior["beta"][0]) < 2:
            return "the chains have only one draw"
        return None

    def run(self, fit: Fit) -> list[Finding]:
        value = bfmi(np.asarray(fit.solution.posterior.stats["energy"], dtype=float))
        low = np.flatnonzero(value < LEAST)
        if not len(low):
            sentence = f"at least {value.min():.2f} in every chain"
            return self.report_ok(sentence, statistic=value.min())
        chains = ", ".join(f"{c + 1} ({value[c]:.2f})" for c in low)
        sentence = f"below {LEAST} in chain {chains}: tails are visited too rarely, and intervals may be too short"
        remedy = "draw and tune more, use a prior with lighter tails, or fix a scale"
        return self.report(Verdict.WARNING, sentence, remedy, statistic=value.min())
