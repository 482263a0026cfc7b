"""The examination of layers: modules, and functions of one tensor of tokens."""
