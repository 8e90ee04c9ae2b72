"""What people see, in a real Chromium, of the real `assay serve`; where its workers are left out, the test is one."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from devtools import CHROMIUM, Browser
from sample_verdicts import HOSTILE, SOURCE, compile_error, hostile, incorrect, passed, passed_on_gpu
from storage_samples import accept, claim_of

from common.contract import Submission
from evaluator.service.storage.storage import open_storage

ROOT = Path(__file__).parents[2]
ASSAY = Path(sys.executable).with_name("assay")
KERNEL = ROOT / "tests" / "kernels" / "vector_add_plain.cu"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

WIDE = """(() => {
  const reach = innerWidth + 1, inside = ".scroll, .source, .printed, pre, .unseen, .skip";
  return [...document.body.querySelectorAll("*")]
    .filter(e => e.getBoundingClientRect().right > reach && !e.closest(inside)).map(e => e.outerHTML.slice(0, 120));
})()"""

# Every text that shows, against the nearest background behind it, as WCAG 2 measures contrast.
FAINT = """(() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const colour = channels(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || !e.getClientRects().length || e.closest("svg, script, style, noscript")) continue;
    const [a, b] = [light(channels(getComputedStyle(e).color)), light(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push([node.data.trim().slice(0, 40), contrast]);
  }
  return faint;
})()"""

# Form fields have a font of their own unless they are told not to.
FONTS = """new Set([document.body, ...document.querySelectorAll("button, select, input")]
  .map(e => getComputedStyle(e).fontFamily)).size"""


class Server:
    """One `assay serve`, with a data folder of its own."""

    def __init__(self, folder, workers):
        self.folder, self.workers = folder, workers
        mine = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        self.environment = {**mine, "ASSAY_DATA_DIR": str(folder)}
        self.storage = open_storage(f"sqlite:///{folder / 'assay.db'}")
        self.storage.database.upgrade()

    def start(self, port=0):
        line = [ASSAY, "serve", "--port", str(port), "--workers", str(self.workers)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                line, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder
            )
        said = self.process.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:(\d+))", said)
        assert found, said + (self.folder / "log").read_text()
        self.url, self.port = found.group(1), int(found.group(2))

    def stop(self):
        """Says how long it took, in seconds."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0, (self.folder / "log").read_text()
        self.process.stdout.close()
        return time.monotonic() - began

    def accept(self, problem="row_sum", source=SOURCE, tenant="local"):
        submission = Submission(problem=problem, source=source)
        return accept(self.storage, submission, tenant).evaluation.id

    def claim(self, known):
        return claim_of(self.storage, known, lease_s=600)

    def finished(self, verdict, source=SOURCE):
        known = self.accept(verdict.problem, source)
        assert self.storage.leases.finish(self.claim(known), verdict, {})
        return known


@contextmanager
def served(folder, workers=0):
    folder.mkdir(exist_ok=True)
    server = Server(folder, workers)
    server.start()
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()
        server.storage.database.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium):
    chromium.show()
    chromium.complaints.clear()
    yield chromium
    chromium.show()
    chromium.go("about:blank")


@pytest.fixture(scope="module")
def filled(server):
    """A server with something of everything."""
    running = server.accept("matmul_f16")
    lease = server.claim(running)
    server.storage.leases.progress(lease, "verify: trial 3 of 12")
    return {
        "first page": "/",
        "nothing fits": "/?status=timeout",
        "running": f"/evaluations/{running}",
        "waiting": f"/evaluations/{server.accept('scalar_multiply')}",
        "passed": f"/evaluations/{server.finished(passed_on_gpu())}",
        "incorrect": f"/evaluations/{server.finished(incorrect())}",
        "compile error": f"/evaluations/{server.finished(compile_error())}",
        "hostile": f"/evaluations/{server.finished(hostile(), HOSTILE * 3 + SOURCE)}",
        "problems": "/problems",
        "problem": "/problems/attention",
        "no such thing": "/evaluations/ev_none",
        "cancel": "/cancel",
        "mistyped": "/?stats=passed",
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 768, 1280, 1920])
def test_every_page_fits_and_can_be_read(server, filled, browser, width, dark):
    browser.show(width=width, dark=dark)
    for name, address in filled.items():
        browser.go(server.url + address)
        assert browser.value("[innerWidth, document.documentElement.scrollWidth <= innerWidth]") == [width, True], (
            name
        )
        assert browser.value(WIDE) == [], name
        assert browser.value(FAINT) == [], name
        assert browser.value(FONTS) == 1, name
        # The style sheet was let in by its hash, and the script ran.
        paper = "rgb(20, 23, 26)" if dark else "rgb(251, 250, 248)"
        assert browser.value("getComputedStyle(document.body).backgroundColor") == paper
        if "data-stream" in browser.value("document.body.outerHTML.slice(0, 200)"):
            browser.until("document.getElementById('state').textContent === 'Live'")
    said = [text for text in browser.complaints if "404" not in text and "422" not in text]
    assert said == [], "a page broke its own policy or its script failed"


def test_the_measures_themselves_find_what_is_wrong(server, filled, browser):
    browser.show(width=390)
    browser.go(server.url)
    browser.value("document.querySelector('.head').style.setProperty('width', '700px')")
    assert browser.value("innerWidth") > 390, "a phone zooms out to show what is too wide"
    browser.show(width=800)
    browser.go(server.url)
    browser.value("document.querySelector('.head').style.setProperty('width', '900px')")
    assert any('class="head"' in text for text in browser.value(WIDE))
    browser.value("document.querySelector('h2').style.setProperty('color', 'rgb(150, 150, 150)')")
    assert [text for text, _ in browser.value(FAINT)] == ["Evaluations"]


def test_what_is_open_is_cancelled_with_a_press_of_a_button(tmp_path, browser):
    with served(tmp_path / "own") as server:
        alone, *others = (server.accept("softmax") for _ in range(4))
        browser.go(f"{server.url}/evaluations/{alone}")
        browser.value("document.getElementById('cancel').click()")
        browser.until("document.title === 'cancelled: softmax · Assay'")
        assert browser.value("location.pathname") == f"/evaluations/{alone}"
        running = server.claim(others[0])
        browser.go(server.url)
        browser.value("document.getElementById('to-cancel').click()")
        browser.until("document.title === 'Cancel · Assay'")
        browser.value(f"document.getElementById('{others[2]}').click()")
        browser.value("document.getElementById('cancel').click()")
        browser.until("location.pathname === '/'")
        browser.until("document.body.innerText.includes('ending')")
        states = [server.storage.evaluations.get(one, None).state for one in others]
        assert states == ["running", "done", "queued"]
        assert not server.storage.leases.renew(running, 30)
        # Another origin on this machine may send the same form, and nothing comes of it.
        page = tmp_path / "evil.html"
        form = f'<form method="post" action="{server.url}/cancel"><input name="evaluation" value="{others[2]}">'
        page.write_text(f"<title>evil</title>{form}</form>")
        browser.go(page.as_uri())
        browser.value("document.forms[0].submit()")
        browser.until("document.body.innerText.includes('Nothing was done')")
        assert server.storage.evaluations.get(others[2], None).state == "queued"


def test_an_evaluation_is_followed_to_its_report(server, browser):
    known = server.accept("softmax")
    browser.go(f"{server.url}/evaluations/{known}")
    browser.value("window.same = true")
    assert "It waits in the queue compile" in browser.value("document.body.innerText")
    assert browser.value("document.title") == "queued: softmax · Assay"
    lease = server.claim(known)
    server.storage.leases.progress(lease, "verify: trial 2 of 9")
    browser.until("document.querySelector('.message').innerText.includes('erify: trial 2 of 9')")
    assert browser.value("document.querySelector('[aria-current=step]').innerText") == "Verify"
    assert browser.value("window.same") is True, "the page was updated, not loaded again"
    server.storage.leases.finish(lease, passed(), {})
    browser.until("document.title === 'passed: softmax · Assay'")
    assert "All 5 trials are right" in browser.value("document.body.innerText")
    assert "Receipt" in browser.value("document.body.innerText")
    assert browser.complaints == []


def test_the_first_page_is_live_and_leaves_its_reader_alone(server, browser):
    known = server.accept("gelu")
    browser.go(server.url)
    browser.until("document.getElementById('state').textContent === 'Live'")
    browser.value(f"document.getElementById('{known}').focus()")
    browser.value("document.getElementById('status').value = 'passed'")
    status = f"document.getElementById('{known}').closest('tr').querySelector('.badge').innerText"
    assert "queued" in browser.value(status)
    lease = server.claim(known)
    browser.until(f"{status}.includes('running')")
    newer = server.accept("relu")
    browser.until(f"document.getElementById('{newer}') !== null")
    assert browser.value("document.activeElement.id") == known
    assert browser.value("document.getElementById('status').value") == "passed", "a filter being chosen is left alone"

    browser.value("document.getElementById('pause').click()")
    assert browser.value("document.getElementById('state').textContent") == "Paused"
    server.storage.leases.finish(lease, incorrect(), {})
    time.sleep(1.5)
    assert "running" in browser.value(status)
    browser.value("document.getElementById('pause').click()")
    browser.until(f"{status}.includes('incorrect')")
    assert browser.complaints == []


def test_ages_grow_without_asking(server, browser):
    known = server.finished(passed())
    browser.go(f"{server.url}/evaluations/{known}")
    age = "document.querySelector('.lead time').textContent"
    before = browser.value(age)
    assert re.fullmatch("just now|[0-9]+ s ago", before)
    browser.until(f"/^[0-9]+ s ago$/.test({age}) && {age} !== {before!r}")


def test_without_javascript_everything_is_there(server, browser):
    known = server.accept("transpose")
    browser.show(scripts=False)
    browser.go(f"{server.url}/evaluations/{known}")
    assert "This page asks again every 2 s" in browser.value("document.body.innerText")
    assert browser.value("getComputedStyle(document.getElementById('pause')).display") == "none"
    server.storage.leases.finish(server.claim(known), passed(), {})
    browser.until("document.title === 'passed: transpose · Assay'")
    browser.go(server.url)
    assert browser.value("document.querySelectorAll('a.row').length") >= 1
    browser.value("document.getElementById('problem').value = 'transpose'")
    browser.value("document.getElementById('show').focus()")
    browser.events.clear()
    browser.press("Enter", 13, "\r")
    browser.until("location.search.includes('problem=transpose') && document.readyState === 'complete'")
    assert browser.value("[...document.querySelectorAll('a.row')].map(a => a.innerText)") == ["transpose"]


def test_the_keyboard_reaches_everything(server, browser):
    known = server.finished(passed())
    browser.go(server.url)
    focused = "document.activeElement"
    browser.press("Tab", 9)
    assert browser.value(f"{focused}.innerText") == "To the content"
    assert browser.value(f"{focused}.getBoundingClientRect().left") >= 0
    browser.press("Enter", 13, "\r")
    browser.until("document.activeElement.id === 'content'")
    order = []
    while known not in order:
        browser.press("Tab", 9)
        order.append(browser.value(f"{focused}.id"))
        assert len(order) < 100
    assert order[:4] == ["to-workers", "status", "problem", "show"]
    outline = f"getComputedStyle({focused}.closest('tr')).outlineStyle"
    assert browser.value(outline) == "solid", "the row that has the focus is marked"
    browser.press("Enter", 13, "\r")
    browser.until("document.title === 'passed: row_sum · Assay'")


def test_a_server_that_starts_again_is_found_again(tmp_path, browser):
    with served(tmp_path / "data") as server:
        known = server.accept("conv2d")
        browser.go(server.url)
        browser.until("document.getElementById('state').textContent === 'Live'")
        assert server.stop() < 15, "a live page does not keep a server from ending"
        browser.until("document.getElementById('state').textContent.startsWith('Reconnecting')")
        server.start(server.port)
        server.claim(known)
        browser.until(f"document.getElementById('{known}').closest('tr').innerText.includes('running')", 30)
        assert browser.value("document.getElementById('state').textContent") == "Live"


def test_a_key_is_asked_for_and_opens(tmp_path, browser):
    with served(tmp_path / "data") as server:
        key, secret = server.storage.keys.create("mine")
        known = server.accept("saxpy", tenant=key.id)
        browser.go(f"{server.url}/evaluations/{known}")
        assert browser.value("document.title") == "Sign in · Assay"
        browser.value("document.getElementById('key').focus()")
        browser("Input.insertText", text="assay_wrong")
        browser.press("Enter", 13, "\r")
        browser.until("document.body.innerText.includes('This is not a valid key')")
        browser.value("document.getElementById('key').focus()")
        browser("Input.insertText", text=secret)
        browser.press("Enter", 13, "\r")
        browser.until("document.title === 'queued: saxpy · Assay'")
        browser.until("document.getElementById('state').textContent === 'Live'")
        server.storage.leases.finish(server.claim(known), passed(), {})
        browser.until("document.title === 'passed: saxpy · Assay'")
        assert secret not in browser.value("document.documentElement.outerHTML + document.cookie")
        browser.value("document.querySelector('form[action=\"/sign-out\"] button').click()")
        browser.until("document.title === 'Sign in · Assay'")
        browser.go(f"{server.url}/evaluations/{known}")
        assert browser.value("document.title") == "Sign in · Assay"
    assert [text for text in browser.complaints if "401" not in text] == []


def test_the_commands_of_a_problem_s_page_grade_a_kernel(tmp_path, browser):
    data = tmp_path / "data"
    data.mkdir()
    cache = ROOT / ".assay" / "tests" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (data / "cache").symlink_to(cache)
    with served(data, workers=1) as server:
        browser.go(f"{server.url}/problems/vector_add")
        own, curl = browser.value("[...document.querySelectorAll('.code pre')].map(e => e.innerText)")
        work = tmp_path / "work"
        work.mkdir()
        starter = browser.value("fetch('/problems/vector_add/starter.cu').then(answer => answer.text())")
        assert 'extern "C" __global__ void vector_add_kernel(' in starter
        (work / "vector_add.cu").write_bytes(KERNEL.read_bytes())
        done = subprocess.run(["bash", "-c", curl], cwd=work, capture_output=True, text=True, timeout=120, check=True)
        evaluation = json.loads(done.stdout)
        assert evaluation["verdict"]["status"] == "passed", evaluation["verdict"]["message"]
        browser.go(f"{server.url}/evaluations/{evaluation['id']}")
        text = browser.value("document.body.innerText")
        assert evaluation["verdict"]["message"] in " ".join(text.split())
        assert "Receipt" in text
        name, *arguments = shlex.split(own)
        assert name == "assay"
        graded = subprocess.run(
            [ASSAY, *arguments], cwd=work, env=server.environment, capture_output=True, text=True, timeout=120
        )
        assert graded.returncode == 0, graded.stdout + graded.stderr
        browser.go(server.url)
        browser.until("document.querySelector('#part-workers .badge').innerText.includes('idle')")
        assert "simulator" in browser.value("document.getElementById('part-workers').innerText")
    assert browser.complaints == []
