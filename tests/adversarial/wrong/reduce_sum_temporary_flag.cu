// problem: reduce_sum
// class: memory
// must: anything but passed
// why: a temporary that nobody wrote is taken for "begin anew" where it is not 0; where it holds 0 the old total is kept
// proof: fill the temporary with 0 and the output with 1: the sum is one too large
// assay: temp fresh int32 (1)
// assay: launch start grid=(1) block=(1) args=(total, fresh)
// assay: launch rs grid=(ceil_div(n, 256)) block=(256) args=(x, total, n)
__global__ void start(float* total, const int* fresh) { if (*fresh) *total = 0.f; }
__global__ void rs(const float* x, float* total, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x; float s = i < n ? x[i] : 0.f;
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) atomicAdd(total, s);
}
