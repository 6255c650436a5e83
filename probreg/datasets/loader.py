"""Load a data set or its card by name; the folder itself is the list of data sets.

One TOML card has everything about a data set except its rows.
"""

import importlib
import importlib.resources
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from probreg.arguments.scalars import Word, check_arguments
from probreg.errors import DataError, suggestion
from probreg.system.terminal import clean_lines
from probreg.tables.render import notebook_html

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class DatasetColumn:
    """The meaning of one column: the measured quantity, its unit, and the storage of its values.

    `levels` orders the classes of a categorical column; `original` is the column's name at the provider.

    >>> print(DatasetColumn(about="Body mass", unit="g", dtype="float64"))
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
    """The provenance of one data set: the meaning of each column, source, licence, question, changes.

    `provider` is empty if the rows are in the same folder, else the module that contains them.
    Equality is by content; `str(card)` formats the card for reading.
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
    columns: Mapping[str, DatasetColumn] = field(hash=False)
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
        return "\n".join(
            [head, *_format_entries(facts), "columns", *_format_entries(self.columns)]
        )


def read_card(name: str, content: Mapping[str, Any]) -> DatasetCard:
    """The card that a parsed TOML file states; its columns keep the order of the file."""
    columns = {key: _parse_column(entry) for key, entry in content["columns"].items()}
    return DatasetCard(**{**content, "name": name, "columns": columns})


def _parse_column(entry: Mapping[str, Any]) -> DatasetColumn:
    return DatasetColumn(**{**entry, "levels": tuple(entry.get("levels", ()))})


def _format_entries(facts: Mapping[str, object]) -> list[str]:
    """Format one wrapped paragraph per entry, with all values in the same column."""
    width = max(len(key) for key in facts) + 4
    return [
        textwrap.fill(
            str(value),
            width=100,
            initial_indent=f"  {key}".ljust(width),
            subsequent_indent=" " * width,
            break_long_words=False,
        )
        for key, value in facts.items()
    ]


class Catalogue(tuple[DatasetCard, ...]):
    """The cards of all data sets in alphabetical order; it prints as one line for each."""

    __slots__ = ()

    def __repr__(self) -> str:
        width = max((len(card.name) for card in self), default=0)
        return clean_lines(
            *(
                f"{card.name:<{width}}  {card.rows:>5} rows  {card.question}"
                for card in self
            )
        )

    def _repr_html_(self) -> str:
        return notebook_html(
            ["data sets"],
            notes=[f"{card.name}, {card.rows} rows: {card.question}" for card in self],
        )


def list_datasets() -> Catalogue:
    """The cards of all data sets, in alphabetical order.

    Returns
    -------
    Catalogue
        A sequence of cards, which prints as a table.

    Examples
    --------
    >>> [card.name for card in list_datasets()]
    ['anes96', 'challenger', 'fair', 'longley', 'motorcycle', 'penguins', 'sleepstudy', 'smokers', 'spector', 'stackloss']
    """
    return Catalogue(describe_dataset(name) for name in _dataset_names())


@check_arguments
def describe_dataset(name: Word) -> DatasetCard:
    """The provenance of one data set: its source, licence, columns with units, and a question that it can answer.

    Parameters
    ----------
    name : str
        One of `list_datasets`.

    Returns
    -------
    DatasetCard
        The card.

    Raises
    ------
    DataError
        When no data set has that name.

    Examples
    --------
    >>> card = describe_dataset("challenger")
    >>> card.response, card.columns["temperature"].unit
    ('damage', '°F')
    """
    _require_name(name)
    text = _file(f"{name}.toml").read_text(encoding="utf-8")
    return read_card(name, tomllib.loads(text))


@check_arguments
def load_dataset(name: Word) -> "pd.DataFrame":
    """The rows of one data set, a pandas column for each column of its card, missing values kept as missing.

    Parameters
    ----------
    name : str
        One of `list_datasets`.

    Returns
    -------
    DataFrame
        The rows.

    Raises
    ------
    DataError
        When no data set has that name, or when its rows lie in a package that is not installed.

    Examples
    --------
    >>> load_dataset("challenger")[["temperature", "damage"]].head(2)
       temperature  damage
    0         66.0       0
    1         70.0       1
    """
    card = describe_dataset(name)
    return _borrow(card) if card.provider else _read_csv(card)


def _read_csv(card: DatasetCard) -> "pd.DataFrame":
    import pandas as pd

    dtypes = {name: _dtype(column) for name, column in card.columns.items()}
    with _file(f"{card.name}.csv").open("r", encoding="utf-8") as lines:
        return pd.read_csv(lines, dtype=dtypes, na_values=["NA"], keep_default_na=False)


def _borrow(card: DatasetCard) -> "pd.DataFrame":
    """The rows as the provider's own installation has them, under the names and dtypes of the card."""
    package = card.provider.partition(".")[0]
    try:
        module = importlib.import_module(card.provider)
    except ImportError as error:
        raise DataError(
            f"the rows of {card.name!r} are not shipped with probreg ({card.licence}); they are read from "
            f"{card.provider}, which cannot be imported here. Install {package}, then load it again"
        ) from error
    given = module.load_pandas().data
    names = {column.original: name for name, column in card.columns.items()}
    absent = names.keys() - set(given.columns)
    if absent:
        raise DataError(
            f"{card.provider} no longer has the columns {sorted(absent)} that {card.name!r} reads; "
            f"it has {list(given.columns)}. Install another version of {package}"
        )
    dtypes = {name: _dtype(column) for name, column in card.columns.items()}
    return given[list(names)].rename(columns=names).astype(dtypes)


def _dtype(column: DatasetColumn) -> "str | pd.CategoricalDtype":
    import pandas as pd

    if column.levels:
        return pd.CategoricalDtype(column.levels, ordered=True)
    return column.dtype


def _require_name(name: str) -> None:
    names = _dataset_names()
    if name not in names:
        hint = suggestion(str(name).lower(), names)
        raise DataError(
            f"no data set is called {name!r}{hint} There are: {', '.join(names)}"
        )


def _dataset_names() -> list[str]:
    files = importlib.resources.files("probreg.datasets").iterdir()
    return sorted(
        file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")
    )


def _file(name: str) -> Traversable:
    return importlib.resources.files("probreg.datasets").joinpath(name)
