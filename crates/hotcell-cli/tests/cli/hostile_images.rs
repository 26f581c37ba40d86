//! Images whose author wants to reach the host.

use std::fs;
use std::os::unix::fs::symlink;

use super::place::{Place, skip};

/// Links at the places where a box has something of its own lead nowhere, neither while it is made nor afterwards.
#[test]
fn links_of_an_image_lead_to_nothing_of_the_hosts() {
    let place = Place::new();
    let (tree, victim) = (place.project().join("tree"), place.project().join("victim"));
    for directory in [&tree.join("etc"), &victim] {
        fs::create_dir_all(directory).unwrap();
    }
    for name in ["usr", "var"] {
        symlink(&victim, tree.join(name)).unwrap();
    }
    let imported = place.hotcell(&["image", "import", tree.to_str().unwrap(), "--name", "hostile"]);
    assert_eq!(imported.code, 0, "{imported:?}");
    for runtime in ["oci", "gvisor"] {
        let flags = ["--runtime", runtime, "--image", "hostile", "--pull", "never", "--cwd", "/"];
        if !place.can_hold(&flags) {
            skip("hostile_images::links_of_an_image_lead_to_nothing_of_the_hosts", &format!("no {runtime} here"));
            continue;
        }
        // The box itself is fine: its init finds no such program. (Where the project is below a place that is such a link, it
        // cannot be shown, and that is a refusal.)
        let ran = place.hotcell(&[&["run"], &flags[..], &["--", "/nothing"]].concat());
        let expected =
            if place.project().starts_with("/var") || place.project().starts_with("/usr") { 125 } else { 127 };
        assert_eq!(ran.code, expected, "{ran:?}");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "{runtime} made something on the host");
        // A tree of the policy's would be behind a link.
        let ran = place.hotcell(&[&["run"], &flags[..], &["--read", "/usr/share", "--", "/nothing"]].concat());
        ran.assert_refused(&["/usr/share"]);
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "{runtime} made something on the host");
    }
}
