import os
import stat
import threading

import pytest
from full_disk import no_file_beyond

from common.file_replacement import append_to_file, replace_file, replace_file_with


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize(("content", "kept"), [("ä\n", b"\xc3\xa4\n"), (b"\0", b"\0"), ([b"1", b"2"], b"12")])
def test_a_file_is_replaced_by_text_bytes_or_parts(tmp_path, content, kept, on_disk):
    file = tmp_path / "file"
    file.write_bytes(b"before")
    replace_file(file, content, on_disk=on_disk)
    assert file.read_bytes() == kept
    assert list(tmp_path.iterdir()) == [file]
    other = tmp_path / "other"
    other.touch()
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(other.stat().st_mode), "others may read it as any file"


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "file"
    replace_file(file, "before")

    def fail(opened):
        opened.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file_with(file, fail)
    assert (file.read_text(), list(tmp_path.iterdir())) == ("before", [file])
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "no folder" / "file", "")


def test_readers_never_see_a_part(tmp_path):
    file, over, seen = tmp_path / "file", threading.Event(), set()
    replace_file(file, b"")

    def read():
        while not over.is_set():
            content = file.read_bytes()
            seen.add((len(content), len(set(content))))

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(60):
        replace_file(file, (bytes([number]) * 1000 for _ in range(50)))
    over.set()
    thread.join()
    assert seen <= {(0, 0), (50_000, 1)}
    assert os.listdir(tmp_path) == ["file"]


# Within the buffer of a file, and beyond it.
@pytest.mark.parametrize("length", [100, 100_000])
def test_what_does_not_fit_on_the_disk_is_appended_not_at_all(tmp_path, length):
    file, line = tmp_path / "file", b"x" * length + b"\n"
    with no_file_beyond(length // 2), pytest.raises(OSError, match="too large"):
        append_to_file(file, line)
    assert file.read_bytes() == b""
    append_to_file(file, line)
    with no_file_beyond(length * 3 // 2), pytest.raises(OSError, match="too large"):
        append_to_file(file, line)
    assert file.read_bytes() == line
    append_to_file(file, b"the next\n")
    assert file.read_bytes() == line + b"the next\n"
    with pytest.raises(FileNotFoundError):
        append_to_file(tmp_path / "no folder" / "file", b"")
