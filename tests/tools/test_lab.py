"""What `make lab` and `make fresh` do to the learner's files, and what they say."""

import json
import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel
from IPython.core.interactiveshell import InteractiveShell
from nbformat.sign import NotebookNotary
from traitlets.config import Config

from tools.build.sources import ROOT
from tools.lab import __main__ as lab
from tools.lab import server
from tools.lab.isolated import HOME, environment


@pytest.fixture
def folders(tmp_path):
    """Two lessons, a glossary, and a place for the learner's copies."""
    lessons, copies = tmp_path / "notebooks", tmp_path / "my_notebooks"
    lessons.mkdir()
    for name in ("01_soft", "03_masks", "glossary"):
        nbformat.write(nbformat.v4.new_notebook(), lessons / f"{name}.ipynb")
    (lessons / "draft.ipynb").write_text("no lesson: it has no number")
    return lessons, copies


@pytest.fixture
def busy_port():
    """A port of this machine that something listens on."""
    with socket.socket() as listener:
        listener.bind((server.HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


# --- copies ---------------------------------------------------------------------------------------


def test_lessons_are_copied_once_and_a_copy_is_never_overwritten(folders):
    lessons, copies = folders
    copies.mkdir()
    (copies / "03_masks.ipynb").write_text("my own work")
    new = lab.copy_new(lab.find_lessons(lessons), copies)
    assert [path.name for path in new] == ["01_soft.ipynb", "glossary.ipynb"]
    new[0].write_text("my own work")
    assert lab.copy_new(lab.find_lessons(lessons), copies) == []
    for name in ("01_soft", "03_masks"):
        assert (copies / f"{name}.ipynb").read_text() == "my own work"


def test_a_copy_is_its_lesson_and_what_a_kernel_says_of_python(tmp_path):
    lesson = lab.find_lessons(lab.LESSONS)[0]
    (copy,) = lab.copy_new([lesson], tmp_path)
    ours, theirs = (json.loads(path.read_text(encoding="utf-8")) for path in (copy, lesson))
    assert ours["metadata"].pop("language_info") == IPythonKernel.language_info
    theirs["metadata"].pop("language_info")
    assert ours == theirs


def test_fresh_sets_the_old_copy_aside(folders):
    lessons, copies = folders
    copy, aside = lab.take_fresh("03", lessons, copies)
    assert (copy, aside) == (copies / "03_masks.ipynb", None)
    for attempt in ("first", "second"):
        copy.write_text(attempt)
        lab.take_fresh("3", lessons, copies)
    assert nbformat.read(copy, as_version=4).cells == []
    assert (copies / "03_masks.old-1.ipynb").read_text() == "first"
    assert (copies / "03_masks.old-2.ipynb").read_text() == "second"


@pytest.mark.parametrize("number", ["7", "", "0", "masks"])
def test_fresh_names_the_lessons_when_there_is_none_of_this_number(folders, number):
    with pytest.raises(lab.RefusalError, match=rf"a lesson \(01, 03\), got '{number}'"):
        lab.take_fresh(number, *folders)
    assert not folders[1].exists()


def test_copies_are_trusted_and_others_are_not(folders, tmp_path):
    lessons, copies = folders
    copy, *_ = lab.copy_new(lab.find_lessons(lessons), copies)
    lab.trust([copy], tmp_path)
    notary = NotebookNotary(data_dir=str(tmp_path / "data"))
    notebook = nbformat.read(copy, as_version=4)
    assert notary.check_signature(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell("1 + 1"))
    assert not notary.check_signature(notebook)
    notary.store.close()


# --- how it starts --------------------------------------------------------------------------------


def test_a_free_port_is_chosen_and_a_busy_one_refused_if_it_was_asked_for(busy_port):
    free = server.any_free_port()
    assert lab.choose_port(free) == lab.choose_port(None, [free]) == (free, "")
    port, said = lab.choose_port(None, [busy_port, free])
    assert port == free
    assert {str(busy_port), str(free)} <= set(re.findall(r"\d+", said))
    with pytest.raises(lab.RefusalError, match=f"Port {busy_port} is busy.*PORT={busy_port + 1}"):
        lab.choose_port(busy_port)
    with pytest.raises(lab.RefusalError, match=f"ports {busy_port} to {busy_port} are all busy"):
        lab.choose_port(None, [busy_port, busy_port])


@pytest.mark.parametrize(
    ("wanted", "found", "flags", "words"),
    [
        ([], True, [], "JupyterLab opens in your browser"),
        ([], False, ["--no-browser"], "No browser was found on this machine; open this address"),
        (["--no-browser"], True, [], "Open this address in a browser:"),
    ],
)
def test_without_a_browser_the_address_is_to_be_opened_by_hand(
    monkeypatch, wanted, found, flags, words
):
    monkeypatch.setattr(lab, "has_browser", lambda: found)
    more, said = lab.how_to_open(wanted)
    assert more == flags
    assert said.startswith(words)


def test_the_first_lesson_is_opened_once_and_then_what_was_open(tmp_path):
    first = f"/lab/tree/{lab.COPIES.name}/00_start_here.ipynb"
    assert lab.first_page(Path("notebooks/00_start_here.ipynb"), tmp_path) == first
    workspaces = Path(environment(tmp_path)["JUPYTERLAB_WORKSPACES_DIR"])
    workspaces.mkdir()
    (workspaces / "default-37a8.jupyterlab-workspace").touch()
    assert lab.first_page(Path("notebooks/00_start_here.ipynb"), tmp_path) == "/lab"


@pytest.mark.parametrize("text", ["abc", "80", "-1", "99999"])
def test_what_is_no_port_is_refused(text, capsys):
    with pytest.raises(SystemExit):
        lab.arguments(["open", f"--port={text}"])
    assert f"a port is a number from 1024 to 65535, not '{text}'" in capsys.readouterr().err


def test_modules_run_isolated_in_folders_inside_the_environment():
    folders = [Path(folder) for folder in environment().values()]
    assert len({*folders}) == len(folders) >= 4
    assert all(folder.is_relative_to(ROOT / ".venv") for folder in folders)
    made = subprocess.run(
        [sys.executable, "-m", "tools.lab.isolated", "jupyter_core", "--config-dir"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "JUPYTER_CONFIG_DIR": "/another/user"},
    )
    assert made.stdout.strip() == str(HOME / "config")


@pytest.mark.parametrize(
    ("pretence", "message"),
    [
        ("sys.version_info, sys.version = (3, 9, 2), '3.9.2 (main)'", "3.11 or newer.*is 3.9.2"),
        ("sys.modules['ensurepip'] = None", "apt-get install python3-venv"),
    ],
)
def test_an_unfit_python_is_refused_in_one_sentence(pretence, message):
    checked = ROOT / "tools" / "lab" / "check_python.py"
    program = f"import runpy, sys; {pretence}; runpy.run_path({str(checked)!r})"
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert made.returncode == 1
    assert len(made.stderr.splitlines()) == 1
    assert re.search(message, made.stderr)


# --- the server -----------------------------------------------------------------------------------


def test_the_server_sees_its_own_settings_which_jupyterlab_knows(tmp_path):
    variables = server.server_environment(tmp_path, "secret")
    assert variables["JUPYTER_TOKEN"] == "secret"
    assert variables["JUPYTER_CONFIG_DIR"] == str(tmp_path / "config")
    server.write_settings(tmp_path)
    written = tmp_path / "config" / "labconfig"
    settings = json.loads((written / "default_setting_overrides.json").read_text())
    schemas = Path(sys.prefix) / "share" / "jupyter" / "lab" / "schemas"
    for plugin, chosen in settings.items():
        package, name = plugin.split(":")
        schema = json.loads((schemas / package / f"{name}.json").read_text(encoding="utf-8"))
        assert set(chosen) <= set(schema["properties"])


def test_the_lessons_themselves_cannot_be_saved_in_jupyterlab_but_copies_can(tmp_path):
    settings = runpy.run_path(str(server.CONFIG), init_globals={"get_config": Config})["c"]
    files = settings.ServerApp.contents_manager_class(root_dir=str(tmp_path))
    names = ["notebooks/00_start_here.ipynb", "notebooks/source/00.py", "my_notebooks/00.ipynb"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    assert [files.is_writable(name) for name in names] == [False, True, True]
    assert not files.is_writable("/notebooks/00_start_here.ipynb")


def test_a_name_error_says_so_if_a_cell_above_with_the_name_has_not_run(
    tmp_path, monkeypatch, capsys
):
    sources = {"a": "x = zip(1)", "use": "x", "b": "x = y = 1"}
    cells = [nbformat.v4.new_code_cell(source, id=name) for name, source in sources.items()]
    path = tmp_path / "lesson.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    assert server.server_environment(tmp_path, "")["PYTHONSTARTUP"] == str(server.KERNEL_START)
    shell = InteractiveShell.instance()

    def said(source, cell_id):
        shell.run_cell(source, cell_id=cell_id)
        return capsys.readouterr().out

    try:
        monkeypatch.setenv("JPY_SESSION_NAME", str(path))
        before = set(shell.user_ns)
        shell.safe_execfile(str(server.KERNEL_START), shell.user_ns)
        assert set(shell.user_ns) == before
        told = said("x", "use")
        assert "NameError" in told
        assert told.endswith("run this cell again.\n")
        assert "has `x` and has not run" in told
        assert not said("y", "use").endswith("again.\n")  # its cell is not above
        assert not said("z", "use").endswith("again.\n")
        said("pass", "a")
        assert not said("x", "use").endswith("again.\n")
        for path in ("", tmp_path, server.KERNEL_START):  # where no notebook is
            monkeypatch.setenv("JPY_SESSION_NAME", str(path))
            assert "Custom TB Handler failed" not in said("w", "use")
    finally:
        InteractiveShell.clear_instance()
