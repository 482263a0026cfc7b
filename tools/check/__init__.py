"""What is checked about notebooks: their text, and what a fresh run gives."""
