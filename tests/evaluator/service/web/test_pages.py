import asyncio
import html
import re
import time
from dataclasses import replace
from functools import partialmethod
from html.parser import HTMLParser

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_verdicts import ALL, HOSTILE, SOURCE, hostile, incorrect, passed, passed_on_gpu
from storage_samples import accept, claim_of, empty_sqlite

from common.contract import Status, Submission
from evaluator.errors import StorageError
from evaluator.problems.catalogue import problems
from evaluator.report.html import hashed
from evaluator.report.terminal import TIERS
from evaluator.service.api.app import create_app
from evaluator.service.api.fleet import Fleet
from evaluator.service.storage.models import ALIVE_WITHIN_S, WorkerFacts
from evaluator.service.storage.storage import open_storage
from evaluator.service.web import sse, views
from evaluator.service.web.pages import COOKIE, prefers_html
from evaluator.service.web.sse import Live, Moment
from evaluator.service.web.views import Clock, Filters, overview
from evaluator.settings import ServiceSettings

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
INLINE = ("a", "b", "code", "small", "span", "time")
VOID = ("meta", "br", "img", "link", "input", "hr")


class Markup(HTMLParser):
    """What a browser would make of a page, as far as these tests ask."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.text.append("" if tag in INLINE else " ")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.text.append("" if tag in INLINE else " ")

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text.append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


class Browser:
    """A client that needs no socket: its requests go straight to the application, one after the other."""

    def __init__(self, app, **options):
        self._loop = asyncio.Runner()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), follow_redirects=True, **options)

    def request(self, method, address, **more):
        return self._loop.run(self._client.request(method, address, **more))

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    delete = partialmethod(request, "DELETE")

    def close(self):
        self._loop.run(self._client.aclose())
        self._loop.close()


class Site:
    """The whole service without its workers: what they would do, the test does on the database."""

    def __init__(self, folder):
        settings = ServiceSettings(folder, f"sqlite:///{folder / 'assay.db'}")
        self.storage = open_storage(settings.database_url)
        self.app = create_app(self.storage, self, settings, b"a secret of the test")
        self.browser = Browser(self.app, base_url="http://localhost", headers={"Accept": CHROME})

    def announce(self, evaluation_id, queue):
        """Nobody is there to hear it."""

    def accept(self, problem="row_sum", source=SOURCE, tenant="local"):
        submission = Submission(problem=problem, source=source)
        return accept(self.storage, submission, tenant).evaluation

    def finished(self, verdict, source=SOURCE, **accepted):
        known = self.accept(verdict.problem, source, **accepted)
        lease = claim_of(self.storage, known.id)
        assert self.storage.leases.finish(lease, verdict, {})
        return self.storage.evaluations.get(known.id, None)

    def page(self, address, status=200, **more):
        answer = self.browser.get(address, **more)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return Markup(answer.text)


@pytest.fixture
def site(tmp_path):
    empty_sqlite(tmp_path / "assay.db")
    made = Site(tmp_path)
    yield made
    made.browser.close()
    made.storage.database.close()


def worker(**changes):
    facts = WorkerFacts(
        id="w1",
        host="judge-1",
        pid=4127,
        queues=("compile", "sim"),
        backend="sim",
        device="simulator (sm_80)",
        arch="sm_80",
        toolchain="nvcc 13.0.88",
        sandbox="bubblewrap",
        grader_version="0.1.0",
        started_at=time.time() - 60,
        seen_at=time.time(),
    )
    return replace(facts, **changes)


def test_an_empty_server_says_what_to_do(site):
    words = site.page("/").words
    assert "No worker is running. What is sent now waits until there is one" in words
    assert "No evaluation yet." in words
    assert "assay grade my.cu --problem vector_add --server http://localhost" in words


def test_the_first_page_shows_queues_workers_and_evaluations(site):
    site.storage.workers.register(worker())
    site.storage.workers.register(
        worker(id="w2", pid=4128, queues=("gpu",), backend="gpu", device="NVIDIA H100", draining=True)
    )
    passing, failing = site.finished(passed_on_gpu()), site.finished(incorrect())
    running, queued = site.accept("matmul"), site.accept("softmax")
    lease = claim_of(site.storage, running.id)
    site.storage.leases.progress(lease, "compile")
    page = site.page("/")
    assert re.search(r"Waiting in compile 1 the oldest for \d+ s", page.words)
    assert "Waiting in gpu 0 nothing waits" in page.words
    assert "Workers 2 1 busy" in page.words
    assert "▸busy judge-1 4127" in page.words
    assert "◷draining judge-1 4128" in page.words
    rows = [link["href"] for link in page.all("a") if link.get("class") == "row"]
    assert rows == [f"/evaluations/{each.id}" for each in (queued, running, failing, passing)]
    assert re.search(r"⋯queued softmax .*▸running matmul .*✗incorrect row_sum .*✓passed row_sum ", page.words)
    assert "1.62 × 0.697 of 1 GPU" in page.words
    assert "0.25 of 1 simulator" in page.words


def test_a_queue_that_nobody_serves_is_named(site):
    site.accept()
    site.storage.workers.register(worker(queues=("sim",)))
    assert re.search(r"Waiting in compile 1 the oldest for \d+ s; no worker", site.page("/").words)


def test_filters_and_pages(site, monkeypatch):
    monkeypatch.setattr(views, "ROWS", 3)
    for _ in range(4):
        site.finished(passed())
    wrong = site.finished(incorrect())
    waiting = site.accept("softmax")

    def shown(address):
        page = site.page(address)
        links = {link.get("id"): link["href"] for link in page.all("a")}
        return [link["href"][13:] for link in page.all("a") if link.get("class") == "row"], links

    first, links = shown("/")
    assert first[:2] == [waiting.id, wrong.id]
    second, further = shown(links["older"])
    assert len(set(first + second)) == 6
    assert "older" not in further
    assert shown(further["newest"])[0] == first
    assert shown("/?status=incorrect")[0] == [wrong.id]
    assert shown("/?status=queued")[0] == [waiting.id]
    assert shown("/?problem=softmax&status=")[0] == [waiting.id]
    chosen, links = shown("/?status=passed&problem=row_sum")
    assert len(chosen) == 3
    assert len(shown(links["older"])[0]) == 1
    page = site.page("/?status=passed&problem=softmax")
    assert "No evaluation fits. Show all" in page.words
    assert [option for option in page.all("option") if "selected" in option] == [{"selected": None}] * 2


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("/?status=splendid", 400, "There is no status 'splendid'."),
        ("/?cursor=nonsense", 400, "This address cannot be used"),
        ("/?problem=" + "x" * 301, 400, "too long or malformed"),
        ("/evaluations/ev_nothing", 404, "There is no evaluation ev_nothing, or it belongs to another key."),
        ("/evaluations/<script>", 404, "There is no evaluation <script>,"),
        ("/problems/SoftMx", 404, "There is no problem 'SoftMx'. What to do: Did you mean 'softmax'?"),
    ],
)
def test_errors_are_pages_too(site, address, status, words):
    assert words in site.page(address, status).words


def test_a_store_that_is_away_is_said_without_naming_it(site, monkeypatch):
    def away(*_, **__):
        raise StorageError("The database at db.internal does not answer.", "Start it.")

    monkeypatch.setattr(site.storage.evaluations, "list", away)
    for name in ("find", "list"):
        monkeypatch.setattr(site.storage.keys, name, away)
    words = site.page("/", 503).words
    assert "The service's database cannot be used now. What to do: Try again." in words
    assert "db.internal" not in words


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.__name__)
def test_every_verdict_has_the_whole_report_of_the_grade_command(site, sample):
    verdict = sample()
    known = site.finished(verdict)
    page = site.page(f"/evaluations/{known.id}")
    assert verdict.status in page.words
    assert known.id in page.words
    assert ("Receipt" in page.words) is (verdict.receipt is not None)
    assert ("Reward, term by term" in page.words) is (verdict.reward is not None)
    assert "__global__ void block_sums" in page.words
    assert not [meta for meta in page.all("meta") if meta.get("http-equiv") == "refresh"]
    assert "data-stream" not in page.all("body")[0]


def test_an_evaluation_on_its_way_says_where_it_is(site):
    known = site.accept("softmax")
    page = site.page(f"/evaluations/{known.id}")
    assert "It waits in the queue compile, for 1 s so far." in page.words
    assert page.all("meta")[-1] == {"http-equiv": "refresh", "content": "2"}
    lease = claim_of(site.storage, known.id)
    site.storage.leases.progress(lease, "compile")
    page = site.page(f"/evaluations/{known.id}")
    assert "▸running compile ✓ Waiting Compile Verify Time Begun just now." in page.words
    assert [step for step in page.all("li") if step.get("aria-current")] == [{"class": "now", "aria-current": "step"}]
    site.storage.leases.pass_on(lease, "gpu", 0.4)
    page = site.page(f"/evaluations/{known.id}")
    assert "It is compiled and waits in the queue gpu. ✓ Waiting ✓ Compile Verify Time" in page.words
    lease = claim_of(site.storage, known.id, "gpu")
    site.storage.evaluations.drop(known.id, "local")
    assert "It was cancelled, and ends as soon as the worker notices." in site.page(f"/evaluations/{known.id}").words
    assert site.storage.evaluations.get(known.id, None).state == "running"


def test_what_a_submission_brings_is_text(site):
    verdict = hostile()
    known = site.finished(verdict, source=HOSTILE + SOURCE)
    running = site.accept("row_sum", source=HOSTILE)
    lease = claim_of(site.storage, running.id)
    site.storage.leases.progress(lease, HOSTILE)
    for address in ("/", f"/evaluations/{known.id}", f"/evaluations/{running.id}"):
        text = site.browser.get(address).text
        page = Markup(text)
        assert "<img" not in text
        assert len(page.all("script")) == 1
        assert "<img src=x onerror=alert(1)>" in page.words
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)


def test_pages_load_nothing_and_let_in_only_what_is_ours(site):
    known, running = site.finished(passed()), site.accept()
    for address in ("/", f"/evaluations/{known.id}", f"/evaluations/{running.id}", "/problems", "/problems/relu"):
        answer = site.browser.get(address)
        page = Markup(answer.text)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        for kind in ("style", "script"):
            (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
            assert f"{kind}-src {hashed(text)};" in policy
        for tag, attributes in page.elements:
            assert not {"src", "style", "srcset", "action" if tag != "form" else ""} & attributes.keys()
            assert not [name for name in attributes if name.startswith("on")]
        assert [link["href"][:5] for link in page.all("link")] == ["data:"]
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
        assert answer.headers["cache-control"] == "private, no-cache"
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert len(page.all("h1")) == 1
        assert page.all("html") == [{"lang": "en"}]


def test_who_asks_for_json_gets_json(site):
    known = site.finished(passed())
    for wanted in ("*/*", "application/json", "application/json, text/html", "text/html;q=0.5, application/json", ""):
        answer = site.browser.get(f"/evaluations/{known.id}", headers={"Accept": wanted})
        assert answer.json()["id"] == known.id, wanted
        assert len(site.browser.get("/problems", headers={"Accept": wanted}).json()) == len(problems())
        assert site.browser.get("/problems/relu", headers={"Accept": wanted}).json()["id"] == "relu"
    answer = site.browser.delete(f"/evaluations/{known.id}")
    assert answer.status_code == 200, "a browser may send what it likes as Accept with other methods"
    assert site.page("/evaluations").all("h1"), "the list of evaluations is the first page"
    assert "text/html" not in str(site.app.openapi())


@given(st.text(max_size=40), st.sampled_from(["", "*/*", CHROME]))
def test_any_accept_header_has_an_answer(text, known):
    assert prefers_html(text) in (True, False)
    assert prefers_html(known) is (known == CHROME)


def test_all_problems_are_listed_and_told(site):
    page = site.page("/problems")
    for problem in problems().values():
        assert {"class": "row", "href": f"/problems/{problem.id}"} in page.all("a")
        assert problem.title in page.words
    assert all(tier.capitalize() in page.words for tier in TIERS)
    face = problems()["layer_norm"].face
    page = site.page("/problems/layer_norm")
    said = (face.statement, "eps scalar 1e-05 other values in hidden trials float32", "y output [rows, cols] float32")
    for words in (
        *said,
        f"A kernel must serve {face.serves}.",
        face.tolerance,
        face.baseline,
        "rows = 8,192, cols = 2,048",
        *face.probes,
    ):
        assert words in page.words
    text = site.browser.get("/problems/layer_norm").text
    shown = [
        html.unescape(re.sub("<.*?>", "", line)) for line in re.findall(r'class="no">\d+</span>(.*?)</code>', text)
    ]
    assert "\n".join(shown) == face.starter.rstrip("\n")
    download = site.browser.get("/problems/layer_norm/starter.cu")
    assert download.text == face.starter
    assert download.headers["content-type"] == "text/plain; charset=utf-8"


def form_of(page):
    """What a browser sends of the form of a page that cancels, as it stands."""
    assert {"method": "post", "action": "/cancel"}.items() <= next(
        form for form in page.all("form") if form.get("action") == "/cancel"
    ).items()
    fields = {}
    for field in page.all("input"):
        if field["type"] == "hidden" or "checked" in field:
            fields.setdefault(field["name"], []).append(field["value"])
    return fields


def test_an_evaluation_that_waits_is_cancelled_on_its_page(site):
    waiting = site.accept()
    address = f"/evaluations/{waiting.id}"
    answer = site.browser.post("/cancel", data=form_of(site.page(address)), follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, address)
    assert "cancelled" in site.page(address).words
    assert site.page(address).all("form") == []


def test_an_evaluation_that_runs_is_cancelled_on_its_page(site):
    running = site.accept()
    lease = claim_of(site.storage, running.id)
    form = form_of(site.page(f"/evaluations/{running.id}"))
    site.browser.post("/cancel", data=form)
    page = site.page(f"/evaluations/{running.id}")
    assert "It was cancelled, and ends as soon as the worker notices." in page.words
    assert page.all("form") == []
    assert not site.storage.leases.renew(lease, 30)
    site.browser.post("/cancel", data=form)  # a second press changes nothing


def test_all_that_is_open_is_cancelled_on_one_page(site, monkeypatch):
    assert "Cancel open ones" not in site.page("/").words
    assert "Nothing is open." in site.page("/cancel").words
    done = site.finished(passed())
    of_relu = [site.accept("relu").id for _ in range(2)]
    others = [site.accept("softmax").id for _ in range(3)]
    lease = claim_of(site.storage, others[1])
    assert {"class": "button", "id": "to-cancel", "href": "/cancel"} in site.page("/").all("a")
    links = site.page("/?problem=relu").all("a")
    assert "/cancel?problem=relu" in [link["href"] for link in links]
    assert form_of(site.page("/cancel?problem=relu"))["evaluation"] == of_relu[::-1]
    form = form_of(site.page("/cancel"))
    assert form["evaluation"] == [others[1], others[2], others[0], *of_relu[::-1]]
    kept = form["evaluation"].pop()
    answer = site.browser.post("/cancel", data=form, follow_redirects=False)
    assert answer.headers["location"] == "/"
    states = {one.id: one for one in site.storage.evaluations.list(None).items}
    assert [states[one].state for one in (kept, others[0], others[2], of_relu[1], done.id)] == [
        *("queued", "done", "done", "done", "done")
    ]
    assert not site.storage.leases.renew(lease, 30)
    monkeypatch.setattr(views, "CANCELLED_AT_ONCE", 2)
    for _ in range(3):
        site.accept()
    page = site.page("/cancel")
    assert len(form_of(page)["evaluation"]) == 2
    assert "There are more: these are the newest 2." in page.words


def test_a_form_that_chooses_nothing_cancels_nothing(site):
    site.accept()
    form = form_of(site.page("/cancel"))
    for chosen, status in (([], 400), (["ev_nothing"], 404), (["x" * 9000], 400)):
        assert site.browser.post("/cancel", data={**form, "evaluation": chosen}).status_code == status


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
def test_no_other_site_cancels(site, headers):
    waiting = site.accept()
    form = form_of(site.page(f"/evaluations/{waiting.id}"))
    forged = ({**form, "token": "0" * 64}, {"evaluation": [waiting.id]}, {**form, "token": "\u00e9"})
    for sent, more in ((form, headers), *((one, {}) for one in forged)):
        answer = site.browser.post("/cancel", data=sent, headers=more)
        assert answer.status_code == 403
        assert "came from another site" in Markup(answer.text).words
    assert site.storage.evaluations.get(waiting.id, None).state == "queued"


class TestWithKeys:
    @pytest.fixture
    def keyed(self, site):
        site.mine, site.secret = site.storage.keys.create("mine")
        site.other, _ = site.storage.keys.create("other")
        return site

    def sign_in(self, site, secret, target="/", **headers):
        form = {"key": secret, "next": target}
        return site.browser.post("/sign-in", data=form, headers=headers, follow_redirects=False)

    def test_nothing_is_shown_before_a_key_is(self, keyed):
        theirs = keyed.finished(passed(), tenant=keyed.other.id)
        for address in ("/", f"/evaluations/{theirs.id}", "/problems", "/live", "/problems/relu/starter.cu"):
            page = keyed.page(address, 401)
            assert page.words.endswith("which can look and cancel, and cannot send anything.")
            assert {"type": "hidden", "name": "next", "value": address} in page.all("input")
            assert theirs.id not in page.words

    def test_a_key_opens_its_own_evaluations_and_no_others(self, keyed):
        mine = keyed.finished(passed(), tenant=keyed.mine.id)
        theirs = keyed.finished(passed(), tenant=keyed.other.id)
        answer = self.sign_in(keyed, keyed.secret, f"/evaluations/{mine.id}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/evaluations/{mine.id}")
        cookie = answer.headers["set-cookie"]
        assert cookie == f"{COOKIE}={keyed.secret}; HttpOnly; Path=/; SameSite=lax"
        assert "Sign out" in keyed.page(f"/evaluations/{mine.id}").words
        keyed.page(f"/evaluations/{theirs.id}", 404)
        rows = [link["href"] for link in keyed.page("/").all("a") if link.get("class") == "row"]
        assert rows == [f"/evaluations/{mine.id}"]
        assert "Bearer $ASSAY_KEY" in keyed.page("/problems/relu").words
        keyed.storage.keys.revoke(keyed.mine.id)
        keyed.page("/", 401)

    def test_an_admin_sees_all(self, keyed):
        _, secret = keyed.storage.keys.create("admin", admin=True)
        theirs = keyed.finished(passed(), tenant=keyed.other.id)
        assert theirs.id in [link.get("id") for link in keyed.page("/", headers=bearer(secret)).all("a")]

    def test_a_cookie_looks_and_never_acts(self, keyed):
        mine = keyed.finished(passed(), tenant=keyed.mine.id)
        self.sign_in(keyed, keyed.secret)
        body = Submission(problem="relu", source="x").model_dump(mode="json")
        assert keyed.browser.post("/evaluate", json=body).status_code == 401
        assert keyed.browser.delete(f"/evaluations/{mine.id}").status_code == 401
        assert keyed.browser.get("/evaluations", headers={"Accept": "*/*"}).status_code == 401

    def test_each_key_cancels_its_own_and_needs_its_own_pages_form(self, keyed):
        mine, theirs = (keyed.accept(tenant=one.id) for one in (keyed.mine, keyed.other))
        form = {"evaluation": [mine.id]}
        assert keyed.browser.post("/cancel", data=form).status_code == 401
        _, admin = keyed.storage.keys.create("admin", admin=True)
        form["token"] = form_of(keyed.page(f"/evaluations/{mine.id}", headers=bearer(admin)))["token"]
        self.sign_in(keyed, keyed.secret)
        assert keyed.browser.post("/cancel", data=form).status_code == 403
        own = form_of(keyed.page("/cancel"))
        assert own["evaluation"] == [mine.id]
        assert keyed.browser.post("/cancel", data={**own, "evaluation": [theirs.id]}).status_code == 404
        both = {**own, "evaluation": [mine.id, theirs.id]}
        assert keyed.browser.post("/cancel", data=both, follow_redirects=False).status_code == 303
        states = [keyed.storage.evaluations.get(one.id, None).state for one in (mine, theirs)]
        assert states == ["done", "queued"]

    @pytest.mark.parametrize("secret", ["", "assay_" + "x" * 43, HOSTILE, "assay_" + "x" * 9000])
    def test_a_wrong_key_is_told_so(self, keyed, secret):
        answer = self.sign_in(keyed, secret)
        assert answer.status_code == (400 if len(secret) > 9000 else 401)
        assert "set-cookie" not in answer.headers
        assert answer.status_code == 400 or "This is not a valid key" in answer.text

    @pytest.mark.parametrize(
        "target",
        [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/\t/evil.example",
            "/a\r\nb",
            "",
        ],
    )
    def test_signing_in_leads_nowhere_else(self, keyed, target):
        assert self.sign_in(keyed, keyed.secret, target).headers["location"] == "/"

    @pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
    def test_a_form_of_another_site_is_refused(self, keyed, headers):
        answer = self.sign_in(keyed, keyed.secret, **headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert self.sign_in(keyed, keyed.secret, Origin="http://localhost").status_code == 303
        answer = keyed.browser.post("/sign-out", headers=headers, follow_redirects=False)
        assert "set-cookie" not in answer.headers
        keyed.page("/")

    def test_signing_out(self, keyed):
        self.sign_in(keyed, keyed.secret)
        answer = keyed.browser.post("/sign-out", follow_redirects=False)
        assert answer.headers["location"] == "/"
        keyed.page("/", 401)


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


class TestLive:
    """The streams, read as the server sends them."""

    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch):
        monkeypatch.setattr(sse, "_LOOK_EVERY_S", 0.01)
        monkeypatch.setattr(sse, "_AFTER_A_FAULT_S", 0.01)

    def events(self, streams, look, key="key", until=lambda events: False):
        async def read():
            found = []
            async for event in streams.answer(key, look).body_iterator:
                found.append(event.decode())
                if until(found):
                    break
            return found

        return asyncio.run(asyncio.wait_for(read(), 20))

    def test_what_changes_is_sent_once_and_the_end_ends_it(self):
        moments = [*[Moment(1, "<p>\none</p>")] * 3, *[Moment(2, "two")] * 3, Moment(None, "", done=True)]
        seen = []

        def look(before):
            seen.append(before)
            return moments[len(seen) - 1]

        events = self.events(Live(lambda: False, {}), look)
        assert events == [
            "retry: 2000\n\n",
            "data: <p>\ndata: one</p>\n\n",
            "data: two\n\n",
            "event: done\ndata: \n\n",
        ]
        assert seen == [None, *moments[:-1]]

    def test_a_fault_is_said_and_what_follows_is_sent_again(self):
        looks = iter([Moment(1, "one"), StorageError("The database does not answer."), Moment(1, "one")])

        def look(before):
            found = next(looks)
            if isinstance(found, Exception):
                raise found
            return found

        events = self.events(Live(lambda: False, {}), look, until=lambda events: len(events) == 4)
        assert events[1:] == [
            "data: one\n\n",
            "event: fault\ndata: The database does not answer.\n\n",
            "data: one\n\n",
        ]

    def test_it_ends_when_the_server_stops_and_after_its_life(self, monkeypatch):
        assert self.events(Live(lambda: True, {}), lambda before: Moment(1, "one")) == ["retry: 2000\n\n"]
        monkeypatch.setattr(sse, "STREAM_LIFE_S", 0.2)
        monkeypatch.setattr(sse, "_HEARTBEAT_S", 0.05)
        events = self.events(Live(lambda: False, {}), lambda before: Moment(1, "one"))
        assert events[1] == "data: one\n\n"
        assert set(events[2:]) == {": still here\n\n"}

    def test_many_viewers_look_once(self):
        looks = []

        def look(before):
            looks.append(before)
            return Moment(1, "one")

        async def read(streams):
            stream = streams.answer("key", look).body_iterator
            return [await anext(stream), await anext(stream)]

        async def many():
            streams = Live(lambda: False, {})
            return await asyncio.gather(*(read(streams) for _ in range(50)))

        live_s = sse._LOOK_EVERY_S
        started = time.monotonic()
        assert asyncio.run(many()) == [[b"retry: 2000\n\n", b"data: one\n\n"]] * 50
        assert len(looks) <= 1 + (time.monotonic() - started) / live_s

    def test_more_than_the_most_are_sent_away(self, monkeypatch):
        monkeypatch.setattr(sse, "MAX_STREAMS", 1)

        async def two():
            streams = Live(lambda: False, {})
            first = streams.answer("key", lambda before: Moment(1, "one")).body_iterator
            await anext(first)
            refused = streams.answer("key", lambda before: Moment(1, "one"))
            await first.aclose()
            return refused, streams.answer("key", lambda before: Moment(1, "one"))

        refused, accepted = asyncio.run(two())
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        assert accepted.status_code == 200


def test_an_overview_is_read_again_only_where_it_changed(site, monkeypatch):
    monkeypatch.setattr(views, "READ_AGAIN_S", 1000)
    site.finished(passed())
    running = site.accept()
    lease = claim_of(site.storage, running.id)
    first = overview(site.storage.evaluations, site.storage.workers, None, Filters())
    assert overview(site.storage.evaluations, site.storage.workers, None, Filters(), first).page is first.page
    steps = (
        lambda: site.storage.leases.progress(lease, "verify"),
        lambda: site.storage.leases.finish(lease, passed(), {}),
        lambda: site.accept("softmax"),
    )
    for step in steps:
        step()
        again = overview(site.storage.evaluations, site.storage.workers, None, Filters(), first)
        assert again.page is not first.page
        assert again.key != first.key
        first = again
    site.storage.workers.register(worker())
    again = overview(site.storage.evaluations, site.storage.workers, None, Filters(), first)
    assert again.page is first.page
    assert again.key != first.key
    monkeypatch.setattr(views, "READ_AGAIN_S", 0)
    assert overview(site.storage.evaluations, site.storage.workers, None, Filters(), again).page is not again.page


def test_pages_and_readiness_agree_on_who_is_gone(new_storage, clock):
    storage = new_storage(clock)
    storage.workers.register(worker(seen_at=clock.day))
    fleet = Fleet(storage.workers)
    for passed_s, alive in ((ALIVE_WITHIN_S - 1, True), (2, False)):
        clock.pass_s(passed_s)
        shown = overview(storage.evaluations, storage.workers, None, Filters()).workers
        assert (len(shown) == 1, fleet.why_not_ready() is None) == (alive, alive)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "just now"), (1, "just now"), (12, "12 s ago"), (100, "2 min ago"), (7000, "2 h ago"), (2e5, "2 days ago")],
)
def test_ages_in_words(seconds, words):
    assert Clock(1e9).ago(1e9 - seconds) == words


def test_every_status_can_be_asked_for(site):
    assert f"Status any queued running {' '.join(Status)} Problem any" in site.page("/").words
