"""Every experiment and every wrong claim in tests/coverage has a place in the series, or a reason.

A row names a lesson, a proof of which covers its id, or says in its note why there is none.
"""

import csv
from collections import Counter
from pathlib import Path

import pytest

from tools.notebooks import NOTEBOOKS, find_notebooks
from tools.proofs import read_proofs

FOLDER = Path(__file__).parent / "coverage"
Row = dict[str, str]
Covered = dict[str, set[str]]  # the ids that the proofs of each lesson cover, by its two digits

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
    "M12": "07",  # batch_first
    "M13": "07",  # rows sum to 1 after dropout; fused kernels return weights
    "M14": "07",  # heads slice the input; one large matrix differs from several small ones
    "M15": "07",  # contiguity errors are noise
}


def read_rows(name: str) -> list[Row]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def covered_in(folder: Path) -> Covered:
    """Return the ids that the proofs of the notebooks of a folder cover."""
    return {
        path.stem[:2]: {one for proof in read_proofs(path) for one in proof.covers}
        for path in find_notebooks(folder)
    }


@pytest.fixture(scope="module")
def covered() -> Covered:
    return covered_in(NOTEBOOKS)


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


def wrong_place(row: Row, covered: Covered) -> str | None:
    """Return what is wrong with the lesson, status and note of a row; None if nothing is."""
    lesson, status = row["lesson"], row["status"]
    if status == "no cell":
        if lesson:
            return "has no cell and names a lesson"
        return None if row["note"].strip() else "has no cell and no note that says why"
    if status != "shown":
        return f"has the status {status!r}"
    if lesson not in covered:
        return f"names {lesson!r}, which is not a lesson"
    return None if row["id"] in covered[lesson] else f"is covered by no proof of lesson {lesson}"


@pytest.mark.parametrize("name", ["features.csv", "claims.csv"])
def test_every_row_is_covered_or_says_why_not(name, covered):
    complaints = {row["id"]: wrong_place(row, covered) for row in read_rows(name)}
    assert {row: what for row, what in complaints.items() if what} == {}


def test_every_feature_has_a_cell():
    assert {row["status"] for row in read_rows("features.csv")} == {"shown"}


def test_every_proof_covers_what_the_tables_hold(covered):
    known = {row["id"] for name in ("features.csv", "claims.csv") for row in read_rows(name)}
    unknown = {lesson: ids - known - set(MISCONCEPTIONS) for lesson, ids in covered.items()}
    assert {lesson: ids for lesson, ids in unknown.items() if ids} == {}


GOOD = {"id": "S2.1", "lesson": "01", "status": "shown", "note": ""}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        ({"id": "S2.99"}, "is covered by no proof of lesson 01"),
        ({"lesson": "00"}, "is covered by no proof of lesson 00"),
        ({"lesson": "11"}, "which is not a lesson"),
        ({"status": "pending"}, "has the status 'pending'"),
        ({"status": "no cell", "note": "a slip"}, "has no cell and names a lesson"),
        ({"status": "no cell", "lesson": "", "note": " "}, "no note that says why"),
        ({"status": "no cell", "lesson": "", "note": "a slip"}, None),
    ],
)
def test_a_wrong_place_is_seen(change, complaint):
    found = wrong_place(GOOD | change, {"00": {"S0.15"}, "01": {"S2.1"}})
    assert found == complaint if complaint is None else complaint in found


def test_every_misconception_is_covered_in_its_lesson(covered):
    missing = [name for name, lesson in MISCONCEPTIONS.items() if name not in covered[lesson]]
    assert missing == []
