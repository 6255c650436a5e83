"""Posteriors and evidence in closed form or by quadrature, and a posterior as the next prior."""
