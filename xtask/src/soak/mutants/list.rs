//! The defects that are put in on purpose.

/// A defect, and the part of the soak that has to notice it.
#[derive(Debug)]
pub(super) struct Mutant {
    pub(super) name: &'static str,
    pub(super) part: &'static str,
    pub(super) edits: &'static [Edit],
}

/// A text of a file, as it stands there, and what takes its place wherever it is.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) file: &'static str,
    pub(super) text: &'static str,
    pub(super) instead: &'static str,
}

const SPAWNER: &str = "crates/hotcell-linux/helper/spawner.rs";
const SETUP: &str = "crates/hotcell-linux/helper/setup.rs";
const INIT: &str = "crates/hotcell-linux/helper/init.rs";
const LAUNCH: &str = "crates/hotcell-linux/helper/launch.rs";
const CONFINE: &str = "crates/hotcell-linux/helper/confine.rs";
const PLACEHOLDER: &str = "crates/hotcell-linux/helper/placeholder.rs";
const LANDLOCK: &str = "crates/hotcell-linux/src/landlock.rs";
const NATIVE: &str = "crates/hotcell-backends/src/native/mod.rs";
const LOWER: &str = "crates/hotcell-backends/src/native/lower.rs";
const SANDBOX: &str = "crates/hotcell-backends/src/cell/sandbox.rs";
const FILES: &str = "crates/hotcell-backends/src/cell/files.rs";
const BENEATH: &str = "crates/hotcell-backends/src/cell/workspace/beneath.rs";

/// Every mutant there is.
pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the cgroup of a box is not removed",
        part: "cycles",
        edits: &[Edit {
            file: SPAWNER,
            text: "self.cgroups.remove(&name, slot.groups);",
            instead: "let _ = (name, slot.groups);",
        }],
    },
    Mutant {
        name: "the helper keeps a descriptor of every box",
        part: "cycles",
        edits: &[Edit {
            file: SPAWNER,
            text: "        if slot.conversation > 0 {\n            sys::close(slot.conversation);\n        }\n",
            instead: "",
        }],
    },
    Mutant {
        name: "placeholders stay",
        part: "cycles",
        edits: &[Edit { file: SPAWNER, text: "self.placeholders.release(index as u32);", instead: "" }],
    },
    Mutant {
        name: "nobody waits for the end of a box",
        part: "cycles",
        edits: &[Edit { file: SANDBOX, text: "self.shared.cell.gone().await;", instead: "" }],
    },
    Mutant {
        name: "boxes share the sockets of the host",
        part: "thousand",
        edits: &[
            Edit {
                file: NATIVE,
                text: "Namespaces { user, network: true, stage: false, same_user: false }",
                instead: "Namespaces { user, network: false, stage: false, same_user: false }",
            },
            Edit {
                file: LOWER,
                text: "network: !open_network && machine.layers.network_namespace",
                instead: "network: false",
            },
            Edit { file: LOWER, text: "if !open_network && layers.network_namespace {", instead: "if false {" },
            Edit { file: LANDLOCK, text: "SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL } else", instead: "0 } else" },
        ],
    },
    Mutant {
        name: "a box that is ended goes on",
        part: "thousand",
        edits: &[Edit {
            file: SANDBOX,
            text: "        self.shared.cell.kill();\n        self.shared.cell.gone().await;\n        Ok(())",
            instead: "        std::mem::forget(self);\n        Ok(())",
        }],
    },
    Mutant {
        name: "the helper ends without cleaning up",
        part: "kill9",
        edits: &[Edit { file: SPAWNER, text: "            spawner.end()\n", instead: "            sys::exit(0)\n" }],
    },
    Mutant {
        name: "boxes outlive the helper",
        part: "kill9",
        edits: &[
            Edit { file: SPAWNER, text: "            spawner.end()\n", instead: "            sys::exit(0)\n" },
            Edit { file: SETUP, text: "sys::prctl(sys::PR_SET_PDEATHSIG, sys::SIGKILL as usize, 0)?;", instead: "" },
            Edit { file: INIT, text: "if lifeline {", instead: "if lifeline && false {" },
            Edit { file: INIT, text: "Ok(false) => leave(0),", instead: "Ok(false) => loop { sys::pause_briefly() }," },
        ],
    },
    Mutant {
        name: "a filter that cannot be loaded is left out",
        part: "faults",
        edits: &[Edit {
            file: SETUP,
            text: "let result = sys::seccomp_load(instructions, listen)?;",
            instead: "let Ok(result) = sys::seccomp_load(instructions, listen) else { return Ok(()) };",
        }],
    },
    Mutant {
        name: "capabilities that cannot be dropped are kept",
        part: "faults",
        edits: &[Edit {
            file: SETUP,
            text: "step::CAPABILITIES => confine::drop_capabilities(),",
            instead: "step::CAPABILITIES => { let _ = confine::drop_capabilities(); Ok(()) }",
        }],
    },
    Mutant {
        name: "Landlock that cannot be entered is left out",
        part: "faults",
        edits: &[Edit {
            file: CONFINE,
            text: "sys::landlock_restrict(ruleset).map(|_| ())",
            instead: "let _ = sys::landlock_restrict(ruleset); Ok(())",
        }],
    },
    Mutant {
        name: "limits of programs that cannot be set are left out",
        part: "faults",
        edits: &[Edit { file: LAUNCH, text: "return (spawn_stage::LIMITS, errno);", instead: "let _ = errno;" }],
    },
    Mutant {
        name: "files of a box are opened by their names on the host",
        part: "races",
        edits: &[Edit {
            file: FILES,
            text: "self.cell.open_file(at.path, bits(flags), mode).await.map_err(|error| at.file_error(error))",
            instead: "if at.path.ends_with(\"swaps\") {\n\
                      return self.cell.open_file(at.path, bits(flags), mode).await.map_err(|error| at.file_error(error));\n\
                      }\n\
                      let mode = rustix::fs::Mode::from_raw_mode(mode);\n\
                      rustix::fs::open(at.path, flags | OFlags::CLOEXEC, mode).map_err(|error| at.io(error.into()))",
        }],
    },
    Mutant {
        name: "links in a workspace are followed",
        part: "races",
        edits: &[Edit {
            file: BENEATH,
            text: "const RESOLVE: ResolveFlags = ResolveFlags::BENEATH\n    .union(ResolveFlags::NO_SYMLINKS)\n    \
                   .union(ResolveFlags::NO_MAGICLINKS)\n    .union(ResolveFlags::NO_XDEV);",
            instead: "const RESOLVE: ResolveFlags = ResolveFlags::empty();",
        }],
    },
    Mutant {
        name: "placeholders are made and removed through links",
        part: "races",
        edits: &[Edit { file: PLACEHOLDER, text: "sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS,", instead: "0," }],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::soak::PARTS;
    use crate::workspace::root;

    #[test]
    fn every_part_has_a_mutant() {
        let tested: BTreeSet<_> = MUTANTS.iter().map(|mutant| mutant.part).collect();
        assert_eq!(tested, PARTS.iter().map(|part| part.name).collect());
        let names: BTreeSet<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), MUTANTS.len());
    }

    #[test]
    fn every_text_is_still_there() {
        for mutant in MUTANTS {
            for edit in mutant.edits {
                let source = fs::read_to_string(root().unwrap().join(edit.file)).unwrap();
                assert!(source.contains(edit.text), "{}: {} has no longer\n{}", mutant.name, edit.file, edit.text);
            }
        }
    }
}
