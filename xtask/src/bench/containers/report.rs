//! How containers are compared, and with what.

use std::process::Command;

use anyhow::Result;

use super::Surroundings;

/// How the numbers come about; what does not depend on the run.
pub(super) const METHOD: &str = "\
## Method
`cargo xtask bench containers` builds the release `hotcell` and a release program that measures, starts a Docker Engine of its own
in namespaces of its own, and runs everything in one go. Every variant runs `true` in a container of the same image, a small
Debian. Time is from asking for the command to having its exit status and output and, but for `docker exec` and kept boxes, to the
container being gone. Every round runs all variants, each round begins with another one, and there is a pause of 30 ms between two runs.
Ratios are of medians.

- **docker-one-shot** is `Engine::run_with`; **docker-cli**, **runc-cli** and **gvisor-cli** are the `hotcell` command, started anew
  each time. runc and runsc are used without a daemon.
- **raw** makes the same calls to the engine by hand, over the same socket: create, attach, start, wait, remove. Its container is
  created as Hotcell's is, but runs `true` by itself.
- **run-hardened** and **run-runsc** are `docker run --rm` with the same hardening, as flags; **run-plain** has none and a network.
- **docker-exec** executes in a container with the same hardening that sleeps.

All numbers are in [containers.json](containers.json). They are of one machine and one run: compare ratios, not milliseconds.
";

/// The versions of everything that takes part.
pub(super) fn versions(around: &Surroundings) -> Result<Vec<(String, String)>> {
    let mut versions = Vec::new();
    let told = around.connect()?.get("/version")?;
    for component in told["Components"].as_array().map(Vec::as_slice).unwrap_or_default() {
        if let (Some(name), Some(version)) = (component["Name"].as_str(), component["Version"].as_str()) {
            versions.push((name.to_owned(), version.to_owned()));
        }
    }
    let programs = [("docker", Some(&around.docker)), ("runsc", around.runsc.as_ref())];
    for (name, program) in programs {
        let output = program.and_then(|program| Command::new(program).arg("--version").output().ok());
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let version = text.lines().next().and_then(|line| line.split("version ").nth(1)).unwrap_or("unknown");
        versions.push((format!("{name} command"), version.trim().to_owned()));
    }
    Ok(versions)
}
