// problem: swiglu
// assay: launch swiglu grid=(min(ceil_div(rows * cols, 256), 300)) block=(128) args=(gate, up, y, rows * cols)
// style: cuda::pipeline of thread scope and memcpy_async by each thread into two buffers; what a thread reads another brought
#include <cuda/pipeline>

__global__ void swiglu(const float* gate, const float* up, float* y, int total)
{
    __shared__ float g[2][256], u[2][256];
    auto pipe = cuda::make_pipeline();
    const int tiles = (total + 255) / 256, t = threadIdx.x;
    auto bring = [&](int tile, int b) {
        pipe.producer_acquire();
        for (int e = t; e < 256; e += 128)
            if (tile < tiles && tile * 256 + e < total) {
                cuda::memcpy_async(&g[b][e], gate + tile * 256 + e, sizeof(float), pipe);
                cuda::memcpy_async(&u[b][e], up + tile * 256 + e, sizeof(float), pipe);
            }
        pipe.producer_commit();
    };
    bring(blockIdx.x, 0);
    int b = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, b ^= 1) {
        bring(tile + gridDim.x, b ^ 1);
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        __syncthreads();
        for (int e = 255 - t; e >= 0; e -= 128) {
            const int i = tile * 256 + e;
            if (i < total) y[i] = g[b][e] / (1.0f + expf(-g[b][e])) * u[b][e];
        }
        pipe.consumer_release();
        __syncthreads();
    }
}
