"""The covariance of the estimated parameters, as a root: every variance is a sum of squares, and no digits cancel.

The parameters are theta = (vec beta, further ones such as log sigma), vec beta column first and then predictor. With gamma the
coefficients of the columns of a `Frame`, beta = T gamma, a root refers to (gamma, further ones), so that the variance of g'theta
is |root' S'g|^2, S = diag(T kron I_m, I), and S'g is computed without cancellation where columns lie far from zero.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from probreg.data.frame import Frame
from probreg.data.implicit_columns import (
    LazyColumns,
    PredictorColumns,
    columns_of,
    row_gradients,
)
from probreg.errors import DataError
from probreg.linalg import factor_of, inverse_upper, root_of_square, row_slices
from probreg.linalg.lazy_array import LazyArray
from probreg.system.memory import in_bytes, physical_memory

Array = np.ndarray
_NUMBERS_OF_ROWS = 2_000_000  # numbers in memory at once, rows times the rank of a root


@dataclass(frozen=True, eq=False)
class ParameterCovariance(ABC):
    """The covariance of (vec beta, further parameters); `missing` marks those without a standard error.

    A combination with a nonzero weight on a missing parameter has the variance nan.
    """

    frame: Frame
    m: int  # linear predictors
    further: tuple[
        str, ...
    ] = ()  # the parameters behind the coefficients, such as "log sigma"
    missing: Array | None = None  # (k,) bool
    # (p m,) of coefficients, if they have more digits than the root
    variances: Array | None = None

    parts: ClassVar[tuple[str, ...]] = ()  # the arrays of this structure
    compact: ClassVar[bool] = False  # far smaller than the matrix

    # ---- methods of each structure
    # ------------------------------------------------------------------------------------

    @abstractmethod
    def _half(self, G: Array) -> Array:
        """(R, r) of gradients G (R, k) over (gamma, further parameters)."""

    def _errors(self) -> Array:
        """(k,) standard errors; their values at missing parameters are not used."""
        return np.linalg.norm(self.raw_root(), axis=1)

    def _parts_with_columns(self, root: Array) -> dict[str, Any]:
        """The arrays of the covariance plus root root', root (k + a, r) over (gamma,
        further parameters); the last a parameters have no spread so far."""
        raise NotImplementedError

    def condition_on(self, entries: Array) -> Self:
        """The covariance given some coefficients: with the rows B of the root R, it has
        the root R N, B N = 0, N'N = I."""
        raise NotImplementedError

    @abstractmethod
    def scale_by(self, factor: float) -> Self:
        """The same with the covariance of the coefficients times a factor."""

    # ---- methods common to all
    # ----------------------------------------------------------------------------------------

    @property
    def coefficients(self) -> int:
        """p m, the number of coefficients."""
        return len(self.frame.scale) * self.m

    @property
    def size(self) -> int:
        """k, the number of parameters."""
        return self.coefficients + len(self.further)

    def half(self, G: Array) -> Array:
        """B (R, r) with B B' the covariance of G theta, G (R, p m) or (R, k) over raw coefficients; nan if it is missing."""
        G = np.atleast_2d(np.asarray(G, dtype=float))
        k = self.coefficients
        p = len(self.frame.scale)
        gradients = self.frame.gradients(G[:, :k].reshape(len(G), p, self.m)).reshape(
            len(G), k
        )
        if self.further:
            if G.shape[1] > k:
                further = G[:, k:]
            else:
                further = np.zeros((len(G), len(self.further)))
            gradients = np.hstack([gradients, further])
        B = self._half(gradients)
        if self.missing is not None:
            B[(G[:, self.missing[: G.shape[1]]] != 0).any(1)] = np.nan
        return B

    def arrange(self, G: Array, names: Sequence[str]) -> Array:
        """Gradients (R, k) from G (R, p m + a) over (vec beta, the parameters `names`)."""
        k = self.coefficients
        return np.hstack([G[:, :k], self.over_further(G[:, k:], names)])

    def over_further(self, slopes: Array, names: Sequence[str]) -> Array:
        """Slopes (..., f) over the further parameters, from slopes (..., a) over the parameters `names`; parameters that the covariance
        lacks are taken as known."""
        over = np.zeros((*slopes.shape[:-1], len(self.further)))
        for k, name in enumerate(self.further):
            if name in names:
                over[..., k] = slopes[..., names.index(name)]
        return over

    def block(self, entries: Array) -> Array:
        """(q, q), the covariance of some parameters."""
        B = self.half(self._unit(np.asarray(entries)))
        return B @ B.T

    def _unit(self, entries: Array) -> Array:
        E = np.zeros((len(entries), self.size))
        E[np.arange(len(entries)), entries] = 1.0
        return E

    def errors(self) -> Array:
        """(k,) standard errors, nan if they are missing."""
        errors = self._errors()
        if self.variances is not None:
            errors[: self.coefficients] = np.sqrt(self.variances)
        if self.missing is not None:
            errors[self.missing & ~np.isinf(errors)] = np.nan
        return errors

    def with_spread(self, spread: Array, names: Sequence[str] = ()) -> Self:
        """The covariance plus spread spread', spread (p m, r) over raw coefficients, or
        (k + a, r) with further parameters; the last a are the `names` (a,)."""
        k = self.coefficients
        root = np.zeros((self.size + len(names), spread.shape[1]))
        root[:k] = _from_raw(self.frame, spread[:k])
        root[k : len(spread)] = spread[k:]
        missing = self.missing
        if missing is not None:
            missing = np.append(missing, np.zeros(len(names), dtype=bool))
        return replace(
            self,
            further=(*self.further, *names),
            missing=missing,
            variances=None,
            **self._parts_with_columns(root),
        )

    def unbounded_at(self, entries: Array) -> Self:
        """The same with infinite variances of some coefficients (p m,) bool; their
        combinations have the variance nan."""
        variances = np.where(entries, np.inf, self.diagonal())
        return replace(self.without_errors_of(entries), variances=variances)

    def without_errors_of(self, entries: Array) -> Self:
        """The same without standard errors of some coefficients (p m,) bool."""
        missing = np.zeros(self.size, dtype=bool)
        if self.missing is not None:
            missing |= self.missing
        missing[: self.coefficients] |= entries
        return replace(self, missing=missing)

    def errors_of(self, D: Array) -> Array:
        """(p, o) standard errors of the coefficients beta D', D (o, m)."""
        p = len(self.frame.scale)
        if np.array_equal(D, np.eye(self.m)):
            return self.errors()[: self.coefficients].reshape(p, self.m)
        return np.linalg.norm(
            np.stack([self.half(np.kron(np.eye(p), d)) for d in D], 1), axis=2
        )

    @property
    def has_errors(self) -> bool:
        """Whether any coefficient has a standard error."""
        return bool(np.isfinite(self.errors()[: self.coefficients]).any())

    def of_rows(self, X: Any) -> Array:
        """(n, m, m), the covariances of the linear predictors at rows X (n, p)."""
        m = predictors_of(X, self.m)
        covariances = np.empty((X.shape[0], m, m))
        for rows in self._parts_of(len(covariances)):
            B = self._root_of_rows(X[rows])
            covariances[rows] = B @ B.mT
        return covariances

    def variances_of_rows(self, X: Any, J: Array, A: Array) -> Array:
        """(n, D), the variances of J_i eta_i + A_i phi at rows X (n, p): J (n, D, m), and A (n, D, a) over the further parameters phi."""
        k = self.coefficients
        variances = np.empty(J.shape[:2])
        further_root = self._further_root
        for rows in self._parts_of(len(J)):
            B = J[rows] @ self._root_of_rows(X[rows]) + A[rows] @ further_root
            if self.missing is not None:
                B[(A[rows][..., self.missing[k:]] != 0).any(-1)] = np.nan
            variances[rows] = np.square(B).sum(-1)
        return variances

    def _root_of_rows(self, X: Any) -> Array:
        """(n, m, r), the root of the linear predictors at rows X (n, p)."""
        m = predictors_of(X, self.m)
        J = np.broadcast_to(np.eye(m), (X.shape[0], m, m))
        G = row_gradients(J, X).reshape(-1, self.coefficients)
        return self.half(G).reshape(len(J), m, -1)

    @property
    def _further_root(self) -> Array:
        """(a, r), the root of the further parameters."""
        return self._half(self._unit(np.arange(self.coefficients, self.size)))

    @property
    def _row_width(self) -> int:
        """Numbers of a row in `_root_of_rows`."""
        return self.coefficients * self.m

    def _parts_of(self, n: int) -> list[slice]:
        """Slices of n rows with `_NUMBERS_OF_ROWS` numbers each."""
        return row_slices(n, max(1, _NUMBERS_OF_ROWS // max(1, self._row_width)))

    def wald(self, L: Array, gap: Array) -> float:
        """gap' (L V L')^-1 gap. LinAlgError if L V L' is singular, as of more rows of L than V has independent clusters."""
        # |R'^-1 gap / s|^2 with (B / s)' = Q R, B B' = L V L' and s the standard errors of L theta
        B = self.half(L)
        size = np.linalg.norm(B, axis=1)
        R = np.linalg.qr((B / size[:, None]).T, mode="r")
        rounding = 1e-8  # sd of one combination given the others, over its sd: less is a sum of rounding errors
        if not (np.abs(np.diagonal(R)) > rounding).all():
            raise np.linalg.LinAlgError("singular covariance")
        return float(np.square(np.linalg.solve(R.T, gap / size)).sum())

    def change(self, L: Array, gap: Array) -> Array:
        """(p m,) V L' (L V L')^-1 gap: the smallest change in standard errors of the
        coefficients that changes L theta by `gap`."""
        z = np.linalg.lstsq(self.half(L), gap)[0]
        return self.raw_root()[: self.coefficients] @ z

    def raw_root(self) -> Array:
        """(k, r), a root over (vec beta, further parameters); rows of nan if they are missing."""
        return self.half(np.eye(self.size))

    def times(self, B: Array) -> Array:
        """(p m, s), the covariance of the coefficients times B (p m, s)."""
        return self.raw_root()[: self.coefficients] @ self.half(B.T).T

    def draws(self, rng: Generator, size: int) -> Array:
        """(size, k) of N(0, V); parameters without a standard error stay at 0."""
        root = np.nan_to_num(self.raw_root())
        root = root[:, root.any(0)]
        return rng.standard_normal((size, root.shape[1])) @ root.T

    def log_det(self) -> float:
        """log |V| of the coefficients; nan if V has no inverse."""
        R, d = self._scaled_factor()
        return float(2.0 * np.log(d * np.abs(np.diagonal(R))).sum())

    def precision(self) -> Array:
        """(p m, p m), the inverse covariance of the coefficients. DataError if it does
        not exist."""
        R, d = self._scaled_factor()
        if not np.isfinite(R).all():
            raise DataError(
                "the covariance of the coefficients is not finite and positive definite, so it has no inverse"
            )
        # V^-1 = A A', A = D^-1 R^-1
        A = inverse_upper(R) / d[:, None]
        return A @ A.T

    def _scaled_factor(self) -> tuple[Array, Array]:
        """R upper triangular and d with V = D R'R D, D = diag(d), over the coefficients;
        nan if V is singular or not finite."""
        B = self.half(self._unit(np.arange(self.coefficients)))
        d = np.linalg.norm(B, axis=1)
        if not ((d > 0) & np.isfinite(d)).all() or B.shape[1] < len(B):
            return np.full((len(B), len(B)), np.nan), d
        return np.linalg.qr((B / d[:, None]).T, mode="r"), d

    def matrix(self) -> Array:
        """(p m, p m) of the coefficients. DataError if it takes more than half of the
        memory."""
        k = self.coefficients
        need = 16.0 * k**2
        memory = physical_memory()
        if memory is not None and need > 0.5 * memory:
            raise DataError(
                f"the covariance of {k:,} coefficients takes {in_bytes(need)}, more than half of the {in_bytes(memory)} of this "
                "machine: use std_error, the square roots of its diagonal"
            )
        V = self._matrix()
        if self.missing is not None:
            missing = self.missing[:k]
            V[missing], V[:, missing] = np.nan, np.nan
        V[np.diag_indices(k)] = self.diagonal()
        return V

    def _matrix(self) -> Array:
        A = self.raw_root()[: self.coefficients]
        return A @ A.T

    def arrays(self) -> dict[str, Array]:
        """Plain arrays for a file: `from_arrays` returns the same covariance to the last bit."""
        frame = self.frame
        arrays: dict[str, Any] = {name: getattr(self, name) for name in self.parts}
        arrays["frame"] = np.stack([frame.shift, frame.scale])
        arrays |= {"mix": frame.mix, "variances": self.variances}
        if self.missing is not None:
            arrays["missing"] = self.missing.astype(np.int8)
        if frame.mixed is not None:
            arrays["mixed"] = frame.mixed.astype(float)
        return {name: np.asarray(v) for name, v in arrays.items() if v is not None}

    @staticmethod
    def from_arrays(
        arrays: Mapping[str, Array],
        m: int,
        intercept: int | Array | None,
        further: tuple[str, ...],
    ) -> "ParameterCovariance":
        """The covariance of `arrays`. DataError if parts are missing or their shapes
        disagree."""
        part_names = set(arrays) - {"frame", "mix", "mixed", "missing", "variances"}
        kinds = (
            DenseCovariance,
            FactoredCovariance,
            ArrowCovariance,
            MatrixCovariance,
        )
        kind = next((c for c in kinds if part_names == set(c.parts)), None)
        is_complete = "frame" in arrays and ("mix" in arrays) == ("mixed" in arrays)
        if kind is None or not is_complete:
            raise DataError("the file lacks parts of the covariance of its parameters")
        values: dict[str, Any] = dict(arrays)
        for name, dtype in (("mixed", np.intp), ("places", np.intp), ("missing", bool)):
            if name in values:
                values[name] = values[name].astype(dtype)
        if kind is ArrowCovariance:
            values["root"] = values.pop("low")
        shift, scale = values.pop("frame")
        mixed = values.pop("mixed", None)
        if mixed is not None and not (mixed < len(scale)).all():
            raise DataError("the covariance and its frame have different columns")
        frame = Frame(shift, scale, intercept, values.pop("mix", None), mixed)
        covariance = kind(frame, m, further, **values)
        try:
            covariance.half(np.zeros((1, covariance.size)))
        except (ValueError, IndexError):
            raise DataError(
                "the arrays of the covariance have different numbers of parameters"
            ) from None
        return covariance

    def diagonal(self) -> Array:
        """(p m,) variances of the coefficients."""
        return np.square(self.errors()[: self.coefficients])


@dataclass(frozen=True, eq=False)
class DenseCovariance(ParameterCovariance):
    """A covariance with one root (k, r) over (gamma, further parameters).

    >>> V = DenseCovariance(Frame(np.array([0.0, 5.0]), np.array([1.0, 2.0]), 0), 1, root=np.diag([1.0, 3.0]))
    >>> V.half(np.array([[1.0, 5.0], [0.0, 1.0]]))
    array([[1. , 0. ],
           [0. , 1.5]])
    >>> V.matrix()
    array([[ 57.25, -11.25],
           [-11.25,   2.25]])
    """

    root: Array | LazyArray = None  # type: ignore[assignment]

    parts: ClassVar[tuple[str, ...]] = ("root",)

    def _parts_with_columns(self, root: Array) -> dict[str, Any]:
        added = len(root) - self.size
        return {"root": np.hstack([np.pad(self.root, ((0, added), (0, 0))), root])}

    def condition_on(self, entries: Array) -> Self:
        B = self._raw_columns()[entries]
        # N with B N = 0 and N'N = I
        N = np.linalg.qr(B.T, mode="complete")[0][:, len(B) :]
        return replace(self, root=self.root @ N, variances=None)

    @classmethod
    def of_raw_root(
        cls, frame: Frame, m: int, root: Array, further: tuple[str, ...] = ()
    ) -> "DenseCovariance":
        """From a root over (vec beta, further parameters)."""
        k = len(frame.scale) * m
        in_frame = np.vstack([_from_raw(frame, root[:k]), root[k:]])
        return cls(frame, m, further, root=in_frame)

    def of_least_norm(self, N: Array | None) -> "DenseCovariance":
        """The covariance of the coefficients beta - N N^+ beta, N (p, j)."""
        if N is None:
            return self
        k = self.coefficients
        raw = self.raw_root()
        of_beta = raw[:k].reshape(len(N), -1)
        raw[:k] = (of_beta - N @ (np.linalg.pinv(N) @ of_beta)).reshape(k, -1)
        return self.of_raw_root(self.frame, self.m, raw, self.further)

    @classmethod
    def of_sample(
        cls,
        frame: Frame,
        sample: Array,
        log_aux: Array | None = None,
        further: tuple[str, ...] = (),
        weight: Array | None = None,
    ) -> "DenseCovariance":
        """The covariance of draws or replicates of beta (S, p, m) and of further parameters (S, a)."""
        S, p, m = sample.shape
        k = p * m + len(further)
        if S < 2:  # a single draw has no spread
            return cls(frame, m, further, np.ones(k, dtype=bool), root=np.zeros((k, 1)))
        rows = sample.reshape(S, -1)
        if log_aux is not None:
            rows = np.hstack([rows, log_aux])
        if weight is None:
            centred = (rows - rows.mean(0)) / np.sqrt(S - 1.0)
        else:
            centred = (rows - weight @ rows) * np.sqrt(weight)[:, None]
        # V = R'R of the QR of the centred sample
        covariance = cls.of_raw_root(frame, m, centred.T, further)
        R = np.linalg.qr(covariance.root.T, mode="r")
        return replace(covariance, root=np.ascontiguousarray(R.T))

    def _half(self, G: Array) -> Array:
        return G @ self.root

    def scale_by(self, factor: float) -> Self:
        if self.variances is None:
            variances = None
        else:
            variances = self.variances * factor
        root = np.array(self.root)
        root[: self.coefficients] *= np.sqrt(factor)
        return replace(self, root=root, variances=variances)

    def _root_of_rows(self, X: Any) -> Array:
        k = self.coefficients
        product = self._in_frame(X) @ self.root[:k].reshape(len(self.frame.scale), -1)
        r = self.root.shape[1]
        B = product.reshape(len(product), predictors_of(X, self.m), r)
        if self.missing is not None:
            missing = self.missing[:k].reshape(-1, self.m).any(1)
            B[(X[:, missing] != 0).any(1)] = np.nan
        return B

    @property
    def _further_root(self) -> Array:
        return np.asarray(self.root[self.coefficients :])

    @property
    def _row_width(self) -> int:
        return self.m * self.root.shape[1]

    def _in_frame(self, X: Any) -> Any:
        """Rows X, or their linear combinations, in the frame."""
        if isinstance(X, PredictorColumns):
            return X.map(self._in_frame)
        return self.frame.differences(np.asarray(X))

    def raw_root(self) -> Array:
        root = self._raw_columns()
        if self.missing is not None:
            root[self.missing] = np.nan
        return root

    def _raw_columns(self) -> Array:
        """(k, r), `root` over the raw coefficients and further parameters."""
        k = self.coefficients
        in_frame = self.root[:k].reshape(len(self.frame.scale), -1)
        of_beta = self.frame.to_raw(in_frame).reshape(k, -1)
        return np.vstack([of_beta, self.root[k:]])


@dataclass(frozen=True, eq=False)
class NoCovariance(DenseCovariance):
    """All parameters without a standard error; files name it."""

    compact = True

    @classmethod
    def of(cls, p: int, m: int, further: tuple[str, ...] = ()) -> "NoCovariance":
        """Of p m coefficients."""
        k = p * m + len(further)
        missing = np.ones(k, dtype=bool)
        return cls(Frame.of_raw(p), m, further, missing, root=np.zeros((k, 1)))


@dataclass(frozen=True, eq=False)
class MatrixCovariance(ParameterCovariance):
    """A user's covariance matrix of raw coefficients; combinations of it may cancel
    digits."""

    columns: tuple[str, ...] = ()  # for messages, if the names are known
    given: Array = None  # type: ignore[assignment]  # (p m, p m)

    parts: ClassVar[tuple[str, ...]] = ("given",)

    @classmethod
    def of(cls, V: Array, m: int, columns: tuple[str, ...] = ()) -> "MatrixCovariance":
        """From a symmetric matrix, nan in rows and columns that are missing."""
        missing = np.isnan(np.diagonal(V))
        complete = np.where(missing[:, None] | missing, 0.0, V)
        frame = Frame.of_raw(len(V) // m)
        return cls(frame, m, (), missing, columns=columns, given=complete)

    def _errors(self) -> Array:
        return np.sqrt(np.diagonal(self.given))

    @cached_property
    def _root(self) -> Array:
        return root_of_square(self.given)

    def _half(self, G: Array) -> Array:
        # largest relative rounding error of a variance from a matrix
        max_rounding = 1e-4
        variance = np.einsum("rj,rj->r", G @ self.given, G)
        size = np.abs(G) @ np.abs(self.given)
        # rounding error of the matrix in g'V g
        noise = np.finfo(float).eps * np.einsum("rj,rj->r", size, np.abs(G))
        cancelled = np.flatnonzero(noise > max_rounding * variance)
        if cancelled.size:
            contribution = (size * np.abs(G))[cancelled[0]].reshape(-1, self.m).sum(1)
            names = self.columns or [f"number {j}" for j in range(len(contribution))]
            contribution[[c == "Intercept" for c in names]] = 0.0
            name = names[int(contribution.argmax())]
            raise DataError(
                f"covariance=: the column {name!r} lies so far from zero, in its standard deviations, that digits of this matrix "
                "cancel. Pass the name of the kind instead, such as covariance='HC3', or centre the column"
            )
        return G @ self._root

    def scale_by(self, factor: float) -> "MatrixCovariance":
        return replace(self, given=self.given * factor)


@dataclass(frozen=True, eq=False)
class FactoredCovariance(ParameterCovariance):
    """D (I - Q Q' + Q S Q') D over the coefficients of more columns than rows, D = diag(spread), Q'Q = I.

    >>> V = FactoredCovariance.of(np.array([1.0, 2.0]), np.array([[0.6], [0.8]]), np.array([[0.25]]))
    >>> V.matrix(), V.diagonal()
    (array([[ 0.73, -0.72],
           [-0.72,  2.08]]), array([0.73, 2.08]))
    """

    spread: Array = None  # type: ignore[assignment]  # (p m,)
    axes: Array = None  # type: ignore[assignment]  # Q (p m, r)
    inner: Array = None  # type: ignore[assignment]  # S (r, r), or (r + a, r + a) with further parameters

    parts: ClassVar[tuple[str, ...]] = ("spread", "axes", "inner")
    compact = True

    @classmethod
    def of(
        cls,
        spread: Array,
        axes: Array,
        inner: Array,
        m: int = 1,
        further: tuple[str, ...] = (),
    ) -> "FactoredCovariance":
        """From its parts, over raw columns."""
        return cls(
            Frame.of_raw(len(spread) // m),
            m,
            further,
            spread=spread,
            axes=axes,
            inner=inner,
        )

    def _parts_with_columns(self, root: Array) -> dict[str, Any]:
        rounding = 1e-8  # a smaller remainder, relative to the columns, is rounding
        k = self.coefficients
        r = self.axes.shape[1]
        E = np.divide(
            root[:k],
            self.spread[:, None],
            out=np.zeros_like(root[:k]),
            where=self.spread[:, None] > 0.0,
        )
        # D (I - Q Q' + Q S Q' + E E') D, with new axes for the part of E outside Q,
        # beyond rounding
        U, size, _ = np.linalg.svd(
            E - self.axes @ (self.axes.T @ E), full_matrices=False
        )
        U = U[:, size > rounding * np.linalg.norm(E)]
        axes = np.hstack([self.axes, U - self.axes @ (self.axes.T @ U)])
        over = np.vstack([axes.T @ E, root[k:]])
        inner = np.eye(len(over))
        old = np.r_[:r, axes.shape[1] : len(over)]
        inner[np.ix_(old, old)] = np.pad(self.inner, (0, len(root) - self.size))
        return {"axes": axes, "inner": inner + over @ over.T}

    def _half(self, G: Array) -> Array:
        k = self.coefficients
        g = G[:, :k] * self.spread
        a = g @ self.axes
        # |g - a Q'|^2 + |a S^(1/2)|^2 avoids the cancellation of |g|^2 - |a|^2
        inner_gradients = np.hstack([a, G[:, k:]])
        return np.hstack(
            [g - a @ self.axes.T, inner_gradients @ root_of_square(self.inner)]
        )

    def _errors(self) -> Array:
        S = root_of_square(self.inner)
        Q = self.axes
        r = self.axes.shape[1]
        # row j of I - QQ' has the square 1 - |Q_j|^2 = (1 - |Q_j|)(1 + |Q_j|)
        size = np.linalg.norm(Q, axis=1)
        free = np.where(size < 1.0, (1.0 - size) * (1.0 + size), 0.0)
        of_beta = self.spread * np.sqrt(free + np.square(Q @ S[:r]).sum(1))
        return np.concatenate([of_beta, np.linalg.norm(S[r:], axis=1)])

    def scale_by(self, factor: float) -> "FactoredCovariance":
        return replace(self, spread=self.spread * np.sqrt(factor))

    def _matrix(self) -> Array:
        return self.times(np.eye(self.coefficients))

    def times(self, B: Array) -> Array:
        # D D B + D Q (S - 1) Q' D B, without the matrix.
        r = self.axes.shape[1]
        DQ = self.spread[:, None] * self.axes
        seen = (self.inner[:r, :r] - np.eye(r)) @ (DQ.T @ B)
        return (np.square(self.spread) * B.T).T + DQ @ seen

    def draws(self, rng: Generator, size: int) -> Array:
        """D (z - Q Q'z + Q S^(1/2) w) of standard normal z and w."""
        k = self.coefficients
        r = self.axes.shape[1]
        S = root_of_square(self.inner)
        z = rng.standard_normal((size, k))
        w = rng.standard_normal((size, S.shape[1])) @ S.T
        z += (w[:, :r] - z @ self.axes) @ self.axes.T
        z *= self.spread
        return np.hstack([z, w[:, r:]])


@dataclass(frozen=True, eq=False)
class ArrowCovariance(DenseCovariance):
    """blkdiag over groups of R_g R_g' + W W': coefficients of groups, and a `root` W that
    contributes to all parameters.

    Columns of groups are raw in the frame.

    >>> V = ArrowCovariance(
    ...     Frame.of_raw(3), 1, places=np.array([[1], [2]]), blocks=np.array([[[1.0]], [[2.0]]]), root=np.array([[3.0], [0.0], [1.0]])
    ... )
    >>> V.matrix()
    array([[9., 0., 3.],
           [0., 1., 0.],
           [3., 0., 5.]])
    """

    places: Array = None  # type: ignore[assignment]  # (G, K) the entries of each group in vec beta
    blocks: Array = None  # type: ignore[assignment]  # R (G, K, K)

    parts: ClassVar[tuple[str, ...]] = ("places", "blocks", "low")
    compact = True

    # the groups have as many columns as coefficients
    raw_root = ParameterCovariance.raw_root

    @property
    def low(self) -> Array:
        """The name of the root in files."""
        return np.asarray(self.root)

    @cached_property
    def _root(self) -> Any:
        """(k, G K), the sparse matrix of the roots R_g."""
        from scipy.sparse import csr_array

        groups, K = self.places.shape
        columns = np.arange(groups * K).reshape(groups, 1, K)
        where = np.broadcast_arrays(self.places[:, :, None], columns)
        entries = (self.blocks.ravel(), tuple(v.ravel() for v in where))
        return csr_array(entries, shape=(self.size, groups * K))

    def _half(self, G: Array) -> Array:
        return np.hstack([(self._root.T @ G.T).T, super()._half(G)])

    def _errors(self) -> Array:
        variances = np.square(self._raw_columns()).sum(1) + self._root.power(2).sum(1)
        return np.sqrt(variances)

    def scale_by(self, factor: float) -> Self:
        blocks = self.blocks * np.sqrt(factor)
        return replace(super().scale_by(factor), blocks=blocks)

    def block(self, entries: Array) -> Array:
        low = self._raw_columns()[entries]
        R = self._root[entries]
        return low @ low.T + (R @ R.T).toarray()

    def _matrix(self) -> Array:
        return self.block(np.arange(self.coefficients))

    def times(self, B: Array) -> Array:
        low = self._raw_columns()[: self.coefficients]
        R = self._root[: self.coefficients]
        return low @ (low.T @ B) + R @ (R.T @ B)

    def of_rows(self, X: Any) -> Array:
        return self._group_covariances(X) + super().of_rows(X)

    def variances_of_rows(self, X: Any, J: Array, A: Array) -> Array:
        of_groups = self._group_covariances(X)
        variances = np.einsum("ndi,nij,ndj->nd", J, of_groups, J, optimize=True)
        # the groups share no root with the further parameters
        return variances + super().variances_of_rows(X, J, A)

    def _group_covariances(self, X: Any) -> Array:
        """(n, m, m), the part of the groups in the covariances of the linear predictors at rows X."""
        from scipy.sparse import csr_array

        k = self.coefficients
        m = predictors_of(X, self.m)
        columns = columns_of(X)
        if isinstance(columns, LazyColumns):
            rows = columns.sparse()
        else:
            rows = csr_array(columns)
        if isinstance(X, PredictorColumns):
            owners = (X.owner == np.arange(m)[:, None])[..., None]
            roots = [self._root[:k].multiply(owner).tocsr() for owner in owners]
        else:
            roots = [self._root[j:k:m] for j in range(m)]
        # of eta_j: a row of X has entries in few groups
        group_roots = [rows @ root for root in roots]
        covariances = np.empty((rows.shape[0], m, m))
        for i in range(m):
            for j in range(i + 1):
                covariances[:, i, j] = covariances[:, j, i] = (
                    (group_roots[i] * group_roots[j]).sum(1).ravel()
                )
        return covariances

    def _in_frame(self, X: Any) -> Any:
        if not isinstance(X, LazyColumns):
            return super()._in_frame(X)
        frame = self.frame.of_columns(X.head_places)
        return replace(X, head=frame.differences(X.head))

    def draws(self, rng: Generator, size: int) -> Array:
        low = self._raw_columns()
        draws = rng.standard_normal((size, low.shape[1])) @ low.T
        z = rng.standard_normal((size, self.places.size))
        draws += (self._root @ z.T).T
        return np.nan_to_num(draws)


def _from_raw(frame: Frame, root: Array) -> Array:
    """(p m, r) over gamma of a root over vec beta."""
    return frame.from_raw(root.reshape(len(frame.scale), -1)).reshape(root.shape)


def predictors_of(X: Any, m: int) -> int:
    """The number of linear predictors of rows X (n, p), m if every column is in each."""
    return X.width if isinstance(X, PredictorColumns) else m


# ---- roots ------------------------------------------------------------------------------------------------------------------


def root_of_factor(R: Array, frame: Frame) -> Array:
    """(R T)^-1 (p, p): the root in the frame of (R'R)^-1, R the triangular factor of raw columns, in the precision of R."""
    F = R @ frame.T.astype(R.dtype)
    # T is triangular where the intercept is the first column
    if frame.intercept:
        F = factor_of(F)
    return np.asarray(inverse_upper(F), dtype=float)
