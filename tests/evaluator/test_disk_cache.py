import multiprocessing
import os
import re
import signal
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.disk_cache import Cache, key_of
from evaluator.stages.compile.canonical_ptx import canonical_ptx, without_debug

KEY = key_of("one")


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache", 1 << 20)


def never():
    raise AssertionError("made again")


def entry_files(cache):
    return [path for path in cache.root.glob("[0-9a-f][0-9a-f]/*") if path.is_file()]


@given(st.dictionaries(st.text(max_size=20), st.binary(max_size=200), max_size=4))
def test_what_is_stored_comes_back(tmp_path_factory, entry):
    cache = Cache(tmp_path_factory.mktemp("cache"), 1 << 20)
    assert cache.get_or_make(KEY, lambda: entry) == (entry, False)
    assert Cache(cache.root, 1 << 20).get_or_make(KEY, never) == (entry, True)


def test_keys_tell_parts_apart():
    assert len({key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of(b"abc", "")}) == 4
    with pytest.raises(ValueError, match="hexadecimal"):
        Cache("nowhere", 1).get_or_make("../../etc/passwd", never)


def test_what_make_raises_is_not_stored(cache):
    def fails():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        cache.get_or_make(KEY, fails)
    assert cache.get_or_make(KEY, lambda: {"a": b"1"}) == ({"a": b"1"}, False)


@pytest.mark.parametrize("position", [0, 10, 40, 90, -1])
@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_a_damaged_entry_is_made_again(cache, position, damage):
    cache.get_or_make(KEY, lambda: {"text": b"x" * 100})
    (path,) = entry_files(cache)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[position] ^= 1
    else:
        data = data[:position]
    path.write_bytes(data)
    assert cache.get_or_make(KEY, lambda: {"text": b"new"}) == ({"text": b"new"}, False)
    assert cache.get_or_make(KEY, never) == ({"text": b"new"}, True)


def test_a_hit_is_quick(cache):
    cache.get_or_make(KEY, lambda: {"ptx": os.urandom(200_000)})
    taken_s = []
    for _ in range(20):
        start_s = time.perf_counter()
        cache.get_or_make(KEY, never)
        taken_s.append(time.perf_counter() - start_s)
    assert min(taken_s) < 0.01


def test_least_recently_used_goes_first(tmp_path):
    cache = Cache(tmp_path, 10_000)
    keys = [key_of(str(number)) for number in range(8)]
    for number, key in enumerate(keys):
        cache.get_or_make(key, lambda: {"a": bytes(1000)})
        os.utime(cache._path(key), (number, number))
    cache.get_or_make(keys[0], never)
    for number in range(3):
        cache.get_or_make(key_of("more", str(number)), lambda: {"a": bytes(1000)})
    assert sum(path.stat().st_size for path in entry_files(cache)) <= 10_000
    assert cache.get_or_make(keys[0], never)[1]
    with pytest.raises(AssertionError):
        cache.get_or_make(keys[1], never)


def test_the_capacity_holds_whatever_is_stored(tmp_path):
    cache = Cache(tmp_path, 20_000)
    for number in range(60):
        cache.get_or_make(key_of(str(number)), lambda: {"a": bytes(997)})
    assert sum(path.stat().st_size for path in entry_files(cache)) <= 20_000
    cache.get_or_make(key_of("huge"), lambda: {"a": bytes(50_000)})
    assert not cache._path(key_of("huge")).exists()


def test_readers_while_entries_are_evicted(tmp_path):
    cache = Cache(tmp_path, 30_000)
    stop = threading.Event()
    wrong = []

    def read(number):
        mine = Cache(tmp_path, 30_000)
        while not stop.is_set():
            content = {"a": bytes([number]) * 2000}
            got, _ = mine.get_or_make(key_of(str(number)), lambda content=content: content)
            if got != content:
                wrong.append(number)

    threads = [threading.Thread(target=read, args=(number % 4,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for number in range(60):
        cache.get_or_make(key_of("filler", str(number)), lambda: {"a": bytes(3000)})
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.warning is None


@pytest.mark.parametrize("kind", ["a file in its place", "no permission"])
def test_without_a_folder_work_goes_on(tmp_path, kind, monkeypatch):
    root = tmp_path / "cache"
    if kind == "a file in its place":
        root.write_text("")
    else:
        monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    cache = Cache(root, 1 << 20)
    for _ in range(2):
        assert cache.get_or_make(KEY, lambda: {"a": b"1"}) == ({"a": b"1"}, False)
    assert str(root) in cache.warning


def refuse(*_, **__):
    raise PermissionError(13, "Permission denied")


def test_a_full_disk_is_a_warning(cache, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert cache.get_or_make(KEY, lambda: {"a": b"1"}) == ({"a": b"1"}, False)
    assert "No space left" in cache.warning
    assert not list(cache.root.glob("new-*"))
    monkeypatch.undo()
    cache.get_or_make(KEY, lambda: {"a": b"1"})
    assert cache.warning is None


def _make_slowly(root, log):
    def make():
        with open(log, "a") as file:
            file.write("made\n")
        time.sleep(0.3)
        return {"a": b"slow"}

    assert Cache(root, 1 << 20).get_or_make(KEY, make)[0] == {"a": b"slow"}


def _hold_forever(root, log):
    def make():
        with open(log, "a") as file:
            file.write("holding\n")
        time.sleep(600)
        return {}

    Cache(root, 1 << 20).get_or_make(KEY, make)


def spawn(target, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process


def test_many_processes_make_once(tmp_path):
    log = tmp_path / "log"
    processes = [spawn(_make_slowly, tmp_path / "cache", log) for _ in range(4)]
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    assert log.read_text() == "made\n"


def test_threads_make_once(cache):
    made = []

    def make():
        made.append(1)
        time.sleep(0.05)
        return {"a": b"1"}

    threads = [threading.Thread(target=cache.get_or_make, args=(KEY, make)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_a_killed_maker_lets_another_go_on(tmp_path):
    log = tmp_path / "log"
    holder = spawn(_hold_forever, tmp_path / "cache", log)
    deadline_s = time.monotonic() + 120
    while not log.exists() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    result = []
    cache = Cache(tmp_path / "cache", 1 << 20)
    waiter = threading.Thread(target=lambda: result.append(cache.get_or_make(KEY, lambda: {"a": b"2"})), daemon=True)
    waiter.start()
    waiter.join(0.3)
    assert waiter.is_alive()
    os.kill(holder.pid, signal.SIGKILL)
    waiter.join(30)
    holder.join()
    assert result == [({"a": b"2"}, False)]


PTX = """\
//
// Generated by NVIDIA NVVM Compiler
//
.version 9.0
.target sm_80
.address_size 64

.extern .func  (.param .b32 func_retval0) vprintf
(
\t.param .b64 vprintf_param_0,
\t.param .b64 vprintf_param_1
)
;
.global .align 4 .b8 table[16] = {0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64};
.extern .shared .align 16 .b8 dyn[];

.visible .entry scale(
\t.param .u64 scale_param_0,
\t.param .u32 scale_param_1
)
{
\t.reg .pred \t%p<2>;
\t.reg .b32 \t%r<5>;
\t.reg .b64 \t%rd<4>;
\t.loc\t1 3 0

\tld.param.u64 \t%rd1, [scale_param_0];
\tld.param.u32 \t%r1, [scale_param_1];
\t.loc\t1 4 31, function_name $L__info_string0, inlined_at 1 6 30
\tmov.u32 \t%r2, %tid.x;
\tsetp.ge.s32 \t%p1, %r2, %r1;
\t@%p1 bra \t$L__BB0_2;
\t// begin inline asm
\t{ .reg .b32 tmp; mov.u32 tmp, 7; add.s32 %r3, tmp, %r2; }
\t// end inline asm
\tcvta.to.global.u64 \t%rd2, %rd1;
\tmov.u64 \t%rd3, table;
\tst.global.v2.u32 \t[%rd2], {%r3, %r2};

$L__BB0_2:
\tret;

}
\t.file\t1 "kernel.cu"
\t.section\t.debug_str
\t{
$L__info_string0:
.b8 95,90,51,105,110,108,102,0

\t}
"""

DECLARED = ("scale", "scale_param_0", "scale_param_1", "table", "dyn", "tmp", "$L__BB0_2")


def rename(text: str, names: dict[str, str]) -> str:
    """Rename whole words."""
    return re.sub(r"[A-Za-z_$][\w$]*", lambda word: names.get(word[0], word[0]), text)


def test_debug_information_and_comments_do_not_count():
    stripped, numbers = without_debug(PTX)
    assert ".loc" not in stripped
    assert ".file" not in stripped
    assert "debug_str" not in stripped
    assert [PTX.split("\n")[number - 1].strip() for number in numbers] == stripped.splitlines()
    assert canonical_ptx(stripped) == canonical_ptx(PTX)
    moved = PTX.replace(".loc\t1 3 0", ".loc\t1 77 9").replace("begin inline asm", "hello").replace("\t", "  ")
    assert canonical_ptx(moved) == canonical_ptx(PTX)


@given(st.lists(st.from_regex(r"\A[a-z_][a-z0-9_]{0,8}\Z"), min_size=7, max_size=7, unique=True))
def test_names_do_not_count(names):
    fresh = {old: f"{new}_x" for old, new in zip(DECLARED, names, strict=True)}
    assert canonical_ptx(rename(PTX, fresh)) == canonical_ptx(PTX)


def test_numbers_of_registers_count_only_as_a_family():
    assert canonical_ptx(PTX.replace("%rd", "%q")) == canonical_ptx(PTX)
    assert canonical_ptx(PTX.replace("add.s32 %r3, tmp, %r2", "add.s32 %r3, tmp, %r1")) != canonical_ptx(PTX)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%tid.x", "%ctaid.x"),
        ("setp.ge", "setp.gt"),
        ("mov.u32 tmp, 7", "mov.u32 tmp, 8"),
        ("128, 63", "129, 63"),
        ("scale_param_1]", "scale_param_0]"),
        ("vprintf\n", "vprintg\n"),
        ("sm_80", "sm_90"),
        ("\tret;", "\texit;"),
        ("{%r3, %r2}", "{%r2, %r3}"),
        ("@%p1", "@!%p1"),
    ],
)
def test_what_the_program_does_counts(old, new):
    assert PTX.count(old)
    assert canonical_ptx(PTX.replace(old, new)) != canonical_ptx(PTX)


def test_an_opcode_is_not_taken_for_a_name():
    first = PTX.replace("tmp", "ret")
    assert canonical_ptx(first) == canonical_ptx(PTX)
    assert canonical_ptx(first.replace("\tret;", "\texit;")) != canonical_ptx(first)
    swapped = PTX.replace("tmp", "exit").replace("\tret;", "\texit;")
    assert canonical_ptx(swapped) != canonical_ptx(PTX)


@pytest.mark.parametrize(
    "hidden",
    [
        "\t.section .debug_x { }\n\tadd.s32 %r3, %r3, 1;\n",
        "\t/* \n\t// */ add.s32 %r3, %r3, 1;\n",
        "\t.loc 1 2 3; add.s32 %r3, %r3, 1;\n",
        "\t.section\t.debug_str\n\t{\n\tadd.s32 %r3, %r3, 1;\n\t}\n",
        "\t// x\radd.s32 %r3, %r3, 1;\n",
    ],
)
def test_inline_assembly_cannot_hide_code(hidden):
    changed = PTX.replace("\tcvta.to", hidden + "\tcvta.to")
    assert "add.s32 %r3, %r3, 1" in without_debug(changed)[0]
    assert canonical_ptx(changed) != canonical_ptx(PTX)


def test_text_that_is_not_ptx_does_no_harm():
    for text in ("", "#0", '.entry "', ".reg .b32 %r<99999999999999>;", ".func (", "@", "{ a", "\x00\udcff"):
        assert isinstance(canonical_ptx(text), str)
