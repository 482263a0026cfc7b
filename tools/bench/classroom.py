"""A class on one machine: many kernels run one lesson, then every learner moves a slider."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jupyter_client import KernelManager
from jupyter_client.blocking import BlockingKernelClient

from tools.bench import Plan, Row
from tools.notebooks import find_notebooks, read_notebook

LESSON, LEARNERS = "02", 30
ALL, MEMORY, STEP = 120.0, 450 * 2**20, 0.1  # limits: seconds, bytes of a kernel, seconds
STEPS, PAUSE = 20, 3.0  # steps of each learner, seconds between two of them on average
WAIT = 600  # seconds for one cell
LIVE = """
import torch
from attnlab.live import live
from attnlab.plotting import plot_attention
torch.manual_seed(0)
query, key = torch.randn(2, 8, 64)

def draw(fig, d_k):
    weights = (query[:, :d_k] @ key[:, :d_k].T).softmax(dim=-1)
    plot_attention(weights, ax=fig.subplots())

live(draw, d_k=[1, 2, 4, 8, 16, 32, 64])
"""
PLACES = [*range(1, 7), *range(5, -1, -1)]  # of its slider: not drawn before, and drawn


def times(_plan: Plan) -> Iterator[Row]:
    """Yield how long it takes until all have run the lesson, memory, and steps of a slider."""
    path = next(one for one in find_notebooks() if one.name.startswith(LESSON))
    cells = [one.source for one in read_notebook(path).cells if one.cell_type == "code"]
    start = time.monotonic()
    with ThreadPoolExecutor(LEARNERS) as pool:
        learners = [*pool.map(lambda _: Learner(), range(LEARNERS))]
        try:
            list(pool.map(lambda learner: learner.run(cells), learners))
            took = time.monotonic() - start
            memory = [learner.memory() for learner in learners]
            steps = sorted(step for some in pool.map(Learner.steps, learners) for step in some)
        finally:
            list(pool.map(Learner.leave, learners))
    slow = steps[int(0.95 * len(steps))]
    yield Row(f"until all {LEARNERS} have run lesson {LESSON}", [took], [ALL], "limit")
    yield Row("memory of a kernel", memory, [MEMORY], "limit", "B")
    yield Row("largest memory of a kernel", [max(memory)], [MEMORY], "limit", "B")
    yield Row("a step of a slider", steps, [STEP], "limit")
    yield Row("95th percentile of steps", [slow], [STEP], "limit")


class Learner:
    """A kernel and what a browser would ask of it."""

    def __init__(self) -> None:
        self.manager = KernelManager(transport_encryption="auto")
        self.manager.start_kernel()
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WAIT)

    def run(self, cells: list[str]) -> list[dict]:
        """Run cells in order; return the messages that they send."""
        sent: list[dict] = []
        for source in cells:
            self.client.execute_interactive(source, output_hook=sent.append, timeout=WAIT)
        return sent

    def memory(self) -> float:
        """Return the bytes that this kernel holds, with its share of what several use."""
        file = Path(f"/proc/{self.manager.provisioner.pid}/smaps_rollup")
        line = next(line for line in file.read_text().splitlines() if line.startswith("Pss:"))
        return 1024.0 * int(line.split()[1])

    def steps(self) -> list[float]:
        """Move a slider, with pauses; return the seconds until each new picture arrives."""
        opened = (one for one in self.run([LIVE]) if one["msg_type"] == "comm_open")
        states = {one["content"]["comm_id"]: one["content"]["data"]["state"] for one in opened}
        comm = next(name for name, state in states.items() if "place_d_k" in state)
        found = []
        for place in (PLACES * 2)[:STEPS]:
            time.sleep(random.uniform(0, 2 * PAUSE))
            found.append(self._step(comm, place))
        return found

    def _step(self, comm: str, place: int) -> float:
        state = {"method": "update", "state": {"place_d_k": place}, "buffer_paths": []}
        message = self.client.session.msg("comm_msg", {"comm_id": comm, "data": state})
        start = time.monotonic()
        self.client.shell_channel.send(message)
        while True:
            told = self.client.get_iopub_msg(timeout=WAIT)
            data = told["content"].get("data", {})
            if "answer" in data.get("state", {}):
                return time.monotonic() - start

    def leave(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
