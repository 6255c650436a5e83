"""The command line: `probreg demo | fit | check | datasets`."""

from probreg.cli.commands import app as app
