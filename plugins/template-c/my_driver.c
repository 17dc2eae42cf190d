/* A driver with one operator: Add of s8 tensors of one shape. It works in host memory and finishes inside submit. */
#include "ottava_host_device.h"
#include <math.h>

/* A compiled program: each node is the real number of every byte of both inputs, and how the sum becomes a byte. */
typedef struct { uint32_t value[3]; int32_t zero; float real[2][256], scale; } step;
typedef struct { uint32_t n_values, n_steps, n_in, n_io, *io; uint64_t* bytes; step* steps; } program;

#define NAME "my-driver"

/* ---- What the device runs: the table for the host, and the same in words (0: not refused) ---- */

#define S8_OPERAND {1u << OTTAVA_DTYPE_S8, 1u << OTTAVA_SCHEME_PER_TENSOR, 0}
static const ottava_operand_v1 S8_PAIR[2] = {S8_OPERAND, S8_OPERAND};
static const ottava_op_row_v1 ROW = {.op = OTTAVA_LITERAL("Add"), .version_min = 7, .version_max = UINT32_MAX,
    .inputs = {S8_PAIR, 2, sizeof *S8_PAIR, 0}, .outputs = {S8_PAIR, 1, sizeof *S8_PAIR, 0},
    .requant_modes = 1u << OTTAVA_REQUANT_FP32_RNE, .rank_max = UINT32_MAX, .exact = 1};

static int32_t op_table(ottava_device* d, ottava_slice* rows) {
    (void)d;
    return *rows = ottava_array(&ROW, 1, sizeof ROW), OTTAVA_OK;
}

static uint32_t refuse(const char** why, uint32_t reason, const char* words) { return *why = words, reason; }

/* Operand i of a node: the inputs are 0 and 1, the output is 2. */
static uint64_t edge_of(const ottava_node_v1* n, int i) { return i < 2 ? (uint64_t)n->in_first + i : n->out_first; }

static uint32_t refusal(const ottava_program_v1* p, const ottava_node_v1* n, const char** why) {
    uint64_t n_elements[3];
    if (strcmp(ottava_name(p, n->op), "Add") != 0 || *ottava_name(p, n->domain))
        return refuse(why, OTTAVA_REASON_OP_UNKNOWN, "the only operator is Add");
    if (n->op_version < 7) return refuse(why, OTTAVA_REASON_OP_VERSION, "version 7 or later");
    if (n->requant_mode > OTTAVA_REQUANT_FP32_RNE) return refuse(why, OTTAVA_REASON_REQUANT_MODE, "only fp32_rne");
    if (n->flags) return refuse(why, OTTAVA_REASON_FUSION_REQUIRED, "nothing can be fused");
    if (n->in_count != 2 || n->out_count != 1) return refuse(why, OTTAVA_REASON_OTHER, "two inputs and one output");
    for (int i = 0; i < 3; i++) {
        const ottava_value_v1* v = ottava_edge_at(p, edge_of(n, i));
        const ottava_quant_v1* q = ottava_quant_of(p, v);
        if (!v || v->const_idx != OTTAVA_INDEX_NONE) return refuse(why, OTTAVA_REASON_OTHER, "no constant operands");
        if (v->dtype != OTTAVA_DTYPE_S8) return refuse(why, OTTAVA_REASON_DTYPE, "the only element type is s8");
        if (!q || q->scheme != OTTAVA_SCHEME_PER_TENSOR || q->scale_first >= p->scales.len || q->zp_first >= p->zps.len)
            return refuse(why, OTTAVA_REASON_QUANT_SCHEME, "one scale per tensor");
        if (v->layout > OTTAVA_LAYOUT_NCHW) return refuse(why, OTTAVA_REASON_LAYOUT, "row-major tensors");
        n_elements[i] = ottava_elements_of(p, v);
        if (!n_elements[i]) return refuse(why, OTTAVA_REASON_DYNAMIC_SHAPE, "fixed shapes");
    }
    if (n_elements[0] == n_elements[2] && n_elements[1] == n_elements[2]) return 0;
    return refuse(why, OTTAVA_REASON_SHAPE_LIMIT, "both inputs have the shape of the output");
}

static int32_t assess(ottava_device* d, const ottava_program_v1* p, ottava_slice_mut out, ottava_error_v1* err) {
    (void)d;
    if (!p || out.len != p->nodes.len) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "one verdict per node");
    for (uint64_t i = 0; i < p->nodes.len; i++) {
        const char* why = "";
        ottava_verdict_v1* v = OTTAVA_AT(ottava_verdict_v1, out, i);
        memset(v, 0, sizeof *v);
        v->node = ottava_node_at(p, i)->id;
        v->reason = refusal(p, ottava_node_at(p, i), &why);
        v->state = v->reason ? OTTAVA_REJECTED : OTTAVA_SUPPORTED, v->flags = v->reason ? 0 : OTTAVA_VERDICT_EXACT;
        strncpy(v->detail, why, sizeof v->detail - 1);
    }
    return OTTAVA_OK;
}

static int32_t estimate(ottava_device* d, const ottava_program_v1* p, ottava_cost_v1* out, ottava_error_v1* err) {
    (void)d;
    if (!p || !out) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "program or out");
    out->time_ns = out->energy_pj = out->workspace_bytes = out->weight_bytes = 0;
    for (uint64_t i = 0; i < p->nodes.len; i++) /* One element per nanosecond. */
        out->time_ns += ottava_elements_of(p, ottava_edge_at(p, ottava_node_at(p, i)->out_first));
    out->confidence = OTTAVA_CONFIDENCE_DATASHEET;
    return OTTAVA_OK;
}

/* ---- Programs ---- */
/* The numeric contract, section 4: dequantize both, one addition in f32, quantize by a true division. The products are
   stored as f32 here, so that no compiler can fuse one with the addition. */
static void fill(const ottava_program_v1* p, const ottava_node_v1* n, step* s) {
    for (int i = 0; i < 3; i++) {
        const ottava_quant_v1* quant = ottava_quant_of(p, ottava_edge_at(p, edge_of(n, i)));
        float scale = *OTTAVA_AT(float, p->scales, quant->scale_first);
        int32_t zero = *OTTAVA_AT(int32_t, p->zps, quant->zp_first);
        s->value[i] = *OTTAVA_AT(const uint32_t, p->edges, edge_of(n, i));
        for (int q = -128; i < 2 && q < 128; q++) s->real[i][(uint8_t)q] = scale * (float)((int64_t)q - zero);
        s->scale = scale, s->zero = zero; /* The last one is the output's. */
    }
}

static int8_t add(const step* s, int8_t a, int8_t b) {
    float t = nearbyintf((s->real[0][(uint8_t)a] + s->real[1][(uint8_t)b]) / s->scale) + (float)s->zero;
    return (int8_t)(t >= 127.0f ? 127 : t > -128.0f ? (int32_t)t : -128);
}

static void exec_release(ottava_device* d, ottava_exec* exec) {
    program* e = (program*)exec;
    (void)d;
    if (e) free(e->bytes), free(e->io), free(e->steps);
    free(e);
}

static int32_t compile(ottava_device* d, const ottava_program_v1* p, const ottava_compile_opts_v1* opts,
                       ottava_exec** out, ottava_error_v1* err) {
    const char* why = "";
    if (!p || !opts || !out) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "program, opts or out is NULL");
    for (uint64_t i = 0; i < p->nodes.len; i++)
        if (refusal(p, ottava_node_at(p, i), &why)) return ottava_fail(err, OTTAVA_UNSUPPORTED, why);
    program* e = calloc(1, sizeof *e);
    if (e) {
        e->n_values = (uint32_t)p->values.len, e->n_steps = (uint32_t)p->nodes.len;
        e->n_in = (uint32_t)p->inputs.len, e->n_io = e->n_in + (uint32_t)p->outputs.len;
        e->bytes = calloc(e->n_values + 1u, sizeof *e->bytes);
        e->io = calloc(e->n_io + 1u, sizeof *e->io), e->steps = calloc(e->n_steps + 1u, sizeof *e->steps);
    }
    if (!e || !e->bytes || !e->io || !e->steps)
        return exec_release(d, (ottava_exec*)e), ottava_fail(err, OTTAVA_OUT_OF_HOST_MEMORY, "no memory for a program");
    for (uint32_t i = 0; i < e->n_values; i++) e->bytes[i] = ottava_elements_of(p, ottava_value_at(p, i));
    for (uint32_t i = 0; i < e->n_io; i++) {
        e->io[i] = *(i < e->n_in ? OTTAVA_AT(uint32_t, p->inputs, i) : OTTAVA_AT(uint32_t, p->outputs, i - e->n_in));
        if (e->io[i] < e->n_values) continue;
        return exec_release(d, (ottava_exec*)e), ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "an input that is no value");
    }
    for (uint32_t i = 0; i < e->n_steps; i++) fill(p, ottava_node_at(p, i), &e->steps[i]);
    *out = (ottava_exec*)e;
    return OTTAVA_OK;
}

static int32_t exec_io(ottava_device* d, ottava_exec* exec, uint32_t cap, ottava_io_req_v1* out, uint32_t* count,
                       ottava_error_v1* err) {
    const program* e = (const program*)exec;
    (void)d, *count = e->n_io;
    if (cap && cap < e->n_io) return ottava_fail(err, OTTAVA_BUFFER_TOO_SMALL, "the count says how many");
    for (uint32_t i = 0; cap && i < e->n_io; i++)
        out[i] = ottava_host_io(e->io[i], i < e->n_in ? OTTAVA_IO_INPUT : OTTAVA_IO_OUTPUT, e->bytes[e->io[i]]);
    return OTTAVA_OK;
}

/* Intermediate results live for one run, so that several runs may be under way. */
static int32_t run(const program* e, const ottava_command_v1* c, ottava_error_v1* err) {
    int32_t code = c->bindings.len == e->n_io ? OTTAVA_OK : ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "bindings");
    int8_t **v = calloc(e->n_values + 1u, sizeof *v), **own = calloc(e->n_values + 1u, sizeof *own);
    if (!v || !own) code = ottava_fail(err, OTTAVA_OUT_OF_HOST_MEMORY, "no memory for a run");
    for (uint32_t i = 0; !code && i < e->n_io; i++) {
        const ottava_binding_v1* b = OTTAVA_AT(const ottava_binding_v1, c->bindings, i);
        v[e->io[i]] = (int8_t*)ottava_host_bytes(b->buffer, b->offset, b->len);
        if (!v[e->io[i]] || b->len != e->bytes[e->io[i]])
            code = ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "a binding is outside its buffer or of another size");
    }
    for (uint32_t i = 0; !code && i < e->n_steps; i++) {
        const step* s = &e->steps[i];
        uint32_t a = s->value[0], b = s->value[1], y = s->value[2];
        if (!v[y]) v[y] = own[y] = malloc(e->bytes[y] + 1);
        if (!v[a] || !v[b] || !v[y]) code = ottava_fail(err, OTTAVA_OUT_OF_HOST_MEMORY, "no memory for a result");
        for (uint64_t k = 0; !code && k < e->bytes[y]; k++) v[y][k] = add(s, v[a][k], v[b][k]);
    }
    for (uint32_t i = 0; own && i < e->n_values; i++) free(own[i]);
    free(v), free(own);
    return code;
}

static int32_t submit(ottava_device* d, ottava_queue* q, const ottava_submit_v1* s, ottava_error_v1* err) {
    int32_t code = d && q && s ? OTTAVA_OK : ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "device, queue or submit");
    for (uint64_t i = 0; !code && i < s->commands.len; i++) {
        const ottava_command_v1* c = OTTAVA_AT(const ottava_command_v1, s->commands, i);
        code = c->op == OTTAVA_COMMAND_DISPATCH ? run((const program*)c->exec, c, err) : ottava_host_move(c, err);
    }
    return code;
}

/* ---- Driver ---- */
static void close(ottava_device* d) { (void)d; }
static void shutdown(void* ctx) { (void)ctx; }

static int32_t enumerate(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err) {
    ottava_device_info_v1 info = {.size = sizeof info, .kind = OTTAVA_KIND_DEVICE_INFO,
        .device_kind = OTTAVA_DEVICE_DSP, .name = "My device", .flags = OTTAVA_DEVICE_FLAG_SYNC_ONLY, .n_queues = 1,
        .alignment = 1, .n_memory_types = 1, .memory_types = {OTTAVA_HOST_MEMORY},
        .link = {.mode = OTTAVA_LINK_NATIVE, .latency_ns = 1000}};
    ottava_host_uuid(info.uuid, NAME, NAME);
    (void)ctx;
    return ottava_host_one_device(&info, cap, out, count, err);
}

static int32_t open(void* ctx, const uint8_t uuid[16], ottava_slice opts, ottava_device** out, ottava_error_v1* err) {
    static char device; /* It keeps no state: any address will do. */
    uint8_t mine[16];
    if (!uuid || !out) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "open: uuid or out is NULL");
    ottava_host_uuid(mine, NAME, NAME);
    if (memcmp(uuid, mine, sizeof mine) != 0) return ottava_fail(err, OTTAVA_NOT_FOUND, "no device has this uuid");
    (void)ctx, (void)opts, *out = (ottava_device*)&device;
    return OTTAVA_OK;
}

static const ottava_device_vtbl_v1 VTBL = {OTTAVA_HOST_DEVICE, .close = close, .op_table = op_table, .assess = assess,
    .estimate = estimate, .compile = compile, .exec_io = exec_io, .exec_release = exec_release, .submit = submit};
static const ottava_driver_v1 DRIVER = {OTTAVA_PLAIN_DRIVER, .name = OTTAVA_LITERAL(NAME),
    .vendor = OTTAVA_LITERAL("My Company"), .version = OTTAVA_LITERAL("0.1.0"), .device = &VTBL,
    .enumerate = enumerate, .open = open, .shutdown = shutdown};
OTTAVA_EXPORT_TABLE(NAME, "0.1.0", DRIVER)
