"""Which exceptions of a socket call are the connection's own."""

from __future__ import annotations

import errno
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from redis_locks.values.interrupts import interrupt_behind, is_interrupt, is_thrown
from tests.support.interrupts import TimeIsUp


def caught(call: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - whatever it is
        call()
    return raised.value


@contextmanager
def pair(timeout: float = 0.05) -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(timeout)
        yield ours


def raise_at_signal(handler: Callable[..., object]) -> BaseException:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        return caught(lambda: signal.raise_signal(signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)


class Handler:
    def method(self, number: int, frame: object) -> None:
        self.function()

    def any_arguments(self, *_: object) -> None:
        self.function()

    @staticmethod
    def function() -> None:
        raise ConnectionResetError(errno.ECONNRESET, "as a socket's")


@pytest.mark.parametrize("handler", [Handler().method, Handler().any_arguments])
def test_what_a_handler_raises_is_an_interrupt_whatever_it_is(
    handler: Callable[..., object],
) -> None:
    error = raise_at_signal(handler)
    assert is_interrupt(error)
    assert is_thrown(error)


def test_what_a_socket_raises_is_not() -> None:
    with pair() as ours:
        errors = [caught(lambda: ours.recv(1))]
        ours.shutdown(socket.SHUT_RDWR)
        errors.append(caught(lambda: ours.sendall(b"x")))
        ours.close()
        errors.append(caught(lambda: ours.recv(1)))
    with pair() as ours:
        context = ssl.create_default_context()
        errors.append(caught(lambda: context.wrap_socket(ours, server_hostname="localhost")))
    errors.append(caught(lambda: socket.getaddrinfo("localhost", "no-such-service")))
    assert [False] * 5 == [is_thrown(error) or is_interrupt(error) for error in errors]


def test_what_another_thread_or_gevent_throws_is_thrown() -> None:
    def call() -> None:
        # The class: `PyThreadState_SetAsyncExc` and gevent raise it so, without their own frame.
        raise TimeIsUp

    error = caught(call)
    assert is_thrown(error)
    assert interrupt_behind(error, None) is error


def test_an_interrupt_is_found_behind_the_error_of_a_library() -> None:
    def library() -> None:
        try:
            raise raise_at_signal(Handler().method)
        except OSError as error:
            msg = "cannot connect"
            raise RuntimeError(msg) from error

    error = caught(library)
    assert interrupt_behind(error, None) is error.__cause__


def test_what_was_handled_before_is_not_behind_it() -> None:
    def library() -> None:
        msg = "cannot connect"
        raise RuntimeError(msg)

    try:
        raise raise_at_signal(Handler().method)
    except OSError:
        outer = sys.exception()
        assert interrupt_behind(caught(library), outer) is None
