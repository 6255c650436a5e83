"""Terms of a formula that are more than columns: bases with a prior of their own."""
