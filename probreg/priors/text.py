"""Priors as text: `normal(2.5)`, `student(2.5, nu=4)`, `x=normal(1), Intercept=normal(10)`, `sigma=half_normal(2)`."""

from collections.abc import Mapping
from typing import Any

from probreg.arguments.scalars import Positive, read_argument, shown_value
from probreg.errors import DataError
from probreg.priors.base import PRIORS, Prior
from probreg.priors.joint import Key
from probreg.priors.normal import Normal
from probreg.priors.positive import AUX_PRIORS, AuxPrior
from probreg.registry import finite_number, split_assignments

# text: "weak", or a call such as "normal(2.5)"
PriorLike = Prior | str | Mapping[Key, Prior | str]

# beta_j ~ N(0, (2.5 sd(y) / sd(x_j))^2), sd(y) = 1 without a noise scale, divisors N - 1: the default of rstanarm for
# coefficients (Gabry & Goodrich, vignette "Prior Distributions for rstanarm Models", 2020), and also Bambi's except for the divisor.
WEAK_FACTOR = 2.5
WEAK = PRIORS.presets["weak"] = Normal(WEAK_FACTOR, scaled=True)
AuxLike = Mapping[str, float | str | AuxPrior] | str


def read_prior(spec: PriorLike) -> Any:
    """Return a prior, or priors by column, where each text is replaced by the prior that it describes.

    >>> read_prior({"x": "weak", "z": "normal(2)"})["x"]
    Normal(scale=2.5, location=0.0, precision_matrix=None, sigma_units=False, scaled=True)
    """
    if isinstance(spec, Mapping):
        return {
            key: _parse_text(prior) if isinstance(prior, str) else prior
            for key, prior in spec.items()
        }
    return parse_prior(spec) if isinstance(spec, str) else spec


def read_aux(spec: AuxLike) -> dict[str, Any]:
    """Return numbers and priors of nuisance parameters, where each text is replaced by the prior that it describes.

    >>> read_aux({"sigma": "half_normal(2)"}), read_aux("sigma=1.5")
    ({'sigma': HalfNormal(scale=2.0)}, {'sigma': 1.5})
    """
    if isinstance(spec, str):
        return parse_aux(spec)
    if not isinstance(spec, Mapping):
        raise DataError(
            f"aux is a mapping from parameters to a number or a prior, such as {{'sigma': 1.0}}, got {shown_value(spec)}"
        )
    return {
        n: read_argument(n, v, Positive | AuxPrior) if isinstance(v, str) else v
        for n, v in spec.items()
    }


def parse_prior(text: str) -> Prior | dict[Key, Prior]:
    """Return a prior for every column except the intercept, or priors by column.

    >>> parse_prior("student(2.5, nu=4)")
    StudentT(scale=2.5, nu=4.0, location=0.0, sigma_units=False, scaled=False)
    >>> parse_prior("laplace(half_normal(0.5), scaled=true)").scale
    HalfNormal(scale=0.5)
    >>> parse_prior("x=weak")["x"]
    Normal(scale=2.5, location=0.0, precision_matrix=None, sigma_units=False, scaled=True)
    >>> sorted(parse_prior("x=normal(1), species[T.Gentoo]=laplace(0.5)"))
    ['species[T.Gentoo]', 'x']
    """
    parts = list(split_assignments(text))
    if len(parts) == 1 and parts[0][0] is None:
        return _parse_text(parts[0][1])
    by_key: dict[Key, Prior] = {}
    for key, value in parts:
        if key is None:
            raise DataError(
                f"{value.strip()!r} has no column, in a text with priors by column: write x={value.strip()}"
            )
        if key in by_key:
            raise DataError(f"the column {key!r} has two priors in {text!r}")
        by_key[key] = _parse_text(value)
    return by_key


def _parse_text(text: str) -> Any:
    """Return a prior, also one for positive numbers: for it `joint` raises an error with the name of the column."""
    kind = text.partition("(")[0].strip()
    if kind in AUX_PRIORS and kind not in PRIORS:
        return AUX_PRIORS.parse(text)
    return PRIORS.parse(text)


def parse_aux(text: str) -> dict[str, float | AuxPrior]:
    """Return nuisance parameters: a number fixes one, a prior makes it unknown.

    >>> parse_aux("sigma=half_normal(2)")
    {'sigma': HalfNormal(scale=2.0)}
    >>> parse_aux("sigma=1.5")
    {'sigma': 1.5}
    """
    values: dict[str, float | AuxPrior] = {}
    for name, value in split_assignments(text) if text.strip() else ():
        if name is None or not name.isidentifier():
            raise DataError(
                f"{name or value.strip()!r} is not understood; write sigma=2 or sigma=half_normal(2)"
            )
        if value.strip()[:1].isalpha():
            values[name] = AUX_PRIORS.parse(value)
        else:
            values[name] = finite_number(value, text)
    return values
