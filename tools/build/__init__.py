"""How a source becomes a notebook."""
