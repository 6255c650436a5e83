"""Leave-one-out: the log density of each row, or of the rows of each group, given all others."""
