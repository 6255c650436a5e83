"""A model: a design, a likelihood and a prior; how it is made, and what follows from it before it is fitted."""
