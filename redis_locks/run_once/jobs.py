"""`run_once`: describes a job that any number of workers try and one does."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Never,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from asgiref.sync import sync_to_async

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.decorators.calls import (
    check_function,
    check_name,
    is_async,
    one_name_of,
    own_name,
    refuse_awaitable,
    refuse_generator,
    with_signature,
)
from redis_locks.decorators.task_queues import (
    is_run_by_a_task,
    refuse_task,
    requeue,
    requeue_uncounted,
)
from redis_locks.drivers.base import run_blocking
from redis_locks.exceptions import (
    AlreadyDone,
    AttemptsExhausted,
    LockBackendError,
    LockNotAvailable,
)
from redis_locks.locks.lock import HoldContext, Side
from redis_locks.locks.with_blocks import (
    FIX_OF_FUNCTION,
    Block,
    CalledBlocks,
    async_block_exit,
    block_entered,
    block_exit,
    refuse_in_loop,
    watch_loss,
)
from redis_locks.run_once.acquisition import Job
from redis_locks.run_once.attempts import Attempt
from redis_locks.run_once.events import RunEvents
from redis_locks.run_once.status import RunStatus
from redis_locks.run_once.terms import JobTerms, OnConflict
from redis_locks.values.arguments import refuse_unknown
from redis_locks.values.keys import validate_name

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    import typing_extensions  # which every type checker knows

    from redis_locks.run_once.job_rows import RunOnceRecord

    Otherwise = typing_extensions.TypeVar("Otherwise", default=Never)
else:
    Otherwise = TypeVar("Otherwise")
"""What a call may return beside the function's value: None, or nothing."""

Function = Callable[..., Any]
JobOfCall = Callable[[tuple[Any, ...], dict[str, Any]], Job]

NOTHING_TO_DO = (AlreadyDone, AttemptsExhausted, LockNotAvailable)
NOT_BEGUN = (*NOTHING_TO_DO, LockBackendError)
"""What a call raises that begins no attempt."""


class JobOptions(TypedDict, total=False):
    """The options of `run_once` that do not shape what a call returns."""

    max_attempts: int
    done_ttl: float
    wait: float | Unset | None
    lease: float | Unset
    renew: bool | Unset
    using: str | None
    label: str | None
    encoder: type[json.JSONEncoder] | None
    decoder: type[json.JSONDecoder] | None
    record: type[RunOnceRecord] | None


class run_once(RunEvents, Generic[Otherwise]):  # noqa: N801 - used as a decorator and as a block, so it reads like a function
    """A job: any number of workers try it and one does it.

    If that one dies or fails, another takes over.

    As a decorator of a sync or async function: a call does the job, or returns the result of the
    worker that did it. As a block (``with``, ``async with``), or by ``acquire``, it gives an
    `Attempt`. An attempt holds the lock of the job's name, so a ``redis_lock`` of that name waits
    for it. Subclass `run_once` to override the events. Immutable; safe at import time.

    While somebody else does the job, a call or block raises LockNotAvailable or LockTimeout. When
    no attempt is left, it raises AttemptsExhausted. When the job is done, a block raises
    AlreadyDone. A job is done when the call or block ends; inside a transaction, when that is
    committed. After a rollback it has failed.

    Args:
        name: As for ``redis_lock``. On a function: a template over its parameters, a callable, or
            None for the function's own name. In a block: the literal name.
        max_attempts: How often the job is tried, the first time included; 3 times, if it is not
            given. An attempt counts from its start, however it ends.
        done_ttl: Seconds for which the server remembers that the job is done or, after its last
            attempt ended, how many attempts there were. Then the job starts anew. Not given: a day.
        store_result: Whether the function's value is stored, as JSON of at most 1 MiB, for later
            calls. Otherwise these return None. The call that does the job returns what later calls
            get: a tuple comes back as a list, a date as text.
        wait: Seconds to wait while somebody else does the job, to get the result or to take over.
            0, the default: do not wait. None: for ever.
        lease: Seconds after which another takes over from a worker that died.
        renew: Whether the lease is renewed while an attempt runs. Without it, the lease is
            the longest time that an attempt may take.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path.
        label: What the worker runs, for people; None is the function's name.
        on_conflict: What a call does while somebody else does the job. "raise": raise
            LockNotAvailable or LockTimeout. "skip": return None. "retry": have the Celery task that
            runs here queued again, until the job is done; elsewhere raise. This uses up none of its
            ``max_retries``. If Redis cannot be asked, the task is queued again as often as these
            allow. None: "retry" if the function is itself the task, else "raise".
        encoder: The class that makes JSON of results, as for Django's JSONField; None is
            DjangoJSONEncoder.
        decoder: The class that reads it; None is that of the standard library.
        record: A concrete subclass of `RunOnceRecord`. A decorated function runs in a transaction
            of that model's database, together with a row that says that the job is done. What it
            writes there is written exactly once, whenever the process dies. Not for blocks and
            async functions.

    Raises:
        TypeError: An argument, or what is decorated, has the wrong type.
        ValueError: An argument is out of range, or the template is wrong.
    """

    @overload
    def __init__(
        self: run_once[Never],
        name: str | Callable[..., str] | None = None,
        *,
        store_result: Literal[True],
        on_conflict: Literal["raise", "retry"] | None = None,
        **options: Unpack[JobOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: run_once[None],
        name: str | Callable[..., str] | None = None,
        *,
        store_result: bool = False,
        on_conflict: OnConflict = None,
        **options: Unpack[JobOptions],
    ) -> None: ...

    @overload  # of a subclass
    def __init__(
        self,
        name: str | Callable[..., str] | None = None,
        *,
        store_result: bool = False,
        on_conflict: OnConflict = None,
        **options: Unpack[JobOptions],
    ) -> None: ...

    def __init__(
        self,
        name: str | Callable[..., str] | None = None,
        *,
        store_result: bool = False,
        on_conflict: OnConflict = None,
        **options: Unpack[JobOptions],
    ) -> None:
        check_name(name, "run_once")
        self._name_source = name
        refuse_unknown(options, JobOptions.__optional_keys__, "run_once")
        self._terms = JobTerms(store_result=store_result, on_conflict=on_conflict, **options)
        self._blocks = CalledBlocks()

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R | Otherwise]]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> Callable[P, R | Otherwise]: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, doing the job once; its parameters stay the same."""
        return _decorated(function, self._name_source, self._terms, self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name_source!r})"

    def acquire(self, *, wait: float | Unset | None = UNSET) -> Attempt | None:
        """Return an attempt, or None if there is nothing to do for this worker.

        None means: the job is done, or no attempt is left, or somebody else still did it after
        `wait` seconds. `status` tells which. Blocks for up to `wait` seconds (0: do not wait; None:
        for ever; not given: the job's own). An interrupt leaves nothing held.

        Raises:
            LockLost: The lease ended before all receivers of the events were told.
            LockBackendError: Redis could not be asked.
        """
        refuse_in_loop("acquire()", "Await aacquire()")
        with suppress(*NOTHING_TO_DO):
            return self._block_job().enter(wait)
        return None

    async def aacquire(self, *, wait: float | Unset | None = UNSET) -> Attempt | None:
        """Return an attempt, or None; like `acquire`, but suspends instead of blocking."""
        with suppress(*NOTHING_TO_DO):
            return await self._block_job().aenter(wait)
        return None

    def __enter__(self) -> Attempt:
        """Begin an attempt, or raise.

        The end of the block ends it: as done, or failed if it raises.

        Raises:
            AlreadyDone: The job is done; the error has the result.
            AttemptsExhausted: No attempt is left.
            LockNotAvailable: Somebody else does the job, and the wait is 0.
            LockTimeout: Somebody else still did the job after the wait.
            LockLost: The lease ended before all receivers of the events were told; the body does
                not run.
            LockBackendError: Redis could not be asked.
        """
        block = block_entered(self)
        attempt = self._block_job().enter(block=block)
        if not block.has_exit:
            self._blocks.push(block)
        return attempt

    @block_exit
    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        """End the attempt; raises LockLost if the lock was lost, unless the body raised already."""
        self._blocks.pop().end(exc)

    def __aenter__(self) -> Coroutine[Any, Any, Attempt]:
        """Begin an attempt, or raise; see `__enter__`.

        If it is lost inside the block, the task is cancelled there.
        """
        return self._begin_ablock(block_entered(self, is_async=True))

    async def _begin_ablock(self, block: Block) -> Attempt:
        attempt = await self._block_job().aenter(block=block)
        if watch_loss(attempt):
            await attempt.aend_block(None)
        if not block.has_exit:
            self._blocks.push(block)
        return attempt

    @async_block_exit
    async def __aexit__(
        self, exc_type: object, exc: BaseException | None, traceback: object
    ) -> None:
        """End the attempt; see `__exit__`."""
        await self._blocks.pop().aend(exc)

    def status(self) -> RunStatus:
        """Return what is known of the job; blocks for a round trip.

        With `record=` its row is asked as well.

        Raises:
            LockBackendError: Redis could not be asked.
        """
        job = self._job()
        return job.status_by_record(run_blocking(job.status(Side(self._terms.using))))

    async def astatus(self) -> RunStatus:
        """Return what is known of the job; see `status`."""
        job = self._job()
        status = await job.status(Side.of_loop(self._terms.using))
        if self._terms.record is None:
            return status
        return await sync_to_async(job.status_by_record)(status)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_blocks": CalledBlocks()}  # those that are open stay where they are

    def _job(self) -> Job:
        if not isinstance(self._name_source, str):
            msg = f"{self!r} names its job after a function; a block needs run_once('name')"
            raise TypeError(msg)
        return Job.of_call(validate_name(self._name_source), self._terms, self)

    def _block_job(self) -> Job:
        if self._terms.record is not None:
            msg = (
                f"record= is for decorated functions: decorate one with {self!r}, or leave record "
                "out"
            )
            raise TypeError(msg)
        return self._job()


def _decorated(function: Function, name: object, terms: JobTerms, events: RunEvents) -> Function:
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
        attempt: Attempt | None = None

        def work() -> Any:
            value = function(*args, **kwargs)
            refuse_awaitable(value, function, "run_once")
            refuse_generator(value, function, "run_once")
            return value

        try:
            with HoldContext(job) as attempt:
                with attempt.as_current():
                    value = work() if record is None else record.run(work)
                if terms.store_result:
                    return attempt.done(value)
                attempt.done()
                return value
        except NOT_BEGUN as error:
            if attempt is not None:
                raise  # the function's own, or that of the end
            return _without_doing(error, job, once)

    return once


def _asynchronous(function: Function, job_of: JobOfCall, terms: JobTerms) -> Function:
    @functools.wraps(function)
    async def once(*args: Any, **kwargs: Any) -> Any:
        job = job_of(args, kwargs)
        attempt: Attempt | None = None
        try:
            async with HoldContext(job) as attempt:
                with attempt.as_current():
                    value = await function(*args, **kwargs)
                    refuse_generator(value, function, "run_once")
                if terms.store_result:
                    return await attempt.adone(value)
                await attempt.adone()
                return value
        except NOT_BEGUN as error:
            if attempt is not None:
                raise  # the function's own, or that of the end
            return _without_doing(error, job, once)

    return once


def _without_doing(
    error: AlreadyDone | AttemptsExhausted | LockNotAvailable | LockBackendError,
    job: Job,
    once: Function,
) -> Any:
    """Return what a call returns that has begun no attempt, or raise."""
    terms = job.terms
    if isinstance(error, AlreadyDone):
        return error.result
    if isinstance(error, AttemptsExhausted):
        # The process of the last attempt may have died between COMMIT and its verdict.
        record = terms.record_of(job.name)
        done = None if record is None else record.find()
        if done is None:
            raise error
        return terms.format.read(done)
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
