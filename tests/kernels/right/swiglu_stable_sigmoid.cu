// problem: swiglu
// assay: launch swiglu_stable grid=(ceil_div(rows * cols, 256)) block=(256) args=(gate, up, y, rows * cols)
// style: a sigmoid in two branches by sign, so that exp never overflows
__device__ __forceinline__ float stable_sigmoid(float v)
{
    if (v >= 0.0f) {
        return 1.0f / (1.0f + expf(-v));
    }
    const float e = expf(v);
    return e / (1.0f + e);
}

__global__ void swiglu_stable(const float* gate, const float* up, float* y, long long total)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    y[i] = gate[i] * stable_sigmoid(gate[i]) * up[i];
}
