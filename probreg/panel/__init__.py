"""Every interval of one quantity side by side, why they differ, and how often each holds the truth."""

from probreg.panel.coverage import Coverage as Coverage, coverage as coverage
from probreg.panel.kinds import INTERVALS as INTERVALS, Interval as Interval
from probreg.panel.panel import Panel as Panel, panel as panel
