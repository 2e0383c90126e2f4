"""A rehearsal's mark, which PyTorch carries to the threads of a backward pass."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import torch
import torch_xla

from xla_notebook.backend import rehearsal


def test_the_mark_is_there_while_it_lasts_on_the_threads_of_a_backward_pass_too() -> None:
    seen: list[tuple[rehearsal.Rehearsal | None, bool]] = []

    def notes(_gradient: torch.Tensor) -> None:
        seen.append((rehearsal.current(), threading.get_ident() == here))

    def look() -> None:
        doubled = torch.ones(2, device=torch_xla.device(), requires_grad=True) * 2
        doubled.register_hook(notes)
        doubled.sum().backward()

    here = threading.get_ident()
    with rehearsal.rehearsing() as found:
        assert rehearsal.current() is found
        look()
    assert rehearsal.current() is None
    look()
    assert seen == [(found, False), (None, False)]


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
