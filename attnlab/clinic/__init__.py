"""The clinic: probes that name the bug in an implementation of attention.

``diagnose(target)`` calls a function, a layer, a head split, a mask builder or a softmax with small
tensors, changes one thing at a time, and says in one sentence what is wrong, with the numbers that
show it. ``attnlab.clinic.broken`` is a catalogue of implementations to learn from.
"""

from attnlab.clinic._diagnose import diagnose
from attnlab.clinic._report import Evidence, Finding, Report

__all__ = ["Evidence", "Finding", "Report", "diagnose"]
