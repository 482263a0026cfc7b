"""A class on a real JupyterHub: all run one lesson, then everyone moves a slider.

The hub, its proxy and the servers of the users run on this machine, in a folder that is deleted
afterwards. Everything is asked for as a browser does: by the hub's API and by websockets.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import psutil
import requests
import websocket
from jupyter_client.session import Session
from jupyter_server.services.kernels.connection.base import deserialize_binary_message

from tools.bench import Plan, Row
from tools.build.sources import ROOT, find_notebooks, read_notebook
from tools.lab.server import any_free_port

LESSON = "02"
TIME, MEMORY = 200 / 30, 400 * 2**20  # limits for each learner: seconds and bytes
STEP = {1.0: 0.5, 3.0: 0.15}  # seconds between two steps on average: limit of a step
STEPS = 20  # of each learner
WAIT = 600  # seconds for one answer
PROXY = ROOT / ".venv/node_modules/.bin/configurable-http-proxy"
MISSING = (
    'There is no hub to measure: run .venv/bin/pip install -e ".[hub]" and '
    "npm install --prefix .venv configurable-http-proxy@5 first."
)
LIVE = """
import torch
from attnlab.explorers import live
from attnlab.plotting import plot_attention
torch.manual_seed(0)
query, key = torch.randn(2, 8, 64)

def draw(fig, d_k):
    weights = (query[:, :d_k] @ key[:, :d_k].T).softmax(dim=-1)
    plot_attention(weights, ax=fig.subplots())

live(draw, d_k=[1, 2, 4, 8, 16, 32, 64])
"""
PLACES = [*range(1, 7), *range(5, -1, -1)]  # of its slider: not drawn before, and drawn


def times(plan: Plan) -> Iterator[Row | str]:
    """Yield how long a class waits on a hub, what memory it takes, and whether all is kept."""
    if not importlib.util.find_spec("jupyterhub") or not PROXY.exists():
        yield MISSING
        return
    number = plan.learners
    path = next(path for path in find_notebooks() if path.name.startswith(LESSON))
    cells = [cell for cell in read_notebook(path).cells if cell.cell_type == "code"]
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(number) as pool:
        hub = Hub(Path(folder))
        learners = [Learner(hub, f"learner{place}") for place in range(number)]

        def all_do(what: Callable[[Learner], object]) -> list:
            return list(pool.map(what, learners))

        try:
            hub.open()
            start = time.monotonic()
            all_do(lambda learner: learner.enter(text))
            entered = time.monotonic() - start
            all_do(lambda learner: [learner.run(cell.source) for cell in cells])
            took, limit = time.monotonic() - start, TIME * number
            yield Row(f"until all {number} have a server and a kernel", [entered], [limit], "limit")
            yield Row(f"until all {number} have run lesson {LESSON}", [took], [limit], "limit")
            yield from both("memory of a learner", all_do(Learner.memory), MEMORY, "B")
            all_do(Learner.show_slider)
            for pause, limit in STEP.items():
                waits = all_do(lambda learner, pause=pause: learner.steps(pause))
                what = f"a step of a slider, one in {pause:.0f} s"
                yield from both(what, [step for steps in waits for step in steps], limit)
            moved = [pool.submit(learner.steps, 1.0) for learner in learners]
            hub.restart()
            wait(moved)
            checked = [pool.submit(learner.check, text) for learner in learners]
            wait(checked)
            kept = number - sum(bool(answer.exception()) for answer in [*moved, *checked])
            yield Row("nothing lost at a restart of the hub", [kept], [number], "learners", "")
            refused = [
                learners[place - 1].refusals(next_one) for place, next_one in enumerate(learners)
            ]
            asked, what = np.size(refused), "refused: another's files and kernel"
            yield Row(what, [np.sum(refused)], [asked], "requests", "")
        finally:
            hub.end([learner.name for learner in learners])


def both(what: str, values: list[float], limit: float, unit: str = "s") -> list[Row]:
    """Return a row of the median and one of the 95th percentile."""
    slow = float(np.percentile(values, 95))
    return [
        Row(what, values, [limit], "limit", unit),
        Row("95th percentile", [slow], [limit], "limit", unit),
    ]


class Hub:
    """A JupyterHub and its proxy, with all their files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, secrets.token_hex()
        hub, site, proxy = any_free_port(), any_free_port(), any_free_port()
        self.site = f"http://127.0.0.1:{site}"
        self.variables = {
            **os.environ,
            "CLASS_SITE": self.site,
            "CLASS_HUB": f"http://127.0.0.1:{hub}",
            "CLASS_PROXY": f"http://127.0.0.1:{proxy}",
            "CLASS_HOMES": str(folder),
            "CONFIGPROXY_AUTH_TOKEN": self.token,
        }
        places = ["--ip=127.0.0.1", f"--port={site}", "--api-ip=127.0.0.1", f"--api-port={proxy}"]
        self.proxy = self._start([str(PROXY), *places])

    def _start(self, command: list[str]) -> subprocess.Popen:
        with (self.folder / "log.txt").open("a") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=self.variables, stdout=log, stderr=log
            )

    def open(self) -> None:
        """Start the hub, and wait until it answers."""
        config = Path(__file__).with_name("hub_config.py")
        self.process = self._start([sys.executable, "-m", "jupyterhub", f"--config={config}"])
        while not self._answers():
            if self.process.poll() is not None:
                raise RuntimeError((self.folder / "log.txt").read_text())
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "hub/api/").ok
        except requests.ConnectionError:  # the proxy does not run yet
            return False

    def restart(self) -> None:
        """End the hub and start it again."""
        self.process.terminate()
        self.process.wait()
        self.open()

    def ask(self, method: str, path: str, token: str = "", **options) -> requests.Response:
        """Send one request through the proxy, as the teacher or with a user's token."""
        head = {"Authorization": f"token {token or self.token}"}
        return requests.request(
            method, f"{self.site}/{path}", headers=head, timeout=WAIT, **options
        )

    def process_of(self, name: str) -> psutil.Process:
        """Return the process of a user's server, as this hub knows it."""
        user = self.ask("GET", f"hub/api/users/{name}").json()
        return psutil.Process(user["servers"][""]["state"]["pid"])

    def end(self, names: list[str]) -> None:
        """Stop the servers, the hub and the proxy."""
        if self._answers():
            for name in names:
                self.ask("DELETE", f"hub/api/users/{name}/server")
        for process in (self.process, self.proxy):
            process.terminate()
            process.wait()


class Learner:
    """A user of the hub, and what a browser would ask of it."""

    def __init__(self, hub: Hub, name: str) -> None:
        self.hub, self.name, self.session = hub, name, Session()

    def enter(self, lesson: str) -> None:
        """Get a server, save the lesson there, start a kernel and connect to it."""
        user = f"hub/api/users/{self.name}"
        self.hub.ask("POST", user)
        self.token = self.hub.ask("POST", f"{user}/tokens").json()["token"]
        self.hub.ask("POST", f"{user}/server")
        self.hub.ask("GET", f"{user}/server/progress")  # its answer ends when the server runs
        self.server = self.hub.process_of(self.name)
        model = {"type": "file", "format": "text", "content": lesson}
        self.ask("PUT", "contents/lesson.ipynb", json=model).raise_for_status()
        self.kernel = self.ask("POST", "kernels").json()["id"]
        self.socket = self.connect(self.token)
        self.run("")

    def ask(self, method: str, path: str, token: str = "", **options) -> requests.Response:
        """Send one request to this user's server."""
        path = f"user/{self.name}/api/{path}"
        return self.hub.ask(method, path, token or self.token, **options)

    def memory(self) -> float:
        """Return the bytes of server and kernel, with their share of what several use."""
        processes = [self.server, *self.server.children(recursive=True)]
        return sum(process.memory_full_info().pss for process in processes)

    def connect(self, token: str) -> websocket.WebSocket:
        """Open a websocket to this user's kernel."""
        place = f"user/{self.name}/api/kernels/{self.kernel}/channels"
        address = self.hub.site.replace("http", "ws", 1)
        head = [f"Authorization: token {token}"]
        return websocket.create_connection(
            f"{address}/{place}",
            timeout=WAIT,
            header=head,
            skip_utf8_validation=True,  # in Python it takes longer than the kernel takes to draw
        )

    def send(self, kind: str, content: dict) -> str:
        """Send a message to the kernel; return its name."""
        message = self.session.msg(kind, content)
        self.socket.send(json.dumps({**message, "channel": "shell"}, default=str))
        return message["msg_id"]

    def receive(self) -> dict:
        """Return the next message of the kernel."""
        text = self.socket.recv()
        return json.loads(text) if isinstance(text, str) else deserialize_binary_message(text)

    def run(self, source: str) -> list[dict]:
        """Run a cell; return the messages that it sends."""
        asked = self.send("execute_request", {"code": source, "silent": False})
        sent: list[dict] = []
        while not sent or sent[-1]["content"].get("execution_state") != "idle":
            message = self.receive()
            if message["parent_header"].get("msg_id") == asked and message["channel"] == "iopub":
                sent.append(message)
        failed = [message["content"] for message in sent if message["msg_type"] == "error"]
        if failed:
            raise RuntimeError(f"{failed[0]['ename']} in a cell: {failed[0]['evalue']}")
        return sent

    def show_slider(self) -> None:
        """Run the cell of the slider."""
        opened = [sent["content"] for sent in self.run(LIVE) if sent["msg_type"] == "comm_open"]
        states = {widget["comm_id"]: widget["data"]["state"] for widget in opened}
        self.slider = next(name for name, state in states.items() if "place_d_k" in state)

    def steps(self, pause: float) -> list[float]:
        """Move the slider, with pauses; return the seconds until each new picture arrives."""
        self.run("")  # what it has drawn is drawn anew after a cell
        waits = []
        for place in (PLACES * 2)[:STEPS]:
            time.sleep(random.uniform(0, 2 * pause))
            state = {"method": "update", "state": {"place_d_k": place}, "buffer_paths": []}
            start = time.monotonic()
            self.send("comm_msg", {"comm_id": self.slider, "data": state})
            while "answer" not in self.receive()["content"].get("data", {}).get("state", {}):
                pass
            waits.append(time.monotonic() - start)
        return waits

    def check(self, lesson: str) -> None:
        """Raise an error unless server, kernel, names in it and the file are what they were."""
        kernels = [kernel["id"] for kernel in self.ask("GET", "kernels").json()]
        file = self.ask("GET", "contents/lesson.ipynb?type=file").json()["content"]
        self.run("query.shape")  # from the cell of the slider
        if (self.hub.process_of(self.name), kernels, file) != (self.server, [self.kernel], lesson):
            raise RuntimeError(f"{self.name} has lost something.")

    def refusals(self, neighbour: Learner) -> list[bool]:
        """Return for three requests whether this user is kept from another's files and kernel."""
        paths = ["contents/lesson.ipynb", "kernels"]
        refused = [neighbour.ask("GET", path, self.token).status_code == 403 for path in paths]
        try:
            neighbour.connect(self.token)
        except websocket.WebSocketBadStatusException as error:
            return [*refused, error.status_code == 403]
        return [*refused, False]
