//! What happens when memory runs out: one line, and the exit status that the book names.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::{pyfunction, PyResult};

/// `OUT_OF_MEMORY` of `tailback.start_up`.
const STATUS: libc::c_int = 4;
const LINE: &[u8] = b"tailback: out of memory\n";

/// Folders that are removed at the end, as far as they are empty, the innermost first. Made beforehand: then there is no
/// memory for it.
static FOLDERS: Mutex<Vec<CString>> = Mutex::new(Vec::new());

/// Folders that a run has claimed and that go, as far as they are empty, if memory runs out; in place of those before.
#[pyfunction]
pub fn remove_when_out_of_memory(folders: Vec<PathBuf>) -> PyResult<()> {
    let paths = folders.into_iter().map(|folder| CString::new(folder.into_os_string().into_vec()));
    let paths =
        paths.collect::<Result<Vec<_>, _>>().map_err(|error| PyValueError::new_err(error.to_string()))?;
    if let Ok(mut kept) = FOLDERS.lock() {
        *kept = paths;
    }
    Ok(())
}

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
    // SAFETY: all take what they are given, and may be called at any time.
    unsafe {
        if let Ok(folders) = FOLDERS.try_lock() {
            for folder in folders.iter() {
                libc::rmdir(folder.as_ptr());
            }
        }
        libc::write(2, LINE.as_ptr().cast(), LINE.len());
        libc::_exit(STATUS)
    }
}
