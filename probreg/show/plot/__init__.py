"""Pictures of results: each is a function that returns a matplotlib Figure outside pyplot.

Most take a fit; `explain`, `path`, `tune`, `interval_panel`, `coverage`, `sbc` and `bias_variance` take the result of the function
with the same name. Series differ by marker and line as well as by colour, so that pictures are readable in grey. matplotlib is
imported when the first picture is drawn. To add a picture, write its function and import it here.
"""

from probreg.show.plot.bias_variance import bias_variance
from probreg.show.plot.chains import energy, ppc, rank, trace
from probreg.show.plot.coefficients import coefficients
from probreg.show.plot.coverage import coverage
from probreg.show.plot.diagnose import diagnose
from probreg.show.plot.effects import effects
from probreg.show.plot.explain import explain
from probreg.show.plot.fitted import fitted
from probreg.show.plot.interval_panel import interval_panel
from probreg.show.plot.leverage import leverage
from probreg.show.plot.partial import partial
from probreg.show.plot.prior_weight import prior_weight
from probreg.show.plot.reliability import reliability
from probreg.show.plot.residuals import autocorrelation, qq, residuals, scale_location
from probreg.show.plot.sbc import sbc
from probreg.show.plot.smooth import smooth
from probreg.show.plot.tuning import path, tune

__all__ = [
    "autocorrelation",
    "bias_variance",
    "coefficients",
    "coverage",
    "diagnose",
    "effects",
    "energy",
    "explain",
    "fitted",
    "interval_panel",
    "leverage",
    "partial",
    "path",
    "ppc",
    "prior_weight",
    "qq",
    "rank",
    "reliability",
    "residuals",
    "sbc",
    "scale_location",
    "smooth",
    "trace",
    "tune",
]
