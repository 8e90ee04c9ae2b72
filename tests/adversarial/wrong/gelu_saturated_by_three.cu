// problem: gelu
// class: contents
// must: anything but passed
// why: a warp whose first, middle and last values are beyond +-6, the first equal to the last, is taken to be saturated: y is x or 0 for all its lanes, wrong for moderate values between large ones
// proof: by 32: x = 10 at 0, 15 and 31, else 1: gelu(1) becomes 1 instead of 0.841
// assay: launch gelu grid=(min(ceil_div(n, 256), 2048)) block=(256) args=(x, y, n)
#include <cuda/std/cmath>

struct Gelu {
    __device__ float operator()(float v) const { return v * 0.5f * erfcf(v * -0.70710678f); }
};
struct Saturated {
    __device__ float operator()(float v) const { return v > 0.f ? v : 0.f; }
};

template <class F> __device__ void apply(F f, const float* x, float* y, int i, int n) { if (i < n) y[i] = f(x[i]); }

__global__ void gelu(const float* x, float* y, int n)
{
    for (int base = (blockIdx.x * 256 + threadIdx.x) & ~31; base < n; base += gridDim.x * 256) {
        const int i = base + (threadIdx.x & 31), last = min(base + 31, n - 1);
        const float a = fabsf(x[base]), b = fabsf(x[last]), middle = fabsf(x[(base + last) / 2]);
        if (a > 6.f && b > 6.f && middle > 6.f && x[base] == x[last]) apply(Saturated(), x, y, i, n);
        else apply(Gelu(), x, y, i, n);
    }
}
