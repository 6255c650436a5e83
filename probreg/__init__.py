"""Regression as likelihood models: one model fitted by maximum likelihood, by its posterior mode, exactly and by MCMC.

`__init__.pyi` lists the public names. Each is imported on first use: `import probreg` alone loads nothing else, not even NumPy.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
