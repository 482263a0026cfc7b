"""The page of a class, as `make grade` writes it: names can be hidden, and cards are closed."""

from tools.grade.page import write_page
from tools.grade.roster import Roster
from tools.grade.submissions import Submission, exercises_of, lessons


def test_names_can_be_hidden_and_a_card_that_nobody_answered_is_closed(tab, tmp_path):
    file, roster = tmp_path / "Dan.ipynb", tmp_path / "roster.csv"
    file.touch()
    roster.write_text("Email address,First name\ncy@example.org,Cy\n")
    lesson = lessons()[3]
    first, *_ = exercises_of(lesson)
    ada, bea = ({one.check: ("missing", "") for one in exercises_of(lesson)} for _ in range(2))
    bea[first.check] = ("not yet", "It is wrong.")
    graded = {lesson: {Submission(file, "Ada"): ada, Submission(file, "Bea"): bea}}
    left_out = [(file.name, "It cannot be read.")]
    page = tab.open(write_page(tmp_path / "class.html", graded, left_out, None, Roster(roster)))
    is_open = page.locator("details").evaluate_all("cards => cards.map(card => card.open)")
    assert is_open == [True] + [False] * (len(is_open) - 1)
    answers = page.locator("details[open] li").all_inner_texts()
    assert [answer.split()[-1] for answer in answers] == ["wrong.", "missing"]
    names = page.locator("tbody th")
    assert names.all_inner_texts() == ["Ada", "Bea"]
    page.get_by_label("Hide names").check()
    seen = page.locator("body").inner_text()
    assert not [name for name in ("Ada", "Bea", "Cy", "Dan") if name in seen]
    marks = names.evaluate_all("all => all.map(one => getComputedStyle(one, '::before').content)")
    assert marks == ["counter(learner)"] * 2
