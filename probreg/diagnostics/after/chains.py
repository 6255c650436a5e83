"""Diagnostics of Markov chains: R-hat, effective sample sizes, divergent transitions and E-BFMI."""

import numpy as np

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    chains_obstacle,
    parameters,
)
from probreg.diagnostics.findings import Finding, Verdict
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
            findings = self._report_r_hat(names, r_hat)
        else:
            sentence = "a single chain has no R-hat between chains"
            findings = self.report(Verdict.NOTE, sentence, "run four, NUTS(chains=4)")
        findings += self._report_ess(names, ess, ESS_PER_CHAIN * chains)
        if findings:
            return findings
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
        self, names: np.ndarray, ess: np.ndarray, minimum: float
    ) -> list[Finding]:
        bad = np.flatnonzero(ess < minimum)
        if not len(bad):
            return []
        order = bad[np.argsort(ess[bad])]
        first = ", ".join(f"{names[i]} ({ess[i]:.0f})" for i in order[:5])
        low = float(np.nanmin(ess))
        sentence = (
            f"effective sample size below {minimum:.0f} for {len(bad)} of {len(names)} parameters: {first}; "
            f"Monte Carlo errors of means up to {percent(1.0 / np.sqrt(low), 2)} of a standard deviation"
        )
        remedy = f"draw about {int(np.ceil(minimum / max(low, 1.0)))} times as many"
        columns = [str(name) for name in names[order]]
        return self.report(Verdict.WARNING, sentence, remedy, columns, statistic=low)


_MANY = 0.01  # share of divergent draws above which intervals should not be reported


@DIAGNOSTICS.register
class DivergenceDiagnostic(Diagnostic):
    """Reports divergent transitions: the sampler did not explore a region of high curvature, which is missing from the draws
    (Betancourt 2017). It names the parameter for which divergent draws differ most from the others."""

    name = "divergences"
    title = "Divergences"
    target = "posterior"
    rows = False
    picture = "plot.trace"

    def applies(self, fit: Fit) -> str | None:
        reason = chains_obstacle(fit)
        if reason is None and "diverging" not in fit.solution.posterior.stats:
            return f"{fit.method.name} does not count divergent transitions"
        return reason

    def run(self, fit: Fit) -> list[Finding]:
        stats = fit.solution.posterior.stats
        diverging = np.asarray(stats["diverging"], dtype=bool)
        findings = self._report_tree_depth(stats.get("reached_max_treedepth"))
        count = int(diverging.sum())
        if not count:
            sentence = f"no divergent transitions among {diverging.size} draws"
            return findings + self.report_ok(sentence, statistic=0)
        # the parameter with the largest shift of divergent draws, in standard deviations
        names, draws = parameters(fit)
        sd = draws.reshape(-1, draws.shape[-1]).std(0)
        shift = draws[diverging].mean(0) - draws.mean((0, 1))
        shift = shift / np.where(sd > 0, sd, 1.0)
        j = int(np.abs(shift).argmax())
        side = "high" if shift[j] > 0 else "low"
        share = count / diverging.size
        sentence = f"{count} of {diverging.size} transitions diverged ({percent(share, 2)}), mostly at {side} values of {names[j]}"
        remedy = "raise target_accept (NUTS(target_accept=0.95)), or use a more informative prior"
        verdict = Verdict.PROBLEM if share > _MANY else Verdict.WARNING
        finding = self.report(verdict, sentence, remedy, [names[j]], statistic=count)
        return finding + findings

    def _report_tree_depth(self, reached: np.ndarray | None) -> list[Finding]:
        if reached is None or not np.any(reached):
            return []
        share = percent(float(np.mean(reached)), 2)
        sentence = f"{share} of trajectories reached the maximum tree depth, so sampling is slow and draws are correlated"
        remedy = "check R-hat and effective sample sizes; rescale the columns"
        return self.report(Verdict.NOTE, sentence, remedy)


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
