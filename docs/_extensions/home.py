"""The picture of the home page, drawn by the package: `python docs/_extensions/home.py docs/_static/home.png` draws that of the README."""

import sys
from pathlib import Path

import probreg as pr


def picture(path: Path) -> Path:
    """The O-rings by maximum likelihood, by mode and by posterior: the curve of each, and their coefficients."""
    orings = pr.load_dataset("challenger")
    model = pr.Model.from_formula(
        "damage ~ temperature", orings, likelihood=pr.Bernoulli()
    )
    weak = model.with_prior({"temperature": pr.Normal(0.1)})
    fits = {
        "maximum likelihood": pr.fit(model),
        "posterior": pr.fit(weak, "posterior", seed=1),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pr.plot.fitted(
        fits, "temperature", span=(31.0, 81.0), prob=0.9, figsize=(8.0, 3.4)
    ).savefig(path, dpi=150)
    return path


def draw(app) -> None:
    path = Path(app.srcdir) / "_build" / "home.png"
    if not path.exists():
        picture(path)


def setup(app):
    app.connect("builder-inited", draw, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    picture(Path(sys.argv[1]))
