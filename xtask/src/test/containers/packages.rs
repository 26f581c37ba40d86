//! The packages that engines and runtimes come in.

use crate::debian::KEYRING;
use crate::test::setup::{Need, Sign, need};

/// Everything that the tests of containers use.
pub(super) const NEEDS: &[Need] = &[
    need("docker.io", Sign::Program("dockerd"), "the Docker Engine"),
    need("podman", Sign::Program("podman"), "Podman"),
    need("runc", Sign::Program("runc"), "the OCI runtime runc"),
    need("crun", Sign::Program("crun"), "the OCI runtime crun"),
    need("mmdebstrap", Sign::Program("mmdebstrap"), "making the image that containers are made of"),
    need("debian-archive-keyring", Sign::File(KEYRING), "checking the packages of that image"),
    need("iproute2", Sign::Program("ip"), "a network of the engines' own"),
    need("util-linux", Sign::Program("nsenter"), "namespaces of the engines' own"),
];

/// gVisor as the release itself has it, where nothing newer is to be had.
pub(super) const RUNSC: &[Need] = &[need("runsc", Sign::Program("runsc"), "gVisor")];
