"""Copies of a module share nothing with it."""

import warnings

import torch
from torch import nn

from attnlab.clinic._copying import converted, copy_of
from attnlab.modules import MultiHeadAttention


def test_a_copy_shares_no_container_and_no_parameter_with_its_original() -> None:
    module = MultiHeadAttention(12, 3)
    copied = copy_of(module)
    for part, other in zip(module.modules(), copied.modules(), strict=True):
        assert vars(part).keys() == vars(other).keys()
        for name, value in vars(part).items():
            assert type(vars(other)[name]) is type(value)
            assert not isinstance(value, dict) or vars(other)[name] is not value
    for one, two in zip(module.parameters(), copied.parameters(), strict=True):
        assert torch.equal(one, two)
        assert one.data_ptr() != two.data_ptr()


def test_what_parts_share_their_copies_share() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[0].seen = module[1].seen = {}
    copied = copy_of(module)
    assert copied[0].seen is copied[1].seen
    copied[0].seen["x"] = 1
    assert module[0].seen == {}


def test_a_hook_of_a_copy_is_no_hook_of_its_original() -> None:
    module = nn.Linear(2, 2)
    copy_of(module).register_forward_hook(lambda *_: None)
    assert not module._forward_hooks


def test_the_parameters_of_a_scripted_copy_are_its_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)
        copied = copy_of(torch.jit.script(nn.Linear(2, 2))).to("cpu")
    assert all(part.is_leaf and part.requires_grad for part in copied.parameters())


def test_complex_numbers_stay_complex_in_another_dtype() -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("turn", torch.tensor([1j, 1.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype, kept in ((torch.float16, torch.complex64), (torch.float64, torch.complex128)):
            copied = converted(copy_of(module), dtype)
            assert (copied.weight.dtype, copied.turn.dtype) == (dtype, kept)
            assert copied.turn[0].imag == 1
