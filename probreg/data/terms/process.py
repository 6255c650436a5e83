"""A Gaussian process as a term: a covariance function of some inputs, and the basis that makes its columns.

With beta ~ N(0, tau^2 I) the term adds f = phi beta to the linear predictor, a process of covariance tau^2 k. What the term is
follows from plain data (its state), which a recipe keeps and a file holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from probreg.data.terms.term import BasisTerm, SmoothTerm, term_of
from probreg.errors import DataError, ProbregError
from probreg.kernels import KERNELS, CovarianceFunction, KernelBasis, basis, basis_from_spec, read_kernel
from probreg.kernels.basis import DEFAULT_EXACT, distinct_rows

Array = np.ndarray
MOST_SINES = 3  # inputs up to which a basis of sines is the default where the length is not known
MOST_PAIRED = 1000  # distinct rows, evenly spaced, whose distances give a starting length
KERNEL_WORDS = ("length", "nu", "alpha", "period", "degree", "offset", "scaled", "variance")
BASIS_WORDS = ("tol", "size", "range", "half_width", "orthogonal", "seed")
PROCESS_WORDS = ("kernel", *KERNEL_WORDS, "basis", *BASIS_WORDS)


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
        The columns at any inputs, and what they lack.
    length_known : bool
        Whether the formula stated the length; otherwise that of the basis is where a search starts.
    inputs : tuple of str
        What enters the covariance function, as written.
    """

    key: str
    short: str
    basis: KernelBasis
    length_known: bool
    inputs: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(f"{self.key}[{j + 1}]" for j in range(self.basis.size))

    @property
    def described(self) -> BasisTerm:
        """The term as one block of columns with one scale."""
        return BasisTerm(self.key, self.short, (), (self.columns,), (self.key,))

    def columns_at(self, x: Array) -> Array:
        """phi (n, q) at inputs x (n, d)."""
        return self.basis.columns_at(x)

    def with_basis(self, made: KernelBasis) -> Self:
        """The same term through another basis of as many inputs."""
        if made.width != len(self.inputs):
            raise DataError(f"{self.key}: this basis takes {made.width} columns, and the term has {len(self.inputs)}")
        return replace(self, basis=made)

    def to_state(self) -> dict[str, Any]:
        """Texts, numbers and arrays from which `process_of` makes the same term."""
        return {
            "kind": "process",
            "short": self.short,
            "inputs": list(self.inputs),
            "length_known": self.length_known,
            "basis": self.basis.spec(),
        }


def process_of(state: Mapping[str, Any], key: str) -> ProcessTerm:
    """The term that `to_state` wrote; DataError for a damaged state."""
    short, inputs, known = state.get("short"), state.get("inputs"), state.get("length_known")
    texts = isinstance(inputs, list | tuple) and all(isinstance(name, str) for name in inputs)
    if not isinstance(short, str) or not texts or not isinstance(known, bool):
        raise DataError(f"the saved state of {key!r} is damaged: it lacks its name, its inputs, or their kind")
    try:
        made = basis_from_spec(state["basis"])
    except (ProbregError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the saved state of {key!r} is damaged: {error}") from None
    if made.width != len(inputs):  # type: ignore[arg-type]  # a list, as was looked at
        raise DataError(f"the saved state of {key!r} is damaged: its basis takes another number of columns")
    return ProcessTerm(key, short, made, known, tuple(inputs))  # type: ignore[arg-type]


def read_term(state: Mapping[str, Any], key: str) -> SmoothTerm | ProcessTerm:
    """The smooth function or the process that a state is of."""
    if isinstance(held := state.get("process"), ProcessTerm):
        return held
    return term_of(state, key)


def learned_process(
    x: Array, words: Mapping[str, Any], *, key: str, short: str, inputs: tuple[str, ...]
) -> ProcessTerm:
    """The term at training inputs x (n, d), with the settings of its formula."""
    kernel, known = stated_kernel(x, words)
    kind = words.get("basis") or default_basis(x, known)
    settings = {word: words[word] for word in BASIS_WORDS if word in words}
    return ProcessTerm(key, short, basis(kernel, x, kind, **settings), known, inputs)


def stated_kernel(x: Array, words: Mapping[str, Any]) -> tuple[CovarianceFunction, bool]:
    """The covariance function in raw units, and whether its length was stated; without one it is `starting_length`."""
    name = words.get("kernel", "rbf")
    settings = {word: words[word] for word in KERNEL_WORDS if word in words}
    settings = {word: tuple(v) if isinstance(v, list) else v for word, v in settings.items()}
    kernel = read_kernel(name, **settings).resolved(x)
    known = "length" in words or not any("length" in hyper for hyper in kernel.hyper)
    return (kernel if known else at_starting_length(kernel, x)), known


def at_starting_length(kernel: CovarianceFunction, x: Array) -> CovarianceFunction:
    """The function with every length at its starting value: `starting_length`; that of a period has no units, and is 1."""
    if kernel.name == KERNELS["periodic"].name:
        return kernel
    return kernel.at(length=starting_length(x))


def starting_length(x: Array) -> float:
    """Where the search for a length starts: the median distance of the distinct rows of x (n, d), of at most 1,000.

    >>> starting_length(np.array([[0.0], [1.0], [2.0], [4.0], [4.0]]))
    2.0
    """
    from scipy.spatial.distance import pdist

    rows = distinct_rows(x)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_PAIRED)).astype(int))]
    return float(np.median(pdist(rows))) if len(rows) > 1 else 1.0


def default_basis(x: Array, length_known: bool) -> str:
    """Exact up to 2,000 distinct rows; above, cholesky for a known length, and sines for an unknown one of up to three inputs."""
    if len(distinct_rows(x)) <= DEFAULT_EXACT:
        return "exact"
    return "cholesky" if length_known or x.shape[1] > MOST_SINES else "hsgp"
