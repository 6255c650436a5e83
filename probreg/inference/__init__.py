"""Methods: each turns a model into a solution of plain arrays. Adding one is one file and one line here."""

from probreg.inference.auto import Auto as Auto
from probreg.inference.base import (
    METHODS as METHODS,
    Method as Method,
    Settled as Settled,
    Solution as Solution,
    Status as Status,
)
from probreg.inference.bootstrap import Bootstrap as Bootstrap
from probreg.inference.closed_form import ClosedForm as ClosedForm
from probreg.inference.conjugate import Conjugate as Conjugate
from probreg.inference.coordinate_descent import CoordinateDescent as CoordinateDescent
from probreg.inference.evidence import Evidence as Evidence
from probreg.inference.importance import Importance as Importance, Weighted as Weighted
from probreg.inference.laplace import LaplaceApproximation as LaplaceApproximation
from probreg.inference.newton import Newton as Newton
from probreg.inference.nuts import NUTS as NUTS
from probreg.inference.paths import (
    PathSolution as PathSolution,
    default_scales as default_scales,
    mode_path as mode_path,
)
from probreg.inference.perceptron import Perceptron as Perceptron
from probreg.inference.posterior import Posterior as Posterior
from probreg.inference.proximal_newton import ProximalNewton as ProximalNewton
from probreg.inference.quadrature import Quadrature as Quadrature
from probreg.inference.sgd import LMS as LMS, SGD as SGD
