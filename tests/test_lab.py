"""What `make lab` and `make fresh` do to the learner's files, and what they say."""

import json
import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel
from jupyter_client import KernelManager
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from nbformat.sign import NotebookNotary
from traitlets.config import Config

from tools import _server, lab
from tools._isolated import HOME, environment

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def folders(tmp_path):
    """Two lessons, and a place for the learner's copies."""
    lessons, copies = tmp_path / "notebooks", tmp_path / "my_notebooks"
    lessons.mkdir()
    for name in ("00_start_here", "03_masks", "glossary"):
        nbformat.write(nbformat.v4.new_notebook(), lessons / f"{name}.ipynb")
    (lessons / "draft.ipynb").write_text("no lesson: it has no number")
    return lessons, copies


@pytest.fixture
def busy_port():
    """A port of this machine that something listens on."""
    with socket.socket() as listener:
        listener.bind((_server.HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_lessons_are_copied_once_and_a_copy_is_never_overwritten(folders):
    lessons, copies = folders
    copies.mkdir()
    (copies / "03_masks.ipynb").write_text("my own work")
    new = lab.copy_new(lab.find_lessons(lessons), copies)
    assert [path.name for path in new] == ["00_start_here.ipynb", "glossary.ipynb"]
    assert (copies / "03_masks.ipynb").read_text() == "my own work"
    assert lab.copy_new(lab.find_lessons(lessons), copies) == []


def test_a_copy_is_its_lesson_and_what_a_kernel_says_of_python(tmp_path):
    lesson = lab.find_lessons(lab.LESSONS)[0]
    (copy,) = lab.copy_new([lesson], tmp_path)
    ours, theirs = (json.loads(path.read_text(encoding="utf-8")) for path in (copy, lesson))
    assert ours["metadata"].pop("language_info") == IPythonKernel.language_info
    assert theirs["metadata"].pop("language_info").items() < IPythonKernel.language_info.items()
    assert ours == theirs


@pytest.mark.parametrize("number", ["03", "3"])
def test_fresh_sets_the_old_copy_aside(folders, number):
    lessons, copies = folders
    copy, aside = lab.take_fresh(number, lessons, copies)
    assert copy.exists()
    assert aside is None
    for attempt in ("first", "second"):
        (copies / "03_masks.ipynb").write_text(attempt)
        copy, _ = lab.take_fresh(number, lessons, copies)
    assert nbformat.read(copy, as_version=4).cells == []
    assert (copies / "03_masks.old-1.ipynb").read_text() == "first"
    assert (copies / "03_masks.old-2.ipynb").read_text() == "second"


@pytest.mark.parametrize("number", ["7", "", "0", "masks"])
def test_fresh_names_the_lessons_when_there_is_none_of_this_number(folders, number):
    lessons, copies = folders
    (lessons / "00_start_here.ipynb").rename(lessons / "01_start_here.ipynb")
    with pytest.raises(lab.RefusalError, match=rf"a lesson \(01, 03\), got '{number}'"):
        lab.take_fresh(number, lessons, copies)
    assert not copies.exists()


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


def test_a_busy_port_is_refused_when_it_was_asked_for(busy_port):
    with pytest.raises(lab.RefusalError, match=f"Port {busy_port} is busy.*PORT={busy_port + 1}"):
        lab.choose_port(busy_port)


def test_another_port_is_taken_when_the_usual_one_is_busy(busy_port):
    free = _server.any_free_port()
    port, said = lab.choose_port(None, [busy_port, free])
    assert port == free
    assert {str(busy_port), str(free)} <= set(re.findall(r"\d+", said))
    assert lab.choose_port(free) == lab.choose_port(None, [free]) == (free, "")
    with pytest.raises(lab.RefusalError, match=f"ports {busy_port} to {busy_port} are all busy"):
        lab.choose_port(None, [busy_port, busy_port])


def test_without_a_browser_the_address_is_to_be_opened_by_hand(monkeypatch):
    monkeypatch.setattr(lab, "has_browser", lambda: False)
    flags, words = lab.how_to_open([])
    assert flags == ["--no-browser"]
    assert "No browser was found" in words


def test_no_browser_is_looked_for_where_none_is_wanted(monkeypatch):
    monkeypatch.setattr(lab, "has_browser", pytest.fail)
    assert lab.how_to_open(["--no-browser"]) == ([], "Open this address in a browser:")


@pytest.mark.parametrize("text", ["abc", "80", "-1", "99999"])
def test_what_is_no_port_is_refused(text, capsys):
    with pytest.raises(SystemExit):
        lab.arguments(["open", f"--port={text}"])
    assert f"a port is a number from 1024 to 65535, not '{text}'" in capsys.readouterr().err


def test_options_for_jupyterlab_are_passed_on():
    wanted = lab.arguments(["open", "--port", "8890", "--", "--no-browser", "--debug"])
    assert (wanted.port, wanted.flags) == (8890, ["--no-browser", "--debug"])


def test_every_settings_folder_lies_inside_the_environment():
    folders = environment()
    assert {"JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"} <= {*folders}
    assert all(Path(folder).is_relative_to(ROOT / ".venv") for folder in folders.values())
    assert len({*folders.values()}) == len(folders)


def test_modules_run_isolated():
    made = subprocess.run(
        [sys.executable, "-m", "tools._isolated", "jupyter_core", "--config-dir"],
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
    checked = ROOT / "tools" / "_check_python.py"
    program = f"import runpy, sys; {pretence}; runpy.run_path({str(checked)!r})"
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert made.returncode == 1
    assert len(made.stderr.splitlines()) == 1
    assert re.search(message, made.stderr)


def test_the_server_sees_its_own_settings_asks_nothing_about_news_and_builds_nothing(tmp_path):
    variables = _server.server_environment(tmp_path, "secret")
    assert variables["JUPYTER_TOKEN"] == "secret"
    assert variables["JUPYTER_CONFIG_DIR"] == str(tmp_path / "config")
    _server.write_settings(tmp_path)
    written = tmp_path / "config" / "labconfig"
    settings = json.loads((written / "default_setting_overrides.json").read_text())
    news = settings["@jupyterlab/apputils-extension:notification"]
    assert news == {"fetchNews": "false", "checkForUpdates": False}
    assert json.loads((written / "page_config.json").read_text())["buildCheck"] is False


def test_the_settings_are_ones_that_jupyterlab_knows():
    schemas = Path(sys.prefix) / "share" / "jupyter" / "lab" / "schemas"
    for plugin, settings in _server.SETTINGS.items():
        package, name = plugin.split(":")
        schema = json.loads((schemas / package / f"{name}.json").read_text(encoding="utf-8"))
        assert set(settings) <= set(schema["properties"])


def server_settings():
    return runpy.run_path(str(_server.CONFIG), init_globals={"get_config": Config})["c"]


def test_the_server_gives_no_cause_for_warnings_about_kernels_and_pings():
    settings = server_settings()
    assert KernelManager(config=settings).transport_encryption == "auto"
    assert settings.ServerApp.tornado_settings["ws_ping_interval"] == 0


def test_the_lessons_themselves_cannot_be_saved_in_jupyterlab_but_copies_can(tmp_path):
    files = server_settings().ServerApp.contents_manager_class(root_dir=str(tmp_path))
    names = ["notebooks/00_start_here.ipynb", "notebooks/source/00.py", "my_notebooks/00.ipynb"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    assert [files.is_writable(name) for name in names] == [False, True, True]
    assert not files.is_writable("/notebooks/00_start_here.ipynb")


def test_the_messages_of_a_slider_step_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setattr(ZMQChannelsWebsocketConnection, "connect", lambda self: "connected")
    settings = server_settings()
    connection_class = settings.ServerApp.kernel_websocket_connection_class
    told = []
    handler = SimpleNamespace(set_nodelay=told.append)
    monkeypatch.setattr(connection_class, "websocket_handler", handler)
    assert connection_class.__new__(connection_class).connect() == "connected"
    assert told == [True]
