"""Model checking: checks of a model, diagnostics of a fit, simulation, bias and variance, conformal intervals."""
