"""Every instruction that the simulator knows has recorded forms, in each type and with each modifier."""

import json
import lzma
from collections import defaultdict

import numpy as np
import pytest
from conformance import bundle, simulation
from conformance.comparison import Comparison, Verdict
from conformance.forms import Form, expanded, form_of
from conformance.modules import kernel
from conformance.operands import operands
from conformance.recording import Recording
from conformance.report import Report
from conformance.suite import forms

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.instructions import entry_of, known_instructions
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction
from evaluator.backends.sim.ptx.parser import parse_ptx

# Entries and words of which no form has a result that could be compared, and why.
NO_RESULT = {
    "exit": "the thread would write no more results",
    "trap": "ends the whole launch",
    "brkpt": "ends the whole launch where no debugger is",
    "discard": "leaves memory undefined",
    "applypriority": "a hint that takes whole lines of 128 bytes",
}

NO_FORM: dict[str, set[str]] = {}


def _seen() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The types and the modifiers of each entry's recorded forms."""
    recording = Recording.load()
    types: dict[str, set[str]] = defaultdict(set)
    modifiers: dict[str, set[str]] = defaultdict(set)
    for form in forms():
        if form.name not in recording.rows:
            continue
        try:
            module = parse_ptx(kernel([form]).ptx())
        except UnsupportedError:
            continue
        for function in module.functions.values():
            for item in function.body:
                if isinstance(item, Instruction):
                    name = entry_of(item).name
                    types[name].add(item.type)
                    modifiers[name] |= set(item.modifiers) - TYPE_BYTES.keys()
    return types, modifiers


def test_every_entry_has_recorded_forms_of_each_type_and_modifier():
    types, modifiers = _seen()
    lacking = []
    for _, entry in known_instructions():
        if entry.name in NO_RESULT:
            continue
        left = set() if entry.types is None else entry.types - types[entry.name]
        left |= entry.modifiers - modifiers[entry.name] - entry.words
        left -= NO_FORM.get(entry.name, set())
        if left or entry.name not in types:
            lacking.append(f"{entry.name}: {' '.join(sorted(word or 'none' for word in left))}")
    assert not lacking, "without a recorded form:\n" + "\n".join(lacking)


def test_what_has_no_result_is_known_and_has_no_form():
    names = {entry.name for _, entry in known_instructions()}
    assert names >= NO_RESULT.keys()
    assert names >= NO_FORM.keys()


def test_each_form_has_a_name_of_its_own():
    assert len({form.name for form in forms()}) == len(forms()) > 5000
    assert form_of(forms()[0].name) == forms()[0]
    with pytest.raises(ValueError, match="no form's name"):
        form_of("add.u32")


def test_a_template_stands_for_each_of_its_choices():
    found = list(expanded(["<add|sub>.<T=u32|s32> {d:<T>}, {a:<T>}, <1|2>;", "add.u32 {d:u32}, {a:u32}, 1;"]))
    assert len(found) == 8
    assert found[0] == "add.u32 {d:u32}, {a:u32}, 1;"
    assert "sub.s32 {d:s32}, {a:s32}, 2;" in found


ADDITION = Form("add.f32 {d:f32}, {a:f32}, {b:f32};")


def test_operands_are_the_same_everywhere():
    given = operands(ADDITION)
    assert given.shape == (256, 2)
    assert ADDITION.digest(given.astype("<u8").tobytes()) == "1184dd40e1aef5b0"
    assert len(np.unique(given, axis=0)) > 240
    assert {0x7F800000, 0x80000000, 0x3F800000, 0x7F7FFFFF} <= set(given.ravel().tolist())


def test_member_masks_name_each_lane_that_goes_by_them():
    for form in forms():
        letters = {field.content: column for field, column in zip(form.inputs, operands(form).T, strict=True)}
        if "members" in letters and "member" in letters:
            lanes = (np.arange(form.launch.threads) % form.launch.block_threads % 32).astype(np.uint64)
            assert np.array_equal(letters["members"] >> lanes & np.uint64(1), letters["member"])
            assert 0 < letters["member"].sum() < form.launch.threads
    assert any("members" in form.text for form in forms())


@pytest.fixture
def kept() -> Recording:
    recording = Recording.empty({"gpu": "none", "driver": "1", "compiler": "c", "target": "t", "date": "d"})
    numbers = np.arange(256, dtype=np.uint64)
    recording.add(ADDITION, numbers[:, None])
    recording.add(SELECTION, np.stack([numbers % 2, numbers << np.uint64(56), numbers], axis=1))
    recording.refuse(REFUSED, "no such modifier")
    return recording


SELECTION = Form("setp.eq.u32 {d:pred}, {a:u32}, 1; mov.b64 {d2:b64}, {b:b64}; mov.b16 {d3:b16}, {c:b16};")
REFUSED = Form("add.u31 {d:u32}, {a:u32}, 1;")


def test_a_recording_holds_what_was_put_into_it(kept, tmp_path):
    kept.save(tmp_path / "kept")
    again = Recording.load(tmp_path / "kept")
    assert again.machine == kept.machine
    numbers = np.arange(256, dtype=np.uint64)
    assert np.array_equal(again.results(ADDITION)[:, 0], numbers)
    assert np.array_equal(again.results(SELECTION).T, [numbers % 2, numbers << np.uint64(56), numbers])


def test_a_recording_of_another_text_or_other_operands_is_not_compared(kept):
    assert kept.results(Form("sub.f32 {d:f32}, {a:f32}, {b:f32};")) == "not recorded"
    assert kept.results(REFUSED) == "refused by the GPU's tools: no such modifier"
    kept.rows[ADDITION.name][0] = "0" * 16
    assert kept.results(ADDITION) == "recorded with another text or other operands"


def test_results_of_another_bundle_are_refused(tmp_path):
    (tmp_path / "bundle.json").write_text('{"digest": "one"}')
    (tmp_path / "results.json").write_text('{"bundle": "other"}')
    with pytest.raises(ValueError, match="another bundle"):
        bundle.keep(tmp_path, tmp_path, None)


def test_results_of_another_driver_are_not_mixed_into_a_recording(kept, tmp_path):
    described = {"digest": "one", "ptxas": "c", "target": "t", "refused": {}, "kernels": []}
    (tmp_path / "bundle.json").write_text(json.dumps(described))
    (tmp_path / "results.xz").write_bytes(lzma.compress(b""))
    facts = {"bundle": "one", "failed": {}, "gpu": "none", "driver": "1", "date": "later"}
    (tmp_path / "results.json").write_text(json.dumps(facts))
    assert bundle.keep(tmp_path, tmp_path, kept) is kept
    (tmp_path / "results.json").write_text(json.dumps(facts | {"driver": "2"}))
    with pytest.raises(ValueError, match="another machine or compiler"):
        bundle.keep(tmp_path, tmp_path, kept)


def _verdicts(form: Form, mine: int, theirs: int) -> set[Verdict]:
    """Of a form whose results are the same in all threads."""
    pair = (np.full((256, 1), number, np.uint64) for number in (theirs, mine))
    return set(Comparison(form, *pair).verdicts())


def test_one_bit_makes_a_difference_and_the_report_shows_it():
    assert _verdicts(ADDITION, 0x3F800000, 0x3F800001) == {Verdict.DIFFERENT}
    report = Report({"gpu": "G", "driver": "1", "compiler": "C", "target": "T", "date": "D"})
    gpu, mine = (np.full((256, 1), number, np.uint64) for number in (5, 4))
    report.add(Comparison(ADDITION, gpu, mine))
    report.leave_out([REFUSED], "not recorded")
    assert report.verdicts == {Verdict.DIFFERENT: 256}
    assert "thread 0" in report.text()
    assert "simulator 0x4, GPU 0x5" in report.text()
    assert "1 forms not run: not recorded" in report.text()


def test_payloads_of_nan_may_differ_but_not_whether_it_is_one():
    assert _verdicts(ADDITION, 0x7FC00000, 0x7FFFFFFF) == {Verdict.NAN}
    assert _verdicts(ADDITION, 0x7F800000, 0x7FFFFFFF) == {Verdict.DIFFERENT}
    pair = Form("add.f16x2 {d:f16x2}, {a:f16x2}, {b:f16x2};")
    assert _verdicts(pair, 0x7E003C00, 0x7FFF3C00) == {Verdict.NAN}
    assert _verdicts(pair, 0x7E003C00, 0x7FFF3C01) == {Verdict.DIFFERENT}


def test_an_error_is_allowed_up_to_what_is_documented():
    root = Form("sqrt.approx.f32 {d:f32}, {a:f32@normal};")
    given = operands(root)[:, 0].astype(np.uint32).view(np.float32)
    exact = np.sqrt(np.abs(given)).view(np.uint32).astype(np.uint64)[:, None]
    positive = given > 0
    for units, verdict in ((1, Verdict.WITHIN), (3, Verdict.DIFFERENT)):
        found = Comparison(root, exact + np.uint64(units), exact).verdicts()
        assert {v for v, sure in zip(found, positive, strict=True) if sure} == {verdict}
    assert _verdicts(Form("sqrt.rn.f32 {d:f32}, {a:f32};"), 0x3F800000, 0x3F800001) == {Verdict.DIFFERENT}


def test_only_what_the_isa_leaves_open_is_left_out():
    division = Form("div.u32 {d:u32}, {a:u32}, {b:u32};")
    zero = operands(division)[:, 1] == 0
    assert zero.any()
    different = (np.zeros((256, 1), np.uint64), np.ones((256, 1), np.uint64))
    verdicts = Comparison(division, *different).verdicts()
    assert [v is Verdict.UNDEFINED for v in verdicts] == zero.tolist()
    report = Report({"gpu": "G", "driver": "1", "compiler": "C", "target": "T", "date": "D"})
    report.add(Comparison(division, *different))
    assert f"{zero.sum()} of these undefined: PTX ISA 9.7.1: division by zero" in report.text()


def test_what_the_simulator_lacks_is_told_from_what_it_runs():
    lacking = Form("tanh.rn.f32 {d:f32}, {a:f32};")
    runs, lacks = simulation.known([ADDITION, lacking])
    assert runs == [ADDITION]
    assert "tanh.rn.f32" in lacks[lacking]
