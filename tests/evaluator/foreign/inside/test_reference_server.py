"""What is told of a file, and what is refused, without a sandbox."""

import math

import pytest
import torch

from evaluator.foreign.inside.arithmetic import CallRoom
from evaluator.foreign.inside.by_shapes import known_by_shapes
from evaluator.foreign.inside.kernelbench import KernelBenchFile
from evaluator.foreign.inside.refusals import RefusedError, TooLargeError
from evaluator.foreign.inside.server import ReferenceServer

HEAD = "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
INPUTS = "def get_inputs():\n    return [torch.randn(4, 6)]\n"
LARGE = INPUTS.replace("4, 6", "512, 1024")
INIT = "def get_init_inputs():\n    return []\n"


def server(body: str, inputs: str = INPUTS, init: str = INIT, arguments: str = "self, x") -> ReferenceServer:
    return ReferenceServer(f"{HEAD}    def forward({arguments}):\n        {body}\n{inputs}{init}", 1 << 20)


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("x = (", "not Python", 1),
        ("import no_such_module.deeper", "it imports `no_such_module`, which is not installed beside Assay", 1),
        ("import torch", "no class `Model`, and defines nothing", None),
        (f"class Net:\n    pass\n{INPUTS}", "and defines `Net` in line 1, `get_inputs` in line 3", None),
        ("Model = 3", "no torch.nn.Module", None),
        (f"{HEAD}    pass\n{INIT}", "no function `get_inputs`", None),
        (f"{HEAD}    pass\n{INPUTS}def get_init_inputs():\n    raise SystemExit", "making the Model fails", 8),
        (f"{HEAD}    def forward(self, x):\n        pass\n{INPUTS}", "returns nothing", None),
        (f"{HEAD}    def forward(self, x):\n        return 3\n{INPUTS}", "returns a int", None),
        (f"{HEAD}    def forward(self, x):\n        return x @ x\n{INPUTS}", "forward fails: RuntimeError", 5),
        (f"{HEAD}    def forward(self, x):\n        return x + torch.rand(4, 6)\n{INPUTS}", "random numbers", 5),
        (f"{HEAD}    n = 0\n    def forward(self, x):\n        self.n += 1\n        return x + self.n\n{INPUTS}",
         "another answer with each call", None),
        (f"{HEAD}    def forward(self, x):\n        return x.to(torch.float8_e5m2)\n{INPUTS}", "is float8", None),
        (f"{HEAD}    def forward(self, x, y):\n        return x\n{INPUTS}", "missing a required argument", None),
        (f"import torch\ntorch.relu = abs\n{HEAD}    pass\n{INPUTS}", "it changes torch.relu", None),
        (f"{HEAD}    def forward(self, x):\n        return x\n{LARGE}", "may take 1,048,576 here", 7),
    ],
)  # fmt: skip
def test_refusals_name_the_reason_and_the_line(
    text: str, reason: str, line: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "relu", torch.relu)  # put back what a file changes
    with pytest.raises(RefusedError) as refused:
        ReferenceServer(text, 1 << 20).describe()
    assert reason in refused.value.reason
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("made", "draw"),
    [
        ("torch.rand(4, 6)", {"kind": "uniform", "low": 0.0, "high": 1.0}),
        ("2 - torch.rand(4, 6) * 3", {"kind": "uniform", "low": -1.0, "high": 2.0}),
        ("torch.randn(24).reshape(4, 6) / 2 + 1", {"kind": "normal", "mean": 1.0, "std": 0.5}),
        ("torch.empty(4, 6).uniform_(-2, 5)", {"kind": "uniform", "low": -2.0, "high": 5.0}),
        ("torch.randint(3, 9, (4, 6)).float()", {"kind": "integers", "low": 3, "high": 8}),
        ("torch.randperm(6)", {"kind": "permutation"}),
        ("torch.rand(4, 6).softmax(-1)", {"kind": "called"}),
        ("torch.rand(4, 6) > 0.5", {"kind": "called"}),
    ],
)
def test_draws_are_seen(made: str, draw: dict[str, object]) -> None:
    told = server("return x * 2.0", f"def get_inputs():\n    return [{made}]\n").describe()
    assert told["inputs"][0]["draw"] == draw


@pytest.mark.parametrize(
    "mask",
    [
        "torch.arange(9)[None, :] < lengths[:, None]",
        "torch.stack([torch.arange(9) < int(length) for length in lengths])",
        "torch.bernoulli((lengths / 9)[:, None].expand(5, 9))",
    ],
)
def test_inputs_of_which_one_is_made_of_the_other_are_drawn_together(mask: str) -> None:
    inputs = (
        f"def get_inputs():\n    lengths = torch.randint(1, 10, (5,))\n    mask = {mask}\n"
        "    return [torch.randn(5, 9), lengths, mask, torch.rand(5, 9)]\n"
    )
    told = server("return (x * mask + y).sum(1) / lengths", inputs, arguments="self, x, lengths, mask, y").describe()
    assert [one["draw"]["kind"] for one in told["inputs"]] == ["normal", "called", "called", "uniform"]


@pytest.mark.parametrize("change", ["x[:, 0] = 1.0", "x.diagonal().add_(9.0)", "x[0].copy_(x[1])", "x[1:].relu_()"])
def test_what_a_part_is_written_into_only_the_file_can_make(change: str) -> None:
    inputs = f"def get_inputs():\n    x = torch.randn(6, 6)\n    {change}\n    return [x]\n"
    assert server("return x * 2.0", inputs).describe()["inputs"][0]["draw"] == {"kind": "called"}


def test_inputs_that_forward_changes_in_place_are_told() -> None:
    inputs = "def get_inputs():\n    return [torch.rand(4, 6), torch.rand(4, 6), torch.rand(4, 6)]\n"
    told = server("x[0].relu_(); y = y + z; return x * y", inputs, arguments="self, x, y, z").describe()
    assert [one.get("changed", False) for one in told["inputs"]] == [True, False, False]


def test_numbers_that_a_file_states_in_any_way_are_sizes() -> None:
    text = (
        "N = 2 * 1024\nshape = (3, 1 << 2)\nH = W = 5\nD, K = 6, 7\ntwice = N * 2\nagain = 1\nagain = 2\n"
        f"{HEAD}    def forward(self, x, y):\n        return x.sum() + y\n{INIT}"
        "def get_inputs():\n    return [torch.rand(*shape, H, W), torch.rand(N, D, K)]\n"
    )
    told = ReferenceServer(text, 1 << 20).describe()
    stated = {"N": 2048, "H": 5, "W": 5, "D": 6, "K": 7, "twice": 4096, "again": 2, "shape_0": 3, "shape_1": 4}
    assert told["sizes"] == stated
    assert told["constants"] == ["N", "H", "D", "K", "shape_0", "shape_1"]
    less = ReferenceServer(text, 1 << 20, {"N": 8, "shape_1": 2, "H": 4}).describe()
    assert [one["shape"] for one in less["inputs"]] == [[3, 2, 4, 4], [8, 6, 7]]
    assert less["sizes"] == stated | {"N": 8, "twice": 16, "shape_1": 2, "H": 4, "W": 4}


def test_a_product_without_end_is_not_begun() -> None:
    inputs = "def get_inputs():\n    return [torch.rand(1 << 17, 1), torch.rand(1, 1 << 17)]\n"
    with pytest.raises(RefusedError, match=r"its products take 68,719,476,736 bytes, and may") as refused:
        server("return (x @ y).sum()", inputs, arguments="self, x, y").describe()
    assert refused.value.line == 5


def test_names_of_all_kinds_of_arguments() -> None:
    inputs = (
        "def get_inputs():\n    a, b, c = torch.rand(3, 1, 2).unbind()\n"
        "    return [[a, [b, 2]], {'scale': 3, 'c': c}]\n"
    )
    told = server("return {'y': x + more[0] * scale, 'z': (c > 0.5,)}", inputs, arguments="self, x, more, scale, c")
    assert [one["name"] for one in told.describe()["inputs"]] == ["x", "more_0", "c"]
    outputs = told.describe()["outputs"]
    assert [(one["name"], one["dtype"], one["shape"]) for one in outputs] == [
        ("out_0", "float32", [1, 2]),
        ("out_1", "uint8", [1, 2]),
    ]


def test_buffers_that_are_only_written_are_no_inputs() -> None:
    text = (
        f"{HEAD}    def __init__(self):\n        super().__init__()\n        self.norm = nn.BatchNorm1d(6)\n"
        f"        self.register_buffer('factor', torch.arange(6.0))\n    def forward(self, x):\n"
        f"        return self.norm(x) * self.factor\n{INPUTS}"
    )
    told = ReferenceServer(text, 1 << 20).describe()
    assert [(one["name"], one["kind"]) for one in told["inputs"]] == [
        ("x", "argument"),
        ("norm_weight", "parameter"),
        ("norm_bias", "parameter"),
        ("factor", "buffer"),
    ]


def test_the_answer_is_in_float64_also_where_the_file_asks_for_less() -> None:
    here = server("return (x.to(torch.float32) * torch.full((6,), 3.0, dtype=torch.float16)).float().sum(-1)")
    x = torch.randn(4, 6)
    values, _ = here.answered({"x": x})
    assert torch.equal(values[0], (x.double() * 3.0).sum(-1))


def test_the_scale_of_a_sum_of_products_is_the_norm_of_its_terms() -> None:
    inputs = "def get_inputs():\n    return [torch.rand(40, 100), torch.rand(100, 50)]\n"
    here = server("return x @ y", inputs, arguments="self, x, y")
    x, y = torch.randn(40, 100), torch.randn(100, 50)
    x[:, 50:], y[50:] = -x[:, :50], y[:50]  # everything cancels
    values, scales = here.answered({"x": x, "y": y})
    norm = torch.sqrt((x.double() ** 2) @ (y.double() ** 2))
    assert float(values[0].abs().max()) < 1e-12
    # Both factors are moved, and it is known from eight runs.
    ratio = scales[0] / norm
    assert 1.3 < float(ratio.square().mean().sqrt()) < 1.5
    assert float(ratio.min()) > 0.2


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_what_cancels_inside_one_operator_stays_in_its_scale(approximate: str) -> None:
    """GELU far below 0 is `1 + erf` times x: nearly nothing, of terms near 1."""
    x = torch.linspace(-6.0, -3.0, 1024)
    here = server(f"return nn.functional.gelu(x, approximate='{approximate}')", INPUTS.replace("4, 6", "1024"))
    values, scales = here.answered({"x": x})
    single = torch.nn.functional.gelu(x, approximate=approximate)
    assert torch.all(values[0].abs() < 0.005)
    assert torch.all(scales[0] > 0.1 * x.abs())
    assert float((scales[0] / x.abs()).mean()) > 0.4
    assert torch.all(scales[0] < 8.0 * x.abs())
    # Each scale is known from eight runs. PyTorch's erf erred by 9.6 on one processor, and by less than 8 on others.
    assert torch.all((single - values[0]).abs() < 16 * 2.0**-24 * scales[0])


TEXTBOOK = {
    "nn.functional.softplus(x)": "torch.log(1 + torch.exp(x))",
    "nn.functional.softplus(x, 4.0)": "torch.log(1 + torch.exp(4 * x)) / 4",
    "nn.functional.mish(x)": "x * torch.tanh(torch.log(1 + torch.exp(x)))",
    "nn.functional.mish(x.clone(), inplace=True)": "x * torch.tanh(torch.log(1 + torch.exp(x)))",
    "nn.functional.logsigmoid(x)": "torch.log(1 / (1 + torch.exp(-x)))",
    "torch.log1p(x * x)": "torch.log(1 + x * x)",
    "torch.expm1(x)": "torch.exp(x) - 1",
    "nn.functional.elu(x, 0.5)": "torch.where(x > 0, x, 0.5 * (torch.exp(x) - 1))",
    "nn.functional.elu(x.clone(), inplace=True)": "torch.where(x > 0, x, torch.exp(x) - 1)",
    "nn.functional.selu(x)": "1.0507010 * torch.where(x > 0, x, 1.6732632 * (torch.exp(x) - 1))",
    "nn.functional.celu(x, 0.5)": "torch.where(x > 0, x, 0.5 * (torch.exp(x / 0.5) - 1))",
    "torch.tanh(x)": "1 - 2 / (torch.exp(2 * x) + 1)",
    "torch.sinh(x)": "(torch.exp(x) - torch.exp(-x)) / 2",
    "torch.asinh(x)": "torch.sign(x) * torch.log(x.abs() + torch.sqrt(x * x + 1))",
    "torch.atanh(x / 16)": "0.5 * torch.log((1 + x / 16) / (1 - x / 16))",
    "torch.logsumexp(x - 2, 1)": "torch.log(torch.exp(x - 2).sum(1))",
    "torch.log_softmax(x * 4, 1)": "torch.log(torch.exp(x * 4) / torch.exp(x * 4).sum(1, keepdim=True))",
    "torch.logaddexp(x, -x - 1)": "torch.log(torch.exp(x) + torch.exp(-x - 1))",
    "torch.var(x, 1)": "((x * x).mean(1) - x.mean(1) ** 2) * 6 / 5",
    "torch.var_mean(x, correction=0)": "(x * x).mean() - x.mean() ** 2",
    "torch.std(x, 1)": "torch.sqrt((((x * x).mean(1) - x.mean(1) ** 2) * 6 / 5).clamp(0))",
}


@pytest.mark.parametrize("operator", TEXTBOOK)
def test_formulas_of_textbooks_are_within_what_is_allowed_and_tf32_is_not(operator: str) -> None:
    """Of operators in which terms cancel: far below 0, near 0, for rows of nearly one value."""
    here = server(f"return {operator}", INPUTS.replace("4, 6", "4096, 6"))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4096, 6, generator=generator) * torch.tensor([4.0, 2.0, 1.0, 0.1, 0.01, 1e-4])
    x[1::2] = x[1::2, :1] * (1 + 1e-4 * x[1::2])
    values, scales = here.answered({"x": x})

    def worst(found: torch.Tensor) -> float:
        return float(((found.reshape(values[0].shape) - values[0]).abs() / (scales[0] * 2.0**-24 + 1e-38)).max())

    textbook = eval(TEXTBOOK[operator], {"torch": torch, "x": x})
    assert worst(textbook) < 20.0
    assert worst(here.computed({"x": x}, "eager")[0]) < 20.0
    assert worst(here.computed({"x": x}, "TF32")[0]) > 100.0


def test_two_terms_that_cancel_keep_their_scale() -> None:
    inputs = "def get_inputs():\n    return [torch.rand(200, 100), torch.rand(200, 100)]\n"
    here = server("return x + y", inputs, arguments="self, x, y")
    x = torch.ones(200, 100)
    _, scales = here.answered({"x": x, "y": -x})
    # Moves of one size would cancel in all eight runs for one element in 256.
    assert float(scales[0].min()) > 0.1
    assert 1.3 < float(scales[0].square().mean().sqrt()) < 1.5


def test_a_buffer_of_one_value_is_drawn_as_a_parameter_and_a_table_is_not() -> None:
    text = (
        f"{HEAD}    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('mean', torch.zeros(6))\n"
        "        self.register_buffer('table', torch.arange(6.0))\n"
        f"    def forward(self, x):\n        return (x - self.mean) * self.table\n{INPUTS}{INIT}"
    )
    draws = {one["name"]: one["draw"]["kind"] for one in ReferenceServer(text, 1 << 20).describe()["inputs"]}
    assert draws == {"x": "normal", "mean": "uniform", "table": "called"}


def test_lower_precisions_and_orders_are_what_they_are_called() -> None:
    inputs = "def get_inputs():\n    return [torch.rand(8, 300), torch.rand(300, 5)]\n"
    here = server("return x @ y", inputs, arguments="self, x, y")
    x, y = torch.rand(8, 300), torch.rand(300, 5)
    given = {"x": x, "y": y}
    one_by_one = torch.zeros(8, 5)
    for k in range(300):
        one_by_one = one_by_one + x[:, k : k + 1] * y[k : k + 1]
    assert torch.equal(here.computed(given, "one accumulator")[0], one_by_one)
    assert torch.allclose(here.computed(given, "permuted 1")[0], x @ y, rtol=1e-5)
    rounded = (x.bfloat16().float() @ y.bfloat16().float()).bfloat16().float()
    assert torch.equal(here.computed(given, "bfloat16")[0], rounded)
    tf32 = here.computed(given, "TF32")[0]
    assert bool(((tf32.view(torch.int32) & 0x1FFF) == 0).all())
    assert torch.allclose(tf32, x @ y, rtol=2e-3)


def test_constants_are_what_the_file_assigns_once_as_a_number() -> None:
    inputs = (
        "n = 4\nw: int = 7\ngröße = 8\n"
        "m = n + 2\nk = 3\nk = k + 1\nname = 'n'\ng = 5\ndef other():\n    global g\n    g = 6\n"
        "def get_inputs():\n    return [torch.randn(n, m)]\n"
    )
    text = f"{HEAD}    def forward(self, x):\n        n, m = x.shape\n        return x * n\n{inputs}"
    told = ReferenceServer(text, 1 << 20, {"n": 9}).describe()
    assert told["sizes"] == {"n": 9, "w": 7, "m": 11, "k": 4, "g": 5}
    assert told["constants"] == ["n", "w"]
    assert told["inputs"][0]["shape"] == told["outputs"][0]["shape"] == [9, 11]


def test_a_batch_norm_in_training_is_computed() -> None:
    text = (
        f"{HEAD}    def __init__(self):\n        super().__init__()\n        self.norm = nn.BatchNorm1d(6)\n"
        f"    def forward(self, x):\n        return self.norm(x)\n{INPUTS}"
    )
    batch_norm = ReferenceServer(text, 1 << 20)
    assert [one["name"] for one in batch_norm.describe()["inputs"]] == ["x", "norm_weight", "norm_bias"]
    given = {"x": torch.randn(4, 6), "norm_weight": torch.ones(6), "norm_bias": torch.zeros(6)}
    (exact,), _ = batch_norm.answered(given)
    assert torch.allclose(exact.mean(0), torch.zeros(6, dtype=torch.float64), atol=1e-9)
    (eager,) = batch_norm.computed(given, "eager")
    assert torch.allclose(eager.double(), exact, atol=1e-5)


NETWORK = f"""{HEAD}    def __init__(self, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(64 * 20 * 20, classes)
        self.norms = nn.ModuleList(nn.BatchNorm1d(classes) for _ in range(20))
    def forward(self, x):
        y = self.head(self.layers(x))
        for norm in self.norms:
            y = norm(y)
        return y
classes = 24
def get_inputs():
    return [torch.rand(16, 3, 40, 40)]
def get_init_inputs():
    return [classes]
"""


def test_numbers_without_a_name_are_made_smaller_together() -> None:
    file = KernelBenchFile(NETWORK)
    shares = {name: place.value for name, place in file.constants.items() if name not in file.sizes}
    assert shares == {"largest_in_model": 25600, "largest_in_inputs": 40}
    less = KernelBenchFile(NETWORK, {"largest_in_model": 6400})
    assert less.sizes == {"classes": 24, "largest_in_model": 6400}
    weights = {name: tuple(one.shape) for name, one in less.model(0).named_parameters()}
    assert weights["layers.0.weight"] == (16, 3, 3, 3)
    assert weights["head.weight"] == (24, 6400)
    told = ReferenceServer(NETWORK, 1 << 24, {"largest_in_model": 3200}).describe()
    assert told["constants"] == ["classes"]
    with pytest.raises(RefusedError, match="not made smaller than by eight"):
        KernelBenchFile(NETWORK, {"largest_in_model": 1600})


def test_what_has_a_name_is_not_made_smaller_without_it() -> None:
    named = NETWORK.replace("classes = 24", "classes = 64")
    assert "largest_in_model" in KernelBenchFile(named).constants
    less = KernelBenchFile(named, {"largest_in_model": 6400}).model(0)
    assert less.layers[0].weight.shape[0] == 64  # type: ignore[index, union-attr]  # of its Sequential


def test_what_a_call_takes_is_known_before_it_is_carried_out() -> None:
    """The file would take 40 GB and hours."""
    large = NETWORK.replace("[torch.rand(16, 3, 40, 40)]", "[torch.rand(200000, 3, 40, 40)]")
    room = CallRoom(1 << 40, 1 << 40, 1 << 40, 1 << 32)
    with pytest.raises(TooLargeError, match=r"sums and products take .* operations"):
        known_by_shapes(lambda: KernelBenchFile(large), room, 1)
    with pytest.raises(TooLargeError, match=r"inputs and parameters take .* bytes"):
        known_by_shapes(lambda: KernelBenchFile(large), CallRoom(1 << 26, 1 << 40, 1 << 40, 1 << 62), 1)
    small = known_by_shapes(lambda: KernelBenchFile(NETWORK), room, 1)
    assert not small.failed
    assert small.operations == pytest.approx(ReferenceServer(NETWORK, 1 << 24).describe()["flops"], rel=0.1)


def test_a_loop_of_many_operators_is_not_judged_and_one_that_waits_is() -> None:
    room = 1 << 32
    loop = "for _ in range(3000):\n            x = x * 0.999\n        return x\n"
    long = f"{HEAD}    def forward(self, x):\n        {loop}{INPUTS}"
    with pytest.raises(TooLargeError, match="2,001 operators"):
        ReferenceServer(long, 1 << 20).describe(most_work=room)
    assert ReferenceServer(long, 1 << 20).describe()["operators"] == 3000
    waits = long.replace("x = x * 0.999", "x = x * 0.999 if x[0, 0].item() else x")
    assert ReferenceServer(waits, 1 << 20).describe(most_work=room)["operators"] >= 3000


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        ("return x @ x", "forward fails: RuntimeError"),
        ("return x * x.sum().item()", ""),
        ("return x * torch.linspace(0, 1, 3)[1].item()", ""),
        ("while x.sum() > 0:\n            x = x - 1\n        return x", "it hangs on contents"),
    ],
)
def test_shapes_alone_say_why_they_do_not_fit(body: str, failed: str) -> None:
    text = f"{HEAD}    def forward(self, x):\n        {body}\n{INPUTS}"
    found = known_by_shapes(lambda: KernelBenchFile(text), CallRoom(1 << 20, 1 << 20, 1 << 20, 1 << 32), 1)
    assert failed in found.failed
    assert bool(found.failed) == bool(failed)


def test_what_is_recurrent_without_end_is_not_begun() -> None:
    text = (
        f"{HEAD}    def __init__(self):\n        super().__init__()\n        self.cells = nn.LSTM(6, 5, 2)\n"
        f"    def forward(self, x):\n        return self.cells(x)[0]\n{INPUTS.replace('4, 6', '3000, 4, 6')}"
    )
    room = CallRoom(1 << 30, 1 << 30, 1 << 30, 1 << 32)
    with pytest.raises(TooLargeError, match="2,001 operators"):
        known_by_shapes(lambda: KernelBenchFile(text), room, 1)
    short = text.replace("3000", "30")
    least = known_by_shapes(lambda: KernelBenchFile(short), room, 1).operations
    # To the processor it is one operator, which says nothing of the products in it.
    server = ReferenceServer(short, 1 << 20)
    assert server.describe(least)["flops"] == least > 4 * server.describe()["flops"]


def test_buffers_that_do_not_matter_are_asked_about_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    before = ReferenceServer._call

    def counted(*args: object) -> object:
        nonlocal calls
        calls += 1
        return before(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ReferenceServer, "_call", counted)
    told = ReferenceServer(NETWORK, 1 << 24).describe()
    assert not [one for one in told["inputs"] if one["kind"] == "buffer"]
    # Twice for the answer, once for 60 buffers, and twice for what hangs on the input.
    assert calls == 5
    evaluated = NETWORK.replace("        for norm", "        self.norms[19].eval()\n        for norm")
    told = ReferenceServer(evaluated, 1 << 24).describe()
    used = [one["name"] for one in told["inputs"] if one["kind"] == "buffer"]
    assert used == ["norms_19_running_mean", "norms_19_running_var"]


def test_a_tensor_that_a_module_keeps_is_a_buffer() -> None:
    """Nobody could know what a kernel is to compute with a state that it is not given."""
    kept = (
        f"{HEAD}    def __init__(self):\n        super().__init__()\n        self.hidden = torch.randn(4, 6)\n"
        "    def forward(self, x, first=None):\n"
        "        if first is not None:\n            self.hidden.copy_(first)\n"
        "        self.hidden = torch.tanh(x + self.hidden)\n        return self.hidden * 2\n"
    )
    alone = ReferenceServer(f"{kept}{INPUTS}", 1 << 20)
    told = alone.describe()
    assert [(one["name"], one["kind"]) for one in told["inputs"]] == [("x", "argument"), ("hidden", "buffer")]
    given = {name: torch.full((4, 6), 0.25) for name in ("x", "hidden")}
    for _ in range(2):  # what a call leaves is not there in the next, nor in its types
        ((exact,), _) = alone.answered(given)
        torch.testing.assert_close(exact, torch.full((4, 6), 2 * math.tanh(0.5), dtype=torch.float64))
        assert alone.computed(given, "eager")[0].dtype is torch.float32
    both = ReferenceServer(f"{kept}def get_inputs():\n    return [torch.randn(4, 6), torch.randn(4, 6)]\n", 1 << 20)
    assert [one["name"] for one in both.describe()["inputs"]] == ["x", "first"]


def test_an_argument_that_is_called_as_a_tensor_of_the_model_has_another_name() -> None:
    text = (
        f"{HEAD}    def __init__(self):\n        super().__init__()\n        self.y = nn.Parameter(torch.ones(6))\n"
        "        self.x = torch.zeros(6)\n    def forward(self, x, y):\n        return x * self.y + y + self.x\n"
        "def get_inputs():\n    return [torch.randn(4, 6), torch.randn(6)]\n"
    )
    server = ReferenceServer(text, 1 << 20)
    names = [one["name"] for one in server.describe()["inputs"]]
    assert names == ["x_input", "y_input", "y", "x"]
    given = {name: torch.full((4, 6) if name == "x_input" else (6,), 2.0 + at) for at, name in enumerate(names)}
    assert server.answered(given)[0][0].tolist() == [[2.0 * 4.0 + 3.0 + 5.0] * 6] * 4


HIDDEN = {
    "in a list": ("self.held = [torch.randn(6)]", "self.held[0]"),
    "in a dict": ("self.held = {'w': torch.randn(6)}", "self.held['w']"),
    "in a module's list": (
        "self.inner = torch.nn.Identity(); self.inner.held = [torch.rand(6)]",
        "self.inner.held[0]",
    ),
    "at the top": ("pass", "TABLE"),
    "a number": ("self.held = torch.rand(1).item()", "self.held"),
    "an order": ("self.held = torch.randperm(6).tolist()", "x[:, self.held]"),
}


@pytest.mark.parametrize("kept", HIDDEN)
def test_what_the_file_draws_and_no_kernel_is_given_is_refused(kept: str) -> None:
    made, used = HIDDEN[kept]
    text = (
        "import torch\nTABLE = torch.randn(6)\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        {made}\n    def forward(self, x):\n        return x * {used}\n"
        "def get_inputs():\n    return [torch.randn(4, 6)]\n"
    )
    with pytest.raises(RefusedError, match="no kernel is given"):
        ReferenceServer(text, 1 << 20).describe()


def test_what_the_file_keeps_and_does_not_draw_is_its_own() -> None:
    text = (
        "import torch\nTABLE = torch.arange(6.0)\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.held = [torch.ones(6)]\n    def forward(self, x):\n"
        "        return x * self.held[0] + TABLE\ndef get_inputs():\n    return [torch.randn(4, 6)]\n"
    )
    assert [one["name"] for one in ReferenceServer(text, 1 << 20).describe()["inputs"]] == ["x"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("return torch.relu(x)", ""),
        ("return torch.nn.functional.group_norm(x, 6)", "no output depends on 'x'"),
        ("return torch.nn.functional.group_norm(x, 3)", ""),
        ("return x / (x.shape[0] - 4)", "the answer is not finite"),
    ],
)
def test_an_answer_that_says_nothing_is_told(body: str, fault: str) -> None:
    assert server(body).describe()["fault"] == fault


def test_numbers_in_arithmetic_are_no_sizes() -> None:
    """An eighth of eight in `log2(8)` would make it 0."""
    text = (
        f"import math\n{HEAD}    def __init__(self):\n        super().__init__()\n"
        "        self.product = nn.Linear(64, 128)\n    def forward(self, x):\n"
        f"        x *= 16\n        return self.product(x) / math.log2(8)\n{INPUTS.replace('4, 6', '4, 64')}"
    )
    share = KernelBenchFile.parsed(text)[1]["largest_in_model"]
    share.value = 16
    small = ReferenceServer(text, 1 << 20, {"largest_in_model": 64, "largest_in_inputs": 32}).describe()
    assert share.value == 16
    assert small["inputs"][1]["shape"] == [64, 32]
    assert not small["fault"]


def test_what_is_made_on_the_cpu_by_name_has_no_contents_where_shapes_are_enough() -> None:
    made = "torch.rand(1 << 20, 1 << 10, device='cpu', generator=torch.Generator(device='cpu')).to('cpu').cpu()"
    text = f"{HEAD}    def forward(self, x):\n        return x * 2\ndef get_inputs():\n    return [{made}]\n"
    with pytest.raises(TooLargeError, match="4,294,967,296 bytes"):
        known_by_shapes(lambda: KernelBenchFile(text), CallRoom(1 << 20, 1 << 20, 1 << 20, 1 << 32), 1)


def test_sums_are_those_of_each_output() -> None:
    """Beside a loss of 1,000 terms an element-wise answer has none; a maximum adds up nothing."""
    told = server("return x * 2, (x * x).mean(), x.amax(-1), x.cumsum(-1)[:, 0]").describe()
    assert [one["longest_sum"] for one in told["outputs"]] == [1, 24, 1, 6]
    assert (told["longest_sum"], told["passes"]) == (24, 3)
    hidden = "out = torch.zeros(4, 6)\n        out[:, 0] = x.sum(-1)\n        return out"
    assert server(hidden).describe()["outputs"][0]["longest_sum"] == 6


@pytest.mark.parametrize(
    ("body", "terms"),
    [
        ("return torch.nn.functional.bilinear(x, x, torch.ones(3, 6, 6))", 36),
        ("return torch.fft.rfft(x).abs()", 6),
        ("return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])", 6),
        ("return torch.nn.functional.nll_loss(x, torch.tensor([0, 1, 2, 3]))", 4),
        ("return torch.topk(x, 2).values", 1),
    ],
)
def test_sums_inside_an_operator_are_counted(body: str, terms: int) -> None:
    assert server(body).describe()["longest_sum"] == terms


def test_what_a_file_keeps_of_a_call_is_not_there_in_the_next() -> None:
    """A table that was made in float32 would not be one in float64."""
    text = (
        f"import functools\n{HEAD}    table = None\n"
        "    def forward(self, x):\n        if self.table is None:\n            self.table = kept(6)\n"
        "        return x * self.table * kept(6)\n"
        f"@functools.lru_cache\ndef kept(n):\n    return torch.arange(1, n + 1) / 3.0\n{INPUTS}"
    )
    here = ReferenceServer(text, 1 << 20)
    here.describe()
    ((exact,), (scale,)) = here.answered({"x": torch.ones(4, 6)})
    torch.testing.assert_close(exact[0], (torch.arange(1, 7, dtype=torch.float64) / 3.0) ** 2, rtol=1e-15, atol=0)
    assert bool((scale > exact.abs()).all()), "its roundings are in the scale"


@pytest.mark.parametrize(
    ("made", "body"),
    [
        ("_table = None", "if self._table is None: self._table = made()\n        return x * self._table"),
        ("tables = {}", "return x * self.tables.setdefault(6, made())"),
        ("tables = []", "self.tables.append(made())\n        return x * self.tables[0]"),
        ("maker = Maker()", "return x * self.maker.table()"),
        ("", "if 'table' not in GLOBALS: GLOBALS['table'] = made()\n        return x * GLOBALS['table']"),
        ("", "return x * by_default()"),
        ("", "return x * once()"),
        ("", "self.table = made() if self.table is None else self.table\n        return x * self.table"),
    ],
)
def test_nothing_that_a_file_keeps_is_there_in_the_next_call(made: str, body: str) -> None:
    text = (
        "import torch\nfrom torch import nn\n"
        "def made():\n    return torch.arange(1, 7) / 3.0\n"
        "class Maker:\n    kept = None\n    def table(self):\n"
        "        Maker.kept = made() if Maker.kept is None else Maker.kept\n"
        "        return Maker.kept\n"
        "GLOBALS = {}\n"
        "def by_default(kept=[]):\n    kept.append(made())\n    return kept[0]\n"
        "def memo(f):\n    found = None\n    def again():\n        nonlocal found\n"
        "        found = (f(),) if found is None else found\n        return found[0]\n    return again\n"
        "once = memo(made)\n"
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.register_buffer('table', None, persistent=False)\n        {f'self.{made}' if made else ''}\n"
        f"    def forward(self, x):\n        {body}\n{INPUTS}"
    )
    here = ReferenceServer(text, 1 << 20)
    here.describe()
    ((exact,), _) = here.answered({"x": torch.ones(4, 6)})
    torch.testing.assert_close(exact[0], torch.arange(1, 7, dtype=torch.float64) / 3.0, rtol=1e-15, atol=0)


def test_where_a_whole_number_hangs_on_a_rounding_the_scale_says_so() -> None:
    here = server("return torch.floor(x / 0.1).to(torch.int32)")
    here.describe()
    values = torch.arange(1, 25, dtype=torch.float32).reshape(4, 6) * 0.1
    ((exact,), (scale,)) = here.answered({"x": values})
    eager = here.computed({"x": values}, "eager")[0]
    assert torch.equal((eager - exact).abs().double(), scale.double())
    assert 0 < int((scale > 0).sum()) < 24


def test_files_speak_of_the_types_they_are_written_in() -> None:
    here = server("return torch.log(torch.relu(x) + torch.finfo(x.dtype).eps)")
    here.describe()
    ((exact,), _) = here.answered({"x": torch.full((4, 6), -1.0)})
    assert exact[0, 0].item() == pytest.approx(math.log(2.0**-23))
    assert torch.finfo(torch.float64).eps == 2.0**-52


@pytest.mark.parametrize(
    ("made", "draw", "fixed"),
    [
        ("torch.triu(torch.ones(6, 6), 1).bool()", {"kind": "called"}, True),
        ("torch.tensor(2.0)", {"kind": "uniform", "low": 1.0, "high": 3.0}, True),
        ("torch.zeros(6)", {"kind": "uniform", "low": -0.5, "high": 0.5}, True),
        ("torch.randn(6).softmax(-1)", {"kind": "called"}, False),
    ],
)
def test_inputs_that_are_always_the_same_are_told(made: str, draw: dict[str, object], fixed: bool) -> None:
    inputs = f"def get_inputs():\n    return [torch.randn(4, 6), {made}]\n"
    told = server("return x.sum() * y", inputs, arguments="self, x, y").describe()["inputs"][1]
    assert (told["draw"], told["fixed"]) == (draw, fixed)


def test_modules_that_learn_their_shapes_have_them_and_draw_the_same_again() -> None:
    init = "    def __init__(self):\n        super().__init__()\n        self.m = torch.nn.LazyLinear(3)\n"
    server = ReferenceServer(f"{HEAD}{init}    def forward(self, x):\n        return self.m(x)\n{INPUTS}", 1 << 20)
    assert {one["name"]: one["shape"] for one in server.describe()["inputs"]} == {
        "x": [4, 6],
        "m_weight": [3, 6],
        "m_bias": [3],
    }
    one, other = server.drawn(7), server.drawn(7)
    assert all(torch.equal(one[name], other[name]) for name in ("x", "m_weight", "m_bias"))


def test_parameters_that_never_have_a_shape_are_refused() -> None:
    init = "    def __init__(self):\n        super().__init__()\n        self.m = torch.nn.LazyLinear(3)\n"
    with pytest.raises(RefusedError, match="parameters that have no shape"):
        ReferenceServer(f"{HEAD}{init}    def forward(self, x):\n        return x * 2\n{INPUTS}", 1 << 20)
