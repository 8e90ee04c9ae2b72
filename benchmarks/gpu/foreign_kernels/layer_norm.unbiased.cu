// expected: incorrect
// It divides by one element less.
// assay: launch layer_norm grid=(batch_size) block=(256) args=(x, norm_weight, norm_bias, out, dim)

extern "C" __global__ void layer_norm(const float* x, const float* norm_weight, const float* norm_bias, float* out, int dim)
{
    __shared__ float sums[256], squares[256];
    const float* row = x + blockIdx.x * dim;
    float sum = 0.0f, square = 0.0f;
    for (int i = threadIdx.x; i < dim; i += 256) sum += row[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    float mean = sums[0] / dim;
    for (int i = threadIdx.x; i < dim; i += 256) square += (row[i] - mean) * (row[i] - mean);
    squares[threadIdx.x] = square;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) squares[threadIdx.x] += squares[threadIdx.x + half];
        __syncthreads();
    }
    float rate = rsqrtf(squares[0] / (dim - 1) + 1e-5f);
    for (int i = threadIdx.x; i < dim; i += 256)
        out[blockIdx.x * dim + i] = (row[i] - mean) * rate * norm_weight[i] + norm_bias[i];
}
