"""The admin of a `FencedModel`: saves and deletes under the lock of the row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import unquote
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from redis_locks.decorators.answers import ANSWERED, is_answered
from redis_locks.decorators.responses import respond
from redis_locks.exceptions import StaleHold
from redis_locks.fencing import FencedRows
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Lock
from redis_locks.rows.fences import FENCE, fenced
from redis_locks.values.keys import MAX_SET
from redis_locks.values.name_templates import parse

if TYPE_CHECKING:
    _Base = ModelAdmin[Any]
else:
    _Base = ModelAdmin

__all__ = ["FencedModelAdmin"]

_HOLD: Final = "redis_lock_hold"
"""The attribute of a request that has the hold."""


class FencedModelAdmin(_Base):
    """A ``ModelAdmin`` that takes the lock of a row while it changes or deletes the row.

    Write it before another subclass of ``ModelAdmin``.

    The row is read, saved and deleted under the hold. If somebody else holds the lock, the admin
    answers 423 with Retry-After. If the row was changed under a later hold, it says so and shows
    the page again. A row that is added takes no lock.
    """

    lock_name: str | None = None
    """A template over the row's attributes: ``"order:{pk}"``. Use the name that all other writers
    use.

    None: the model's `fenced_by`.
    """

    lock_wait: float = 5.0
    """Seconds to wait while somebody else holds the lock."""

    def get_lock_name(self, obj: Any) -> str:
        """Return the name of a row's lock: `lock_name`, filled in. Override it for other names."""
        template = self.lock_name or obj.fenced_by
        if template is None:
            raise ImproperlyConfigured(
                f"{type(self).__name__} has no lock_name: write the name of the row's lock, such "
                f"as 'order:{{pk}}', or declare it by fenced_by of {type(obj).__name__}"
            )
        return parse(template).render(lambda root: getattr(obj, root))

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Show the form, or save it under the lock of the row."""
        view = partial(super().changeform_view, request, object_id, form_url, extra_context)
        return self._answer(request, object_id, self.has_change_permission, view)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Ask, or delete the row under its lock."""
        view = partial(super().delete_view, request, object_id, extra_context)
        return self._answer(request, object_id, self.has_delete_permission, view)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list, or do what is chosen there, each row's change under its lock."""
        view = partial(super().changelist_view, request, extra_context)
        return self._answer(request, None, self.has_change_permission, view)

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> Any:
        """Return the actions.

        Each runs under the locks of the rows that are chosen, and its writes are fenced.
        """
        where = {} if action_location is None else {"action_location": action_location}
        actions: dict[str, Any] = super().get_actions(request, **where)
        # Deletion takes the locks itself, for any number of rows.
        return {
            name: action if name == "delete_selected" else self._under_locks(action)
            for name, action in actions.items()
        }

    def _under_locks(self, action: Any) -> Any:
        if isinstance(action, tuple):  # before Django 6.1
            function, *others = action
            return self._locked(function), *others
        return replace(action, func=self._locked(action.func))

    def _locked(self, action: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(action)
        def locked(admin: Any, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
            objs = list(queryset[: MAX_SET + 1])
            if not objs:
                return action(admin, request, queryset)
            if len(objs) > MAX_SET:
                text = _("Choose at most %(most)d rows: an action holds the locks of all of them.")
                self.message_user(request, text % {"most": MAX_SET}, messages.ERROR)
                return None
            with self._hold(request, objs) as hold, fenced(hold):
                return action(admin, request, queryset)

        return locked

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Save the row under the hold of the request."""
        if not change:
            super().save_model(request, obj, form, change)
            return
        with self._hold(request, [obj]) as hold:
            # The rows of `list_editable` were read before their locks were taken.
            rows = type(obj)._base_manager.filter(pk=obj.pk).exclude(fence=obj.fence)
            written = rows.values_list(FENCE, flat=True).first()
            if written is not None:
                raise StaleHold(
                    f"{type(obj)._meta.label} {obj.pk!r} was read or written with fencing token "
                    f"{written} since this page read it: nothing was saved"
                )
            obj.save(hold=hold)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the row under the hold of the request."""
        with self._hold(request, [obj]) as hold:
            obj.delete(hold=hold)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete all rows or none, under a hold of their locks."""
        objs = list(queryset)
        with transaction.atomic(using=queryset.db):
            for start in range(0, len(objs), MAX_SET):
                some = objs[start : start + MAX_SET]
                with self._hold(request, some) as hold:
                    rows = queryset.model._base_manager.using(queryset.db)
                    FencedRows(rows.filter(pk__in=[each.pk for each in some]), hold).delete()

    def _answer(
        self,
        request: HttpRequest,
        object_id: str | None,
        is_allowed: Callable[[HttpRequest, Any], bool],
        view: Callable[[], HttpResponseBase],
    ) -> HttpResponseBase:
        changes = request.method == "POST" and object_id is not None
        obj = self.get_object(request, unquote(object_id)) if changes and object_id else None
        try:
            if obj is None or not is_allowed(request, obj):
                return view()
            # Django reads the row again in there.
            with self._hold(request, [obj]):
                return view()
        except StaleHold:
            text = _(
                "Somebody else changed this after the page had read it: nothing was saved. "
                "Look at what it says now."
            )
            self.message_user(request, text, messages.ERROR)
            return redirect(request.get_full_path())
        except ANSWERED as error:
            if not is_answered(error):
                raise
            return respond(error, request)

    @contextmanager
    def _hold(self, request: HttpRequest, objs: Sequence[Any]) -> Iterator[Hold]:
        """Give the hold that the request has, or one of the locks of these rows."""
        held: Hold | None = getattr(request, _HOLD, None)
        if held is not None:
            yield held
            return
        names = [self.get_lock_name(each) for each in objs]
        with Lock(*names, wait=self.lock_wait) as hold:
            setattr(request, _HOLD, hold)
            try:
                yield hold
            finally:
                delattr(request, _HOLD)
