"""How uncertain an estimate is: covariances, profiles, bootstrap replicates, kinds of intervals."""
