"""Is the sampler needed? The ways to one posterior side by side: exact, Laplace, importance sampling, NUTS.

A file imports only from those before it: rungs, judgement, audit.
"""

from probreg.assess.audit.audit import Audit as Audit, audit as audit
