"""The half that nobody reads who works on the clinic."""
