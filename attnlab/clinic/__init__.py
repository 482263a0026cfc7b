"""The clinic: one examiner that names the bug in an implementation of attention.

``diagnose(target)`` reads what its arguments mean (``signature``), finds a call that works
(``plan``, ``call``), observes its attention (``observe``), looks for the recipe with the fewest
slips that gives what it gives (``family``, ``search``), then examines masks, causality, layers and
behaviour (``probes``), and says in one sentence what is wrong, with the numbers that show it.
"""

from attnlab.clinic.diagnose import diagnose
from attnlab.clinic.evidence import Evidence
from attnlab.clinic.report import Finding, Gap, Report, Said

__all__ = ["Evidence", "Finding", "Gap", "Report", "Said", "diagnose"]
