"""A model: a design, a likelihood and a prior; its constructors and its densities."""
