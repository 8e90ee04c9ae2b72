// problem: vector_add
// attack: hands out what a temporary still holds from the run before, then does the work for the next run
// expect: incorrect
// because: temporaries hold poison at the start of each run
// assay: temp kept float32 (n)
// assay: copy kept c
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, kept, n)

__global__ void add(const float* a, const float* b, float* next, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) next[i] = a[i] + b[i];
}
