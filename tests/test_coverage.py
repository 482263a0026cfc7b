"""Every experiment and every wrong claim in tests/coverage has a cell in the series, or a reason.

A row names a lesson and the tag of one of its cells, or says in its note why there is none.
"""

import csv
from collections import Counter
from pathlib import Path

import pytest

from tools.notebooks import find_sources, read_source, tags

FOLDER = Path(__file__).parent / "coverage"
Row = dict[str, str]
Tags = dict[str, set[str]]  # the tags of each lesson's cells, by its two digits

# How many rows there are of each part: experiments, and claims that are false or misleading.
FEATURES = {"S0": 16, "S1": 14, "S2": 13, "S3": 27, "S4": 23}
CLAIMS = {
    "false": {"C0": 3, "C1": 7, "C2": 4, "C3": 25, "C4": 8},
    "misleading": {"C0": 8, "C1": 5, "C2": 6, "C3": 22, "C4": 9},
}
MISCONCEPTIONS = {  # the lesson that corrects each
    "M1": "03",  # True means the same in every mask
    "M2": "03",  # a fully masked row is harmless
    "M3": "07",  # view does the same as transpose when heads are split or merged
    "M4": "02",  # divide by sqrt(d_model)
    "M5": "02",  # why the root?
    "M6": "01",  # softmax over queries
    "M7": "03",  # -1e9 always works
    "M8": "03",  # padding must mask the rows of queries
    "M9": "03",  # a padded batch equals single sentences by itself
    "M10": "03",  # mask shapes and broadcasting
    "M11": "03",  # is_causal with a cache
    "M12": "04",  # batch_first
    "M13": "04",  # rows sum to 1 after dropout; fused kernels return weights
    "M14": "07",  # heads slice the input; one large matrix differs from several small ones
    "M15": "07",  # contiguity errors are noise
}


def read_rows(name: str) -> list[Row]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.fixture(scope="module")
def lessons() -> Tags:
    return {
        path.stem[:2]: {tag for cell in read_source(path).cells for tag in tags(cell)}
        for path in find_sources()
    }


def test_the_tables_hold_every_id_once():
    ids = [row["id"] for row in read_rows("features.csv")]
    wanted = [f"{part}.{n}" for part, count in FEATURES.items() for n in range(1, count + 1)]
    assert sorted(ids) == sorted(wanted)
    claims = read_rows("claims.csv")
    assert len({row["id"] for row in claims}) == len(claims)
    counts = Counter((row["verdict"], row["id"].partition(".")[0]) for row in claims)
    assert counts == {
        (verdict, part): n for verdict, ns in CLAIMS.items() for part, n in ns.items()
    }


def wrong_place(row: Row, lessons: Tags) -> str | None:
    """Return what is wrong with the lesson, tag, status and note of a row; None if nothing is."""
    lesson, tag, status = row["lesson"], row["tag"], row["status"]
    if status == "no cell":
        if lesson or tag:
            return "has no cell and names one"
        return None if row["note"].strip() else "has no cell and no note that says why"
    if status != "shown":
        return f"has the status {status!r}"
    if lesson not in lessons:
        return f"names {lesson!r}, which is not a lesson"
    if not tag.startswith("id:") or tag not in lessons[lesson]:
        return f"names the tag {tag!r}, which no cell of lesson {lesson} has"
    return None


@pytest.mark.parametrize("name", ["features.csv", "claims.csv"])
def test_every_row_names_a_cell_or_says_why_not(name, lessons):
    complaints = {row["id"]: wrong_place(row, lessons) for row in read_rows(name)}
    assert {row: what for row, what in complaints.items() if what} == {}


def test_every_feature_has_a_cell():
    assert {row["status"] for row in read_rows("features.csv")} == {"shown"}


GOOD = {"lesson": "01", "tag": "id:S2.1", "status": "shown", "note": ""}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        ({"tag": "id:S2.99"}, "which no cell of lesson 01 has"),
        ({"tag": "reveal"}, "which no cell of lesson 01 has"),
        ({"lesson": "00"}, "which no cell of lesson 00 has"),
        ({"lesson": "11"}, "which is not a lesson"),
        ({"status": "pending"}, "has the status 'pending'"),
        ({"status": "no cell", "note": "a slip"}, "has no cell and names one"),
        ({"status": "no cell", "lesson": "", "tag": "", "note": " "}, "no note that says why"),
        ({"status": "no cell", "lesson": "", "tag": "", "note": "a slip"}, None),
    ],
)
def test_a_wrong_place_is_seen(change, complaint):
    found = wrong_place(GOOD | change, {"00": {"id:S0.15"}, "01": {"id:S2.1", "reveal"}})
    assert found == complaint if complaint is None else complaint in found


def test_every_misconception_has_a_cell_in_its_lesson(lessons):
    missing = [
        name for name, lesson in MISCONCEPTIONS.items() if f"id:{name}" not in lessons[lesson]
    ]
    assert missing == []
