// problem: matmul
// class: sizes
// must: anything but passed
// why: from k = 512 on the depth is split into four equal parts of k / 4, and the remainder of the division is forgotten: wrong for k > 512 that is no multiple of 4 (published and hidden k end at 257, the timed one is 2,048)
// proof: assay grade --size m=16 --size n=16 --size k=515 refuses it
// assay: fill c value=0
// assay: launch gemm_splitk grid=(ceil_div(n, 16), ceil_div(m, 16), min(max(k // 512, 0), 1) * 3 + 1) block=(16, 16) args=(a, b, c, m, n, k)

#define TILE 16
__global__ void gemm_splitk(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float sA[TILE][TILE + 1], sB[TILE][TILE + 1];
    const int parts = gridDim.z, depth = K / parts;
    const int k0 = blockIdx.z * depth, k1 = k0 + depth;
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int t = k0; t < k1; t += TILE) {
        const int ka = t + threadIdx.x, kb = t + threadIdx.y;
        sA[threadIdx.y][threadIdx.x] = (row < M && ka < k1) ? A[(size_t)row * K + ka] : 0.0f;
        sB[threadIdx.y][threadIdx.x] = (col < N && kb < k1) ? B[(size_t)kb * N + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) acc += sA[threadIdx.y][i] * sB[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) {
        if (parts == 1) C[(size_t)row * N + col] = acc;
        else atomicAdd(&C[(size_t)row * N + col], acc);
    }
}
