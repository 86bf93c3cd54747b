"""Rows that a process keeps alive: others see in the database whether it still works on them."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import psutil
from django.db import models
from django.utils import timezone

SILENCE_SECONDS = 20.0
"""A process that has given no sign for so long is dead."""
SIGN_SECONDS = 2.0


def this_process() -> str:
    """The host and number of this process."""
    return f"{socket.gethostname()} {os.getpid()}"


class LivingRow(models.Model):
    """A row that belongs to a process, which gives a sign of life every few seconds."""

    process = models.CharField(max_length=300, default=this_process)
    # None: the process has let go of the row.
    seen = models.DateTimeField(null=True, default=timezone.now)

    class Meta:
        abstract = True

    @property
    def is_alive(self) -> bool:
        """Whether the process still works on this row."""
        if self.seen is None or self._is_gone():
            return False
        return timezone.now() - self.seen < timedelta(seconds=SILENCE_SECONDS)

    def _is_gone(self) -> bool:
        """Whether the process was one of this machine, and has ended."""
        host, _, number = self.process.rpartition(" ")
        return host == socket.gethostname() and not psutil.pid_exists(int(number or 0))

    def give_sign(self) -> None:
        """Write that the process is alive, if it has not lately; blocks for a statement."""
        now = timezone.now()
        if self.seen is None or now - self.seen > timedelta(seconds=SIGN_SECONDS):
            self.seen = now
            type(self)._default_manager.filter(pk=self.pk).update(seen=now)
