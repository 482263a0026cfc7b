"""How much memory a computation holds, counted exactly and on any device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemory(TorchDispatchMode):
    """Count the bytes of all tensors that are made inside a ``with`` block.

    A tensor counts from the operation that makes it until it is freed. Tensors that were there
    before do not count, and neither do views, which share the memory of another tensor.

    Attributes
    ----------
    peak : int
        The most bytes that were alive at the end of any operation.
    now : int
        The bytes that are alive at this moment.

    See Also
    --------
    torch.cuda.max_memory_allocated : the same of a whole process, for tensors on a GPU.
    torch.utils.flop_counter.FlopCounterMode : counts floating point operations in the same way.

    Notes
    -----
    Memory that an operation uses only inside itself is not counted; ``torch.profiler.profile``
    with ``profile_memory=True`` sees it. Nor are tensors that are made of Python numbers.

    Examples
    --------
    >>> with PeakMemory() as counted:
    ...     one = torch.ones(100)  # 400 bytes
    ...     two = one + 1
    ...     del one
    ...     three = two + 1
    >>> counted.peak
    800
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: weakref.WeakSet[UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(
        self,
        operation: Callable[..., object],
        types: object,
        args: tuple = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Run one operation, which torch hands over, and count what it makes."""
        kwargs = kwargs or {}
        self._known.update(_storages(args, kwargs))  # given, not made
        made = operation(*args, **kwargs)
        for storage in _storages(made):
            if storage not in self._known:
                self._known.add(storage)
                self.now += storage.nbytes()
                weakref.finalize(storage, self._forget, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return made

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False, so that torch's compiler, which takes two seconds, is not imported."""
        return False

    def _forget(self, size: int) -> None:
        self.now -= size


def _storages(*values: object) -> Iterator[UntypedStorage]:
    """Yield the memory behind every tensor in some arguments or results."""
    for leaf in tree_leaves(values):
        if isinstance(leaf, Tensor) and leaf.layout is torch.strided:
            yield leaf.untyped_storage()
