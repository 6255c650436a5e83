"""Collinearity: columns that are combinations of others, exactly or nearly, and which combinations."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.assess.before.term_columns import FEW, few_of, terms_of
from probreg.data.level_moments import dropped_beside_levels
from probreg.data.unwritten import LazyColumns
from probreg.inference.modes.wide import SOON
from probreg.model.model import Model
from probreg.numerics.linalg import ColumnRank, rank_of, triangular

Array = np.ndarray
# From 30 on Belsley, Kuh & Welsch (1980, section 3.2) speak of moderate to strong collinearity.
NOTED = 30.0
WARNED = 1000.0  # one combination has a standard error a thousand times that of another


@CHECKS.register
class RankCheck(Check):
    """Exact collinearity is a problem when no prior decides between the columns; near-collinearity is judged
    on centred, scaled columns, so that a shift or a unit raises no alarm.

    >>> x = np.arange(5.0)
    >>> X = np.stack([x, x**2, x + 2 * x**2], axis=1)
    >>> RankCheck().run(Model.from_arrays(X, x**3, columns=["a", "b", "c"]))[0].sentence
    'c = a + 2 b in every row: their shares cannot be told apart'
    """

    name: ClassVar[str] = "rank"
    question: ClassVar[str] = "Does every column say something that the others do not?"
    cheap: ClassVar[bool] = True
    topic: ClassVar[str] = "rank"

    def run(self, model: Model) -> list[Finding]:
        least = surplus(model)
        if least is not None:
            return self._report_more_columns_than_rows(model, least)
        if model.design.coded and len(model.design.columns) > SOON:
            return self._beside_levels(model)
        moments = model.design.moments
        free = np.flatnonzero(~model.joint.informative)
        names = model.design.columns
        if len(free):
            alone = rank_of(triangular(moments.R[:, free]))
        else:
            alone = _NOTHING
        undecided = _format_equations(alone, [names[j] for j in free])
        out = self._report_unidentified(model, undecided)
        told = {cols[0] for _, cols in undecided}
        grouped = {
            c for term in model.design.recipe.grouped.values() for c in term.columns
        }  # by design beside the intercept
        shared = [
            (text, cols)
            for text, cols in _format_equations(moments.rank, names)
            if cols[0] not in told | grouped
        ]
        whole = {c: t.name for t in model.design.recipe.terms for c in t.columns}
        for text, cols in shared:
            if cols[0] not in whole:
                out.append(
                    self.say(
                        Verdict.NOTE,
                        f"{text}: the prior alone decides how they share the effect",
                        "",
                        cols,
                    )
                )
        for term in dict.fromkeys(
            whole[cols[0]] for _, cols in shared if cols[0] in whole
        ):
            of = [cols for _, cols in shared if whole.get(cols[0]) == term]
            others = dict.fromkeys(whole.get(c, c) for cols in of for c in cols[1:])
            said = f"{term}: combinations of {', '.join(o for o in others if o != term) or 'one another'} in {len(of)} columns"
            out.append(
                self.say(
                    Verdict.NOTE,
                    f"{said}, which the prior alone tells apart",
                    "",
                    [c[0] for c in of],
                )
            )
        return (out + self._nearly(model)) or self.fine(
            "every column says something that the others do not"
        )

    def _report_unidentified(
        self, model: Model, found: list[tuple[str, tuple[str, ...]]]
    ) -> list[Finding]:
        """Return an equation for each column that neither data nor prior identifies; one finding for a term with
        several of them."""
        out = list[Finding]()
        of = {
            c: t
            for t, cs in terms_of(model.design, model.design.columns).items()
            for c in cs
        }
        for term, dropped in terms_of(
            model.design, [cols[0] for _, cols in found]
        ).items():
            mine = [(text, cols) for text, cols in found if cols[0] in dropped]
            if len(mine) == 1:
                ((text, cols),) = mine
                out.append(
                    self.say(
                        Verdict.PROBLEM,
                        f"{text}: {_explain_redundancy(cols)}",
                        _REMEDY,
                        cols,
                    )
                )
                continue
            named = tuple(dict.fromkeys(c for _, cols in mine for c in cols))
            others = [t for t in dict.fromkeys(of[c] for c in named) if t != term]
            said = f"{term}: {len(mine)} of its columns are combinations of {few_of(others) or 'one another'}"
            out.append(
                self.say(
                    Verdict.PROBLEM,
                    f"{said}: their shares cannot be told apart",
                    _REMEDY,
                    named,
                )
            )
        return out

    def _beside_levels(self, model: Model) -> list[Finding]:
        """Thousands of levels stay codes: other columns are held against them, and no combination is written out."""
        design = model.design
        assert isinstance(design.X, LazyColumns)
        if design.observed.ndim == 1:
            y = design.observed
        else:
            y = np.zeros(design.n)
        dropped = dropped_beside_levels(design.X, y, design.square_weights)
        undecided = [j for j in dropped if not model.joint.informative[j]]
        if not undecided:
            return self.fine("no column is a combination of the levels and of others")
        named = [design.columns[j] for j in undecided]
        if len(named) == 1:
            what = "is a combination"
        else:
            what = "are combinations"
        sentence = f"{few_of(named)} {what} of the levels and of other columns: their shares cannot be told apart"
        return [self.say(Verdict.PROBLEM, sentence, _REMEDY, named)]

    def _report_more_columns_than_rows(self, model: Model, least: int) -> list[Finding]:
        """Return one finding where columns outnumber rows by so many that equations between them would not help."""
        design = model.design
        free = np.flatnonzero(~model.joint.informative)
        names = tuple(design.columns[j] for j in free)
        told = f"{least:,} of {len(design.columns):,} columns at least are combinations of the others in all {design.n:,} rows"
        if len(free) > design.n:
            said = f"{told}, and {len(free):,} have no prior that decides"
            return [
                self.say(
                    Verdict.PROBLEM,
                    said,
                    "give all columns a prior, or use fewer of them",
                    names,
                )
            ]
        if len(free):
            alone = rank_of(
                triangular(design.X[:, free], weights=design.square_weights)
            )
        else:
            alone = _NOTHING
        out = [
            self.say(
                Verdict.PROBLEM, f"{t}: {_explain_redundancy(cols)}", _REMEDY, cols
            )
            for t, cols in _format_equations(alone, names)
        ]
        if (
            len(design.columns)
            - sum(len(t.columns) for t in design.recipe.grouped.values())
            <= design.n
        ):
            return out or self.fine(
                "more columns than rows, which effects by group make up"
            )
        return [
            *out,
            self.say(
                Verdict.NOTE,
                f"{told}: the prior alone decides how they share the effect",
            ),
        ]

    def _nearly(self, model: Model) -> list[Finding]:
        keep = [
            j for j in model.design.moments.rank.kept if not model.design.of_terms[j]
        ]
        if model.design.intercept in keep:
            keep.remove(model.design.intercept)
        if len(keep) < 2:
            return []
        groups = list(
            terms_of(model.design, [model.design.columns[j] for j in keep]).items()
        )
        if len(groups) < 2:
            return []
        # The condition index of the terms, each with orthonormal columns, centred beside an intercept, and the
        # combination of them that varies least; a term of one column is that column at unit length.
        R = model.design.moments.R
        at = model.design.intercept
        front = [] if at is None else [at]
        number = {c: j for j, c in enumerate(model.design.columns)}
        ordered = [number[c] for _, cs in groups for c in cs]
        S = np.asarray(triangular(R[:, [*front, *ordered]]), dtype=float)[
            len(front) :, len(front) :
        ]
        parts = np.split(S, np.cumsum([len(cs) for _, cs in groups])[:-1], axis=1)
        unit = [
            P / np.linalg.norm(P) if P.shape[1] == 1 else np.linalg.qr(P)[0]
            for P in parts
        ]
        values, vectors = np.linalg.svd(np.hstack(unit))[1:]
        index = float(values[0] / max(values[-1], np.finfo(float).tiny))
        weights = vectors[-1]
        if index < NOTED:
            return []
        each = np.split(weights, np.cumsum([len(cs) for _, cs in groups])[:-1])
        size = np.array([np.linalg.norm(w) for w in each])
        found = [i for i in np.argsort(-size, kind="stable") if size[i] > 0.1]
        columns = [c for i in found for c in groups[i][1]]
        said = _describe_combination(
            [
                (float(each[i][0]) if len(each[i]) == 1 else np.nan, groups[i][0])
                for i in found
            ]
        )
        sentence = f"nearly collinear: {said} (condition index {index:.3g})"
        decided = model.joint.informative[[number[c] for c in columns]].all()
        if index < WARNED or decided:
            verdict = Verdict.NOTE
        else:
            verdict = Verdict.WARNING
        remedy = "expect wide intervals for these; drop one, combine them, or give them a prior"
        return [self.say(verdict, sentence, remedy, columns)]


_NOTHING = ColumnRank(0, (), (), np.zeros((0, 0)))
_MANY = 200  # columns up to which the combinations among more of them than rows are written out
_REMEDY = "drop one of these columns, or give them a prior that decides"


def surplus(model: Model) -> int | None:
    """Columns that must be combinations of others, for want of rows; None where columns are few or rows are enough.

    >>> surplus(Model.from_arrays(np.eye(3, 300), [1.0, 2.0, 4.0]))
    298
    """
    n = model.design.n
    p = len(model.design.columns)
    return p - n if n and p > max(n, _MANY) else None


def combination(coefficients: Sequence[float], names: Sequence[str]) -> str:
    """A linear combination for reading.

    >>> combination([1.0, -0.45359237, 2.0], ["a", "b", "Intercept"])
    'a - 0.4536 b + 2'
    """
    out = ""
    for c, name in zip(coefficients, names, strict=True):
        size = f"{abs(c):.4g}"
        if name == "Intercept":
            term = size
        elif size == "1":
            term = name
        else:
            term = f"{size} {name}"
        out += (
            f" {'-' if c < 0 else '+'} {term}" if out else ("-" if c < 0 else "") + term
        )
    return out


def _describe_combination(terms: Sequence[tuple[float, str]]) -> str:
    """Describe a combination of terms that hardly varies, from the weights of single columns (nan for a term of
    several)."""
    single = [(w, name) for w, name in terms if not np.isnan(w)]
    several = [f"the columns of {name}" for w, name in terms if np.isnan(w)]
    shown = single[:FEW]
    if shown:
        formula = combination(
            [w / shown[0][0] for w, _ in shown], [name for _, name in shown]
        )
    else:
        formula = ""
    if len(single) > FEW:
        more = f" and {len(single) - FEW} more columns"
    else:
        more = ""
    if not several:
        return f"{formula}{more}, each in its own standard deviations, hardly varies"
    names = [*(name for _, name in shown), *several[:FEW]]
    rest = len(single) + len(several) - len(names)
    return f"a combination of {', '.join(names)}{f' and {rest} more terms' if rest else ''} hardly varies"


def _format_equations(
    rank: ColumnRank, names: Sequence[str]
) -> list[tuple[str, tuple[str, ...]]]:
    """Return each dropped column as an equation, with the columns in it, the dropped one first."""
    out = []
    for j, row in zip(rank.dropped, rank.combos, strict=True):
        used = [
            (float(b), names[k]) for b, k in zip(row, rank.kept, strict=True) if b != 0
        ]
        order = [
            *(u for u in used if u[1] != "Intercept"),
            *(u for u in used if u[1] == "Intercept"),
        ]
        right = combination([b for b, _ in order], [name for _, name in order]) or "0"
        out.append(
            (
                f"{names[j]} = {right} in every row",
                (names[j], *(name for _, name in used)),
            )
        )
    return out


def _explain_redundancy(columns: tuple[str, ...]) -> str:
    if len(columns) == 1:
        return "its coefficient changes nothing"
    if columns[1:] == ("Intercept",):
        return "a constant, which the Intercept already is"
    return "their shares cannot be told apart"
