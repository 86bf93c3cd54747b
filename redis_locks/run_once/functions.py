"""The function that `run_once` returns in place of the decorated one: each call does a job once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from redis_locks.decorators.calls import (
    check_function,
    is_async,
    one_name_of,
    own_name,
    with_signature,
)
from redis_locks.decorators.task_queues import (
    is_run_by_a_task,
    refuse_task,
    requeue,
    requeue_uncounted,
)
from redis_locks.exceptions import (
    AlreadyDone,
    AttemptsExhausted,
    LockBackendError,
    LockNotAvailable,
)
from redis_locks.locks.with_blocks import FIX_OF_FUNCTION, refuse_in_loop
from redis_locks.run_once.acquisition import Job
from redis_locks.run_once.events import RunEvents
from redis_locks.run_once.terms import JobTerms

Function = Callable[..., Any]
JobOfCall = Callable[[tuple[Any, ...], dict[str, Any]], Job]


def decorate(function: Function, name: object, terms: JobTerms, events: RunEvents) -> Function:
    """Return the function that does the job of each call of `function` once.

    Raises:
        TypeError: `function` is no function, or the job would not end when it returns.
        ValueError: The name is a wrong template.
    """
    refuse_task(function, "run_once", f"run_once({name!r})")
    check_function(
        function, "run_once", of_class="decorate its method", of_generator="the job would be done"
    )
    if terms.record is not None and is_async(function):
        msg = (
            "record= needs a transaction, and async code has none: decorate a plain function in "
            f"place of {function!r}, and call that by sync_to_async"
        )
        raise TypeError(msg)
    name_of = one_name_of("a job", function, name)
    label = own_name(function)
    terms = terms.of_function(label, name if isinstance(name, str) else label)

    def job_of(args: tuple[object, ...], kwargs: dict[str, object]) -> Job:
        return Job.of_call(name_of(args, kwargs), terms, events)

    make = _asynchronous if is_async(function) else _blocking
    return with_signature(make(function, job_of, terms), function)


def _blocking(function: Function, job_of: JobOfCall, terms: JobTerms) -> Function:
    @functools.wraps(function)
    def once(*args: Any, **kwargs: Any) -> Any:
        refuse_in_loop(f"{function!r}", FIX_OF_FUNCTION)
        job = job_of(args, kwargs)
        record = terms.record_of(job.name)

        def work() -> Any:
            with attempt.as_current():
                value = function(*args, **kwargs)
            if isawaitable(value):
                getattr(value, "close", lambda: None)()
                msg = (
                    f"{function!r} returned an awaitable, so the job is not done; decorate an "
                    "async function"
                )
                raise TypeError(msg)
            return value

        try:
            attempt = job.begin()
        except (AlreadyDone, LockNotAvailable, LockBackendError) as error:
            return _without_doing(error, terms, once)
        except AttemptsExhausted:
            # The process of the last attempt may have died between COMMIT and its verdict.
            done = None if record is None else record.find()
            if done is None:
                raise
            return terms.format.read(done)
        with attempt:
            value = work() if record is None else record.run(work)
            if terms.store_result:
                return attempt.done(value)
            attempt.done()
        return value

    return once


def _asynchronous(function: Function, job_of: JobOfCall, terms: JobTerms) -> Function:
    @functools.wraps(function)
    async def once(*args: Any, **kwargs: Any) -> Any:
        try:
            attempt = await job_of(args, kwargs).abegin()
        except (AlreadyDone, LockNotAvailable, LockBackendError) as error:
            return _without_doing(error, terms, once)
        async with attempt:
            with attempt.as_current():
                value = await function(*args, **kwargs)
            if terms.store_result:
                return await attempt.adone(value)
            await attempt.adone()
        return value

    return once


def _without_doing(
    error: AlreadyDone | LockNotAvailable | LockBackendError, terms: JobTerms, once: Function
) -> Any:
    if isinstance(error, AlreadyDone):
        return error.result
    retries = terms.on_conflict == "retry" or (terms.on_conflict is None and is_run_by_a_task(once))
    if isinstance(error, LockBackendError):
        if retries:
            requeue(error)
        raise error
    if terms.on_conflict == "skip":
        return None
    if retries:
        requeue_uncounted(error)
    raise error
