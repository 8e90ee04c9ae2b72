// problem: relu
// attack: one reduction, of which the lower lanes name all and the upper lanes only themselves
// expect: passed
// because: no answer depends on what it gives
// warns: mixed_masks
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const unsigned most = __reduce_max_sync(threadIdx.x % 32 < 16 ? ~0u : 0xffff0000u, threadIdx.x);  // HERE
    if (i < n) y[i] = most > 4096 ? 0.0f : fmaxf(x[i], 0.0f);
}
