"""The pictures, under their public path: see probreg.show.plot."""

from probreg.peers import answer_names as _answer_names
from probreg.show.plot import *  # noqa: F403
from probreg.show.plot import __all__ as __all__

_answer_names(globals())
