"""The command line: `probreg demo | fit | check | datasets`."""

from probreg.show.cli.commands import app as app
