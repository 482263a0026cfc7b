"""What all exercises are made of: answers, forms of checks, verdicts, and how they speak."""
