// problem: vector_add
// class: sizes (exact multiples)
// must: anything but passed
// why: a rest of exactly 512 elements behind the full tiles of 1,024 is in neither branch; few sizes are a multiple of 512 but not of 1,024
// proof: n=512
// assay: launch add grid=(ceil_div(n, 1024)) block=(512) args=(a, b, c, n)
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int base = blockIdx.x * 1024, t = threadIdx.x, left = n - base;
    a += base; b += base; c += base;
    if (left >= 1024) { c[t] = a[t] + b[t]; c[t + 512] = a[t + 512] + b[t + 512]; }
    else if (left > 512) { c[t] = a[t] + b[t]; if (t + 512 < left) c[t + 512] = a[t + 512] + b[t + 512]; }
    else if (left < 512) { if (t < left) c[t] = a[t] + b[t]; }
}
