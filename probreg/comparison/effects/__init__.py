"""Effects on the scale of the response: averaged predictions, comparisons and slopes, each with its interval.

A coefficient of a logit or a spline is hard to interpret by itself; the mean at chosen values, the change of the mean
when one variable changes, and the slope of the mean are easier to interpret (Williams 2012; Arel-Bundock, Greifer & Heiss 2024). A file
imports only from earlier ones: averages, scenarios, evaluation, result, verbs.
"""
