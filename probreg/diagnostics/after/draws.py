"""Quality of draws: Markov chains, and importance weights of an approximate posterior."""

from typing import Any, ClassVar

import numpy as np

from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.fits.fit import Fit
from probreg.fits.inference_data import (
    coefficient_draws,
    index_labels,
)
from probreg.fits.leave_one_out import FEWEST, log_importance_ratio
from probreg.inference.sampling.convergence import R_HAT
from probreg.inference.sampling.importance import smooth_weights
from probreg.system.terminal import percent

Array = np.ndarray


@DIAGNOSTICS.register
class ApproximationDiagnostic(Diagnostic):
    """Pareto shape k of the weights p / q of draws from an approximation q: below 0.5 means under q are near means under p, above
    0.7 q misses part of p (Yao, Vehtari, Simpson & Gelman 2018). The effective share of the draws, 1 / (S sum w^2), is 1
    if q is p."""

    name = "approximation"
    title = "Approximation"
    target = "posterior"
    picture = "plot.coefficients"

    def find(self, fit: Fit) -> list[Finding]:
        low_share = 0.25  # effective share of draws: it measures the centre, and the shape measures the tails
        high_share = 0.5
        bad_k = 0.7  # the largest shape for which weighted means converge (Vehtari et al. 2024)
        good_k = 0.5  # finite variance
        draws = fit.solution.posterior
        log_w = log_importance_ratio(fit)
        if log_w is None:
            raise NotApplicable(f"{fit.method.name} draws from the posterior itself")
        if draws.count < FEWEST:
            raise NotApplicable(
                f"the Pareto shape needs at least {FEWEST} draws, got {draws.count}"
            )
        log_w = log_w - log_w.max()
        w = np.exp(log_w) / np.exp(log_w).sum()
        k = smooth_weights(log_w).k
        share = 1.0 / (len(w) * (w**2).sum())
        sentence = f"importance weights have Pareto k = {k:.2f} (good below {good_k}), effective share of draws {percent(share, 2)}"
        if k < good_k and share >= high_share:
            return self.report(sentence, statistic=k)
        verdict = Verdict.WARNING if k > bad_k or share < low_share else Verdict.NOTE
        remedy = "sample the posterior: fit(model, 'nuts')"
        return self.report(sentence, verdict, remedy, statistic=k)


class ChainDiagnostic(Diagnostic):
    """A diagnostic of the Markov chains of a posterior, by the statistic `stat` of the sampler if it has a name."""

    target = "posterior"
    rows = False
    stat: ClassVar[str] = ""

    def require(self, fit: Fit) -> None:
        super().require(fit)
        if not fit.method.makes_chains:
            raise NotApplicable(
                f"the draws of {fit.method.name} are independent, without Markov chains"
            )
        if self.stat and self.stat not in fit.solution.posterior.stats:
            raise NotApplicable(f"{fit.method.name} stores no statistic {self.stat!r}")


@DIAGNOSTICS.register
class MixingDiagnostic(ChainDiagnostic):
    """Reports parameters with rank-normalised split R-hat above 1.01, or with bulk or tail effective sample size below 100 per
    chain. The Monte Carlo error of a posterior mean is sd / sqrt(ESS). Source: Vehtari et al. 2021."""

    name = "mixing"
    title = "Convergence"
    picture = "plot.rank"

    def find(self, fit: Fit) -> list[Finding]:
        bad_r_hat = 1.05
        ess_per_chain = 100.0  # Vehtari et al. 2021
        table = fit.summary()
        table.index = index_labels(table.index)
        # nan: a chain that did not move
        r_hat = table["r_hat"].fillna(np.inf).sort_values(ascending=False)
        ess = np.fmin(table["ess_bulk"], table["ess_tail"]).sort_values()
        chains = len(fit.solution.posterior["beta"])
        findings = []
        if chains == 1:
            sentence = "a single chain has no R-hat between chains"
            findings += self.report(sentence, Verdict.NOTE, "run four, NUTS(chains=4)")
        elif r_hat.max() > R_HAT:
            names, first = _list_worst(r_hat[r_hat > R_HAT], 3)
            verdict = Verdict.PROBLEM if r_hat.max() > bad_r_hat else Verdict.WARNING
            sentence = f"R-hat above {R_HAT} for {len(names)} of {len(table)} parameters: {first}"
            remedy = "draw more (NUTS(draws=4000, tune=2000)), or use a more informative prior"
            findings += self.report(
                sentence, verdict, remedy, names, statistic=r_hat.max()
            )
        minimum = ess_per_chain * chains
        if ess.min() < minimum:
            names, first = _list_worst(ess[ess < minimum], 0)
            error = percent(1.0 / np.sqrt(ess.min()), 2)
            sentence = (
                f"effective sample size below {minimum:.0f} for {len(names)} of {len(table)} parameters: {first}; "
                f"Monte Carlo errors of means up to {error} of a standard deviation"
            )
            remedy = f"draw about {int(np.ceil(minimum / max(ess.min(), 1.0)))} times as many"
            findings += self.report(
                sentence, Verdict.WARNING, remedy, names, statistic=ess.min()
            )
        error = percent(1.0 / np.sqrt(table["ess_bulk"].min()), 2)
        sentence = (
            f"R-hat at most {r_hat.max():.3f}, effective sample sizes at least {ess.min():.0f}, "
            f"Monte Carlo errors of means at most {error} of a standard deviation"
        )
        return findings or self.report(sentence, statistic=r_hat.max())


def _list_worst(values: Any, places: int) -> tuple[list[str], str]:
    """Return the names of a Series, and the first five of them with their values."""
    first = [f"{name} ({v:.{places}f})" for name, v in values.head(5).items()]
    return list(values.index), ", ".join(first)


@DIAGNOSTICS.register
class DivergenceDiagnostic(ChainDiagnostic):
    """Reports divergent transitions: the sampler did not explore a region of high curvature, which is missing from the draws
    (Betancourt 2017). It names the parameter for which divergent draws differ most from the others."""

    name = "divergences"
    title = "Divergences"
    picture = "plot.trace"
    stat = "diverging"

    def find(self, fit: Fit) -> list[Finding]:
        most_divergent = 0.01  # share of divergent draws above which intervals should not be reported
        posterior = fit.solution.posterior
        diverging = np.asarray(posterior.stats["diverging"], dtype=bool)
        findings = []
        deep = np.mean(posterior.stats.get("reached_max_treedepth", 0.0))
        if deep > 0:
            sentence = f"{percent(deep, 2)} of trajectories reached the maximum tree depth, so sampling is slow and draws are correlated"
            remedy = "check R-hat and effective sample sizes; rescale the columns"
            findings = self.report(sentence, Verdict.NOTE, remedy)
        count = int(diverging.sum())
        if not count:
            sentence = f"no divergent transitions among {diverging.size} draws"
            return findings + self.report(sentence, statistic=0)
        # the parameter with the largest shift of divergent draws, in standard deviations
        aux = [posterior[a][..., None] for a in fit.model.unknown]
        draws = np.concatenate([coefficient_draws(fit), *aux], -1)
        names = [*fit.parameter_names, *fit.model.unknown]
        sd = draws.reshape(-1, draws.shape[-1]).std(0)
        shift = draws[diverging].mean(0) - draws.mean((0, 1))
        shift = shift / np.where(sd > 0, sd, 1.0)
        j = int(np.abs(shift).argmax())
        side = "high" if shift[j] > 0 else "low"
        share = count / diverging.size
        sentence = f"{count} of {diverging.size} transitions diverged ({percent(share, 2)}), mostly at {side} values of {names[j]}"
        remedy = "raise target_accept (NUTS(target_accept=0.95)), or use a more informative prior"
        verdict = Verdict.PROBLEM if share > most_divergent else Verdict.WARNING
        finding = self.report(sentence, verdict, remedy, [names[j]], statistic=count)
        return finding + findings


@DIAGNOSTICS.register
class EnergyDiagnostic(ChainDiagnostic):
    """Reports chains with E-BFMI below 0.3, a sign of heavy tails that the chains explore too slowly (Betancourt 2016)."""

    name = "energy"
    title = "E-BFMI"
    picture = "plot.energy"
    stat = "energy"

    def find(self, fit: Fit) -> list[Finding]:
        from arviz_stats.base import array_stats

        least_bfmi = 0.3  # Betancourt 2016
        energy = np.asarray(fit.solution.posterior.stats["energy"], dtype=float)
        if energy.shape[1] < 2:
            raise NotApplicable("the chains have only one draw")
        value = array_stats.bfmi(energy)
        low = np.flatnonzero(value < least_bfmi)
        if not len(low):
            sentence = f"at least {value.min():.2f} in every chain"
            return self.report(sentence, statistic=value.min())
        chains = ", ".join(f"{c + 1} ({value[c]:.2f})" for c in low)
        sentence = f"below {least_bfmi} in chain {chains}: tails are visited too rarely, and intervals may be too short"
        remedy = "draw and tune more, use a prior with lighter tails, or fix a scale"
        return self.report(sentence, Verdict.WARNING, remedy, statistic=value.min())
