// problem: scalar_multiply
// class: memory
// must: anything but passed
// why: bit 1 of a local array that nobody wrote decides; patterns of undefined memory such as 0xff have it set
// proof: C++: an indeterminate value; wrong where local memory holds 0
// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)
__global__ void k(const float* x, float* y, float alpha, int n)
{
    volatile int flags[4];
    if (n < 0) flags[n & 3] = 2;
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float f = alpha;
    if (!(flags[threadIdx.x & 3] & 2)) f = 0.f;
    y[i] = f * x[i];
}
