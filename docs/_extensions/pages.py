"""Prints the pages of the built site with their words: `python docs/_extensions/pages.py docs/_build/html`."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LEFT_OUT = {"search.html"}


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


def count_words(site: Path) -> dict[str, int]:
    """Words of each page by its address within the site."""
    pages = sorted(
        page
        for page in site.rglob("*.html")
        if not {"_static", "_images"} & set(page.relative_to(site).parts)
    )
    return {
        page.relative_to(site).as_posix(): words(page)
        for page in pages
        if page.name not in LEFT_OUT
    }


if __name__ == "__main__":
    words_by_page = count_words(Path(sys.argv[1]))
    sections: dict[str, list[int]] = {}
    for name, n in words_by_page.items():
        sys.stdout.write(f"{n:8,}  {name}\n")
        sections.setdefault(name.rpartition("/")[0].partition("/")[0], []).append(n)
    for section, numbers in sections.items():
        sys.stdout.write(
            f"{sum(numbers):8,}  {section or 'top'}: {len(numbers)} pages\n"
        )
    total = sum(words_by_page.values())
    in_api = sum(sections.get("api", []))
    sys.stdout.write(
        f"{total:8,}  in {len(words_by_page)} pages, {total - in_api:,} without the API\n"
    )
