"""Shared parts of conformal intervals: the rank among n + 1 exchangeable scores, and rows by frequency."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import nan
from typing import ClassVar

import numpy as np

from probreg.data import Design
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import OfTrials
from probreg.registry import Registry

Array = np.ndarray
KINDS: Registry["ConformalMethod"] = Registry("conformal interval")
_NUMBERS = 2_000_000  # held at once
PRECISE = (
    "scores are in units of 1 / sqrt(w), w the precision of a row: a new row has precision 1, or w of "
    "predict(data, weights=pr.weights.precision(w)). Its score must have the same distribution as theirs"
)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A fit with the scores of rows that it has not used.

    `region` returns mean with lower and upper (n,), or `set` (n, K) bool, at a block of rows, and takes `per_row` floats for each.
    """

    fit: Fit
    count: int  # of calibration rows
    measure: str  # a description of the score and its bound
    guarantee: str
    notes: tuple[str, ...]
    region: Callable[[Design], Mapping[str, Array]]
    per_row: int
    most: float = nan  # the bound of the score of a new row, in a split


class ConformalMethod(ABC):
    """A way to calibrate; a frozen value with its settings."""

    name: ClassVar[str]

    @abstractmethod
    def calibrate(self, fit: Fit, unseen: Design | None, prob: float) -> Calibrated:
        """Return the fit with its scores; `unseen` are rows that the fit has not used, if any."""


@dataclass(frozen=True)
class ConformalRank:
    """k = ceil((n + 1) prob): a new score is at most the k-th smallest of n with probability k / (n + 1) >= prob."""

    prob: float
    n: int

    def __post_init__(self) -> None:
        if self.k > self.n:
            # k <= n where (n + 1) prob <= n, that is n >= prob / (1 - prob).
            need = int(np.ceil(self.prob / (1 - self.prob) - 1e-9))
            raise DataError(
                f"{self.n} calibration rows: a finite interval of probability {self.prob:g} needs {need}; give more rows or a smaller prob"
            )

    @property
    def k(self) -> int:
        # less a rounding of the product
        return int(np.ceil((self.n + 1) * self.prob - 1e-9))

    def upper(self, values: Array) -> Array:
        """The k-th smallest over the last axis."""
        # P(s_new <= s_(k)) >= k / (n + 1) for exchangeable scores   (Lei et al. 2018).
        return np.partition(values, self.k - 1, axis=-1)[..., self.k - 1]

    def lower(self, values: Array) -> Array:
        """The k-th largest over the last axis."""
        # The k-th largest of n is the (n + 1 - k)-th smallest.
        return np.partition(values, self.n - self.k, axis=-1)[..., self.n - self.k]


def rows_by_frequency(design: Design) -> tuple[Design, tuple[str, ...]]:
    """Repeat each row by its frequency weight, with a note on weights; Incompatible for sampling weights."""
    design.need_rows(
        "a conformal interval from the rows of the fit",
        "pass unused rows, conformal(fit, data)",
    )
    w = design.weights
    if design.weight_kind == "sampling":
        raise Incompatible(
            "conformal intervals: rows with sampling weights are not exchangeable with a new row of the population; predict gives "
            "the mean and its interval"
        )
    if design.weight_kind == "precision":
        return design, (PRECISE,)
    if w is None:
        return design, ()
    rows = np.repeat(np.arange(design.n), w.astype(int))
    labels = design.row_names
    plain = Design(
        design.X[rows], design.observed[rows], design.columns, design.recipe, design.response,
        None if design.offset is None else design.offset[rows], labels=labels[rows],
        inputs={k: x[rows] for k, x in design.inputs.items()},
    )  # fmt: skip
    return plain, (f"a row of weight w counts as w rows: {len(rows)} in all",)


def noise_unit(design: Design) -> Array | float:
    """Return the noise scale of each row in units of sigma, (n,): 1 / sqrt(w) for rows with precisions w."""
    if design.precision is None:
        return 1.0
    return 1.0 / np.sqrt(design.precision)


def exchangeable(fit: Fit, theirs: str) -> str:
    """Describe the condition of the guarantee."""
    precise = fit.model.design.weight_kind == "precision"
    trials = isinstance(fit.model.likelihood, OfTrials)
    return f"the new row and {theirs} are exchangeable{', each with its precision' * precise}{', each with its trials' * trials}"


def blocks(design: Design, per_row: int) -> Iterator[Design]:
    """Yield the rows in small parts."""
    size = max(1, _NUMBERS // max(per_row, 1))
    for start in range(0, max(design.n, 1), size):
        yield design.take(slice(start, start + size))
