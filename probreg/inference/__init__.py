"""Methods: each turns a model into a solution of plain arrays.

`probreg.inference` imports the methods that every fit needs; `methods` imports the
others on first use. To add a method, add one file, one line in `methods` and its name
in `MethodName`, which editors complete.
"""

from typing import TYPE_CHECKING

from probreg.inference.auto import Auto as Auto
from probreg.inference.base import (
    METHODS as METHODS,
    Draws as Draws,
    Method as Method,
    MethodName as MethodName,
    Resolved as Resolved,
    Solution as Solution,
    Status as Status,
)
from probreg.inference.modes.closed_form import ClosedForm as ClosedForm
from probreg.inference.modes.newton_method import Newton as Newton
from probreg.registry import names_from

if TYPE_CHECKING:
    from probreg.inference.methods import *  # noqa: F403  # the names are written there, once
else:
    __getattr__ = names_from("probreg.inference.methods")
