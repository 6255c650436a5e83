"""The weakly informative prior by name: normal, with scales that follow from the spreads of response and columns."""

from collections.abc import Mapping

from probreg.priors.base import PRIORS, Prior
from probreg.priors.joint import Key
from probreg.priors.normal import Normal

PriorLike = (
    Prior | str | Mapping[Key, Prior | str]
)  # text: "weak", or a call such as "normal(2.5)"

# beta_j ~ N(0, (2.5 sd(y) / sd(x_j))^2), sd(y) = 1 without a noise scale, divisors N - 1: the default of rstanarm for
# coefficients (Gabry & Goodrich, vignette "Prior Distributions for rstanarm Models", 2020), and but for the divisor Bambi's.
WEAK_FACTOR = 2.5
WEAK = PRIORS.presets["weak"] = Normal(WEAK_FACTOR, scaled=True)
