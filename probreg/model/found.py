"""Nuisance parameters that were found from the data and then held."""


class FoundValue(float):
    """A number that a recipe found from the data: a mode may hold it, a posterior is refused until it is stated."""

    __slots__ = ()
