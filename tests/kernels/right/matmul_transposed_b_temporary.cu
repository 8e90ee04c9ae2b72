// problem: matmul
// assay: temp bt float32 (n, k)
// assay: launch turn grid=(ceil_div(n, 32), ceil_div(k, 32)) block=(32, 8) args=(b, bt, k, n)
// assay: launch dots grid=(ceil_div(n, 32), ceil_div(m, 8)) block=(32, 8) args=(a, bt, c, m, n, k)
// style: b is turned into a temporary first, then every element is a dot product of two rows, float4 where k allows
__global__ void turn(const float* b, float* bt, int k, int n)
{
    __shared__ float t[32][33];
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int l = blockIdx.y * 32 + i, j = blockIdx.x * 32 + threadIdx.x;
        if (l < k && j < n) t[i][threadIdx.x] = b[(size_t)l * n + j];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int j = blockIdx.x * 32 + i, l = blockIdx.y * 32 + threadIdx.x;
        if (l < k && j < n) bt[(size_t)j * k + l] = t[threadIdx.x][i];
    }
}

__global__ void dots(const float* a, const float* bt, float* c, int m, int n, int k)
{
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m || col >= n) return;
    const float* u = a + (size_t)row * k;
    const float* v = bt + (size_t)col * k;
    float4 s = make_float4(0, 0, 0, 0);
    int l = 0;
    if (k % 4 == 0) {
        for (; l < k; l += 4) {
            const float4 p = *(const float4*)(u + l), q = *(const float4*)(v + l);
            s.x += p.x * q.x;
            s.y += p.y * q.y;
            s.z += p.z * q.z;
            s.w += p.w * q.w;
        }
    }
    for (; l < k; ++l) s.x += u[l] * v[l];
    c[(size_t)row * n + col] = (s.x + s.y) + (s.z + s.w);
}
