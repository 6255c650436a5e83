"""A straight line that stands twice: a column beside a smooth function of it, or one function beside those of each level."""

from typing import ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.assess.before.term_columns import terms
from probreg.data.formula.functions import term_functions
from probreg.model.model import Model
from probreg.numerics.linalg import triangular

_SAME = 1e-9  # of a column: what is left of it beside others that say the same


@CHECKS.register
class SameLineCheck(Check):
    """Names terms that the flat columns of a smooth function say already, and levels of `by=` that have no means of their own.

    >>> x = np.linspace(0.0, 6.0, 40)
    >>> model = Model.from_formula("y ~ x + s(x)", {"x": x, "y": np.sin(x)})
    >>> SameLineCheck().run(model)[0].sentence
    's(x): has the straight line of x in it, which stands beside it once more'
    """

    name: ClassVar[str] = "same_line"
    question: ClassVar[str] = "Does a smooth function say what another term says too?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        functions = term_functions(model.design)
        if not functions:
            return self.report_not_applicable("the model has no smooth function")
        out = self._twice(model) + self._without_means(model)
        return out or self.fine(
            "no term stands beside a smooth function that has it already"
        )

    def _twice(self, model: Model) -> list[Finding]:
        design = model.design
        out = list[Finding]()
        parts = terms(design)
        flat = {t.name: t.flat for t in design.recipe.terms}
        number = {name: j for j, name in enumerate(design.columns)}
        found = dict[str, list[str]]()
        for name, lines in flat.items():
            of = {number[c] for c in lines}
            for other, columns in parts.items():
                if other in flat:
                    other_lines = [number[c] for c in flat[other]]
                else:
                    other_lines = list(columns)
                if (
                    other in (name, "Intercept")
                    or not of
                    or not other_lines
                    or (other in flat and other in found)
                ):
                    continue
                if _is_combination_of_lines(model, other_lines, sorted(of)):
                    found.setdefault(name, []).append(other)
        for name, others in found.items():
            said = ", ".join(others)
            whose = "stands" if len(others) == 1 else "stand"
            sentence = f"{name}: has the straight line of {said} in it, which {whose} beside it once more"
            remedy = f"leave out {said}: the smooth function is its line and what bends"
            if any(other in flat for other in others):
                remedy = "a common function beside one of each level is not identified: leave out one of them"
            named = [
                c
                for other in others
                for c in flat.get(other, [design.columns[j] for j in parts[other]])
            ]
            out.append(self.say(Verdict.PROBLEM, sentence, remedy, named))
        return out

    def _without_means(self, model: Model) -> list[Finding]:
        """Functions of levels are centred: without the levels beside them, all levels have one mean."""
        out = []
        design = model.design
        for term in design.recipe.terms:
            if len(term.levels) < 2:
                continue
            each = [f for f in term_functions(design) if f.term_name == term.name]
            inside = np.column_stack(
                [(design.X[:, f.at] != 0).any(1) for f in each]
            ).astype(float)
            others = [
                j for j, c in enumerate(design.columns) if c not in set(term.columns)
            ]
            if not _is_in_span(design.X[:, others], inside):
                by = term.name.partition("by=")[2].partition(",")[0].rstrip(")").strip()
                sentence = f"{term.name}: the levels of {by} have one mean, since {by} is no term of its own"
                out.append(
                    self.say(
                        Verdict.NOTE,
                        sentence,
                        f"write {by} + {term.name}",
                        list(term.flat),
                    )
                )
        return out


def _is_combination_of_lines(
    model: Model, columns: list[int], lines: list[int]
) -> bool:
    """Return whether these columns are combinations of the lines and the intercept."""
    at = model.design.intercept
    front = [*([] if at is None else [at]), *lines]
    R = model.design.moments.R[:, [*front, *columns]]
    F = np.asarray(triangular(R), dtype=float)
    rest = F[len(front) :, len(front) :]
    size = np.linalg.norm(F[:, len(front) :], axis=0)
    return bool((np.linalg.norm(rest, axis=0) <= _SAME * size).all())


def _is_in_span(X: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether the wanted columns (n, k) are combinations of those of X."""
    if X.shape[1]:
        left = wanted - X @ np.linalg.lstsq(X, wanted)[0]
    else:
        left = wanted
    return bool(np.linalg.norm(left) < 1e-6 * np.linalg.norm(wanted))
