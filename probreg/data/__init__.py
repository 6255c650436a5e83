"""Convert data to a response y and a matrix X; all later code works on arrays."""

from probreg.data.array_columns import (
    ArrayColumns as ArrayColumns,
    from_arrays as from_arrays,
)
from probreg.data.blocks.block import (
    Block as Block,
    by_kind as by_kind,
)
from probreg.data.checked_arrays import (
    INTERCEPT as INTERCEPT,
    as_response as as_response,
    as_weights as as_weights,
    own_name as own_name,
    read_column as read_column,
    weights_without_empty_trials as weights_without_empty_trials,
    with_trials as with_trials,
)
from probreg.data.design import (
    AbsentRows as AbsentRows,
    ColumnRecipe as ColumnRecipe,
    Design as Design,
)
from probreg.data.frame import Frame as Frame
from probreg.data.grouped_moments import (
    AnyMoments as AnyMoments,
    ArrowMoments as ArrowMoments,
)
from probreg.data.moments import Moments as Moments
