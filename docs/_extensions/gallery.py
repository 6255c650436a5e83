"""The gallery: each script of `examples/` as a page of text, code, what it prints and the pictures it saves.

Sphinx-Gallery wants a title and cells; the scripts have a first sentence and paragraphs. Copies with both are made in `_build`.
"""

import ast
import re
import shutil
from pathlib import Path

# Only scripts that save a picture; the tests run the others too.
SECTIONS = {
    "Curves and fields": ["seasons"],
    "Forecasts": ["online_kernel"],
}


def title_and_text(docstring: str) -> tuple[str, str]:
    """The first sentence up to its colon, stop or question mark, and what follows it."""
    first, _, rest = docstring.strip().partition("\n\n")
    found = re.match(r"(.+?)([.:]|(?<=\?))\s+(.+)", " ".join(first.split()))
    if not found:
        return " ".join(first.split()).rstrip("."), rest
    title, _, said = found.groups()
    return title, f"{said[0].upper()}{said[1:]}\n\n{rest}".strip()


def cells(source: str) -> list[list[str]]:
    """Paragraphs of a script, joined until one prints or saves, or the next opens with a comment."""
    tree = ast.parse(source)
    lines = source.splitlines()
    starts = [
        min([s.lineno, *(d.lineno for d in getattr(s, "decorator_list", []))])
        for s in tree.body[1:]
    ]
    out: list[list[str]] = []
    end = tree.body[0].end_lineno
    for start, statement in zip(starts, tree.body[1:]):
        gap = [line for line in lines[end : start - 1] if line.strip()]
        apart = any(not line.strip() for line in lines[end : start - 1])
        done = out and re.search(
            r"^\s*print\(|savefig", "\n".join(out[-1]), re.MULTILINE
        )
        if not out or (apart and (done or gap)):
            out.append([])
        out[-1] += lines[end : statement.end_lineno]
        end = statement.end_lineno
    out[-1] += lines[end:]
    return out


def page(source: str) -> str:
    """The script with a title and cells."""
    title, text = title_and_text(ast.get_docstring(ast.parse(source)) or "")
    parts = ['r"""', title, "=" * len(title), "", text, '"""']
    for cell in cells(source):
        parts += ["", "# %%", *"\n".join(cell).strip("\n").splitlines()]
    return "\n".join(parts) + "\n"


def prepare(here: Path) -> list[str]:
    """Write the copies, one folder per section, and return the folders in their order."""
    copies = here / "_build" / "examples"
    shutil.rmtree(copies, ignore_errors=True)
    folders = []
    for section, names in SECTIONS.items():
        folder = copies / re.sub(r"\W+", "_", section.lower())
        folder.mkdir(parents=True)
        (folder / "GALLERY_HEADER.rst").write_text(f"{section}\n{'-' * len(section)}\n")
        for name in names:
            source = (here.parent / "examples" / f"{name}.py").read_text()
            (folder / f"{name}.py").write_text(page(source))
        folders.append(folder.name)
    head = "Gallery\n=======\n\nScripts with pictures. The folder ``examples`` of the repository has more scripts.\n"
    (copies / "GALLERY_HEADER.rst").write_text(head)
    return folders


def saved_pictures(block, block_vars, gallery_conf):
    """The pictures that a cell has saved beside the script, in the order in which it names them."""
    from sphinx_gallery.scrapers import figure_rst

    made = []
    folder = Path(block_vars["src_file"]).parent
    for name in re.findall(r'savefig\("([\w.]+)"', block[1]):
        if (folder / name).exists():
            place = next(block_vars["image_path_iterator"])
            shutil.move(folder / name, place)
            made.append(place)
    return figure_rst(made, gallery_conf["src_dir"]) if made else ""


def settings(here: Path) -> dict:
    """Settings of Sphinx-Gallery."""
    order = prepare(here)
    return {
        "examples_dirs": "_build/examples",
        "gallery_dirs": "gallery",
        "subsection_order": [f"_build/examples/{name}" for name in order],
        "within_subsection_order": "FileNameSortKey",
        "filename_pattern": r"\.py$",
        "ignore_pattern": r"__init__\.py",
        "image_scrapers": ("gallery.saved_pictures",),
        "default_thumb_file": str(here / "_static" / "home.png"),
        "remove_config_comments": True,
        "capture_repr": (),
        "notebook_extensions": set(),
        "abort_on_example_error": True,
        "download_all_examples": False,
        "inspect_global_variables": False,
        "show_signature": False,
        "write_computation_times": False,
        "min_reported_time": 1e9,
        "reset_modules": (),
        "thumbnail_size": (400, 280),
        "parallel": True,
    }
