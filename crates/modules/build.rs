//! Lists the files of `src/modules`, so that adding a module means adding one file.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new("src/modules");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("src/modules")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    let root = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let mut code = String::new();
    for name in &names {
        writeln!(code, "#[path = {:?}]\npub mod {name};", format!("{root}/src/modules/{name}.rs"))
            .expect("a string");
    }
    let list: Vec<String> = names.iter().map(|name| format!("&{name}::MODULE")).collect();
    let list = list.join(", ");
    writeln!(code, "/// Every built-in module, by name.").expect("a string");
    writeln!(code, "pub static MODULES: &[&euphrates_flow::ModuleSpec] = &[{list}];")
        .expect("a string");
    let out = env::var("OUT_DIR").expect("set by cargo");
    fs::write(Path::new(&out).join("modules.rs"), code).expect("the list is written");
}
