//! What happens when memory runs out: one line, and the exit status that the book names.

use std::alloc::{GlobalAlloc, Layout, System};

/// `OUT_OF_MEMORY` of `tailback.start_up`.
const STATUS: libc::c_int = 4;
const LINE: &[u8] = b"tailback: out of memory\n";

/// The system's allocator. Where that has nothing left, Rust would abort: status 134, and no word of Tailback's.
pub struct OrEnd;

// SAFETY: the system's allocator, which has all it gave from `malloc` and `posix_memalign`, except for a null pointer, which
// never comes back.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for OrEnd {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        or_end(System.alloc(layout))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        or_end(System.alloc_zeroed(layout))
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        System.dealloc(at, layout);
    }

    /// A large table of cache lines grows by pages that move, too: the system's own way would copy it, with both there for a moment.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let grown = or_end(libc::realloc(at.cast(), size).cast::<u8>());
        if (grown as usize).is_multiple_of(layout.align()) {
            return grown;
        }
        let aligned = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        grown.copy_to_nonoverlapping(aligned, size.min(layout.size()));
        libc::free(grown.cast());
        aligned
    }
}

/// Gives the system back what a run has freed between pieces that are still in use; tables are made and written after it.
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: it may be called at any time.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[inline]
fn or_end(at: *mut u8) -> *mut u8 {
    if at.is_null() {
        end();
    }
    at
}

/// Nothing is unwound and nothing closed, as that may ask for memory, too. A result has not got its name by then.
#[cold]
#[allow(unsafe_code)]
fn end() -> ! {
    // SAFETY: both take what they are given, and may be called at any time.
    unsafe {
        libc::write(2, LINE.as_ptr().cast(), LINE.len());
        libc::_exit(STATUS)
    }
}
