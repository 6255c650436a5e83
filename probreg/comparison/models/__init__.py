"""Models against models on the same data: information criteria, leave-one-out, stacking."""
