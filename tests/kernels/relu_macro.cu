// problem: relu
// style: the kernel comes out of a macro
// assay: launch relu_f32 grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)

#define ELEMENTWISE(NAME, TYPE, EXPRESSION)                                   \
    extern "C" __global__ void NAME(const TYPE* x, TYPE* y, int n)            \
    {                                                                         \
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;            \
             i += gridDim.x * blockDim.x) {                                   \
            const TYPE v = x[i];                                              \
            y[i] = EXPRESSION;                                                \
        }                                                                     \
    }

ELEMENTWISE(relu_f32, float, fmaxf(v, 0.0f))
ELEMENTWISE(relu_f64, double, fmax(v, 0.0))
ELEMENTWISE(square_f32, float, v * v)
