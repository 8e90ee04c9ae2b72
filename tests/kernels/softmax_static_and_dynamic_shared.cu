// problem: softmax
// style: a small static array beside dynamic shared memory that holds two arrays by offsets
// assay: launch softmax grid=(rows) block=(256) shared=2048 args=(x, y, rows, cols)

extern __shared__ float room[];

__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    __shared__ float result[2];
    float *most = room, *sums = room + 256;
    const float* from = x + (size_t)blockIdx.x * cols;
    const int i = threadIdx.x;
    float high = -INFINITY, sum = 0.0f;
    for (int c = i; c < cols; c += 256) high = fmaxf(high, from[c]);
    most[i] = high;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (i < half) most[i] = fmaxf(most[i], most[i + half]);
        __syncthreads();
    }
    for (int c = i; c < cols; c += 256) sum += expf(from[c] - most[0]);
    sums[i] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (i < half) sums[i] += sums[i + half];
        __syncthreads();
    }
    if (i == 0) result[0] = most[0], result[1] = 1.0f / sums[0];
    __syncthreads();
    for (int c = i; c < cols; c += 256) y[(size_t)blockIdx.x * cols + c] = expf(from[c] - result[0]) * result[1];
}
