// problem: softmax
// assay: launch sm grid=(rows) block=(256) args=(x, y, cols)
// style: the row's maximum by a CAS loop on a float in shared memory, its sum by atomicAdd, barriers between
__device__ void raise(float* top, float v)
{
    int* word = reinterpret_cast<int*>(top);
    int old = *(volatile int*)word;
    while (v > __int_as_float(old)) {
        const int seen = atomicCAS(word, old, __float_as_int(v));
        if (seen == old) break;
        old = seen;
    }
}

__global__ void sm(const float* x, float* y, int cols)
{
    __shared__ float top, sum;
    const float* in = x + (size_t)blockIdx.x * cols;
    if (threadIdx.x == 0) {
        top = -INFINITY;
        sum = 0.0f;
    }
    __syncthreads();
    float m = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += 256) m = fmaxf(m, in[c]);
    raise(&top, m);
    __syncthreads();
    const float all = top;
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 256) s += expf(in[c] - all);
    if (s > 0.0f) atomicAdd(&sum, s);
    __syncthreads();
    const float inverse = 1.0f / sum;
    for (int c = threadIdx.x; c < cols; c += 256) y[(size_t)blockIdx.x * cols + c] = expf(in[c] - all) * inverse;
}
