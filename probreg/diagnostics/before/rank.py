"""Exact collinearity: columns that are linear combinations of others."""

from collections.abc import Sequence

import numpy as np

from probreg.data import Design
from probreg.data.level_moments import dropped_beside_levels
from probreg.data.unwritten import LazyColumns
from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.before.term_columns import terms_of
from probreg.diagnostics.findings import Finding, Verdict
from probreg.inference.modes.wide import SOON
from probreg.linalg import ColumnRank, rank_of, triangular
from probreg.model.model import Model
from probreg.system.terminal import few_names

Array = np.ndarray
Equation = tuple[str, tuple[str, ...]]  # of a dropped column, and the columns in it


@CHECKS.register
class RankCheck(Check):
    """Reports exact collinearity with its equations; it is a problem unless priors identify the coefficients.

    >>> x = np.arange(5.0)
    >>> X = np.stack([x, x**2, x + 2 * x**2], axis=1)
    >>> RankCheck().run(Model.from_arrays(X, x**3, columns=["a", "b", "c"]))[0].sentence
    'c = a + 2 b in every row: their coefficients are not identified'
    """

    name = "rank"
    title = "Rank"

    def find(self, model: Model) -> list[Finding]:
        design = model.design
        n_dependent = surplus(model)
        if n_dependent is not None:
            return self._report_more_columns_than_rows(model, n_dependent)
        if design.coded and len(design.columns) > SOON:
            return self._check_coded_levels(model)
        names = design.columns
        free = np.flatnonzero(~model.joint.informative)
        undecided = _format_equations(
            _rank_of(design.moments.R[:, free]), [names[j] for j in free]
        )
        findings = self._report_unidentified(design, undecided)
        reported = {columns[0] for _, columns in undecided}
        # columns of groups are combinations of the intercept by design
        reported |= {c for t in design.recipe.grouped.values() for c in t.columns}
        shared = [
            (f"{equation}: {_BY_PRIOR}", columns)
            for equation, columns in _format_equations(design.moments.rank, names)
            if columns[0] not in reported
        ]
        findings += self._report_by_term(design, shared, Verdict.NOTE, f"; {_BY_PRIOR}")
        return findings or self.report("the design has full column rank")

    def _report_unidentified(
        self, design: Design, equations: list[Equation]
    ) -> list[Finding]:
        """Return a problem for each column that is not identified by the data or the prior."""
        explained = [(f"{e}: {_explain_redundancy(c)}", c) for e, c in equations]
        ending = ": their coefficients are not identified"
        return self._report_by_term(design, explained, Verdict.PROBLEM, ending, _REMEDY)

    def _report_by_term(
        self,
        design: Design,
        equations: list[Equation],
        verdict: Verdict,
        ending: str,
        remedy: str = "",
    ) -> list[Finding]:
        """Return a finding for each equation; one for a term with several columns that are combinations of others."""
        findings: list[Finding] = []
        by_term = terms_of(design, design.columns)
        term_of = {c: term for term, columns in by_term.items() for c in columns}
        for term in dict.fromkeys(term_of[columns[0]] for _, columns in equations):
            own = [e for e in equations if term_of[e[1][0]] == term]
            columns = tuple(dict.fromkeys(c for _, used in own for c in used))
            sentence = own[0][0]
            if len(own) > 1:
                others = dict.fromkeys(term_of[c] for c in columns)
                others.pop(term, None)
                sentence = f"{term}: {len(own)} of its columns are combinations of {few_names(list(others)) or 'one another'}{ending}"
            findings += self.report(sentence, verdict, remedy, columns)
        return findings

    def _check_coded_levels(self, model: Model) -> list[Finding]:
        """Check the other columns against thousands of levels stored as codes, without equations."""
        design = model.design
        assert isinstance(design.X, LazyColumns)
        y = design.observed if design.observed.ndim == 1 else np.zeros(design.n)
        dropped = dropped_beside_levels(design.X, y, design.square_weights)
        names = [design.columns[j] for j in dropped if not model.joint.informative[j]]
        if not names:
            return self.report("no column is a combination of the levels and of others")  # fmt: skip
        verb = "is a combination" if len(names) == 1 else "are combinations"
        sentence = f"{few_names(names)} {verb} of the levels and of other columns: their coefficients are not identified"
        return self.report(sentence, Verdict.PROBLEM, _REMEDY, names)

    def _report_more_columns_than_rows(
        self, model: Model, n_dependent: int
    ) -> list[Finding]:
        """Return one finding if columns outnumber rows by so many that equations between them would not help."""
        design = model.design
        free = np.flatnonzero(~model.joint.informative)
        names = tuple(design.columns[j] for j in free)
        sentence = f"at least {n_dependent:,} of {len(design.columns):,} columns are combinations of the others in all {design.n:,} rows"
        if len(free) > design.n:
            sentence += f", and {len(free):,} have a flat prior"
            remedy = "give all columns a prior, or use fewer of them"
            return self.report(sentence, Verdict.PROBLEM, remedy, names)
        rank = _rank_of(design.X[:, free], design.square_weights)
        findings = self._report_unidentified(design, _format_equations(rank, names))
        of_groups = sum(len(t.columns) for t in design.recipe.grouped.values())
        if len(design.columns) - of_groups <= design.n:
            return findings or self.report("more columns than rows, because of group effects")  # fmt: skip
        return findings + self.report(f"{sentence}: {_BY_PRIOR}", Verdict.NOTE)


_MANY = (
    200  # columns up to which equations are written if there are more columns than rows
)
_REMEDY = "drop one of these columns, or give them a prior"
_BY_PRIOR = "only the prior identifies their coefficients"


def surplus(model: Model) -> int | None:
    """Return how many columns must be combinations of others because there are too few rows; None for few columns or enough rows.

    >>> surplus(Model.from_arrays(np.eye(3, 300), [1.0, 2.0, 4.0]))
    298
    """
    n = model.design.n
    p = len(model.design.columns)
    return p - n if n and p > max(n, _MANY) else None


def combination(coefficients: Sequence[float], names: Sequence[str]) -> str:
    """Format a linear combination.

    >>> combination([1.0, -0.45359237, 2.0], ["a", "b", "Intercept"])
    'a - 0.4536 b + 2'
    """
    text = ""
    for c, name in zip(coefficients, names, strict=True):
        size = f"{abs(c):.4g}"
        if name == "Intercept":
            term = size
        elif size == "1":
            term = name
        else:
            term = f"{size} {name}"
        text += f" {'-' if c < 0 else '+'} {term}"
    return text.replace(" - ", "-", 1) if text.startswith(" -") else text[3:]


def _rank_of(columns: Array, weights: Array | None = None) -> ColumnRank:
    if not columns.shape[1]:
        return ColumnRank(0, (), (), np.zeros((0, 0)))
    return rank_of(triangular(columns, weights=weights))


def _format_equations(rank: ColumnRank, names: Sequence[str]) -> list[Equation]:
    """Return an equation for each dropped column, with the columns in it, the dropped one first."""
    equations = []
    for j, row in zip(rank.dropped, rank.combos, strict=True):
        used = [(float(b), names[k]) for b, k in zip(row, rank.kept) if b != 0]
        ordered = sorted(used, key=lambda term: term[1] == "Intercept")
        right = combination([b for b, _ in ordered], [name for _, name in ordered])
        equation = f"{names[j]} = {right or '0'} in every row"
        equations.append((equation, (names[j], *(name for _, name in used))))
    return equations


def _explain_redundancy(columns: tuple[str, ...]) -> str:
    if len(columns) == 1:
        return "its coefficient has no effect"
    if columns[1:] == ("Intercept",):
        return "a constant, as is the Intercept"
    return "their coefficients are not identified"
