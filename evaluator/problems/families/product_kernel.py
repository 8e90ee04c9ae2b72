"""The text of one tiled matrix product in CUDA, for matmul, linear_gelu and matmul_f16 alike."""

from string import Template
from typing import Final

_TILED: Final = Template(r"""
// assay: launch $name grid=(ceil_div(n, 64), ceil_div(m, 64)) block=(256) args=($arguments, m, n, k)
$preamble
// Elements column .. column + 3 of a row, zero where the matrix ends; one wide load where aligned and inside.
__device__ __forceinline__ void load_four(const $element* matrix, int rows, int columns, int row, int column,
                                          float (&out)[4])
{
    const $element* at = matrix + (size_t)row * columns + column;
    if (row < rows && columns % 4 == 0 && column < columns) {
        $wide_load
    } else {
        #pragma unroll
        for (int i = 0; i < 4; i++) out[i] = row < rows && column + i < columns ? $to_float(at[i]) : 0.0f;
    }
}

// A block makes 64 x 64 results, a thread 4 x 4. The next 64 x 16 and 16 x 64 tiles travel to registers while the
// current ones are used; two sets of tiles in shared memory need one barrier for each step.
__global__ void __launch_bounds__(256) $name($parameters, int m, int n, int k)
{
    __shared__ __align__(16) float left[2][16][68];   // transposed; 68 keeps float4 aligned and spreads the banks
    __shared__ __align__(16) float right[2][16][68];
    int t = threadIdx.x;
    int tx = t % 16, ty = t / 16;
    int row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
    float next_left[4], next_right[4];
    float sum[4][4] = {};

    load_four($left_name, m, k, row0 + t / 4, t % 4 * 4, next_left);
    $load_first
    int stage = 0;
    for (int k0 = 0; k0 < k; k0 += 16) {
        #pragma unroll
        for (int i = 0; i < 4; i++) left[stage][t % 4 * 4 + i][t / 4] = next_left[i];
        $store_right
        __syncthreads();
        if (k0 + 16 < k) {
            load_four($left_name, m, k, row0 + t / 4, k0 + 16 + t % 4 * 4, next_left);
            $load_next
        }
        #pragma unroll
        for (int i = 0; i < 16; i++) {
            float4 p = *reinterpret_cast<const float4*>(&left[stage][i][ty * 4]);
            float4 q = *reinterpret_cast<const float4*>(&right[stage][i][tx * 4]);
            float ps[4] = {p.x, p.y, p.z, p.w}, qs[4] = {q.x, q.y, q.z, q.w};
            #pragma unroll
            for (int r = 0; r < 4; r++)
                #pragma unroll
                for (int j = 0; j < 4; j++) sum[r][j] = fmaf(ps[r], qs[j], sum[r][j]);
        }
        stage ^= 1;
    }
    int column = column0 + tx * 4;
    #pragma unroll
    for (int r = 0; r < 4; r++) {
        int row = row0 + ty * 4 + r;
        #pragma unroll
        for (int j = 0; j < 4; j++)
            if (row < m && column + j < n) $out[(size_t)row * n + column + j] = $result;
    }
}
""")


_WIDE_FLOAT: Final = """float4 v = *reinterpret_cast<const float4*>(at);
        out[0] = v.x; out[1] = v.y; out[2] = v.z; out[3] = v.w;"""

_WIDE_HALF: Final = """uint2 v = *reinterpret_cast<const uint2*>(at);
        float2 low = __half22float2(*reinterpret_cast<__half2*>(&v.x));
        float2 high = __half22float2(*reinterpret_cast<__half2*>(&v.y));
        out[0] = low.x; out[1] = low.y; out[2] = high.x; out[3] = high.y;"""

_STORE_PLAIN: Final = """*reinterpret_cast<float4*>(&right[stage][t / 16][t % 16 * 4])
            = make_float4(next_right[0], next_right[1], next_right[2], next_right[3]);"""

_STORE_TRANSPOSED: Final = """#pragma unroll
        for (int i = 0; i < 4; i++) right[stage][t % 4 * 4 + i][t / 4] = next_right[i];"""


def tiled_product(
    *,
    name: str,
    parameters: str,
    arguments: str,
    result: str,
    right_transposed: bool = False,
    half: bool = False,
    preamble: str = "",
) -> str:
    """A complete source text, with its launch directive, of a kernel `name` for a product of m x k by k x n.

    Of `arguments`, the names of the kernel's tensors in order, the first is the left factor [m, k], the second the
    right one ([k, n], or [n, k] when `right_transposed`) and the last the output [m, n]; `parameters` declares them.
    `result` is the C++ expression of what to store at [row, column + j], over the float `sum[r][j]`. The factors
    are float32, or float16 when `half`.
    """
    left, right, *_, out = arguments.split(", ")
    if right_transposed:
        load = f"load_four({right}, n, k, column0 + t / 4, STEP + t % 4 * 4, next_right);"
    else:
        load = f"load_four({right}, k, n, STEP + t / 16, column0 + t % 16 * 4, next_right);"
    return _TILED.substitute(
        name=name,
        parameters=parameters,
        arguments=arguments,
        left_name=left,
        load_first=load.replace("STEP", "0"),
        load_next=load.replace("STEP", "k0 + 16"),
        store_right=_STORE_TRANSPOSED if right_transposed else _STORE_PLAIN,
        out=out,
        result=result,
        preamble="#include <cuda_fp16.h>\n" + preamble if half else preamble,
        element="__half" if half else "float",
        to_float="__half2float" if half else "",
        wide_load=_WIDE_HALF if half else _WIDE_FLOAT,
    )
