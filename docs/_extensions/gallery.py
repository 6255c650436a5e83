"""The gallery: each script of `examples/` as a page of text, code, what it prints and the pictures it saves.

Sphinx-Gallery wants a title and cells; the scripts have a first sentence and paragraphs. Copies with both are made in `_build`.
"""

import ast
import re
import shutil
from pathlib import Path

SECTIONS = {
    "From maximum likelihood to a posterior": [
        "linear",
        "logistic",
        "softmax",
        "separated",
        "shrinkage",
    ],
    "Whole analyses": [
        "referee_gaussian",
        "referee_bernoulli",
        "referee_categorical",
        "interval_coverage",
    ],
    "Groups": ["schools", "raters", "polls"],
    "Curves, kernels and fields": [
        "motorcycle",
        "seasons",
        "spatial_field",
        "kernel_ridge",
        "quantiles",
    ],
    "Forecasts and promises": ["meteorologists", "bounds"],
    "Streams": ["lms", "online", "stream", "echo", "sparse_experts", "online_kernel"],
    "Many rows": ["larger_than_memory", "dask_cluster"],
}
REST = "More"
# A cluster needs processes of its own, which a build does not start.
SHOWN = {
    "dask_cluster": "This example starts a cluster of workers, so it is not run when this site is built; the tests run it."
}
LONG = {
    "dask_cluster",
    "echo",
    "interval_coverage",
    "larger_than_memory",
    "lms",
    "referee_categorical",
}
LONG |= {"shrinkage", "sparse_experts"}
NOT_NOW = "This example takes long, so it is not run in a quick build; the tests run it, and a full build shows what it prints."


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


def page(source: str, note: str = "", thumbnail: str = "") -> str:
    """The script with a title and cells, a note that it is not run, and the picture of its card if it saves none."""
    title, text = title_and_text(ast.get_docstring(ast.parse(source)) or "")
    said = [title, "=" * len(title), "", text]
    if note:
        said += ["", ".. note::", "", f"   {note}"]
    parts = ['r"""', *said, '"""']
    if thumbnail:
        parts += ["", f"# sphinx_gallery_thumbnail_path = '{thumbnail}'"]
    for cell in cells(source):
        parts += ["", "# %%", *"\n".join(cell).strip("\n").splitlines()]
    return "\n".join(parts) + "\n"


def code_card(source: str, path: Path) -> None:
    """The lines from the first model or run on, as the picture of a script that saves none."""
    if path.exists():
        return
    from matplotlib.figure import Figure

    skipped = ("import", "from", "#", "print", ")", "with", "assert")
    lines = [
        line
        for line in source.splitlines()
        if line.strip() and not line.startswith(skipped)
    ]
    first = next(
        (i for i, line in enumerate(lines) if re.search(r"= (pr\.|online\.)", line)), 10
    )
    figure = Figure(figsize=(4.0, 2.8), facecolor="#f3f4f5")
    figure.text(0.05, 0.94, "\n".join(line[:34] for line in lines[first : first + 8]), family="monospace", size=11,
                va="top", color="#1c3f66", linespacing=1.5, parse_math=False)  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def section_of(name: str) -> str:
    return next((section for section, names in SECTIONS.items() if name in names), REST)


def prepare(here: Path, quick: bool) -> list[str]:
    """Write the copies, one folder per section, and return the folders in their order."""
    copies = here / "_build" / "examples"
    shutil.rmtree(copies, ignore_errors=True)
    for path in sorted((here.parent / "examples").glob("*.py")):
        name, section = path.stem, section_of(path.stem)
        folder = copies / re.sub(r"\W+", "_", section.lower())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "GALLERY_HEADER.rst").write_text(f"{section}\n{'-' * len(section)}\n")
        note = SHOWN.get(name, NOT_NOW if quick and name in LONG else "")
        source, card = path.read_text(), ""
        if note or "savefig" not in source:
            card = f"_build/cards/{name}.png"
            code_card(source, here / card)
        (folder / path.name).write_text(page(source, note, card))
    head = "Gallery\n=======\n\nScripts that tell a story and end in assertions. The tests run each; here is what they print and draw.\n"
    (copies / "GALLERY_HEADER.rst").write_text(head)
    order = [re.sub(r"\W+", "_", section.lower()) for section in (*SECTIONS, REST)]
    return [name for name in order if (copies / name).is_dir()]


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


def settings(here: Path, quick: bool) -> dict:
    """Settings of Sphinx-Gallery."""
    order = prepare(here, quick)
    left = LONG if quick else set(SHOWN)
    return {
        "examples_dirs": "_build/examples",
        "gallery_dirs": "gallery",
        "subsection_order": [f"_build/examples/{name}" for name in order],
        "within_subsection_order": "FileNameSortKey",
        "filename_pattern": rf"/(?!(?:{'|'.join(sorted(left))})\.py)\w+\.py$",
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
