"""A log density as arithmetic on numbers, in plain Python code that numba compiles, and densities that noise and priors share."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from probreg.special import LOG_2PI, log_student_constant, stdtr

# of a row: log p and its slopes over eta and the log of the nuisance parameter
Row = tuple[float, float, float]


class CompiledDensity(NamedTuple):
    """Plain functions, `row` or `tile` or both, that use `math.exp`, `log`, `log1p` and `expm1`, `abs`, `min`, `max` and arithmetic only.

    `row(y, eta, t) -> (log p, d log p / d eta, d log p / d log aux)`: one row with one linear predictor; the last is 0.0
    without an unknown nuisance parameter. A prior uses `row(0.0, r, t)` with a standardised entry r. With several nuisance
    parameters it is `row(y, eta, t, slopes) -> (log p, d log p / d eta)`, and it fills slopes[k], the slope over the log of the k-th.

    `tile(y, eta, t, log_p, slope)`: the rows y (b,) with predictors eta (m, >= b); it fills log_p[:b] and
    slope[:, :b], the slopes over each predictor and then over log aux. Loops run over rows innermost. A density `by_predictors` uses
    its `row`, and every other loop its `tile` if it has both.

    `hessian(y, eta, t, curve)`, next to a `tile` without nuisance parameters, fills curve[:, :b] with -d2 log p / d eta_c d eta_d, the
    pairs of predictors c <= d in the order (0, 0), (0, 1), ..., (1, 1), .... Without it NumPy sums the derivatives over rows, which takes
    as long for one predictor.

    `product(y, eta, t) -> (a, e, d log p / d eta)`, next to a `row` without an unknown nuisance parameter and with log p = a - log(1 + e),
    0 <= e <= 1: sums over rows then take one logarithm of a product of many.

    `settings(values, constants) -> t`: the numbers t from the nuisance parameters and `SmoothLikelihood.constants`, in arithmetic of
    numbers and arrays (`numpy.log` etc.). With it compiled code searches over nuisance parameters, and they may have linear predictors:
    for a density with `by_predictors`, eta (1 + a, b) has the linear predictor of the mean and then the log of each of the a nuisance
    parameters, minus t[:a]; the constants follow in t.

    Where a row's response is several numbers, y is their array: (c,) in a `row`, (b, c) in a `tile` or its `hessian`. A plain
    function of a module, of the same arithmetic, may be called from either.

    `t` is an array of parameters common to all rows: see `settings` of its likelihood or prior. Terms of log p in y alone
    may be omitted if `SmoothLikelihood.base_measure` contains them.
    """

    row: Callable[..., Any] | None = None
    tile: Callable[..., Any] | None = None
    hessian: Callable[..., Any] | None = None
    product: Callable[..., Any] | None = None
    settings: Callable[..., Any] | None = None
    by_predictors: bool = False

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """Its plain functions."""
        parts = self.row, self.tile, self.hessian, self.product, self.settings
        return [f for f in parts if f is not None]

    @property
    def fills_slopes(self) -> bool:
        """Whether `row` fills an array of slopes over several nuisance parameters."""
        return self.row is not None and self.row.__code__.co_argcount == 4

    @property
    def unfit(self) -> str | None:
        """The reason that it cannot be compiled, or None.

        >>> CompiledDensity(lambda y, eta, t: (-eta, -1.0, 0.0)).unfit is None
        True
        """
        for f in self.functions:
            if not isinstance(f, FunctionType):
                return f"{f!r} is no plain function"
            if f.__closure__:
                names = ", ".join(f.__code__.co_freevars)
                return f"{f.__name__} uses {names} of the function around it; numbers that vary go through `settings`"
            unknown = [
                k for k in f.__code__.co_names if not _is_known(f.__globals__.get(k))
            ]
            if unknown:
                return f"{f.__name__} uses {unknown[0]}, which is neither a number nor a function of math or of such arithmetic"
        return None


def _is_known(value: Any) -> bool:
    """Whether a value is a number, a function of math, a module, a plain function of these, or no global at all, so that the name of stored
    code identifies it."""
    if isinstance(value, FunctionType):
        return not value.__closure__ and all(
            _is_known(value.__globals__.get(k)) for k in value.__code__.co_names
        )
    return (
        value is None
        or isinstance(value, int | float | ModuleType)
        or value in (*vars(math).values(), np.exp, np.log, np.log1p, np.sqrt)
    )


def keep_values(values: Any, constants: Any) -> Any:
    """Return the nuisance parameters themselves, as the `settings` of a density."""
    return values


def with_functions(f: Callable[..., Any], parts: dict[str, Any], name: str = "") -> Any:
    """Return the same code with `parts` as its globals, such as the functions of a family that a row for all families calls."""
    assert isinstance(f, FunctionType)
    function = FunctionType(
        f.__code__, {**f.__globals__, **parts}, f.__name__, f.__defaults__
    )
    function.__module__, function.__qualname__ = f.__module__, f.__qualname__ + name
    return function


def forget_inherited(cls: Any, methods: frozenset[str]) -> None:
    """Drop an inherited density from a class that overrides one of these methods: the base's density no longer applies."""
    if methods & vars(cls).keys() and "compiled_density" not in vars(cls):
        cls.compiled_density = None


Array = np.ndarray


class StandardNormal:
    """log f(r) = -r^2 / 2 - log(2 pi) / 2."""

    def standard_log_prob(self, r: Array) -> Array:
        return -0.5 * r * r - 0.5 * LOG_2PI

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        """g = -d log f / dr and h = -d2 log f / dr2."""
        return r, np.ones_like(r)

    def standard_sample(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        return rng.standard_normal(shape)


class StandardStudent:
    """Student's t on nu degrees of freedom: log f(r) = log f(0) - (nu + 1) / 2 log(1 + r^2 / nu)."""

    nu: Any

    @property
    def log_peak(self) -> Any:
        """log f(0)."""
        return log_student_constant(self.nu)

    def standard_log_prob(self, r: Array) -> Array:
        return self.log_peak - (self.nu + 1) / 2 * np.log1p(r * r / self.nu)

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        """g = (nu + 1) r / (nu + r^2) and h = dg/dr, negative beyond r^2 = nu."""
        nu = self.nu
        d = nu + r * r
        return (nu + 1) * r / d, (nu + 1) / d * (nu - r * r) / d

    def standard_cdf(self, r: Any) -> Any:
        return stdtr(self.nu, r)

    def standard_sample(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        return rng.standard_t(self.nu, shape)


@dataclass(frozen=True)
class CustomDensity:
    """`CustomDensity(log_prob, draw)` is used as `pm.Normal` is: called with a name for a variable, or `.dist` for the distribution alone.

    `log_prob(value, *parameters)` is symbolic, elementwise, or over the last axis if `signature` makes a draw a vector;
    `draw(*parameters, rng, size)` gives draws, for prior predictives.
    """

    log_prob: Callable[..., Any]
    draw: Callable[..., Any]
    signature: str | None = None

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "logp": self.log_prob,
            "random": self.draw,
            "signature": self.signature,
        }

    def __call__(
        self, name: str, *, dims: Any = None, observed: Any = None, **parameters: Any
    ) -> Any:
        import pymc as pm

        values = parameters.values()
        return pm.CustomDist(
            name, *values, dims=dims, observed=observed, **self._options
        )

    def dist(self, **parameters: Any) -> Any:
        import pymc as pm

        return pm.CustomDist.dist(*parameters.values(), **self._options)


def opaque_function(
    value: Callable[[Any], Any], gradient: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Return a symbolic scalar function of a symbolic matrix from NumPy functions of its value and gradient."""
    import numpy as np
    import pytensor.tensor as pt
    from pytensor.compile.ops import wrap_py
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

    slope = wrap_py(itypes=[pt.dmatrix], otypes=[pt.dmatrix])(gradient)

    class Value(Op):
        def make_node(self, x: Any) -> Apply:
            return Apply(self, [pt.as_tensor_variable(x)], [pt.scalar()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            outputs[0][0] = np.asarray(value(inputs[0]), dtype=float)

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
            return [cotangents[0] * slope(inputs[0])]

    return Value()
