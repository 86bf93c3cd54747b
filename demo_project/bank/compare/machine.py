"""The versions and the machine that figures belong to; without these, figures mean nothing."""

from __future__ import annotations

import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import redis
from django.db import connection

import redis_locks
from demo_project.bank.persistence import describe_persistence

CPU_INFO = Path("/proc/cpuinfo")
PINGS = 50
SAMPLE_SECONDS = 0.2


def describe_versions(conn: redis.Redis) -> dict[str, Any]:
    """Server, libraries and machine, each in a few words; blocks for a moment to see how busy others are."""
    info = conn.info("server")
    valkey = info.get("valkey_version")
    return {
        "server": f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'unknown')}",
        "persistence": describe_persistence(conn),
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
    return f"{connection.display_name} {number}"


def _cpu_model() -> str:
    """The model as Linux names it, or nothing."""
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    found = next((line for line in lines if line.startswith("model name")), "")
    return found.partition(":")[2].strip()
