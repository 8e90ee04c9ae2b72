// problem: linear_gelu
// assay: launch linear_gelu_kernel grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(x, weight, bias, y, m, k, n)
// style: a benchmark answer by a model: fused linear and GELU, in_features and out_features, a gelu_exact helper
#include <cuda_runtime.h>
#include <math.h>

#define TILE_SIZE 16

__device__ __forceinline__ float gelu_exact(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.7071067811865475f));
}

__global__ void linear_gelu_kernel(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out,
    int batch_size, int in_features, int out_features
) {
    __shared__ float x_tile[TILE_SIZE][TILE_SIZE];
    __shared__ float w_tile[TILE_SIZE][TILE_SIZE + 1];

    const int row = blockIdx.y * TILE_SIZE + threadIdx.y;
    const int col = blockIdx.x * TILE_SIZE + threadIdx.x;
    float acc = 0.0f;

    const int num_tiles = (in_features + TILE_SIZE - 1) / TILE_SIZE;
    for (int t = 0; t < num_tiles; ++t) {
        const int kx = t * TILE_SIZE + threadIdx.x;
        // Load x tile
        x_tile[threadIdx.y][threadIdx.x] = (row < batch_size && kx < in_features) ? x[row * in_features + kx] : 0.0f;
        // Load weight tile (weight is [out_features, in_features]), rows by threadIdx.y for coalescing
        const int wrow = blockIdx.x * TILE_SIZE + threadIdx.y;
        w_tile[threadIdx.y][threadIdx.x] = (wrow < out_features && kx < in_features) ? weight[wrow * in_features + kx] : 0.0f;
        __syncthreads();

        #pragma unroll
        for (int i = 0; i < TILE_SIZE; ++i) {
            acc += x_tile[threadIdx.y][i] * w_tile[threadIdx.x][i];
        }
        __syncthreads();
    }

    // Fused bias + GELU epilogue
    if (row < batch_size && col < out_features) {
        out[row * out_features + col] = gelu_exact(acc + bias[col]);
    }
}
