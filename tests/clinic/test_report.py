"""Reports: what they say in plain text, and that every name has a fix and a lesson."""

import torch

from attnlab.clinic import Evidence, Finding, Gap, Report
from attnlab.clinic.causes import CAUSES, EXPLAINS
from attnlab.clinic.results import Results, note, unexamined, wrong
from tools.build.sources import find_sources

TABLE = Evidence("Weights:", torch.tensor([[0.25, 1.0], [float("nan"), 12345.678]]), ("a", "b"),
                 ("key 0", "sum"))  # fmt: skip


def test_evidence_is_a_table_of_short_numbers():
    assert TABLE.cells() == [["0.250", "1"], ["NaN", "1.2e+04"]]
    assert str(TABLE).splitlines() == [
        "Weights:",
        "   key 0      sum",
        "a  0.250        1",
        "b    NaN  1.2e+04",
    ]


def test_every_cause_has_a_fix_and_a_lesson_of_the_series():
    for name, cause in CAUSES.items():
        assert len(cause.fix) > 10, name
        assert cause.fix.endswith((".", "before softmax.")), name
        assert cause.lesson in {path.stem for path in find_sources()}, name


def test_what_explains_and_is_explained_are_known_causes():
    named = set(EXPLAINS) | {name for names in EXPLAINS.values() for name in names} - {"*"}
    assert named <= set(CAUSES)


def test_consequences_are_folded_under_their_cause():
    findings = [
        Finding("softmax-axis", "cause"),
        Finding("remembers", "other"),
        Finding("batch-mixing", "consequence"),
    ]
    first, second = Results(findings=findings).arranged()
    assert (first.name, second.name) == ("softmax-axis", "remembers")
    assert [finding.name for finding in first.consequences] == ["batch-mixing"]


def test_the_text_of_a_report_with_a_finding():
    finding = Finding("remembers", "Every call prints.", TABLE, (Finding("nan", "And NaN."),))
    report = Report("mine", "attention function", (finding,), ("A note.",), ("It holds.",))
    text = repr(report)
    assert text.startswith(
        "mine (attention function): 1 finding\n\n1. Every call prints.  [remembers]"
    )
    for part in ("b    NaN", "Fix: compute from the arguments", "See lesson 9.",
                 "Follows from it: And NaN.", "Good to know:\n- A note.",
                 "found to hold:\n- It holds."):  # fmt: skip
        assert part in text
    assert not report.ok
    assert report.summary == "Every call prints."


def test_what_was_not_examined_is_neither_correct_nor_wrong():
    gap = Gap("It raises a TypeError.", "layer(x, mask=None)", "Pass call=...")
    bare = Report("mine", "attention layer", gap=gap)
    assert bare.ok is None
    assert bare.summary == (
        "It raises a TypeError. The call was layer(x, mask=None). Pass call=..."
    )
    assert repr(bare).startswith("mine (attention layer): not examined\n\nNot examined: It raises")
    assert "mine: not examined" in bare._repr_html_()
    partly = Report("mine", "attention layer", properties=("one",), gap=gap)
    assert (partly.ok, partly._count()) == (None, "not fully examined")
    assert Report("mine", "attention layer").ok is None
    assert Report("mine", "attention layer").summary == "Nothing could be checked."
    for words in ("Call: <code>layer(x, mask=None)</code>", "What helps: Pass call=..."):
        assert words in bare._repr_html_()
    assert "   Call: layer(x, mask=None)\n   What helps: Pass call=..." in repr(bare)
    broken = Report("mine", "attention layer", (Finding("remembers", "It prints."),), gap=gap)
    assert (broken.ok, broken.summary) == (False, "It prints.")
    assert "Not examined:</b> It raises" in broken._repr_html_()


def test_only_the_first_gap_of_an_examination_counts():
    results = Results()
    results.add(unexamined("first", call="f(x)"))
    results.add(unexamined("second"))
    assert results.gap == Gap("first", "f(x)")
    assert results.notes == ["second"]


def test_a_chart_keeps_the_first_of_a_name():
    results = Results()
    for fact in (wrong("nan", "first"), wrong("nan", "second"), *[note("sizes", "n")] * 2):
        results.add(fact)
    assert [str(finding) for finding in results.findings] == ["first"]
    assert results.notes == ["n"]
    assert results.notes[0].key == "sizes"
    assert results.has("hard", "nan")
    assert not results.has("hard")
