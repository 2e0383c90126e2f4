"""Several threads compile, run and place step barriers at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from hazards.harness import XLA, assert_same, compiled, values
from torch import Tensor, nn

from xla_notebook.backend import barriers, function, runtime

CALLS = 4


def at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """Run the tasks in threads that start together; their results, or the first error."""
    start = threading.Barrier(len(tasks))
    results: list[Any] = [None] * len(tasks)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = tasks[number]()
        except BaseException as error:  # raised below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "deadlock"
    if errors:
        raise errors[0]
    return results


def work(x: Tensor, n: int) -> Tensor:
    return (x * n).sin().cumsum(0) + torch.arange(4.0, device=x.device)


@pytest.mark.parametrize("threads", [2, 4])
def test_the_same_function_for_the_first_time_at_once(threads: int) -> None:
    for attempt in range(3):
        torch._dynamo.reset()
        function = compiled(lambda x, attempt=attempt: work(x, attempt + 1))

        def task(seed: int, function: Callable[..., Tensor] = function) -> list[Tensor]:
            return [function(values(4, seed=seed + call, device=XLA)).cpu() for call in range(CALLS)]

        found = at_once(*[lambda s=s: task(s * 10) for s in range(threads)])
        for thread, results in enumerate(found):
            for call, got in enumerate(results):
                want = work(values(4, seed=thread * 10 + call), attempt + 1)
                assert_same(want, got, f"thread {thread}, call {call}")


def test_different_functions_at_once() -> None:
    functions = [compiled(lambda x, n=n: work(x, n)) for n in range(4)]

    def task(n: int) -> list[Tensor]:
        return [functions[n](values(4, seed=call, device=XLA)).cpu() for call in range(CALLS)]

    for n, results in enumerate(at_once(*[lambda n=n: task(n) for n in range(4)])):
        for call, got in enumerate(results):
            assert_same(work(values(4, seed=call), n), got, f"function {n}, call {call}")


def test_updates_of_one_buffer_in_turn() -> None:
    """Compiled in the main thread, then called from others, as widget callbacks do."""
    total, want = torch.zeros(3, device=XLA), torch.zeros(3)
    function = compiled(lambda x, total: (total.add_(x), total * 2)[1])
    for call in range(6):
        x = values(3, seed=call)
        want += x
        if call % 2:
            (got,) = at_once(lambda x=x: function(x.to(XLA), total).cpu())
        else:
            got = function(x.to(XLA), total)
        assert_same(want * 2, got, f"call {call}")
        assert_same(want, total, f"buffer after call {call}")


def test_step_barriers_while_another_thread_compiles() -> None:
    """Given a thread that updates its own tensor and places step barriers in a loop, compiles in another thread
    lose nothing, and neither does it. (Lazy work of the other thread would be lost: that is torch_xla's own.)"""
    done = threading.Event()
    given = [(values(4, seed=n, device=XLA), values(4, seed=n + 50, device=XLA)) for n in range(8)]
    torch_xla.sync(wait=True)

    def barriers() -> tuple[int, Tensor]:
        count, total = 0, torch.zeros(3, device=XLA)
        while not done.is_set():
            total.add_(1)
            torch_xla.sync()
            count += 1
        return count, total.cpu()

    def compiles() -> list[Tensor]:
        try:
            found = []
            for n, (x, total) in enumerate(given):
                function = compiled(lambda x, total, n=n: (total.add_(x * n), work(total, n))[1])
                found.extend(function(x, total) for _ in range(2))
            return found
        finally:
            done.set()

    (count, total), found = at_once(barriers, compiles)
    assert count > 0
    assert_same(torch.full((3,), float(count)), total)
    results = iter(found)
    for n, (x, updated) in enumerate(given):
        want = values(4, seed=n + 50)
        for call in range(2):
            want = want + values(4, seed=n) * n
            assert_same(work(want, n), next(results), f"function {n}, call {call}")
        assert_same(want, updated, f"buffer {n}")
        assert_same(values(4, seed=n), x, f"argument {n}")


def must_wait() -> bool:
    """Whether a step barrier of another thread would have to wait now."""

    def take() -> bool:
        lock: Any = barriers.excluded(XLA)
        taken: bool = lock.acquire(blocking=False)
        if taken:
            lock.release()
        return not taken

    (waits,) = at_once(take)
    return bool(waits)


@pytest.mark.parametrize("on_host", [False, True], ids=["one graph", "split by an operator on the host"])
def test_no_step_barrier_falls_into_a_run_or_an_update(on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a graph runs and while its arguments get their new values, a step barrier of another thread waits; while
    an operator runs on the host, which may take long or wait for that thread, it need not."""
    seen: list[tuple[str, bool]] = []

    def noting(work: Callable[..., Any], name: str) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            seen.append((name, must_wait()))
            return work(*args)

        return noted

    @torch.library.custom_op("xla_notebook_tests::waits_for_barriers", mutates_args=())
    def on_the_host(x: Tensor) -> Tensor:
        seen.append(("host", must_wait()))
        return x + 1

    on_the_host.register_fake(torch.empty_like)
    run = compiled(lambda x, total: (total.add_(x), on_the_host(total * 2) if on_host else total * 2)[1])
    run(values(4, device=XLA), torch.zeros(4).to(XLA))
    seen.clear()
    monkeypatch.setattr(runtime, "run_cached_graph", noting(runtime.run_cached_graph, "run"))
    monkeypatch.setattr(function, "_update", noting(function._update, "update"))
    run(values(4, device=XLA), torch.zeros(4).to(XLA))
    assert set(seen) == {("run", True), ("update", True), *([("host", False)] if on_host else [])}
    assert not must_wait()


def test_updates_while_another_thread_makes_tensors_and_places_barriers() -> None:
    """Given a thread that makes lazy tensors and places step barriers in a loop, no update is lost, nor anything of
    that thread's."""
    done = threading.Event()
    totals, one = [torch.zeros(2).to(XLA) for _ in range(100)], torch.ones(2).to(XLA)

    def add_to_all(one: Tensor, totals: list[Tensor]) -> Tensor:
        for total in totals:
            total.add_(one)
        return one * 2

    run = compiled(add_to_all)
    run(one, totals)
    calls = 300

    def places_barriers() -> None:
        number = 0.0
        while not done.is_set():
            made = torch.full((2,), number, device=XLA) + 1
            torch_xla.sync()
            assert_same(torch.full((2,), number + 1), made)
            number += 1

    def updates() -> None:
        try:
            for _ in range(calls):
                run(one, totals)
        finally:
            done.set()

    at_once(places_barriers, updates)
    for number, total in enumerate(totals):
        assert_same(torch.full((2,), calls + 1.0), total, f"total {number}")


def test_pending_work_of_another_thread_survives_a_compile() -> None:
    """Given a thread with pending work, which a compile in another thread overtakes, the work is done right."""
    ready, go_on = threading.Event(), threading.Event()

    def waits() -> Tensor:
        x = values(4, device=XLA)
        y = x * 3
        x.add_(1)
        ready.set()
        assert go_on.wait(60)
        return torch.stack([x, y]).cpu()

    def compiles() -> Tensor:
        assert ready.wait(60)
        try:
            return compiled(lambda x: work(x, 2))(values(4, seed=1, device=XLA)).cpu()
        finally:
            go_on.set()

    pending, result = at_once(waits, compiles)
    assert_same(torch.stack([values(4) + 1, values(4) * 3]), pending)
    assert_same(work(values(4, seed=1), 2), result)


def test_training_in_two_threads() -> None:
    """Given two models compiled one after the other, as AOTAutograd cannot compile two backward passes at once,
    their threads train them at once as they train alone."""

    class Training:
        def __init__(self, seed: int) -> None:
            self.module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
            start = {k: values(*v.shape, seed=seed) for k, v in self.module.state_dict().items()}
            self.module.load_state_dict(start)
            self.module.to(XLA)
            self.run = compiled(self.module)
            self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1)
            self.steps(1)

        def steps(self, count: int) -> list[float]:
            losses = []
            for call in range(count):
                self.optimizer.zero_grad()
                loss = self.run(values(5, 4, seed=call, device=XLA)).pow(2).mean()
                loss.backward()
                self.optimizer.step()
                losses.append(round(loss.item(), 4))
            return losses

    alone = [Training(1).steps(5), Training(2).steps(5)]
    first, second = Training(1), Training(2)
    assert at_once(lambda: first.steps(5), lambda: second.steps(5)) == alone
