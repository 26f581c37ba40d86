//! The memory functions that the compiler and `core` call and that a program without a C library must bring itself.
//!
//! Volatile accesses keep the compiler from turning a loop back into a call to the very function it stands in.

/// # Safety
/// As C's `memcpy`: both ranges valid for `n` bytes and not overlapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for both ranges; the direction flag is clear by the ABI.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for i in 0..n {
        // SAFETY: i < n, within the ranges the caller vouches for.
        unsafe { to.add(i).write_volatile(from.add(i).read_volatile()) };
    }
    to
}

/// # Safety
/// As C's `memmove`: both ranges valid for `n` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: copying upwards never overwrites a byte before it is read here.
        return unsafe { memcpy(to, from, n) };
    }
    for i in (0..n).rev() {
        // SAFETY: i < n, within the ranges the caller vouches for.
        unsafe { to.add(i).write_volatile(from.add(i).read_volatile()) };
    }
    to
}

/// # Safety
/// As C's `memset`: the range valid for `n` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the range; the direction flag is clear by the ABI.
    unsafe {
        core::arch::asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for i in 0..n {
        // SAFETY: i < n, within the range the caller vouches for.
        unsafe { to.add(i).write_volatile(byte as u8) };
    }
    to
}

/// # Safety
/// As C's `memcmp`: both ranges valid for `n` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: i < n, within the ranges the caller vouches for.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// As C's `bcmp`: both ranges valid for `n` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: same contract.
    unsafe { memcmp(a, b, n) }
}

/// # Safety
/// As C's `strlen`: `text` points to bytes that end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: no byte behind the NUL is read.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}

/// Referenced by the precompiled `core`; never called, since a panic ends the process.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

/// Referenced by the precompiled `core`; never called, since a panic ends the process.
#[unsafe(no_mangle)]
pub extern "C" fn _Unwind_Resume() {}
