"""Vote in class: a question of a lesson on the teacher's page, and A to D on phones."""
