// problem: swiglu
// assay: launch swiglu_vec grid=(ceil_div(rows * cols, 4 * 320)) block=(320) args=(gate, up, y, rows * cols)
// style: 16-byte loads as uint4 and a generic lambda over their lanes; the scalar tail is masked
__global__ void __launch_bounds__(320) swiglu_vec(const float* gate, const float* up, float* y, int total)
{
    const auto f = [](auto g, auto u) {
        const auto e = expf(-fabsf(g));
        return u * g * (g < 0 ? e : decltype(g)(1)) / (1 + e);
    };
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) << 2;
    if (i + 4 <= total) {
        uint4 a = __ldg((const uint4*)(gate + i)), b = __ldg((const uint4*)(up + i)), c;
        const unsigned* pa = &a.x;
        const unsigned* pb = &b.x;
        unsigned* pc = &c.x;
#pragma unroll
        for (int k = 0; k < 4; ++k) pc[k] = __float_as_uint(f(__uint_as_float(pa[k]), __uint_as_float(pb[k])));
        *(uint4*)(y + i) = c;
    } else {
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            if (i + k < total) y[i + k] = f(gate[i + k], up[i + k]);
        }
    }
}
