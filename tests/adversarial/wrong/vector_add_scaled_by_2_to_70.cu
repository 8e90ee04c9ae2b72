// problem: vector_add
// class: contents
// must: anything but passed
// why: scales by 2^70 before adding, so sums of values above 2^58 (2.9e17) become infinite
// proof: a=b=1e18
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)
__global__ void add(const float* a, const float* b, float* c, int n)
{
    const float up = 0x1p70f, down = 0x1p-70f;
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) c[i] = (a[i] * up + b[i] * up) * down;
}
