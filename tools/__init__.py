"""Programs that build, check, measure and serve the lessons."""
