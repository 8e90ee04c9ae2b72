// problem: softmax
// style: a block a row; the maximum by shared atomicMax on order-preserving integers, the sum by shared atomicAdd
// assay: launch softmax_atomics grid=(rows) block=(128) args=(x, y, cols)

__device__ int ordered(float value)
{
    const int bits = __float_as_int(value);
    return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

__device__ float from_ordered(int key)
{
    return __int_as_float(key >= 0 ? key : key ^ 0x7fffffff);
}

__global__ void softmax_atomics(const float* x, float* y, int cols)
{
    __shared__ int top_key;
    __shared__ float sum;
    if (threadIdx.x == 0) {
        top_key = -2147483647 - 1;
        sum = 0.0f;
    }
    __syncthreads();
    const size_t base = (size_t)blockIdx.x * cols;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) {
        atomicMax(&top_key, ordered(x[base + col]));
    }
    __syncthreads();
    const float top = from_ordered(top_key);
    float mine = 0.0f;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) {
        const float e = expf(x[base + col] - top);
        y[base + col] = e;
        mine += e;
    }
    atomicAdd(&sum, mine);
    __syncthreads();
    for (int col = threadIdx.x; col < cols; col += blockDim.x) {
        y[base + col] /= sum;
    }
}
