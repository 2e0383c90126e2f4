"""A rehearsal's mark, which PyTorch carries to the threads of a backward pass."""

from __future__ import annotations

import gc
import sys
import weakref

import torch
import torch_xla

from xla_notebook.backend import rehearsal


def test_the_mark_is_there_while_it_lasts_on_the_threads_of_a_backward_pass_too() -> None:
    seen: list[rehearsal.Rehearsal | None] = []

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(_ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            seen.append(rehearsal.current())
            return gradient

    def look() -> None:
        Looks.apply(torch.ones(2, device=torch_xla.device(), requires_grad=True)).sum().backward()

    with rehearsal.rehearsing() as found:
        assert rehearsal.current() is found
        look()
    assert rehearsal.current() is None
    look()
    assert seen == [found, None]


def test_many_rehearsals_take_no_reference_that_is_not_theirs() -> None:
    # One too few, and an object is freed while others hold it.
    before = sys.getrefcount(None)
    for _ in range(2000):
        with rehearsal.rehearsing() as found:
            pass
        # The name's own and that of the question.
        assert sys.getrefcount(found) == 2
    assert sys.getrefcount(None) > before - 1000
    freed = weakref.ref(found)
    del found
    gc.collect()
    assert freed() is None
