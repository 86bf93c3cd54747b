"""The pages of the live bank. What changes money is POST only; every form has its CSRF token."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from demo_project.bank.accounts import TransferError
from demo_project.bank.background import Found, find_experiment, keep, start_experiment
from demo_project.bank.live_page import Part, action, answer, bank, forgotten, page
from demo_project.bank.strategies import STRATEGIES, label_of, transfer_funds
from redis_locks import LockNotAvailable
from redis_locks.inspection import LockInfo

from .customers import accounts, open_accounts, total
from .forms import RACED, RaceForm, TransferForm
from .money import money
from .race import EACH_WAY, SLOW_EACH_WAY, SLOW_SECONDS, Result, run_race
from .rush import CUSTOMERS, PRICE, Till, run_rush
from .turns import RACE_LOCK, BankInUse, race_turn, transfer_turn

PAGE = "bank/live.html"
RACE, RUSH = "race", "rush"
FORGOTTEN = "The bank has forgotten this race: it remembers one for an hour."


@page
def show(request: HttpRequest) -> HttpResponse:
    """The accounts and both forms."""
    return _page(request)


@page
def show_race(request: HttpRequest, race_id: uuid.UUID) -> HttpResponse:
    """The page with the result of a race."""
    run = find_experiment(bank(), race_id, RACE)
    if run is None or "error" in run:
        return forgotten(request, run["error"] if run else FORGOTTEN, "bank:live")
    if run["under_way"]:
        return _page(request, {"under_way": True})
    result = Result.of(run["result"])
    pair = dict(zip(("sender", "recipient"), result.accounts, strict=True))
    again = {**pair, "amount": f"{result.cents / 100:.2f}", "strategy": result.strategy}
    race = {"result": result, "label": label_of(result.strategy)}
    return _page(request, race, race_form=RaceForm(initial=again))


@action
def transfer(request: HttpRequest) -> HttpResponse:
    """Make one transfer."""
    form = TransferForm(request.POST)
    if not form.is_valid():
        return _page(request, status=422, transfer_form=form)
    sender, recipient = form.accounts
    try:
        with transfer_turn("a transfer in the bank"):
            receipt = transfer_funds(
                bank(),
                sender,
                recipient,
                form.cents,
                strategy=form.cleaned_data["strategy"],
                operation_id=form.cleaned_data["operation_id"].hex,
            )
    except BankInUse as error:
        form.add_error(None, f"Nothing was moved. {error}")
        return _page(request, status=423, transfer_form=form)
    except (TransferError, LockNotAvailable) as error:
        form.add_error(None, f"Nothing was moved. {error}")
        return _page(request, status=422, transfer_form=form)
    if receipt.moved:
        text = f"{sender} paid {recipient} {money(form.cents)}."
        messages.success(request, text)
    else:
        messages.info(request, "This transfer had been made already; nothing was moved again.")
    return redirect("bank:live")


@action
def race(request: HttpRequest) -> HttpResponse:
    """Make many transfers at once; one race at a time, and no other transfer meanwhile."""
    form = RaceForm(request.POST)
    if not form.is_valid():
        return _page(request, status=422, race_form=form)
    conn, strategy = bank(), form.cleaned_data["strategy"]

    def work(each_way: int, work_seconds: float) -> Found:
        result = run_race(
            conn,
            form.accounts,
            form.cents,
            strategy=strategy,
            each_way=each_way,
            work_seconds=work_seconds,
        )
        return {"result": asdict(result)}

    try:
        if form.cleaned_data["slow_motion"]:
            # In the background, so that visitors can look at its queue.
            race_id = start_experiment(
                conn, RACE, lambda _: work(SLOW_EACH_WAY, SLOW_SECONDS), RACE_LOCK, race_turn()
            )
        else:
            with race_turn():
                race_id = keep(conn, RACE, work(EACH_WAY, 0))
    except BankInUse as error:
        form.add_error(None, str(error))
        return _page(request, status=423, race_form=form)
    except TransferError as error:
        form.add_error(None, f"Nothing was moved. {error}")
        return _page(request, status=422, race_form=form)
    return redirect(f"{reverse('bank:result', args=[race_id])}#result")


@action
def race_all(_request: HttpRequest) -> HttpResponse:
    """Let fifty customers pay one shop at once, in each of three ways."""
    tills = [asdict(till) for till in run_rush(bank())]
    rush_id = keep(bank(), RUSH, {"tills": tills})
    return redirect(f"{reverse('bank:rush', args=[rush_id])}#rush")


@page
def show_rush(request: HttpRequest, rush_id: uuid.UUID) -> HttpResponse:
    """The page with what the shop got in each way."""
    run = find_experiment(bank(), rush_id, RUSH)
    if run is None:
        return forgotten(request, FORGOTTEN, "bank:live")
    return _page(request, tills=[Till(**till) for till in run["tills"]])


@action
def open_all(request: HttpRequest) -> HttpResponse:
    """Open the accounts, or set their balances back."""
    try:
        with transfer_turn("setting the balances back"):
            open_accounts(bank())
    except BankInUse as error:
        messages.error(request, f"The balances are as they were. {error}")
    else:
        messages.success(request, "All accounts have their first balances again.")
    return redirect("bank:live")


def _page(
    request: HttpRequest,
    race: Mapping[str, Any] = MappingProxyType({}),
    *,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    """Return the page; `race` is the one that it shows."""
    rows = accounts(bank())
    # Who holds a lock for how long, and its lease, would change with each look.
    seen = [(row.name, row.cents, row.lock and _parties(row.lock)) for row in rows]
    return answer(
        request,
        PAGE,
        [
            Part("accounts", seen, {"rows": rows, "total": total(rows)}),
            Part("race", dict(race), race),
        ],
        live_url=None if request.method == "GET" else reverse("bank:live"),
        status=status,
        **{"transfer_form": TransferForm(), "race_form": RaceForm(), **context},
        methods=[STRATEGIES[name] for name in RACED],
        other_methods=[each for name, each in STRATEGIES.items() if name not in RACED],
        each_way=EACH_WAY,
        customers=CUSTOMERS,
        price=PRICE,
    )


def _parties(lock: LockInfo) -> tuple[object, ...]:
    return ([holder.token for holder in lock.holders], lock.waiting)
