"""Layers and what they need: modules, positions, a cache, tiles, and the memory they take."""
