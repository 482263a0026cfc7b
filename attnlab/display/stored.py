"""What a notebook stores of what it shows: HTML for eyes, and the same as data for tools."""

from __future__ import annotations

import os
from collections.abc import Mapping

BUNDLE = "application/vnd.attnlab+json"  # data beside the HTML: kind, key, texts, number, ...


def is_static() -> bool:
    """Return whether outputs are made to be stored: ``ATTNLAB_STATIC=1`` in the environment."""
    return os.environ.get("ATTNLAB_STATIC", "") not in ("", "0")


class Stored:
    """Something that a notebook shows as text and as HTML, with data for tools beside them.

    ``to_html`` returns the page, ``facts`` what it says as data, its ``kind`` first.
    """

    def to_html(self) -> str:
        """Return what a reader without a kernel sees."""
        raise NotImplementedError

    def facts(self) -> Mapping[str, object]:
        """Return what tools need to know of it, so that none of them reads the HTML."""
        raise NotImplementedError

    def _html_to_store(self) -> str:
        return self.to_html()

    def _stored(self) -> dict[str, object]:
        html, facts = self._html_to_store(), dict(self.facts())
        return {"text/plain": repr(self), "text/html": html, BUNDLE: facts}

    def _repr_mimebundle_(self, **_options: object) -> dict[str, object]:
        return self._stored()


class Storable(Stored):
    """A widget that a notebook also stores, for readers without a kernel.

    Inherit from it before the widget's own class, which shows the widget while a kernel runs.
    """

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        if is_static():
            return self._stored()
        bundle = super(Stored, self)._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**data, **self._stored()}
