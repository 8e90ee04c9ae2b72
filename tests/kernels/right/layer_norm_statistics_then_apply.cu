// problem: layer_norm
// assay: temp mean float32 (rows)
// assay: temp rstd float32 (rows)
// assay: launch RowwiseMoments grid=(rows) block=(256) args=(x, mean, rstd, eps, cols)
// assay: launch LayerNormForward grid=(ceil_div(rows * cols, 256)) block=(256) args=(x, mean, rstd, weight, bias, y, rows * cols, cols)
// style: after a framework: RowwiseMoments by Welford structs across the block, then an element-wise launch
struct WelfordData {
    float mean, m2, count;
};

__device__ WelfordData combine(WelfordData a, WelfordData b)
{
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const float delta = b.mean - a.mean, n = a.count + b.count, nb_over_n = b.count / n;
    return {a.mean + delta * nb_over_n, a.m2 + b.m2 + delta * delta * a.count * nb_over_n, n};
}

__global__ void RowwiseMoments(const float* X, float* mean, float* rstd, float eps, int N)
{
    __shared__ WelfordData shared[8];
    const float* row = X + (size_t)blockIdx.x * N;
    WelfordData val{0, 0, 0};
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        const float delta = row[j] - val.mean;
        val.count += 1;
        val.mean += delta / val.count;
        val.m2 += delta * (row[j] - val.mean);
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        WelfordData other{__shfl_down_sync(0xffffffff, val.mean, offset), __shfl_down_sync(0xffffffff, val.m2, offset),
                          __shfl_down_sync(0xffffffff, val.count, offset)};
        val = combine(val, other);
    }
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = val;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) val = combine(val, shared[w]);
        mean[blockIdx.x] = val.mean;
        rstd[blockIdx.x] = rsqrtf(val.m2 / N + eps);
    }
}

__global__ void LayerNormForward(const float* X, const float* mean, const float* rstd, const float* gamma,
                                 const float* beta, float* Y, int total, int N)
{
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= total) return;
    const int i = index / N, j = index % N;
    Y[index] = (X[index] - mean[i]) * rstd[i] * gamma[j] + beta[j];
}
