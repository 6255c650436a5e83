"""exp, log, log1p and expm1 without branches or table look-ups, so that a loop over them becomes vector instructions.

A compiled loop that calls the C library's exp works on one number at a time; each function here is about fifteen
lines of arithmetic, several times as fast. Errors are below 1 unit in the last place for exp, below 2 for log and log1p and below 4 for expm1,
except for numbers below 2.3e-308 (subnormal numbers), where exp and log are not accurate.
Ends: exp overflows to inf, log(0) is -inf, log of a negative number is nan, and nan stays nan. numba is imported here.
Sources: Cody & Waite 1980 for the reduction of the argument; Muller et al., Handbook of Floating-Point Arithmetic, 2018.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# Contraction to fused multiply-adds only: reassociation would undo the exact steps below.
_ALONE: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # only compiled code calls them
inline = njit(
    forceinline=True, nogil=True, error_model="numpy", fastmath={"contract"}, **_ALONE
)

# parts of a function that may add in another order
summing = njit(
    forceinline=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "contract", "nsz"},
)

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = (
    0.693145751953125,
    1.42860682030941723212e-6,
)  # the first has 20 bits: times an integer it is exact
_ROUND = 6755399441055744.0  # 1.5 2^52: adding it rounds to an integer, stored in the last bits
_ROUND_BITS = 0x4338000000000000
# |r| <= log(2) / 2: the next term is 4e-18
_EXP = np.array([1.0 / math.factorial(k) for k in range(14)])
# of 2 atanh(s), s^2 <= 0.0295: the next term is 3e-18
_LOG = np.array([2.0 / (2 * k + 1) for k in range(12)])
_HALF_ROOT_BITS = 0x3FE6A09E667F3BCD  # sqrt(1/2)
_TOP, _BOTTOM = 709.782712893384, -708.3964185322641


def _bitcast(kind: Any, source: Any, target: Any) -> Any:
    """Return a compiled function that reads the same 64 bits as another type, an LLVM `kind`."""

    def read(context: Any, x: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            return builder.bitcast(args[0], kind)

        return target(source), generate

    return intrinsic(read)


_as_float = _bitcast(ir.DoubleType(), types.int64, types.float64)
_as_bits = _bitcast(ir.IntType(64), types.float64, types.int64)


@inline
def exp(x: float) -> float:
    """e^x = 2^k e^r, k the integer nearest x / log 2."""
    # numba's min and max take 0.1 s to compile
    if x > _BOTTOM:
        inside = x
    else:
        inside = _BOTTOM
    inside = inside if inside < _TOP else _TOP
    t = inside * _LOG2_E + _ROUND
    k = _as_bits(t) - _ROUND_BITS
    n = t - _ROUND
    # r = x - k log 2 with log 2 in two parts, |r| <= log(2) / 2; e^r = 1 + r + r^2 (1/2! + r/3! + ...).
    r = (inside - n * _LN2_HIGH) - n * _LN2_LOW
    p = _EXP[13]
    for i in range(12, 1, -1):
        p = p * r + _EXP[i]
    # in two factors, because 2^1024 overflows although 2^1024 e^r may not
    half = k >> 1
    value = (
        (p * r * r + r + 1.0)
        * _as_float((half + 1023) << 52)
        * _as_float((k - half + 1023) << 52)
    )
    value = math.inf if x > _TOP else value
    return value if x == x else x


@inline
def log(x: float) -> float:
    """log x = k log 2 + log m, m in [sqrt(1/2), sqrt 2); log m = 2 atanh((m - 1) / (m + 1)) by its series."""
    bits = _as_bits(x)
    k = (bits - _HALF_ROOT_BITS) >> 52
    f = _as_float(bits - (k << 52)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = _LOG[11]
    for i in range(10, 0, -1):
        p = p * z + _LOG[i]
    # With m = 1 + f, s = f / (2 + f): log m = 2 (s + s^3/3 + s^5/5 + ...) = f - (h - s (h + z p)), h = f^2 / 2.
    h = 0.5 * f * f
    value = k * _LN2_HIGH - ((h - (s * (h + p * z) + k * _LN2_LOW)) - f)
    if x == 0.0:
        value = -math.inf
    elif not x > 0.0:
        value = math.nan
    return value if x < math.inf else x


@inline
def log1p(x: float) -> float:
    """log(1 + x) = log u + (x - (u - 1)) / u with u = 1 + x as rounded."""
    u = 1.0 + x
    value = log(u) + (x - (u - 1.0)) / u
    if math.fabs(u) < math.inf and u > 0.0:
        return value
    return log(u)


@inline
def expm1(x: float) -> float:
    """e^x - 1, by its series x + x^2 / 2! + ... if |x| < 0.35."""
    p = _EXP[13]
    for i in range(12, 0, -1):
        p = p * x + _EXP[i]
    far = exp(x) - 1.0
    return p * x if math.fabs(x) < 0.35 else far


VECTOR: dict[Any, Any] = {math.exp: exp, math.log: log, math.log1p: log1p}
VECTOR |= {math.expm1: expm1}
VECTOR |= {np.exp: exp, np.log: log, np.log1p: log1p}
