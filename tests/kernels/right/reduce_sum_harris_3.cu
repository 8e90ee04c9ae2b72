// problem: reduce_sum
// assay: temp a float32 (ceil_div(n, 256))
// assay: temp b float32 (ceil_div(n, 65536))
// assay: launch reduce2 grid=(ceil_div(n, 256)) block=(256) args=(x, a, n)
// assay: launch reduce2 grid=(ceil_div(n, 65536)) block=(256) args=(a, b, ceil_div(n, 256))
// assay: launch reduce2_all grid=(1) block=(256) args=(b, total, ceil_div(n, 65536))
// style: the reduction lecture, step 3: sequential addressing; the last launch loops over what the others left
__device__ float tree(float mine)
{
    __shared__ float s[256];
    s[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    return s[0];
}

__global__ void reduce2(const float* in, float* out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = tree(i < n ? in[i] : 0.0f);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__global__ void reduce2_all(const float* in, float* out, unsigned n)
{
    float mine = 0.0f;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) mine += in[i];
    mine = tree(mine);
    if (threadIdx.x == 0) out[0] = mine;
}
