"""Each probe looks at one thing: a function of its arguments that returns or yields facts."""
