"""Small real data sets, each with a record of its source, its licence and a question that it can answer.

A data set is two files in this folder and no code: NAME.toml, the card, and NAME.csv, the rows (missing
values are written NA). If the licence does not allow everyone to share the rows, they are not in the folder, and
`provider` in the card is the installed module that contains them.
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
