"""What describes a run asks nothing that the program could notice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

from probe.record import snapshot


def test_processes_forked_meanwhile_do_not_hold_up_the_description_of_a_run() -> None:
    took: list[float] = []

    def describe() -> None:
        for _ in range(10):
            began = time.perf_counter()
            snapshot.process()
            took.append(time.perf_counter() - began)

    thread = threading.Thread(target=describe)
    thread.start()
    children = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside a thread is the point
        while thread.is_alive() and len(children) < 200:
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            children.append(child)
            time.sleep(0.002)
    try:
        thread.join(10)
        assert not thread.is_alive()
        assert max(took) < 5
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_describing_a_loader_chooses_no_start_method() -> None:
    program = (
        "import multiprocessing\n"
        "from torch.utils.data import DataLoader\n"
        "from probe.record import snapshot\n"
        "said = snapshot.loader(DataLoader([1, 2], num_workers=1))['start_method']\n"
        "assert said == multiprocessing.get_all_start_methods()[0], said\n"
        "multiprocessing.set_start_method('spawn')\n"
        "assert snapshot.loader(DataLoader([1], num_workers=1))['start_method'] == 'spawn'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
