"""What the extra ``lessons`` brings, and what is said where it is missing."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def lessons_extra() -> Iterator[None]:
    """Name the extra that brings a package if its import, in this context, fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{error.name} is not installed; use pip install ".[lessons]".', name=error.name
        ) from None
