"""The weights that come back beside the output."""

from __future__ import annotations

from collections.abc import Iterator

from attnlab.clinic.observe import Core
from attnlab.clinic.results import Fact, held, note, wrong
from attnlab.clinic.sample import agrees
from attnlab.clinic.words import weights_table


def returned(cores: list[Core]) -> Iterator[Fact]:
    """Compare the weights that come back with those that made the output."""
    used, others = cores[0].weights, cores[0].reply.others
    if len(others) != 1:
        return
    weights = others[0].detach().double()
    shapes = {core.weights.shape for core in cores if core.reply is cores[0].reply}
    if weights.shape[-2:] != used.shape[-2:] or len(shapes) > 1:
        return
    if weights.ndim == 3 and used.shape[1] > 1 and len(weights) == len(used):
        shape = tuple(weights.shape)
        yield note("weights", f"It returns weights of shape {shape}: a mean over heads.")
        used = used.mean(dim=1, keepdim=True)
    if weights.numel() != used.numel():
        return
    weights, sums = weights.reshape(used.shape), weights.sum(-1)
    if weights.min() < -1e-6 and ((sums - 1).abs() > 1e-3).any():
        yield note("weights", "What it returns beside the output are not the weights.")
    elif agrees(weights.float(), used):
        yield held("weights", "the returned weights are those that made the output")
    else:
        apart = (weights - used).abs().max()
        how = f"differ by up to {apart:.2g} from those that made the output"
        if agrees(weights.float(), used.mT):
            how = "are transposed"
        table = weights_table("Returned as weights:", weights, sums=True)
        yield wrong("weights-differ", f"The weights that it returns {how}.", table)
