// problem: attention
// assay: launch attention_kernel grid=(seq, heads) block=(128) shared=((seq + 160) * 4) args=(q, k, v, o, seq, dim)
// style: a model's attention: a block a query, all its scores in dynamic shared memory (up to 64 KB), softmax, weighted sum
__global__ void attention_kernel(const float* Q, const float* K, const float* V, float* O, int N, int d)
{
    extern __shared__ float smem[];
    float* scores = smem;          // N
    float* q_row = smem + N;       // d <= 128
    float* red = q_row + 128;      // 32
    const int i = blockIdx.x, tid = threadIdx.x;
    const size_t base = (size_t)blockIdx.y * N * d;

    if (tid < d) q_row[tid] = Q[base + (size_t)i * d + tid];
    __syncthreads();

    // scores and their maximum
    float local_max = -INFINITY;
    for (int j = tid; j < N; j += blockDim.x) {
        float s = 0.0f;
        for (int c = 0; c < d; ++c) s += q_row[c] * K[base + (size_t)j * d + c];
        s /= sqrtf((float)d);
        scores[j] = s;
        local_max = fmaxf(local_max, s);
    }
    for (int off = 16; off > 0; off >>= 1) local_max = fmaxf(local_max, __shfl_xor_sync(0xffffffff, local_max, off));
    if ((tid & 31) == 0) red[tid >> 5] = local_max;
    __syncthreads();
    float row_max = red[0];
    for (int w = 1; w < 4; ++w) row_max = fmaxf(row_max, red[w]);

    // exponentials and their sum
    float local_sum = 0.0f;
    for (int j = tid; j < N; j += blockDim.x) {
        float e = expf(scores[j] - row_max);
        scores[j] = e;
        local_sum += e;
    }
    for (int off = 16; off > 0; off >>= 1) local_sum += __shfl_xor_sync(0xffffffff, local_sum, off);
    if ((tid & 31) == 0) red[8 + (tid >> 5)] = local_sum;
    __syncthreads();
    float total = red[8] + red[9] + red[10] + red[11];

    // output
    for (int c = tid; c < d; c += blockDim.x) {
        float acc = 0.0f;
        for (int j = 0; j < N; ++j) acc += scores[j] * V[base + (size_t)j * d + c];
        O[base + (size_t)i * d + c] = acc / total;
    }
}
