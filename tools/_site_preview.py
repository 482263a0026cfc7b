"""The picture that a link to a page brings along when it is shared."""

import io

from PIL import Image, ImageOps

SIZE = (1200, 630)  # what networks and messengers show without cutting
MARGIN = 40


def preview_of(png: bytes) -> bytes:
    """Return a figure in the middle of a white card of the size that is asked for, as PNG."""
    with Image.open(io.BytesIO(png)) as opened:
        room = tuple(side - 2 * MARGIN for side in SIZE)
        figure = ImageOps.contain(opened.convert("RGBA"), room)
    card = Image.new("RGB", SIZE, "white")
    left, top = ((side - taken) // 2 for side, taken in zip(SIZE, figure.size, strict=True))
    card.paste(figure, (left, top), figure)
    buffer = io.BytesIO()
    card.quantize(128).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
