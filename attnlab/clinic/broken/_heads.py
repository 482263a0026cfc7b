"""The part that many modules of the catalogue share: four layers, split and merge, all right."""

import torch
from torch import Tensor, nn


class Heads(nn.Module):
    """Hold four layers and the number of heads; each case writes its own forward."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(embed_dim, embed_dim)
        self.w_k = nn.Linear(embed_dim, embed_dim)
        self.w_v = nn.Linear(embed_dim, embed_dim)
        self.w_o = nn.Linear(embed_dim, embed_dim)

    def to_heads(self, x: Tensor) -> Tensor:
        """Return (N, H, L, head_dim) from (N, L, embed_dim)."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def from_heads(self, x: Tensor) -> Tensor:
        """Return (N, L, embed_dim) from (N, H, L, head_dim)."""
        return x.transpose(1, 2).flatten(2)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of every head, made from one input."""
        return self.to_heads(self.w_q(x)), self.to_heads(self.w_k(x)), self.to_heads(self.w_v(x))


def future(scores: Tensor) -> Tensor:
    """Return the mask that is True where a key comes after its query."""
    size = scores.shape[-2:]
    return torch.ones(size, dtype=torch.bool, device=scores.device).triu(diagonal=1)
