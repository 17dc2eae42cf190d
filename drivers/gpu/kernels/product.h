// What the kernels of products share: the dot product of words, and what becomes of a sum (numerics.md sections 3, 4, 7).
//
// Operands are held as s8 while they are multiplied: the bytes of u8 operands are flipped (XOR 0x80) and their zero
// points moved by 128, so one dot product does for all. Channels come in tiles of four; `channels` holds four words per
// channel: bias, multiplier, shift, float bias; behind all of them the first word of x of each tile.
//
// params that the end of a product reads:
//  32 type of y, 33 words of y from row to row, 34 zero point, 35 lowest, 36 highest, 37 scale of y (bits; 0: a float)
//  38 type of the residual (0: none), 39 its words from row to row, 40 its zero point, 41 its scale (bits; 0: a float)
//  42 whether there is an activation, 43 its lower bound, 44 its upper bound (bits of f32)

// What becomes of the sums, a specialization constant: 1 to 3 are the requantization modes.
#define TO_REAL 4
#define AS_THEY_ARE 5

#ifdef REAL
#define SUM float
#define ZERO_SUM 0.0f
#define WITH_BIAS(sum, tile, c) (sum)
#else
#define SUM int
#define ZERO_SUM 0
// Modulo 2^32: sum and bias both hold what the zero points add, which cancels.
#define WITH_BIAS(sum, tile, c) TO_INT(TO_UINT(sum) + channels[16 * (tile) + 4 * (c)])
#endif

// A float result: residual, activation.
float activated(float v, int bounded, float lo, float hi) {
    if (bounded != 0) {
        if (v < lo) v = lo;
        else if (v > hi) v = hi;
    }
    return v;
}

// An element of the result at the low end of a word, from a sum that became a float.
uint real_element(float v, int dtype, uint scale, int zp, int lo, int hi) {
    if (scale != 0u) return int_lane(quantize(v, FLOAT_OF(scale), zp, lo, hi), dtype, 0);
    return float_lane(v, dtype, 0);
}

// An operand of a float sum, out of its word.
float operand_value(uint word, int dtype, int lane, int zp, uint scale) {
    if (scale != 0u) return dequantize(lane_int(word, dtype, lane), zp, FLOAT_OF(scale));
    return lane_float(word, dtype, lane);
}

// Element `c` of a tile: from its sum, the channel's record, and the residual at the same place.
#define FINISHED(result, row, tile, c, sum, end)                                                                       \
    {                                                                                                                  \
        int record = 16 * (tile) + 4 * (c);                                                                            \
        int dtype = TO_INT(params[32]);                                                                                \
        int zp = TO_INT(params[34]);                                                                                   \
        int lo = TO_INT(params[35]);                                                                                   \
        int hi = TO_INT(params[36]);                                                                                   \
        if (end == TO_REAL) {                                                                                          \
            EXACT scaled = TO_FLOAT(sum) * FLOAT_OF(channels[record + 1]);                                             \
            EXACT value = scaled + FLOAT_OF(channels[record + 3]);                                                     \
            int other_type = TO_INT(params[38]);                                                                       \
            if (other_type != 0) {                                                                                     \
                int other_lanes = per_word(other_type);                                                                \
                int other_at = TO_INT(params[39]) * (row) + (4 * (tile) + (c)) / other_lanes;                          \
                if (4 * (tile) + (c) < TO_INT(params[4])) {                                                            \
                    value = value + operand_value(other[other_at], other_type, (c) % other_lanes, TO_INT(params[40]),  \
                                                  params[41]);                                                         \
                }                                                                                                      \
            }                                                                                                          \
            float clipped = activated(value, TO_INT(params[42]), FLOAT_OF(params[43]), FLOAT_OF(params[44]));           \
            result = real_element(clipped, dtype, params[37], zp, lo, hi);                                              \
        } else if (end == AS_THEY_ARE) {                                                                               \
            result = TO_UINT(sum);                                                                                     \
        } else {                                                                                                       \
            int shift = TO_INT(channels[record + 2]);                                                                  \
            result = int_lane(requantize(TO_INT(sum), end, channels[record + 1], shift, zp, lo, hi), dtype, 0);        \
        }                                                                                                              \
    }

// Writes the four elements of a tile of one row; `sum` is an expression of the channel `c`.
#define FINISH(row, tile, sum, end)                                                                                    \
    {                                                                                                                  \
        uint e[4];                                                                                                     \
        for (int c = 0; c < 4; ++c) {                                                                                  \
            uint result = 0u;                                                                                          \
            FINISHED(result, row, tile, c, sum, end)                                                                   \
            e[c] = result;                                                                                             \
        }                                                                                                              \
        int lanes = per_word(TO_INT(params[32]));                                                                      \
        int to = TO_INT(params[33]) * (row) + 4 * (tile) / lanes;                                                      \
        int channels_left = TO_INT(params[4]) - 4 * (tile);                                                            \
        if (lanes == 4) {                                                                                              \
            y[to] = e[0] | (e[1] << 8) | (e[2] << 16) | (e[3] << 24);                                                  \
        } else if (lanes == 2) {                                                                                       \
            y[to] = e[0] | (e[1] << 16);                                                                               \
            if (channels_left > 2) y[to + 1] = e[2] | (e[3] << 16);                                                    \
        } else {                                                                                                       \
            for (int c = 0; c < 4 && c < channels_left; ++c) y[to + c] = e[c];                                         \
        }                                                                                                              \
    }
