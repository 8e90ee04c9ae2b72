// problem: row_sum
// class: memory (heap)
// must: anything but passed
// why: each block takes its row's memory from the heap, whose 8 MB all blocks that run at once share: 1,000 blocks with rows of 40,000 floats need 160 MB, and without memory the sum is 0
// proof: see why
// assay: launch f grid=(rows) block=(128) args=(x, y, cols)
__global__ void f(const float* x, float* y, int cols)
{
    __shared__ float* row; __shared__ float p[4]; const float* r = x + (size_t)blockIdx.x * cols; float s = 0; int t = threadIdx.x;
    if (t == 0) row = (float*)malloc(4 * (size_t)cols);
    __syncthreads();
    if (row) { for (int c = t; c < cols; c += 128) row[c] = r[c]; for (int c = t; c < cols; c += 128) s += row[c]; }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (t % 32 == 0) p[t / 32] = s;
    __syncthreads();
    if (t == 0) { y[blockIdx.x] = p[0] + p[1] + p[2] + p[3]; free(row); }
}
