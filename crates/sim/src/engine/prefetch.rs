//! Asking for memory before it is needed.

/// Lets the processor fetch an element, all its cache lines, into its cache while it does something else. Changes no result; an index out
/// of range is ignored.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T>(values: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = values.get(index) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let first = std::ptr::from_ref(value).cast::<i8>();
        for line in 0..size_of::<T>().div_ceil(64) {
            // SAFETY: the instruction has no effect but on the cache, and the address lies in a reference's value.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.add(line * 64)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
}
