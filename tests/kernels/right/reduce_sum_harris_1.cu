// problem: reduce_sum
// assay: temp part1 float32 (ceil_div(n, 128))
// assay: temp part2 float32 (ceil_div(n, 128 * 128))
// assay: temp part3 float32 (ceil_div(n, 128 * 128 * 128))
// assay: launch reduce0 grid=(ceil_div(n, 128)) block=(128) shared=512 args=(x, part1, n)
// assay: launch reduce0 grid=(ceil_div(n, 128 * 128)) block=(128) shared=512 args=(part1, part2, ceil_div(n, 128))
// assay: launch reduce0 grid=(ceil_div(n, 128 * 128 * 128)) block=(128) shared=512 args=(part2, part3, ceil_div(n, 128 * 128))
// assay: launch reduce0 grid=(1) block=(128) shared=512 args=(part3, total, ceil_div(n, 128 * 128 * 128))
// style: the reduction lecture, step 1: interleaved addressing with divergent branches (tid % (2 * s)), four levels
__global__ void reduce0(const float *g_idata, float *g_odata, unsigned int n)
{
    extern __shared__ float sdata[];
    // each thread loads one element from global to shared mem
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    sdata[tid] = i < n ? g_idata[i] : 0;
    __syncthreads();
    // do reduction in shared mem
    for (unsigned int s = 1; s < blockDim.x; s *= 2) {
        if (tid % (2 * s) == 0)
            sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    // write result for this block to global mem
    if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}
