"""Covariance functions as the `kernel`, `gamma`, `coef0` and `degree` of scikit-learn's KernelRidge, and back.

Its words are exp(-gamma |x - z|^2), exp(-gamma |x - z|_1) and (gamma x'z + coef0)^degree.
"""

from collections.abc import Mapping
from typing import Any

from probreg.errors import DataError

Spec = Mapping[str, Any]
WORDS = ("linear", "rbf", "laplacian", "polynomial", "poly", "cosine")


def shown_number(value: float) -> str:
    """Return a number with fifteen digits."""
    return f"{value:.15g}"


def ridge_kernel(spec: Spec, width: int) -> tuple[float, str, dict[str, float]] | None:
    """Return the factor of the kernel, the arguments of a KernelRidge on `width` columns and their numbers, or None.

    >>> ridge_kernel({"name": "rbf", "length": 5.0, "scaled": False}, 10)
    (1.0, "kernel='rbf', gamma=0.02", {'gamma': 0.02})
    """
    name = spec["name"]
    if name == "scaled":
        inner = ridge_kernel(spec["parts"][0], width)
        if inner is None:
            return None
        return (spec["variance"] * inner[0], *inner[1:])
    numbers: dict[str, float] = {}
    length = _laplacian_length(spec, width)
    if name == "polynomial":
        numbers = {"gamma": 1.0, "coef0": spec["offset"], "degree": spec["degree"]}
    elif name == "rbf" and not isinstance(spec["length"], list | tuple):
        # exp(-|x - z|^2 / (2 l^2)) = exp(-gamma |x - z|^2)
        numbers = {"gamma": 0.5 / spec["length"] ** 2}
    elif length is not None:
        name = "laplacian"
        numbers = {"gamma": 1.0 / length}
    elif name != "linear":
        return None
    arguments = [f"{key}={shown_number(v)}" for key, v in numbers.items()]
    return 1.0, ", ".join([f"kernel='{name}'", *arguments]), numbers


def _laplacian_length(spec: Spec, width: int) -> float | None:
    """Return l if the function is exp(-|x - z|_1 / l): a product of a Matern function with nu 1/2 of each column."""
    parts = spec["parts"] if spec["name"] == "product" else [spec]
    lengths = set()
    columns = []
    for part in parts:
        matern = part
        part_columns = tuple(range(width))
        if part["name"] == "on":
            matern = part["parts"][0]
            part_columns = tuple(part["columns"])
        if matern["name"] != "matern" or matern["nu"] != 0.5:
            return None
        if isinstance(matern["length"], list | tuple):
            return None
        lengths.add(matern["length"])
        columns.append(part_columns)
    if len(lengths) == 1 and sorted(columns) == [(j,) for j in range(width)]:
        return lengths.pop()
    return None


def spec_of_word(
    kernel: Any, gamma: float | None, coef0: float, degree: int, width: int
) -> dict[str, Any]:
    """Return the specification of a word of KernelRidge on `width` columns."""
    if kernel not in WORDS:
        raise DataError(f"kernel={kernel!r}: expected one of {', '.join(WORDS)}")
    if gamma is None:
        gamma = 1.0 / width
    if kernel == "linear":
        return {"name": "linear"}
    if kernel == "cosine":
        return {"name": "normalised", "parts": [{"name": "linear"}]}
    if kernel == "rbf":
        return {"name": "rbf", "length": (2.0 * gamma) ** -0.5, "scaled": False}
    if kernel == "laplacian":
        matern = {"name": "matern", "length": 1.0 / gamma, "nu": 0.5, "scaled": False}
        if width == 1:
            return matern
        parts = [
            {"name": "on", "parts": [matern], "columns": [j]} for j in range(width)
        ]
        return {"name": "product", "parts": parts}
    # (gamma x'z + c)^d = gamma^d (x'z + c / gamma)^d
    power = {"name": "polynomial", "degree": degree, "offset": coef0 / gamma}
    if gamma == 1.0:
        return power
    return {"name": "scaled", "parts": [power], "variance": float(gamma**degree)}
