//! OpenSandbox's real server, among the engines and with Docker's containers for sandboxes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::child::{Server, UNTIL_INPUT_ENDS};
use super::image;
use super::python::Python;
use crate::process;
use crate::test::containers::Engines;
use crate::test::containers::realm::Group;

/// Where it listens: the engines have a network of their own.
pub(super) const ADDRESS: &str = "127.0.0.1:8080";
pub(super) const KEY: &str = "hotcell-test-key";

/// Waits until somebody answers at an address. Arguments: the address, and for how many seconds.
const WAIT: &str = "
import sys, time, urllib.request
until = time.monotonic() + float(sys.argv[2])
while True:
    try:
        urllib.request.urlopen(sys.argv[1]).read()
        break
    except OSError as error:
        if time.monotonic() > until:
            sys.exit(str(error))
        time.sleep(0.05)
";

/// Longer than it takes to start on a slow machine.
const START_LIMIT: Duration = Duration::from_secs(60);
const TAIL: usize = 20;

/// The running server.
#[derive(Debug)]
pub(super) struct OpenSandbox {
    server: Server,
    /// Where its engine listens.
    engine: PathBuf,
}

impl OpenSandbox {
    pub(super) fn start(engines: &Engines, python: &Python, standin: &Path) -> Result<Self> {
        let host = engines.docker_host();
        let engine = PathBuf::from(host.strip_prefix("unix://").context("Docker does not listen on a socket")?);
        let directory = engines.realm().directory().join("opensandbox");
        fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        image::make(&engine, standin, &directory).context("cannot make an image of execd")?;

        let configuration = directory.join("server.toml");
        fs::write(&configuration, configured(&directory))?;
        let log = directory.join("server.log");
        let written = File::create(&log)?;
        let mut command = engines.realm().command(Group::Daemons, &directory);
        command.args(["sh", "-c", UNTIL_INPUT_ENDS, "opensandbox"]).arg(python.program("opensandbox-server"));
        command.arg("--config").arg(&configuration);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", &directory);
        command.env("DOCKER_HOST", &host).stdout(written.try_clone()?).stderr(written);
        let server = Server::start("opensandbox-server", &mut command)?;

        let mut wait = engines.realm().command(Group::Daemons, &directory);
        wait.arg(python.program("python")).args(["-c", WAIT, &format!("http://{ADDRESS}/health")]);
        wait.arg(START_LIMIT.as_secs().to_string());
        let waited = process::run(&mut wait, START_LIMIT * 2)?;
        if !waited.success() {
            let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default().join("\n");
            bail!("it does not answer: {}; its log ends with:\n{tail}", waited.output.trim());
        }
        Ok(Self { server, engine })
    }

    /// Ends it. What it left in its engine is the engine's to find.
    pub(super) fn stop(self) -> Result<()> {
        let Self { server, engine } = self;
        server.stop()?;
        image::remove(&engine)
    }
}

fn configured(directory: &Path) -> String {
    let (host, port) = ADDRESS.split_once(':').unwrap_or_default();
    let store = directory.join("store.db");
    format!(
        "[server]\nhost = \"{host}\"\nport = {port}\napi_key = \"{KEY}\"\nmax_sandbox_timeout_seconds = 86400\n\
         [log]\nlevel = \"INFO\"\n\
         [runtime]\ntype = \"docker\"\nexecd_image = \"{}\"\n\
         [store]\ntype = \"sqlite\"\npath = \"{}\"\n\
         [docker]\nnetwork_mode = \"bridge\"\npublish_host = \"127.0.0.1\"\n\
         [ingress]\nmode = \"direct\"\n\
         [egress]\nimage = \"{}\"\nmode = \"dns+nft\"\n",
        image::NAME,
        store.display(),
        image::EGRESS
    )
}
