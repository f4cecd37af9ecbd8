/* sum over layers of max(flops * x, bytes * y) for every design, some of them in registers at a time: the machine's limit for brute force. */
#include <stddef.h>

#define KERNEL(NAME, T, WIDTH)                                                                                       \
    void NAME(const T *flops, const T *bytes, ptrdiff_t layers, const T *x, const T *y, T *latency, ptrdiff_t designs) \
    {                                                                                                                \
        for (ptrdiff_t start = 0; start < designs; start += WIDTH) {                                                 \
            T total[WIDTH], u[WIDTH], v[WIDTH];                                                                      \
            for (int i = 0; i < WIDTH; i++) { total[i] = 0; u[i] = x[start + i]; v[i] = y[start + i]; }              \
            for (ptrdiff_t layer = 0; layer < layers; layer++)                                                       \
                for (int i = 0; i < WIDTH; i++) {                                                                    \
                    T compute = flops[layer] * u[i], memory = bytes[layer] * v[i];                                   \
                    total[i] += compute > memory ? compute : memory;                                                 \
                }                                                                                                    \
            for (int i = 0; i < WIDTH; i++) latency[start + i] = total[i];                                           \
        }                                                                                                            \
    }

KERNEL(float64, double, 32)
KERNEL(float32, float, 64)
