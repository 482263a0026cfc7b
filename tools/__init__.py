"""Programs that build, check and serve the lessons; to import any of them makes nbformat quick.

jsonschema, which nbformat needs, looks whether the module named here is there, to check addresses
in schemas that we do not have; importing it builds three grammars, which takes four seconds.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)
