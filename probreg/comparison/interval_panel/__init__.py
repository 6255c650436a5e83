"""Every interval of one quantity side by side, and the coverage of each."""

from probreg.comparison.interval_panel.coverage import (
    Coverage as Coverage,
    coverage as coverage,
)
from probreg.comparison.interval_panel.panel import (
    INTERVALS as INTERVALS,
    IntervalPanel as IntervalPanel,
    interval_panel as interval_panel,
)
