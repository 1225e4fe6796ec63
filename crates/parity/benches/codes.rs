//! The throughput of encoding and recovery on one core, next to ISA-L where it is installed.
//!
//! Prints one JSON object a line. Kernels and ISA-L take turns in every round, so a disturbance
//! meets both. ISA-L is Debian's `libisal2`, loaded when the benchmark runs.

#![allow(clippy::print_stdout)]

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::time::Instant;

use euphrates_parity::{ErasureCode, Kernel};

const BLOCK_BYTES: usize = 1 << 20;
const ROUNDS: usize = 15;

fn main() {
    let isal = Isal::load();
    if isal.is_none() {
        println!(r#"{{"note": "libisal.so.2 is not installed: no comparison"}}"#);
    }
    for (data, parity) in [(4, 1), (4, 2), (8, 2), (8, 3), (16, 4)] {
        measure(isal.as_ref(), data, parity);
    }
}

/// Measures one shape; figures are gigabytes of data per second, the best of all rounds.
fn measure(isal: Option<&Isal>, data: usize, parity: usize) {
    let code = ErasureCode::new(data, parity).expect("a small shape");
    let kernels: Vec<Kernel> =
        Kernel::ALL.into_iter().filter(|kernel| kernel.is_supported()).collect();
    let blocks: Vec<Vec<u8>> =
        (0..data).map(|at| (0..BLOCK_BYTES).map(|i| (i * 31 + at * 7) as u8).collect()).collect();
    let inputs: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let mut parities = vec![vec![0u8; BLOCK_BYTES]; parity];
    let tables = isal.map(|isal| isal.tables(data, parity));
    let mut encode_s = vec![f64::INFINITY; kernels.len()];
    let mut recover_s = encode_s.clone();
    let mut isal_s = f64::INFINITY;
    for _ in 0..ROUNDS {
        for (at, &kernel) in kernels.iter().enumerate() {
            let code = code.clone().with_kernel(kernel);
            let mut outputs: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
            let start = Instant::now();
            code.encode(black_box(&inputs), &mut outputs).expect("blocks of one length");
            encode_s[at] = encode_s[at].min(start.elapsed().as_secs_f64());
            // The first data blocks are lost, as many as there is parity.
            let mut lost = vec![vec![0u8; BLOCK_BYTES]; parity];
            let whole = (parity..data).map(|at| (at, inputs[at]));
            let whole = whole.chain(parities.iter().enumerate().map(|(at, p)| (data + at, &p[..])));
            let whole: Vec<(usize, &[u8])> = whole.collect();
            let mut missing: Vec<(usize, &mut [u8])> =
                lost.iter_mut().map(Vec::as_mut_slice).enumerate().collect();
            let start = Instant::now();
            code.recover(black_box(&whole), &mut missing).expect("enough blocks");
            recover_s[at] = recover_s[at].min(start.elapsed().as_secs_f64());
            assert!(lost.iter().zip(&blocks).all(|(lost, block)| lost == block));
        }
        if let (Some(isal), Some(tables)) = (isal, &tables) {
            let mut outputs: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
            let start = Instant::now();
            isal.encode(tables, black_box(&inputs), &mut outputs);
            isal_s = isal_s.min(start.elapsed().as_secs_f64());
        }
    }
    let bytes = (data * BLOCK_BYTES) as f64;
    let rate = |seconds: f64| bytes / seconds / 1e9;
    for (at, kernel) in kernels.iter().enumerate() {
        let (encode, recover) = (rate(encode_s[at]), rate(recover_s[at]));
        let head = format!(r#"{{"data": {data}, "parity": {parity}, "kernel": "{kernel:?}""#);
        println!(r#"{head}, "encode_gb_s": {encode:.2}, "recover_gb_s": {recover:.2}}}"#);
    }
    if tables.is_some() {
        let (encode, ratio) = (rate(isal_s), isal_s / encode_s[0]);
        let head = format!(r#"{{"data": {data}, "parity": {parity}, "kernel": "ISA-L""#);
        println!(r#"{head}, "encode_gb_s": {encode:.2}, "ours_by_isal": {ratio:.2}}}"#);
    }
}

type GenerateMatrix = unsafe extern "C" fn(*mut u8, c_int, c_int);
type InitTables = unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8);
type EncodeData =
    unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const *const u8, *const *mut u8);

/// The functions of ISA-L that encode.
struct Isal {
    generate: GenerateMatrix,
    init: InitTables,
    encode: EncodeData,
}

impl Isal {
    fn load() -> Option<Isal> {
        // SAFETY: the names end with a zero, and the types are those of the library's header.
        unsafe {
            let library = libc::dlopen(c"libisal.so.2".as_ptr(), libc::RTLD_NOW);
            let symbol = |name: &std::ffi::CStr| -> Option<*mut c_void> {
                let found = libc::dlsym(library, name.as_ptr());
                (!found.is_null()).then_some(found)
            };
            if library.is_null() {
                return None;
            }
            Some(Isal {
                generate: std::mem::transmute::<*mut c_void, GenerateMatrix>(symbol(
                    c"gf_gen_cauchy1_matrix",
                )?),
                init: std::mem::transmute::<*mut c_void, InitTables>(symbol(c"ec_init_tables")?),
                encode: std::mem::transmute::<*mut c_void, EncodeData>(symbol(c"ec_encode_data")?),
            })
        }
    }

    fn tables(&self, data: usize, parity: usize) -> Vec<u8> {
        let (k, m) = (data as c_int, parity as c_int);
        let mut matrix = vec![0; data * (data + parity)];
        let mut tables = vec![0; 32 * data * parity];
        // SAFETY: the matrix has k + m rows of k bytes, and a coefficient has a table of 32 bytes.
        unsafe {
            (self.generate)(matrix.as_mut_ptr(), k + m, k);
            (self.init)(k, m, matrix[data * data..].as_ptr(), tables.as_mut_ptr());
        }
        tables
    }

    fn encode(&self, tables: &[u8], data: &[&[u8]], parity: &mut [&mut [u8]]) {
        let from: Vec<*const u8> = data.iter().map(|block| block.as_ptr()).collect();
        let to: Vec<*mut u8> = parity.iter_mut().map(|block| block.as_mut_ptr()).collect();
        let (k, m) = (data.len() as c_int, parity.len() as c_int);
        // SAFETY: all blocks have BLOCK_BYTES bytes, and the tables are those of this shape.
        unsafe {
            (self.encode)(BLOCK_BYTES as c_int, k, m, tables.as_ptr(), from.as_ptr(), to.as_ptr());
        }
    }
}
