"""Hundreds of different honest kernels, and bad ones: block sizes, vector widths, unrolling, tiles, expressions.

Each family is one template. What varies is part of the code, not only of the launch, so that each variant compiles to
PTX of its own and nothing of one can be taken from a cache for another.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from common.contract import Status


@dataclass(frozen=True)
class Variant:
    """One kernel: a complete source with its launch directive."""

    problem: str
    name: str
    source: str
    ends: tuple[Status, ...] = (Status.PASSED,)
    """Statuses that are right for it."""


def honest() -> list[Variant]:
    """All honest variants, the families taking turns, so that any beginning of the list holds every family."""
    families = [
        *(list(_elementwise(problem)) for problem in _ELEMENTWISE),
        *(list(_per_row(problem)) for problem in _PER_ROW),
        list(_transposes()),
        list(_products()),
    ]
    return [variant for turn in itertools.zip_longest(*families) for variant in turn if variant is not None]


def bad(count: int) -> list[Variant]:
    """Kernels that break, hang, ask for too much memory or are wrong, in turns; each with code of its own."""
    return [_BAD[number % len(_BAD)](number) for number in range(count)]


# --- one thread, several elements ---------------------------------------------------------------------------------

_ELEMENTWISE = {
    "vector_add": (("a", "b"), "c", "", ("p + q", "__fadd_rn(q, p)")),
    "scalar_multiply": (("x",), "y", "alpha", ("alpha * p", "__fmul_rn(alpha, p)")),
    "saxpy": (("x", "y"), "out", "alpha", ("fmaf(alpha, p, q)", "__fadd_rn(__fmul_rn(alpha, p), q)")),
    "relu": (("x",), "y", "", ("fmaxf(p, 0.0f)", "p > 0.0f ? p : 0.0f")),
    "gelu": (
        ("x",),
        "y",
        "",
        ("0.5f * p * (1.0f + erff(p * 0.70710678f))", "fmaf(0.5f * p, erff(p * 0.70710678f), 0.5f * p)"),
    ),
}
_ELEMENT = """\
// assay: launch {name} grid=(ceil_div(n, {chunk})) block=({block}) args=({arguments}, n)
__device__ __forceinline__ float value({values})
{{
    return {expression};
}}

// Each thread computes {unroll} times {width} neighbours.
__global__ void __launch_bounds__({block}) {name}({parameters}, int n)
{{
    #pragma unroll
    for (int step = 0; step < {unroll}; step++) {{
        const long long i = ((long long)blockIdx.x * {strip} + step * {block} + threadIdx.x) * {width};
{body}    }}
}}
"""
_ONE = """\
        if (i < n) {output}[i] = value({at_i});
"""
_WIDE = """\
        if (i + {width} <= n) {{
            union {{ float{width} all; float each[{width}]; }} {unions};
{loads}            #pragma unroll
            for (int j = 0; j < {width}; j++) r.each[j] = value({at_each});
            *reinterpret_cast<float{width}*>({output} + i) = r.all;
        }} else {{
            for (long long j = i; j < n; j++) {output}[j] = value({at_j});
        }}
"""


def _elementwise(problem: str) -> Iterator[Variant]:
    inputs, output, scalar, expressions = _ELEMENTWISE[problem]
    letters = ("p", "q")[: len(inputs)]
    last = (scalar,) if scalar else ()
    for number, (unroll, width, block) in enumerate(itertools.product((1, 2, 4), (1, 2, 4), (64, 128, 256, 512))):
        form = number % len(expressions)
        name = f"{problem}_b{block}_v{width}_u{unroll}_f{form}"

        def call(pattern: str) -> str:
            pairs = zip(inputs, letters, strict=True)
            return ", ".join([*(pattern.format(tensor=t, letter=p) for t, p in pairs), *last])

        loads = "".join(
            f"            {letter}.all = *reinterpret_cast<const float{width}*>({tensor} + i);\n"
            for tensor, letter in zip(inputs, letters, strict=True)
        )
        filled = {
            "width": width,
            "output": output,
            "unions": ", ".join((*letters, "r")),
            "loads": loads,
            "at_i": call("{tensor}[i]"),
            "at_j": call("{tensor}[j]"),
            "at_each": call("{letter}.each[j]"),
        }
        source = _ELEMENT.format(
            name=name,
            chunk=block * width * unroll,
            strip=block * unroll,
            block=block,
            width=width,
            unroll=unroll,
            arguments=", ".join((*inputs, output, *last)),
            values=", ".join([*(f"float {letter}" for letter in letters), *(f"float {one}" for one in last)]),
            expression=expressions[form],
            parameters=", ".join(
                [
                    *(f"const float* __restrict__ {tensor}" for tensor in inputs),
                    f"float* __restrict__ {output}",
                    *(f"float {one}" for one in last),
                ]
            ),
            body=(_ONE if width == 1 else _WIDE).format(**filled),
        )
        yield Variant(problem, name, source)


# --- one block, one row -------------------------------------------------------------------------------------------

_SHUFFLED = """\
template <class Merge>
__device__ __forceinline__ float together(float value, float* parts, Merge merge)
{
    for (int offset = 16; offset > 0; offset /= 2) value = merge(value, __shfl_xor_sync(0xffffffffu, value, offset));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < BLOCK / 32; warp++) value = merge(value, parts[warp]);
    __syncthreads();
    return value;
}
"""
_TREE = """\
template <class Merge>
__device__ __forceinline__ float together(float value, float* parts, Merge merge)
{
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int step = BLOCK / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) parts[threadIdx.x] = merge(parts[threadIdx.x], parts[threadIdx.x + step]);
        __syncthreads();
    }
    value = parts[0];
    __syncthreads();
    return value;
}
"""
_ROW = """\
// assay: launch {name} grid=(rows) block=({block}) args=({arguments}, cols)
constexpr int BLOCK = {block};

struct Add {{ __device__ float operator()(float p, float q) const {{ return p + q; }} }};
struct Most {{ __device__ float operator()(float p, float q) const {{ return fmaxf(p, q); }} }};

// The merge of all threads' values, in every thread; `parts` is free again afterwards.
{together}
__global__ void __launch_bounds__(BLOCK) {name}({parameters}, int cols)
{{
    __shared__ float parts[BLOCK];
    const float* in = x + (long long)blockIdx.x * cols;
{body}}}
"""
_EACH = """\
    #pragma unroll {unroll}
    for (int i = threadIdx.x; i < cols; i += BLOCK) {{ {deed} }}
"""
_PER_ROW = {
    "row_sum": (
        "x, y",
        ("", ""),
        [
            "    float sum = 0.0f;\n",
            "sum += in[i];",
            "    sum = together(sum, parts, Add());\n    if (threadIdx.x == 0) y[blockIdx.x] = sum;\n",
        ],
    ),
    "softmax": (
        "x, y",
        ("expf(in[i] - most) * rate", "expf(in[i] - most) / sum"),
        [
            "    float* out = y + (long long)blockIdx.x * cols;\n    float most = in[0], sum = 0.0f;\n",
            "most = fmaxf(most, in[i]);",
            "    most = together(most, parts, Most());\n",
            "sum += expf(in[i] - most);",
            "    sum = together(sum, parts, Add());\n    const float rate = 1.0f / sum;\n",
            "out[i] = {form};",
        ],
    ),
    "rms_norm": (
        "x, weight, y, eps",
        ("rsqrtf(sum / cols + eps)", "1.0f / sqrtf(sum / cols + eps)"),
        [
            "    float* out = y + (long long)blockIdx.x * cols;\n    float sum = 0.0f;\n",
            "sum = fmaf(in[i], in[i], sum);",
            "    sum = together(sum, parts, Add());\n    const float rate = {form};\n",
            "out[i] = in[i] * rate * weight[i];",
        ],
    ),
    "layer_norm": (
        "x, weight, bias, y, eps",
        ("rsqrtf(square / cols + eps)", "1.0f / sqrtf(square / cols + eps)"),
        [
            "    float* out = y + (long long)blockIdx.x * cols;\n    float sum = 0.0f, square = 0.0f;\n",
            "sum += in[i];",
            "    const float mean = together(sum, parts, Add()) / cols;\n",
            "const float d = in[i] - mean; square = fmaf(d, d, square);",
            "    square = together(square, parts, Add());\n    const float rate = {form};\n",
            "out[i] = fmaf((in[i] - mean) * rate, weight[i], bias[i]);",
        ],
    ),
}


def _per_row(problem: str) -> Iterator[Variant]:
    arguments, forms, parts = _PER_ROW[problem]
    names = arguments.split(", ")
    ways = itertools.product((1, 2, 4, 8), (64, 128, 256, 512), ((_SHUFFLED, "shuffled"), (_TREE, "tree")))
    for number, (unroll, block, (together, way)) in enumerate(ways):
        form = number // 2 % 2
        name = f"{problem}_b{block}_u{unroll}_{way}_f{form}"
        body = ""
        for index, part in enumerate(parts):
            text = part.replace("{form}", forms[form])
            body += _EACH.format(unroll=unroll, deed=text) if index % 2 else text
        source = _ROW.format(
            name=name,
            block=block,
            arguments=arguments,
            together=together,
            parameters=", ".join(_parameter(one) for one in names),
            body=body,
        )
        yield Variant(problem, name, source)


def _parameter(name: str) -> str:
    if name == "eps":
        return "float eps"
    return f"{'float*' if name == 'y' else 'const float*'} __restrict__ {name}"


# --- tiles --------------------------------------------------------------------------------------------------------

_TRANSPOSE = """\
// assay: launch {name} grid=({across}, {down}) block=({tile}, {height}) args=(x, y, rows, cols)
__global__ void __launch_bounds__({threads}) {name}(
    const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{{
    __shared__ float tile[{tile}][{pitch}];
    const long long col = (long long)blockIdx.x * {tile} + threadIdx.x, row0 = (long long)blockIdx.y * {tile};
    #pragma unroll
    for (int r = threadIdx.y; r < {tile}; r += {height})
        if (row0 + r < rows && col < cols) tile[r][threadIdx.x] = x[(row0 + r) * cols + col];
    __syncthreads();
    const long long out_col = row0 + threadIdx.x, out_row0 = (long long)blockIdx.x * {tile};
    #pragma unroll
    for (int r = threadIdx.y; r < {tile}; r += {height})
        if (out_row0 + r < cols && out_col < rows) y[(out_row0 + r) * rows + out_col] = tile[threadIdx.x][r];
}}
"""


def _transposes() -> Iterator[Variant]:
    for pad, (tile, height) in itertools.product(
        (1, 3), ((32, 8), (32, 4), (32, 16), (16, 16), (16, 8), (16, 4), (64, 4), (64, 8), (64, 16), (32, 32))
    ):
        name = f"transpose_t{tile}_h{height}_p{pad}"
        source = _TRANSPOSE.format(
            name=name,
            across=f"ceil_div(cols, {tile})",
            down=f"ceil_div(rows, {tile})",
            tile=tile,
            height=height,
            threads=tile * height,
            pitch=tile + pad,
        )
        yield Variant("transpose", name, source)


_PRODUCT = """\
// assay: launch {name} grid=(ceil_div(n, {tile}), ceil_div(m, {tile})) block=(16, 16) args=(a, b, c, m, n, k)

// A block makes {tile} x {tile} results, each of its 256 threads {each} x {each} of them, 16 apart.
__global__ void __launch_bounds__(256) {name}(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k)
{{
    __shared__ float left[{depth}][{tile} + 1], right[{depth}][{tile}];
    const int thread = threadIdx.y * 16 + threadIdx.x;
    const long long row0 = (long long)blockIdx.y * {tile}, col0 = (long long)blockIdx.x * {tile};
    float sum[{each}][{each}] = {{}};
    for (int k0 = 0; k0 < k; k0 += {depth}) {{
        for (int i = thread; i < {tile} * {depth}; i += 256) {{
            const int row = i / {depth}, inner = i % {depth};
            left[inner][row] = row0 + row < m && k0 + inner < k ? a[(row0 + row) * k + k0 + inner] : 0.0f;
        }}
        for (int i = thread; i < {tile} * {depth}; i += 256) {{
            const int inner = i / {tile}, col = i % {tile};
            right[inner][col] = k0 + inner < k && col0 + col < n ? b[(long long)(k0 + inner) * n + col0 + col] : 0.0f;
        }}
        __syncthreads();
        #pragma unroll {unroll}
        for (int i = 0; i < {depth}; i++) {{
            float p[{each}], q[{each}];
            #pragma unroll
            for (int r = 0; r < {each}; r++) p[r] = left[i][threadIdx.y + 16 * r];
            #pragma unroll
            for (int j = 0; j < {each}; j++) q[j] = right[i][threadIdx.x + 16 * j];
            #pragma unroll
            for (int r = 0; r < {each}; r++)
                #pragma unroll
                for (int j = 0; j < {each}; j++) sum[r][j] = fmaf(p[r], q[j], sum[r][j]);
        }}
        __syncthreads();
    }}
    #pragma unroll
    for (int r = 0; r < {each}; r++) {{
        const long long row = row0 + threadIdx.y + 16 * r;
        #pragma unroll
        for (int j = 0; j < {each}; j++) {{
            const long long col = col0 + threadIdx.x + 16 * j;
            if (row < m && col < n) c[row * n + col] = sum[r][j];
        }}
    }}
}}
"""


def _products() -> Iterator[Variant]:
    for depth, unroll, each in itertools.product((16, 32), (4, 8, 16), (4, 6, 8)):
        name = f"matmul_t{16 * each}_d{depth}_u{unroll}"
        source = _PRODUCT.format(name=name, tile=16 * each, each=each, depth=depth, unroll=unroll)
        yield Variant("matmul", name, source)


# --- bad ones -----------------------------------------------------------------------------------------------------


def _breaks(number: int) -> Variant:
    source = f"""\
// assay: launch breaks grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void breaks(const float* x, float* y, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i + (1ll << 44) + {number}] = fmaxf(x[i], 0.0f);
}}
"""
    return Variant("relu", f"breaks_{number}", source, (Status.RUNTIME_ERROR,))


def _hangs(number: int) -> Variant:
    source = f"""\
// assay: launch hangs grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void hangs(const float* x, volatile float* y, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) y[i] = fmaxf(x[i], 0.0f) + {number}.0f;
}}
"""
    return Variant("relu", f"hangs_{number}", source, (Status.TIMEOUT,))


def _hoards(number: int) -> Variant:
    source = f"""\
// assay: launch hoards grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__device__ float hoard[{(50 << 30) + number}ull];

__global__ void hoards(const float* x, float* y, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f) + 0.0f * hoard[(size_t)i * 4096];
}}
"""
    refusals = (Status.OUT_OF_MEMORY, Status.INVALID_SUBMISSION, Status.COMPILE_ERROR, Status.UNSUPPORTED)
    return Variant("relu", f"hoards_{number}", source, refusals)


def _is_wrong(number: int) -> Variant:
    source = f"""\
// assay: launch is_wrong grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void is_wrong(const float* x, float* y, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f) + (i % 7 == 3 ? {number + 1}.0f : 0.0f);
}}
"""
    return Variant("relu", f"is_wrong_{number}", source, (Status.INCORRECT,))


_BAD = (_breaks, _is_wrong, _hangs, _hoards)
