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
    countable_obstacle,
    other_spread,
)
from probreg.diagnostics.after.statistics import Statistic, statistics
from probreg.diagnostics.before.response import two_values_obstacle
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    Finding,
    NotApplicable,
    Verdict,
    stop_if,
)
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.residuals import canonical_order
from probreg.system.terminal import format_p

Array = np.ndarray
_REPLICATES = 2000
_FEWEST = 200  # replicates of many rows
_NUMBERS, _AT_ONCE = (
    20_000_000,
    100_000,
)  # replicated observations in all, and in one block
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
    chosen = _select_statistics(fit)
    sums = np.zeros((len(chosen), 3))
    total = 0
    for y, replicate, eta, aux in ahead(
        _replicate_blocks(fit)
    ):  # a second thread draws the next block
        for statistic, into in zip(chosen, sums):
            replicated = statistic.value(replicate, eta, aux)
            seen = np.broadcast_to(statistic.value(y, eta, aux), replicated.shape)
            tie = np.isclose(replicated, seen, rtol=1e-12, atol=0.0)
            into += [
                seen.sum(),
                replicated.sum(),
                np.where(tie, 0.5, replicated > seen).sum(),
            ]
        total += len(replicate)
    return [
        PredictiveCheck(t, *(float(v) / total for v in row))
        for t, row in zip(chosen, sums)
    ]


def _select_statistics(fit: Fit) -> tuple[Statistic, ...]:
    """Return the test statistics for this fit."""
    eta = _eta(_observations(fit), fit.solution.beta)
    return statistics(fit.model.likelihood, eta)


def _observations(fit: Fit) -> Design:
    """Return one row per observation."""
    design = fit.model.design
    if design.weights is None:
        return design
    return design.take(observation_rows(fit.model)[0])


def _eta(design: Design, beta: Array) -> Array:
    return plus_offset(design.X @ beta, design.offset)


def _replicate_blocks(
    fit: Fit,
) -> Iterator[tuple[Array, Array, Array, Mapping[str, Any]]]:
    """Yield y (1, n), its replicates (S, n), eta and the nuisance parameters of each row, by blocks of draws."""
    model = fit.model
    flat = fit.solution.posterior.flat
    design = _observations(fit)
    count = int(np.clip(_NUMBERS // design.n, _FEWEST, _REPLICATES))
    chosen = (
        np.linspace(0, len(flat["beta"]) - 1, count).round().astype(int)
    )  # draws recur where there are fewer
    rng = np.random.default_rng([fit.seed, 4])
    order = canonical_order(design)
    some_rows = design.take(order)
    place = np.argsort(order)
    for indices in np.array_split(chosen, 1 + count * design.n // _AT_ONCE):
        if len(indices):
            eta = _eta(design, flat["beta"][indices])
            aux = {**model.fixed, **{a: flat[a][indices, None] for a in model.unknown}}
            likelihood = model.likelihood
            parameters = likelihood.at_rows(aux, some_rows.precision) | model.given(
                some_rows
            )
            replicate = likelihood.drawn(
                likelihood.sample(rng, eta[:, order], **parameters)
            )[:, place]
            aux = likelihood.at_rows(aux, design.precision) | model.given(design)
            yield likelihood.drawn(design.observed)[None], replicate, eta, aux


@DIAGNOSTICS.register
class PredictiveDiagnostic(Diagnostic):
    """Reports test statistics of the likelihood (`statistics.py`) with two-sided Bayesian p-values below 0.01."""

    name = "predictive_checks"
    title = "Posterior predictive check"
    target = "posterior"
    picture = "plot.ppc"

    def find(self, fit: Fit) -> list[Finding]:
        stop_if(countable_obstacle(fit, minimum=0) or two_values_obstacle(fit.model))
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
                    verdict,
                    f"{c.statistic.name} {c.observed:.4g} in the data, {c.replicated:.4g} in replicated data, p {sign} {p:.2g}",
                    c.statistic.remedy or other_spread(fit),
                    statistic=c.observed,
                    p_value=p,
                )
        smallest = min(checks, key=lambda c: c.two_sided)
        sentence = f"replicated data agree with the data in {len(checks)} statistics; smallest p-value: {smallest.statistic.name} ({format_p(smallest.p_value)})"
        return findings or self.report_ok(sentence, p_value=smallest.two_sided)
