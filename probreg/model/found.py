"""Nuisance parameters that a recipe estimates from the data and then keeps fixed."""


class FoundValue(float):
    """A number that a recipe found from the data: a mode may use it, a posterior needs a value from the user."""

    __slots__ = ()
