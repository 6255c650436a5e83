"""Linear algebra without statistics: sums over blocks of rows, triangular factors, and factors of arrow matrices.

The upper triangular factor F of rows A = [X y], F'F = A' diag(w) A, is computed without A'A if A is ill-conditioned.
Rows are processed in blocks that fit in cache and are shared by the cores. `factors` imports from `blocks`, and
`doubled` and `arrow` import from these two.
"""

from probreg.linalg.arrow import (
    Arrow as Arrow,
    blocks_of as blocks_of,
    solve_blocks as solve_blocks,
)
from probreg.linalg.blocks import (
    evenly_spaced as evenly_spaced,
    limit_threads as limit_threads,
    map_blocks as map_blocks,
    on_all_cores as on_all_cores,
    one_blas_thread as one_blas_thread,
    row_blocks as row_blocks,
    row_slices as row_slices,
    sum_over_blocks as sum_over_blocks,
    threads as threads,
    weighted_gram as weighted_gram,
)
from probreg.linalg.doubled import (
    refine as refine,
    residual_sums as residual_sums,
)
from probreg.linalg.factors import (
    EXTENDED as EXTENDED,
    ColumnRank as ColumnRank,
    Reduction as Reduction,
    condition_of as condition_of,
    downdate as downdate,
    factor_of as factor_of,
    inverse_upper as inverse_upper,
    merge as merge,
    rank_of as rank_of,
    reduce_rows as reduce_rows,
    root_of_curvature as root_of_curvature,
    root_of_pseudo_inverse as root_of_pseudo_inverse,
    root_of_square as root_of_square,
    solve_upper as solve_upper,
    symmetric_root as symmetric_root,
    triangular as triangular,
    triangular_log_det as triangular_log_det,
    unit_diagonal as unit_diagonal,
)
