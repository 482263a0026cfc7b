"""The clinic: one examiner that names the bug in an implementation of attention.

``diagnose(target)`` observes a function or a layer (``observe``), looks for the recipe with the
fewest slips that gives what it gives (``hypotheses``), then examines masks and causality, heads and
behaviour, and says in one sentence what is wrong, with the numbers that show it.
"""

from attnlab.clinic._diagnose import diagnose
from attnlab.clinic._report import Evidence, Finding, Gap, Report, Said

__all__ = ["Evidence", "Finding", "Gap", "Report", "Said", "diagnose"]
