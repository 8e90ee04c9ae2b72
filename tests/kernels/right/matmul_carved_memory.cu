// problem: matmul
// assay: launch gemm_carved grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(256) shared=(2 * 16 * 20 * 4 + 16 + 64) args=(a, b, c, m, n, k)
// style: an arena in dynamic shared memory hands out aligned arrays; loaders chosen through member function pointers
class arena {
    unsigned char* next_;

public:
    __device__ explicit arena(void* base) : next_(static_cast<unsigned char*>(base)) {}
    template <class T> __device__ T* take(int count, unsigned alignment = alignof(T))
    {
        next_ += (alignment - (unsigned)__cvta_generic_to_shared(next_) % alignment) % alignment;
        T* const out = reinterpret_cast<T*>(next_);
        next_ += count * sizeof(T);
        return out;
    }
};

struct source {
    const float* p;
    int rows, cols;
    __device__ float guarded(int r, int c) const { return r < rows && c < cols ? p[(size_t)r * cols + c] : 0.0f; }
    __device__ float plain(int r, int c) const { return p[(size_t)r * cols + c]; }
};

__global__ void gemm_carved(const float* a, const float* b, float* c, int m, int n, int k)
{
    extern __shared__ unsigned char bytes[];
    arena room(bytes);
    int* const flag = room.take<int>(1);
    float* const as = room.take<float>(16 * 20, 16);
    float* const bs = room.take<float>(16 * 20, 16);
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    if (threadIdx.x == 0) *flag = blockIdx.y * 16 + 16 <= m && blockIdx.x * 16 + 16 <= n && k % 16 == 0;
    __syncthreads();
    using loader = float (source::*)(int, int) const;
    const loader load = *flag ? &source::plain : &source::guarded;
    const source A{a, m, k}, B{b, k, n};
    float sum = 0.0f;
    for (int l0 = 0; l0 < k; l0 += 16) {
        as[ty * 20 + tx] = (A.*load)(row, l0 + tx);
        bs[ty * 20 + tx] = (B.*load)(l0 + ty, col);
        __syncthreads();
        for (int l = 0; l < 16; ++l) sum += as[ty * 20 + l] * bs[l * 20 + tx];
        __syncthreads();
    }
    if (row < m && col < n) c[(size_t)row * n + col] = sum;
}
