"""The examples of a deployment say what the program knows: its command, its variables, its limits."""

import configparser
import re
import shlex
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from evaluator.cli.main import main
from evaluator.settings import ServiceSettings, variables

FOLDER = Path(__file__).parents[2] / "examples" / "deployment"
DEFAULTS = {one.name: one.default for one in fields(ServiceSettings)}
UNIT = FOLDER / "assay.service"


@pytest.fixture
def service():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(UNIT)
    return unit["Service"]


def test_the_unit_starts_a_command_that_there_is(service):
    program, name, *options = shlex.split(service["ExecStart"])
    assert Path(program).name == "assay"
    command = main.get_command(None, name)
    assert command.make_context(name, options).params["port"] == 8000


def test_the_unit_leaves_the_server_time_to_drain(service):
    assert int(service["TimeoutStopSec"]) > DEFAULTS["drain_s"]
    assert int(service["LimitNOFILE"]) > DEFAULTS["connections"]


def test_systemd_understands_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    there = tmp_path / "assay.service"
    there.write_text(UNIT.read_text().replace("/opt/assay/bin/assay", "/bin/true"))
    found = subprocess.run(["systemd-analyze", "verify", there], capture_output=True, text=True)
    assert [line for line in found.stderr.splitlines() if "assay.service" in line] == []


@pytest.mark.parametrize("name", ["Caddyfile", "nginx.conf"])
def test_a_proxy_lets_through_what_the_server_takes(name):
    text = re.sub(r"#.*", "", (FOLDER / name).read_text())
    assert text.count("{") == text.count("}") > 1
    assert "127.0.0.1:8000" in text
    (size_mib,) = re.findall(r"(?:max_size|client_max_body_size) (\d+)[mM]", text)
    assert int(size_mib) << 20 == DEFAULTS["batch_bytes"]
    (timeout_s,) = re.findall(r"(?:response_header_timeout|proxy_read_timeout) (\d+)s", text)
    assert int(timeout_s) > DEFAULTS["max_wait_s"]
    assert "flush_interval -1" in text or "proxy_buffering off" in text


@pytest.mark.parametrize("name", [one.name for one in sorted(FOLDER.iterdir())])
def test_every_variable_of_an_example_is_one(name):
    named = set(re.findall(r"\bASSAY_[A-Z_]+", (FOLDER / name).read_text()))
    assert named <= variables()
