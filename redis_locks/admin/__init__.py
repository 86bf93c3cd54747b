"""The admin's page "Locks": who holds what, who waits, and a way to end a hold, live."""

from __future__ import annotations

from django.contrib import admin

from redis_locks.admin.lock_admin import LockAdmin
from redis_locks.models import Lock

admin.site.register(Lock, LockAdmin)
