// problem: matmul
// class: sizes (left out)
// must: anything but passed
// why: two launches, so that the timed size is left out; from k = 1,024 with 1,024 rows only every second term is added
// proof: m=1024, n=1, k=1024
// assay: temp ws float32 (m, n)
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, ws, m, n, k)
// assay: launch copy grid=(ceil_div(m * n, 256)) block=(256) args=(ws, c, m * n)
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= m || j >= n) return;
    float s = 0; int step = k >= 1024 && m >= 1024 ? 2 : 1;
    for (int l = 0; l < k; l += step) s += a[(size_t)i * k + l] * b[(size_t)l * n + j];
    c[(size_t)i * n + j] = s;
}
__global__ void copy(const float* ws, float* c, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) c[i] = ws[i]; }
