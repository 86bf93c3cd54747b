"""Comparisons of the strategies, what each of their measurements found, and the demo that runs."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from .liveness import LivingRow
from .strategies import label_of


class Demo(LivingRow):
    """The one demo that runs on this database: the row has the key 1."""

    site = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return self.site

    @classmethod
    def locked(cls) -> Demo:
        """The row, locked until COMMIT: under it begins what may run once on this database."""
        # Of two that create it, the second one waits for the first, and finds the row.
        cls._default_manager.get_or_create(pk=1, defaults={"seen": None})
        return cls._default_manager.select_for_update().get(pk=1)


class Comparison(LivingRow):
    """One run of the comparison, over all its combinations of strategy, workers and accounts."""

    class Status(models.TextChoices):
        """How far the run has come."""

        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"
        INTERRUPTED = "interrupted"
        CANCELLED = "cancelled"

    parameters = models.JSONField()
    versions = models.JSONField(default=dict)
    status = models.CharField(max_length=12, choices=Status, default=Status.RUNNING)
    started = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    measured = models.PositiveIntegerField(default=0)
    planned = models.PositiveIntegerField()
    error = models.TextField(blank=True)
    # Who asked for the end of the run, which looks here while it works; empty: nobody.
    cancelled_by = models.CharField(max_length=150, blank=True)
    # The rows of Table 11.2, as the benchmark of locks compares them; empty if it was left out.
    book_table = models.JSONField(default=list)

    class Meta:
        ordering = ("-started", "-pk")

    def __str__(self) -> str:
        return f"Comparison {self.pk}"

    @property
    def busy_percent(self) -> float:
        """How busy other programs kept the processors when the run began; 0 where nobody looked."""
        return float(self.versions.get("busy_percent", 0))


class Measurement(models.Model):
    """What one strategy did in one round with one number of workers on one kind of accounts."""

    class Accounts(models.TextChoices):
        """How likely it is that two workers meet."""

        HOT = "hot"
        SPREAD = "spread"

    strategy = models.CharField(max_length=20)
    workers = models.PositiveSmallIntegerField()
    round = models.PositiveSmallIntegerField(default=1)
    seconds = models.FloatField()
    transfers = models.PositiveIntegerField()
    refused = models.PositiveIntegerField()
    failed = models.PositiveIntegerField()
    transfers_per_second = models.FloatField()
    retries_per_transfer = models.FloatField()
    p50_ms = models.FloatField()
    p99_ms = models.FloatField()
    max_ms = models.FloatField()
    fairness = models.FloatField()
    missing_cents = models.BigIntegerField()
    # Accounts that ended below zero, or paid out more than they had.
    overdrawn = models.PositiveIntegerField()
    # Transfers that asked for all that an account had held a moment before, and how many of these
    # were refused.
    overdrafts = models.PositiveIntegerField(default=0)
    prevented = models.PositiveIntegerField(default=0)
    # To the Redis server, for each transfer; None where earlier versions did not count them.
    round_trips = models.FloatField(null=True)
    comparison = models.ForeignKey(
        Comparison, on_delete=models.CASCADE, related_name="measurements"
    )
    accounts = models.CharField(max_length=6, choices=Accounts)

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("comparison", "strategy", "workers", "accounts", "round"),
                name="bank_one_measurement_per_combination",
            ),
        )

    def __str__(self) -> str:
        return f"{self.strategy_label}, {self.workers} workers, {self.accounts} accounts"

    @property
    def strategy_label(self) -> str:
        """The strategy as the page names it."""
        return label_of(self.strategy)

    @property
    def conserved(self) -> bool:
        """Whether exactly as much money was there afterwards as before."""
        return self.missing_cents == 0
