"""Whether a posterior is what it claims to be: simulation-based calibration of a model and a method.

Draw (beta, aux) from the prior and y from the likelihood; then beta is itself one draw of the posterior given y, so that
its rank among L draws of a correct method is uniform on 0 .. L, whatever the model (Cook, Gelman & Rubin 2006; Talts et
al. 2018). A departure is a fault of the method, the draws or the densities, never of the data.
"""

from probreg.assess.simulation.sbc import SBC as SBC, sbc as sbc
from probreg.assess.simulation.simulate import (
    Simulation as Simulation,
    simulate as simulate,
)
