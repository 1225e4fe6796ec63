//! Lists the files of `src/modules`, so that adding a module means adding one file.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
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
    let path = |name: &str| PathBuf::from(env::var_os(name).expect("set by cargo"));
    let (root, out) = (path("CARGO_MANIFEST_DIR"), path("OUT_DIR"));
    // A relative path: a copy of the checkout must not compile the files of the original.
    let way = relative(&out, &root.join(folder));
    let mut code = String::new();
    for name in &names {
        let file = way.join(format!("{name}.rs"));
        writeln!(code, "#[path = {file:?}]\nmod {name};").expect("a string");
    }
    let list: Vec<String> = names.iter().map(|name| format!("&{name}::MODULE")).collect();
    let list = list.join(", ");
    writeln!(code, "/// Every built-in module, by name.").expect("a string");
    writeln!(code, "pub(crate) static MODULES: &[&euphrates_flow::ModuleSpec] = &[{list}];")
        .expect("a string");
    fs::write(out.join("modules.rs"), code).expect("the list is written");
}

/// The relative path from one folder to another.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}
