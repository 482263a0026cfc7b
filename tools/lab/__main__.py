"""What `make lab` and `make fresh` do: give the learner copies of the lessons and open them.

Learners work on copies in ``my_notebooks/``, which git ignores. Running and saving therefore never
changes a tracked file, and an existing copy is never overwritten.
"""

import argparse
import contextlib
import itertools
import os
import secrets
import sys
import webbrowser
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.sign import NotebookNotary

from tools.build.sources import NOTEBOOKS as LESSONS
from tools.build.sources import ROOT, is_lesson, read_notebook, write_copies
from tools.build.sources import find_notebooks as find_lessons
from tools.lab.isolated import HOME
from tools.lab.server import HOST, is_free, server_command, server_environment, write_settings

COPIES = ROOT / "my_notebooks"
PORTS = range(8888, 8988)


class RefusalError(SystemExit):
    """A wish that cannot be fulfilled: the program ends with a sentence for the learner."""


def copy_new(lessons: Iterable[Path], copies: Path) -> list[Path]:
    """Copy the lessons that the folder ``copies`` does not hold yet; return the new copies."""
    new = [lesson for lesson in lessons if not (copies / lesson.name).exists()]
    return write_copies(new, copies, learners_copy)


def learners_copy(lesson: Path) -> NotebookNode:
    """Return a lesson with what a kernel here says of Python, down to its version.

    JupyterLab would write it in as soon as the kernel starts, and the lesson would count as changed
    before its reader has done anything.
    """
    from ipykernel.ipkernel import IPythonKernel  # a fifth of a second, which few starts need

    notebook = read_notebook(lesson)
    notebook.metadata.language_info = nbformat.from_dict(IPythonKernel.language_info)
    return notebook


def take_fresh(number: str, lessons: Path, copies: Path) -> tuple[Path, Path | None]:
    """Make a new copy of a lesson; return it, and where the old one is now, if there was one."""
    there = {path.name[:2]: path for path in find_lessons(lessons) if is_lesson(path)}
    lesson = there.get(number.zfill(2)) if number else None
    if lesson is None:
        raise RefusalError(
            f"NB must be the number of a lesson ({', '.join(there)}), got {number!r}."
        )
    copy = copies / lesson.name
    aside = None
    if copy.exists():
        names = (copy.with_name(f"{copy.stem}.old-{number}.ipynb") for number in itertools.count(1))
        aside = copy.rename(next(name for name in names if not name.exists()))
    copy_new([lesson], copies)
    return copy, aside


def trust(notebooks: Iterable[Path], home: Path) -> None:
    """Mark notebooks as trusted for the Jupyter server whose settings lie below ``home``.

    JupyterLab shows the scripts and widgets that a notebook stores only if it is trusted.
    """
    data = home / "data"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    notary = NotebookNotary(data_dir=str(data))
    with contextlib.closing(notary.store):
        for path in notebooks:
            notary.sign(nbformat.read(path, as_version=4))


def choose_port(wanted: int | None, ports: Sequence[int] = PORTS) -> tuple[int, str]:
    """Return the port that is wanted, or else the first free one, and a notice, if it has to be."""
    if wanted is not None:
        if is_free(wanted):
            return wanted, ""
        raise RefusalError(
            f"Port {wanted} is busy: another program, perhaps another make lab, uses it; "
            f"choose another port, for example: make lab PORT={wanted + 1}"
        )
    port = next(filter(is_free, ports), None)
    if port is None:
        raise RefusalError(
            f"The ports {ports[0]} to {ports[-1]} are all busy: please close some Jupyter servers."
        )
    notice = f"Port {ports[0]} is busy (another make lab?), so this one uses {port}."
    return port, "" if port == ports[0] else notice


def has_browser() -> bool:
    """Return whether this machine can show a page: it needs a browser, and on Linux a screen."""
    screens = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}
    with contextlib.suppress(webbrowser.Error):
        webbrowser.get()
        return sys.platform != "linux" or bool(screens & {*os.environ})
    return False


def how_to_open(flags: list[str]) -> tuple[list[str], str]:
    """Return further options for JupyterLab, and the words to print before the address."""
    if "--no-browser" in flags:
        return [], "Open this address in a browser:"
    if has_browser():
        return [], "JupyterLab opens in your browser at this address:"
    return ["--no-browser"], "No browser was found on this machine; open this address in one:"


def first_page(lesson: Path, home: Path) -> str:
    """Return the page that opens what was open in JupyterLab last, or at first a lesson."""
    was_here = any((home / "workspaces").glob("*"))
    return "/lab" if was_here else f"/lab/tree/{COPIES.name}/{lesson.name}"


def open_lab(wanted: int | None, flags: list[str]) -> None:
    """Copy the new lessons, and replace this process by a JupyterLab that shows one of them."""
    lessons = find_lessons(LESSONS)
    if not lessons:
        raise RefusalError("There is no lesson in notebooks/; please run make notebooks first.")
    port, notice = choose_port(wanted)
    if new := copy_new(lessons, COPIES):
        trust(new, HOME)
    write_settings(HOME)
    page, token = first_page(lessons[0], HOME), secrets.token_hex(16)
    more, words = how_to_open(flags)
    print(*filter(None, [notice]), words, f"  http://{HOST}:{port}{page}?token={token}", sep="\n")
    print("It takes a few seconds to start. Press Ctrl-C in this terminal to end it.", flush=True)
    command = [*server_command(ROOT, port), f"--LabApp.default_url={page}", *more, *flags]
    os.execve(command[0], command, server_environment(HOME, token))


def port_number(text: str) -> int:
    """Return the port that ``text`` names, for argparse."""
    if text.isdecimal() and 1024 <= int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"a port is a number from 1024 to 65535, not {text!r}")


def arguments(words: list[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="tools.lab.__main__", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    opening = commands.add_parser("open")
    opening.add_argument("--port", type=port_number)
    opening.add_argument("flags", nargs="*", help="options for JupyterLab, after --")
    commands.add_parser("fresh").add_argument("number")
    return parser.parse_args(words)


def main() -> None:
    """Do what the command line asks for, or say in one sentence why it cannot be done."""
    wanted = arguments(sys.argv[1:])
    if wanted.command == "open":
        open_lab(wanted.port, wanted.flags)
    copy, aside = take_fresh(wanted.number, LESSONS, COPIES)
    trust([copy], HOME)
    kept = f"; your old copy is {aside.name}" if aside else ""
    print(f"{copy.relative_to(ROOT)} is a fresh copy{kept}.")


if __name__ == "__main__":
    main()
