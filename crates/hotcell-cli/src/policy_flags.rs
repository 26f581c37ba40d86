//! Flags to a layer of configuration: the same keys, checked by the same code, as in a file.

use std::path::Path;

use hotcell::config::{Config, ConfigError, Origin, Sourced};

use crate::arguments::PolicyFlags;

impl PolicyFlags {
    /// What the flags say; `tty` is the flag that not every command has.
    pub(crate) fn to_config(&self, tty: bool) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        let texts = [
            ("sandbox.preset", "--preset", &self.preset),
            ("sandbox.mode", "--runtime", &self.runtime),
            ("sandbox.isolation", "--isolation", &self.isolation),
            ("network.mode", "--net", &self.net),
            ("limits.memory", "--memory", &self.memory),
            ("limits.cpus", "--cpus", &self.cpus),
            ("limits.cpu_time", "--cpu-time", &self.cpu_time),
            ("limits.processes", "--pids", &self.pids),
            ("limits.open_files", "--open-files", &self.open_files),
            ("limits.disk", "--disk", &self.disk),
            ("limits.output", "--max-output", &self.max_output),
            ("limits.timeout", "--timeout", &self.timeout),
            ("process.user", "--user", &self.user),
            ("container.image", "--image", &self.image),
            ("container.runtime", "--oci-runtime", &self.oci_runtime),
            ("container.pull", "--pull", &self.pull),
            ("remote.template", "--template", &self.template),
            ("remote.snapshot", "--snapshot", &self.snapshot),
        ];
        for (key, flag, text) in texts {
            if let Some(text) = text {
                config.set(key, text, Origin::flag(flag))?;
            }
        }
        let lists = [
            ("sandbox.approximate", "--approximate", &self.approximate),
            ("env.set", "--env", &self.env),
            ("env.pass", "--pass-env", &self.pass_env),
        ];
        for (key, flag, texts) in lists {
            texts.iter().try_for_each(|text| config.set(key, text, Origin::flag(flag)))?;
        }
        self.server.add_to(&mut config)?;
        if tty {
            config.set("process.tty", "true", Origin::flag("--tty"))?;
        }
        self.paths(&mut config);
        Ok(config)
    }

    fn paths(&self, config: &mut Config) {
        // A path on a command line need not be UTF-8, as it must be in a file; everything else about it is the same.
        let sourced = |path: &Path, flag: &str| Sourced::new(path.to_owned(), Origin::flag(flag));
        let files = &mut config.filesystem;
        files.read.extend(self.read.iter().map(|path| sourced(path, "--read")));
        files.write.extend(self.write.iter().map(|path| sourced(path, "--write")));
        files.overlay.extend(self.overlay.iter().map(|path| sourced(path, "--overlay")));
        files.deny.extend(self.deny.iter().map(|path| sourced(path, "--deny")));
        config.process.cwd = self.cwd.as_deref().map(|path| sourced(path, "--cwd"));
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use hotcell::config::KEYS;

    use super::*;
    use crate::arguments::Cli;

    #[test]
    fn every_flag_that_the_keys_name_exists() {
        let cli = Cli::command();
        let run = cli.find_subcommand("run").unwrap();
        for flag in KEYS.iter().filter_map(|key| key.flag) {
            let name = flag.strip_prefix("--").unwrap();
            assert!(run.get_arguments().any(|argument| argument.get_long() == Some(name)), "{flag}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_value_names_its_flag() {
        let flags = PolicyFlags { pids: Some("0".into()), ..PolicyFlags::default() };
        assert!(
            flags.to_config(false).unwrap_err().to_string().starts_with("--pids: `limits.processes` cannot be `0`")
        );
    }
}
