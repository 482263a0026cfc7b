"""Measure what the project says about its own speed, next to torch, as ratios: `make bench`."""
