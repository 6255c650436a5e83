"""Pictures of results: each is a function of fits that returns a matplotlib Figure, one file each.

Every picture reads in greyscale (markers and lines differ, not only colours) and needs no legend to be guessed at.
matplotlib is imported when the first picture is drawn. Adding a picture is one file and one line here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from probreg.plot.calibration import calibration
from probreg.plot.coefficients import coefficients
from probreg.plot.fitted import fitted
from probreg.plot.rank import rank
from probreg.plot.residuals import residuals
from probreg.plot.trace import trace

PLOTS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {p.__name__: p for p in (coefficients, fitted, residuals, calibration, trace, rank)}
)

__all__ = ["PLOTS", "calibration", "coefficients", "fitted", "rank", "residuals", "trace"]
