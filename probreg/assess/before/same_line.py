"""Smooth functions that contain another term: its straight line, or a common function in addition to one for each level."""

import numpy as np

from probreg.assess.before.base import CHECKS, Check
from probreg.assess.before.term_columns import terms
from probreg.assess.findings import Finding, Verdict
from probreg.data.formula.functions import term_functions
from probreg.model.model import Model
from probreg.numerics.linalg import triangular

_SAME = 1e-9  # of a column: what other columns do not explain


@CHECKS.register
class SameLineCheck(Check):
    """Reports terms that the flat columns of a smooth function contain, and levels of `by=` without means of their own.

    >>> x = np.linspace(0.0, 6.0, 40)
    >>> model = Model.from_formula("y ~ x + s(x)", {"x": x, "y": np.sin(x)})
    >>> SameLineCheck().run(model)[0].sentence
    's(x) contains the straight line of x, which is another term of the model'
    """

    name = "same_line"
    title = "Smooth terms"

    def run(self, model: Model) -> list[Finding]:
        if not term_functions(model.design):
            return self.report_not_applicable("the model has no smooth function")
        findings = self._find_contained_terms(model) + self._find_missing_means(model)
        return findings or self.report_ok("no smooth function contains another term")

    def _find_contained_terms(self, model: Model) -> list[Finding]:
        design = model.design
        findings: list[Finding] = []
        by_term = terms(design)
        flat = {t.name: list(t.flat) for t in design.recipe.terms}
        number = {name: j for j, name in enumerate(design.columns)}
        lines = {
            name: [number[c] for c in flat[name]] if name in flat else list(columns)
            for name, columns in by_term.items()
        }
        contained = dict[str, list[str]]()
        for name in flat:
            for term_name in by_term:
                reported = term_name in flat and term_name in contained
                if term_name in (name, "Intercept") or reported:
                    continue
                if not lines[name] or not lines[term_name]:
                    continue
                if _is_combination_of_lines(
                    model, lines[term_name], sorted(lines[name])
                ):
                    contained.setdefault(name, []).append(term_name)
        for name, contained_terms in contained.items():
            text = ", ".join(contained_terms)
            noun = "is another term" if len(contained_terms) == 1 else "are other terms"
            sentence = f"{name} contains the straight line of {text}, which {noun} of the model"
            remedy = f"leave out {text}"
            if any(term_name in flat for term_name in contained_terms):
                remedy = "leave out one of them: a common function beside one for each level is not identified"
            columns = [
                design.columns[j]
                for term_name in contained_terms
                for j in lines[term_name]
            ]
            findings += self.report(Verdict.PROBLEM, sentence, remedy, columns)
        return findings

    def _find_missing_means(self, model: Model) -> list[Finding]:
        """Report functions by level without a term for the levels, because the level means are then all equal."""
        findings: list[Finding] = []
        design = model.design
        for term in design.recipe.terms:
            if len(term.levels) < 2:
                continue
            functions = [f for f in term_functions(design) if f.term_name == term.name]
            inside = [(design.X[:, f.at] != 0).any(1) for f in functions]
            other_columns = [
                j for j, c in enumerate(design.columns) if c not in term.columns
            ]
            if not _is_in_span(
                design.X[:, other_columns], np.column_stack(inside) * 1.0
            ):
                by = term.name.partition("by=")[2].partition(",")[0].rstrip(")").strip()
                sentence = f"{term.name}: the levels of {by} have the same mean, because {by} is not a term"
                remedy = f"write {by} + {term.name}"
                findings += self.report(Verdict.NOTE, sentence, remedy, list(term.flat))
        return findings


def _is_combination_of_lines(
    model: Model, columns: list[int], lines: list[int]
) -> bool:
    """Return whether these columns are combinations of the lines and the intercept."""
    intercept = model.design.intercept
    front = [*([] if intercept is None else [intercept]), *lines]
    R = model.design.moments.R[:, [*front, *columns]]
    F = np.asarray(triangular(R), dtype=float)
    remainder = F[len(front) :, len(front) :]
    size = np.linalg.norm(F[:, len(front) :], axis=0)
    return bool((np.linalg.norm(remainder, axis=0) <= _SAME * size).all())


def _is_in_span(X: np.ndarray, columns: np.ndarray) -> bool:
    """Return whether the columns (n, k) are linear combinations of the columns of X."""
    if X.shape[1]:
        residual = columns - X @ np.linalg.lstsq(X, columns)[0]
    else:
        residual = columns
    return bool(np.linalg.norm(residual) < 1e-6 * np.linalg.norm(columns))
