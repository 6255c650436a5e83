"""What a check asks and what it answers: a question about a model, and findings in plain words, before any
fit.

A check always answers. When nothing is wrong, or when it does not apply, its answer is one finding with the
verdict OK that says so. What is printed is what needs attention, and how many other checks passed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import accumulate, pairwise
from math import nan
from typing import ClassVar

from probreg.inference.modes.wide import SOON
from probreg.model.model import Model
from probreg.registry import Registry
from probreg.system.terminal import clean_lines, visible, wrap_line
from probreg.tables import Column, Table
from probreg.tables.notebook import notebook_html

CHECKS: Registry["Check"] = Registry("check")


class Verdict(IntEnum):
    """How much a finding matters; the values are ordered.

    >>> max(Verdict.OK, Verdict.WARNING).name
    'WARNING'
    """

    OK = 0
    NOTE = 1  # worth knowing when reading the result
    WARNING = 2  # the result stands, and can mislead
    PROBLEM = 3  # some number that a fit would print does not exist

    @property
    def mark(self) -> str:
        return "✓i!✗"[self]


@dataclass(frozen=True)
class Finding:
    """One answer of one check: a sentence, what to do about it, and what it is about.

    `columns` are names of the design, `rows` labels of its rows, `statistic` and `p_value` the numbers behind the
    sentence where a test decided (nan where none did), `picture` the name of the plot that shows it. A check that does not
    apply has not passed; `told_by` names the check whose finding says the same of the same columns.
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
    told_by: str = ""

    @property
    def advice(self) -> str:
        """The remedy, and the picture that shows what was found."""
        if self.picture and self.verdict:
            shown = f"see {self.picture}"
        else:
            shown = ""
        return "; ".join(part for part in (self.remedy, shown) if part)


class Check(ABC):
    """A question that a model answers before it is fitted. `cheap` ones may run before every fit."""

    name: ClassVar[str]
    question: ClassVar[str]
    cheap: ClassVar[bool]
    # the check that speaks first, of several that may say the same of the same columns
    topic: ClassVar[str] = ""

    @abstractmethod
    def run(self, model: Model) -> list[Finding]:
        """At least one finding; see the module's docstring."""

    def say(
        self,
        verdict: Verdict,
        sentence: str,
        remedy: str = "",
        columns: Sequence[str] = (),
        *,
        rows: Sequence[object] = (),
    ) -> Finding:
        """A finding of this check."""
        return Finding(
            self.name, verdict, sentence, remedy, tuple(columns), tuple(rows)
        )

    def fine(self, sentence: str) -> list[Finding]:
        """The answer of a check that has nothing to report."""
        return [self.say(Verdict.OK, sentence)]

    def unasked_of_levels(self, model: Model) -> list[Finding] | None:
        """The answer of a check that takes products of all columns, where these are thousands of levels that stay codes; None
        elsewhere."""
        if not model.design.coded or len(model.design.columns) <= SOON:
            return None
        return self.report_not_applicable(
            f"{len(model.design.columns):,} columns are levels that stay codes, and it takes up to {SOON:,}"
        )

    def report_not_applicable(self, reason: str) -> list[Finding]:
        """Return the findings of a check that does not apply to this model."""
        return [
            Finding(self.name, Verdict.OK, f"does not apply: {reason}", applies=False)
        ]


@dataclass(frozen=True, repr=False)
class Findings:
    """The findings of several checks, worst first. Those that need attention are printed, the others counted.

    >>> here = Finding("b", Verdict.NOTE, "look here", "or there")
    >>> found = Findings.of([Finding("a", Verdict.OK, "all is well"), here])
    >>> found
    i b: look here
        → or there
    ✓ 1 other check passed; .show(verbose=True) lists all
    >>> found.show(verbose=True)
    i b: look here
        → or there
    ✓ a: all is well
    """

    items: tuple[Finding, ...]
    names: Mapping[str, object] = field(
        default_factory=lambda: CHECKS
    )  # of all that could have answered
    verbose: bool = False  # whether all are printed
    earlier: frozenset[str] = (
        frozenset()
    )  # checks whose findings `pr.check` prints, and that are named here

    @classmethod
    def of(
        cls,
        items: Sequence[Finding],
        names: Mapping[str, object] = CHECKS,
        *,
        verbose: bool = False,
    ) -> "Findings":
        return cls(tuple(sorted(items, key=lambda f: -f.verdict)), names, verbose)

    def show(self, *, verbose: bool = True) -> "Findings":
        """The same findings, all of them printed or only those that need attention."""
        return replace(self, verbose=verbose)

    @property
    def passed(self) -> tuple[str, ...]:
        """The names of the checks that were asked and found nothing; one that does not apply has not passed."""
        asked = {f.check: None for f in self.items if f.applies}
        return tuple(
            name
            for name in asked
            if name not in {f.check for f in self.items if f.verdict}
        )

    @property
    def worst(self) -> Verdict:
        """The worst verdict, OK when there is no finding."""
        return max((f.verdict for f in self.items), default=Verdict.OK)

    def at_least(self, verdict: Verdict) -> "Findings":
        """The findings that matter this much or more."""
        return replace(self, items=tuple(f for f in self.items if f.verdict >= verdict))

    def __getitem__(self, check: str) -> "Findings":
        """The findings of one check, by its name, printed in full. ProbregError for a name that is no check."""
        self.names[check]  # which knows, and says so when there is no such check
        return replace(
            self, items=tuple(f for f in self.items if f.check == check), verbose=True
        )

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        if self.verbose:
            return (
                clean_lines(
                    *(line for f in self.items for line in _format_finding(f, ""))
                )
                or "no findings"
            )
        shown, rest = self._attention(_LINES)
        lines = [_format_finding(f, self._checks_with_same_answer(f)) for f in shown]
        for i, (one, after) in enumerate(
            pairwise(lines)
        ):  # the same advice of one check is said once
            if shown[i].check == shown[i + 1].check and one[1:] == after[1:]:
                lines[i] = one[:1]
        return (
            clean_lines(*(line for each in lines for line in each), *rest)
            or "no findings"
        )

    def _repr_html_(self) -> str:
        if self.verbose:
            return notebook_html([], [_as_table([(f, f.advice) for f in self.items])])
        shown, rest = self._attention()
        if shown:
            table = [
                _as_table(
                    [
                        (f, _join_parts(f.advice, self._checks_with_same_answer(f)))
                        for f in shown
                    ]
                )
            ]
        else:
            table = []
        *told, last = rest or [""]
        others = [(f, f.advice) for f in self.items if f not in shown]
        folded = {last: _as_table(others)} if others else None
        return notebook_html(
            [],
            table,
            foot=told if others else [*told, last],
            folded=folded,
        )

    def _attention(self, room: int | None = None) -> tuple[list[Finding], list[str]]:
        """The findings that are printed one by one, in so many lines, and the lines that count the others."""
        found = [f for f in self.items if f.verdict and not f.told_by]
        before = [
            f for f in found if f.check in self.earlier and f.verdict < Verdict.PROBLEM
        ]
        own = [f for f in found if f not in before]
        most = _MOST
        if room is not None:
            ends = accumulate(
                sum(
                    len(wrap_line(visible(line)))
                    for line in _format_finding(f, self._checks_with_same_answer(f))
                )
                for f in own
            )
            most = min(most, max(sum(end <= room for end in ends), 1))
        if len(own) > most:
            rest = [f"… {len(own) - most} more findings"]
        else:
            rest = []
        if before:
            names = ", ".join(dict.fromkeys(f.check for f in before))
            rest.append(
                f"{max(f.verdict for f in before).mark} before the fit: {names}; see pr.check(fit.model)"
            )
        n = len(self.passed)
        other = "other " if found else ""
        if n:
            rest.append(
                f"✓ {n} {other}check{'s' * (n > 1)} passed; .show(verbose=True) lists all"
            )
        elif rest:
            rest.append(".show(verbose=True) lists all")
        elif self.items and not found:
            rest.append("no check applies; .show(verbose=True) says why")
        return own[:most], rest

    def _checks_with_same_answer(self, of: Finding) -> str:
        """Return the names of the checks with the same answer as this finding."""
        names = list(
            dict.fromkeys(f.check for f in self.items if f.told_by == of.check)
        )
        if names:
            return (
                f"{' and '.join(names)} {'say' if len(names) > 1 else 'says'} the same"
            )
        return ""


_MOST = 15  # findings that are printed one by one: with what to do 30 lines
_LINES = 34  # of them at most, where names are long


def told_once(found: Sequence[Finding], topics: Mapping[str, str]) -> list[Finding]:
    """The findings, those marked that say what another of their topic says of the same columns and more, no less gravely."""
    out = list(found)
    tellers = list[Finding]()
    about = [
        i
        for i, f in enumerate(found)
        if f.verdict and f.columns and topics.get(f.check)
    ]
    for i in sorted(about, key=lambda i: _precedence(found[i], topics)):
        f = found[i]
        for by in tellers:
            same = by.check != f.check and topics[by.check] == topics[f.check]
            if same and set(f.columns) <= set(by.columns) and f.verdict <= by.verdict:
                out[i] = replace(f, told_by=by.check)
                break
        else:
            tellers.append(f)
    return out


def _precedence(f: Finding, topics: Mapping[str, str]) -> tuple[int, int, bool]:
    return -len(set(f.columns)), -f.verdict, f.check != topics[f.check]


def _join_parts(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _format_finding(f: Finding, more: str) -> list[str]:
    advice = _join_parts(f.advice, more)
    return [
        f"{f.verdict.mark} {f.check}: {f.sentence}",
        *([f"    → {advice}"] if advice else []),
    ]


def _as_table(found: Sequence[tuple[Finding, str]]) -> Table:
    columns = (
        Column("verdict", [f"{f.verdict.mark} {f.verdict.name}" for f, _ in found]),
        Column("check", [f.check for f, _ in found]),
        Column("finding", [f.sentence for f, _ in found]),
        Column("what to do", [advice for _, advice in found]),
    )
    return Table(columns, labels=0)
