//! The images that OpenSandbox's server takes its execd and its egress sidecar from: the test image, with the stand-in.
//!
//! The real ones cannot be had without a registry. The server copies two files out of the first, `/execd` and `/bootstrap.sh`, to
//! `/opt/opensandbox` in every sandbox, and starts the second with what the sandbox is for.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::debian::run;
use crate::process;
use crate::test::containers::api::{Body, Connection};
use crate::test::containers::image::NAME as BASE;

/// What they are called in the engine.
pub(super) const NAME: &str = "hotcell-execd:latest";
pub(super) const EGRESS: &str = "hotcell-egress:latest";

const BOOTSTRAP: &str = "#!/bin/sh\n/opt/opensandbox/execd execd --in-container &\nexec \"$@\"\n";

/// Longer than an engine takes for anything here.
const LIMIT: Duration = Duration::from_secs(120);

/// Makes the images in the engine that listens at `socket`, with `directory` for files.
pub(super) fn make(socket: &Path, standin: &Path, directory: &Path) -> Result<()> {
    let staging = directory.join("execd");
    fs::create_dir(&staging).with_context(|| format!("cannot make {}", staging.display()))?;
    fs::copy(standin, staging.join("execd"))?;
    fs::write(staging.join("bootstrap.sh"), BOOTSTRAP)?;
    for name in ["execd", "bootstrap.sh"] {
        fs::set_permissions(staging.join(name), Permissions::from_mode(0o755))?;
    }
    // It is copied into every sandbox: what debuggers need would only take time. Without `strip` it works as well.
    let _ = process::run(Command::new("strip").arg(staging.join("execd")), LIMIT);
    let archive = directory.join("execd.tar");
    let mut command = Command::new("tar");
    command.args(["--create", "--owner=0", "--group=0", "--file"]).arg(&archive).arg("--directory").arg(&staging);
    run(command.args(["execd", "bootstrap.sh"])).context("cannot pack execd")?;

    let mut engine = Connection::open(socket, LIMIT)?;
    let body = json!({ "Image": BASE, "Cmd": ["true"] });
    let made = engine.ask("POST", "/containers/create", Body::Json(&body))?.success("a container for execd")?;
    let made: Value = serde_json::from_slice(&made).context("the engine's answer is not JSON")?;
    let id = made["Id"].as_str().context("the engine's answer has no `Id`")?;
    let put = format!("/containers/{id}/archive?path=/");
    let committed = engine
        .ask("PUT", &put, Body::Tar(File::open(&archive)?))
        .and_then(|answer| answer.success("put execd into a container"))
        .and_then(|_| {
            for (name, command) in [(NAME, json!(["true"])), (EGRESS, json!(["/execd", "egress"]))] {
                let (repository, tag) = name.split_once(':').context("the image has no tag")?;
                let commit = format!("/commit?container={id}&repo={repository}&tag={tag}");
                engine.ask("POST", &commit, Body::Json(&json!({ "Cmd": command })))?.success("make an image of it")?;
            }
            Ok(())
        });
    engine.ask("DELETE", &format!("/containers/{id}?force=true"), Body::None)?.success("remove the container")?;
    committed
}

/// Removes them.
pub(super) fn remove(socket: &Path) -> Result<()> {
    let mut engine = Connection::open(socket, LIMIT)?;
    for name in [EGRESS, NAME] {
        engine.ask("DELETE", &format!("/images/{name}?force=true"), Body::None)?.success("remove an image")?;
    }
    Ok(())
}
