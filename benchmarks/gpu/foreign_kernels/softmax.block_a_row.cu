// expected: passed
// A block for each row.
// assay: launch softmax grid=(batch_size) block=(256) args=(x, out, batch_size, dim)

extern "C" __global__ void softmax(const float* x, float* out, int batch_size, int dim)
{
    __shared__ float parts[256];
    const float* row = x + blockIdx.x * dim;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < dim; i += 256) most = fmaxf(most, row[i]);
    parts[threadIdx.x] = most;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] = fmaxf(parts[threadIdx.x], parts[threadIdx.x + half]);
        __syncthreads();
    }
    most = parts[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < dim; i += 256) sum += expf(row[i] - most);
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < dim; i += 256) out[blockIdx.x * dim + i] = expf(row[i] - most) / parts[0];
}
