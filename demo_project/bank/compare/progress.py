"""How far a run has come, what it does now, and how long it will take."""

from __future__ import annotations

from itertools import islice
from typing import Any

from django.utils import timezone

from demo_project.bank.models import Comparison

from .plan import Cell, Plan

# As if so many seconds had gone as planned: the first steps seem slow, as the workers had to be
# started.
TRUST_SECONDS = 20


def progress_of(comparison: Comparison) -> dict[str, Any]:
    """A run's state in JSON's types and in words; ``seconds_left`` is None unless it is running."""
    running = comparison.status == Comparison.Status.RUNNING
    plan = _plan_of(comparison) if running else None
    seconds = seconds_left(comparison, plan) if plan else None
    parts = [f"{comparison.measured} of {comparison.planned} measurements"]
    if running and comparison.cancelled_by:
        parts.append("being cancelled")
    elif plan and seconds is not None:
        parts += [f"about {_duration(seconds)} left", _now(comparison, plan)]
    return {
        "status": comparison.status,
        "measured": comparison.measured,
        "planned": comparison.planned,
        "seconds_left": seconds,
        "text": "; ".join(filter(None, parts)),
    }


def seconds_left(comparison: Comparison, plan: Plan) -> int:
    """What the steps still to do will take.

    The estimate follows the plan at first, then more and more the steps already done.
    """
    elapsed = (timezone.now() - comparison.started).total_seconds() if comparison.measured else 0
    rest = plan.estimated_seconds_after(comparison.measured)
    done = plan.estimated_seconds - rest
    return round(rest * (elapsed + TRUST_SECONDS) / (done + TRUST_SECONDS))


def _now(comparison: Comparison, plan: Plan) -> str:
    step = next(islice(plan.steps(), comparison.measured, None), None)
    if isinstance(step, Cell):
        return f"round {step.round} of {plan.rounds}: {step}"
    return str(step or "")


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _plan_of(comparison: Comparison) -> Plan | None:
    try:
        return Plan.from_dict(comparison.parameters)
    except (TypeError, ValueError):
        # A run of another version; it is measured, but what it does now is not known here.
        return None
