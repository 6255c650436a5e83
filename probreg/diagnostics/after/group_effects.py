"""Normality of group effects, and outlying groups."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.after.residual_tests import normality_test
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    Finding,
    NotApplicable,
    Verdict,
)
from probreg.fits.fit import Fit
from probreg.fits.prediction import off_span_of
from probreg.system.terminal import format_p

Array = np.ndarray
FEWEST = 8  # groups for a test of normality
_NONE = 1e-6  # of the prior variance: effects shrunk to zero have no distribution


class StandardisedEffects(NamedTuple):
    """z_g (G,) of one effect: nearly standard normal under the model."""

    label: str
    levels: tuple[str, ...]
    z: Array


def standardised_effects(fit: Fit) -> Iterator[StandardisedEffects]:
    """b_g / sd(b_g) of every effect, b_g its conditional mean and sd(b_g)^2 = S - var(b_g | y) the variance of that mean over data."""
    off = off_span_of(fit.model, fit.solution)
    draws = fit.solution.draws
    m = fit.model.shape[1]
    for effects in off.of_groups if off is not None else ():
        S = np.square(effects.roots).sum(-1).mean(0)
        (G, K), term = effects.term.shape, effects.term
        if draws is None:
            mean = fit.solution.beta[effects.columns]
            variance = fit.solution.given_scales.diagonal().reshape(-1, m)[
                effects.columns
            ]
        else:
            effect_draws = draws.flat["beta"][:, effects.columns]
            mean = effect_draws.mean(0)
            variance = effect_draws.var(0)
        mean = mean.reshape(G, K, m)
        variance = variance.reshape(G, K, m)
        for k, name in enumerate(term.effects):
            unexplained = S[k] - variance[:, k]
            if (unexplained <= _NONE * S[k]).any():
                continue
            for j in range(m):
                suffix = f" (predictor {j + 1})" if m > 1 else ""
                yield StandardisedEffects(
                    f"{name} | {term.group}{suffix}",
                    term.levels,
                    mean[:, k, j] / np.sqrt(unexplained[:, j]),
                )


@DIAGNOSTICS.register
class GroupEffectsDiagnostic(Diagnostic):
    """The Shapiro-Wilk test of the conditional means of the effects, each over its standard deviation, and the largest of
    them by Bonferroni over groups. With few rows in a group conditional means are closer to normal than the effects.

    >>> import probreg as pr
    >>> sleep = pr.load_dataset("sleepstudy")
    >>> found = GroupEffectsDiagnostic().run(pr.fit(pr.Model.from_formula("reaction ~ days + (1 | subject)", sleep)))
    >>> found[0].verdict.name
    'OK'
    """

    name = "group_effects"
    title = "Distribution of group effects"
    when = "effects that vary by a group"
    picture = "plot.effects"
    rows = False

    def find(self, fit: Fit) -> list[Finding]:
        terms = fit.model.design.recipe.grouped.values()
        if not terms:
            raise NotApplicable("no effect varies by a group")
        if all(len(t.levels) < FEWEST for t in terms):
            raise NotApplicable(f"fewer than {FEWEST} groups")
        findings: list[Finding] = []
        p_values = []
        for effect in standardised_effects(fit):
            if len(effect.z) < FEWEST:
                continue
            test = normality_test(effect.z)
            p_values.append(test.p_value)
            # P(max |z| > t) <= G P(|z| > t)
            farthest = int(np.argmax(np.abs(effect.z)))
            z = float(effect.z[farthest])
            p = min(1.0, len(effect.z) * 2.0 * float(ndtr(-abs(z))))
            level = effect.levels[farthest]
            if p < SIGNIFICANT:
                findings += self.report(
                    f"{effect.label}: group {level!r} is an outlier, z = {z:+.1f}, {format_p(p)} (Bonferroni)",
                    Verdict.NOTE,
                    "check its rows, and report the fit without it too",
                    statistic=z,
                    p_value=p,
                )
            elif test.p_value < SIGNIFICANT:
                findings += self.report_test(
                    test,
                    "",
                    f"{effect.label}: the effects are not normal",
                    "look for a missing predictor of the groups",
                    f"; most extreme group {level!r}",
                )
        sentence = f"compatible with a normal distribution ({len(p_values)} effects)"
        return findings or self.report(sentence, p_value=min(p_values, default=1.0))
