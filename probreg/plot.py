"""The pictures, by the path that people import: see probreg.show.plot."""

from probreg.show.plot import *  # noqa: F403
from probreg.show.plot import PLOTS as PLOTS, __all__ as __all__
