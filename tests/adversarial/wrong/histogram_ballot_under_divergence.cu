// problem: histogram
// class: warp
// must: passed with a warning | anything but passed
// why: lanes whose value is even or odd go different ways, and each way counts by a ballot of __activemask(): lanes of one way need not be together when the mask is taken, so a group may be split, and its leader adds another group's count
// proof: CUDA guide, __activemask and independent thread scheduling: no convergence is promised within a branch
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 256), 512)) block=(256) args=(values, counts, n)

__device__ void vote(int* counts, int v)
{
    unsigned left = __activemask();
    const unsigned lane = threadIdx.x & 31;
    while (true) {
        const int leader = __ffs(left) - 1;
        const int chosen = __shfl_sync(left, v, leader);
        const unsigned same = __ballot_sync(left, v == chosen);
        if (lane == leader) atomicAdd(&counts[chosen], __popc(same));
        if (v == chosen) return;
        left &= ~same;
    }
}

__global__ void hist(const int* values, int* counts, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        const int v = values[i];
        if (v & 1) vote(counts, v);
        else vote(counts, v);
    }
}
