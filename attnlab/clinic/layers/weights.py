"""The weights that a layer returns, beside those that it uses."""

from __future__ import annotations

import torch

from attnlab.clinic._results import Results
from attnlab.clinic.hypotheses import span, weights_table
from attnlab.clinic.layers.anatomy import Heads


def examine_weights(found: list[Heads], results: Results) -> None:
    """Compare the weights that it returns with those that made its output."""
    reply = found[0].trace.reply
    if reply.weights is None:
        if reply.missing:
            results.note("weights", "It returns None for the weights.")
        return
    weights = reply.weights.detach().double()
    used = [one.seen["weights"].double() for one in found]
    used = torch.cat(used, dim=1) if len({part.shape[-2:] for part in used}) == 1 else used[-1]
    if reply.averaged:
        results.note(
            "weights",
            f"It returns weights of shape {tuple(weights[:, 0].shape)}: a mean over heads.",
        )
        used = used.mean(dim=1, keepdim=True)
    if used.shape != weights.shape:
        return
    far = (used - weights).abs().max().item()
    if far < 1e-4:
        results.held("weights", "the weights that it returns are those that it uses")
        return
    if torch.allclose(used.mT, weights, atol=1e-4):
        sentence = "The weights that it returns are transposed."
    else:
        sums = span(weights.sum(dim=-1))
        sentence = (
            f"The weights that it returns differ by up to {far:.2g} from those that made the "
            f"output; over the keys they sum to {sums}."
        )
    results.found("weights-differ", sentence, weights_table("What it returns:", weights, sums=True))
