// problem: vector_add
// attack: a tile copied in the background is read without waiting for it
// expect: incorrect
// because: a copy may land as late as its wait, and there is none
// message: cp.async
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    __shared__ float tile[256];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    unsigned place = (unsigned)__cvta_generic_to_shared(tile + t);
    if (i < n) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(a + i) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    __syncthreads();
    if (i < n) c[i] = tile[t] + b[i];
}
