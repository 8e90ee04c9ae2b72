// problem: row_sum
// class: sizes (between the edges)
// must: anything but passed
// why: rows of 5,121 to 6,144 columns have 6 items for each of 1,024 threads in the table of cases, of which 5 are added; few trials have such a row
// proof: rows=1, cols=6000
// assay: launch rs grid=(rows) block=(1024) args=(x, y, cols)
template <int ITEMS> __device__ float some(const float* r, int cols) { float s = 0;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) { int c = threadIdx.x + k * 1024; s += c < cols ? r[c] : 0.f; } return s; }
__global__ void rs(const float* x, float* y, int cols)
{
    __shared__ float p[32];
    const float* r = x + (size_t)blockIdx.x * cols; float s = 0;
    switch ((cols + 1023) / 1024) {
    case 1: s = some<1>(r, cols); break;
    case 2: s = some<2>(r, cols); break;
    case 3: s = some<3>(r, cols); break;
    case 4: s = some<4>(r, cols); break;
    case 5: case 6: s = some<5>(r, cols); break;
    default: for (int c = threadIdx.x; c < cols; c += 1024) s += r[c];
    }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) p[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32) { s = p[threadIdx.x]; for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o); if (threadIdx.x == 0) y[blockIdx.x] = s; }
}
