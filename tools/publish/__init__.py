"""Copies of the lessons for others: pages, slides, students, Colab."""
