/* The C template with one thing wrong in its tables. Exactly one WRONG_* is defined by the test. */
#include "ottava_host_device.h"
#undef OTTAVA_EXPORT_DRIVER
#define OTTAVA_EXPORT_DRIVER(name, version, entry)
#include "my_driver.c"

#ifndef NOTE_NAME
#define NOTE_NAME "my-driver"
#endif

#ifndef WRONG_NO_NOTE
OTTAVA_EXPORT OTTAVA_SECTION const ottava_abi_note_v1 ottava_abi_note = {
    {'O', 'T', 'T', 'A', 'V', 'A', 'v', '1'}, OTTAVA_ABI_MAJOR, OTTAVA_ABI_MAJOR, OTTAVA_ABI_MAJOR, OTTAVA_ABI_MINOR,
    OTTAVA_ABI_PATCH, OTTAVA_DOOR_C, OTTAVA_CORE_HASH, NOTE_NAME, "0.1.0"};
#endif

static ottava_device_vtbl_v1 vtbl;
static ottava_driver_v1 driver;

/* Says yes to every extension. */
static int32_t any_extension(void* ctx, ottava_str name, ottava_ext_v1* out) {
    static const uint64_t table[8];
    (void)ctx, (void)name;
    out->table = table;
    out->layout_hash = 42;
    return OTTAVA_OK;
}

static int32_t any_device_extension(ottava_device* d, ottava_str name, ottava_ext_v1* out) {
    (void)d;
    return any_extension(NULL, name, out);
}

/* Has the profile extension of another layout. */
static int32_t other_profile(ottava_device* d, ottava_str name, ottava_ext_v1* out) {
    static const char profile[] = "ottava.profile/1";
    (void)d;
    if (name.len == sizeof profile - 1 && memcmp(name.ptr, profile, name.len) == 0) return any_extension(NULL, name, out);
    return OTTAVA_NOT_FOUND;
}

/* Counts one device more than it fills in. */
static int32_t counts_one_more(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count,
                               ottava_error_v1* err) {
    int32_t code = enumerate(ctx, cap, out, count, err);
    if (cap == 0 && count) *count += 1;
    return code;
}

/* Believes that every element is as long as its own. */
static int32_t size_ignored(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count,
                            ottava_error_v1* err) {
    for (uint32_t i = 0; out && i < cap; i++) out[i].size = sizeof *out;
    return enumerate(ctx, cap, out, count, err);
}

/* Fails without a word. */
static int32_t mute_open(void* ctx, const uint8_t uuid[16], ottava_slice options, ottava_device** out,
                         ottava_error_v1* err) {
    int32_t code = open(ctx, uuid, options, out, err);
    if (code != OTTAVA_OK && err) err->message[0] = 0;
    return code;
}

/* Writes the count wherever it is. */
static int32_t null_count(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err) {
    *(volatile uint32_t*)count = 1;
    return enumerate(ctx, cap, out, count, err);
}

/* The last call, which does not return. */
static void endless_shutdown(void* ctx) {
    (void)ctx;
    for (volatile int forever = 1; forever;) {
    }
}

static void aborting_shutdown(void* ctx) {
    (void)ctx;
    abort();
}

#ifdef WRONG_UNDEFINED
extern int32_t nobody_has_this(void);
#endif

#ifdef WRONG_EXPORT
/* What another library of the process may define as well. */
OTTAVA_EXPORT int32_t protobuf_shutdown(void) { return 0; }
#endif

OTTAVA_EXPORT int32_t ottava_driver_entry_v1(const ottava_host_v1* host, const ottava_driver_v1** out,
                                             ottava_error_v1* err) {
    (void)host, (void)err;
    (void)any_device_extension, (void)other_profile, (void)counts_one_more, (void)size_ignored, (void)mute_open;
    (void)null_count, (void)endless_shutdown, (void)aborting_shutdown;
    vtbl = VTBL;
    driver = DRIVER;
    driver.device = &vtbl;
    *out = &driver;
#if defined(WRONG_NULL_SUBMIT)
    vtbl.submit = NULL;
#elif defined(WRONG_NULL_SHUTDOWN)
    driver.shutdown = NULL;
#elif defined(WRONG_TABLE_SIZE)
    vtbl.size += 8;
#elif defined(WRONG_ANY_EXTENSION)
    driver.query_extension = any_extension;
#elif defined(WRONG_PROFILE)
    vtbl.query_extension = other_profile;
#elif defined(WRONG_COUNT)
    driver.enumerate = counts_one_more;
#elif defined(WRONG_SIZE_IGNORED)
    driver.enumerate = size_ignored;
#elif defined(WRONG_MUTE)
    driver.open = mute_open;
#elif defined(WRONG_NULL_COUNT)
    driver.enumerate = null_count;
#elif defined(WRONG_SHUTDOWN_ENDLESS)
    driver.shutdown = endless_shutdown;
#elif defined(WRONG_SHUTDOWN_ABORTS)
    driver.shutdown = aborting_shutdown;
#elif defined(WRONG_UNDEFINED)
    return nobody_has_this();
#elif defined(WRONG_ENTRY_FAILS)
    return ottava_fail(err, OTTAVA_NOT_FOUND, "the kernel module is not loaded");
#endif
    return OTTAVA_OK;
}
