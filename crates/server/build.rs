//! Compiles the files of the studio's page into the program, so that it needs no folder at run
//! time.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let path = |name: &str| PathBuf::from(env::var_os(name).expect("set by cargo"));
    let (root, out) = (path("CARGO_MANIFEST_DIR"), path("OUT_DIR"));
    let built = root.join("../../studio/dist");
    let is_wanted = env::var_os("CARGO_FEATURE_PAGE").is_some();
    let is_built = built.join("index.html").exists();
    if is_wanted && !is_built {
        // An installation from sources without Node gets everything but the page.
        println!("cargo::warning=the studio's page is not built: `make build` does, with Node");
        println!("cargo::rerun-if-changed={}", root.join("../../studio").display());
    }
    // A build of Rust alone needs no Node, and does not depend on whether the page is built.
    let folder = if is_wanted && is_built { built } else { root.join("placeholder") };
    // Cargo reruns the script every time if a named folder does not exist.
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = vec![];
    list(&folder, "", &mut files);
    files.sort();
    let mut code = String::from("/// The files of the page: name and content.\n");
    code += "pub static FILES: &[(&str, &[u8])] = &[\n";
    for (number, name) in files.iter().enumerate() {
        // Copied, so that a copy of the checkout does not refer to the original's files.
        fs::copy(folder.join(name), out.join(format!("page-{number}"))).expect("a file is copied");
        let file = format!("concat!(env!(\"OUT_DIR\"), \"/page-{number}\")");
        writeln!(code, "    ({name:?}, include_bytes!({file})),").expect("a string");
    }
    code += "];\n";
    fs::write(out.join("page.rs"), code).expect("the list is written");
}

fn list(folder: &Path, before: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => list(&entry.path(), &format!("{name}/"), files),
            false => files.push(name),
        }
    }
}
