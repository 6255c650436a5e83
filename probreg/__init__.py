"""Regression as likelihood models: one model fitted by maximum likelihood, by its posterior mode, exactly and by MCMC.

`__init__.pyi` lists the public names. Each is imported on first use: `import probreg` loads no other package, not even NumPy.
"""

from typing import Any

import lazy_loader

__version__ = "0.1.0"

_load, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _load(name)
    from probreg.peers import OF_PACKAGE, missing_attribute

    raise missing_attribute("probreg", name, OF_PACKAGE)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
