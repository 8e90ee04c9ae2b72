// problem: reduce_sum
// attack: adds onto a temporary that no step has filled
// expect: incorrect
// because: temporaries hold poison at the start of each run
// assay: temp partial float32 (1)
// assay: launch add_up grid=(ceil_div(n, 256)) block=(256) args=(x, partial, n)
// assay: launch finish grid=(1) block=(1) args=(partial, total)

__global__ void add_up(const float* x, float* partial, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(partial, x[i]);
}

__global__ void finish(const float* partial, float* total)
{
    *total = *partial;
}
