"""Exact and near collinearity of the columns: equations, condition indices, variance inflation factors."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.formula.functions import columns_by_term
from probreg.data.grouped_moments import dropped_beside_levels
from probreg.data.implicit_columns import LazyColumns
from probreg.diagnostics.before.base import CHECKS, Check, refuse_coded_levels
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.errors import DataError
from probreg.inference.modes.wide import SOON
from probreg.linalg import ColumnRank, rank_of, triangular
from probreg.model.model import Model
from probreg.priors import Flat
from probreg.system.terminal import few_names

Array = np.ndarray


def terms_of(design: Design, columns: Iterable[str]) -> dict[str, list[str]]:
    """Return these columns by term, in order.

    >>> from probreg.model.model import Model
    >>> terms_of(Model.from_formula("y ~ g", {"y": [1.0, 2.0, 4.0], "g": ["a", "b", "c"]}).design, ["g[T.c]", "g[T.b]"])
    {'g': ['g[T.c]', 'g[T.b]']}
    """
    positions = columns_by_term(design).items()
    term = {design.columns[j]: name for name, places in positions for j in places}
    names_by_term = dict[str, list[str]]()
    for column in columns:
        names_by_term.setdefault(term[column], []).append(column)
    return names_by_term


def without_effects_by_group(model: Model) -> Model:
    """Return the model without the columns of group effects; the model itself without such effects or rows in memory."""
    design = model.design
    if not design.recipe.grouped or not design.n:
        return model
    X = np.asarray(design.X[:, list(design.ungrouped)])
    head = replace(design, X=X, columns=design.ungrouped_columns, kept=None)
    return replace(model, design=head, prior=Flat())


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
        if design.has_codes and len(design.columns) > SOON:
            return self._check_coded_levels(model)
        names = design.columns
        free = np.flatnonzero(~model.joint.informative)
        undecided = _format_equations(
            rank_of(triangular(design.moments.R[:, free])), [names[j] for j in free]
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
        findings = []
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
        """Return one finding if there are many more columns than rows, so that equations between columns would not help."""
        design = model.design
        free = np.flatnonzero(~model.joint.informative)
        names = tuple(design.columns[j] for j in free)
        sentence = f"at least {n_dependent:,} of {len(design.columns):,} columns are combinations of the others in all {design.n:,} rows"
        if len(free) > design.n:
            sentence += f", and {len(free):,} have a flat prior"
            remedy = "give all columns a prior, or use fewer of them"
            return self.report(sentence, Verdict.PROBLEM, remedy, names)
        weights = design.square_weights
        rank = rank_of(triangular(design.X[:, free], weights=weights))
        findings = self._report_unidentified(design, _format_equations(rank, names))
        of_groups = sum(len(t.columns) for t in design.recipe.grouped.values())
        if len(design.columns) - of_groups <= design.n:
            return findings or self.report("more columns than rows, because of group effects")  # fmt: skip
        return findings + self.report(f"{sentence}: {_BY_PRIOR}", Verdict.NOTE)


_REMEDY = "drop one of these columns, or give them a prior"
_BY_PRIOR = "only the prior identifies their coefficients"


def surplus(model: Model) -> int | None:
    """Return how many columns must be combinations of others because there are too few rows; None for few columns or enough rows.

    >>> surplus(Model.from_arrays(np.eye(3, 300), [1.0, 2.0, 4.0]))
    298
    """
    # up to this number equations are written if there are more columns than rows
    max_columns = 200
    n = model.design.n
    p = len(model.design.columns)
    return p - n if n and p > max(n, max_columns) else None


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


def _format_equations(rank: ColumnRank, names: Sequence[str]) -> list[Equation]:
    """Return an equation for each dropped column, with the columns in it, the dropped one first."""
    equations = []
    for j, row in zip(rank.dropped, rank.combos, strict=True):
        used = [(b, names[k]) for b, k in zip(row, rank.kept) if b != 0]
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


@CHECKS.register
class CollinearityCheck(Check):
    """Reports terms with a generalised variance inflation factor GVIF^(1/df) of ten or more (Marquardt 1970), and otherwise a
    near combination of columns of several terms with a condition index of 30 or more, which an average over the columns of a
    factor can hide (Belsley, Kuh & Welsch 1980, section 3.2). Columns are centred if there is an intercept.

    >>> x = np.arange(6.0)
    >>> model = Model.from_arrays(np.c_[x, x + [0, 0.1, 0, 0, 0.1, 0]], x, columns=["a", "b"])
    >>> CollinearityCheck().run(model)[0].sentence
    'near collinearity, variance inflation factors: a (1.31e+03), b (1.31e+03)'
    """

    name = "collinearity"
    title = "Collinearity"

    def find(self, model: Model) -> list[Finding]:
        high_vif = 10.0  # intervals are more than three times as wide as without the other terms
        high_index = 30.0  # two such columns have a VIF of 225
        extreme_index = 1000.0  # two such columns have a VIF of 250,000
        refuse_coded_levels(model)
        model = without_effects_by_group(model)
        design = model.design
        if len([t for t in columns_by_term(design) if t != "Intercept"]) < 2:
            raise NotApplicable("only one predictor")
        if surplus(model) is not None or design.moments.rank.dropped:
            raise NotApplicable("exact collinearity, see rank")
        gvif, df, names = _inflations(model)
        inflation = dict(zip(names, gvif ** (1.0 / df)))
        order = sorted(names, key=lambda term: -inflation[term])
        flagged = [term for term in order if inflation[term] >= high_vif]
        index, combined_terms = _near_combination(model)
        if flagged:
            listed = few_names([f"{term} ({inflation[term]:.3g})" for term in flagged])
            sentence = f"near collinearity, variance inflation factors: {listed}"
        elif index >= high_index:
            flagged = combined_terms
            sentence = f"near collinearity, condition index {index:.3g} of columns of {few_names(flagged)}"
        else:
            largest = inflation[order[0]]
            sentence = f"largest variance inflation factor {largest:.3g} ({order[0]})"
            return self.report(sentence)
        positions = [j for term in flagged for j in columns_by_term(design)[term]]
        verdict = Verdict.NOTE
        if index >= extreme_index and not model.joint.informative[positions].all():
            verdict = Verdict.WARNING
        return self.report(
            sentence,
            verdict,
            "expected of powers and products; otherwise drop or combine terms, give them a prior, or accept the wide intervals",
            [design.columns[j] for j in positions],
        )


def condition_indices(model: Model, *, centred: bool = False) -> Any:
    """Return scaled condition indices and variance proportions of the columns.

    The indices are eta_k = d_1 / d_k and the proportions (v_jk / d_k)^2 / sum_l (v_jl / d_l)^2 from the singular value
    decomposition X = U diag(d) V' of the columns at unit length. The Dataset has index (component) and proportion
    (component, coef), the indices ascending. Source: Belsley, Kuh & Welsch (1980, chapter 3), who do not
    centre; `centred` subtracts the means, and leaves the intercept out. DataError for exactly collinear columns.

    >>> found = condition_indices(Model.from_arrays([9.0, 10.0, 11.0], [1.0, 2.0, 2.5]))
    >>> found["index"].round(1).values.tolist()
    [1.0, 24.5]
    """
    import xarray as xr

    _require_full_rank(model)
    index, share, names = _indices(model, centred=centred)
    return xr.Dataset(
        {"index": ("component", index), "proportion": (("component", "coef"), share)},
        {"coef": names},
    )


def vif(model: Model) -> Any:
    """Generalised variance inflation factors of the terms: Dataset over term with gvif, df and per_df = gvif^(1/(2 df)).

    gvif = det R_1 det R_2 / det R of the correlations R of the columns, R_1 the correlations within the term and R_2 within the others; for a
    single column 1 / (1 - R^2), the classical VIF; its root is the factor that widens the interval (Fox & Monette
    1992). Without an intercept R has cosines in place of correlations. DataError for exactly collinear columns.

    >>> vif(Model.from_arrays([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 2.0, 4.0]))["gvif"].round(3).values.tolist()
    [1.333, 1.333]
    """
    import xarray as xr

    _require_full_rank(model)
    gvif, df, names = _inflations(model)
    columns = {"gvif": gvif, "df": df, "per_df": gvif ** (0.5 / df)}
    return xr.Dataset({k: ("term", v) for k, v in columns.items()}, {"term": names})


def _require_full_rank(model: Model) -> None:
    design = model.design
    dropped = design.moments.rank.dropped
    if dropped:
        names = ", ".join(design.columns[j] for j in dropped)
        raise DataError(
            f"exact collinearity: {names} is a combination of other columns; see check(model)['rank']"
        )


def _scaled_root(model: Model, columns: list[int]) -> Array:
    """Return a triangular factor of these columns at unit length, centred if the intercept is not among them."""
    intercept = model.design.intercept
    front = [] if intercept is None or intercept in columns else [intercept]
    F = np.asarray(triangular(model.design.moments.R[:, [*front, *columns]]), float)
    S = F[len(front) :, len(front) :]
    return S / np.linalg.norm(S, axis=0)


def _indices(model: Model, *, centred: bool) -> tuple[Array, Array, list[str]]:
    """Return indices (k,), proportions (k, k) and the names of the columns."""
    columns = _compared_columns(model, centred=centred)
    _, d, Vt = np.linalg.svd(_scaled_root(model, columns))
    parts = (Vt / d[:, None]) ** 2
    names = [model.design.columns[j] for j in columns]
    return d[0] / d, parts / parts.sum(0), names


def _near_combination(model: Model) -> tuple[float, list[str]]:
    """Return the largest condition index of the centred columns that has over half of the variance of columns of two or more terms,
    and these terms; 1 if there is none."""
    if len(_compared_columns(model, centred=True)) > 1:
        index, share, names = _indices(model, centred=True)
        for k in reversed(range(len(index))):
            columns = [name for name, part in zip(names, share[k]) if part > 0.5]
            combined_terms = list(terms_of(model.design, columns))
            if len(combined_terms) > 1:
                return index[k], combined_terms
    return 1.0, []


def _compared_columns(model: Model, *, centred: bool) -> list[int]:
    """Return the columns to compare: all (without the intercept if `centred`) except columns of smooth functions."""
    design = model.design
    return [
        j
        for j, smooth in enumerate(design.of_terms)
        if not smooth and not (centred and j == design.intercept)
    ]


def _inflations(model: Model) -> tuple[Array, Array, list[str]]:
    """Return gvif, df and the names of the terms."""
    columns = [j for j in range(model.shape[0]) if j != model.design.intercept]
    R = _scaled_root(model, columns)
    groups = {
        t: [columns.index(j) for j in positions]
        for t, positions in columns_by_term(model.design).items()
        if t != "Intercept"
    }
    values = []
    for positions in groups.values():
        other_columns = [j for j in range(len(columns)) if j not in positions]
        # half of log det R_1 + log det R_2 - log det R
        half = _log_det(R[:, positions]) + _log_det(R[:, other_columns]) - _log_det(R)
        values.append(np.exp(2.0 * half))
    df = np.array([len(positions) for positions in groups.values()])
    return np.array(values), df, list(groups)


def _log_det(R: Array) -> float:
    """Return log |det| of the triangular factor of some columns, half the log determinant of their products."""
    return np.linalg.slogdet(np.linalg.qr(R, mode="r"))[1]
