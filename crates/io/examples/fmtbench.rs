#![allow(missing_docs, clippy::print_stdout)]
use arrow::array::*;
use arrow::buffer::Buffer;
use arrow::datatypes::*;
use euphrates_io::append::Target;
use euphrates_io::foreign::*;
use std::sync::Arc;
use std::time::Instant;
fn batch(seed: u64) -> RecordBatch {
    let rows = 10485;
    let mut x = seed.wrapping_mul(0x9e3779b97f4a7c15) | 1;
    let mut bytes = |w: usize| {
        let mut v = Vec::with_capacity(rows * w + 8);
        while v.len() < rows * w {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            v.extend_from_slice(&x.to_le_bytes());
        }
        v.truncate(rows * w);
        Arc::new(FixedSizeBinaryArray::new(w as i32, Buffer::from_vec(v), None)) as ArrayRef
    };
    let schema = Schema::new(vec![
        Field::new("key", DataType::FixedSizeBinary(10), false),
        Field::new("payload", DataType::FixedSizeBinary(90), false),
    ]);
    RecordBatch::try_new(Arc::new(schema), vec![bytes(10), bytes(90)]).unwrap()
}
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let path = &args[2];
    if args[1] == "w" {
        let batches: Vec<RecordBatch> = (0..64).map(batch).collect();
        let w = format_of(path, None)
            .unwrap()
            .writer(batches[0].schema_ref(), &WriteOptions::default())
            .unwrap();
        for to_disk in [false, true] {
            let t = Instant::now();
            let c = cpu();
            let target: Box<dyn Target> =
                euphrates_io::output::create(path, true, "bench").unwrap();
            let mut at = 0u64;
            let mut notes = vec![];
            let mut put = |parts: &[Buffer]| {
                let n: usize = parts.iter().map(|p| p.len()).sum();
                if to_disk {
                    target.write_at(at, parts).unwrap();
                }
                at += n as u64;
                at - n as u64
            };
            put(&w.header().unwrap());
            let mut e = w.encoder().unwrap();
            for i in 0..1000 {
                e.push(&batches[i % 64]).unwrap();
                if e.bytes() > 32 << 20 {
                    let c = e.finish().unwrap();
                    let o = put(&c.parts);
                    notes.push((o, c.note));
                }
            }
            let ch = e.finish().unwrap();
            let o = put(&ch.parts);
            notes.push((o, ch.note));
            put(&w.footer(notes).unwrap());
            println!(
                "write disk={to_disk}: {:.2} GB wall {:.3} cpu {:.3}",
                at as f64 / 1e9,
                t.elapsed().as_secs_f64(),
                cpu() - c
            );
            if to_disk {
                let t = Instant::now();
                target.settle(at).unwrap();
                println!("settle {:.3}", t.elapsed().as_secs_f64());
                target.commit().unwrap();
            } else {
                target.abandon();
            }
        }
    } else {
        for _ in 0..3 {
            let t = Instant::now();
            let c = cpu();
            let d = Dataset::open(&[path.clone()], &ReadOptions::default()).unwrap();
            let open = t.elapsed().as_secs_f64();
            let (mut rows, mut n, mut sum) = (0, 0, 0u64);
            for s in 0..d.splits() {
                for b in d.read(s).unwrap() {
                    let b = b.unwrap();
                    rows += b.num_rows();
                    n += 1;
                    sum += b.num_columns() as u64;
                }
            }
            println!(
                "read: rows {rows} batches {n} splits {} open {open:.4} wall {:.3} cpu {:.3} {sum}",
                d.splits(),
                t.elapsed().as_secs_f64(),
                cpu() - c
            );
        }
    }
}
