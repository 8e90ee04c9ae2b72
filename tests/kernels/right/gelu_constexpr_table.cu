// problem: gelu
// assay: launch gelu_table grid=(min(ceil_div(n, 256), 2048)) block=(256) args=(x, y, n)
// style: a table of erf and its slope, computed by constexpr functions while it compiles; cubic Hermite pieces between
constexpr int knots = 160;
constexpr double step = 1.0 / 32.0;

struct knot {
    float value, slope;
};

struct erf_table {
    knot at[knots + 1];
};

constexpr double slope_at(double z)
{
    double power = 1.0, base = z * z / 1024.0, term = 1.0;
    for (int k = 1; k < 12; ++k) {
        term *= -base / k;
        power += term;
    }
    for (int k = 0; k < 10; ++k) power *= power;
    return 1.1283791670955126 * power;
}

constexpr erf_table make_table()
{
    erf_table table{};
    double sum = 0.0;
    for (int i = 0; i <= knots; ++i) {
        const double z = i * step;
        table.at[i].value = float(sum);
        table.at[i].slope = float(slope_at(z));
        sum += step / 6.0 * (slope_at(z) + 4.0 * slope_at(z + step / 2.0) + slope_at(z + step));
    }
    return table;
}

__device__ const erf_table table = make_table();

__global__ void gelu_table(const float* x, float* y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float v = x[i];
        const float z = fabsf(v) * 0.70710678f;
        float erf = 1.0f;
        if (z < 5.0f) {
            const float place = z * 32.0f;
            const int k = (int)place;
            const float t = place - k;
            const knot a = table.at[k], b = table.at[k + 1];
            const float h = 1.0f / 32.0f, d = b.value - a.value;
            const float c2 = 3.0f * d - h * (2.0f * a.slope + b.slope);
            const float c3 = h * (a.slope + b.slope) - 2.0f * d;
            erf = a.value + t * (h * a.slope + t * (c2 + t * c3));
        }
        y[i] = 0.5f * v + 0.5f * fabsf(v) * erf;
    }
}
