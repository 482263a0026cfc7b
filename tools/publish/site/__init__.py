"""The web pages of all lessons, of the package and of the notes for teachers."""
