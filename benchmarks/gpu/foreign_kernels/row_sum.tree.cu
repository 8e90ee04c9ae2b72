// expected: passed
// A block for each row, a tree in shared memory.
// assay: launch row_sum grid=(rows) block=(256) args=(x, out, rows, dim)

extern "C" __global__ void row_sum(const float* x, float* out, int rows, int dim)
{
    __shared__ float parts[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < dim; i += 256) sum += x[blockIdx.x * dim + i];
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = parts[0];
}
