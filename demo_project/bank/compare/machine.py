"""The versions and the machine that figures belong to; without these, figures mean nothing."""

from __future__ import annotations

import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from django.db import connection

import redis_locks
from demo_project.bank.persistence import describe_persistence

if TYPE_CHECKING:
    import redis

    from demo_project.bank.server import MeasuredServer

CPU_INFO = Path("/proc/cpuinfo")
PINGS = 50
SAMPLE_SECONDS = 0.2
IN_MEMORY = {"tmpfs", "ramfs"}
"""File systems that a crash of the machine empties."""
_SQLITE_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


def describe_versions(measured: MeasuredServer) -> dict[str, Any]:
    """Server, libraries and machine in a few words each.

    Blocks for a moment to see how busy other programs are.
    """
    conn = measured.conn
    info = conn.info("server")
    valkey = info.get("valkey_version")
    return {
        "server": f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'unknown')}",
        "users": "this run alone" if measured.url else "whoever else uses REDIS_URL",
        "persistence": describe_persistence(conn),
        "aof_disk": _file_system(measured.directory),
        "connection": _describe_connection(conn),
        "django-redis-locks": redis_locks.__version__,
        "python": platform.python_version(),
        "django": version("django"),
        "redis-py": version("redis"),
        "database": _describe_database(),
        "machine": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cpus": " x ".join(filter(None, (str(os.cpu_count()), _cpu_model()))),
        "busy_percent": round(psutil.cpu_percent(SAMPLE_SECONDS)),
    }


def _describe_connection(conn: redis.Redis) -> str:
    times = []
    for _ in range(PINGS):
        before = time.perf_counter()
        conn.ping()
        times.append(time.perf_counter() - before)
    options = conn.connection_pool.connection_kwargs
    kind = "unix socket" if options.get("path") else "TCP"
    return f"{kind}, {statistics.median(times) * 1e6:.0f} µs a round trip"


def _describe_database() -> str:
    # Asking for the version connects, which SQLite and PostgreSQL do alike.
    number = ".".join(map(str, connection.get_database_version()))
    return f"{connection.display_name} {number}{_describe_commits()}"


def _describe_commits() -> str:
    """What a COMMIT waits for."""
    if connection.vendor == "sqlite":
        return f", synchronous={_SQLITE_SYNCHRONOUS[_asked('PRAGMA synchronous')]}"
    if connection.vendor == "postgresql":
        return f", synchronous_commit={_asked('SHOW synchronous_commit')}"
    return ""


def _asked(question: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchone()[0]


def _file_system(directory: str) -> str:
    """The kind of file system that a directory is on; "unknown" where nobody can tell."""
    if not directory:
        return "unknown"
    path = Path(directory).resolve()
    disks = psutil.disk_partitions(all=True)
    found = [disk for disk in disks if path.is_relative_to(disk.mountpoint)]
    kind = max(found, key=lambda disk: len(disk.mountpoint)).fstype if found else "unknown"
    return f"{kind}, which a crash of the machine empties" if kind in IN_MEMORY else kind


def _cpu_model() -> str:
    """The model as Linux names it, or nothing."""
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    found = next((line for line in lines if line.startswith("model name")), "")
    return found.partition(":")[2].strip()
