"""Models and tensors that are stored in the folder of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from attnlab.display.extra import lessons_extra
from attnlab.display.table import data_path

Model = TypeVar("Model", bound=nn.Module)


def load_tensors(name: str) -> dict[str, Tensor]:
    """Return the named tensors of a safetensors file of ``data/``.

    Parameters
    ----------
    name : str
        File name, such as ``"minilm_layers.safetensors"``.

    Returns
    -------
    dict of str to Tensor
        New tensors, with the dtype they are stored in. They are mapped from the file, which is
        read where a tensor is used; to write into a tensor does not change the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a safetensors file.

    See Also
    --------
    load_table : reads a table of numbers as text.
    attnlab.models.pretrained.load_layer : builds the trained layer from these tensors.

    Examples
    --------
    >>> load_tensors("minilm_embedding.safetensors")["positions.weight"].shape
    torch.Size([512, 384])
    """
    path = data_path(name)
    if path.suffix != ".safetensors":
        raise ValueError(f"name must be a safetensors file, got {name!r}.")
    with lessons_extra():
        from safetensors.torch import load_file  # here, since most of attnlab does not need it
    return load_file(path)


def load_model(make: Callable[[], Model], stored: Mapping[str, Tensor]) -> Model:
    """Return a model with stored numbers in place of random ones.

    Parameters
    ----------
    make : callable
        The class of the model, or a function that makes one.
    stored : mapping from str to Tensor
        The state of the model, such as ``load_tensors`` returns it. The model takes these tensors
        themselves, with their dtype.

    Returns
    -------
    torch.nn.Module
        In evaluation mode, its parameters without gradients.

    Raises
    ------
    RuntimeError
        If the tensors are not those of the model.

    See Also
    --------
    torch.nn.Module.load_state_dict : fills a model that has been made.
    """
    with torch.random.fork_rng(devices=[]):  # what is replaced uses up no random numbers
        model = make()
    model.load_state_dict(stored, assign=True)
    return model.eval().requires_grad_(False)
