"""Methods: each turns a model into a solution of plain arrays. Adding one is one file and one line here."""

from probreg.inference.auto import Auto as Auto
from probreg.inference.base import METHODS as METHODS, Method as Method, Solution as Solution, Status as Status
from probreg.inference.closed_form import ClosedForm as ClosedForm
from probreg.inference.conjugate import Conjugate as Conjugate
from probreg.inference.laplace import LaplaceApproximation as LaplaceApproximation
from probreg.inference.newton import Newton as Newton
from probreg.inference.nuts import NUTS as NUTS
from probreg.inference.perceptron import Perceptron as Perceptron
from probreg.inference.quadrature import Quadrature as Quadrature
from probreg.inference.sgd import LMS as LMS, SGD as SGD
