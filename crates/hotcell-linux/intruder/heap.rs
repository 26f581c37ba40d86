//! Memory for a program that lives for one attack: taken from the kernel in pieces, never given back.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{nr, sys};

const PIECE: usize = 1 << 20;

struct Heap {
    next: AtomicUsize,
    end: AtomicUsize,
}

#[global_allocator]
static HEAP: Heap = Heap { next: AtomicUsize::new(0), end: AtomicUsize::new(0) };

// SAFETY: every block is fresh memory of its own, aligned as asked. The program allocates from one thread only: attacks
// that start threads give them nothing to allocate.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let place = self.next.load(Ordering::Relaxed).next_multiple_of(layout.align());
        if place != 0 && place + layout.size() <= self.end.load(Ordering::Relaxed) {
            self.next.store(place + layout.size(), Ordering::Relaxed);
            return place as *mut u8;
        }
        let size = (layout.size() + layout.align()).next_multiple_of(PIECE);
        const READ_WRITE: usize = 3;
        const PRIVATE_ANONYMOUS: usize = 0x22;
        match sys::call(nr::MMAP, &[0, size, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0]) {
            Ok(start) => {
                let place = start.next_multiple_of(layout.align());
                self.next.store(place + layout.size(), Ordering::Relaxed);
                self.end.store(start + size, Ordering::Relaxed);
                place as *mut u8
            }
            Err(_) => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
