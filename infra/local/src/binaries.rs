//! The functions' binaries, built and packed as Lambda wants them.
//!
//! Owns: `cargo build`, and one zip per function that holds its binary as `bootstrap`.
//! Must not: choose a profile or a target: what runs locally is what the developer just compiled.

use std::env;
use std::fs::{self, File};
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use zip::write::SimpleFileOptions;

use crate::install::short_hash;
use crate::{Build, Function, Options, Progress, tail};

/// What cargo sets for the program that it runs. Passed on, these would make build scripts that
/// watch them run again, and half of the workspace be compiled twice in turns.
const OF_THE_CALLER: [&str; 6] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];

/// A function's zip.
#[derive(Debug)]
pub(crate) struct Package {
    /// Whose it is.
    pub(crate) function: Function,
    /// The object's key. It changes with the content, so an update of the stack sees new code.
    pub(crate) key: String,
    /// The zip.
    pub(crate) zip: Vec<u8>,
}

/// Builds all binaries and packs those of the functions.
pub(crate) async fn build(options: &Options, progress: Progress<'_>) -> Result<Vec<Package>> {
    progress("building the functions");
    let executables = compile(options).await?;
    progress("packing the functions");
    let scratch = options.state.join("tmp");
    fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let mut tasks = Vec::new();
    for function in Function::ALL {
        let Some((_, executable)) = executables.iter().find(|(of, _)| *of == function).cloned() else {
            bail!("cargo built no binary `{function}`; see whether functions/{function}/Cargo.toml has it");
        };
        let stripped = scratch.join(format!("{function}.stripped"));
        tasks.push(tokio::task::spawn_blocking(move || pack(function, &executable, &stripped)));
    }
    let mut packages = Vec::new();
    for task in tasks {
        packages.push(task.await??);
    }
    Ok(packages)
}

/// Runs cargo. Returns where it says that it put each function's binary, whatever its target
/// directory is.
async fn compile(options: &Options) -> Result<Vec<(Function, PathBuf)>> {
    let log = options.state.join("build.log");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = tokio::process::Command::new(cargo);
    command
        .args(["build", "--bins", "--message-format=json-render-diagnostics"])
        .current_dir(&options.root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    match options.build {
        Build::Loud => command.stderr(Stdio::inherit()),
        Build::Quiet => command.stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?),
    };
    for (name, _) in env::vars_os() {
        if OF_THE_CALLER.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let output = command
        .spawn()
        .context("cannot run cargo; install Rust, or set CARGO to where it is")?
        .wait_with_output()
        .await?;
    if output.status.success() {
        return Ok(executables(&output.stdout));
    }
    match options.build {
        Build::Loud => bail!("the functions do not compile; cargo says why above"),
        Build::Quiet => bail!("the functions do not compile (all of it is in {}):\n{}", log.display(), tail(&log)),
    }
}

/// The functions' binaries in cargo's messages, one JSON object a line.
fn executables(messages: &[u8]) -> Vec<(Function, PathBuf)> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        target: Option<Target>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Message>(line).ok())
        .filter_map(|message| Some((Function::named(&message.target?.name)?, message.executable?)))
        .collect()
}

fn pack(function: Function, executable: &Path, stripped: &Path) -> Result<Package> {
    let binary = if strip(executable, stripped) { fs::read(stripped) } else { fs::read(executable) };
    let binary = binary.with_context(|| format!("cannot read the binary of {function}"))?;
    let zip = zip_of(&binary).with_context(|| format!("cannot pack {function}"))?;
    let key = format!("{function}-{}.zip", short_hash(&zip));
    Ok(Package { function, key, zip })
}

/// Leaves out the symbols, which are most of a debug binary. `false` where no tool can: the
/// binary works as it is, only slower to load.
fn strip(executable: &Path, stripped: &Path) -> bool {
    ["strip", "llvm-strip"].into_iter().any(|tool| {
        Command::new(tool)
            .arg("-o")
            .args([stripped, executable])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// The binary as the executable `bootstrap`; the same bytes in give the same bytes out.
fn zip_of(binary: &[u8]) -> Result<Vec<u8>> {
    ensure!(!binary.is_empty(), "the binary is empty; run `cargo clean` and build again");
    let options = SimpleFileOptions::DEFAULT
        .compression_method(zip::CompressionMethod::Deflated)
        .compression_level(Some(1))
        .unix_permissions(0o755)
        .last_modified_time(zip::DateTime::DEFAULT);
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("bootstrap", options)?;
    archive.write_all(binary)?;
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_zip_holds_the_binary_as_an_executable_bootstrap_and_is_reproducible() {
        let zip = zip_of(b"\x7fELF and so on").unwrap();
        assert_eq!(zip, zip_of(b"\x7fELF and so on").unwrap());
        let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
        assert_eq!(archive.len(), 1);
        let mut file = archive.by_name("bootstrap").unwrap();
        assert_eq!(file.unix_mode().map(|mode| mode & 0o777), Some(0o755));
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        assert_eq!(content, b"\x7fELF and so on");
    }

    #[test]
    fn only_the_functions_binaries_are_taken_from_cargos_messages() {
        let messages = br#"{"reason":"compiler-artifact","target":{"name":"lapse_policy"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"lapse"},"executable":"/t/debug/lapse"}
{"reason":"compiler-artifact","target":{"name":"deliver"},"executable":"/t/debug/deliver"}
not json
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executables(messages), [(Function::Deliver, PathBuf::from("/t/debug/deliver"))]);
    }
}
