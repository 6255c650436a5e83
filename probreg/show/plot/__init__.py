"""Pictures of results: each is a function that returns a matplotlib Figure, one file each.

Those in PLOTS take a fit or several, `smooth` a fit with smooth terms, `effects` one with effects of groups; the others take the result of another room, which their
name says (`path`, `choice`, `explain`, `interval_panel`, `coverage`, `sbc`, `bias_variance`, `reliability`). Every picture reads in
greyscale (markers and lines differ, not only colours) and needs no legend to be guessed at. matplotlib is imported when the
first picture is drawn. Adding a picture is one file and one line here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from probreg.show.plot.autocorrelation import autocorrelation
from probreg.show.plot.bias_variance import bias_variance
from probreg.show.plot.calibration import calibration
from probreg.show.plot.coefficients import coefficients
from probreg.show.plot.coverage import coverage
from probreg.show.plot.diagnose import diagnose
from probreg.show.plot.effects import effects
from probreg.show.plot.explain import explain
from probreg.show.plot.fitted import fitted
from probreg.show.plot.interval_panel import interval_panel
from probreg.show.plot.leverage import leverage
from probreg.show.plot.partial import partial
from probreg.show.plot.path import path
from probreg.show.plot.prior_weight import prior_weight
from probreg.show.plot.qq import qq
from probreg.show.plot.rank import rank
from probreg.show.plot.reliability import reliability
from probreg.show.plot.residuals import residuals
from probreg.show.plot.sbc import sbc
from probreg.show.plot.scale_location import scale_location
from probreg.show.plot.smooth import smooth
from probreg.show.plot.trace import trace
from probreg.show.plot.tune import tune

PLOTS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        p.__name__: p
        for p in (
            coefficients,
            fitted,
            residuals,
            calibration,
            trace,
            rank,
            prior_weight,
            leverage,
            qq,
            scale_location,
            partial,
            autocorrelation,
            diagnose,
        )
    }
)

__all__ = [
    "PLOTS",
    "autocorrelation",
    "bias_variance",
    "calibration",
    "coefficients",
    "coverage",
    "diagnose",
    "effects",
    "explain",
    "fitted",
    "interval_panel",
    "leverage",
    "partial",
    "path",
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
