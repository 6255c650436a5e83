"""What a check asks and what it answers: a question about a model, and findings in plain words, before any
fit.

A check always answers. When nothing is wrong, or when it does not apply, its answer is one finding with the
verdict OK that says so.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from html import escape
from math import nan
from typing import ClassVar

from probreg.model.model import Model
from probreg.registry import Registry
from probreg.system.terminal import printed

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
    sentence where a test decided (nan where none did), `picture` the name of the plot that shows it.
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

    @property
    def advice(self) -> str:
        """The remedy, and the picture that shows what was found."""
        shown = f"see {self.picture}" if self.picture and self.verdict else ""
        return "; ".join(part for part in (self.remedy, shown) if part)


class Check(ABC):
    """A question that a model answers before it is fitted. `cheap` ones may run before every fit."""

    name: ClassVar[str]
    question: ClassVar[str]
    cheap: ClassVar[bool]

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
        return Finding(self.name, verdict, sentence, remedy, tuple(columns), tuple(rows))

    def fine(self, sentence: str) -> list[Finding]:
        """The answer of a check that has nothing to report."""
        return [self.say(Verdict.OK, sentence)]


@dataclass(frozen=True, repr=False)
class Findings:
    """The findings of several checks, worst first.

    >>> here = Finding("b", Verdict.NOTE, "look here", "or there")
    >>> Findings.of([Finding("a", Verdict.OK, "all is well"), here])
    i b: look here
        → or there
    ✓ a: all is well
    """

    items: tuple[Finding, ...]
    names: Mapping[str, object] = field(default_factory=lambda: CHECKS)  # of all that could have answered

    @classmethod
    def of(cls, items: Sequence[Finding], names: Mapping[str, object] = CHECKS) -> "Findings":
        return cls(tuple(sorted(items, key=lambda f: -f.verdict)), names)

    @property
    def worst(self) -> Verdict:
        """The worst verdict, OK when there is no finding."""
        return max((f.verdict for f in self.items), default=Verdict.OK)

    def at_least(self, verdict: Verdict) -> "Findings":
        """The findings that matter this much or more."""
        return Findings(tuple(f for f in self.items if f.verdict >= verdict), self.names)

    def __getitem__(self, check: str) -> "Findings":
        """The findings of one check, by its name. ProbregError for a name that is no check."""
        self.names[check]  # which knows, and says so when there is no such check
        return Findings(tuple(f for f in self.items if f.check == check), self.names)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        lines: list[str] = []
        for f in self.items:
            lines += [f"{f.verdict.mark} {f.check}: {f.sentence}", *([f"    → {f.advice}"] if f.advice else [])]
        return printed(*lines) or "no findings"

    def _repr_html_(self) -> str:
        cells = ((f"{f.verdict.mark} {f.verdict.name}", f.check, f.sentence, f.advice) for f in self.items)
        rows = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{escape(c)}</td>" for c in row) + "</tr>" for row in cells
        )
        head = "".join(f"<th style='text-align:left'>{h}</th>" for h in ("verdict", "check", "finding", "what to do"))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
