"""Models that were trained beforehand, and how they are stored."""
