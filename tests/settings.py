"""Settings of the test suite; the fixture ``redis_server`` fills in the address of the server."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

SECRET_KEY = "only for tests"  # noqa: S105
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.urls"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Nothing listens at the default: a test that bypasses the fixture fails instead of using somebody's
# server.
REDIS_URL = os.environ.get("REDIS_LOCKS_TEST_URL", "unix:///nonexistent/redis-locks-tests.sock")
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": REDIS_URL}}
# Some tests look at every key; those of the statistics switch them on.
REDIS_LOCKS = {"CONNECTION": "default", "STATISTICS": False}

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        # The processes that tests start are told the file of their tests.
        "NAME": os.environ.get("REDIS_LOCKS_TEST_DATABASE", ":memory:"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            # No test cuts the power.
            "init_command": "PRAGMA synchronous = OFF",
        },
        # A file, not memory: threads and the browser's server need connections of their own.
        "TEST": {
            "NAME": str(Path(tempfile.gettempdir(), f"redis_locks_tests_{os.getpid()}.sqlite3"))
        },
    }
}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "redis_locks",
    "demo_project.bank",
    "demo_project.rows",
    "tests.ledger",
    "chartkick.django",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
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
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
