"""Can the sampler move between the energies of the posterior? E-BFMI, chain by chain."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic, no_chains
from probreg.assess.before.base import Finding, Verdict
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
    """E-BFMI of every chain at least 0.3: resampled momenta change the energy as widely as the posterior does. A low value
    is the mark of heavy tails that chains enter and leave too slowly (Betancourt 2016)."""

    name = "energy"
    question = "Can the sampler move between the energies of the posterior?"
    target = "posterior"
    rows = False
    picture = "plot.energy"

    def applies(self, fit: Fit) -> str | None:
        reason = no_chains(fit)
        if reason is not None:
            return reason
        if "energy" not in fit.solution.posterior.stats:
            return "the sampler kept no energies"
        if len(fit.solution.posterior["beta"][0]) < 2:
            return "chains of one draw have no changes of energy"
        return None

    def run(self, fit: Fit) -> list[Finding]:
        each = bfmi(np.asarray(fit.solution.posterior.stats["energy"], dtype=float))
        low = np.flatnonzero(each < LEAST)
        if not len(low):
            return self.fine(
                f"E-BFMI is at least {each.min():.2f} in every chain",
                statistic=each.min(),
            )
        chains = ", ".join(f"{c + 1} ({each[c]:.2f})" for c in low)
        sentence = f"E-BFMI is below {LEAST} in chain {chains}: tails are visited too rarely, and intervals may be too short"
        remedy = "draw and tune more; a prior with lighter tails, or a scale that is held, shortens them"
        return [self.say(Verdict.WARNING, sentence, remedy, statistic=each.min())]
