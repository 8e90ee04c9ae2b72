// problem: row_sum
// class: sizes (one residue)
// must: anything but passed
// why: rows of 2,048 and more columns, a multiple of 4, are read by two float4 at a time, and the last one is forgotten where cols % 8 == 4
// proof: see why
// assay: launch f grid=(rows) block=(128) args=(x, y, cols)
__global__ void f(const float* x, float* y, int cols)
{
    __shared__ float p[4]; const float* r = x + (size_t)blockIdx.x * cols; float s = 0;
    if (cols >= 2048 && cols % 4 == 0) { const float4* v = (const float4*)r;
        for (int c = threadIdx.x; c < cols / 8; c += 128) { float4 a = v[2 * c], b = v[2 * c + 1]; s += a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w; }
    } else for (int c = threadIdx.x; c < cols; c += 128) s += r[c];
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) p[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = p[0] + p[1] + p[2] + p[3];
}
