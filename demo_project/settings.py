"""Settings of the demo site. Not for production: the key is public and DEBUG is on."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from demo_project.databases import checked_address, database, running_server

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "the demo has no secrets"  # noqa: S105
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
ROOT_URLCONF = "demo_project.urls"
WSGI_APPLICATION = "demo_project.wsgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = {"default": database(os.environ, BASE_DIR)}
# `manage.py demo` starts a server, which other commands on the same database find by themselves.
REDIS_URL = checked_address(
    os.environ.get("REDIS_URL")
    or running_server(DATABASES["default"], BASE_DIR)
    or "redis://127.0.0.1:6379/0"
)
# True where a command of the bank has started the server itself.
BANK_OWNS_SERVER = False
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": REDIS_URL}}
# What the comparison measures should not depend on DEBUG.
REDIS_LOCKS = {"CONNECTION": "default", "WARN_ORDER": False, "HISTORY": 500}
# The accounts are in the database of the locks, so that one step can reach both; no cache is.
SILENCED_SYSTEM_CHECKS = ["redis_locks.W006"]

PASSWORD_HASHERS = ["demo_project.passwords.QuickHasher"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    # Its static files hold Chart.js.
    "chartkick.django",
    "redis_locks",
    "demo_project.bank",
    "demo_project.rows",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "demo_project.content_security.content_security_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

if find_spec("debug_toolbar"):
    # Seen by a browser that has opened a page with ?toolbar=on. Its panel "Locks" comes first.
    INSTALLED_APPS += ["debug_toolbar"]
    MIDDLEWARE[2:2] = [
        "demo_project.toolbar_switch.toolbar_switch",
        "debug_toolbar.middleware.DebugToolbarMiddleware",
    ]
    DEBUG_TOOLBAR_CONFIG = {
        "SHOW_TOOLBAR_CALLBACK": "demo_project.toolbar_switch.is_on",
        "SHOW_COLLAPSED": True,
    }
    DEBUG_TOOLBAR_PANELS = [
        "redis_locks.integrations.debug_toolbar.LocksPanel",
        "debug_toolbar.panels.history.HistoryPanel",
        "debug_toolbar.panels.sql.SQLPanel",
        "debug_toolbar.panels.timer.TimerPanel",
    ]
