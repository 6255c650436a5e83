"""The pictures, under their public path: see probreg.show.plot."""

from probreg.show.plot import *  # noqa: F403
from probreg.show.plot import __all__ as __all__
