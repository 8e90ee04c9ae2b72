"""Nothing is lost: what the service has accepted ends once and rightly, whatever is killed with -9 meanwhile.

A short form by default. `make soak` runs it in full: 1,000 evaluations for each set-up, or as many as ASSAY_SOAK
says; with ASSAY_SOAK_RESULTS each set-up's figures are written into that folder. `make test-all` kills what there is
in tests/e2e/test_compose.py and tests/evaluator/service/workers.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from clocks import Jumping, c_compiler
from composed import Composed, on_disk, what_is_missing, with_clock
from databases import postgres_programs
from disks import own_disk
from memory import ControlGroup
from ordeal import ordeal
from setups import Distributed, Embedded

COUNT = int(os.environ.get("ASSAY_SOAK", "0"))
LONG = COUNT > 0
SEED = int(os.environ.get("ASSAY_SOAK_SEED", "20"))
CACHE = None if LONG else Path(__file__).parents[2] / ".assay" / "tests" / "cache"
SHORT = {"count": 60, "kills": 3}
pytestmark = pytest.mark.timeout(7200 if LONG else 600)


def needs(there, what):
    if not there:
        assert not os.environ.get("CI"), f"CI must have {what}"
        pytest.skip(f"{what} is not here")


def go_through(setup, name, **changes):
    """The ordeal, in its short or its long form, and the demands."""
    form = {"count": COUNT, "pause_s": 5.0} if LONG else SHORT | changes
    try:
        account = ordeal(setup, seed=SEED, **form)
    finally:
        setup.remove()
    print(json.dumps({**account.figures(), "kills": account.kills}))
    if folder := os.environ.get("ASSAY_SOAK_RESULTS"):
        Path(folder, f"{name}.json").write_text(json.dumps({**account.figures(), "by_victim": account.kills}))
    assert sum(account.kills.values()) >= (1 if LONG else SHORT["kills"])
    assert account.false == []
    assert account.unanswered == []
    assert account.books == []
    assert account.left_over == []
    assert account.ours == [], "a kill is held against nobody"
    return account


def test_embedded(tmp_path):
    go_through(Embedded(tmp_path, cache=CACHE), "embedded")


def test_distributed(tmp_path):
    needs(shutil.which("redis-server"), "redis-server")
    needs(postgres_programs(), "PostgreSQL's server programs (initdb, pg_ctl)")
    go_through(Distributed(tmp_path, cache=CACHE), "distributed")


IN_CONTAINERS = pytest.mark.skipif(not LONG, reason="a short form is in tests/e2e/test_compose.py")


@IN_CONTAINERS
def test_composed():
    missing = what_is_missing()
    needs(missing is None, missing)
    go_through(Composed(), "composed")


def set_up(form, folder, *, more=None, disk=None):
    """One of the forms that run as processes of this machine; on `disk` where there is one."""
    place = disk.folder if disk else folder
    if form is Embedded:
        return Embedded(place, more=more, cache=CACHE)
    needs(shutil.which("redis-server"), "redis-server")
    needs(postgres_programs(), "PostgreSQL's server programs (initdb, pg_ctl)")
    return Distributed(place, more=more, cache=CACHE, database_folder=disk and disk.folder)


def plus(victims, setup):
    """Victims of a test: in its long form beside those that every set-up has."""
    return {**victims, **(setup.victims if LONG else {})}


FORMS = pytest.mark.parametrize("form", [Embedded, Distributed], ids=["embedded", "distributed"])


@FORMS
def test_a_clock_that_jumps(form, tmp_path):
    needs(c_compiler(), "a C compiler")
    clock = Jumping(tmp_path)
    setup = set_up(form, tmp_path, more=clock.environment)
    setup.victims = plus({"clock": clock.jump}, setup)
    go_through(setup, f"clock_{form.__name__.lower()}")


@FORMS
def test_a_disk_in_trouble(form, tmp_path):
    """Full, slow, hanging, and read only until it is mounted again."""
    with own_disk() as disk:
        needs(disk is not None or os.geteuid() != 0, "the right to mount")
        if disk is None:
            pytest.skip("only root can mount a disk")
        setup = set_up(form, tmp_path, disk=disk)
        setup.victims = plus(setup.trouble(disk), setup)
        go_through(setup, f"disk_{form.__name__.lower()}", kills=4)


@IN_CONTAINERS
def test_a_clock_that_jumps_in_containers(tmp_path):
    missing = what_is_missing()
    needs(missing is None, missing)
    needs(c_compiler(), "a C compiler")
    with tempfile.TemporaryDirectory(prefix="assay-clock-") as folder:
        clock = Jumping(folder)
        setup = Composed(with_clock(clock, tmp_path / "override.json"))
        setup.victims = plus({"clock": clock.jump}, setup)
        go_through(setup, "clock_composed")


@IN_CONTAINERS
def test_a_disk_in_trouble_in_containers(tmp_path):
    missing = what_is_missing()
    needs(missing is None, missing)
    with own_disk() as disk:
        needs(disk is not None or os.geteuid() != 0, "the right to mount")
        if disk is None:
            pytest.skip("only root can mount a disk")
        setup = Composed(on_disk(disk, tmp_path / "override.json"))
        setup.victims = plus(setup.trouble(disk), setup)
        go_through(setup, "disk_composed")


@FORMS
def test_memory_that_runs_out(form, tmp_path):
    group = ControlGroup.made()
    needs(group is not None or os.geteuid() != 0, "the right to make a control group")
    if group is None:
        pytest.skip("only root can make a control group")
    try:
        setup = set_up(form, tmp_path)
        setup.victims = plus(setup.share_memory(group), setup)
        go_through(setup, f"memory_{form.__name__.lower()}")
    finally:
        group.remove()
