"""The pages at the top: links lead somewhere, commands exist, and the example runs."""

import re
import tomllib

import matplotlib.pyplot as plt
import pytest
import yaml

from tools.build.sources import ROOT, find_notebooks, is_lesson, read_notebook

PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "CONTRIBUTING.md", "TEACHING.md", "CHANGELOG.md")
}
README, TEACHING = PAGES["README.md"], PAGES["TEACHING.md"]
OPENINGS = {
    int(path.name[:2]): read_notebook(path).cells[0].source
    for path in find_notebooks()
    if is_lesson(path)
}


def headings(page: str) -> set[str]:
    found = re.findall(r"^#+ (.*)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {words.lower().replace(" ", "-") for words in found}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page) -> None:
    # what begins with ../../ is a page of GitHub about this repository
    for link in re.findall(r"\]\((?!https?:|\.\./\.\./)([^)]+)\)", PAGES[page]):
        file, _, heading = link.partition("#")
        assert (ROOT / file).exists(), link
        assert not heading or heading in headings(file or page), link


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "TEACHING.md"])
def test_commands_are_targets(page) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    used = re.findall(r"(?:^|`)make ([a-z]+)", PAGES[page], re.MULTILINE)
    assert used
    assert set(used) <= set(targets)


def test_the_page_about_the_data_names_the_files_that_are_there() -> None:
    page = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+\.(?:csv|py|txt|safetensors))`", page)
    assert {path.name for path in (ROOT / "data").iterdir()} == {*named, "README.md"}


TITLE = re.compile(r"^# (\d+) · (.+)", re.MULTILINE)
ROW = r"^\| (\d+) \| \[?([^]|]+?)(?:\]\(.*?\))? \| .*\| (\d+) / (\d+) \|"


def test_the_table_of_lessons_names_all_and_tells_their_minutes() -> None:
    assert all(f"(notebooks/{path.name})" in README for path in find_notebooks())
    times = {
        number: [*re.search(r"\*\*Time:\*\* (\d+) minutes in class,(?: or)? (\d+)", text).groups()]
        for number, text in OPENINGS.items()
    }
    titles = {int(one): title for one, title in re.findall(TITLE, "\n".join(OPENINGS.values()))}
    rows = re.findall(ROW, README, re.MULTILINE)
    assert {int(number): minutes for number, _, *minutes in rows} == times
    for number, name, *_ in rows:  # a title may go on after its name
        assert re.match(rf"{re.escape(name)}(?!\w| \w)", titles[int(number)]), name


def test_the_choices_of_lessons_contain_what_their_lessons_need() -> None:
    needed = {}
    for number, text in OPENINGS.items():
        (needs,) = re.findall(r"\*\*You need:?\*\*(.*?)\n\n", text, re.DOTALL)
        needed[number] = {int(other) for other in re.findall(r"lesson (\d+)", needs)}
    section = TEACHING.partition("### Which lessons to choose")[2].partition("\n#")[0]
    choices = re.findall(r"^\| .* \| (\d.*) \|", section, re.MULTILINE)
    assert len(choices) == 6
    for choice in choices:
        before = set()
        for number in map(int, re.findall(r"\d+", choice)):
            assert needed[number] <= before, (choice, number)
            before.add(number)


def test_the_examples_run(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # one of them saves a page
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec("".join(examples), {})
    assert (tmp_path / "heads.html").stat().st_size > 50_000
    assert capsys.readouterr().out.startswith("tensor([1.0000, ")  # of a query that sees one key
    plt.close("all")


def test_the_citation_is_that_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name in ("version", "authors", "keywords"):
        assert citation[name] == project[name]
    assert " AND ".join(citation["license"]) == project["license"]
