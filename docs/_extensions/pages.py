"""Prints the pages of the built site with their words: `python docs/_extensions/pages.py docs/_build/html`."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LEFT_OUT = {"genindex.html", "search.html", "py-modindex.html"}


class Article(HTMLParser):
    """The text inside <article>, and whether it runs past the closing tag."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.text = 0, []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.depth += tag == "article"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "article"

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.text.append(data)


def words(path: Path) -> int:
    article = Article()
    article.feed(path.read_text(encoding="utf-8"))
    return len(re.findall(r"\w+", " ".join(article.text)))


def counts(site: Path) -> dict[str, int]:
    """Words of each page by its address within the site."""
    found = sorted(
        p
        for p in site.rglob("*.html")
        if not {"_static", "_images"} & set(p.relative_to(site).parts)
    )
    return {
        p.relative_to(site).as_posix(): words(p)
        for p in found
        if p.name not in LEFT_OUT
    }


if __name__ == "__main__":
    each = counts(Path(sys.argv[1]))
    rooms: dict[str, list[int]] = {}
    for name, n in each.items():
        sys.stdout.write(f"{n:8,}  {name}\n")
        rooms.setdefault(name.partition("/")[0] if "/" in name else "", []).append(n)
    for room, found in rooms.items():
        sys.stdout.write(f"{sum(found):8,}  {room or 'top'}: {len(found)} pages\n")
    sys.stdout.write(f"{sum(each.values()):8,}  in {len(each)} pages\n")
