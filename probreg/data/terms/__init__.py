"""Terms of a formula with bases and priors of their own: smooths, processes and varying effects."""
