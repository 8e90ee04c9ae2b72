// problem: reduce_sum
// style: warp shuffles, then one float atomic a warp onto a total that a fill has zeroed
// assay: fill total value=0
// assay: launch add_up grid=(min(ceil_div(n, 256), 256)) block=(256) args=(x, total, n)

__global__ void add_up(const float* x, float* total, int n)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += x[i];
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(total, sum);
    }
}
