"""`python -m probreg` is the command `probreg`."""

from probreg.show.cli import app

app(prog_name="probreg")
