// problem: matmul
// class: size (end of the range)
// why: depth is cut in 64 slices of at most 1,088: what lies beyond k = 69,632 is left out; k goes to 131,072
// assay: fill c value=0
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16), min(64, ceil_div(k, 1088))) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= m || j >= n) return;
    float s = 0; int end = min(k, (int)(blockIdx.z + 1) * 1088);
    for (int l = blockIdx.z * 1088; l < end; l++) s += a[(size_t)i * k + l] * b[(size_t)l * n + j];
    atomicAdd(&c[(size_t)i * n + j], s);
}
