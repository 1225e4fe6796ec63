//! The memory of Python objects with the buffer protocol (`bytearray`, `memoryview`, NumPy arrays).
//!
//! The stable ABI has the protocol from Python 3.11 on, and this package supports 3.10, so its
//! structure is declared here, and its functions are looked up in the running interpreter. Every
//! CPython exports them, and the structure has been the same since 3.3.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;

/// `Py_buffer`. Only CPython reads most of its fields.
#[repr(C)]
#[allow(dead_code)]
struct BufferView {
    start: *mut c_void,
    object: *mut PyObject,
    bytes: isize,
    item_bytes: isize,
    is_readonly: c_int,
    dimensions: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

/// The functions of the protocol.
#[derive(Clone, Copy)]
struct BufferFunctions {
    get: GetBuffer,
    release: ReleaseBuffer,
}

type GetBuffer = unsafe extern "C" fn(*mut PyObject, *mut BufferView, c_int) -> c_int;
type ReleaseBuffer = unsafe extern "C" fn(*mut BufferView);

impl BufferFunctions {
    /// Those of this interpreter; an error where it exports none.
    fn of_interpreter() -> PyResult<BufferFunctions> {
        static FOUND: OnceLock<Option<BufferFunctions>> = OnceLock::new();
        let found = *FOUND.get_or_init(|| {
            let (get, release) = (symbol(c"PyObject_GetBuffer")?, symbol(c"PyBuffer_Release")?);
            // SAFETY: CPython defines the functions of these names with these types.
            Some(unsafe {
                BufferFunctions {
                    get: std::mem::transmute::<*mut c_void, GetBuffer>(get),
                    release: std::mem::transmute::<*mut c_void, ReleaseBuffer>(release),
                }
            })
        });
        found.ok_or_else(|| PyTypeError::new_err("this Python has no buffer protocol"))
    }
}

/// The address of a function of the interpreter.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero byte; the lookup changes nothing.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// `PyBUF_SIMPLE`: contiguous bytes.
const CONTIGUOUS: c_int = 0;
/// `PyBUF_WRITABLE`.
const WRITABLE: c_int = 1;

/// The bytes of an object, which cannot be resized or freed until this is dropped.
pub struct PinnedBytes {
    view: Box<BufferView>,
    functions: BufferFunctions,
}

// SAFETY: the export keeps the memory in place; it is released with the GIL held (see `drop`).
unsafe impl Send for PinnedBytes {}
// SAFETY: as above; other threads only read.
unsafe impl Sync for PinnedBytes {}

impl PinnedBytes {
    /// Pins contiguous bytes, which must be writable if `is_written`.
    pub fn of(object: &Bound<'_, PyAny>, is_written: bool) -> PyResult<PinnedBytes> {
        let functions = BufferFunctions::of_interpreter()?;
        let mut view = Box::new(BufferView {
            start: std::ptr::null_mut(),
            object: std::ptr::null_mut(),
            bytes: 0,
            item_bytes: 0,
            is_readonly: 0,
            dimensions: 0,
            format: std::ptr::null_mut(),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            suboffsets: std::ptr::null_mut(),
            internal: std::ptr::null_mut(),
        });
        let flags = if is_written { WRITABLE } else { CONTIGUOUS };
        // SAFETY: the object is alive, the structure is as CPython defines it, and the GIL is held.
        let failed = unsafe { (functions.get)(object.as_ptr(), &mut *view, flags) } != 0;
        match failed {
            true => {
                let error = PyErr::fetch(object.py());
                match error.is_instance_of::<PyBufferError>(object.py()) && is_written {
                    true => Err(PyTypeError::new_err(error.to_string())),
                    false => Err(error),
                }
            }
            false => Ok(PinnedBytes { view, functions }),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.view.bytes == 0 {
            return &[];
        }
        // SAFETY: the export has this number of contiguous bytes, and lasts as long as `self`.
        unsafe { std::slice::from_raw_parts(self.view.start.cast(), self.view.bytes as usize) }
    }

    /// The bytes, to be overwritten. The object must have been pinned as writable; a program that
    /// uses it meanwhile sees some of its bytes old and some new.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.view.bytes == 0 {
            return &mut [];
        }
        // SAFETY: as above, and the export was asked to be writable.
        unsafe { std::slice::from_raw_parts_mut(self.view.start.cast(), self.view.bytes as usize) }
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: the view was filled by `get`, and the GIL is held.
            unsafe { (self.functions.release)(&mut *self.view) }
        });
    }
}
