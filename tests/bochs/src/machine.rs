//! What a program needs where there is no system: memory, output, an end, and the functions that compiled code calls.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::asm;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The heap: from above the image to the end of what the boot sector maps.
const HEAP: core::ops::Range<usize> = 0x80_0000..0x400_0000;

/// Hands out memory in order. A case that has ended takes everything back by [`reset`].
struct Bump(AtomicUsize);

#[global_allocator]
static ALLOCATOR: Bump = Bump(AtomicUsize::new(HEAP.start));

// SAFETY: addresses only grow between resets, so pieces never overlap; they lie in mapped memory that nothing else uses.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let at = self.0.load(Ordering::Relaxed).next_multiple_of(layout.align());
        let end = at + layout.size();
        if end > HEAP.end {
            return core::ptr::null_mut();
        }
        self.0.store(end, Ordering::Relaxed);
        at as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// How much of the heap is in use.
pub fn mark() -> usize {
    ALLOCATOR.0.load(Ordering::Relaxed)
}

/// Takes back what was handed out after `mark`.
///
/// # Safety
/// None of it is used any more.
pub unsafe fn reset(mark: usize) {
    ALLOCATOR.0.store(mark, Ordering::Relaxed);
}

/// The first serial port.
pub struct Serial;

impl Serial {
    /// Sets the port to its fastest rate, eight bits, no interrupts.
    pub fn start() {
        for (port, byte) in [(0x3fb, 0x80), (0x3f8, 1), (0x3f9, 0), (0x3fb, 3), (0x3fc, 3)] {
            // SAFETY: the ports of a device that the emulator has.
            unsafe { write(port, byte) };
        }
    }
}

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the port of a device that the emulator has.
            while unsafe { read(0x3fd) } & 0x20 == 0 {}
            // SAFETY: as above.
            unsafe { write(0x3f8, byte) };
        }
        Ok(())
    }
}

/// Ends the emulator, once the serial port has sent everything.
pub fn shut_down() -> ! {
    // SAFETY: as for `Serial`.
    while unsafe { read(0x3fd) } & 0x40 == 0 {}
    for byte in *b"Shutdown" {
        // SAFETY: the emulator's own port.
        unsafe { write(0x8900, byte) };
    }
    loop {
        // SAFETY: stops the CPU.
        unsafe { asm!("hlt") };
    }
}

unsafe fn write(port: u16, byte: u8) {
    // SAFETY: the caller chose the port.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, nomem)) };
}

unsafe fn read(port: u16) -> u8 {
    let byte: u8;
    // SAFETY: the caller chose the port.
    unsafe { asm!("in al, dx", in("dx") port, out("al") byte, options(nostack, nomem)) };
    byte
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(Serial, "FAILED: {info}");
    shut_down()
}

/// # Safety
/// As in C. The same holds for the other three.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack)) };
    to
}

/// # Safety
/// See [`memcpy`].
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: copying upwards does not overwrite what is still to be read.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: the caller's promise; copying downwards from the last byte.
    unsafe {
        let (last_to, last_from) = (to.add(n).wrapping_sub(1), from.add(n).wrapping_sub(1));
        asm!("std", "rep movsb", "cld", inout("rcx") n => _, inout("rdi") last_to => _, inout("rsi") last_from => _,
            options(nostack));
    }
    to
}

/// # Safety
/// See [`memcpy`].
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8, options(nostack)) };
    to
}

/// # Safety
/// See [`memcpy`].
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: the caller's promise; volatile, so that the loop does not become a call of this very function.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// See [`memcpy`].
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, n) }
}
