"""Are the effects that vary by a group normal, and is one group unlike the others?"""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr

from probreg.assess.after.base import DIAGNOSTICS, SIGNIFICANT, Diagnostic
from probreg.assess.after.normality import Shape, normal_shape
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.fits.prediction import off_span_of
from probreg.system.terminal import format_p

Array = np.ndarray
FEWEST = 8  # groups from which a shape is told
# of the prior variance: effects that are pulled to zero whole have no shape
_NONE = 1e-6


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
            drawn = draws.flat["beta"][:, effects.columns]
            mean = drawn.mean(0)
            variance = drawn.var(0)
        mean = mean.reshape(G, K, m)
        variance = variance.reshape(G, K, m)
        for k, name in enumerate(term.effects):
            left = S[k] - variance[:, k]
            if (left <= _NONE * S[k]).any():
                continue
            for j in range(m):
                at = f" (predictor {j + 1})" if m > 1 else ""
                yield StandardisedEffects(
                    f"{name} | {term.group}{at}",
                    term.levels,
                    mean[:, k, j] / np.sqrt(left[:, j]),
                )


@DIAGNOSTICS.register
class GroupEffectsDiagnostic(Diagnostic):
    """The test of Shapiro and Wilk on the conditional means of the effects, each over its standard deviation, and the largest of
    them by Bonferroni over groups. Conditional means are pulled towards a normal shape where groups have few rows.

    >>> import probreg as pr
    >>> sleep = pr.load_dataset("sleepstudy")
    >>> found = GroupEffectsDiagnostic().run(pr.fit(pr.Model.from_formula("reaction ~ days + (1 | subject)", sleep)))
    >>> found[0].verdict.name
    'OK'
    """

    name: ClassVar[str] = "group_effects"
    question: ClassVar[str] = "Are effects that vary by a group normal?"
    when: ClassVar[str] = "effects that vary by a group"
    picture: ClassVar[str] = "plot.effects"
    rows: ClassVar[bool] = False

    def applies(self, fit: Fit) -> str | None:
        terms = fit.model.design.recipe.grouped.values()
        if not terms:
            return "no effect varies by a group"
        if all(len(t.levels) < FEWEST for t in terms):
            return f"fewer than {FEWEST} groups have no shape"
        return None

    def run(self, fit: Fit) -> list[Finding]:
        out: list[Finding] = []
        shapes: list[Shape] = []
        for effect in standardised_effects(fit):
            if len(effect.z) < FEWEST:
                continue
            shape = normal_shape(effect.z)
            shapes.append(shape)
            # P(max |z| > t) <= G P(|z| > t)
            far = int(np.argmax(np.abs(effect.z)))
            p = min(1.0, len(effect.z) * 2.0 * float(ndtr(-abs(effect.z[far]))))
            if p < SIGNIFICANT:
                said = f"{effect.label}: group {effect.levels[far]!r} is {effect.z[far]:+.1f} standard deviations from zero, {format_p(p)}"
                out.append(
                    self.say(
                        Verdict.NOTE,
                        said,
                        "look at its rows; see group_influence for what it does",
                        statistic=effect.z[far],
                        p_value=p,
                    )
                )
            elif shape.p_value < SIGNIFICANT:
                said = f"{effect.label}: the effects look other than normal, {effect.levels[far]} the furthest: {shape}"
                out += self.report_p_value(
                    said,
                    "look for a column of the groups that the mean lacks",
                    statistic=shape.statistic,
                    p_value=shape.p_value,
                )
        least = min((s.p_value for s in shapes), default=1.0)
        return out or self.fine(
            f"effects by group look normal ({len(shapes)} effects)", p_value=least
        )
