// problem: vector_add
// attack: a #line far beyond the end, before a write out of bounds
// expect: runtime_error
// because: a fault is told even where its line cannot be shown
// fault: out_of_bounds
// message: line 2000003 by the source's own #line (the file has
// assay: launch add grid=(ceil_div(n + 1, 256)) block=(256) args=(a, b, c, n)

#line 2000000 "somewhere/else.cu"
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) c[i] = i < n ? a[i] + b[i] : 0.0f;
}
