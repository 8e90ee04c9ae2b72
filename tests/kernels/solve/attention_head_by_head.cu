// problem: attention
// style: a stream for each of two heads at a time, scores in temporaries
#include <cuda_runtime.h>

__global__ void scores(const float* q, const float* k, float* s, int seq, int dim, float scale)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= seq || column >= seq) return;
    float sum = 0.0f;
    for (int i = 0; i < dim; ++i) sum += q[row * dim + i] * k[column * dim + i];
    s[(size_t)row * seq + column] = sum * scale;
}

__global__ void softmax(float* s, int seq)
{
    __shared__ float part[128];
    float* row = s + (size_t)blockIdx.x * seq;
    float most = -INFINITY, sum = 0.0f;
    for (int c = threadIdx.x; c < seq; c += 128) most = fmaxf(most, row[c]);
    part[threadIdx.x] = most;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
    }
    __syncthreads();
    most = part[0];
    __syncthreads();
    for (int c = threadIdx.x; c < seq; c += 128) sum += row[c] = expf(row[c] - most);
    part[threadIdx.x] = sum;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
    for (int c = threadIdx.x; c < seq; c += 128) row[c] /= part[0];
}

__global__ void weigh(const float* s, const float* v, float* o, int seq, int dim)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= seq || column >= dim) return;
    float sum = 0.0f;
    for (int i = 0; i < seq; ++i) sum += s[(size_t)row * seq + i] * v[i * dim + column];
    o[row * dim + column] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* o, int heads, int seq, int dim)
{
    float scale = 1.0f / sqrtf((float)dim);
    cudaStream_t streams[2];
    float* s[2];
    for (int i = 0; i < 2; ++i) {
        cudaStreamCreate(&streams[i]);
        cudaMalloc(&s[i], (size_t)seq * seq * sizeof(float));
    }
    dim3 block(16, 16), square((seq + 15) / 16, (seq + 15) / 16), narrow((dim + 15) / 16, (seq + 15) / 16);
    for (int head = 0; head < heads; ++head) {
        size_t start = (size_t)head * seq * dim;
        float* mine = s[head % 2];
        cudaStream_t stream = streams[head % 2];
        scores<<<square, block, 0, stream>>>(q + start, k + start, mine, seq, dim, scale);
        softmax<<<seq, 128, 0, stream>>>(mine, seq);
        weigh<<<narrow, block, 0, stream>>>(mine, v + start, o + start, seq, dim);
    }
    cudaDeviceSynchronize();
    for (int i = 0; i < 2; ++i) {
        cudaFree(s[i]);
        cudaStreamDestroy(streams[i]);
    }
}
