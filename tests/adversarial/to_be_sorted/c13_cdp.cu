// problem: relu
// class: false hint, and compile_error for what the docs call unsupported by name
// why: a launch from device code ends as compile_error with the hint that a kernel returns void and takes its arguments by value
// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void kid(float*y){y[0]=0;}
__global__ void k(const float* x, float* y, int n){ if(n==-1) kid<<<1,1>>>(y); int i=blockIdx.x*256+threadIdx.x; if(i<n) y[i]=fmaxf(x[i],0.f);}
