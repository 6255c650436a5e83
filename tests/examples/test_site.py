"""The site: every page stands in a table of contents, the reference names every public name, what is built loads nothing from elsewhere."""

import fnmatch
import pathlib
import re
import sys

import pytest

import probreg as pr

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = DOCS / "_build" / "html"
sys.path.insert(0, str(DOCS / "_extensions"))

import gallery  # noqa: E402
import reference  # noqa: E402

GENERATED = {"gallery/index", *(f"api/{name}" for name in reference.pages())}


def pages() -> dict[str, pathlib.Path]:
    """What Sphinx reads, without what a build makes."""
    found = [p for kind in ("md", "ipynb") for p in DOCS.rglob(f"*.{kind}")]
    names = {
        p.relative_to(DOCS).with_suffix("").as_posix(): p
        for p in found
        if ".ipynb_checkpoints" not in p.parts
    }
    return {n: p for n, p in names.items() if not n.startswith(("_", "gallery/"))}


def entries(name: str, text: str) -> list[str]:
    """The lines of the tables of contents of a page, as paths from the root of the pages."""
    out = []
    for fence in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL):
        for line in fence.splitlines():
            if line.strip() and not line.startswith(":"):
                entry = re.sub(r".*<(.+)>", r"\1", line.strip())
                out.append(
                    entry[1:]
                    if entry.startswith("/")
                    else (pathlib.PurePosixPath(name).parent / entry).as_posix()
                )
    return out


def test_every_page_stands_in_a_table_of_contents_and_every_entry_is_a_page():
    there = pages()
    found = {
        entry
        for name, path in there.items()
        if path.suffix == ".md"
        for entry in entries(name, path.read_text())
    }
    # as Sphinx has it: a star does not cross folders
    held = {
        e: [n for n in there if n.count("/") == e.count("/") and fnmatch.fnmatch(n, e)]
        for e in found
    }
    assert set(there) - {n for names in held.values() for n in names} <= {"index"}
    assert [e for e, names in held.items() if not names and "*" in e] == []
    assert (
        sorted(
            e for e in found if "*" not in e and e not in there and e not in GENERATED
        )
        == []
    )


def named() -> dict[str, str]:
    """The page of the reference on which each path stands."""
    return {
        path: page
        for page, text in reference.pages().items()
        for path in re.findall(r"\bprobreg\.[\w.]+", text)
    }


@pytest.mark.slow
def test_the_reference_names_every_public_name_once():
    assert sorted(name for name in pr.__all__ if f"probreg.{name}" not in named()) == []
    listed = [
        p
        for text in reference.pages().values()
        for p in re.findall(r"^   (probreg\.[\w.]+)$", text, re.MULTILINE)
    ]
    things = [id(reference._thing(path)) for path in listed]
    assert len(set(things)) == len(things)


@pytest.mark.slow
def test_no_two_files_of_the_reference_differ_only_in_case():
    renamed = reference.file_names()
    listed = re.findall(
        r"^   (probreg\.[\w.]+)$", "\n".join(reference.pages().values()), re.MULTILINE
    )
    files = [renamed.get(path, path).lower() for path in listed]
    assert len(files) > 200
    assert sorted({name for name in files if files.count(name) > 1}) == []


def test_the_reference_names_what_every_registry_holds():
    things = {id(reference._thing(path)) for path in named()}
    for registry in (
        pr.LIKELIHOODS,
        pr.PRIORS,
        pr.priors.AUX_PRIORS,
        pr.METHODS,
        pr.kernels.KERNELS,
    ):
        assert [name for name, cls in registry.items() if id(cls) not in things] == []
    text = reference.pages()
    for section, names in reference.registered().items():
        assert [name for name in names if f'"{name}"' not in text[section]] == []
    assert [
        name for name in pr.online.LEARNERS if f"probreg.online.{name}" not in named()
    ] == []


def test_an_example_becomes_cells_that_say_what_the_script_says():
    for path in sorted((ROOT / "examples").glob("*.py")):
        source = path.read_text()
        code = [line for cell in gallery.cells(source) for line in cell if line.strip()]
        after = source.split('"""', 2)[2]
        assert code == [line for line in after.splitlines() if line.strip()], path.stem
        compile(gallery.page(source), path.name, "exec")
        title, _ = gallery.title_and_text(source.split('"""')[1])
        assert 0 < len(title) <= 70, title


def test_sections_of_the_gallery_name_examples_that_exist():
    assert {n for names in gallery.SECTIONS.values() for n in names} <= {
        p.stem for p in (ROOT / "examples").glob("*.py")
    }


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        (
            r"\frac12\log 2\pi",
            "<mfrac><mn>1</mn><mn>2</mn></mfrac>_<mi>log</mi>_<mn>2</mn><mi>π</mi>",
        ),
        (
            r"\hat\beta_j",
            '<msub><mover accent="true"><mi>β</mi><mo stretchy="false">ˆ</mo></mover><mi>j</mi></msub>',
        ),
        (
            r"a\log(x)",
            '<mi>a</mi>_<mi>log</mi><mo stretchy="false">(</mo><mi>x</mi><mo stretchy="false">)</mo>',
        ),
        (
            r"\operatorname*{arg\,min}_b f",
            '<msub><mi mathvariant="normal">arg min</mi><mi>b</mi></msub>_<mi>f</mi>',
        ),
        (
            r"\sum_i^n x",
            '<munderover><mo movablelimits="true">∑</mo><mi>i</mi><mi>n</mi></munderover><mi>x</mi>',
        ),
    ],
)
def test_a_formula_is_set_as_it_is_written(tex, shown):
    pytest.importorskip(
        "sphinx", reason="formulas are set by the tools of the docs extra"
    )
    from mathml import mathml

    found = re.sub(r"\s*\n\s*", "", mathml(tex)).replace(
        '<mspace width="0.1667em"></mspace>', "_"
    )
    assert found == f"<math>{shown}</math>"


def test_a_command_that_is_not_known_is_an_error():
    pytest.importorskip(
        "sphinx", reason="formulas are set by the tools of the docs extra"
    )
    from docutils.utils.math import MathError
    from mathml import mathml

    with pytest.raises(MathError, match="nosuchcommand"):
        mathml(r"\nosuchcommand x")


# ---- what was built, where it was: .ci/run builds before it tests ----------------------------------------------------


@pytest.fixture(scope="module")
def built() -> dict[str, str]:
    if not (SITE / "index.html").exists():
        pytest.skip(
            "the site is not built here: python -m sphinx -W -b html docs docs/_build/html"
        )
    return {
        p.relative_to(SITE).as_posix(): p.read_text(encoding="utf-8")
        for p in SITE.rglob("*.html")
    }


@pytest.mark.slow
def test_a_page_loads_nothing_from_elsewhere(built):
    loads = re.compile(
        r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=[\"'](?:https?:)?//[^\"']+"
        r"|<link\b[^>]*\brel=[\"'](?:stylesheet|preload|icon)[\"'][^>]*\bhref=[\"'](?:https?:)?//[^\"']+"
        r"|<link\b[^>]*\bhref=[\"'](?:https?:)?//[^\"']+[^>]*\brel=[\"'](?:stylesheet|preload|icon)"
    )
    assert {
        name: found for name, text in built.items() if (found := loads.findall(text))
    } == {}
    styles = {
        p.name: re.findall(
            r"url\([\"']?(?:https?:)?//[^)]+|@import[^;]+//", p.read_text()
        )
        for p in SITE.rglob("*.css")
    }
    assert {name: found for name, found in styles.items() if found} == {}
    assert [
        name
        for name, text in built.items()
        if "mathjax" in text.lower() and name.startswith("explanation")
    ] == []


@pytest.mark.slow
def test_the_built_reference_has_an_entry_for_every_public_name(built):
    entries = {
        m
        for text in built.values()
        for m in re.findall(r'id="(probreg\.[\w.]+)"', text)
    }
    modules = {
        m.removeprefix("module-")
        for text in built.values()
        for m in re.findall(r'id="(module-probreg\.\w+)"', text)
    }
    missing = [n for n in pr.__all__ if f"probreg.{n}" not in entries | modules]
    assert missing == []
    for text in (
        built["api/generated/probreg.Fit.html"],
        built["api/generated/probreg.Model.html"],
    ):
        assert text.count('<dt class="sig sig-object py"') > 5


@pytest.mark.slow
def test_the_index_of_the_search_knows_what_people_ask_for(built):
    index = (SITE / "searchindex.js").read_text()
    for stem in (
        "odd",
        "ratio",
        "prior",
        "weight",
    ):  # stems, as the search makes them of what is typed
        assert re.search(rf'[{{,"]{stem}"?:', index), stem


def test_the_list_for_language_models_links_to_pages():
    links = re.findall(r"\((.+?)\.html\)", (DOCS / "llms.txt").read_text())
    assert links
    assert [link for link in links if not (DOCS / f"{link}.md").exists()] == []
