"""Small real data sets, each with a record of where it comes from and what one may ask of it.

A data set is two files in this folder and no code: NAME.toml, the card, and NAME.csv, the rows (missing
values are written NA). Rows whose licence does not let everyone pass them on stay out of the folder: their
card then names as `provider` the installed module that carries them.
"""

from probreg.datasets.loader import (
    Catalogue,
    DatasetCard,
    DatasetColumn,
    describe_dataset,
    list_datasets,
    load_dataset,
)

__all__ = [
    "Catalogue",
    "DatasetCard",
    "DatasetColumn",
    "describe_dataset",
    "list_datasets",
    "load_dataset",
]
