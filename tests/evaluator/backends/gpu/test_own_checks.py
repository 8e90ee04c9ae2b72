"""The referee's own device code, run on the simulator, against array code: memory bit for bit, errors as they are."""

import contextlib
import math

import pytest
import torch
from host_checks import HostDevice
from simulated_checks import RealDevice, SimulatedDevice

from evaluator.backends.gpu.checks import Compared, DeviceChecks, Stretch
from evaluator.backends.gpu.tensors import TorchRng
from evaluator.problems.arrays import cast
from evaluator.problems.catalogue import problems
from evaluator.problems.problem import Expected, Tolerance
from evaluator.stages.verify.comparison import SURELY_RIGHT, _judge, is_poison

WORD = 0x1122334455667788


@pytest.fixture(scope="module")
def simulated(toolbox):
    with contextlib.closing(SimulatedDevice(toolbox.simulator)) as device:
        yield device


@pytest.fixture(scope="module")
def real():
    return RealDevice()


@pytest.fixture(params=["simulator", "host", pytest.param("gpu", marks=pytest.mark.gpu)])
def checks(request):
    """The device code as it is, and the stand-in for it that tests of sessions have."""
    if request.param == "gpu":
        return DeviceChecks(request.getfixturevalue("real"))
    if request.param == "host":
        return DeviceChecks(HostDevice())
    device = request.getfixturevalue("simulated")
    device.renew()  # its process has so much time for all that it does
    return DeviceChecks(device)


def words(start, end):
    """What `fill` leaves from one address to another, both from a multiple of eight."""
    pattern = torch.frombuffer(bytearray(WORD.to_bytes(8, "little") * (end // 8 + 2)), dtype=torch.uint8)
    return pattern[start:end]


STRETCHES = [(0, 64), (3, 4), (7, 9), (5, 300), (16, 17), (1, 2000), (32, 8192)]


@pytest.mark.parametrize(("start", "end"), STRETCHES)
def test_fills_and_copies_are_of_those_bytes_alone(checks, start, end):
    memory, source = torch.arange(8300) % 251, torch.arange(9000) % 241
    memory, source = memory.to(torch.uint8), source.to(torch.uint8)
    for shift in (0, 1, 16):
        for made, wanted in (
            (Stretch.fill(memory[start:end], WORD), words(start, end)),
            (
                Stretch.copy(memory[start:end], source[shift : shift + end - start]),
                source[shift : shift + end - start],
            ),
        ):
            before = memory.clone()
            checks.write([made])
            assert torch.equal(memory[start:end], wanted)
            assert torch.equal(memory[:start], before[:start])
            assert torch.equal(memory[end:], before[end:])


@pytest.mark.parametrize(("start", "end"), STRETCHES)
def test_one_changed_bit_anywhere_is_found(checks, start, end):
    memory, other = torch.zeros(8300, dtype=torch.uint8), torch.arange(8300).to(torch.uint8)
    checks.write([Stretch.fill(memory[start:end], WORD)])
    near = other.clone()
    asked = [Stretch.holds(memory[start:end], WORD), Stretch.same(other[start:end], near[start:end])]
    assert checks.look(asked, {}) == ([False, False], {})
    for place in {start, (start + end) // 2, end - 1}:
        memory[place] ^= 1 << place % 8
        near[place] ^= 128
        assert checks.look(asked, {})[0] == [True, True], place
        memory[place] ^= 1 << place % 8
        near[place] ^= 128
    for place in (start - 1, end):  # outside
        if place >= 0:
            memory[place], near[place] = 9, 9
    assert checks.look(asked, {})[0] == [False, False]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("poison", [0xFF, 0x5B])
def test_poison_is_an_element_of_that_byte_alone(checks, dtype, poison):
    elements = torch.zeros(777, dtype=dtype)
    memory, item = elements.view(torch.uint8), elements.itemsize
    looks = [Stretch.poisoned(memory, poison, item)]
    memory[5 * item : 6 * item - 1] = poison  # all but one byte
    if item > 1:
        memory[8 * item - 1 : 9 * item - 2] = poison  # as many bytes, of two elements
        assert checks.look(looks, {})[0] == [bool(is_poison(elements, poison).any())] == [False]
    for place in (0, 400, 776):
        kept = memory[place * item : (place + 1) * item].clone()
        memory[place * item : (place + 1) * item] = poison
        assert checks.look(looks, {})[0] == [bool(is_poison(elements, poison).any())] == [True]
        memory[place * item : (place + 1) * item] = kept


def test_many_stretches_are_written_and_looked_at_in_several_launches(checks):
    memory = torch.zeros(100 * 32, dtype=torch.uint8)
    parts = list(memory.split(32))
    checks.write([Stretch.fill(part, WORD) for part in parts])
    assert torch.equal(memory, words(0, 3200))
    assert not checks.can_look(257, 1)
    held, after = [Stretch.holds(part, WORD) for part in parts], torch.zeros(64, dtype=torch.uint8)
    for changed, kept in (((17, 99), 100), ((17, 99), 17), ((99,), 100), ((99,), 99)):
        memory.copy_(words(0, 3200))
        for number in changed:
            memory[32 * number + 31] ^= 1
        after[:] = 0
        found, _ = checks.look(held, {}, [Stretch.fill(after, WORD)], kept)
        assert [number for number, flag in enumerate(found) if flag] == list(changed)
        assert torch.equal(after, words(0, 64)) is (changed[0] >= kept)


@pytest.mark.parametrize("broken", [None, 0, 1, 2])
def test_what_follows_is_written_where_nothing_was_found_before(checks, broken):
    """Of the first two stretches: a third one that was found keeps nothing from being written."""
    memory, source = torch.zeros(70 * 32, dtype=torch.uint8), (torch.arange(70 * 32) % 251).to(torch.uint8)
    parts, sources = list(memory.split(32)), list(source.split(32))
    checks.write([Stretch.fill(part, WORD) for part in parts[:3]])
    if broken is not None:
        parts[broken][5] ^= 1
    then = [Stretch.copy(part, given) for part, given in zip(parts[3:], sources[3:], strict=True)]
    found, _ = checks.look([Stretch.holds(part, WORD) for part in parts[:3]], {}, then, 2)
    assert found == [number == broken for number in range(3)]
    assert torch.equal(memory[96:], torch.zeros_like(memory[96:]) if broken in (0, 1) else source[96:])


def worst_of(checks, actual, expected, tolerance):
    """By both; None where the device code does not know how."""
    wanted = _judge(actual, expected, tolerance).worst
    _, worst = checks.look([], {"y": Compared(actual, expected, tolerance)})
    return None if worst is None else worst["y"], wanted


CASES = [(problem, index) for problem in problems().values() for index in range(len(problem.every_distribution))]


@pytest.mark.parametrize(
    ("problem", "index"), CASES, ids=[f"{p.id}-{p.every_distribution[i].name}-{i}" for p, i in CASES]
)
def test_errors_are_those_of_array_code_on_every_problem(checks, problem, index):
    """Right answers, answers off by shares of what is allowed, and by more: all as array code says, to the bit."""
    rng = TorchRng(index, "cpu")
    sizes = problem.example_sizes[0]
    probes = (*problem.probes, *problem.edge_probes)
    chosen = problem.every_distribution[index]
    tolerance = next((p.tolerance for p in probes if p.distribution is chosen), problem.tolerance)
    inputs = chosen.draw(rng, sizes)
    for name, expected in problem.oracle(inputs, sizes).items():
        tensor = next(one for one in problem.outputs if one.name == name)
        shape = tensor.shape_at(sizes)
        allowed = torch.as_tensor(tolerance.allowed(expected), dtype=torch.float64)
        for share in (0.0, 0.5, 1.5):
            off = share * allowed * rng.signs(shape) if tensor.dtype.is_float else torch.zeros(shape)
            actual = cast(torch.broadcast_to(expected.value, shape) + off, tensor.dtype)
            found, wanted = worst_of(checks, actual, expected, tolerance)
            assert found == wanted or (math.isnan(found) and math.isnan(wanted))
        actual.view(-1)[-1] += 1
        found, wanted = worst_of(checks, actual, expected, tolerance)
        assert found == wanted


ONE = Tolerance(2.0**-20, 0.0, "")


@pytest.mark.parametrize("value", [math.nan, -math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_what_is_not_finite_is_never_surely_right(checks, value, dtype):
    actual = torch.ones(700, dtype=dtype)
    actual[699] = value
    expected = Expected(torch.ones(700, dtype=torch.float64), torch.ones(700, dtype=torch.float64))
    found, wanted = worst_of(checks, actual, expected, ONE)
    assert not found < SURELY_RIGHT
    assert not wanted < SURELY_RIGHT
    infinite = Expected(torch.full((700,), math.inf, dtype=torch.float64), torch.ones(700, dtype=torch.float64))
    assert not worst_of(checks, actual, infinite, ONE)[0] < SURELY_RIGHT


@pytest.mark.parametrize("part", ["scale", "relative", "longer", "beyond"])
def test_a_nan_in_an_allowance_is_never_surely_right(checks, part):
    full = torch.ones(40, dtype=torch.float64)
    terms = {"scale": full, "relative": full, "longer": full, "beyond": full}
    terms[part] = torch.where(torch.arange(40) == 7, math.nan, full)
    found, wanted = worst_of(checks, full.clone(), Expected(full, **terms), ONE)
    assert math.isnan(found)
    assert math.isnan(wanted)


def test_what_is_broadcast_and_what_is_not_contiguous(checks):
    generator = torch.Generator().manual_seed(3)
    value = torch.randn((6, 5, 7), generator=generator, dtype=torch.float64)
    actual = value.to(torch.float32)
    rows = torch.rand((6, 1, 7), generator=generator, dtype=torch.float64)
    expected = Expected(value.mT.contiguous().mT, rows, rows[:, :, :1] * 1e-7, torch.tensor(3.0, dtype=torch.float64))
    found, wanted = worst_of(checks, actual, expected, ONE)
    assert found == wanted > 0
    six = Expected(value.reshape(1, 6, 1, 5, 7), rows[None, :, None])
    assert worst_of(checks, actual.reshape(1, 6, 1, 5, 7), six, ONE)[0] is None  # five axes, one of them broadcast


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_whole_numbers_are_compared_as_such(checks, dtype):
    wanted = torch.arange(100)
    expected, exact = Expected(wanted, 0 * wanted), Tolerance(0.0, 0.0, "")
    assert worst_of(checks, wanted.to(dtype), expected, exact) == (0.0, 0.0)
    actual = wanted.to(dtype).clone()
    actual[99] -= 1
    found, array = worst_of(checks, actual, expected, exact)
    assert found == array > 1
    large = torch.full((3,), (1 << 53) + 1)  # no float64
    near = Expected(large - 1, 0 * large)
    found, array = worst_of(checks, large, near, exact)
    assert found == array > 1


def test_what_the_kernel_does_not_know_is_left_to_array_code(checks):
    one = torch.ones(4, dtype=torch.float64)
    strange = [
        (torch.ones(4, dtype=torch.complex64), Expected(one, one)),
        (torch.ones(4), Expected(one.to(torch.float32), one)),
        (torch.ones(4), Expected(one, one.to(torch.float32))),
        (torch.ones(8)[::2], Expected(one, one)),
        (torch.ones(4, dtype=torch.int32), Expected(one.to(torch.int64), one.to(torch.int64), 1.0)),
        (torch.ones(0), Expected(one[:0], one[:0])),
    ]
    for actual, expected in strange:
        tolerance = Tolerance(1.0, 0.0, "")
        assert checks.look([], {"y": Compared(actual, expected, tolerance)})[1] is None


def test_a_device_is_tried_before_it_is_trusted(checks, monkeypatch):
    memory = (torch.arange(4096) % 251).to(torch.uint8)
    values = torch.linspace(-3.0, 5.0, 1000, dtype=torch.float64)
    assert checks.works(memory, values)
    monkeypatch.setattr(checks._device, "launch", lambda *launch: None)
    assert not checks.works(memory, values)
