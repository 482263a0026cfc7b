"""What a notebook stores of a widget, for readers without a kernel."""

from __future__ import annotations

import os


def is_static() -> bool:
    """Return whether outputs are made to be stored: ``ATTNLAB_STATIC=1`` in the environment."""
    return os.environ.get("ATTNLAB_STATIC", "") not in ("", "0")


class Storable:
    """A widget that a notebook stores as text and as HTML, for readers without a kernel.

    Inherit from it before the widget's own class, which shows the widget while a kernel runs;
    ``to_html`` returns what is stored.
    """

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, object]:
        stored = {"text/plain": repr(self), "text/html": self._html_to_store()}
        if is_static():
            return stored
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**data, **stored}

    def _html_to_store(self) -> str:
        return self.to_html()
