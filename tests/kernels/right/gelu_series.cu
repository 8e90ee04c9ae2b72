// problem: gelu
// assay: launch gelu_series grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)
// style: no erf of the library: a power series in double near zero, a continued fraction by recursion farther out
__device__ double power_series(double z)
{
    double term = z, sum = z;
    for (int k = 1; k < 60; ++k) {
        term *= -z * z / k;
        const double add = term / (2 * k + 1);
        sum += add;
        if (fabs(add) < 1e-17 * fabs(sum)) break;
    }
    return sum * 1.1283791670955126;
}

template <int Level> __device__ double fraction(double z)
{
    if constexpr (Level > 24) return z;
    else return z + (0.5 * Level) / fraction<Level + 1>(z);
}

__device__ double erf_by_hand(double z)
{
    const double a = fabs(z);
    if (a < 2.5) return power_series(z);
    if (a > 6.0) return copysign(1.0, z);
    return copysign(1.0 - exp(-a * a) / (fraction<1>(a) * 1.7724538509055159), z);
}

__global__ void gelu_series(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = float(x[i] * 0.5 * (1.0 + erf_by_hand(x[i] * 0.70710678118654752)));
}
