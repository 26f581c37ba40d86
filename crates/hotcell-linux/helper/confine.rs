//! What the box may do: identity, capabilities, Landlock, and what commands may not do that their init may.

use crate::sys;
use crate::wire::Reader;

/// Brings up the loopback interface of the box's own network namespace.
pub fn loopback_up() -> sys::Result<()> {
    const SIOCSIFFLAGS: usize = 0x8914;
    const UP_AND_RUNNING: i16 = 0x1 | 0x40;
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&UP_AND_RUNNING.to_ne_bytes());
    let socket = sys::interface_socket()?;
    let result = sys::ioctl(socket, SIOCSIFFLAGS, request.as_ptr() as usize);
    sys::close(socket);
    result.map(|_| ())
}

/// Becomes the box's user, keeping for now the capabilities that the next steps need.
pub fn become_user(uid: u32, gid: u32) -> sys::Result<()> {
    sys::prctl(sys::PR_SET_KEEPCAPS, 1, 0)?;
    sys::clear_groups()?;
    sys::setresgid(gid)?;
    sys::setresuid(uid)?;
    sys::capset(sys::permitted_capabilities()?)?;
    crate::setup::stay_bound()
}

/// Empties the bounding set: no execution will ever give a capability.
pub fn drop_bounding_set() -> sys::Result<()> {
    for capability in 0..64 {
        match sys::prctl(sys::PR_CAPBSET_DROP, capability, 0) {
            Ok(_) => {}
            // One past the last that this kernel knows.
            Err(sys::EINVAL) if capability > 30 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Empties every other capability set, and locks the ways back.
pub fn drop_capabilities() -> sys::Result<()> {
    // NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE set; all four bits locked.
    const SECURE_BITS: usize = 0xef;
    sys::prctl(sys::PR_CAP_AMBIENT, sys::PR_CAP_AMBIENT_CLEAR_ALL, 0)?;
    sys::prctl(sys::PR_SET_SECUREBITS, SECURE_BITS, 0)?;
    sys::capset(0).map(|_| ())
}

/// Gives up every capability for good, in a container whose maker may have taken some of them, or all, already: what is
/// gone need not be given up, but nothing may be left.
pub fn keep_no_capability() -> sys::Result<()> {
    for capability in 0..64 {
        match sys::prctl(sys::PR_CAPBSET_READ, capability, 0) {
            Ok(0) => {}
            Ok(_) => drop(sys::prctl(sys::PR_CAPBSET_DROP, capability, 0)?),
            // One past the last that this kernel knows.
            Err(sys::EINVAL) if capability > 30 => break,
            Err(errno) => return Err(errno),
        }
    }
    if sys::permitted_capabilities()? != 0 {
        return drop_capabilities();
    }
    // Without a permitted one there is no ambient one, and no right to lock anything.
    sys::capset(0).map(|_| ())
}

/// Restricts this process, and all that it will start, to the paths and accesses listed.
pub fn landlock(reader: &mut Reader<'_>) -> sys::Result<()> {
    let (files, network, scoped, size) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u32()?);
    let ruleset = sys::landlock_ruleset(files, network, scoped, size as usize)?;
    for _ in 0..reader.u32()? {
        let (path, access) = (reader.text()?, reader.u64()?);
        let place = sys::openat2(sys::AT_FDCWD, path, sys::O_PATH, 0, sys::RESOLVE_NO_MAGICLINKS)?;
        sys::landlock_allow(ruleset, place, access)?;
    }
    sys::landlock_restrict(ruleset).map(|_| ())
}

/// Takes `openat2` from the command that this process is about to become: the mode of a new file lies in memory there,
/// where the box's filter cannot see a set-ID bit. The init keeps it, for opening files without following what the guest
/// planted. A program that wants it does without on older kernels, and so here.
pub fn refuse_openat2() -> sys::Result<()> {
    const FILTERED: usize = 2;
    const OPENAT2: u32 = 437;
    const RETURN_ENOSYS: u32 = 0x0005_0000 | 38;
    const RETURN_ALLOW: u32 = 0x7fff_0000;
    // The number of the call; is it this one; the two answers. The box's own filter ends calls of foreign ABIs.
    const PROGRAM: [[u8; 8]; 4] = [
        instruction(0x20, 0, 0, 0),
        instruction(0x15, 0, 1, OPENAT2),
        instruction(0x06, 0, 0, RETURN_ENOSYS),
        instruction(0x06, 0, 0, RETURN_ALLOW),
    ];
    // A box without a filter has none for its commands either.
    if sys::prctl(sys::PR_GET_SECCOMP, 0, 0)? != FILTERED {
        return Ok(());
    }
    sys::seccomp_load(PROGRAM.as_flattened(), false).map(|_| ())
}

/// An instruction of a filter as the kernel takes it.
const fn instruction(code: u16, if_true: u8, if_false: u8, value: u32) -> [u8; 8] {
    let (code, value) = (code.to_ne_bytes(), value.to_ne_bytes());
    [code[0], code[1], if_true, if_false, value[0], value[1], value[2], value[3]]
}
