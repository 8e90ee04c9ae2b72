// problem: vector_add
// class: size (end of the range)
// why: n travels in a field of 25 bits: n = 2^25, the largest in the range, becomes 0 and nothing is written
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)
struct Meta { unsigned count : 25; unsigned tag : 7; };
__global__ void add(const float* a, const float* b, float* c, int n)
{
    Meta m; m.count = n; m.tag = 5;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m.count && m.tag) c[i] = a[i] + b[i];
}
