// problem: reduce_sum
// class: schedule
// race: divergence
// must: passed with a warning | anything but passed
// why: the leader of a group is chosen by one __activemask(), the group's sum is gathered over another: the two need not be the same lanes, so values are added twice or left out
// proof: CUDA guide, __activemask: two calls in a row may return different masks
// assay: fill total value=0
// assay: launch sum grid=(min(ceil_div(n, 256), 300)) block=(256) args=(x, total, n)

__global__ void sum(const float* x, float* total, int n)
{
    const int lane = threadIdx.x & 31;
    double s = 0.0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        s += x[i];
    }
    if (s != 0.0) {
        const int leader = __ffs(__activemask()) - 1;
        double all = 0.0;
        for (int from = 0; from < 32; ++from) {
            const unsigned mask = __activemask();
            const double v = __shfl_sync(mask, s, from);
            if (mask >> from & 1) all += v;
        }
        if (lane == leader) atomicAdd(total, (float)all);
    }
}
