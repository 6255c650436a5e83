"""What is known about a data set apart from its rows: the content of one TOML card."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_LINE = 100


@dataclass(frozen=True)
class Column:
    """The meaning of one column: what was measured, in what unit, and how its values are stored.

    `levels` orders the classes of a categorical column; `original` is the column's name at the provider.

    >>> print(Column(about="Body mass", unit="g", dtype="float64"))
    Body mass [g]
    """

    about: str
    unit: str
    dtype: str
    levels: tuple[str, ...] = ()
    original: str = ""

    def __str__(self) -> str:
        return f"{self.about} [{self.unit}]"


@dataclass(frozen=True)
class DatasetCard:
    """The provenance of one data set: what each column means, source, licence, question, changes.

    `provider` is empty when the rows lie beside the card, else the module that carries them.
    Equality is by content; `str(card)` is the card as a reader wants it.
    """

    name: str
    title: str
    rows: int
    response: str
    question: str
    source: str
    licence: str
    licence_note: str
    changes: str
    columns: Mapping[str, Column] = field(hash=False)
    provider: str = ""

    def __str__(self) -> str:
        facts = {
            "ask": self.question,
            "response": self.response,
            "source": self.source,
            "licence": f"{self.licence} ({self.licence_note})",
            "changes": self.changes,
        }
        head = f"{self.name}: {self.title} ({self.rows} rows)"
        return "\n".join([head, *_entries(facts), "columns", *_entries(self.columns)])


def read_card(name: str, content: Mapping[str, Any]) -> DatasetCard:
    """The card that a parsed TOML file states; its columns keep the order of the file."""
    columns = {key: _column(entry) for key, entry in content["columns"].items()}
    return DatasetCard(**{**content, "name": name, "columns": columns})


def _column(entry: Mapping[str, Any]) -> Column:
    return Column(**{**entry, "levels": tuple(entry.get("levels", ()))})


def _entries(facts: Mapping[str, object]) -> list[str]:
    """One wrapped paragraph per entry, all values starting in the same column."""
    width = max(len(key) for key in facts) + 4
    return [
        textwrap.fill(
            str(value),
            _LINE,
            initial_indent=f"  {key}".ljust(width),
            subsequent_indent=" " * width,
            break_long_words=False,
        )
        for key, value in facts.items()
    ]
