// problem: reduce_sum
// attack: atomics onto an output that nobody has zeroed
// expect: incorrect
// because: outputs hold no defined value
// assay: launch add_up grid=(ceil_div(n, 256)) block=(256) args=(x, total, n)

__global__ void add_up(const float* x, float* total, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}
