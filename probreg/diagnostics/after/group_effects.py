"""Normality of group effects, and outlying groups."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.after.residual_tests import normality_test
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    Finding,
    HypothesisTest,
    NotApplicable,
    Verdict,
)
from probreg.fits.fit import Fit
from probreg.inference.varying import effects_of_groups
from probreg.system.terminal import format_p, shorten_names


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
        fewest_groups = 8  # groups for a test of normality
        # of the prior variance: effects shrunk to zero have no distribution
        least_variance = 1e-6
        groups = effects_of_groups(fit.model)
        if not groups:
            raise NotApplicable("no effect varies by a group")
        if all(len(effects.levels) < fewest_groups for effects in groups.values()):
            raise NotApplicable(f"fewer than {fewest_groups} groups")
        if not fit.solution.given_scales.has_errors:
            raise NotApplicable("the effects have no standard errors")
        findings = []
        p_values: dict[str, float] = {}
        for group, effects in groups.items():
            table = fit.effects(group)
            keys = [key for key in ("effect", "outcome") if key in table]
            for names, part in table.groupby(keys, sort=False):
                b, sd, pooling = part[["estimate", "sd", "pooling"]].to_numpy().T
                if len(b) < fewest_groups or not (pooling < 1.0 - least_variance).all():
                    continue
                # the mean has the variance S - var(b | y) over data, and pooling is var(b | y) / S
                z = b / (sd * np.sqrt(1.0 / pooling - 1.0))
                label = f"{', '.join(names)} | {group}"
                test = normality_test(z)
                p_values[label] = test.p_value
                findings += self._report_effect(label, effects.levels, z, test)
        if not p_values:
            raise NotApplicable("the estimated effects have no variance")
        tested = shorten_names(p_values, 5)
        sentence = f"{tested}: compatible with a normal distribution"
        return findings or self.report(sentence, p_value=min(p_values.values()))

    def _report_effect(
        self, label: str, levels: Sequence[str], z: np.ndarray, test: HypothesisTest
    ) -> list[Finding]:
        farthest = int(np.argmax(np.abs(z)))
        largest = float(z[farthest])
        # P(max |z| > t) <= G P(|z| > t)
        p = min(1.0, len(z) * 2.0 * float(ndtr(-abs(largest))))
        if p < SIGNIFICANT:
            return self.report(
                f"{label}: group {levels[farthest]!r} is an outlier, z = {largest:+.1f}, {format_p(p)} (Bonferroni)",
                Verdict.NOTE,
                "check its rows, and report the fit without it too",
                statistic=largest,
                p_value=p,
            )
        if test.p_value >= SIGNIFICANT:
            return []
        return self.report_test(
            test,
            "",
            f"{label}: the effects are not normal",
            "look for a missing predictor of the groups",
            f"; most extreme group {levels[farthest]!r}",
        )
