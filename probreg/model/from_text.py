"""Likelihoods as text: `quantile(0.9)`."""

from probreg.likelihoods import LIKELIHOODS, Likelihood


def parse_likelihood(text: str) -> Likelihood:
    """A likelihood by its name, or as a call with its settings.

    >>> parse_likelihood("quantile(0.9)")
    Quantile(tau=0.9)
    """
    if "(" in text:
        return LIKELIHOODS.parse(text)
    return LIKELIHOODS.resolve(text)
