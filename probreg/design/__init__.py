"""Data become a response y and a matrix X; everything after this room is arrays."""

from probreg.design.block import Block as Block, RowSource as RowSource
from probreg.design.design import (
    INTERCEPT as INTERCEPT,
    Basis as Basis,
    Design as Design,
    PlainColumns as PlainColumns,
    as_response as as_response,
    as_weights as as_weights,
    from_arrays as from_arrays,
    from_reading as from_reading,
    split_trials as split_trials,
)
from probreg.design.moments import Moments as Moments
