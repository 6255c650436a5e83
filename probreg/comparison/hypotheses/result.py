"""The result of a hypothesis test: the null in words, the combinations with their intervals, tests or probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from probreg.fits.fit import Fit
from probreg.formula.hypothesis import Restriction
from probreg.system.terminal import clean_lines, format_probability
from probreg.tables import Table
from probreg.tables.render import notebook_html


@dataclass(frozen=True)
class Test:
    """A statistic, its null distribution, and p, the probability of a statistic at least as extreme."""

    __test__ = False  # its name is not for pytest

    name: str
    statistic: float
    law: str  # "chi2", "F", "t", "normal" or "simulated"
    df: tuple[float, ...]
    p: float


@dataclass(frozen=True)
class Belief:
    """A posterior probability, or a level of a credible region, and its Monte Carlo standard error (0 where exact)."""

    name: str
    value: float
    mcse: float
    how: str


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """The result of `hypothesis`: the null, the estimates of the restrictions, and tests or probabilities.

    `null` is the null in words; `estimates` a DataFrame with one row per restriction: value (of the right side), estimate of the
    left one, std_error or sd, lower, upper (of smooth functions edf and columns); `tests` by name for a point estimate ("Wald", "F", "t" or "z", "LR", "score");
    `beliefs` for a posterior: the probability of an inequality or the credible level that reaches an equality;
    `log_bayes_factor` of an equality if it is exact.
    """

    text: str
    null: str
    estimates: Any
    tests: Mapping[str, Test]
    beliefs: tuple[Belief, ...] = ()
    log_bayes_factor: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Any:
        """The tests, or the posterior probabilities, one row each: DataFrame, unrounded."""
        import pandas as pd

        if not self.tests:
            names = ["what", "value", "mcse", "how"]
            return pd.DataFrame(list(map(astuple, self.beliefs)), columns=names)
        tests = self.tests.values()
        names = ["test", "statistic", "law", "df", "p"]
        table = pd.DataFrame(list(map(astuple, tests)), columns=names)
        return table.assign(df=[", ".join([f"{d:g}" for d in t.df]) for t in tests])

    def __getitem__(self, name: str) -> Test:
        """Return the test of that name; raise KeyError with the available names."""
        if name not in self.tests:
            raise KeyError(
                f"no test is called {name!r} here; there are: {', '.join(self.tests) or 'none'}"
            )
        return self.tests[name]

    def __repr__(self) -> str:
        head, *lines_below = self._head_lines
        estimates, table = self._tables
        notes = (f"note: {note}" for note in self.notes)
        return clean_lines(
            head, *estimates.lines(25), *table.lines(25), *lines_below, *notes
        )

    def _repr_html_(self) -> str:
        head, *lines_below = self._head_lines
        return notebook_html([head], self._tables, [*lines_below, *self.notes])

    @property
    def _tables(self) -> tuple[Table, Table]:
        """The combinations, and the tests or probabilities; a probability is never 0 or 1."""
        formats = {} if self.tests else {"value": format_probability}
        return (
            Table.from_pandas(self.estimates, index=False, source=".estimates"),
            Table.from_pandas(self.table, index=False, formats=formats),
        )

    @property
    def _head_lines(self) -> list[str]:
        """Return the null or the claim, and the Bayes factor if it is exact."""
        bayes = self.log_bayes_factor
        word = "null" if self.tests or bayes is not None or self.notes else "claim"
        lines = [f"{word}: {self.null}"]
        if bayes is not None:
            lines.append(
                f"log Bayes factor of the null, exact (Savage-Dickey): {bayes:.4g}"
            )
        return lines


def over_own(fit: Fit, L: np.ndarray) -> np.ndarray:
    """Combinations L (q, reported) of the reported coefficients beta D' as ones of vec(beta), (q, p m)."""
    D, (p, m) = fit.model.likelihood.contrast_matrix, fit.model.shape
    expanded = np.zeros((len(L), p, m))
    expanded[:, fit.model.design.ungrouped] = L.reshape(len(L), -1, len(D)) @ D
    return expanded.reshape(len(L), p * m)


def restriction_table(
    fit: Fit, read: Sequence[Restriction], columns: Mapping[str, np.ndarray]
) -> Any:
    """One row for each restriction: its combination, the value of its right side, and these columns."""
    import pandas as pd

    names = fit.parameter_names
    first_columns = {
        "combination": [restriction.format_combination(names) for restriction in read],
        "value": [restriction.value for restriction in read],
    }
    return pd.DataFrame(first_columns | dict(columns))


def describe_null(fit: Fit, read: Sequence[Restriction]) -> str:
    """The restrictions in words."""
    return ", ".join(restriction.words(fit.parameter_names) for restriction in read)
