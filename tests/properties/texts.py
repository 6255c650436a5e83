"""Prints as they were put together, before long lines were folded."""

from probreg.system.terminal import WIDTH


def unfolded(shown: object) -> list[str]:
    """The lines of a print, each whole: a line that is further in, and whose first word had no room above, goes on.

    >>> unfolded("x" * 109 + "\\n    yy z")[0][108:]
    'x yy z'
    """
    whole: list[str] = []
    room = start = 0
    for line in str(shown).split("\n"):
        inside, first = len(line) - len(line.lstrip()), line.split()[:1]
        if whole and inside == start + 4 and first and len(first[0]) >= room:
            whole[-1] += f" {line.strip()}"
        else:
            whole.append(line)
            start = inside
        room = WIDTH - len(line)
    return whole
