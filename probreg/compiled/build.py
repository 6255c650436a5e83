"""Compile the loops of a density: one copy of each template with the density inserted, kept on disk.

The name of the copy contains a digest of the density's code, so that numba finds a stored copy in the next process, but
not a copy of a changed density.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from probreg.compiled.density import CompiledDensity, with_functions
from probreg.errors import Incompatible

_SUMS = {
    "reassoc",
    "contract",
    "nsz",
}  # sums may be taken in another order; infinities and nan are kept
_AS_WRITTEN = {"contract"}
_HOW: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_INNER = _HOW | {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # only compiled code calls them


class Loops(NamedTuple):
    """The compiled templates of `probreg.compiled.loops` for one likelihood: see there."""

    gradient: Callable[..., float]
    derivatives: Callable[..., float]
    values: Callable[..., None]


@cache
def loops_of(density: CompiledDensity) -> Loops:
    """Return the compiled loops of a likelihood's density.

    The first use compiles each, which takes about a second. Incompatible for densities that cannot be compiled.
    """
    from probreg.compiled import elementary, loops

    if density.unfit:
        raise Incompatible(f"this density cannot be compiled: {density.unfit}")

    name = _digest(density)
    if density.tile is not None and not density.by_predictors:
        tile = _compile_density(density.tile)
    else:
        functions = {"row": _compile_density(density.row)}
        template: Callable[..., None] = loops.tile_of_rows
        if density.fills_slopes:
            template = loops.tile_of_rows_with_slopes
        if density.by_predictors:
            template = loops.tile_of_predictors
            functions["settings"] = _compile_density(density.settings)
            functions["exp"] = elementary.exp
        if density.by_predictors and not density.fills_slopes:
            filled = with_functions(loops.row_with_slopes, functions)
            functions["row"] = _inline(filled, _AS_WRITTEN)
        tile = _inline(with_functions(template, functions))
    parts = {
        "tile": tile,
        "weigh": _inline(loops.weigh),
        "by_predictors": density.by_predictors,
    }
    if density.product is None:
        parts["summed"] = _inline(with_functions(loops.sum_of_tile, parts))
    else:
        products = {"log1p": elementary.log1p}
        products["sum_of_log1p"] = _inline(with_functions(loops.sum_of_log1p, products))
        products["product"] = _compile_density(density.product)
        parts["summed"] = _inline(with_functions(loops.sum_of_products, products))
    if density.hessian is not None:
        parts["hessian"] = _compile_density(density.hessian)
    for f in (loops.add_products, loops.add_slopes, loops.weighted_products):
        parts[f.__name__] = _inline(f)
    parts["gradient_of_tile"] = _inline(with_functions(loops.gradient_of_tile, parts))
    return Loops(
        *(
            _store_function(f, parts, name)
            for f in (loops.gradient, loops.derivatives, loops.values)
        )
    )


def _compile_density(f: Callable[..., Any] | None) -> Callable[..., Any]:
    assert f is not None  # checked by callers
    return _inline(_vectorise_density(f), _AS_WRITTEN)


@cache
def entries_of(density: CompiledDensity) -> Callable[..., tuple[float, float]]:
    """Return the compiled sum of a prior's density over coefficients."""
    from probreg.compiled import loops

    return _store_function(
        loops.entries,
        {"row": _compile_density(density.row)},
        _digest(density),
    )


def _functions_of_hyperparameters(
    scaled: bool, compiled: Callable[..., Any]
) -> dict[str, Any]:
    """Return the functions that `affine_log_density` calls for log terms and, if coefficients are `scaled`, for hyperparameters."""
    from probreg.compiled import affine

    parts = {"add_terms": compiled(affine.add_log_terms)}
    if scaled:
        parts["fill_root"] = compiled(affine.correlation_root)
        parts["add_root_slopes"] = compiled(affine.add_correlation_slopes)
        for name, f in (
            ("move", affine.move_scaled),
            ("centred", affine.add_centred),
            ("noncentred", affine.add_noncentred),
            ("pull_back", affine.pull_back_scaled),
        ):
            parts[name] = compiled(with_functions(f, parts))
    return parts


@cache
def log_density_of(
    density: CompiledDensity,
    several: bool,
    other: CompiledDensity | None,
    unknown: bool,
    scaled: bool,
) -> Any:
    """Return `affine.affine_log_density` as a C function of the addresses of z, the slopes and a table of arrays (`addresses.table_of`).

    `density` is the density of a likelihood; a row's response is one number, or `several`. `other` is a prior's density of entries,
    if any; `unknown` is whether a nuisance parameter is a coordinate, and `scaled` whether there are
    hyperparameters.
    """
    from numba import types

    from probreg.compiled.addresses import arrays_at
    from probreg.compiled.affine import AffineData, Work
    from probreg.compiled.cache import cached_cfunc

    number = types.float64
    place = types.int64
    line, table, tiles, places, matrix_of_places = (
        types.Array(t, k, "C")
        for t, k in ((number, 1), (number, 2), (number, 3), (place, 1), (place, 2))
    )
    y = table if several else line
    data = types.NamedTuple(
        (tiles, matrix_of_places, y, line, table, line, line, table, line, table, line, table, places, *[line] * 4, table, places, table, table,
         matrix_of_places, places, table),
        AffineData,
    )  # fmt: skip
    work = types.NamedTuple((*[table] * 4, *[line] * 8, *[table] * 2), Work)
    pointer = types.CPointer(number)
    plain = plain_log_density(density, several, other, unknown, scaled)
    parts = {"arrays": arrays_at(types.Tuple((data, work)))}
    parts |= _functions_of_hyperparameters(scaled, _inline)
    if unknown:
        parts["settings"] = _compile_density(density.settings)
    compiled_function = with_functions(plain, parts)
    return cached_cfunc(
        number(pointer, pointer, place), error_model="numpy", fastmath=_SUMS
    )(compiled_function)


def plain_log_density(
    density: CompiledDensity,
    several: bool,
    other: CompiledDensity | None,
    unknown: bool,
    scaled: bool,
) -> Any:
    """Return `affine_log_density` before compilation, so that Python can call it."""
    from probreg.compiled import affine

    parts = {
        "gradient": loops_of(density).gradient,
        "entries": None if other is None else entries_of(other),
        "settings": density.settings if unknown else None,
        "move": None,
        "pull_back": None,
    }
    parts |= _functions_of_hyperparameters(scaled, lambda f: f)
    # numba checks only the file of the template for changes
    files = b"".join(
        Path(__file__).with_name(f).read_bytes() for f in ("loops.py", "addresses.py")
    )
    digests = (
        *("none" if d is None else _digest(d) for d in (density, other)),
        f"{several} {unknown} {scaled}",
    )
    name = hashlib.sha256(" ".join(digests).encode() + files).hexdigest()[:16]
    return with_functions(affine.affine_log_density, parts, f"_{name}")


@cache
def compile_stored(
    f: Callable[..., Any],
    called: tuple[Callable[..., Any], ...],
    once: tuple[Callable[..., Any], ...],
) -> Any:
    """Compile a function of a module and keep it on disk. The functions `called` from the same file are in an order such that each calls
    only earlier ones. The functions called `once` become part of their caller before type inference, because numba gives LLVM each
    function again with all functions that it calls. `uniform` and `density_at` come from `addresses`."""
    from numba import njit

    from probreg.compiled import addresses
    from probreg.compiled.cache import cached_njit

    parts: dict[str, Any] = {
        "uniform": addresses.uniform,
        "density_at": addresses.density_at,
    }
    for g in called:
        parts[g.__name__] = njit(inline="always" if g in once else "never", **_INNER)(
            with_functions(g, parts)
        )
    # numba checks only the file of f for changes
    seen = hashlib.sha256(Path(addresses.__file__).read_bytes()).hexdigest()[:16]
    return cached_njit(no_cfunc_wrapper=True, **_HOW)(
        with_functions(f, parts, f"_{seen}")
    )


def _vectorise_density(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return the plain function with the vectorisable exp, log and log1p in place of `math.exp` etc., and the functions that it
    calls likewise."""
    from probreg.compiled.elementary import VECTOR

    used = {
        k: plain.__globals__[k]
        for k in plain.__code__.co_names
        if k in plain.__globals__
    }
    parts = {k: VECTOR[v] for k, v in used.items() if callable(v) and v in VECTOR}
    namespace = {
        k: _compile_density(v) for k, v in used.items() if isinstance(v, FunctionType)
    }
    return with_functions(plain, parts | namespace)


def _inline(f: Callable[..., Any], fastmath: set[str] = _SUMS) -> Any:
    from numba import njit

    return njit(forceinline=True, fastmath=fastmath, **_INNER)(f)


def _store_function(f: Callable[..., Any], parts: dict[str, Any], name: str) -> Any:
    from probreg.compiled.cache import cached_njit

    return cached_njit(no_cfunc_wrapper=True, fastmath=_SUMS, **_HOW)(
        with_functions(f, parts, f"_{name}")
    )


def _digest(density: CompiledDensity) -> str:
    """Return a digest of the density's code, the numbers it names, and the files that numba does not check for changes."""
    digest = hashlib.sha256((Path(__file__).with_name("elementary.py")).read_bytes())
    digest.update(Path(__file__).read_bytes())
    for f in density.functions:
        digest.update(repr(_code_of_function(f)).encode())
    digest.update(str(density.by_predictors).encode())
    return digest.hexdigest()[:16]


def _code_of_function(f: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the code of a plain function, the numbers it names and the functions it calls."""
    assert isinstance(f, FunctionType)
    constants = {k: f.__globals__[k] for k in f.__code__.co_names if k in f.__globals__}
    numbers = {k: v for k, v in constants.items() if isinstance(v, int | float)}
    callees = [
        _code_of_function(constants[k])
        for k in sorted(constants)
        if isinstance(constants[k], FunctionType)
    ]
    return f.__name__, _code(f.__code__), sorted(numbers.items()), callees


def _code(code: CodeType) -> tuple[Any, ...]:
    inner = tuple(_code(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.co_code, code.co_names, inner
