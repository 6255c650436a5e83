"""Pictures of results: each is a function that returns a matplotlib Figure, one file each.

Those in PLOTS take a fit or several; the others take the result of another room, which their name says (`path`, `choice`,
`panel`, `coverage`, `sbc`, `bias_variance`, `reliability`). Every picture reads in greyscale (markers and lines differ, not
only colours) and needs no legend to be guessed at. matplotlib is imported when the first picture is drawn. Adding a
picture is one file and one line here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from probreg.plot.autocorrelation import autocorrelation
from probreg.plot.bias_variance import bias_variance
from probreg.plot.calibration import calibration
from probreg.plot.choice import choice
from probreg.plot.coefficients import coefficients
from probreg.plot.coverage import coverage
from probreg.plot.fitted import fitted
from probreg.plot.influence import influence
from probreg.plot.leverage import leverage
from probreg.plot.panel import panel
from probreg.plot.partial import partial
from probreg.plot.path import path
from probreg.plot.qq import qq
from probreg.plot.rank import rank
from probreg.plot.reliability import reliability
from probreg.plot.residuals import residuals
from probreg.plot.sbc import sbc
from probreg.plot.scale_location import scale_location
from probreg.plot.trace import trace

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
            influence,
            leverage,
            qq,
            scale_location,
            partial,
            autocorrelation,
        )
    }
)

__all__ = [
    "PLOTS",
    "autocorrelation",
    "bias_variance",
    "calibration",
    "choice",
    "coefficients",
    "coverage",
    "fitted",
    "influence",
    "leverage",
    "panel",
    "partial",
    "path",
    "qq",
    "rank",
    "reliability",
    "residuals",
    "sbc",
    "scale_location",
    "trace",
]
