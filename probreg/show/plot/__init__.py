"""Pictures of results: each is a function that returns a matplotlib Figure outside pyplot.

Most take a fit; `path`, `tune`, `sbc` and `bias_variance` take the result of the function
with the same name, and `regret` an online run. Series differ by marker and line as well as by colour, so that pictures are readable in grey. matplotlib is
imported when the first picture is drawn. To add a picture, write its function and import it here.
"""

from probreg.show.plot.chains import energy, ppc, rank, trace
from probreg.show.plot.coefficients import coefficients, prior_weight
from probreg.show.plot.diagnose import diagnose, rootogram
from probreg.show.plot.effects import effects
from probreg.show.plot.fitted import fitted, smooth
from probreg.show.plot.reliability import reliability
from probreg.show.plot.simulation import bias_variance, regret, sbc
from probreg.show.plot.survival import survival
from probreg.show.plot.tuning import path, tune

__all__ = [
    "bias_variance",
    "coefficients",
    "diagnose",
    "effects",
    "energy",
    "fitted",
    "path",
    "ppc",
    "prior_weight",
    "rank",
    "regret",
    "reliability",
    "rootogram",
    "sbc",
    "smooth",
    "survival",
    "trace",
    "tune",
]
