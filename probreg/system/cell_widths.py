"""How many cells of a terminal a text takes: two for a wide character of East Asian scripts, none for a mark on another."""

import unicodedata

_NONE = {"Mn", "Me", "Cf"}  # marks on the letter before them, and what is not seen
_FILLER = "\ufdd0"  # no character of any text


def cells_of(text: str) -> int:
    """The cells that a text takes.

    >>> cells_of("abc"), cells_of("年齢"), cells_of("e\\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(c: str) -> int:
    if unicodedata.category(c) in _NONE and c != "\xad":  # a soft hyphen is seen
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def to_left(text: str, width: int) -> str:
    """Text with blanks behind it up to so many cells.

    >>> to_left("年", 4) + "|"
    '年  |'
    """
    return text + " " * (width - cells_of(text))


def to_right(text: str, width: int) -> str:
    """Text with blanks before it up to so many cells."""
    return " " * (width - cells_of(text)) + text


def first_cells(text: str, most: int) -> str:
    """As much of the beginning of a text as so many cells hold, with the marks on its last letter.

    >>> first_cells("年齢だ", 5), first_cells("e\\u0301x", 1) == "e\\u0301"
    ('年齢', True)
    """
    if text.isascii():
        return text[: max(most, 0)]
    used = 0
    for i, c in enumerate(text):
        used += _cells(c)
        if used > most:
            return text[:i]
    return text


def last_cells(text: str, most: int) -> str:
    """As much of the end of a text as so many cells hold, beginning with a letter.

    >>> last_cells("年齢だ", 5)
    '齢だ'
    """
    if text.isascii():
        return text[len(text) - max(most, 0) :]
    used = 0
    start = len(text)
    for i in range(len(text) - 1, -1, -1):
        used += (size := _cells(text[i]))
        if used > most:
            break
        start = i if size else start
    return text[start:]


def with_fillers(text: str) -> str:
    """Text with a filler behind each wide character, so that its length is not less than its cells."""
    if text.isascii():
        return text
    return "".join(c + _FILLER * (_cells(c) - 1) for c in text)


def without_fillers(text: str) -> str:
    """The text before `with_fillers`."""
    return text.replace(_FILLER, "")


class StandIns:
    """Texts that stand for others in a table, as long as those have cells; `back` puts the others in their places.

    >>> names = StandIns()
    >>> short = names.stand_in("年齢")
    >>> len(short), names.back(short + " 1")
    (4, '年齢 1')
    """

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def stand_in(self, text: str) -> str:
        """A text of one's own, of private characters; the text itself where it is plain."""
        if text.isascii() or not cells_of(text):
            return text
        key = chr(0xF0000 + len(self._of))
        short = key + _FILLER * (cells_of(text) - 1)
        return self._of.setdefault(text, short)

    def back(self, line: str) -> str:
        """A line with every text in its place."""
        for text, short in self._of.items():
            line = line.replace(short, text)
        return line
