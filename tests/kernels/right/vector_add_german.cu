// problem: vector_add
// assay: launch vektoraddition grid=(ceil_div(n, 96)) block=(96) args=(a, b, c, n)
// style: Vorlesungsskript: German names and comments with umlauts, blocks of 96 threads, Windows line ends
// Übungsblatt 1, Aufgabe 2: Vektoraddition. Jeder Faden (Thread) addiert genau ein Paar.
__global__ void vektoraddition(const float *summand1, const float *summand2, float *summe, const size_t laenge)
{
    // globale Fadennummer; die Multiplikation muß in size_t erfolgen, sonst läuft sie über
    const size_t nummer = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (nummer >= laenge)   // überzählige Fäden im letzten Block
        return;

    summe[nummer] = summand1[nummer] + summand2[nummer];
}
