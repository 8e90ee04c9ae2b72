"""The examples of a deployment say what the program knows (its command, its variables, its limits), and serve."""

import configparser
import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import fields
from pathlib import Path

import httpx
import pytest
from api_service import events, served, submission
from storage_samples import accept, claim_of, ended

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


def test_a_job_that_the_kernel_kills_for_memory_does_not_end_the_server(service):
    """As systemd does with a unit of which any process is killed so, unless it says otherwise."""
    assert service["OOMPolicy"] == "continue"
    assert service["Restart"] == "on-failure"


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


# The proxies themselves, where they are installed, in front of a real server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    files = folder / "own.pem", folder / "own.key"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    subprocess.run([*made, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


def nginx(folder, upstream, port, certificate):
    site = (FOLDER / "nginx.conf").read_text()
    for before, after in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("server_name assay.example.org;", "server_name localhost;"),
        ("/etc/ssl/assay.example.org.pem", certificate[0]),
        ("/etc/ssl/private/assay.example.org.key", certificate[1]),
        ("127.0.0.1:8000", upstream),
    ):
        assert before in site
        site = site.replace(before, str(after))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder / kind};\n" for kind in kinds)
    whole = folder / "nginx.conf"
    whole.write_text(
        f"daemon off;\npid {folder / 'pid'};\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}{site}}}\n"
    )
    command = ["nginx", "-p", folder, "-e", "stderr", "-c", whole]
    return [*command, "-t"], command


def caddy(folder, upstream, port, certificate):
    site = (FOLDER / "Caddyfile").read_text()
    for before, after in (
        ("assay.example.org {", f"https://localhost:{port} {{\n\ttls {certificate[0]} {certificate[1]}"),
        ("127.0.0.1:8000", upstream),
    ):
        assert before in site
        site = site.replace(before, after)
    whole = folder / "Caddyfile"
    whole.write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}")
    adapted = ["--config", whole, "--adapter", "caddyfile"]
    return ["caddy", "validate", *adapted], ["caddy", "run", *adapted]


@pytest.fixture(params=[nginx, caddy], ids=lambda one: one.__name__)
def proxied(request, tmp_path, certificate):
    """A server that asks for keys, and the address of a proxy in front of it."""
    if shutil.which(request.param.__name__) is None:
        pytest.skip(f"{request.param.__name__} is not here")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path / "proxy"
    folder.mkdir()
    bounds = {"require_keys": True, "address_connections": 1}
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, **bounds) as here:
        check, run = request.param(folder, here.url.removeprefix("http://"), port, certificate)
        own = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        understood = subprocess.run(check, env=own, capture_output=True, text=True)
        assert understood.returncode == 0, understood.stderr
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(run, env=own, stdout=log, stderr=log)
        try:
            address = f"https://localhost:{port}"
            deadline_s = time.monotonic() + 20
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{address}/livez", verify=False).status_code == 200:
                        break
                assert time.monotonic() < deadline_s, (folder / "log").read_text()
                time.sleep(0.05)
            yield here, address
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:  # caddy waits for streams, which a failed test may have left
                process.kill()
                process.wait()


def test_a_proxy_brings_streams_long_bodies_and_whose_they_are(proxied):
    here, address = proxied
    _, secret = here.storage.keys.create("ann")
    bearer = {"Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=address, verify=False, timeout=20, headers=bearer) as http:
        many = {"submissions": [submission(source="x" * 900_000)] * 3}
        assert http.post("/evaluate/batch", json=many, headers={"Prefer": "respond-async"}).status_code == 202
        # Refused by its length, while the proxy still sends it.
        for _ in range(5):
            assert http.post("/evaluate", content=b"x" * (21 << 20)).status_code == 413
        known = http.get("/evaluations?limit=1").json()["items"][0]["id"]
        with http.stream("GET", f"/evaluations/{known}/events") as stream:
            told = (one for one in events(stream) if "event" in one)
            assert next(told)["event"] == "progress"
            lease = claim_of(here.storage, known)
            here.storage.leases.progress(lease, "compile")
            assert "running" in next(told)["data"], "an event comes when it happens, not at the end"
            here.storage.leases.finish(lease, ended(), {})
    # The proxy names its caller, whatever that says of himself.
    claimed = "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 9.9.9.9\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(here.url.rpartition(":")[2]))) as direct:
        direct.sendall(claimed.encode())
        time.sleep(0.3)
        forged = {"X-Forwarded-For": "9.9.9.9"}
        assert httpx.get(f"{here.url}/livez", headers=forged, timeout=60).status_code == 503
        assert httpx.get(f"{address}/livez", headers=forged, verify=False, timeout=60).status_code == 200


def test_a_browser_signs_in_through_a_proxy_and_cancels(proxied):
    here, address = proxied
    key, secret = here.storage.keys.create("ann")
    waiting = accept(here.storage, tenant=key.id).evaluation
    browser = {"Accept": "text/html", "Origin": address}
    with httpx.Client(base_url=address, verify=False, timeout=20, headers=browser) as http:
        signed = http.post("/sign-in", data={"key": secret, "next": "/"})
        assert signed.status_code == 303
        assert "; Secure" in signed.headers["set-cookie"]
        page = http.get(f"/evaluations/{waiting.id}").text
        (token,) = re.findall(r'name="token" value="([0-9a-f]{64})"', page)
        form = {"token": token, "evaluation": waiting.id}
        assert http.post("/cancel", data=form, headers={"Origin": "https://evil.example"}).status_code == 403
        assert http.post("/cancel", data=form).headers["location"] == f"/evaluations/{waiting.id}"
    assert here.storage.evaluations.get(waiting.id, None).state == "done"


@pytest.mark.parametrize("name", [one.name for one in sorted(FOLDER.iterdir())])
def test_every_variable_of_an_example_is_one(name):
    named = set(re.findall(r"\bASSAY_[A-Z_]+", (FOLDER / name).read_text()))
    assert named <= variables()
