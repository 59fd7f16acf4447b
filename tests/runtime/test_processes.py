"""Threads, forked and fresh processes, handlers of signals: the same answers in all of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import npusim
from support.alike import answers

CHIPS = ("Ascend910A", "Ascend910B3", "Ascend310P3")
FORKS = """
import os, signal, sys, threading
import numpy as np
import npusim

x = np.ones((600, 2048), np.float32)
device = npusim.Device("Ascend910B3")
ended = threading.Event()

def work():
    while True:
        device.run("aclnnRelu", self=x)
        device.estimate("aclnnAbs", self=npusim.TensorSpec((np.random.randint(1, 9999),), "fp16"))
        if not threads or ended.is_set():
            return

threads = []
work()  # what is imported on first use: Python's own locks of imports aren't freed
threads = [threading.Thread(target=work) for _ in range(3)]
[each.start() for each in threads]
codes = []
for turn in range(12):
    child = os.fork()
    if not child:
        signal.alarm(20)
        found = device.run("aclnnRelu", self=x).outputs["out"]
        device.estimate("aclnnAbs", self=npusim.TensorSpec((turn + 7,), "fp16"))
        os._exit(0 if (found == 1).all() else 9)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ended.set()
[each.join() for each in threads]
sys.exit(any(codes) and str(codes))
"""


def test_threads_on_devices_of_their_own_and_on_one() -> None:
    want = {chip: answers(chip) for chip in CHIPS}
    one = npusim.Device("Ascend910B3")
    x = np.linspace(-2, 2, 99, dtype=np.float32)

    def shared(turn: int) -> bool:
        found = one.run("aclnnAbs", self=x * turn)
        return bool((found.outputs["out"] == np.abs(x * turn)).all())

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(answers, CHIPS * 8))
        assert all(threads.map(shared, range(40)))
    assert found == [want[chip] for chip in CHIPS * 8]


@pytest.mark.parametrize(
    "way", [each for each in ("fork", "spawn") if each in multiprocessing.get_all_start_methods()]
)
def test_other_processes_answer_alike(way: str) -> None:
    with multiprocessing.get_context(way).Pool(2) as pool:
        found = pool.map_async(answers, CHIPS).get(120)  # a pool waits for ever for lost work
    assert found == [answers(chip) for chip in CHIPS]


def succeeds(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_that_is_forked_while_threads_run_can_go_on() -> None:
    succeeds(FORKS)


PRODUCTS = """
import os, threading
import numpy as np, npusim
device, stop = npusim.Device("Ascend910B3"), threading.Event()
a = np.ones((256, 512), np.float16)
def multiply():
    while not stop.is_set():
        device.run("aclnnMatmul", self=a, mat2=a.T.copy(), cubeMathType=0)
device.run("aclnnMatmul", self=a, mat2=a.T.copy(), cubeMathType=0)
thread = threading.Thread(target=multiply)
thread.start()
for _ in range(10):
    child = os.fork()
    if not child:
        found = device.run("aclnnMatmul", self=a, mat2=a.T.copy(), cubeMathType=0).outputs["out"]
        os._exit(0 if (found == 512).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_is_forked_between_the_products_of_another_thread() -> None:
    succeeds(PRODUCTS)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_the_handler_of_a_signal_may_ask_too() -> None:
    device, inside = npusim.Device("Ascend910B3"), []

    def ask(*_: object) -> None:
        size = 11 + len(inside)
        inside.append(device.estimate("aclnnRelu", self=npusim.TensorSpec((size,), "fp16")).cycles)

        signal.setitimer(signal.ITIMER_REAL, 0.02)

    before = signal.signal(signal.SIGALRM, ask)
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    try:
        found = [
            device.estimate("aclnnAbs", self=npusim.TensorSpec((n,), "fp16")).cycles
            for n in range(1, 60)
        ]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert inside
    again = npusim.Device("Ascend910B3", memo=npusim.engine.Memo(0))
    assert found == [
        again.estimate("aclnnAbs", self=npusim.TensorSpec((n,), "fp16")).cycles
        for n in range(1, 60)
    ]


def test_a_kernel_may_ask_for_another_estimate_while_it_is_traced() -> None:
    device, asked = npusim.Device("Ascend910B3"), []

    @npusim.kernel
    def curious(core: Any, x: Any) -> None:  # noqa: ARG001
        asked.append(device.estimate("aclnnRelu", self=npusim.TensorSpec((64,), "fp16")).cycles)

    device.launch(curious, np.ones(8, np.float32), block_dim=1)
    assert set(asked) == {
        device.estimate("aclnnRelu", self=npusim.TensorSpec((64,), "fp16")).cycles
    }


@pytest.mark.slow
def test_ten_thousand_shapes_stay_within_the_limit_of_the_memo() -> None:
    resource = pytest.importorskip("resource")
    device = npusim.Device("Ascend910B3", memo=npusim.engine.Memo(20 << 20))

    def ask(sizes: range) -> int:
        for size in sizes:
            device.estimate("aclnnRelu", self=npusim.TensorSpec((size, 3), "fp16"))
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    begun_kib = ask(range(1, 1500))
    assert ask(range(1500, 11_500)) - begun_kib < 40 << 10
