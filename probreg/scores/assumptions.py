"""A condition of a theorem, its value so far, and whether it is met."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumption:
    """One condition of a theorem, its observed value, and whether it is met.

    Parameters
    ----------
    statement : str
        The condition.
    met : float, optional
        The observed value, if there is one.
    holds : bool, optional
        None if it cannot be checked.

    Examples
    --------
    >>> print(Assumption("step < 1", 0.5, True))
    met: step < 1 (so far 0.5)
    """

    statement: str
    met: float | None
    holds: bool | None

    def __post_init__(self) -> None:
        if self.holds is not None:
            # NumPy's False is not False
            object.__setattr__(self, "holds", bool(self.holds))

    def __str__(self) -> str:
        verdict = {True: "met", False: "NOT MET", None: "cannot be checked"}[self.holds]
        return f"{verdict}: {self.statement}" + (
            "" if self.met is None else f" (so far {self.met:.4g})"
        )
