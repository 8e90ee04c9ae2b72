// problem: scalar_multiply
// style: the plan is inferred; parameters carry other names: src, dst, factor, count
__global__ void multiply_by_scalar(const float* src, float* dst, float factor, int count)
{
    const unsigned int gid = threadIdx.x + blockDim.x * blockIdx.x;
    if (gid < static_cast<unsigned int>(count)) dst[gid] = src[gid] * factor;
}
