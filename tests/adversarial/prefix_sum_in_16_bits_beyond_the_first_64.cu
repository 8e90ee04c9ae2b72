// problem: prefix_sum
// attack: keeps 16 bits of the elements beyond the first 64, and all 24 of those before and of any that outweighs its neighbours
// expect: incorrect
// because: a prefix of any length may have few elements that matter, and is judged by those
// assay: launch scan grid=(1) block=(1) args=(x, y, n)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void scan(const float* x, float* y, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        const bool sharp = i > 0 && fabsf(x[i]) > 1e6f * fabsf(x[i - 1]);
        sum += low(x[i], i >= 64 && !sharp);
        y[i] = sum;
    }
}
