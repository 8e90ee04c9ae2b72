// problem: vector_add
// class: sizes
// must: anything but passed
// why: the grid is rounded up with block - 2 in place of block - 1: where one element is left over for a block of 1,024, it has none
// proof: assay grade --size n=3073 refuses it
// assay: launch add grid=(max((n + 1022) // 1024, 1)) block=(1024) args=(a, b, c, n)

__global__ void add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
