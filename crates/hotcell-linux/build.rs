//! Compiles the helper (`helper/`) and the intruder (`intruder/`) with the compiler that compiles this crate, so that
//! the library can carry them.
//!
//! Both are `no_std` and link nothing, so they need no target of their own: the `core` of the target is enough.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=helper");
    println!("cargo:rerun-if-changed=intruder");
    println!("cargo:rerun-if-changed=src/wire/mod.rs");
    println!("cargo:rustc-check-cfg=cfg(hotcell_helper)");
    println!("cargo:rustc-check-cfg=cfg(fuzzing)");
    if env::var("CARGO_CFG_TARGET_OS")? != "linux" {
        return Ok(());
    }
    let target = env::var("TARGET")?;
    for program in ["helper", "intruder"] {
        build(program, &target)?;
    }
    Ok(())
}

fn build(program: &str, target: &str) -> Result<(), Box<dyn Error>> {
    let output = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join(format!("hotcell-{program}"));
    let same_machine = target == env::var("HOST")?;
    // rust-lld comes with rustup's toolchains and links for every target; a distribution's toolchain may lack it, and
    // then the C compiler that Rust needs anyway links for this machine.
    let mut attempts = vec![linked_by_rust_lld()];
    if same_machine {
        attempts.push(linked_by_cc());
    }
    let mut failures = String::new();
    for link in attempts {
        match compile(program, target, &output, &link) {
            Ok(()) => return Ok(()),
            Err(failure) => failures.push_str(&format!("\n{failure}")),
        }
    }
    Err(format!("the {program} could not be built for {target}:{failures}").into())
}

fn linked_by_rust_lld() -> Vec<OsString> {
    ["-Clinker-flavor=ld.lld", "-Clinker=rust-lld"].map(OsString::from).to_vec()
}

fn linked_by_cc() -> Vec<OsString> {
    ["-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib", "-Clink-arg=-static"].map(OsString::from).to_vec()
}

fn compile(program: &str, target: &str, output: &Path, link: &[OsString]) -> Result<(), Box<dyn Error>> {
    let compiler = env::var_os("RUSTC").ok_or("RUSTC is not set")?;
    let result = Command::new(compiler)
        .args(["--edition=2024", "--crate-type=bin", "--cfg=hotcell_helper"])
        .arg(format!("--crate-name=hotcell_{program}"))
        // `panic` cannot unwind without std; overflow checks stay on because numbers come from outside.
        .args([
            "-Cpanic=abort",
            "-Copt-level=s",
            "-Coverflow-checks=on",
            "-Cstrip=symbols",
            "-Crelocation-model=static",
        ])
        .args(["-Cforce-unwind-tables=no", "-Ccodegen-units=1", "-Dwarnings", "-Adead_code"])
        .arg(format!("--target={target}"))
        .args(link)
        .arg("-o")
        .arg(output)
        .arg(format!("{program}/main.rs"))
        .output()?;
    if result.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&result.stderr).into_owned().into())
}
