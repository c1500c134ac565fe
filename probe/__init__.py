"""Is my GPU waiting for data, why, and did the change help?

>>> import probe
>>> for batch in probe.watch(loader):  # doctest: +SKIP
...     train(batch)
"""

from probe import prefetch
from probe.race import race
from probe.record.blocks import copy, exclude
from probe.run import run
from probe.watch import watch

__all__ = ["copy", "exclude", "prefetch", "race", "run", "watch"]
__version__ = "0.1.0"
