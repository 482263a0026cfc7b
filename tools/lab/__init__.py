"""JupyterLab as `make lab` opens it."""
