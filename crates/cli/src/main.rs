//! The `euphrates` program without Python support.

fn main() -> std::process::ExitCode {
    euphrates_cli::main(std::env::args_os(), &euphrates_cli::Bare).into()
}
