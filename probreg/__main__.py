"""`python -m probreg` is the command `probreg`."""

from probreg.show.cli import main

main()
