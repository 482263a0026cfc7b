"""The half that may be read by whoever works on the clinic."""
