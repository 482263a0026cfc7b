"""Each rule of the lint finds its fault and is silent without it."""

import base64
import copy
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab.display import ShownFigure
from tools.build.sources import KERNELSPEC, fold
from tools.check.lint import __main__, lint
from tools.check.lint.numbers import numbers_in

NAME = "03_masks.ipynb"
CLOSING = ("What to remember", "Exercises", "In torch", "Sources", "Next")
PICTURE = base64.b64decode("0x7f/home/2026/" * 20)  # whose text looks like an address and so on


def code(source="pass", *outputs, tags=()):
    """Return a code cell."""
    return new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)})


def printed(text, name="stdout"):
    """Return an output as print makes it."""
    return new_output("stream", name=name, text=text)


def shown(plain="", **data):
    """Return an output as the last expression of a cell makes it."""
    data = {f"text/{kind}": text for kind, text in data.items()}
    return new_output("display_data", data={"text/plain": plain, **data})


def figure(number="3.1", alt="A table.", caption="Read along a row."):
    """Return a numbered figure."""
    drawn = ShownFigure(PICTURE, 9, number, alt, caption, [])
    return new_output("display_data", drawn._repr_mimebundle_())


def error():
    """Return a stored exception."""
    return new_output("error", ename="ValueError", evalue="no", traceback=["no"])


QUESTIONS = """[question.which-one]
question = "Which?"
explanation = "{}"
[[question.which-one.options]]
text = "a"
[[question.which-one.options]]
text = "b"
correct = true

"""


def asked(key="03/which-one"):
    """Return a cell that asks."""
    return code(f'predict("{key}")')


def answer(key="03/which-one"):
    """Return a cell that answers."""
    return code(f"%%answer {key}\nx = 3")


def telling(text, key):
    """Return a cell that tells an answer, as it is stored."""
    return fold(new_markdown_cell(text, metadata={"answers": key}))


def good_cells():
    """Return the cells of a lesson without a fault, with all that a rule might mistake for one."""
    exercise = code("def shift(x):\n    pass", tags=["exercise"])
    solution = fold(code("def shift_solution(x):\n    return x", tags=["solution"]))
    links = "[site](https://example.org/) `[there](nowhere.md)`"
    long = f"# {'A long heading ' * 8}\n\n{'| a long row ' * 8}|\n{'|---' * 8}|\n\n{'x' * 120}"
    svg = '<svg xmlns="http://www.w3.org/2000/svg"></svg><figure>free</figure>'
    return [
        new_markdown_cell("# 3 · Masks: who may look at whom\n\nFirst told in 2017."),
        over("So it goes" + " on" * 22 + ".", "So it goes"),
        new_markdown_cell(f"{links}\n\n{long}\n\nA fixed\u00a0space, a &lt; b &minus; c."),
        asked(),
        answer(),
        telling("It is b.", "03/which-one"),
        code("f", figure(), shown("(0.5, 2.13)", html=svg)),
        code("f", printed("section 3.2.1, width 2026, 30x40, and/or")),
        code("1 / 0", error(), tags=["raises-exception"]),
        *(new_markdown_cell(f"## {heading}") for heading in CLOSING[:2]),
        exercise,
        solution,
        *(new_markdown_cell(f"## {heading}") for heading in CLOSING[2:]),
    ]


def store(folder, cells, name=NAME, questions=None, proofs="", **metadata):
    """Write a notebook with fresh ids, and the files beside it; return its path."""
    questions = QUESTIONS.format("So.") if questions is None else questions
    cells = [copy.deepcopy(cell) for cell in cells]
    for number, cell in enumerate(cells, start=1):
        cell.id = f"cell-{number}"
    notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC, **metadata})
    path = folder / name
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    beside = {f"texts/{path.stem}.toml": questions, f"proofs/{path.stem}.py": proofs}
    for file, text in beside.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    return path


def over(text, words):
    """Return a cell with a sentence over a slide."""
    return new_markdown_cell(text, metadata={"above": words})


TITLE = new_markdown_cell("# 3 · Masks")

# A rule, what is wrong, and words of the finding. A fault is a cell at the end, a change of the
# good cells, or other files beside the lesson.
FAULTS = [
    ("known_tags", code(tags=["nbval-ignore-output"]), "is unknown"),
    ("known_tags", code("# NBVAL_IGNORE_OUTPUT\nx = 1"), "switches a check off"),
    ("teacher_notes", new_markdown_cell("<summary>For teachers: time</summary>45"), "teacher"),
    ("clean_prose", new_markdown_cell("So. <!--above-->It is."), "holds a comment"),
    ("clean_prose", new_markdown_cell("It&ZeroWidthSpace; is."), "character, U+200B"),
    ("clean_prose", new_markdown_cell("It\u2060 is."), "invisible character, U+2060"),
    ("clean_prose", new_markdown_cell("It&#8203; is."), "character, U+200B"),
    ("clean_prose", new_markdown_cell("and so on " * 20), "the line is too long"),
    ("slide_sentences", over("It is so. More.", "It is"), "above='It is' needs three words"),
    ("slide_sentences", over("It is so. More.", "It is not"), "begins with 'It is not'"),
    ("slide_sentences", over("So it goes" + " on" * 23 + ".", "So it goes"), "at most, got 26"),
    ("leaks", code("warn()", printed("careful", "stderr")), "a warning"),
    ("leaks", code("f", shown("<function f at 0x7f3a10>")), "the address of an object"),
    ("leaks", code("f", printed("/home/ada/attnlab\n")), "a path of one machine"),
    ("leaks", code("f", shown("", html="<a href='https://pytorch.org'>x</a>")), "host"),
    ("leaks", code("f", printed("torch 2.13\n")), "a version"),
    ("leaks", code("f", printed("on 2026-11-21\n")), "a date"),
    ("leaks", code("f", printed("at 12:30:01\n")), "a time of day"),
    ("figures", code("f", figure("3.3")), "has the number 3.3, not 3.2"),
    ("closing_parts", lambda cells: cells.pop(), "missing: Next"),
    (
        "told_findings",
        lambda cells: cells[4].update(source=f'{cells[4].source}\nax.set_title("It is b")'),
        "draw in a folded cell",
    ),
    ("told_answers", telling("So.", "03/which-one"), "write no answers="),
    ("told_answers", lambda cells: cells.insert(5, new_markdown_cell("So.")), 'answers="03/which'),
    (
        "told_answers",
        lambda cells: cells.insert(5, telling("So.\n\n## More", "03/which-one")),
        "a heading stands in a cell that is folded",
    ),
    ("predictions", asked("03/which"), "do not hold '03/which'"),
    ("predictions", asked(), "has been asked before"),
    ("predictions", answer("03/which"), "which no cell before it asks"),
    ("predictions", lambda cells: cells.pop(3), "no cell asks the prediction '03/which-one'"),
    ("solutions", lambda cells: cells[-4].update(source="x = 3"), "defines shift_solution"),
    ("prose_numbers", new_markdown_cell("It is 0.36."), "the number 0.36 is in no assert"),
    ("prose_numbers", {"questions": QUESTIONS.format("It is 0.36.")}, "the number 0.36"),
]


@pytest.mark.parametrize(("rule", "fault", "words"), FAULTS)
def test_a_fault_is_found(tmp_path, rule, fault, words):
    cells, files = good_cells(), {}
    if callable(fault):
        fault(cells)
    elif "cell_type" in fault:
        cells.append(fault)
    else:
        files = fault
    found = lint(store(tmp_path, cells, **files))
    assert words in " ".join(finding.text for finding in found if finding.rule == rule)


def test_a_line_that_is_too_long_is_quoted_for_its_place(tmp_path):
    path = store(tmp_path, [new_markdown_cell("Short.\n" + "and so on " * 20)])
    (found,) = [one for one in lint(path) if one.rule == "clean_prose"]
    assert found.quote.startswith("and so on and")


# --- numbers in the text --------------------------------------------------------------------------


def unbacked(path):
    """Return the cells and numbers for which the lint finds nothing that computes them."""
    found = [one for one in lint(path) if one.rule == "prose_numbers"]
    return [(one.cell, one.text.removeprefix("the number ").split()[0]) for one in found]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("In 1,024 draws, -2.5 or −2.5.", ["1,024", "-2.5", "-2.5"]),
        ("$10^3$, $10^{-4}$ and 10⁻⁵", ["10", "10", "10"]),
        (r"$\sqrt{64}$ and $\frac12$, $x_1 + e^{10}$", ["64", "12"]),
        ("from 3–5, 4×7, S-1, -1e9", ["3", "5", "4", "7", "1", "-1e9"]),
        ("`0.36` [text 4](page5.html) ![alt](figure_6.png)", ["4"]),
        ("# 3 · Masks in 4 steps\n\n1. one\n\n**Time:** 45 minutes in class", []),
        ("Figure 2.1, lessons 1 to 4, section 3.2.1, lesson 2, 5 heads", ["5"]),
        ("GPT-2, M4, float32, https://arxiv.org/abs/1706.03762", []),
    ],
)
def test_numbers_are_taken_from_prose(text, wanted):
    assert [number.text for number in numbers_in(text)] == wanted


@pytest.mark.parametrize(
    ("text", "cell", "is_backed"),
    [
        ("0.36", code("assert abs(x - 0.3592) < 1"), True),
        ("0.36", code("assert_close(x, torch.tensor([0.3592]))"), True),
        ("lower by 0.36", code("assert x == -0.36"), True),
        ("0.36", code("x", printed("weight 0.359\n")), True),
        ("56 %", code("assert abs(x - 0.561) < 1"), True),
        ("about 7 keys", code("x", printed("6.8")), True),
        ("0.36", code("x = 0.36"), False),
        ("0.361", code("x", printed("0.36")), False),
        ("-0.36", code("x", printed("0.36")), False),
        ("0.36", code("x", figure(caption="It is 0.36.", alt="0.36")), False),
        ("0.36", code("x = '0.36'  # 0.36"), False),
        ("2", code("x", printed("1.72")), False),
    ],
)
def test_a_number_of_the_text_is_computed_or_found(tmp_path, text, cell, is_backed):
    path = store(tmp_path, [TITLE, new_markdown_cell(text), cell])
    assert ((2, text.split()[0]) not in unbacked(path)) is is_backed


@pytest.mark.parametrize(
    ("between", "is_backed"),
    [([code()] * 2, True), ([code()] * 3, False), ([asked()] * 5, True)],
    ids=["near", "far", "predictions"],
)
def test_a_number_is_backed_by_a_near_cell(tmp_path, between, is_backed):
    cells = [code("d_k = 64"), *between, new_markdown_cell("## Then\n\nSo 64 features.")]
    assert (unbacked(store(tmp_path, cells)) == []) is is_backed


@pytest.mark.parametrize(
    ("text", "proof", "is_backed"),
    [
        ("It is 0.36.", "# %% after: cell-3\nassert abs(x - 0.3592) < 1\n", True),
        ("It is 0.36.", "# %% after: cell-3\nassert abs(x - 0.3) < 1\n", False),
        ("In 2017, 3.2.1", "# %% after: cell-2  numbers: 2017, 3.2.1\n", True),
        ("In 2018", "# %% after: cell-2  numbers: 2017\n", False),
        ("In 2017", "# %% after: cell-3  numbers: 2017\n", False),
    ],
)
def test_a_proof_backs_the_numbers_near_it(tmp_path, text, proof, is_backed):
    path = store(tmp_path, [TITLE, new_markdown_cell(text), code("x = 1")], proofs=proof)
    assert (unbacked(path) == []) is is_backed


# --- the command ----------------------------------------------------------------------------------


SOURCE = """# %% [markdown]
# # 3 · Masks

# %% [markdown]
# A mask is
# about 0.36.

# %%
predict("03/which-one")
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run the command on a folder; return how it ends and the lines that it prints."""
    monkeypatch.setattr(__main__, "find_notebooks", lambda: [*tmp_path.glob("*.ipynb")])
    monkeypatch.setattr("sys.argv", ["lint"])

    def run():
        with pytest.raises(SystemExit) as stop:
            __main__.main()
        return stop.value.code, capsys.readouterr().out.splitlines()

    return run


def test_the_command_names_file_and_line_and_fails(tmp_path, command):
    cells = [TITLE, new_markdown_cell("A mask is\nabout 0.36."), asked()]
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / NAME).with_suffix(".py").write_text(SOURCE)
    store(tmp_path, cells, questions=QUESTIONS.format("It is 0.64."))
    (tmp_path / "proofs" / "04_heads.py").touch()
    status, lines = command()
    assert status == 1
    starts = ["03_masks.py:1: the last headings", "03_masks.py:6: the number 0.36 "]
    starts += ["03_masks.toml:3: the number 0.64 ", "04_heads.py: no lesson has this name."]
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


def test_the_command_says_that_all_is_clean_or_what_it_cannot_read(tmp_path, command):
    proofs = "# %% after: cell-4\nassert x == 3\n\n# %% after: cell-1  numbers: 2017\n"
    store(tmp_path, good_cells(), proofs=proofs)
    assert command() == (0, ["The notebooks are clean."])
    store(tmp_path, good_cells(), proofs="# %% after: cell-30\nassert x == 3\n")
    assert command()[0] == "03_masks.py:1: no cell has the name 'cell-30'."
    store(tmp_path, good_cells(), questions="[question.which-one\n")
    assert re.match(r"03_masks.toml: .*line 1", command()[0])
