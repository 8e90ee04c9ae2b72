// problem: swiglu
// style: __expf and __fdividef on an argument that cannot overflow
// assay: launch swiglu_fast grid=(ceil_div(rows * cols, 256)) block=(256) args=(gate, up, y, rows * cols)

__global__ void swiglu_fast(const float* gate, const float* up, float* y, long long count)
{
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i < count) {
        const float g = gate[i];
        const float e = __expf(-fabsf(g));  // in (0, 1]
        const float sigmoid = __fdividef(g < 0.0f ? e : 1.0f, 1.0f + e);
        y[i] = g * sigmoid * up[i];
    }
}
