"""Simulation of data, from the prior or from a known truth, and simulation-based calibration of a method.

`simulate` draws parameters and data, `Truth` is the known truth of a simulation, and `sbc` calibrates a method: draw
(beta, aux) from the prior and y from the likelihood; then beta is one draw of the posterior given y, so its rank
among L draws of a correct method is uniform on 0 .. L for any model (Cook, Gelman & Rubin 2006; Talts et al. 2018). A
departure is an error of the method, the draws or the densities, not of the data.
"""
