"""The workers of a Dask cluster as a crew; `distributed` is imported only when one is asked for."""

from __future__ import annotations

import logging
from concurrent.futures import Executor
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from npusim.values.errors import ArgumentError, RejectedError, UsageError

PATIENCE_S: Final = 10
"""How long to wait for the scheduler's answer, and then for its first worker."""


class ClusterCrew:
    """Every worker of the scheduler at `address`, now and when more of them join.

    A worker that dies is the scheduler's business, which gives its points to another one. Raises
    UsageError without the extra, ArgumentError when no scheduler answers, RejectedError when it
    has no worker.
    """

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError as error:
            raise UsageError(
                f"--scheduler needs dask.distributed ({error})",
                "Install it with: pip install 'npusim[cluster]'",
            ) from None
        # It logs tracebacks when a scheduler goes away; we say so in words.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        self.lost: tuple[type[BaseException], ...] = (distributed.KilledWorker,)
        try:
            self._client: Any = distributed.Client(
                address, timeout=PATIENCE_S, set_as_default=False, name="npusim-sweep"
            )
        except (OSError, ValueError) as error:
            raise ArgumentError(
                f"no Dask scheduler answers at {address}: {error}",
                "Start one with `dask scheduler`, and give the address that it prints.",
            ) from None
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError:
            self._client.close()
            raise RejectedError(
                f"the scheduler at {address} has no workers",
                f"Start some: `dask worker {address}`.",
            ) from None
        self._threads = 1
        self.executor: Executor = self._client.get_executor(pure=False)

    @property
    def workers(self) -> int:
        """The threads of all workers, as the scheduler last told."""
        with suppress(OSError):  # the scheduler is away; whether for good is told by the futures
            self._threads = sum(self._client.nthreads().values())
        return max(1, self._threads)  # workers may be on their way back

    def renew(self) -> None:
        """Nothing to do: the scheduler looks after its workers."""

    def close(self, *, at_once: bool) -> None:
        """Leave the cluster; what isn't done is cancelled."""
        if at_once:
            # The client may be fetching an answer whose task we cancel: its event loop would log
            # that failure with a traceback, though nobody wants the answer any more.
            logging.getLogger("tornado.application").setLevel(logging.CRITICAL)
        self.executor.shutdown(wait=not at_once)
        self._client.close()
