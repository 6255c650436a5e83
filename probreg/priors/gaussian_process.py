"""The prior of a Gaussian process term with unknown amplitude, length or other hyperparameters."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from probreg.arguments.scalars import Positive, read_argument, shown_value
from probreg.errors import DataError, Incompatible
from probreg.kernels import CovarianceFunction, KernelBasis
from probreg.kernels.anchored import AnchoredBasis, RowValues, root_at_rows
from probreg.kernels.spectral import LOG_RANGE, SineBasis
from probreg.priors.base import (
    PRIORS,
    Array,
    ConditionalPrior,
    DataDependentPrior,
    Generator,
    Hyper,
    Prior,
    PriorData,
    Shape,
)
from probreg.priors.mixture import ScaleMixture
from probreg.priors.normal import Normal
from probreg.priors.positive import AuxPrior, Reference
from probreg.special import LOG_2PI, differentiate

Known = float | AuxPrior
UNKNOWN = Reference()
# of differences over the log of a hyperparameter, with an error near 1e-9
_HYPERPARAMETER_STEP = 2e-3


@PRIORS.register
@dataclass(frozen=True)
class GaussianProcess(DataDependentPrior):
    """A Gaussian process f with cov(f(x), f(z)) = amplitude^2 k(x, z): the prior of the columns of a term `gp(...)`.

    Hyperparameters with a prior are unknown: the fit maximises the evidence, integrates or samples. With a basis of sines ("hsgp") lengths
    only change the scales of the columns, so that every method can estimate them. With other bases they change the columns, which
    `evidence` recomputes. With an exact basis the coefficients are values at the distinct rows, and `integrate` averages over lengths.

    Parameters
    ----------
    kernel : CovarianceFunction, optional
        k, instead of the term's function: for a sum or a product, which a formula cannot express.
    amplitude : float or AuxPrior
        Positive, in units of the linear predictor: the standard deviation of f if k(x, x) = 1.
    length : float or AuxPrior or None
        The value of every length of k, in units of its columns. None keeps the kernel's lengths.
    others : mapping, optional
        From other hyperparameters of k, by their names in `k.hyper`, to a number or an AuxPrior.

    References
    ----------
    Rasmussen & Williams 2006, chapters 2 and 5; Solin & Sarkka 2020.

    Examples
    --------
    >>> from probreg.model.model import Model
    >>> from probreg.priors import HalfNormal, LogNormal
    >>> prior = {"gp(x)": GaussianProcess(amplitude=HalfNormal(2.0), length=LogNormal(0.5))}
    >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 0.0, 2.0]}
    >>> model = Model.from_formula("y ~ gp(x, basis='hsgp')", data, prior=prior)
    >>> list(model.joint.blocks[-1].prior.hyper)
    ['amplitude', 'length']
    """

    kernel: CovarianceFunction | None = None
    amplitude: Positive | AuxPrior = UNKNOWN
    length: Positive | AuxPrior | None = UNKNOWN
    others: Any = ()

    name = "gaussian_process"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.others, Mapping | tuple):
            raise DataError(
                f"others= is a mapping from hyperparameters to numbers or priors, such as {{'alpha': 1.0}}, got {shown_value(self.others)}"
            )
        pairs = tuple(
            (str(name), read_argument(str(name), value, Positive | AuxPrior))
            for name, value in dict(self.others).items()
        )
        object.__setattr__(self, "others", pairs)

    def kernel_on(self, term: CovarianceFunction) -> CovarianceFunction:
        """Return k with the values stated here, on the term's own function unless `kernel` is given."""
        k = term if self.kernel is None else self.kernel
        held = {
            name: v
            for name, v in self._known_hyperparameters(k).items()
            if not isinstance(v, AuxPrior)
        }
        return k.at(**held) if held else k

    def unknown(self, kernel: CovarianceFunction) -> dict[str, AuxPrior]:
        """The priors of hyperparameters of k that are unknown, by their names in `k.hyper`."""
        return {
            name: v
            for name, v in self._known_hyperparameters(kernel).items()
            if isinstance(v, AuxPrior)
        }

    def _known_hyperparameters(self, kernel: CovarianceFunction) -> dict[str, Known]:
        hyper = kernel.hyper
        stated_values = dict(self.others)
        missing = [name for name in stated_values if name not in hyper]
        if missing:
            raise DataError(
                f"{kernel} has no hyperparameter {missing[0]!r}; it has {', '.join(hyper) or 'none'}"
            )
        if self.length is None:
            lengths = {}
        else:
            lengths = {
                n: self.length for n in hyper if n not in stated_values and is_length(n)
            }
        return lengths | stated_values

    def prepare(self, rows: PriorData) -> Prior:
        if rows.process is None:
            raise DataError(
                f"GaussianProcess is the prior of a term gp(...), and {', '.join(rows.columns[:3])} are not the columns of one"
            )
        basis = rows.process
        unit = Normal(1.0)
        unknown = self.unknown(basis.kernel)
        if not unknown:
            if isinstance(self.amplitude, AuxPrior):
                return ScaleMixture(unit, self.amplitude)
            return Normal(self.amplitude)
        # its columns include the density at one fixed length
        if isinstance(basis, SineBasis) and not basis.plain:
            raise DataError(
                f"the {' and '.join(unknown)} of {rows.columns[0].rsplit('[', 1)[0]} cannot be unknown where rows are read in blocks: "
                "state it in the formula, length="
            )
        kind: Any = InducingPoints
        if isinstance(basis, SineBasis):
            kind = SineProcess
        elif isinstance(basis, RowValues):
            kind = FunctionValues
        return kind(basis, self.amplitude, tuple(unknown.items()))


def process_prior(kernel: CovarianceFunction) -> GaussianProcess:
    """Return the prior with every identifiable hyperparameter unknown; of several variances that multiply the same function, only the first."""
    held = _redundant_variances(kernel, has_factor=True)
    return GaussianProcess(
        others={n: UNKNOWN for n in kernel.hyper if not is_length(n) and n not in held}
    )


def _redundant_variances(k: CovarianceFunction, *, has_factor: bool) -> list[str]:
    """Return the names of the variances of k that are not identified, because another one multiplies the same function.

    `has_factor`: the amplitude, or a variance outside k, already multiplies k.
    """
    own = k.name in ("scaled", "constant")
    multiples = [_is_multiple(part) for part in k.parts]
    names = ["variance"] if own and has_factor else []
    for i, part in enumerate(k.parts):
        if k.name == "sum":  # a factor of the sum is a factor of its first part
            inside = has_factor and i == 0 and all(multiples)
        else:
            inside = has_factor or own or any(multiples[:i])
        inner = _redundant_variances(part, has_factor=inside)
        names += k.rename_hyperparameters(i, dict.fromkeys(inner))
    return names


def _is_multiple(k: CovarianceFunction) -> bool:
    """Whether a variance multiplies k as a whole."""
    if k.name in ("scaled", "constant"):
        return True
    combine = any if k.name == "product" else all
    return bool(k.parts) and combine(map(_is_multiple, k.parts))


def is_length(name: str) -> bool:
    """Whether a hyperparameter is a length: `length`, `length[0]`, `rbf.length`."""
    return name.split(".")[-1].split("[")[0] == "length"


@dataclass(frozen=True, eq=False)
class ProcessPrior(ConditionalPrior):
    """A process with unknown hyperparameters of the kernel, bound to the basis of its columns."""

    basis: KernelBasis
    amplitude: Any
    unknown: tuple[tuple[str, AuxPrior], ...]

    name = "gaussian_process"
    base = Normal(1.0)

    @property
    def size(self) -> int | None:
        return self.basis.size

    @cached_property
    def hyper(self) -> Mapping[str, Hyper]:
        priors = {"amplitude": self.amplitude, **dict(self.unknown)}
        return {k: Hyper(v) for k, v in priors.items() if isinstance(v, AuxPrior)}

    @property
    def scales(self) -> tuple[bool, ...]:
        return tuple(name == "amplitude" for name in self.hyper)

    @property
    def may_vanish(self) -> tuple[bool, ...]:
        return tuple(
            name == "amplitude" or name.split(".")[-1] == "variance"
            for name in self.hyper
        )

    def kernel_at(self, **values: float) -> CovarianceFunction:
        """k at these hyperparameters; others keep their values in the basis."""
        return self.basis.kernel.at(
            **{name: values[name] for name, _ in self.unknown if name in values}
        )

    def starts(self) -> tuple[tuple[float, ...], ...]:
        """Starting values: the basis's lengths times common factors, and the other hyperparameters."""
        factors = np.array([0.03, 0.1, 0.3, 1.0, 3.0])
        values = self.basis.kernel.hyper
        starts = [
            values[name] * (factors if is_length(name) else np.ones_like(factors))
            for name, _ in self.unknown
        ]
        return tuple(zip(*(start.tolist() for start in starts)))

    @abstractmethod
    def basis_at(self, kernel: CovarianceFunction, x: Array | None) -> KernelBasis:
        """A basis of the same kind for this function, made at the inputs x (n, d)."""

    def amplitude_at(self, values: Mapping[str, Any]) -> Any:
        """The amplitude from these hyperparameters, or its fixed value."""
        return values.get("amplitude", self.amplitude)

    def size_at(self, values: Mapping[str, float]) -> float:
        return float(self.amplitude_at(values))

    def error_at(self, values: Mapping[str, float]) -> float:
        """The error of columns that do not change with the hyperparameters, as a share of k(x, x); 0 for columns that change."""
        return 0.0

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        """Draw hyperparameters from their priors, then coefficients (..., q, m)."""
        lead = int(np.prod(shape[:-2]))
        hyper_draws = self.draw_hyper(rng, lead)
        draws = [
            self._sample_given(
                rng, shape[-2:], {name: float(v[i]) for name, v in hyper_draws.items()}
            )
            for i in range(lead)
        ]
        return np.reshape(draws, shape)

    @abstractmethod
    def _sample_given(
        self, rng: Generator, shape: Shape, values: dict[str, float]
    ) -> Array:
        """Coefficients (q, m) at these hyperparameters."""


@dataclass(frozen=True, eq=False)
class SineProcess(ProcessPrior):
    """Coefficients of sines: beta_j ~ N(0, amplitude^2 S(omega_j; h)), with the spectral density S of k at hyperparameters h."""

    basis: SineBasis

    def _log_roots(self, values: Mapping[str, Array]) -> Array:
        """log S^(1/2) (S, q) at hyperparameters (S,), at most 23 below the largest, which is an error of 1e-20 of the
        variance."""
        columns = {name: values[name][:, None] for name, _ in self.unknown}
        frequencies = self.basis.frequencies
        with np.errstate(divide="ignore", under="ignore"):
            if self._symbolic is not None:
                S = self._symbolic(frequencies, **columns)
            else:
                rows = np.hstack(list(columns.values())).tolist()
                kernels = [self.kernel_at(**dict(zip(columns, row))) for row in rows]
                S = np.array([k.spectral_density(frequencies) for k in kernels])
            log = 0.5 * np.log(S)
        return np.maximum(log, log.max(1, keepdims=True) - LOG_RANGE)

    @property
    def _symbolic(self) -> Any:
        """S as a symbolic function of the lengths, if k has it and no other unknown hyperparameter."""
        lengths = all(is_length(name) for name, _ in self.unknown)
        if lengths:
            return getattr(self.basis.kernel, "symbolic_density", None)
        return None

    def _log_sds(self, values: Mapping[str, Any]) -> Array:
        """log of the standard deviations (q,) at hyperparameters."""
        logs = np.log([[values[name] for name in self.hyper]])
        return self.log_scales(logs, self.basis.size)[0]

    def log_scales(self, logs: Array, q: int) -> Array:
        values = dict(zip(self.hyper, np.exp(logs).T))
        return (
            self._log_roots(values)
            + np.log(self.amplitude_at(values) * np.ones(len(logs)))[:, None]
        )

    def log_prob_given(
        self, beta: Array, values: Mapping[str, Array], unit: Array | float = 1.0
    ) -> Array:
        lead, (q, m) = beta.shape[:-2], beta.shape[-2:]
        logs = np.log(
            np.stack(
                [np.broadcast_to(values[name], lead).ravel() for name in self.hyper],
                axis=1,
            )
        )
        log_sd = self.log_scales(logs, q).reshape(*lead, q)
        # log N(beta; 0, D^2) = log N(D^-1 beta; 0, I) - log |D|, with the same D for each of m predictors
        return self.base.log_prob(
            beta / np.exp(log_sd)[..., None], unit
        ) - m * log_sd.sum(-1)

    def given(self, **values: Any) -> Prior:
        return Normal(tuple(np.exp(self._log_sds(values)).tolist()))

    def spread(self, **values: Any) -> Any:
        """Return the standard deviations (q,) at symbols, for functions with a symbolic density."""
        inside = {name: values[name] for name, _ in self.unknown}
        if self._symbolic is None:
            raise Incompatible(
                f"{self.basis.kernel} has a density that is not written in symbols: use integrate or evidence, or 'rbf'"
            )
        S = self._symbolic(self.basis.frequencies, **inside)
        return (
            self.amplitude_at(values) * (S + np.exp(-2.0 * LOG_RANGE) * S.max()) ** 0.5
        )

    def log_scale_slopes(self, logs: Array, q: int) -> Array:
        moves = np.eye(len(logs))
        slopes = differentiate(
            lambda t: self.log_scales(logs + t * moves, q), _HYPERPARAMETER_STEP
        )
        slopes[list(self.scales)] = 1.0
        return slopes.T

    def log_scale_curvature(self, logs: Array, q: int) -> Array:
        d = len(logs)
        moves = np.eye(d)

        def log_scales(s: float, t: float) -> Array:
            moved = logs + s * moves[:, None] + t * moves
            return self.log_scales(moved.reshape(-1, d), q).reshape(d, d, q)

        curvature = differentiate(
            lambda s: differentiate(lambda t: log_scales(s, t), _HYPERPARAMETER_STEP),
            _HYPERPARAMETER_STEP,
        )
        return np.moveaxis(curvature, -1, 0)

    def basis_at(self, kernel: CovarianceFunction, x: Array | None) -> KernelBasis:
        return replace(
            self.basis,
            kernel=kernel,
            plain=False,
            error=self.basis.error_of(kernel) * kernel.bound,
        )

    def error_at(self, values: Mapping[str, float]) -> float:
        return self.basis.error_of(self.kernel_at(**values))

    def times(self, factor: float) -> Prior:
        if isinstance(self.amplitude, AuxPrior):
            raise DataError(
                "the amplitude of this process is unknown, and a factor of it is no other prior"
            )
        return replace(self, amplitude=self.amplitude * factor)

    def _sample_given(
        self, rng: Generator, shape: Shape, values: dict[str, float]
    ) -> Array:
        return self.given(**values).sample(rng, shape)


@dataclass(frozen=True, eq=False)
class UnknownLength(ProcessPrior):
    """A process with unknown hyperparameters that change its columns; linear predictors share them."""

    shared = True

    @property
    def in_columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.unknown)

    def _raise_moved(self, *_: Any, **__: Any) -> Any:
        raise self.moved_columns()

    spread = log_scales = log_scale_slopes = _raise_moved

    def moved_columns(self) -> Incompatible:
        """Return the error for a method that needs fixed columns."""
        return Incompatible(
            f"the {' and '.join(self.in_columns)} of this process stands in its columns: evidence finds it; basis='hsgp' has it in the "
            "prior, for every method"
        )


@dataclass(frozen=True, eq=False)
class InducingPoints(UnknownLength):
    """A process with unknown hyperparameters in the columns of its basis, which is rebuilt at new values."""

    def given(self, **values: Any) -> Prior:
        """The prior of the columns of the basis at these hyperparameters."""
        return Normal(float(self.amplitude_at(values)))

    def basis_at(self, kernel: CovarianceFunction, x: Array | None) -> KernelBasis:
        assert x is not None  # evidence requires rows in memory
        return self.basis.rebuilt(kernel, x)

    _sample_given = UnknownLength._raise_moved


@dataclass(frozen=True, eq=False)
class FunctionValues(UnknownLength):
    """A process with its values at the distinct rows A as coefficients: f(A) ~ N(0, amplitude^2 k(A, A)) at all hyperparameters."""

    basis: RowValues

    def log_prob_given(
        self, beta: Array, values: Mapping[str, Array], unit: Array | float = 1.0
    ) -> Array:
        lead, (a, m) = beta.shape[:-2], beta.shape[-2:]
        table = np.stack(
            [np.broadcast_to(values[name], lead).ravel() for name, _ in self.unknown],
            axis=1,
        )
        f = beta.reshape(-1, a, m)
        log_probs = np.empty(len(table))
        size = np.broadcast_to(self.amplitude_at(values), lead).ravel()
        for node, mine in nodes_of(table):
            node_basis, _, places = self.root_at(node)
            # for the anchors that determine all others up to rounding: f_p = amplitude T'^-1 u, u ~ N(0, I)
            u = (
                np.einsum("pq,spm->sqm", node_basis.T, f[mine][:, places])
                / size[mine, None, None]
            )
            log_det = m * (
                float(np.log(np.diagonal(node_basis.T)).sum())
                - node_basis.size * np.log(size[mine])
            )
            log_probs[mine] = log_det - 0.5 * (
                np.square(u).sum((1, 2)) + node_basis.size * m * LOG_2PI
            )
        return log_probs.reshape(lead)

    given = UnknownLength._raise_moved

    def root_at(self, node: Iterable[float]) -> tuple[AnchoredBasis, Array, list[int]]:
        """`root_at_rows` of k at values of the unknown hyperparameters, in their order."""
        values = dict(zip(self.in_columns, node))
        return root_at_rows(self.kernel_at(**values), self.basis.anchors)

    def root_of_values(self, values: Mapping[str, Any]) -> Array:
        """F (a, r) with f(A) = F z, z standard normal, at hyperparameters."""
        _, F, _ = self.root_at([values[name] for name in self.in_columns])
        return self.size_at(values) * F

    def root_given(self, **values: Any) -> Array:
        F = self.root_of_values(values)
        return np.pad(F, ((0, 0), (0, len(F) - F.shape[1])))

    def basis_at(self, kernel: CovarianceFunction, x: Array | None) -> KernelBasis:
        return root_at_rows(kernel, self.basis.anchors)[0]

    def _sample_given(
        self, rng: Generator, shape: Shape, values: dict[str, float]
    ) -> Array:
        F = self.root_of_values(values)
        return F @ rng.standard_normal((F.shape[1], shape[-1]))


def nodes_of(table: Array) -> list[tuple[list[float], Array]]:
    """Each distinct row of hyperparameters (S, d), and the numbers of the draws that have it."""
    nodes, node_index = np.unique(table, axis=0, return_inverse=True)
    order = np.argsort(node_index.ravel(), kind="stable")
    return list(
        zip(
            nodes.tolist(),
            np.split(order, np.cumsum(np.bincount(node_index.ravel()))[:-1]),
        )
    )
