// problem: matmul
// assay: launch gemm_warp grid=(ceil_div(n, 32) , ceil_div(m, 32)) block=(32, 8) args=(a, b, c, m, n, k)
// style: CUTLASS-like by hand: structs for tile shapes and fragments, each warp four rows by 32 columns
template <int M_, int N_, int K_> struct GemmShape {
    static constexpr int kM = M_, kN = N_, kK = K_;
};

template <class T, int N> struct Fragment {
    T storage[N];
    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < N; ++i) storage[i] = T(0);
    }
    __device__ T& operator[](int i) { return storage[i]; }
};

struct MatrixCoord {
    int row, column;
};

struct TensorRef {
    const float* data;
    int stride;
    MatrixCoord extent;
    __device__ float at(MatrixCoord p) const
    {
        return p.row < extent.row && p.column < extent.column ? data[(long long)p.row * stride + p.column] : 0.0f;
    }
};

using ThreadblockShape = GemmShape<32, 32, 32>;
using WarpShape = GemmShape<4, 32, 32>;

struct SharedStorage {
    float A[ThreadblockShape::kM][ThreadblockShape::kK + 1];
    float B[ThreadblockShape::kK][ThreadblockShape::kN];
};

__global__ void gemm_warp(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ SharedStorage storage;
    const TensorRef A{a, k, {m, k}}, B{b, n, {k, n}};
    const int r0 = blockIdx.y * ThreadblockShape::kM, c0 = blockIdx.x * ThreadblockShape::kN;
    Fragment<float, WarpShape::kM> accum;
    accum.clear();
    for (int k0 = 0; k0 < k; k0 += ThreadblockShape::kK) {
#pragma unroll
        for (int i = threadIdx.y; i < 32; i += 8) {
            storage.A[i][threadIdx.x] = A.at({r0 + i, k0 + (int)threadIdx.x});
            storage.B[i][threadIdx.x] = B.at({k0 + i, c0 + (int)threadIdx.x});
        }
        __syncthreads();
#pragma unroll 8
        for (int l = 0; l < 32; ++l) {
            const float right = storage.B[l][threadIdx.x];
#pragma unroll
            for (int i = 0; i < WarpShape::kM; ++i) accum[i] += storage.A[threadIdx.y * WarpShape::kM + i][l] * right;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < WarpShape::kM; ++i) {
        const int row = r0 + threadIdx.y * WarpShape::kM + i, col = c0 + threadIdx.x;
        if (row < m && col < n) c[(long long)row * n + col] = accum[i];
    }
}
