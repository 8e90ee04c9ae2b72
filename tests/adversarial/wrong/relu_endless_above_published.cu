// problem: relu
// class: sizes (left out)
// must: anything but passed
// why: never ends above n = 2^18, the largest published size; a larger size that does not end says little, as it may just be slow
// proof: n=262145
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__device__ int go = 1;  // in memory that others could write: ptxas takes a loop over a local variable to end
__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    while (n > (1 << 18) && *(volatile int*)&go) { }
    if (i < n) y[i] = fmaxf(x[i], 0.f);
}
