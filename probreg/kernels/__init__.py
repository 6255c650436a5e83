"""Covariance functions k(x, z) for Gaussian processes, kernel ridge and smooths.

>>> from probreg import kernels
>>> k = 2.0 * kernels.RBF(1.0).on(0) + kernels.Linear().on(1)
>>> k([[0.0, 1.0], [1.0, 3.0]]).round(3)
array([[ 3.   ,  4.213],
       [ 4.213, 11.   ]])
"""

from probreg.kernels.anchored import (
    cholesky as cholesky,
    exact as exact,
)
from probreg.kernels.base import (
    KERNELS as KERNELS,
    CovarianceFunction as CovarianceFunction,
    kernel_from_spec as kernel_from_spec,
    read_kernel as read_kernel,
)
from probreg.kernels.basis import (
    BASES as BASES,
    KernelBasis as KernelBasis,
    basis as basis,
    basis_from_spec as basis_from_spec,
)
from probreg.kernels.closure import (
    OnColumns as OnColumns,
    Product as Product,
    Scaled as Scaled,
    Sum as Sum,
)
from probreg.kernels.functions import (
    RBF as RBF,
    Constant as Constant,
    CustomFunction as CustomFunction,
    Linear as Linear,
    Matern as Matern,
    Periodic as Periodic,
    Polynomial as Polynomial,
    RationalQuadratic as RationalQuadratic,
)
from probreg.kernels.ridge import (
    RidgePath as RidgePath,
    ridge_path as ridge_path,
    ridge_path_of_columns as ridge_path_of_columns,
)
from probreg.kernels.spectral import (
    hsgp as hsgp,
)
from probreg.peers import answer_names as _answer_names
from probreg.registry import public_names as _public_names


def __dir__() -> list[str]:
    return _public_names(globals())


_answer_names(globals())
