"""Laws: what every registered likelihood, prior and method must satisfy."""
