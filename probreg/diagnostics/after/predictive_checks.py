"""Posterior predictive checks: test statistics for each likelihood, with Bayesian p-values."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Design
from probreg.data.blocks.stream import ahead
from probreg.data.rows import plus_offset
from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    other_spread,
    require_counts,
)
from probreg.diagnostics.after.statistics import Statistic, statistics
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    Finding,
    NotApplicable,
    Verdict,
)
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.residuals import canonical_order
from probreg.system.terminal import format_p

Array = np.ndarray
_REPLICATES = 2000
_FEWEST = 200  # replicates of many rows
# replicated observations in all, and in one block
_NUMBERS, _AT_ONCE = 20_000_000, 100_000
_RARE = 1e-3  # two-sided; the smallest p-value that 2,000 replicates resolve


class PredictiveCheck(NamedTuple):
    """One statistic: its mean at the data and at replicates, and p = P(T(y_rep, theta) >= T(y, theta) | y), ties halved."""

    statistic: Statistic
    observed: float
    replicated: float
    p_value: float

    @property
    def two_sided(self) -> float:
        return 2.0 * min(self.p_value, 1.0 - self.p_value)


def predictive_checks(fit: Fit) -> list[PredictiveCheck]:
    """Posterior predictive p-values of the statistics of the likelihood (Gelman, Meng & Stern 1996).

    Up to 2,000 replicates, one for each draw. A p-value near 0 or 1 is a misfit; one near 1/2 is weak evidence, because the data
    are used twice and p-values concentrate around 1/2 (Bayarri & Berger 2000).
    """
    design = fit.model.design
    if design.weights is not None:
        design = design.take(observation_rows(fit.model)[0])
    # replicates do not depend on the order of the rows
    design = design.take(canonical_order(design))
    fitted = plus_offset(design.X @ fit.solution.beta, design.offset)
    chosen = statistics(fit.model.likelihood, fitted)
    sums = np.zeros((len(chosen), 3))
    total = 0
    # a second thread draws the next block
    for replicate, eta, aux in ahead(_replicate_blocks(fit, design)):
        y = fit.model.likelihood.drawn(design.observed)[None]
        for statistic, into in zip(chosen, sums):
            replicated = statistic.value(replicate, eta, aux)
            seen = np.broadcast_to(statistic.value(y, eta, aux), replicated.shape)
            tie = np.isclose(replicated, seen, rtol=1e-12, atol=0.0)
            exceeds = np.where(tie, 0.5, replicated > seen)
            into += [seen.sum(), replicated.sum(), exceeds.sum()]
        total += len(replicate)
    means = (sums / total).tolist()
    return [PredictiveCheck(t, *row) for t, row in zip(chosen, means)]


def _replicate_blocks(
    fit: Fit, design: Design
) -> Iterator[tuple[Array, Array, Mapping[str, Any]]]:
    """Yield replicates of y (S, n), eta and the nuisance parameters of each row, by blocks of draws."""
    model = fit.model
    likelihood = model.likelihood
    flat = fit.solution.posterior.flat
    count = int(np.clip(_NUMBERS // design.n, _FEWEST, _REPLICATES))
    # draws recur where there are fewer
    chosen = np.linspace(0, len(flat["beta"]) - 1, count).round().astype(int)
    rng = np.random.default_rng([fit.seed, 4])
    parts = min(count, 1 + count * design.n // _AT_ONCE)
    for indices in np.array_split(chosen, parts):
        eta = plus_offset(design.X @ flat["beta"][indices], design.offset)
        aux = {**model.fixed, **{a: flat[a][indices, None] for a in model.unknown}}
        aux = likelihood.at_rows(aux, design.precision) | model.given(design)
        yield likelihood.drawn(likelihood.sample(rng, eta, **aux)), eta, aux


@DIAGNOSTICS.register
class PredictiveDiagnostic(Diagnostic):
    """Reports test statistics of the likelihood (`statistics.py`) with two-sided Bayesian p-values below 0.01."""

    name = "predictive_checks"
    title = "Posterior predictive check"
    target = "posterior"
    picture = "plot.ppc"

    def find(self, fit: Fit) -> list[Finding]:
        require_counts(fit, 0, continuous=True)
        checks = predictive_checks(fit)
        if not checks:
            raise NotApplicable(
                f"no test statistics for the {fit.model.likelihood.name} likelihood"
            )
        findings: list[Finding] = []
        for c in checks:
            if c.two_sided < SIGNIFICANT:
                p = max(c.two_sided, 1.0 / _REPLICATES)
                sign = "=" if c.two_sided >= p else "<"
                verdict = Verdict.WARNING if c.two_sided <= _RARE else Verdict.NOTE
                findings += self.report(
                    f"{c.statistic.name} {c.observed:.4g} in the data, {c.replicated:.4g} in replicated data, p {sign} {p:.2g}",
                    verdict,
                    c.statistic.remedy or other_spread(fit),
                    statistic=c.observed,
                    p_value=p,
                )
        smallest = min(checks, key=lambda c: c.two_sided)
        sentence = f"replicated data agree with the data in {len(checks)} statistics; smallest p-value: {smallest.statistic.name} ({format_p(smallest.p_value)})"
        return findings or self.report(sentence, p_value=smallest.two_sided)
