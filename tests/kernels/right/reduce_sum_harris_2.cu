// problem: reduce_sum
// assay: temp part1 float32 (ceil_div(n, 512))
// assay: temp part2 float32 (ceil_div(n, 512 * 512))
// assay: launch reduce1 grid=(ceil_div(n, 512)) block=(512) shared=(512 * 4) args=(x, part1, n)
// assay: launch reduce1 grid=(ceil_div(n, 512 * 512)) block=(512) shared=(512 * 4) args=(part1, part2, ceil_div(n, 512))
// assay: launch reduce1 grid=(1) block=(512) shared=(512 * 4) args=(part2, total, ceil_div(n, 512 * 512))
// style: the reduction lecture, step 2: strided indices without divergence, at the price of bank conflicts
__global__ void reduce1(const float* in, float* out, int n)
{
    extern __shared__ float s_data[];
    const int tid = threadIdx.x, i = blockIdx.x * blockDim.x + tid;
    s_data[tid] = (i < n) ? in[i] : 0.0f;
    __syncthreads();
    for (int s = 1; s < (int)blockDim.x; s <<= 1) {
        const int index = 2 * s * tid;
        if (index < (int)blockDim.x) {
            s_data[index] += s_data[index + s];
        }
        __syncthreads();
    }
    if (!tid) out[blockIdx.x] = *s_data;
}
