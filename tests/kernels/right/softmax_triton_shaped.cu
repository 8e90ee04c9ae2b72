// problem: softmax
// assay: launch softmax_program grid=(rows) block=(128) args=(x, y, cols)
// style: the shape of a Triton program: pid, offsets, mask and other=-inf as arrays of a thread, BLOCK of 1024 in a loop
#define BLOCK 1024
#define PER (BLOCK / 128)

__device__ float tl_reduce(float v, bool take_max)
{
    __shared__ float red[4];
    for (int d = 16; d; d >>= 1) {
        float o = __shfl_xor_sync(0xffffffff, v, d);
        v = take_max ? fmaxf(v, o) : v + o;
    }
    __syncthreads();
    if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = v;
    __syncthreads();
    return take_max ? fmaxf(fmaxf(red[0], red[1]), fmaxf(red[2], red[3])) : (red[0] + red[1]) + (red[2] + red[3]);
}

__device__ void tl_load(float (&v)[PER], const float* p, int start, int n)
{
    for (int j = 0; j < PER; ++j) {
        int offs = start + j * 128 + threadIdx.x;
        bool mask = offs < n;
        v[j] = mask ? p[offs] : -INFINITY;
    }
}

__global__ void softmax_program(const float* x_ptr, float* y_ptr, int n_cols)
{
    const int pid = blockIdx.x;
    const float* row = x_ptr + (size_t)pid * n_cols;
    float v[PER], m = -INFINITY, l = 0.0f;
    for (int start = 0; start < n_cols; start += BLOCK) {
        tl_load(v, row, start, n_cols);
        float block_max = -INFINITY;
        for (float e : v) block_max = fmaxf(block_max, e);
        const float m_new = fmaxf(m, tl_reduce(block_max, true));
        float s = 0.0f;
        for (float e : v) s += expf(e - m_new);
        l = l * expf(m - m_new) + tl_reduce(s, false);
        m = m_new;
    }
    for (int start = 0; start < n_cols; start += BLOCK) {
        tl_load(v, row, start, n_cols);
        for (int j = 0; j < PER; ++j) {
            int offs = start + j * 128 + threadIdx.x;
            if (offs < n_cols) y_ptr[(size_t)pid * n_cols + offs] = expf(v[j] - m) / l;
        }
    }
}
