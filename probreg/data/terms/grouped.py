"""Effects that vary by a group, as a term of a formula: `(Days | Subject)` has one intercept and one slope of Days for each subject.

Its columns are z_i at the group of row i: G groups times K effects, group by group. A row needs only its group and z_i,
which a design keeps as `inputs` (n, 1 + K): the number of the group, then z_i. New groups are numbered from G on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from probreg.data.terms.smooths import BasisTerm

Array = np.ndarray


@dataclass(frozen=True)
class GroupedTerm:
    """The columns of one term by name.

    Attributes
    ----------
    key : str
        The term: "(Days | Subject)".
    group : str
        The grouping factor: "Subject", or "school:class".
    effects : tuple of str
        K names (Intercept, Days).
    levels : tuple of str
        G groups.
    correlated : bool
        Whether the effects of a group have correlations; False for `(x || g)`.
    factors : tuple of str
        The columns that define the groups by their combinations.
    """

    key: str
    group: str
    effects: tuple[str, ...]
    levels: tuple[str, ...]
    correlated: bool
    factors: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """(G, K)."""
        return len(self.levels), len(self.effects)

    @cached_property
    def coefficients(self) -> tuple[str, ...]:
        """The names (K,) of the coefficients that vary: the effects, with the parameter of the formula in front, as in `log sigma: Days`."""
        parameter = self.key.partition("(")[0]
        return tuple(parameter + effect for effect in self.effects)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Their names, group by group."""
        return tuple(
            f"{self.key}[{level}, {effect}]"
            for level in self.levels
            for effect in self.effects
        )

    @property
    def size_words(self) -> str:
        """Describe the numbers of groups and effects."""
        G, K = self.shape
        return f"{G} group{'s' * (G > 1)} of {K} effect{'s' * (K > 1)}"

    @cached_property
    def column_names(self) -> BasisTerm:
        """Return the term as a `BasisTerm` with one block."""
        short = self.key.replace("(", "", 1).removesuffix(")")
        return BasisTerm(self.key, short, (), (self.columns,), (self.key,))

    def inputs_of(self, labels: Array, Z: Array) -> Array:
        """Return inputs (n, 1 + K) from the group of each row as text and z (n, K); new groups are numbered by appearance."""
        import pandas as pd

        # in order of appearance, the known groups first
        known = np.array(self.levels, dtype=object)
        numbers, _ = pd.factorize(np.append(known, labels))
        return np.column_stack([numbers[len(self.levels) :], Z])

    def labels_of(self, inputs: Array) -> Array:
        """Return the group (n,) of each row as text; "new" with a number for new groups."""
        codes = inputs[:, 0].astype(np.intp)
        G = len(self.levels)
        new = [f"new {k + 1}" for k in range(max(int(codes.max(initial=0)) + 1 - G, 0))]
        return np.array([*self.levels, *new], dtype=object)[codes]

    def to_state(self) -> dict[str, Any]:
        """Return the term as plain data."""
        return {
            "kind": "grouped",
            "group": self.group,
            "effects": list(self.effects),
            "levels": list(self.levels),
            "correlated": self.correlated,
            "factors": list(self.factors),
        }


def joined_levels(parts: Sequence[str]) -> str:
    r"""Return the level of a combination of several columns; a colon within a level is written `\:`.

    >>> print(joined_levels(["a", "b"]), joined_levels(["a:b", "c"]), joined_levels(["a:b"]))
    a:b a\:b:c a:b
    """
    if len(parts) == 1:
        return parts[0]
    return ":".join(part.replace("\\", "\\\\").replace(":", "\\:") for part in parts)


def joined_terms(
    first: Sequence[GroupedTerm], second: Sequence[GroupedTerm]
) -> tuple[GroupedTerm, ...]:
    """Return the terms with the groups of `first` and `second`: sorted if both are sorted as numbers or texts, else new groups come last.

    >>> a, b = (GroupedTerm("(1 | g)", "g", ("Intercept",), levels, True, ("g",)) for levels in (("2", "10"), ("3", "10")))
    >>> joined_terms([a], [b])[0].levels
    ('2', '3', '10')
    """
    return tuple(
        replace(a, levels=_joined_levels(a.levels, b.levels))
        for a, b in zip(first, second)
    )


def _joined_levels(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    levels = tuple(dict.fromkeys([*first, *second]))
    if len(levels) == len(first):
        return first
    for order in (float, str):
        try:
            if all(list(part) == sorted(part, key=order) for part in (first, second)):
                return tuple(sorted(levels, key=order))
        except ValueError:  # levels that are not numbers
            continue
    return levels


def grouped_of(state: Mapping[str, Any], key: str) -> GroupedTerm:
    """Return the term that `to_state` wrote."""
    effects, levels, factors = (
        tuple(state[name]) for name in ("effects", "levels", "factors")
    )
    return GroupedTerm(
        key, state["group"], effects, levels, state["correlated"], factors
    )
