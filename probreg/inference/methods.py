"""Import every module with a method.

`auto` tries three methods first; the others are imported on first use. To add a method,
add one file, one line here and its name in `MethodName`, which editors complete.
"""

from probreg.inference.exact.conjugate import Conjugate as Conjugate
from probreg.inference.exact.evidence import Evidence as Evidence
from probreg.inference.exact.integrate import Integrate as Integrate
from probreg.inference.exact.quadrature import Quadrature as Quadrature
from probreg.inference.modes.epochs import Perceptron as Perceptron
from probreg.inference.modes.sgd import LMS as LMS, SGD as SGD
from probreg.inference.penalized.coordinate_descent import (
    CoordinateDescent as CoordinateDescent,
)
from probreg.inference.penalized.paths import (
    PathSolution as PathSolution,
    default_scales as default_scales,
    mode_path as mode_path,
)
from probreg.inference.penalized.piecewise_linear import InteriorPoint as InteriorPoint
from probreg.inference.penalized.proximal_newton import ProximalNewton as ProximalNewton
from probreg.inference.posterior import Posterior as Posterior
from probreg.inference.sampling.importance import (
    Importance as Importance,
    Weighted as Weighted,
)
from probreg.inference.sampling.laplace import (
    LaplaceApproximation as LaplaceApproximation,
)
from probreg.inference.sampling.nuts import NUTS as NUTS, PyMC as PyMC
from probreg.inference.uncertainty.bootstrap import Bootstrap as Bootstrap
