"""`manage.py locks completion`: what it offers, and that bash, zsh and fish do so when somebody presses Tab."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.django.command_calls import run
from tests.django.command_line import ROOT, Terminal
from tests.support.commands import VERBS
from tests.support.parties import held

SHELLS = {
    "bash": ("bash --norc --noprofile -i", ""),
    "zsh": ("zsh -f -i", "autoload -U compinit; compinit -u -D"),
    "fish": ("fish --no-config -i", ""),
}


def offered(*words: str) -> list[str]:
    lines = run("completion", "--words", *words)[0].splitlines()
    return [line.partition("\t")[0] for line in lines]


def test_verbs_options_and_their_values_are_offered() -> None:
    assert [verb.name for verb in VERBS] == offered("")
    assert ["show"] == offered("sho")
    assert ["--sort"] == offered("list", "--so")
    assert ["trouble", "name", "held", "lease", "queue"] == offered("list", "--sort", "")
    assert ["--format=json", "--format=jsonl"] == offered("list", "--format=j")
    assert "--sort" not in offered("list", "--sort", "held", "--")
    assert ["bash", "zsh", "fish"] == offered("completion", "")
    assert [] == offered("nonsense", "")


@pytest.mark.usefixtures("own_prefix")
def test_the_names_of_locks_are_offered_where_a_verb_wants_one() -> None:
    with held("account:17"), held("account:18"), held("b\x1b[31m"):
        for verb in ("show", "release", "cancel", "history", "list", "run", "watch"):
            assert ["account:17", "account:18"] == offered(verb, "acc"), verb
        assert ["account:17", "account:18"] == offered("show", "--json", "")
        assert [] == offered("show", "account:17", "")
        assert [] == offered("drain", "acc")


def test_a_server_that_is_down_offers_nothing_in_silence() -> None:
    using = ["--using", "unix:///nonexistent/server.sock"]
    assert ("", "") == run("completion", "--words", "show", *using, "")


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with a `manage.py` that runs on the tests' settings, as a project has one."""
    script = tmp_path / "manage.py"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from django.core.management import execute_from_command_line\n"
        "execute_from_command_line(sys.argv)\n"
    )
    script.chmod(0o755)
    (tmp_path / "zzz-file").touch()
    return tmp_path


def _shell() -> None:
    command = os.environ["SHELL_UNDER_TEST"].split()
    os.execvp(command[0], command)  # noqa: S606 - the user's shell


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_in_a_real_shell(
    shell: str, bin_folder: Path, private_server: EmbeddedServer
) -> None:
    command, first = SHELLS[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    variables = {
        "SHELL_UNDER_TEST": command,
        "PATH": f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PS1": "ready> ",
        "TERM": "xterm",
        "HOME": str(bin_folder),
    }
    source = f"source {bin_folder}/script"
    script = bin_folder / "script"
    script.write_text(run("completion", shell)[0])
    tab = "\t"
    with Terminal(main=_shell, **variables) as terminal:
        terminal.type(f"cd {bin_folder}; {first}\n{source}\necho loa''ded\n")
        terminal.until("loaded")
        terminal.type(f"manage.py locks sho{tab}")
        terminal.until("locks show")
        with held("account:17", using=private_server.url):
            terminal.type(f"--using {private_server.url} acc{tab}")
            terminal.until("account:17")
        terminal.type("\x15")
        # Other words of python's are completed as ever.
        terminal.type(f"python zzz-f{tab}")
        terminal.until("zzz-file")
        terminal.type("\x15")
        private_server.kill()
        terminal.type(f"python manage.py locks show --using {private_server.url} acc{tab}")
        terminal.type("\x15echo still the''re\n")
        terminal.until("still there")
        assert "Traceback" not in terminal.shown
