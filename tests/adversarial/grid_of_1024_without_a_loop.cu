// problem: vector_add
// attack: launches 1,024 blocks whatever n is, and has no loop
// expect: incorrect
// because: hidden sizes lie above every published one, and what is not written is poison
// assay: launch k grid=(1024) block=(256) args=(a,b,c,n)
__global__ void k(const float*a,const float*b,float*c,int n){ int i=blockIdx.x*256+threadIdx.x; if(i<n) c[i]=a[i]+b[i]; }
