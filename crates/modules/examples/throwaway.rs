use euphrates_engine::{Options, start};
use euphrates_flow::Document;
use euphrates_modules::registry;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let doc = Document::from_json(&std::fs::read_to_string(&args[1]).unwrap()).unwrap();
    let memory = args.get(2).map(|m| m.parse::<usize>().unwrap() << 20);
    let mut running = start(&doc, &registry(), &Options { memory_bytes: memory, ..Default::default() }).unwrap();
    while !running.wait_for(std::time::Duration::from_secs(1)) {}
    let report = running.finish().unwrap();
    println!("{report}");
    println!("{}", std::fs::read_to_string("/proc/self/status").unwrap().lines().filter(|l| l.starts_with("VmHWM")).collect::<String>());
}
