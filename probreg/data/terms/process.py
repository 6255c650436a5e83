"""A Gaussian process as a term: a covariance function of some inputs, and the basis that makes its columns.

With beta ~ N(0, tau^2 I) the term adds f = phi beta to the linear predictor, a process of covariance tau^2 k. The term
follows from plain data (its state), which recipes and files contain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from probreg.arguments.scalars import shown_value
from probreg.data.terms.smooths import BasisTerm
from probreg.errors import DataError, prefix_errors
from probreg.formula.expression import BASIS_SETTINGS, KERNEL_SETTINGS
from probreg.kernels import (
    BASES,
    KERNELS,
    CovarianceFunction,
    KernelBasis,
    basis,
    basis_from_spec,
    read_kernel,
)
from probreg.kernels.basis import DEFAULT_EXACT, distinct_rows
from probreg.linalg import evenly_spaced

Array = np.ndarray
_OF_SINES = ("range", "half_width")  # settings that no other basis takes


@dataclass(frozen=True, eq=False)
class ProcessTerm:
    """A process f with cov(f(x), f(z)) = tau^2 k(x, z), through the columns phi(x) of a basis.

    Attributes
    ----------
    key : str
        The term as written, `gp(x1, x2, length=2.0)`.
    short : str
        The term without options, `gp(x1, x2)`.
    basis : KernelBasis
        The columns at any inputs, and their residual.
    length_known : bool
        Whether the formula stated the length; otherwise a search starts at the length of the basis.
    inputs : tuple of str
        The inputs of the covariance function, as written.
    settings : mapping
        The stated settings of the basis except its range: `tol`, `size`, `half_width`.
    """

    key: str
    short: str
    basis: KernelBasis
    length_known: bool
    inputs: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    by: ClassVar[str] = ""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(f"{self.key}[{j + 1}]" for j in range(self.basis.size))

    @property
    def functions(self) -> tuple[BasisTerm, ...]:
        """The names of the columns of its one function."""
        return (self.column_names,)

    @property
    def ends(self) -> Array | None:
        """The least and the largest value of each input, (2, d); None if the basis does not depend on them."""
        return None if self.basis.ends is None else self.basis.ends.T

    def function_at(self, x: Array) -> Array:
        """Return the columns (n, q) at points x (n, d)."""
        return self.columns_at(x)

    @property
    def is_learned(self) -> bool:
        """Whether its function class depends on the rows: through an estimated length, anchors, or the range of sines.

        The exact basis has an anchor at every row, so its function class depends on the kernel only.
        """
        return not self.length_known or self.basis.kind != "exact"

    @cached_property
    def column_names(self) -> BasisTerm:
        """The term as one block of columns with one scale."""
        return BasisTerm(self.key, self.short, (), (self.columns,), (self.key,))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on its columns: their error, and a length that was not stated."""
        notes = []
        if self.basis.error:
            notes.append(f"{self.short}: {self.basis.error_words}")
        if not self.length_known:
            lengths = ", ".join(
                f"{v:.4g}"
                for name, v in self.basis.kernel.hyper.items()
                if "length" in name
            )
            notes.append(
                f"{self.short}: no length is stated; its columns have {lengths}, unless its prior has lengths of its own"
            )
        return tuple(notes)

    @property
    def held_words(self) -> str:
        """The note on a saved file that contains rows of the data, because the basis needs them."""
        return (
            f"{self.short}: the file holds rows of {', '.join(self.inputs)}, of which this basis is made; "
            "basis='hsgp' holds none"
        )

    def columns_at(self, x: Array, rows: Any = None) -> Array:
        """Return phi (n, q) at inputs x (n, d) of rows labelled `rows`. DataError names the first invalid row."""
        with prefix_errors(self.key):
            beyond = self.basis.first_beyond(x)
            if beyond is not None:
                row = beyond.row if rows is None else rows[beyond.row]
                raise DataError(
                    f"{self.inputs[beyond.column]} is {beyond.value:g} in row {row}, beyond the range {beyond.low:g} to "
                    f"{beyond.high:g} of its sines: fit it with a range= that holds it"
                )
            return self.basis.columns_at(x)

    def with_basis(self, basis: KernelBasis, *, length_found: bool = False) -> Self:
        """Return the term with another basis of as many inputs; `length_found` means that a search found its length."""
        if basis.width != len(self.inputs):
            raise DataError(
                f"{self.key}: this basis takes {basis.width} columns, and the term has {len(self.inputs)}"
            )
        return replace(
            self, basis=basis, length_known=self.length_known or length_found
        )

    def to_state(self) -> dict[str, Any]:
        """Return texts, numbers and arrays; `process_of` restores the term from them."""
        return {
            "kind": "process",
            "short": self.short,
            "inputs": list(self.inputs),
            "length_known": self.length_known,
            "basis": self.basis.spec(),
            "settings": dict(self.settings),
        }


def process_of(state: Mapping[str, Any], key: str) -> ProcessTerm:
    """Return the term that `to_state` wrote."""
    basis = basis_from_spec(state["basis"])
    inputs = tuple(state["inputs"])
    settings = state.get("settings", {})
    return ProcessTerm(
        key, state["short"], basis, state["length_known"], inputs, settings
    )


# ---- from a formula ------------------------------------------------------------------------------------------------------


def learned_process(
    x: Array,
    words: Mapping[str, Any],
    *,
    key: str,
    short: str,
    inputs: tuple[str, ...],
    streamed: bool = False,
    counts: Array | None = None,
) -> ProcessTerm:
    """Return the term at training inputs x (n, d), with the settings of its formula.

    `counts` (n,) gives the number of copies of each row.

    If the rows are `streamed`, x is a sample of them, and the basis contains no rows.
    """
    with prefix_errors(key):
        kernel, length_known = stated_kernel(x, words, inputs, counts)
        settings = {word: words[word] for word in BASIS_SETTINGS if word in words}
        kind = words.get("basis") or chosen_basis(
            x, length_known, settings, streamed=streamed
        )
        if streamed and kind in BASES and kind != "hsgp":
            raise DataError(
                f"basis={kind!r} needs all rows in memory, but this model reads them in blocks: write basis='hsgp' with range="
            )
        _refuse_settings(x, kind, inputs)
        made = basis(kernel, x, kind, **settings)
        settings.pop("range", None)  # the basis keeps it
        return ProcessTerm(key, short, made, length_known, inputs, settings)


def stated_kernel(
    x: Array,
    words: Mapping[str, Any],
    inputs: Sequence[str],
    counts: Array | None,
) -> tuple[CovarianceFunction, bool]:
    """Return the covariance function in raw units, and whether its length was given; the default is `starting_length`."""
    name = words.get("kernel", "rbf")
    settings = {
        word: tuple(value) if isinstance(value, list) else value
        for word, value in words.items()
        if word in KERNEL_SETTINGS
    }
    kernel = read_kernel(name, **settings)
    if hasattr(kernel, "period") and "period" not in settings:
        raise DataError(
            f"kernel={name!r} has a period in units of {', '.join(inputs)}: state it, such as period=12"
        )
    kernel = kernel.resolve(with_spread(x, counts), inputs)
    length_known = "length" in settings or not hasattr(kernel, "length")
    if not length_known:
        kernel = at_starting_length(kernel, x)
    return kernel, length_known


def with_spread(x: Array, counts: Array | None) -> Array:
    """Return x (n, d) in units of the weighted standard deviations of its columns."""
    if counts is None or len(x) < 2 or not np.ptp(x, axis=0).all():
        return x
    about = x - np.average(x, axis=0, weights=counts)
    return x * np.sqrt(counts @ about**2 / (counts.sum() - 1.0)) / x.std(0, ddof=1)


def at_starting_length(kernel: CovarianceFunction, x: Array) -> CovarianceFunction:
    """Return the function with its length at `starting_length`; the length of a periodic function has no units and stays 1."""
    if isinstance(kernel, KERNELS["periodic"]):
        return kernel
    return kernel.at(length=starting_length(x))


def starting_length(x: Array) -> float:
    """Return the start of a search for a length: the median distance of at most 1,000 distinct rows of x (n, d).

    >>> starting_length(np.array([[0.0], [1.0], [2.0], [4.0], [4.0]]))
    2.0
    """
    from scipy.spatial.distance import pdist

    max_rows = 1000
    rows = distinct_rows(x)
    rows = rows[evenly_spaced(len(rows), max_rows)]
    if len(rows) > 1:
        return float(np.median(pdist(rows)))
    return 1.0


def chosen_basis(
    x: Array, length_known: bool, settings: Mapping[str, Any], *, streamed: bool = False
) -> str:
    """Return the basis of a term without `basis=`: sines if a setting of sines is given or rows are `streamed`.

    Else it is exact up to 2,000 distinct rows. With more rows it is cholesky, or sines if the length is unknown and there are at
    most three inputs.
    """
    max_inputs = 3  # for sines, because their number is a product over the inputs
    if streamed:
        if x.shape[1] > max_inputs:
            raise DataError(
                f"a process of {x.shape[1]} inputs needs all rows in memory, but this model reads them in blocks; "
                f"basis='hsgp' serves up to {max_inputs} inputs"
            )
        return "hsgp"
    if any(word in _OF_SINES for word in settings):
        return "hsgp"
    if settings:
        kinds = " or ".join(repr(kind) for kind in BASES if kind != "exact")
        raise DataError(
            f"{next(iter(settings))}= is of a basis that is named beside it: write basis={kinds}"
        )
    if len(distinct_rows(x)) <= DEFAULT_EXACT:
        return "exact"
    return "cholesky" if length_known or x.shape[1] > max_inputs else "hsgp"


# ---- sentences -----------------------------------------------------------------------------------------------------------


def _refuse_settings(x: Array, kind: Any, inputs: Sequence[str]) -> None:
    """Raise DataError for constant inputs and for an unknown basis."""
    if len(x) > 1 and not np.ptp(x, axis=0).any():
        raise DataError(
            f"{', '.join(inputs)} is {', '.join(f'{v:g}' for v in x[0])} in all rows: leave the term out"
        )
    if kind not in BASES:
        raise DataError(f"basis is one of {', '.join(BASES)}, got {shown_value(kind)}")
