"""What `override_locks` puts in place of a server: a backend that answers from memory."""

from __future__ import annotations

import itertools
import re
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from time import monotonic
from typing import Any, Literal, TypeVar

from redis_locks import scripts
from redis_locks.conf.settings import Unset, get_settings
from redis_locks.connections.backends import Backend
from redis_locks.drivers.base import Call, Unreachable, WaitsInPlace, run_blocking
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.drivers.breaker import Breaker
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.exceptions import LockBackendError, LockLost
from redis_locks.inspection.replies import NO_PLACE
from redis_locks.protocol.callers import new_token, whoami
from redis_locks.protocol.lease import Lease, Runner, tell_end
from redis_locks.protocol.renewal import Registry
from redis_locks.protocol.store import Refused, Request, Won
from redis_locks.run_once import scripts as jobs
from redis_locks.scripts import Script
from redis_locks.statistics import scripts as statistics
from redis_locks.values import modes
from redis_locks.values.keys import Group, Keys

T = TypeVar("T")

Outcome = Literal["granted", "busy", "full", "lost", "unavailable"]

_RENEWED_FOR = 365 * 24 * 3600.0
"""Seconds a renewed hold lasts: longer than any test, so that no renewal has to run."""


@dataclass(slots=True)
class _Held:
    names: Keys
    ends: float
    """On the monotonic clock."""
    fencing_token: int
    since_ms: int
    lease_ms: int
    mode: str
    who: str
    is_elsewhere: bool = False
    """Whether `testing.held` holds it, which excludes the code under test."""

    @property
    def claim(self) -> str:
        """What the server would have written down."""
        return f"{self.fencing_token} {self.since_ms} {self.mode} {self.lease_ms} - 0 1 {self.who}"


@dataclass(slots=True)
class _Job:
    """What is known of a job of `run_once`; see `run_once/scripts/_job.lua`."""

    state: str = "new"
    attempt: int = 0
    token: str = ""
    outcome: str = ""


class MemoryBackend(Backend):
    """A backend without a server, on which each acquire has the same `outcome`."""

    has_server = False

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(Endpoint.from_url("unix:///no-server"), get_settings().prefix, 1)
        self.description = f"override_locks({outcome!r})"
        self._memory = _Memory(outcome, self.description)
        self.driver = _BlockingMemory(self._memory)
        self.renewer = _Renewed(self.driver)

    def keys(self, *names: str) -> Keys:
        """Return the names themselves, behind an index that nothing here has: there are no keys."""
        return b"index", *(name.encode() for name in names)

    def groups(self, names: tuple[str, ...]) -> list[Group]:
        """Return all names as one group."""
        return [(names, self.keys(*names))]

    def replicas(self, wanted: int | Unset) -> int:  # noqa: ARG002 - as a backend's
        """Return 0: there are none here."""
        return 0

    def hold_elsewhere(self, name: str, mode: str, who: str) -> Callable[[], None] | None:
        """Hold a lock as somebody else, and return what ends that.

        None if somebody holds it in a way that excludes it.
        """
        return self._memory.hold_elsewhere(name.encode(), mode, who)

    def of_loop(self) -> Any:
        """Return the same driver and renewer for every event loop: they never suspend."""
        return self._memory, self.renewer


class _Memory(WaitsInPlace):
    """Driver and link in one: it runs what scripts would do on a list of holds."""

    channel = listener = "-"
    is_direct = needs_subscription = False
    breakers: tuple[Breaker, ...] = ()
    suspends = True
    reply_timeout = 2.0

    def __init__(self, outcome: Outcome, description: str) -> None:
        self.description = description
        self._is_full = outcome == "full"
        self._outcome = "busy" if self._is_full else outcome
        self._held: dict[str, _Held] = {}
        # As the server's do, the fencing tokens grow from one test to the next.
        self._fencing_tokens = itertools.count(int(time.time() * 1e6))
        who = whoami(description)
        self._other = _Held((), 0.0, 0, _server_ms(), 0, "exclusive", who)
        self._others_token = new_token()
        self._scripts: Mapping[Script, Callable[..., Any]] = {
            scripts.ADOPT: self._adopt,
            scripts.ALERTS: self._alert,
            scripts.CANCEL: self._cancel,
            scripts.CLOSE: lambda keys, token, *_: self._release(keys, token),
            scripts.COMMIT: self._commit,
            scripts.CONFIRM: self._extend,
            scripts.FENCE: self._fence,
            scripts.LONG_WAITS: lambda *_: [len(self._living())],
            scripts.SURVEY: self._survey,
            statistics.ADD: lambda *_: b"",
            statistics.NOTE: lambda *_: b"",
            statistics.NOTES: lambda *_: [],
            statistics.READ: self._read_figures,
            scripts.RELEASE: self._release,
            scripts.FORCE_RELEASE: self._force_release,
            scripts.GIVE_UP: self._give_up,
            scripts.DOWNGRADE: self._downgrade,
            scripts.EXTEND: self._extend,
            scripts.TAKE: self._take,
            scripts.INSPECT: self._inspect,
            scripts.NAMES: self._names,
            jobs.BEGIN: self._begin_job,
            jobs.DONE: partial(self._end_job, "done"),
            jobs.FAIL: partial(self._end_job, "failed"),
            jobs.EXTEND: self._extend,
            jobs.STATUS: self._status_of_job,
        }
        self._jobs: dict[bytes, _Job] = defaultdict(_Job)
        self._alerts: dict[str, int] = {}

    def hold_elsewhere(self, name: bytes, mode: str, who: str) -> Callable[[], None] | None:
        """See `MemoryBackend.hold_elsewhere`."""
        self._require_server()
        if self._outcome == "busy" or any(
            name in held.names and {held.mode, mode} != {"shared"} for held in self._living()
        ):
            return None
        token, lease_ms = new_token(), get_settings().lease_ms
        times = monotonic() + _RENEWED_FOR, next(self._fencing_tokens), _server_ms()
        self._held[token] = _Held((name,), *times, lease_ms, mode, who, is_elsewhere=True)
        return partial(self._end_elsewhere, token)

    def _end_elsewhere(self, token: str) -> None:
        self._held.pop(token, None)

    def _living(self) -> list[_Held]:
        now = monotonic()
        return [held for held in list(self._held.values()) if held.ends > now]

    def _in_the_way(self, keys: Sequence[bytes], mode: str) -> _Held | None:
        """Return what excludes an acquire.

        What is held elsewhere, and everything if all is busy.
        """
        if self._outcome == "busy":
            return self._other
        for held in self._living():
            if held.is_elsewhere and {held.mode, mode} != {"shared"} and held.names[0] in keys:
                return held
        return None

    async def acquire(self, request: Request, wait: float | None) -> Won | Refused:
        """What `acquire.acquire` returns, at once."""
        self._require_server()
        _, *names = request.keys
        other = self._in_the_way(names, request.mode)
        if other is not None:
            return self._refuse(request, wait, other)
        if request.reads:
            raise self._no_server(f"the lock {request.name!r} reads from Redis")
        if self._outcome == "lost":
            return Won(next(self._fencing_tokens), monotonic(), [])
        mode, shared = request.mode, request.mode.removeprefix("upgrade:")
        if shared != mode:
            mode = "exclusive"
            if self._held.pop(shared, None) is None:
                raise LockLost("the shared hold is lost")
        return Won(*self._grant(request.token, names, request.lease_ms, mode, request.who), [])

    def _grant(
        self, token: str, names: Iterable[bytes], lease_ms: int, mode: str, who: str
    ) -> tuple[int, float]:
        """Return the fencing token of a new hold, and when it ends; it is there unless lost."""
        fencing_token, ends = next(self._fencing_tokens), monotonic() + lease_ms / 1000
        if self._outcome == "granted":
            kept = tuple(dict.fromkeys(names))
            self._held[token] = _Held(kept, ends, fencing_token, _server_ms(), lease_ms, mode, who)
        return fencing_token, ends

    def _require_server(self) -> None:
        if self._outcome == "unavailable":
            msg = f"{self.description}: nothing answers"
            raise LockBackendError(msg) from Unreachable(msg)

    def _refuse(self, request: Request, wait: float | None, other: _Held) -> Refused:
        if wait is None and not (self._is_full and request.max_waiting):
            raise RuntimeError(
                f"{self.description}: the lock {request.name!r} has wait=None, so this would wait "
                "for ever; give it a wait in seconds"
            )
        now = _server_ms()
        # Of rows the first one is in the way, not the intent on its model.
        place = modes.intents_in(request.mode)
        if other.is_elsewhere:
            place = request.keys.index(other.names[0]) - 1
        most = request.max_waiting if self._is_full and wait != 0 else None
        return Refused(now, now + request.lease_ms, other.claim, place, most)

    def _no_server(self, problem: str) -> RuntimeError:
        fix = (
            "test it on a real server, by the pytest fixture redis_locks or by "
            "override_locks('server')"
        )
        return RuntimeError(f"{self.description}: {problem}; {fix}")

    def keep(self, lease: Lease) -> None:
        """Renew a hold once and for all."""
        held = self._held.get(lease.token)
        if held is not None:
            held.ends = monotonic() + _RENEWED_FOR
            lease.renew(held.ends)

    def _release(self, _keys: Keys, token: str) -> bytes:
        held = self._held.pop(token, None)
        return f"{token} {int(held is not None and held.ends > monotonic())}".encode()

    def _force_release(self, keys: Keys, token: str, *holds: str) -> bytes:
        ended = [each for each in holds if self._release(keys, each).endswith(b" 1")]
        fencing_token = next(self._fencing_tokens) if ended else 0
        return " ".join([token, str(fencing_token), *ended]).encode()

    def _give_up(self, _keys: Keys, token: str, _mode: str) -> bytes:
        self._held.pop(token, None)
        return f"{token} {_server_ms()} 0 ".encode()

    def _downgrade(self, _keys: Keys, token: str) -> bytes:
        held = self._held.get(token)
        if held is None or held.ends <= monotonic():
            return f"{token} 0".encode()
        held.mode = "shared"
        return f"{token} 1".encode()

    def _extend(self, _keys: Keys, token: str, lease_ms: str) -> bytes:
        held, now = self._held.get(token), monotonic()
        if held is None or held.ends <= now:
            return f"{token} 0".encode()
        held.ends = max(held.ends, now + int(lease_ms) / 1000)
        return f"{token} 1 {round(now * 1000)} {round(held.ends * 1000)}".encode()

    def _adopt(
        self, keys: Keys, token: str, heir: str, lease_ms: str, who: str, *_: object
    ) -> bytes:
        held = self._held.pop(token, None) or self._held.get(heir)
        if held is None or held.ends <= monotonic():
            return f"{token} 0".encode()
        held.who = who
        self._held[heir] = held
        extended = self._extend(keys, heir, lease_ms).decode()[len(heir) :]
        return f"{token}{extended} {held.fencing_token}".encode()

    def _fence(self, keys: Keys, token: str, lease_ms: str, fence: str) -> bytes:
        held = self._held.get(token)
        if held is not None:
            held.fencing_token = max(held.fencing_token, int(fence))
        return self._extend(keys, token, lease_ms)

    def _commit(self, keys: Keys, *_: object) -> bytes:
        name = b", ".join(keys).decode()
        raise self._no_server(f"the lock {name!r} commits to Redis")

    def _take(self, keys: Keys, token: str, *arguments: Any) -> bytes:
        lease, mode, who, _listener, most, groups, _first, _read_ago = arguments
        wanted = [
            [keys[int(place) - 1] for place in re.findall(r"\d+", group)]
            for group in groups.split()
        ]
        free = {
            number: names
            for number, names in enumerate(wanted, 1)
            if not self._in_the_way(names, mode)
        }
        taken = dict(list(free.items())[: int(most)])
        if not taken:
            return f"{token} 0 {_server_ms()}".encode()
        fencing_token, _ = self._grant(token, chain(*taken.values()), int(lease), mode, who)
        numbers = " ".join(map(str, taken))
        return f"{token} {fencing_token} {_server_ms()} {numbers}".encode()

    def _inspect(
        self, keys: Keys, _token: str, _most: str, _place: str, _ends: str, _skip: str
    ) -> list[Any]:
        held = [part.encode() for part in self._holders(keys[0])]
        return [_server_ms(), 0, len(held) // 3, held, [], NO_PLACE.encode()]

    def _holders(self, name: bytes) -> list[str]:
        now, at_ms = monotonic(), _server_ms()
        if self._outcome == "busy":
            return [self._others_token, str(at_ms + get_settings().lease_ms), self._other.claim]
        return [
            part
            for token, held in self._held.items()
            if name in held.names and held.ends > now
            for part in (token, str(at_ms + round((held.ends - now) * 1000)), held.claim)
        ]

    def _names(
        self, _keys: Keys, _token: str, _ends_ms: str, skip: str, most: str, _lengths: str
    ) -> list[bytes]:
        names = sorted({name for held in self._living() for name in held.names})
        names = names[int(skip) :][: int(most)]
        # Nobody ever waits here.
        return [b"\0".join(names), b"0", b" ".join(b"0" for _ in names)]

    def _cancel(self, _keys: Keys, token: str, _waiter: str) -> bytes:
        return f"{token} 0".encode()  # nobody ever waits here

    def _survey(self, names: Keys, _token: str, _asking: str) -> list[Any]:
        now, at_ms, fields = monotonic(), _server_ms(), list[str]()
        for name in names:
            held = [each for each in self._living() if name in each.names]
            if held:
                since = min(each.since_ms for each in held)
                first = min(held, key=lambda each: each.ends)
                ends = at_ms + round((first.ends - now) * 1000)
                numbers = (0, 0, len(held), since, ends, first.lease_ms)
                who = "\n".join(each.who for each in held[:10])
                # Nobody waits here, and no holder is gone.
                fields += [name.decode(), *map(str, numbers), who, "", "0", "", "0"]
        return [at_ms, "\0".join(fields).encode()]

    def _alert(self, _keys: Keys, _token: str, _again_ms: str, *firing: str) -> list[bytes]:
        known, now = self._alerts, _server_ms()
        self._alerts = {name: known.get(name, now) for name in firing}
        said = [
            (name, since, "known" if name in known else "firing")
            for name, since in self._alerts.items()
        ]
        said += [(name, since, "resolved") for name, since in known.items() if name not in firing]
        return [str(word).encode() for words in said for word in words]

    def _read_figures(
        self, _keys: Keys, _token: str, seconds: str, number: str, _place: str
    ) -> list[Any]:
        now = _server_ms()
        latest = now // 1000 // int(seconds)
        return [now, latest if number == "-1" else int(number), 0, b""]

    # The scripts of `run_once`

    def _begin_job(self, keys: Keys, token: str, *arguments: Any) -> bytes:
        lease, who, _listener, most, _kept_ms = arguments
        lease_ms = int(lease)
        job, now = self._jobs[keys[0]], _server_ms()
        if job.state == "done":
            return f"{token} done {job.attempt} {job.outcome}".encode()
        other = self._in_the_way(keys, "exclusive")
        if other is not None:
            return f"{token} locked {job.attempt} {now} {now + lease_ms} {other.claim}".encode()
        again = job.state == "running" and job.token == token
        before = "" if job.state == "running" else job.outcome
        if job.attempt >= int(most) and not again:
            return f"{token} exhausted {job.attempt} {before}".encode()
        fencing_token, _ = self._grant(token, keys, lease_ms, "exclusive", who)
        number = job.attempt + (not again)
        self._jobs[keys[0]] = _Job("running", number, token, before)
        return f"{token} begun {number} {fencing_token} {before}".encode()

    def _end_job(
        self, state: str, keys: Keys, token: str, number: str, _kept_ms: str, outcome: str
    ) -> bytes:
        ended = self._release(keys, token)
        if ended.endswith(b" 1"):
            self._jobs[keys[0]] = _Job(state, int(number), token, outcome)
        return ended

    def _status_of_job(self, keys: Keys, token: str) -> bytes:
        job, now = self._jobs[keys[0]], _server_ms()
        held = self._held.get(job.token)
        claim = held.claim if held and job.state == "running" else ""
        if self._outcome == "busy" and job.state != "done":
            claim = self._other.claim
        if claim:
            return f"{token} running {job.attempt} {now} {now} {claim}".encode()
        state = "failed" if job.state == "running" else job.state
        outcome = "" if job.state == "running" else job.outcome
        return f"{token} {state} {job.attempt} {outcome}".encode()

    # The Link protocol

    async def call(self, script: Script, call: Call, reads: Sequence[bytes] = ()) -> list[Any]:
        self._require_server()
        if script not in self._scripts:
            problem = self._no_server(f"the script {script.name} has no answer")
            raise NotImplementedError(str(problem))
        (_, *names), arguments = call
        return [self._scripts[script](tuple(names), *arguments), *(None for _ in reads)]

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        return [reply for call in calls for reply in await self.call(script, call)]

    async def read(self, reads: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:  # noqa: ARG002 - as `Link`
        return [None for _ in reads]

    async def bulk(self) -> _Memory:
        """Return itself: no reply here is large."""
        return self

    # The Driver protocol

    def take(self, token: str = "") -> None:
        """Return None: nothing is asked over a connection."""

    async def checkout(self, token: str = "") -> Any:  # noqa: ARG002 - a Link, as far as anybody uses it here
        return self

    def checkin(self, link: object, token: str = "") -> None:
        pass

    async def sleep(self, seconds: float) -> None:
        pass

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await coroutine


class _BlockingMemory(_Memory, BlockingDriver):
    """The same memory where a blocking driver is asked for: callers may look at its type."""

    suspends = False

    def __init__(self, memory: _Memory) -> None:
        vars(self).update(vars(memory))


class _Renewed:
    """A renewer that renews each hold at once for as long as any test lasts.

    If it is to be renewed.
    """

    heartbeat = None

    def __init__(self, memory: _BlockingMemory) -> None:
        self._memory = memory
        self._registry = Registry(self._tell_lost)
        self.discard, self.revoke = self._registry.discard, self._registry.revoke

    def add(self, lease: Lease) -> None:
        self._registry.leases[lease.token] = weakref.ref(lease)
        if lease.renews:
            self._memory.keep(lease)

    async def listening(self, run: Runner | None = None) -> AbstractContextManager[None]:  # noqa: ARG002 - as `Renewer`
        return nullcontext()

    def _tell_lost(self, lease: Lease) -> None:
        run_blocking(tell_end(self._memory, lease))


def _server_ms() -> int:
    return int(time.time() * 1000)
