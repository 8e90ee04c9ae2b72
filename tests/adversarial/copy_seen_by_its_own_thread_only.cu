// problem: relu
// attack: each thread waits for its own copies, but nobody waits for the others before reading theirs
// expect: incorrect
// because: wait_group speaks for one thread, a barrier has to follow
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    __shared__ float tile[256];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t, other = blockIdx.x * 256 + 255 - t;
    unsigned place = (unsigned)__cvta_generic_to_shared(tile + t);
    if (i < n) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(x + i) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (other < n) y[other] = fmaxf(tile[255 - t], 0.0f);
}
