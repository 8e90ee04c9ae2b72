// problem: reduce_sum
// class: sizes
// must: anything but passed
// why: three levels of blocks of 256 add 256^3 = 2^24 elements; above, the last level ignores all partial sums but the first 256 (timed at 2^22)
// proof: assay grade --size n=20000000 refuses it
// assay: temp level1 float32 (ceil_div(n, 256))
// assay: temp level2 float32 (ceil_div(n, 65536))
// assay: launch reduce256 grid=(ceil_div(n, 256)) block=(256) args=(x, level1, n)
// assay: launch reduce256 grid=(ceil_div(n, 65536)) block=(256) args=(level1, level2, ceil_div(n, 256))
// assay: launch reduce256 grid=(1) block=(256) args=(level2, total, ceil_div(n, 65536))
#include <cub/block/block_reduce.cuh>

extern "C" __global__ void reduce256(const float* in, float* out, int count)
{
    typedef cub::BlockReduce<float, 256, cub::BLOCK_REDUCE_WARP_REDUCTIONS> BlockReduce;
    __shared__ typename BlockReduce::TempStorage scratch;
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float sum = BlockReduce(scratch).Sum(i < count ? in[i] : 0.0f);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
