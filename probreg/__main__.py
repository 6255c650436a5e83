"""`python -m probreg` is the command `probreg`."""

from probreg.cli import app

app(prog_name="probreg")
