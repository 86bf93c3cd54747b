"""A site for browsers to visit, started as ``python admin_site.py PORT``.

It needs REDIS_URL and DEMO_DATABASE in its environment.

It is the demo's, with its strict Content-Security-Policy, a superuser "admin" and a "viewer" who
may only look; the password of both is "password".
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.settings"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import django
from django.conf import settings

settings.REDIS_LOCKS["HISTORY"] = 50
django.setup()

from django.contrib.auth.models import Permission, User  # noqa: E402 - after setup
from django.core.management import call_command  # noqa: E402

call_command("migrate", verbosity=0)
User.objects.create_superuser("admin", password="password")  # noqa: S106 - not a secret
viewer = User.objects.create_user("viewer", password="password", is_staff=True)  # noqa: S106
viewer.user_permissions.add(Permission.objects.get(codename="view_lock"))
call_command("runserver", f"127.0.0.1:{sys.argv[1]}", use_reloader=False, skip_checks=True)
