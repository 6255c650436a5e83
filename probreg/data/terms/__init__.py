"""Terms of a formula with their own bases and priors: smooths, processes and varying effects."""
