"""The examination of attention functions of (query, key, value)."""
