"""Convergence of Markov chains: R-hat, effective sample sizes and Monte Carlo errors."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic, chains_obstacle
from probreg.assess.findings import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.inference.sampling.convergence import R_HAT
from probreg.system.terminal import percent

ESS_PER_CHAIN, R_HAT_BAD = 100.0, 1.05  # Vehtari et al. 2021


@DIAGNOSTICS.register
class MixingDiagnostic(Diagnostic):
    """Reports parameters with rank-normalised split R-hat above 1.01, or with bulk or tail effective sample size below 100 per
    chain. The Monte Carlo error of a posterior mean is sd / sqrt(ESS). Source: Vehtari et al. 2021."""

    name = "mixing"
    title = "Convergence"
    target = "posterior"
    rows = False
    picture = "plot.rank"

    def applies(self, fit: Fit) -> str | None:
        return chains_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        table = fit.summary()
        keys = [k if isinstance(k, tuple) else (k,) for k in table.index]
        names = np.array([": ".join(str(p) for p in k[::-1] if p) for k in keys])
        r_hat = table["r_hat"].to_numpy(float)
        bulk = table["ess_bulk"].to_numpy(float)
        ess = np.fmin(bulk, table["ess_tail"].to_numpy(float))
        chains = len(fit.solution.posterior["beta"])
        if chains > 1:
            out = self._report_r_hat(names, r_hat)
        else:
            sentence = "a single chain has no R-hat between chains"
            out = self.report(Verdict.NOTE, sentence, "run four, NUTS(chains=4)")
        out += self._report_ess(names, ess, ESS_PER_CHAIN * chains)
        if out:
            return out
        error = percent(float(np.nanmax(1.0 / np.sqrt(bulk))), 2)
        sentence = (
            f"R-hat at most {np.nanmax(r_hat):.3f}, effective sample sizes at least {np.nanmin(ess):.0f}, "
            f"Monte Carlo errors of means at most {error} of a standard deviation"
        )
        return self.report_ok(sentence, statistic=np.nanmax(r_hat))

    def _report_r_hat(self, names: np.ndarray, r_hat: np.ndarray) -> list[Finding]:
        value = np.nan_to_num(r_hat, nan=np.inf)  # nan: a chain that did not move
        bad = np.flatnonzero(value > R_HAT)
        if not len(bad):
            return []
        order = bad[np.argsort(-value[bad])]
        first = ", ".join(f"{names[i]} ({r_hat[i]:.3f})" for i in order[:5])
        sentence = (
            f"R-hat above {R_HAT} for {len(bad)} of {len(names)} parameters: {first}"
        )
        remedy = "draw more (NUTS(draws=4000, tune=2000)), or use a more informative prior"  # fmt: skip
        verdict = Verdict.PROBLEM if value.max() > R_HAT_BAD else Verdict.WARNING
        columns = [str(name) for name in names[order]]
        return self.report(verdict, sentence, remedy, columns, statistic=value.max())

    def _report_ess(
        self, names: np.ndarray, ess: np.ndarray, least: float
    ) -> list[Finding]:
        bad = np.flatnonzero(ess < least)
        if not len(bad):
            return []
        order = bad[np.argsort(ess[bad])]
        first = ", ".join(f"{names[i]} ({ess[i]:.0f})" for i in order[:5])
        low = float(np.nanmin(ess))
        sentence = (
            f"effective sample size below {least:.0f} for {len(bad)} of {len(names)} parameters: {first}; "
            f"Monte Carlo errors of means up to {percent(1.0 / np.sqrt(low), 2)} of a standard deviation"
        )
        remedy = f"draw about {int(np.ceil(least / max(low, 1.0)))} times as many"
        columns = [str(name) for name in names[order]]
        return self.report(Verdict.WARNING, sentence, remedy, columns, statistic=low)
