"""Findings: the results of checks of a model and of diagnostics of a fit, and how they are printed."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import nan
from typing import Any, ClassVar, NamedTuple

from scipy.special import chdtrc, ndtr

from probreg.errors import Incompatible
from probreg.system.terminal import clean_lines, format_number, format_p
from probreg.tables import Column, Table
from probreg.tables.render import notebook_html

# a test with a smaller p-value is a note, or a warning
SIGNIFICANT, STRONG = 0.01, 1e-4
# findings printed one by one; with remedies and long lines about 40 lines
_MOST_FINDINGS = 9


class Verdict(IntEnum):
    """The severity of a finding; the values are ordered.

    >>> max(Verdict.OK, Verdict.WARNING).name
    'WARNING'
    """

    OK = 0
    NOTE = 1  # information for the interpretation of the result
    WARNING = 2  # the result can mislead
    PROBLEM = 3  # some number of the fit does not exist

    @property
    def mark(self) -> str:
        return "✓i!✗"[self]


@dataclass(frozen=True)
class Finding:
    """One result of a check or diagnostic.

    `check` is its key and `title` its printed name, `columns` are names of the design, `rows` row labels, `statistic` and `p_value`
    the result of a test (nan without one), `picture` the name of the plot to look at, `applies` False if the check does not apply.
    """

    check: str
    verdict: Verdict
    sentence: str
    remedy: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[object, ...] = ()
    statistic: float = nan
    p_value: float = nan
    picture: str = ""
    applies: bool = True
    title: str = ""

    @property
    def mark(self) -> str:
        """The mark of the verdict, or – if the check does not apply."""
        return self.verdict.mark if self.applies else "–"

    @property
    def advice(self) -> str:
        """The remedy and the name of a picture."""
        parts = [self.remedy]
        if self.picture and self.verdict:
            parts.append(f"see {self.picture}")
        return "; ".join(part for part in parts if part)

    @property
    def lines(self) -> list[str]:
        """The finding in one line, and the remedy in a second one."""
        lines = [f"{self.mark} {self.title or self.check}: {self.sentence}"]
        if self.advice:
            lines.append(f"    → {self.advice}")
        return lines


class NotApplicable(Incompatible):
    """The reason why a check, a diagnostic or a theorem does not apply."""


class HypothesisTest(NamedTuple):
    """A test: the name of its statistic with degrees of freedom, such as "F(2, 38)", its value, its p-value and how the p-value was computed.

    >>> print(HypothesisTest("F(2, 38)", 5.4312, 0.00843))
    F(2, 38) = 5.43, p = 0.0084
    """

    name: str
    statistic: float
    p_value: float
    how: str = ""  # such as ", simulated"
    df: int = 0  # of a chi-square statistic

    def __str__(self) -> str:
        return f"{self.name} = {format_number(self.statistic, 3)}, {format_p(self.p_value)}{self.how}"


def normal_test(z: float, name: str = "z") -> HypothesisTest:
    """Return the two-sided test of a statistic that is standard normal.

    >>> print(normal_test(-1.96))
    z = -1.96, p = 0.05
    """
    return HypothesisTest(name, z, float(2.0 * ndtr(-abs(z))))


def chi2_test(statistic: float, df: int, name: str = "") -> HypothesisTest:
    """Return the test of a statistic that is chi-square on df degrees of freedom; nan for df = 0.

    >>> print(chi2_test(12.5, 1))
    chi2(1) = 12.5, p = 0.00041
    """
    p = float(chdtrc(df, statistic)) if df else nan
    return HypothesisTest(f"{name}chi2({df})", statistic, p, df=df)


class Finder[T](ABC):
    """Base class of checks of a model and diagnostics of a fit: a key, a printed name, a picture to look at, and findings."""

    name: ClassVar[str]
    title: ClassVar[str]
    picture: ClassVar[str] = ""

    def require(self, subject: T) -> None:  # noqa: B027  most checks need nothing
        """Raise NotApplicable for a subject without the requirements of every check of this class."""

    @abstractmethod
    def find(self, subject: T) -> list[Finding]:
        """Return at least one finding, with the verdict OK if nothing is wrong; NotApplicable with the reason if it does not apply."""

    def run(self, subject: T) -> list[Finding]:
        """Return the findings, or one with the reason why the check does not apply."""
        try:
            self.require(subject)
            return self.find(subject)
        except NotApplicable as reason:
            sentence = f"not applicable: {reason}"
            return self.report(sentence, picture="", applies=False)

    def report(
        self,
        sentence: str,
        verdict: Verdict = Verdict.OK,
        remedy: str = "",
        columns: Sequence[str] = (),
        rows: Sequence[object] = (),
        **details: Any,
    ) -> list[Finding]:
        """Return one finding, in a list; `details` are further fields of a Finding."""
        details = {"picture": self.picture, "title": self.title} | details
        return [
            Finding(
                self.name,
                verdict,
                sentence,
                remedy,
                tuple(columns),
                tuple(rows),
                **details,
            )
        ]

    def report_test(
        self,
        test: HypothesisTest,
        accepted: str,
        rejected: str,
        remedy: str,
        details: str = "",
    ) -> list[Finding]:
        """Return the finding of a test: "rejected" and a note for p below 0.01, a warning below 0.0001, otherwise "accepted"."""
        verdict = Verdict((test.p_value < SIGNIFICANT) + (test.p_value < STRONG))
        return self.report(
            f"{rejected if verdict else accepted}, {test}{details}",
            verdict,
            remedy if verdict else "",
            statistic=test.statistic,
            p_value=test.p_value,
        )


@dataclass(frozen=True, repr=False)
class Findings:
    """The findings of several checks, the most serious first. Findings with the verdict OK are only counted when printed.

    >>> found = Findings((Finding("b", Verdict.NOTE, "high leverage", "check row 3"), Finding("a", Verdict.OK, "no outliers")), {})
    >>> found
    i b: high leverage
        → check row 3
    ✓ 1 other check passed; .show(verbose=True) lists all
    >>> found.show(verbose=True)
    i b: high leverage
        → check row 3
    ✓ a: no outliers
    """

    items: tuple[Finding, ...]
    names: Mapping[str, object]  # every check that could have a finding
    verbose: bool = False  # print all findings

    def show(self, *, verbose: bool = True) -> "Findings":
        """Return the same findings, printed in full or only those with a verdict other than OK."""
        return replace(self, verbose=verbose)

    @property
    def passed(self) -> tuple[str, ...]:
        """The names of the checks that apply and have no finding other than OK."""
        flagged = {f.check for f in self.items if f.verdict}
        passed = [f.check for f in self.items if f.applies and f.check not in flagged]
        return tuple(dict.fromkeys(passed))

    @property
    def worst(self) -> Verdict:
        """The most serious verdict, OK without findings."""
        return max((f.verdict for f in self.items), default=Verdict.OK)

    def at_least(self, verdict: Verdict) -> "Findings":
        """Return the findings that are at least this serious."""
        return replace(self, items=tuple(f for f in self.items if f.verdict >= verdict))

    def __getitem__(self, check: str) -> "Findings":
        """Return the findings of one check by its name. ProbregError for an unknown name."""
        items = tuple(f for f in self.items if f.check == check)
        if not items:
            self.names[check]  # raises for an unknown name
        return replace(self, items=items, verbose=True)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        shown = self.items
        counts = []
        if not self.verbose:
            flagged = [f for f in self.items if f.verdict]
            shown = tuple(flagged[:_MOST_FINDINGS])
            counts = self._count_lines(len(flagged))
        lines = [line for f in shown for line in f.lines]
        return clean_lines(*lines, *counts) or "no findings"

    def _count_lines(self, flagged: int) -> list[str]:
        """Count the findings that are not printed."""
        lines = []
        if flagged > _MOST_FINDINGS:
            lines.append(f"… {flagged - _MOST_FINDINGS} more findings")
        passed = len(self.passed)
        if passed:
            checks = "other " * bool(flagged) + f"check{'s' * (passed > 1)}"
            lines.append(f"✓ {passed} {checks} passed; .show(verbose=True) lists all")
        elif self.items and not flagged:
            lines.append("no check applies; .show(verbose=True) lists the reasons")
        return lines

    def _repr_html_(self) -> str:
        if self.verbose:
            return notebook_html([], [_as_table(self.items)])
        flagged = [f for f in self.items if f.verdict]
        *counts, last = self._count_lines(len(flagged)) or [""]
        other_findings = _as_table([f for f in self.items if not f.verdict])
        tables = [_as_table(flagged)] if flagged else []
        folded = {last: other_findings} if last else None
        return notebook_html([], tables, foot=counts, folded=folded)


def _as_table(findings: Sequence[Finding]) -> Table:
    columns = (
        Column("verdict", [f"{f.mark} {f.verdict.name}" for f in findings]),
        Column("check", [f.title or f.check for f in findings]),
        Column("finding", [f.sentence for f in findings]),
        Column("remedy", [f.advice for f in findings]),
    )
    return Table(columns, labels=0)
