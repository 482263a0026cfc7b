"""Grade what a class handed in: `make grade DIR=submissions`."""
