"""Tables: one class of typed columns, with a renderer for each format."""

from probreg.tables.render import Column as Column
from probreg.tables.table import PrintsTable as PrintsTable, Table as Table
