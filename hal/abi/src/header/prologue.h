/* ottava_driver.h: the plugin ABI of Ottava.
 *
 * Generated from the crate ottava-abi; do not edit. A driver is a shared library that exports one function,
 * ottava_driver_entry_v1, and one constant, ottava_abi_note; OTTAVA_EXPORT_DRIVER at the end of this file writes both.
 *
 * Rules. Every function returns a status code (OTTAVA_OK is 0) except the ones that close or release. No function
 * pointer in a table is NULL. Every struct passed by pointer begins { size, kind }; whoever receives it checks both.
 * Two-call functions are first asked with cap 0 for the count. Nothing is freed by the other side. Functions may be
 * called from any thread at the same time; submit is serialised by the host for each queue; close, reset and shutdown
 * run alone. No exception leaves a function: see OTTAVA_GUARD. Padding is zero. Enumerations are open: values that
 * are not known are refused with words, never assumed away.
 */
#ifndef OTTAVA_DRIVER_H
#define OTTAVA_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#include <exception>
#define OTTAVA_ASSERT(condition, what) static_assert(condition, what)
#define OTTAVA_EXTERN_C extern "C"
extern "C" {
#else
#define OTTAVA_ASSERT(condition, what) _Static_assert(condition, what)
#define OTTAVA_EXTERN_C
#endif

OTTAVA_ASSERT(sizeof(void*) == 8, "Ottava drivers are 64-bit libraries");

