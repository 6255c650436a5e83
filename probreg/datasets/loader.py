"""From a name to rows or to a card; the folder itself is the list of what there is."""

import difflib
import importlib
import importlib.resources
import tomllib
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from probreg.arguments.scalars import Word, checked
from probreg.datasets.card import Column, DatasetCard, read_card
from probreg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


class Catalogue(tuple[DatasetCard, ...]):
    """The cards of all data sets in alphabetical order; it prints as one line for each."""

    __slots__ = ()

    def __repr__(self) -> str:
        width = max((len(card.name) for card in self), default=0)
        return "\n".join(f"{card.name:<{width}}  {card.rows:>5} rows  {card.question}" for card in self)


def list_datasets() -> Catalogue:
    """The cards of all data sets, in alphabetical order.

    Returns
    -------
    Catalogue
        A sequence of cards, which prints as a table.

    Examples
    --------
    >>> [card.name for card in list_datasets()]
    ['anes96', 'challenger', 'fair', 'longley', 'penguins', 'spector', 'stackloss']
    """
    return Catalogue(describe_dataset(name) for name in _names())


@checked
def describe_dataset(name: Word) -> DatasetCard:
    """The provenance of one data set: its source, licence, columns with units, and a question to ask of it.

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
    _known(name)
    text = _file(f"{name}.toml").read_text(encoding="utf-8")
    return read_card(name, tomllib.loads(text))


@checked
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
    return _borrow(card) if card.provider else _read(card)


def _read(card: DatasetCard) -> "pd.DataFrame":
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
    if absent := names.keys() - set(given.columns):
        raise DataError(
            f"{card.provider} no longer has the columns {sorted(absent)} that {card.name!r} reads; "
            f"it has {list(given.columns)}. Install another version of {package}"
        )
    dtypes = {name: _dtype(column) for name, column in card.columns.items()}
    return given[list(names)].rename(columns=names).astype(dtypes)


def _dtype(column: Column) -> "str | pd.CategoricalDtype":
    import pandas as pd

    return pd.CategoricalDtype(column.levels, ordered=True) if column.levels else column.dtype


def _known(name: str) -> None:
    names = _names()
    if name not in names:
        near = difflib.get_close_matches(str(name).lower(), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise DataError(f"no data set is called {name!r}{hint} There are: {', '.join(names)}")


def _names() -> list[str]:
    files = importlib.resources.files("probreg.datasets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def _file(name: str) -> Traversable:
    return importlib.resources.files("probreg.datasets").joinpath(name)
