"""The clinic: probes that name the bug in an implementation of attention.

``diagnose(target)`` calls a function, a layer, a head split, a mask builder or a softmax with small
tensors, changes one thing at a time, and says in one sentence what is wrong, with the numbers that
show it. ``record()`` does so with every implementation of the catalogue ``attnlab.clinic.broken``.
"""

from attnlab.clinic._diagnose import diagnose
from attnlab.clinic._record import Record, record
from attnlab.clinic._report import Evidence, Finding, Gap, Report, Said

__all__ = ["Evidence", "Finding", "Gap", "Record", "Report", "Said", "diagnose", "record"]
