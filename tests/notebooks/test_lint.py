"""Each rule of the lint finds its fault and is silent without it."""

import copy
import json
import re

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.lint import RULES, __main__, lint
from tools.lint.lesson import Lesson, Note
from tools.lint.numbers import numbers_in
from tools.notebooks import KERNELSPEC, ROOT, find_notebooks

NAME = "03_masks.ipynb"
CLOSING = ("What to remember", "Exercises", "In torch", "Sources", "Next")
FIGURE = '<figure data-number="{}"><img alt="{}" src="{}"><figcaption>{}</figcaption></figure>'
PICTURE = "data:image/png;base64," + "0x7f/home/2026/" * 20


def code(source="pass", *outputs, tags=(), **jupyter):
    """Return a code cell."""
    metadata = {"tags": list(tags), "jupyter": jupyter}
    return new_code_cell(source, outputs=list(outputs), metadata=metadata)


def printed(text, name="stdout"):
    """Return an output as print makes it."""
    return new_output("stream", name=name, text=text)


def shown(plain="", **data):
    """Return an output as the last expression of a cell makes it."""
    data = {f"text/{kind}": text for kind, text in data.items()}
    return new_output("display_data", data={"text/plain": plain, **data})


def figure(number="3.1", alt="A table.", caption="Read along a row."):
    """Return a numbered figure."""
    html = FIGURE.format(number, alt, PICTURE, caption)
    return shown(f"Figure {number}. {caption}", html=html)


def error():
    """Return a stored exception."""
    return new_output("error", ename="ValueError", evalue="no", traceback=["no"])


QUESTIONS = """[which-one]
question = "Which?"
explanation = "{}"
[[which-one.options]]
text = "a"
[[which-one.options]]
text = "b"
correct = true

"""
for other in ("two", "three"):
    QUESTIONS += QUESTIONS[: QUESTIONS.index("\n\n") + 2].format("So.").replace("one", other)


def asked(key="03/which-one"):
    """Return a cell that asks."""
    return code(f'predict("{key}")')


def answer(key="03/which-one"):
    """Return a cell that answers."""
    return code(f"%%answer {key}\nx = 3")


def good_cells():
    """Return the cells of a lesson without a fault."""
    exercise = code("def shift(x):\n    pass", tags=["exercise"])
    solution = code("def shift_solution(x):\n    return x", tags=["solution"], source_hidden=True)
    return [
        new_markdown_cell("# 3 · Masks: who may look at whom\n\n**Time:** 15 minutes in class"),
        *[new_markdown_cell("We look at masks.") for _ in range(5)],
        asked(),
        answer(),
        asked("03/which-two"),
        asked("03/which-three"),
        code("weights = softmax(scores)\nMaskExplorer()"),
        code("class Masked:\n" + 15 * "    y = f(x)\n"),
        code("weights\nassert close(weights, ours, atol=0.5)"),
        *(new_markdown_cell(f"## {heading}") for heading in CLOSING[:2]),
        exercise,
        solution,
        *(new_markdown_cell(f"## {heading}") for heading in CLOSING[2:]),
    ]


def store(folder, cells, name=NAME, questions=None, proofs="", **metadata):
    """Write a notebook with fresh ids and counts, and the files beside it; return its path."""
    questions = QUESTIONS.format("So.") if questions is None else questions
    cells = [copy.deepcopy(cell) for cell in cells]
    for number, cell in enumerate(cells, start=1):
        cell.id = f"cell-{number}"
    for number, cell in enumerate((c for c in cells if c.cell_type == "code"), start=1):
        cell.execution_count = number
    notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC, **metadata})
    path = folder / name
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    beside = {f"predictions/{path.stem}.toml": questions, f"proofs/{path.stem}.py": proofs}
    for file, text in beside.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    return path


def edit(path, change):
    """Change a stored notebook in place."""
    notebook = nbformat.reader.reads(path.read_text(encoding="utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")  # nbformat would repair it


def rules_of(path):
    return {finding.rule for finding in lint(path)}


def test_a_good_lesson_has_no_findings(tmp_path):
    assert lint(store(tmp_path, good_cells())) == []


def test_lesson_00_needs_no_closing_parts(tmp_path):
    cells = [new_markdown_cell("# 0 · Start here")]
    found = lint(store(tmp_path, cells, "00_start_here.ipynb", questions=""))
    assert {finding.rule for finding in found} <= {"limits"}


LAST = len(good_cells()) + 1
TITLE = new_markdown_cell("# 3 · Masks")
WORDS = [new_markdown_cell("# Words"), new_markdown_cell("### attention weight\n\n### softmax")]
WIDGET = {"application/vnd.jupyter.widget-view+json": {}}

# A fault is a change of the good lesson, a text after its first cell, a code cell at its end, or
# other files beside it.
FAULTS = {
    "kernelspec": [
        lambda nb: nb.metadata.pop("kernelspec"),
        lambda nb: nb.metadata.kernelspec.update(name="julia"),
    ],
    "execution_counts": [
        lambda nb: nb.cells[-4].update(execution_count=1),
        lambda nb: nb.cells[-4].update(execution_count=None),
    ],
    "cell_ids": [
        lambda nb: nb.cells[3].update(id=nb.cells[2].id),
        lambda nb: nb.cells[3].pop("id"),
    ],
    "file_size": [lambda nb: nb.metadata.update(filler="x" * 2_000_000)],
    "links": [
        "[there](nowhere.md)",
        "![picture](../figures/none.png)",
        "![picture](https://example.org/a.png)",
        '<img src="http://example.org/a.png">',
        "[there][1]\n\n[1]: nowhere.md",
        "[lesson](09_clinic.ipynb)",
        "[part](#part)",
        "[word](glossary.ipynb#sofmax)",
    ],
    "known_tags": [
        code(tags=["remove-input"]),
        code(tags=["id:S2.1"]),
        code("1 / 0", error(), tags=["raises-exception", "nbval-skip"]),
        code("# NBVAL_IGNORE_OUTPUT\nx = 1"),
    ],
    "teacher_notes": [
        lambda nb: nb.cells[1].metadata.update(tags=["teacher"]),
        "<details><summary>For teachers: time</summary>45 minutes</details>",
    ],
    "expected_errors": [code("1 / 0", error()), code(tags=["raises-exception"])],
    "unstable_code": [
        code("interact(draw, x=3)"),
        code("widgets.interactive_output(draw, {})"),
        code("out = widgets.Output()"),
        code("clear_output(wait=True)"),
        code("display(x, display_id=True)"),
        code("for i in tqdm(range(3)): pass"),
        code("%time f()"),
        code("%%timeit\nf()"),
        code("plt.show()"),
        code("plt.plot(x);"),
    ],
    "stderr": [code("warn()", printed("careful", "stderr"))],
    "leaks": [
        code("f", shown("<function f at 0x7f3a10>")),
        code("f", printed("/home/ada/attnlab\n")),
        code("f", printed("in 'lib/site-packages/torch'")),
        code("f", printed("C:\\Users")),
        code("f", shown("", html="<a href='https://pytorch.org'>torch</a>")),
        code("f", printed("from download.pytorch.org")),
        code("f", printed("2.13.0\n")),
        code("f", printed("torch 2.13\n")),
        code("f", printed("2.13+cpu\n")),
        code("f", printed("on 2026-11-21\n")),
        code("f", printed("at 12:30:01\n")),
    ],
    "widget_views": [
        lambda nb: nb.metadata.update(widgets={}),
        code("w", new_output("display_data", data=WIDGET)),
    ],
    "figures": [
        code("f", figure("3.2")),
        code("f", figure("2.1")),
        code("f", figure(alt="")),
        code("f", figure(caption=" ")),
    ],
    "folding": [lambda nb: nb.cells[-4].metadata.update(jupyter={})],
    "glossary": [
        {"name": "glossary.ipynb", "cells": [TITLE, code()]},
        {"name": "glossary.ipynb", "cells": [new_markdown_cell("### value\n\n### softmax")]},
        {"name": "glossary.ipynb", "cells": [new_markdown_cell("### value\n\n### Value")]},
    ],
    "proofs": [
        {"proofs": "assert x == 3\n"},
        {"proofs": "# %% after: cell-30\nassert x == 3\n"},
        {"proofs": "# %% after: cell-8\nassert x == x\n"},
        {"proofs": "# %% after: cell-8\n"},
        {"proofs": "# %% after: cell-8\nassert torch.equal(y, z)\n"},
    ],
    "code_size": [code("x = 1\n" * 26), code("x = '" + "a" * 84 + "'")],
    "wording": [
        "Look!",
        "It is simply so.",
        "Just so.",
        "Easy.",
        "Well done \U0001f600",
        code("# \U0001f600"),
        {"questions": QUESTIONS.format("Look!")},
        {"questions": QUESTIONS.format("It is simply so.")},
    ],
    "title": [
        lambda nb: nb.cells[0].update(source="# 2 · Masks"),
        lambda nb: nb.cells[0].update(source="Masks"),
    ],
    "closing_parts": [
        lambda nb: nb.cells[-1].update(source="## Then"),
        lambda nb: nb.cells[-1].update(source="**Next:**"),
        lambda nb: nb.cells[-1].update(source="## Next\n\n## More"),
    ],
    "predictions": [
        "**Predict.** Which?",
        asked("03/which"),
        asked("04/which-one"),
        asked(),
        code("predict(key)"),
        answer("03/which"),
        {"questions": ""},
        {"questions": QUESTIONS.format("So.").replace("which-one", "other-one")},
        lambda nb: nb.cells.pop(6),
        lambda nb: nb.cells.insert(6, nb.cells.pop(7)),
    ],
    "solutions": [
        lambda nb: nb.cells[-4].update(source="def answer(x): return x"),
        lambda nb: nb.cells[-4].metadata.update(tags=[]),
    ],
    "prose_numbers": [
        "It is 0.36.",
        code("f", figure(caption="It is 0.36.")),
        code("f", figure(alt="It is 0.36.")),
        {"questions": QUESTIONS.format("It is 0.36.")},
    ],
    "declared_numbers": [
        {"proofs": "# %% after: cell-1  numbers: 3, 2017\n"},
        {"proofs": "# %% after: cell-7  numbers: 2017\n"},
    ],
    "limits": [
        lambda nb: nb.cells[0].update(source="# 3 · Masks\n\n**Time:** 13 minutes in class"),
        lambda nb: nb.cells[0].update(source="# 3 · Masks"),
        lambda nb: nb.cells.insert(1, new_markdown_cell("word " * 200)),
        lambda nb: [nb.cells.insert(1, new_markdown_cell("")) for _ in range(28)],
        lambda nb: nb.cells.pop(8),
        lambda nb: [nb.cells.insert(8, asked()) for _ in range(4)],
        lambda nb: nb.cells.pop(10),
        lambda nb: [nb.cells.insert(10, code("MaskExplorer()")) for _ in range(2)],
        lambda nb: nb.cells.insert(1, code("import math\nprint(3)\n" * 7)),
        lambda nb: nb.cells.insert(-1, code("assert x\n" * 6)),
        lambda nb: nb.cells.insert(-1, code("assert x < 0.5")),
        lambda nb: nb.cells.insert(-1, code("assert (\n    x\n)")),
        lambda nb: nb.cells[7].update(source=nb.cells[7].source + "\nassert x"),
        lambda nb: nb.cells.insert(10, code("assert x")),
        lambda nb: nb.cells.insert(1, code("y = f(x)\n" * 16)),
        lambda nb: [nb.cells.insert(1, code("y = f(x)\n" * 5)) for _ in range(3)],
    ],
}
CORRECT = {
    "links": [
        "[there](here.md)",
        "![picture](here.md)",
        "[part](#What-to-remember)",
        "[word](glossary.ipynb#attention-weight)",
        "[words](glossary.ipynb)",
        "[site](https://example.org/)",
        "`[there](nowhere.md)`",
    ],
    "known_tags": [code(tags=["exercise"])],
    "expected_errors": [code("1 / 0", error(), tags=["raises-exception"])],
    "unstable_code": [
        code("x.T"),
        code("# plt.show() ;\nshown = 'clear_output();'"),
        code('f"{x};"\n"""tqdm\nOutput()"""'),
        code("interaction(3)\ntimes = 5"),
    ],
    "stderr": [code("f", printed("all well"))],
    "leaks": [
        code("f", shown("(0.5, 2.13)")),
        code("f", printed("section 3.2.1, width 2026, 30x40, and/or")),
        code("f", figure()),
        code("f", shown("", html='<svg xmlns="http://www.w3.org/2000/svg"></svg>')),
    ],
    "figures": [code("f", figure()), code("f", shown("", html="<figure>free</figure>"))],
    "code_size": [code("x = 1\n\n" * 25)],
    "wording": [
        "`a != b` and a != b",
        "![picture](here.md)",
        "<!-- look! -->",
        "$n! = n$",
        "Adjust it, it is easier. ★★ (6 minutes) ✓",
        "```\nYou can simply write !\n```",
        {"questions": QUESTIONS.format("`a != b`, $n!$")},
    ],
    "predictions": [answer(), code("from attnlab.exercises import predict")],
    "proofs": [
        {"proofs": "# %% after: cell-8\nassert x == 3\n\n# %% after: cell-1  numbers: 7\n"},
        {"proofs": "# %% after: cell-1\nassert y == 3\n"},
    ],
    "declared_numbers": [
        {
            "proofs": "# %% after: cell-7  numbers: 2017\n",
            "questions": QUESTIONS.format("In 2017."),
        }
    ],
    "glossary": [{"name": "glossary.ipynb", "cells": WORDS}, "### value\n\n### softmax"],
    "title": [{"name": "glossary.ipynb", "cells": WORDS}],
    "limits": [
        {"name": "glossary.ipynb", "cells": WORDS},
        code("x = 3\n" * 20),  # an exercise is not in the main line
    ],
}


def cases(table):
    return [(rule, case) for rule, found in table.items() for case in found]


def test_every_rule_has_a_fault_in_the_table():
    assert list(FAULTS) == [rule.__name__ for rule in RULES]


@pytest.mark.parametrize(("rule", "fault"), cases(FAULTS))
def test_a_fault_is_found(tmp_path, rule, fault):
    first, *others = good_cells()
    store(tmp_path, WORDS, "glossary.ipynb", questions="")
    if isinstance(fault, str):
        path, cells = store(tmp_path, [first, new_markdown_cell(fault), *others]), {2}
    elif callable(fault):
        path, cells = store(tmp_path, good_cells()), None
        edit(path, fault)
    elif isinstance(fault, NotebookNode):
        path, cells = store(tmp_path, [first, *others, fault]), {LAST}
    else:
        path, cells = store(tmp_path, **{"cells": good_cells(), **fault}), None
    found = {finding.cell for finding in lint(path) if finding.rule == rule}
    assert found == cells if cells else found


@pytest.mark.parametrize(("rule", "case"), cases(CORRECT))
def test_what_is_correct_is_not_found(tmp_path, rule, case):
    (tmp_path / "here.md").touch()
    store(tmp_path, WORDS, "glossary.ipynb", questions="")
    first, *others = good_cells()
    if isinstance(case, str | NotebookNode):
        more = new_markdown_cell(case) if isinstance(case, str) else case
        path = store(tmp_path, [first, *others, more])
    else:
        path = store(tmp_path, **{"cells": good_cells(), **case})
    assert rule not in rules_of(path)


# --- numbers in the text --------------------------------------------------------------------------


def unbacked(path):
    """Return the cells and numbers for which the lint finds nothing that computes them."""
    found = [one for one in lint(path) if one.rule == "prose_numbers"]
    return [(one.cell, one.text.removeprefix("the number ").split()[0]) for one in found]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The weight is 0.36.", ["0.36"]),
        ("In 1,024 draws, -2.5 or −2.5.", ["1,024", "-2.5", "-2.5"]),
        ("about 56 % of them, 3-D", ["56", "3"]),
        ("$10^3$, $10^{-4}$ and 10⁻⁵", ["10^3", "10^{-4}", "10^{-5}"]),
        (r"$\sqrt{64}$ and $\frac12$", ["64", "12"]),
        (r"$x_1 + e^0 + e^{10} + d_{12}$", []),
        ("from 3–5, 4×7, S-1", ["3", "5", "4", "7", "1"]),
        ("`0.36` and\n```\n5\n```", []),
        ("[text 4](page5.html) ![alt](figure_6.png)", ["4"]),
        ("[2 · Why divide](02_why.ipynb)", []),
        ("<b style='width:3px'>7</b> <!-- 8 -->", ["7"]),
        ("# 3 · Masks in 4 steps\n\n1. one\n2. two", []),
        ("### 3 · Repair ★★ (8 minutes)\n\n**Time:** 45 minutes in class, 90 alone", []),
        ("Figure 2.1, lesson 2, lessons 1 to 4, section 3.2.1, Exercise 3, figures 3 and 4", []),
        ("lesson 2, 5 heads", ["5"]),
        ("GPT-2, M4, float32, x2, https://arxiv.org/abs/1706.03762", []),
        ("-1e9 and 3.2.1", ["-1e9", "3.2.1"]),
        ("1 000 is two numbers; twelve is none", ["1", "000"]),
    ],
)
def test_numbers_are_taken_from_prose(text, wanted):
    assert [number.text for number in numbers_in(text)] == wanted


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("0.36", code("assert abs(x - 0.3592) < 1")),
        ("0.36", code("assert_close(x, torch.tensor([0.3592]))")),
        ("0.36", code("expected = torch.tensor([0.3592])\nassert allclose(x, expected)")),
        ("-0.36", code("assert x == -0.36")),
        ("lower by 0.36", code("assert x == -0.36")),
        ("0.36", code("x", printed("weight 0.359\n"))),
        ("0.36", code("x", shown("tensor([0.359])"))),
        ("0.36", code("x", shown("", html="<p>0.359</p>"))),
        ("56 %", code("assert abs(x - 0.561) < 1")),
        ("56 %", code("x", printed("56"))),
        ("56 percent", code("x", printed("0.561"))),
        ("64", code("d_k = 64")),
        ("20,000", code("torch.randn(2, 20_000)")),
        ("$10^{-3}$", code("assert x < 1e-3")),
        ("1,024", code("x", printed("1024"))),
        ("23", code("x", printed("22.6"))),
        ("about 7 keys", code("x", printed("6.8"))),
    ],
)
def test_a_number_is_backed(tmp_path, text, cell):
    assert unbacked(store(tmp_path, [TITLE, new_markdown_cell(text), cell])) == []


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("0.36", code("x = 0.36")),
        ("0.36", code("assert abs(x - 0.3) < 1")),
        ("0.361", code("x", printed("0.36"))),
        ("-0.36", code("x", printed("0.36"))),
        ("-3", code("x = 3")),
        ("0.36", code("x", figure(caption="It is 0.36.", alt="0.36"))),
        ("0.36", code("x", shown("", html='<p title="0.36">none</p>'))),
        ("0.36", code("x = '0.36'  # 0.36")),
        ("2", code("x", printed("1.72"))),
        ("1", code("assert True")),
        ("57 %", code("assert x == 0.561")),
    ],
)
def test_a_number_from_nowhere_is_found(tmp_path, text, cell):
    found = unbacked(store(tmp_path, [TITLE, new_markdown_cell(text), cell]))
    assert (2, text.split()[0]) in found
    assert {cell for cell, _ in found} <= {2, 3}  # 3 may have a caption


STORED = shown("Which?", html="<p>0.36</p>")
NEXT_SECTION = new_markdown_cell("## Then\n\nSo 64 features.")


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([code("d_k = 64"), *[code()] * 2, NEXT_SECTION], False),
        ([code("d_k = 64"), *[code()] * 3, NEXT_SECTION], True),
        ([code("d_k = 64"), *[asked()] * 5, NEXT_SECTION], False),
        ([TITLE, code("d_k = 64"), *[code()] * 9, new_markdown_cell("So 64.")], False),
        ([NEXT_SECTION, code('predict("03/which-one")\nassert x == 64', STORED)], True),
    ],
    ids=["near", "far", "predictions between", "own section", "a prediction"],
)
def test_a_number_is_backed_in_its_section_or_by_a_near_cell(tmp_path, cells, found):
    assert bool(unbacked(store(tmp_path, cells))) is found


@pytest.mark.parametrize(
    ("text", "cell", "found"),
    [
        ("It is 0.36.", code("assert abs(x - 0.3592) < 1"), []),
        ("It is 0.36.", code("x", printed("0.359\n")), []),
        ("It is `0.36`, in lesson 3.", code(), []),
        ("It is $10^3$.", code("x = 1000"), []),
        ("It is 0.36.", code("x = 0.36"), [(2, "0.36")]),
        ("It is 0.36.", code('predict("03/other")', STORED), [(2, "0.36")]),
    ],
)
def test_a_number_of_a_prediction_is_backed_or_found(tmp_path, text, cell, found):
    path = store(tmp_path, [TITLE, asked(), cell], questions=QUESTIONS.format(text))
    assert unbacked(path) == found


def test_the_value_of_an_answer_is_a_number_of_the_text(tmp_path):
    number = "[which-one.number]\nunit = 'of all'\nvalue = 0.36\ntolerance = 0.05\n"
    slip = "[[which-one.number.slips]]\nvalue = 0.64\nfeedback = 'The others.'\n"
    questions = QUESTIONS.format("So.").partition("[[")[0] + number + slip
    path = store(tmp_path, [TITLE, asked(), code()], questions=questions)
    assert unbacked(path) == [(2, "0.36"), (2, "0.64")]


@pytest.mark.parametrize(
    ("text", "proof", "is_backed"),
    [
        ("It is 0.36.", "# %% after: cell-2\nassert abs(x - 0.3592) < 1\n", True),
        ("It is 0.36.", "# %% after: cell-3\nassert abs(x - 0.3592) < 1\n", True),
        ("It is 0.36.", "# %% after: cell-3\nwanted = 0.3592\nassert abs(x - wanted) < 1\n", True),
        ("In 64 draws.", "# %% after: cell-3\nassert all(x > 3 for x in draw(64))\n", True),
        ("In 2017, 3.2.1", "# %% after: cell-2  numbers: 2017, 3.2.1\n", True),
        ("At -1e9", "# %% after: cell-2  numbers: -1e9\n", True),
        ("It is 0.36.", "# %% after: cell-3\nassert abs(x - 0.3) < 1\n", False),
        ("In 2018", "# %% after: cell-2  numbers: 2017\n", False),
        ("In 2017", "# %% after: cell-3  numbers: 2017\n", False),
        ("In 3.2.1", "# %% after: cell-2  numbers: 3.2\n", False),
        ("In 2017 <!-- constants: 2017 -->", "", False),
    ],
)
def test_a_proof_backs_the_numbers_near_it(tmp_path, text, proof, is_backed):
    path = store(tmp_path, [TITLE, new_markdown_cell(text), code("x = 1")], proofs=proof)
    assert (unbacked(path) == []) is is_backed


@pytest.mark.parametrize(("number", "is_backed"), [("2017", True), ("2018", False)])
def test_a_proof_declares_the_numbers_of_a_question_and_of_a_caption(tmp_path, number, is_backed):
    proof = "# %% after: cell-2  numbers: 2017\n\n# %% after: cell-3  numbers: 2017\n"
    cells = [TITLE, asked(), code("f", figure(caption=f"In {number}."))]
    texts = QUESTIONS.format(f"In {number}.")
    path = store(tmp_path, cells, questions=texts, proofs=proof)
    assert unbacked(path) == ([] if is_backed else [(2, number), (3, number)])


def test_a_proof_after_a_text_counts_in_its_section(tmp_path):
    texts = [new_markdown_cell(text) for text in ("It is 0.36.", "Yes.", "## Then", "It is 0.36.")]
    path = store(tmp_path, [TITLE, *texts], proofs="# %% after: cell-3\nassert x == 0.36\n")
    assert unbacked(path) == [(5, "0.36")]


# --- the command ----------------------------------------------------------------------------------


SOURCE = """# %% [markdown]
# # 3 · Masks

# %% [markdown]
# A mask is
# simply 0.36.

# %%
predict("03/which-one")
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run the command on one lesson; return how it ends and the lines that it prints."""
    monkeypatch.setattr(__main__, "find_notebooks", lambda: [tmp_path / NAME])
    monkeypatch.setattr("sys.argv", ["lint", "3"])

    def run():
        with pytest.raises(SystemExit) as stop:
            __main__.main()
        return stop.value.code, capsys.readouterr().out.splitlines()

    return run


def test_the_command_names_file_and_line_of_the_source_and_fails(tmp_path, command):
    cells = [TITLE, new_markdown_cell("A mask is\nsimply 0.36."), asked()]
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "03_masks.py").write_text(SOURCE)
    store(tmp_path, cells, questions=QUESTIONS.format("It is simply so."))
    status, lines = command()
    assert status == 1
    assert "03_masks.py:6: the text says 'simply'." in lines
    assert any(line.startswith("03_masks.py:6: the number 0.36 ") for line in lines)
    assert "03_masks.toml:10: no cell asks the prediction '03/which-two'." in lines
    assert "03_masks.toml:3: the text says 'simply'." in lines
    store(tmp_path, good_cells())
    assert command() == (0, ["The notebooks are clean."])


def test_a_file_that_belongs_to_no_lesson_is_found(tmp_path, monkeypatch, command):
    monkeypatch.setattr("sys.argv", ["lint"])
    store(tmp_path, good_cells())
    for name in ("proofs/04_heads.py", "predictions/04_heads.toml"):
        (tmp_path / name).touch()
    lines = [f"{name}: no lesson has this name." for name in ("04_heads.toml", "04_heads.py")]
    assert command() == (1, lines)


def test_questions_that_cannot_be_read_are_named(tmp_path, command):
    store(tmp_path, good_cells(), questions="[which-one\n")
    said, _ = command()
    assert re.match(r"03_masks.toml: .*line 1", said)


def test_sources_are_named_from_the_folder_of_the_project():
    first, *_ = find_notebooks()
    lesson = Lesson(first)
    assert lesson.place(Note(1, "")) == f"notebooks/source/{first.stem}.py:1"
    assert lesson.place(Note(0, "")) == f"notebooks/source/{first.stem}.py:1"
    last = len(lesson.notebook.cells)
    name, _, line = lesson.place(Note(last, "")).rpartition(":")
    assert (ROOT / name).read_text().splitlines()[int(line) - 1].startswith("# %%")
