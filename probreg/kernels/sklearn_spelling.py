"""Covariance functions as scikit-learn spells them, and back: words, numbers and specifications, no classes of either side.

KernelRidge takes a word with gamma, coef0 and degree, exp(-gamma |x - z|^2), exp(-gamma |x - z|_1), (gamma x'z + coef0)^degree, or a
kernel of its Gaussian processes; those are objects of classes that add, multiply and have powers, as ours do.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from probreg.arguments.scalars import shown_value
from probreg.errors import DataError, Incompatible

Spec = Mapping[str, Any]


def shown_number(value: Any) -> str:
    """A number, or a list of numbers, with fifteen digits."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown_number, value))}]"
    return f"{value:.15g}"


# ---- to scikit-learn -----------------------------------------------------------------------------------------------------


def process_kernel(spec: Spec, width: int) -> str | None:
    """The kernel of a GaussianProcessRegressor on `width` columns; None where it has none.

    >>> process_kernel({"name": "matern", "length": 2.0, "nu": 1.5, "scaled": False}, 1)
    'Matern(length_scale=2, nu=1.5)'
    """
    own = _PROCESS.get(spec["name"])
    return None if own is None else own(spec, width)


def _spell_fields(
    text: str, *fields: str, widths: float = np.inf, one_length: bool = False
) -> Callable[[Spec, int], str | None]:
    """The constructor with these fields of the specification in their places; on at most `widths` columns."""

    def spell(spec: Spec, width: int) -> str | None:
        if width > widths or (one_length and isinstance(spec["length"], list | tuple)):
            return None
        return text.format(*(shown_number(spec[field]) for field in fields))

    return spell


def _spell_parts(sign: str) -> Callable[[Spec, int], str | None]:
    def spell(spec: Spec, width: int) -> str | None:
        parts = [process_kernel(part, width) for part in spec["parts"]]
        if None in parts:
            return None
        return f"({sign.join(p for p in parts if p is not None)})"

    return spell


def _of_one(text: str, field: str) -> Callable[[Spec, int], str | None]:
    def spell(spec: Spec, width: int) -> str | None:
        part = process_kernel(spec["parts"][0], width)
        if part is None:
            return None
        return text.format(part, shown_number(spec[field]))

    return spell


def _of_columns(spec: Spec, width: int) -> str | None:
    whole = list(spec["columns"]) == list(range(width))
    if whole:
        return process_kernel(spec["parts"][0], width)
    return None


def _dot_product(offset: float) -> str:
    # its log of sigma_0 = 0 is no number unless it is fixed
    return f"DotProduct(sigma_0={shown_number(offset**0.5)}{'' if offset else ', sigma_0_bounds=' + repr('fixed')})"


_PROCESS: dict[str, Callable[[Spec, int], str | None]] = {
    "rbf": _spell_fields("RBF(length_scale={})", "length"),
    "matern": _spell_fields("Matern(length_scale={}, nu={})", "length", "nu"),
    "rational_quadratic": _spell_fields(
        "RationalQuadratic(length_scale={}, alpha={})",
        "length",
        "alpha",
        one_length=True,
    ),
    "periodic": _spell_fields(
        "ExpSineSquared(length_scale={}, periodicity={})", "length", "period", widths=1
    ),
    "linear": lambda spec, width: _dot_product(0.0),
    "polynomial": lambda spec, width: (
        f"{_dot_product(spec['offset'])} ** {spec['degree']}"
    ),
    "constant": _spell_fields("ConstantKernel({})", "variance"),
    "sum": _spell_parts(" + "),
    "product": _spell_parts(" * "),
    "scaled": _of_one("ConstantKernel({1}) * {0}", "variance"),
    "power": _of_one("({}) ** {}", "power"),
    "on": _of_columns,
}


def ridge_kernel(spec: Spec, width: int) -> tuple[float, str, dict[str, float]] | None:
    """What multiplies the kernel, the arguments of a KernelRidge on `width` columns, and the numbers in them; None without.

    >>> ridge_kernel({"name": "rbf", "length": 5.0, "scaled": False}, 10)
    (1.0, "kernel='rbf', gamma=0.02", {'gamma': 0.02})
    """
    if spec["name"] == "scaled":
        inner = ridge_kernel(spec["parts"][0], width)
        if inner is None:
            return None
        return (spec["variance"] * inner[0], *inner[1:])
    if spec["name"] == "linear":
        return 1.0, "kernel='linear'", {}
    if spec["name"] == "polynomial":
        numbers = {"gamma": 1.0, "coef0": spec["offset"], "degree": spec["degree"]}
        return 1.0, _arguments("polynomial", numbers), numbers
    if spec["name"] == "rbf" and not isinstance(spec["length"], list | tuple):
        # exp(-|x - z|^2 / (2 l^2)) = exp(-gamma |x - z|^2)
        numbers = {"gamma": 0.5 / spec["length"] ** 2}
        return 1.0, _arguments("rbf", numbers), numbers
    length = _laplacian_length(spec, width)
    if length is not None:
        return (
            1.0,
            _arguments("laplacian", {"gamma": 1.0 / length}),
            {"gamma": 1.0 / length},
        )
    text = process_kernel(spec, width)
    if text is None:
        return None
    return (1.0, f"kernel={text}", {})


def _arguments(word: str, numbers: Mapping[str, float]) -> str:
    return ", ".join(
        [
            f"kernel='{word}'",
            *(f"{name}={shown_number(v)}" for name, v in numbers.items()),
        ]
    )


def _laplacian_length(spec: Spec, width: int) -> float | None:
    """l where the function is exp(-|x - z|_1 / l): a Matern of nu 1/2 of each column, multiplied."""
    if spec["name"] == "product":
        parts = spec["parts"]
    else:
        parts = [spec]
    lengths = set()
    seen = []
    for part in parts:
        if part["name"] == "on":
            inner = part["parts"][0]
            columns = part["columns"]
        else:
            inner = part
            columns = range(width)
        if (
            inner["name"] != "matern"
            or inner["nu"] != 0.5
            or isinstance(inner["length"], list | tuple)
        ):
            return None
        lengths.add(inner["length"])
        seen += [tuple(columns)]
    if len(lengths) == 1 and sorted(seen) == [(j,) for j in range(width)]:
        return lengths.pop()
    return None


# ---- from scikit-learn ---------------------------------------------------------------------------------------------------


def spec_of_sklearn(
    kernel: Any, gamma: float | None, coef0: float, degree: int, width: int
) -> dict[str, Any]:
    """The specification of a word of KernelRidge, or of an object of scikit-learn's Gaussian processes, on `width` columns."""
    if isinstance(kernel, str):
        if kernel not in _WORDS:
            raise DataError(
                f"kernel is one of {', '.join(_WORDS)}, or an object of scikit-learn's, got {kernel!r}"
            )
        # gamma=None is one over the number of columns there
        return _WORDS[kernel](
            1.0 / width if gamma is None else gamma, coef0, degree, width
        )
    kind = type(kernel)
    if kind.__module__.startswith("sklearn.gaussian_process.kernels"):
        read = _OBJECTS.get(kind.__name__)
    else:
        read = None
    if read is None:
        raise Incompatible(
            f"kernel is a word or an object of scikit-learn's that has a counterpart here, got {shown_value(kernel)}"
        )
    return read(kernel, width)


def _rbf(length: Any) -> dict[str, Any]:
    return {"name": "rbf", "length": _as_numbers(length), "scaled": False}


def _matern(length: Any, nu: float) -> dict[str, Any]:
    if nu == np.inf:
        return _rbf(length)
    return {
        "name": "matern",
        "length": _as_numbers(length),
        "nu": nu,
        "scaled": False,
    }


def _as_numbers(value: Any) -> float | list[float]:
    if np.ndim(value):
        return [float(v) for v in value]
    return float(value)


def _scaled_spec(factor: float, spec: dict[str, Any]) -> dict[str, Any]:
    if factor == 1.0:
        return spec
    return {"name": "scaled", "parts": [spec], "variance": float(factor)}


def _of_laplacian(gamma: float, width: int) -> dict[str, Any]:
    alone = _matern(1.0 / gamma, 0.5)
    if width == 1:
        return alone
    return {
        "name": "product",
        "parts": [
            {"name": "on", "parts": [alone], "columns": [j]} for j in range(width)
        ],
    }


def _of_polynomial(gamma: float, coef0: float, degree: int) -> dict[str, Any]:
    # (gamma x'z + c)^d = gamma^d (x'z + c / gamma)^d
    return _scaled_spec(
        gamma**degree, {"name": "polynomial", "degree": degree, "offset": coef0 / gamma}
    )


def _of_sine(kernel: Any, width: int) -> dict[str, Any]:
    if width > 1:
        raise Incompatible(
            "ExpSineSquared is of the distance of rows here and of each column there: it is the same of one column"
        )
    return {
        "name": "periodic",
        "period": float(kernel.periodicity),
        "length": float(kernel.length_scale),
    }


def _of_product_kernel(kernel: Any, width: int) -> dict[str, Any]:
    linear = {"name": "linear"}
    offset = float(kernel.sigma_0) ** 2
    if offset:
        return {
            "name": "sum",
            "parts": [linear, {"name": "constant", "variance": offset}],
        }
    return linear


def _of_noise(kernel: Any, width: int) -> dict[str, Any]:
    raise DataError(
        f"WhiteKernel is the noise and no part of the function: leave it out, and hold sigma at {float(kernel.noise_level) ** 0.5:.6g}"
    )


def _of_both(kernel: Any, width: int) -> dict[str, Any]:
    parts = [spec_of_sklearn(k, None, 0.0, 1, width) for k in (kernel.k1, kernel.k2)]
    name = type(kernel).__name__.lower()
    for one, other in (parts, parts[::-1]):
        if name == "product" and one["name"] == "constant":
            return _scaled_spec(one["variance"], other)
    # a sum of sums is one sum
    flat = [
        p for part in parts for p in (part["parts"] if part["name"] == name else [part])
    ]
    return {"name": name, "parts": flat}


def _of_power(kernel: Any, width: int) -> dict[str, Any]:
    inner = spec_of_sklearn(kernel.kernel, None, 0.0, 1, width)
    if kernel.exponent != int(kernel.exponent):
        raise Incompatible(
            f"a power of a covariance function is a whole number here, got {kernel.exponent:g}"
        )
    return {"name": "power", "parts": [inner], "power": int(kernel.exponent)}


_WORDS: dict[str, Callable[[float, float, int, int], dict[str, Any]]] = {
    "linear": lambda gamma, coef0, degree, width: {"name": "linear"},
    "rbf": lambda gamma, coef0, degree, width: _rbf((2.0 * gamma) ** -0.5),
    "laplacian": lambda gamma, coef0, degree, width: _of_laplacian(gamma, width),
    "polynomial": lambda gamma, coef0, degree, width: _of_polynomial(
        gamma, coef0, degree
    ),
    "poly": lambda gamma, coef0, degree, width: _of_polynomial(gamma, coef0, degree),
    "cosine": lambda gamma, coef0, degree, width: {
        "name": "normalised",
        "parts": [{"name": "linear"}],
    },
}
_OBJECTS: dict[str, Callable[[Any, int], dict[str, Any]]] = {
    "RBF": lambda kernel, width: _rbf(kernel.length_scale),
    "Matern": lambda kernel, width: _matern(kernel.length_scale, float(kernel.nu)),
    "RationalQuadratic": lambda kernel, width: {
        "name": "rational_quadratic",
        "length": float(kernel.length_scale),
        "alpha": float(kernel.alpha),
        "scaled": False,
    },
    "ExpSineSquared": _of_sine,
    "DotProduct": _of_product_kernel,
    "ConstantKernel": lambda kernel, width: {
        "name": "constant",
        "variance": float(kernel.constant_value),
    },
    "WhiteKernel": _of_noise,
    "Sum": _of_both,
    "Product": _of_both,
    "Exponentiation": _of_power,
}
