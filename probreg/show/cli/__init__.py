"""The command line: `probreg demo`, `fit`, `predict`, `compare`, `check`, `diagnose`, `report`, `datasets`."""

from probreg.show.cli.parser import main as main
