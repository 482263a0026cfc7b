"""The coverage table: every experiment of the audited notebooks, and every claim of theirs that is
wrong or misleading, has a cell in the series or a reason why not.
"""

import csv
from collections import Counter
from pathlib import Path

import pytest

from tools.notebooks import LESSONS, find_sources, read_source, tags

FOLDER = Path(__file__).parent / "coverage"
Row = dict[str, str]
Tags = dict[str, set[str]]  # lesson, two digits: the tags of its cells

# audited notebook: how many entries it has
FEATURES = {"S0": 16, "S1": 14, "S2": 13, "S3": 27, "S4": 23}
VERDICTS = {
    "false": {"C0": 3, "C1": 7, "C2": 4, "C3": 25, "C4": 8},
    "misleading": {"C0": 8, "C1": 5, "C2": 6, "C3": 22, "C4": 9},
}
MISCONCEPTIONS = {  # id: the lesson that meets it
    "M1": "03",  # True means the same in every mask
    "M2": "03",  # a fully masked row is harmless
    "M3": "07",  # view = transpose when splitting or merging heads
    "M4": "02",  # divide by sqrt(d_model)
    "M5": "02",  # why the root?
    "M6": "01",  # softmax over queries
    "M7": "03",  # -1e9 always works
    "M8": "03",  # padding must mask query rows
    "M9": "03",  # a padded batch equals single sentences by itself
    "M10": "03",  # mask shapes and broadcasting
    "M11": "03",  # is_causal with a cache
    "M12": "04",  # batch_first
    "M13": "04",  # rows sum to 1 after dropout; fused kernels return weights
    "M14": "07",  # heads slice the input; one big W is not h small ones
    "M15": "07",  # contiguity errors are noise
}
DEVICES = {f"D{number}" for number in range(1, 47)}


def read_rows(name: str) -> list[Row]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def source_tags() -> Tags:
    return {
        path.stem[:2]: {tag for cell in read_source(path).cells for tag in tags(cell)}
        for path in find_sources()
    }


@pytest.fixture(scope="module")
def lessons() -> Tags:
    return source_tags()


# --- the ids --------------------------------------------------------------------------------------


def wrong_features(ids: list[str]) -> list[str]:
    """Return one sentence for every feature that is absent, doubled or unknown."""
    wanted = {f"{part}.{n}" for part, count in FEATURES.items() for n in range(1, count + 1)}
    found = [f"{name} is absent" for name in sorted(wanted - set(ids))]
    for name, count in Counter(ids).items():
        if name not in wanted:
            found.append(f"{name} is unknown")
        elif count > 1:
            found.append(f"{name} occurs {count} times")
    return found


def wrong_claims(rows: list[Row]) -> list[str]:
    """Return one sentence for every doubled claim and every verdict with the wrong count."""
    ids = Counter(row["id"] for row in rows)
    found = [f"{name} occurs {count} times" for name, count in ids.items() if count > 1]
    counts = Counter((row["verdict"], row["id"].partition(".")[0]) for row in rows)
    wanted = {(verdict, part): n for verdict, ns in VERDICTS.items() for part, n in ns.items()}
    for key in sorted({*wanted, *counts}):
        if counts[key] != wanted.get(key, 0):
            verdict, part = key
            found.append(f"{part} has {counts[key]} {verdict} claims, not {wanted.get(key, 0)}")
    return found


def test_the_tables_hold_every_id_once():
    assert wrong_features([row["id"] for row in read_rows("features.csv")]) == []
    assert wrong_claims(read_rows("claims.csv")) == []
    assert sum(FEATURES.values()) == 93
    assert [sum(counts.values()) for counts in VERDICTS.values()] == [47, 50]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda ids: ids[1:], "S0.1 is absent"),
        (lambda ids: [*ids, "S4.23"], "S4.23 occurs 2 times"),
        (lambda ids: [*ids, "S4.24"], "S4.24 is unknown"),
    ],
)
def test_a_wrong_list_of_features_is_seen(change, complaint):
    ids = [row["id"] for row in read_rows("features.csv")]
    assert wrong_features(change(ids)) == [complaint]


@pytest.mark.parametrize(
    ("change", "complaints"),
    [
        (lambda rows: rows[1:], ["C0 has 7 misleading claims, not 8"]),
        (
            lambda rows: [*rows, rows[0]],
            ["C0.3 occurs 2 times", "C0 has 9 misleading claims, not 8"],
        ),
        (
            lambda rows: [*rows, {"id": "C5.1", "verdict": "true"}],
            ["C5 has 1 true claims, not 0"],
        ),
    ],
)
def test_a_wrong_list_of_claims_is_seen(change, complaints):
    assert wrong_claims(change(read_rows("claims.csv"))) == complaints


# --- the places -----------------------------------------------------------------------------------


def wrong_place(row: Row, lessons: Tags) -> str | None:
    """Say what is wrong with the lesson, tag, status and note of a row; None if nothing is."""
    lesson, tag, status = row["lesson"], row["tag"], row["status"]
    if status == "no cell":
        if lesson or tag:
            return "has no cell and names one"
        return None if row["note"].strip() else "has no cell and no note that says why"
    if lesson not in {name[:2] for name in LESSONS}:
        return f"names {lesson!r}, which is no lesson"
    if status != "shown":
        return f"has the status {status!r}"
    if lesson not in lessons:
        return f"is shown in lesson {lesson}, which is not written"
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
        ({"tag": ""}, "which no cell of lesson 01 has"),
        ({"lesson": "00"}, "which no cell of lesson 00 has"),
        ({"lesson": "10"}, "in lesson 10, which is not written"),
        ({"lesson": "11"}, "which is no lesson"),
        ({"lesson": ""}, "which is no lesson"),
        ({"status": "missing"}, "has the status 'missing'"),
        ({"status": ""}, "has the status ''"),
        ({"status": "pending"}, "has the status 'pending'"),
        ({"status": "no cell", "note": "a slip"}, "has no cell and names one"),
        ({"status": "no cell", "lesson": "", "tag": "", "note": " "}, "no note that says why"),
        ({"status": "no cell", "lesson": "", "tag": "", "note": "a slip"}, None),
    ],
)
def test_a_wrong_place_is_seen(change, complaint):
    lessons = {"00": {"id:S0.15"}, "01": {"id:S2.1", "reveal"}}
    told = wrong_place(GOOD | change, lessons)
    assert told == complaint if complaint is None else complaint in told


# --- the tags -------------------------------------------------------------------------------------


def unknown_tags(lessons: Tags, known: set[str]) -> list[str]:
    """Return every tag of a lesson that begins with id: and stands for nothing known."""
    return [
        f"{lesson}: {tag}"
        for lesson, names in sorted(lessons.items())
        for tag in sorted(names)
        if tag.strip().lower().startswith("id:") and tag.removeprefix("id:") not in known
    ]


def unmet(misconceptions: dict[str, str], lessons: Tags) -> list[str]:
    """Return the misconceptions without a tag in their lesson."""
    return [
        name
        for name, lesson in misconceptions.items()
        if f"id:{name}" not in lessons.get(lesson, set())
    ]


def test_every_id_tag_is_known(lessons):
    rows = read_rows("features.csv") + read_rows("claims.csv")
    known = {row["id"] for row in rows} | set(MISCONCEPTIONS) | DEVICES
    assert sum(len(names) for names in lessons.values()) > 100
    assert unknown_tags(lessons, known) == []


def test_every_misconception_is_met_in_its_lesson(lessons):
    assert list(MISCONCEPTIONS) == [f"M{number}" for number in range(1, 16)]
    assert unmet(MISCONCEPTIONS, lessons) == []


def test_a_wrong_tag_and_an_unmet_misconception_are_seen():
    lessons = {"01": {"reveal", "id:M6", "id:M16"}, "02": {"id: M4", "id:M5", "ID:M5"}}
    assert unknown_tags(lessons, set(MISCONCEPTIONS)) == ["01: id:M16", "02: ID:M5", "02: id: M4"]
    assert unmet({"M6": "01", "M4": "02", "M5": "02", "M1": "03"}, lessons) == ["M4", "M1"]
