"""The weakly informative prior by name: normal, with scales that follow from the spreads of response and columns."""

from collections.abc import Mapping
from typing import Any, Literal

from probreg.arguments.scalars import shown_value
from probreg.errors import DataError
from probreg.priors.base import Prior
from probreg.priors.joint import Key
from probreg.priors.normal import Normal

PriorName = Literal["weak"]
PriorLike = Prior | PriorName | Mapping[Key, Prior | PriorName]

# beta_j ~ N(0, (2.5 sd(y) / sd(x_j))^2), sd(y) = 1 without a noise scale, divisors N - 1: the default of rstanarm for
# coefficients (Gabry & Goodrich, vignette "Prior Distributions for rstanarm Models", 2020), and but for the divisor Bambi's.
WEAK_FACTOR = 2.5
WEAK = Normal(WEAK_FACTOR, scaled=True)


def prior_by_name(spec: Any) -> Any:
    """A prior, or priors by column, with "weak" replaced by what it names. DataError for another name.

    >>> prior_by_name({"x": "weak"})["x"]
    Normal(scale=2.5, location=0.0, precision_matrix=None, sigma_units=False, scaled=True)
    """
    if isinstance(spec, Mapping):
        return {key: prior_by_name(prior) if isinstance(prior, str) else prior for key, prior in spec.items()}
    if not isinstance(spec, str):
        return spec
    if spec != "weak":
        other = "no prior as pr.Flat()" if spec == "flat" else "another as pr.Normal(2.5)"
        raise DataError(f"a prior by name is 'weak', got {shown_value(spec)}; write {other}")
    return WEAK
