"""Fits of one data set side by side: estimates, intervals, what the prior did, and why the answers differ.

Everything is read from the fits; nothing is fitted again. Numbers are kept unrounded, only text rounds. A file imports
only from those before it: alike, shares, numbers, reasons and rendering (strangers), comparison.
"""

from probreg.compare.comparison import Comparison as Comparison, compare as compare
from probreg.compare.rendering import decimals as decimals, rounded as rounded
from probreg.compare.shares import shares as shares
