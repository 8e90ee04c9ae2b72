// problem: matvec
// assay: temp products float64 (m, 32)
// assay: launch lane_products grid=(ceil_div(m, 6)) block=(192) args=(a, x, products, m, k)
// assay: launch fold_lanes grid=(ceil_div(m, 64)) block=(64) args=(products, y, m)
// style: each lane leaves its double in a temporary of m by 32, a second launch folds the 32 without any shuffle
__global__ void lane_products(const float* a, const float* x, double* products, int m, int k)
{
    const int row = blockIdx.x * 6 + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= m) return;
    double s = 0.0;
    for (int j = lane; j < k; j += 32) s += (double)a[(long long)row * k + j] * (double)x[j];
    products[row * 32LL + lane] = s;
}

__global__ void fold_lanes(const double* products, float* y, int m)
{
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= m) return;
    const double2* p = reinterpret_cast<const double2*>(products) + row * 16LL;
    double s = 0.0;
    for (int i = 0; i < 16; ++i) s += p[i].x + p[i].y;
    y[row] = (float)s;
}
