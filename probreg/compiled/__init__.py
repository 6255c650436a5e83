"""Densities compiled to machine code: a likelihood or a prior defines its log density as plain arithmetic on numbers (a
`CompiledDensity`). Loops over rows, compiled for each density, sum it and its slopes without the interpreter's lock.

numba is imported on the first use; its machine code is kept on disk, next to these files or in the user's cache.
"""

from probreg.compiled.affine import (
    AffineData as AffineData,
    Work as Work,
    order_by_zeros as order_by_zeros,
    tiles_of as tiles_of,
    work_of as work_of,
)
from probreg.compiled.build import (
    Loops as Loops,
    compile_stored as compile_stored,
    entries_of as entries_of,
    log_density_of as log_density_of,
    loops_of as loops_of,
)
from probreg.compiled.density import CompiledDensity as CompiledDensity
