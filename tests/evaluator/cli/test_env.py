"""`assay env`: what it prints is what docker-compose.yml reads, whole, or nothing."""

import os
import re
import secrets
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from evaluator.cli import main, service
from evaluator.cli.console import EXIT_INTERNAL
from evaluator.settings import MachineSettings

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "evaluator", "env"]


def settings_of(text):
    """The variables of an env file, those that are commented out among them, with what is set and what is said."""
    found, said = {}, ""
    for line in text.splitlines():
        if setting := re.fullmatch(r"(#?)([A-Z_]+)=(\S*)", line):
            found[setting[2]] = (None if setting[1] else setting[3], said)
        elif line.startswith("# "):
            said += line
        else:
            assert line == ""
            said = ""
    return found


@pytest.fixture
def printed():
    ended = CliRunner().invoke(main.main, ["env"])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_it_has_each_variable_that_compose_reads_with_what_it_is_for(printed):
    compose = "".join((ROOT / name).read_text() for name in ("docker-compose.yml", "docker-compose.gpu.yml"))
    read = dict(re.findall(r"\$\{([A-Z_]+)(?::?-([^}]*)|:\?[^}]*)\}", compose))
    found = settings_of(printed)
    assert found.keys() == read.keys()
    assert all(len(said) > 20 for _, said in found.values())
    usual = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", printed, re.MULTILINE))
    for name in read.keys() - {*service.COMPOSE_SECRETS, "DOCKER_GID"}:
        assert usual[name] == read[name], name


def test_its_secrets_are_new_and_serve(printed, monkeypatch):
    again = settings_of(CliRunner().invoke(main.main, ["env"]).stdout)
    found = settings_of(printed)
    values = [one[name][0] for one in (found, again) for name in service.COMPOSE_SECRETS]
    assert len(set(values)) == 2 * len(service.COMPOSE_SECRETS)
    monkeypatch.setenv("ASSAY_SIGNING_KEY", found["ASSAY_SIGNING_KEY"][0])
    assert MachineSettings.from_environment().signing_key == found["ASSAY_SIGNING_KEY"][0]
    assert found["DOCKER_GID"][0].isdecimal()


def test_the_example_is_the_same_without_secrets():
    nothing = dict.fromkeys(service.COMPOSE_SECRETS, "") | {"DOCKER_GID": service.USUAL_DOCKER_GROUP}
    assert (ROOT / ".env.example").read_text() == service.COMPOSE_ENV.read_text().format_map(nothing)


def test_the_group_of_the_docker_socket_is_found_or_said_to_be_a_guess(tmp_path, monkeypatch):
    (tmp_path / "docker.sock").touch()
    monkeypatch.setattr(service, "DOCKER_SOCKET", tmp_path / "docker.sock")
    ended = CliRunner().invoke(main.main, ["env"])
    assert settings_of(ended.stdout)["DOCKER_GID"][0] == str(os.stat(tmp_path).st_gid)
    assert ended.stderr == ""
    monkeypatch.setattr(service, "DOCKER_SOCKET", tmp_path / "nothing")
    ended = CliRunner().invoke(main.main, ["env"])
    assert settings_of(ended.stdout)["DOCKER_GID"][0] == service.USUAL_DOCKER_GROUP
    assert "DOCKER_GID is a guess" in ended.stderr


def test_a_file_is_its_owners_alone(tmp_path):
    with (tmp_path / ".env").open("w") as file:
        os.fchmod(file.fileno(), 0o644)
        subprocess.run(COMMAND, stdout=file, check=True)
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert settings_of((tmp_path / ".env").read_text())


def test_what_could_not_be_written_whole_is_a_failure():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(COMMAND, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == EXIT_INTERNAL
    assert "Standard output cannot be written" in ended.stderr


@pytest.mark.parametrize("broken", ["", "0" * 64, "x" * 64])
def test_nothing_is_printed_where_there_are_no_random_secrets(broken, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda size: broken)
    ended = CliRunner().invoke(main.main, ["env"])
    assert (ended.exit_code, ended.stdout) == (EXIT_INTERNAL, "")
