"""Settings of the demo site. Not for production: the key is public and DEBUG is on."""

from __future__ import annotations

import os
from pathlib import Path

from demo_project.databases import database

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

# The outermost process, such as `manage.py demo`, starts a server and names it here for all the others.
REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": REDIS_URL}}
# What the comparison measures should not depend on DEBUG.
REDIS_LOCKS = {"CONNECTION": "default", "WARN_ORDER": False}
# The accounts are in the database of the locks, so that one step can reach both; no cache is.
SILENCED_SYSTEM_CHECKS = ["redis_locks.W006"]

DATABASES = {"default": database(os.environ, BASE_DIR)}

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
