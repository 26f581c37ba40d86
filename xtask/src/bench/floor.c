/*
 * The kernel's floor: one process in fresh namespaces with a box's mounts, an exec, and nothing else.
 *
 *     floor PROGRAM CLONE_FLAGS UID_MAP GID_MAP UID GID [KIND ATTRIBUTES FROM TO]...
 *
 * For every line on stdin it runs PROGRAM once and answers `ok NANOSECONDS` or `failed WHY`. It stays small and
 * resident, so that what is measured is the kernel's work and not the copying of a large parent. Where the kernel
 * offers two ways, it takes the shorter one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The same on every architecture; headers of older systems do not know them all. */
#define NR_MOVE_MOUNT 429
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define NR_MOUNT_SETATTR 442
#define CREATE_FILESYSTEM 6
#define FROM_EMPTY_PATH 0x4
#define WHOLE_TREE 0x8000

struct attributes {
    uint64_t set, clear, propagation, user_namespace;
};

struct operation {
    char kind;
    uint64_t attributes;
    const char *from, *to;
};

static const char *program, *uid_map, *gid_map;
static unsigned long clone_flags;
static uid_t uid;
static gid_t gid;
static struct operation operations[512];
static int operation_count;

static void give_up(const char *what, const char *on) {
    dprintf(2, "%s %s: %s", what, on, strerror(errno));
    _exit(100);
}

static int set_attributes(const char *path, uint64_t attributes, int whole_tree) {
    struct attributes wanted = {.set = attributes};
    if (attributes == 0)
        return 0;
    return (int)syscall(NR_MOUNT_SETATTR, AT_FDCWD, path, whole_tree ? WHOLE_TREE : 0, &wanted, sizeof wanted);
}

/* A tmpfs over the old root, and the working directory in it. Absolute paths still lead to the host. */
static int mount_root(uint64_t attributes) {
    int context = (int)syscall(NR_FSOPEN, "tmpfs", 1);
    if (context < 0 || syscall(NR_FSCONFIG, context, CREATE_FILESYSTEM, NULL, NULL, 0) < 0)
        return -1;
    int root = (int)syscall(NR_FSMOUNT, context, 1, attributes);
    if (root < 0 || syscall(NR_MOVE_MOUNT, root, "", AT_FDCWD, "/", FROM_EMPTY_PATH) < 0)
        return -1;
    int result = fchdir(root);
    close(root);
    close(context);
    return result;
}

/* Old flags and new attributes have the same numbers for what is used here: read-only, no setuid, devices, exec. */
static int perform(const struct operation *operation) {
    const char *from = operation->from, *to = operation->to;
    int file;
    switch (operation->kind) {
    case 'r':
        return mount_root(operation->attributes);
    case 'd':
        return mkdir(to, 0755);
    case 'f':
        file = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        return file < 0 ? -1 : close(file);
    case 'l':
        return symlink(from, to);
    case 'b':
        return mount(from, to, NULL, MS_BIND | MS_REC, NULL) || set_attributes(to, operation->attributes, 1) ? -1 : 0;
    case 'm':
        return mount("none", to, from, operation->attributes, NULL);
    case 's':
        return set_attributes(".", operation->attributes, 0);
    default:
        errno = EINVAL;
        return -1;
    }
}

static void in_box(int wait_for_maps, int out, int err) {
    char byte;
    dup2(out, 1);
    dup2(err, 2);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        give_up("make private", "/");
    if (read(wait_for_maps, &byte, 1) != 1)
        _exit(100);
    if ((clone_flags & CLONE_NEWUSER) && (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
        give_up("become", "the box's user");
    for (int i = 0; i < operation_count; i++)
        if (perform(&operations[i]) < 0)
            give_up("mount or make", operations[i].to);
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        give_up("enter", "the new root");
    char *const arguments[] = {(char *)program, NULL}, *const environment[] = {NULL};
    execve(program, arguments, environment);
    give_up("execute", program);
}

static int write_process_file(pid_t pid, const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t written = write(file, text, strlen(text));
    close(file);
    return written < 0 ? -1 : 0;
}

static int write_maps(pid_t pid) {
    if (!(clone_flags & CLONE_NEWUSER))
        return 0;
    if (geteuid() != 0 && write_process_file(pid, "setgroups", "deny") < 0)
        return -1;
    return write_process_file(pid, "gid_map", gid_map) || write_process_file(pid, "uid_map", uid_map) ? -1 : 0;
}

/* Reads to the end; keeps what fits. */
static void drain(int from, char *text, size_t room) {
    size_t length = 0;
    char rest[512];
    for (;;) {
        int fits = length + 1 < room;
        ssize_t got = fits ? read(from, text + length, room - 1 - length) : read(from, rest, sizeof rest);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (fits)
            length += (size_t)got;
    }
    text[length] = 0;
    close(from);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void run_once(void) {
    int maps[2], out[2], err[2], status = 0;
    char output[256], trouble[256];
    int64_t started = now();
    if (pipe2(maps, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
        printf("failed to make pipes: %s\n", strerror(errno));
        return;
    }
    pid_t pid = (pid_t)syscall(SYS_clone, clone_flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        in_box(maps[0], out[1], err[1]);
    int clone_error = pid < 0 ? errno : 0;
    close(maps[0]);
    close(out[1]);
    close(err[1]);
    /* Without the byte, which is not sent after a failure, the child ends by itself. */
    int map_error = 0;
    if (pid > 0 && (write_maps(pid) < 0 || write(maps[1], "", 1) != 1))
        map_error = errno;
    close(maps[1]);
    drain(out[0], output, sizeof output);
    drain(err[0], trouble, sizeof trouble);
    if (pid > 0)
        waitpid(pid, &status, 0);
    int64_t ended = now();
    if (clone_error)
        printf("failed to clone: %s\n", strerror(clone_error));
    else if (map_error)
        printf("failed to map users: %s\n", strerror(map_error));
    else if (status != 0)
        printf("failed (wait status %#x): %s\n", (unsigned)status, trouble);
    else
        printf("ok %lld\n", (long long)(ended - started));
}

int main(int count, char **words) {
    if (count < 7 || (count - 7) % 4 != 0 || (count - 7) / 4 > 512) {
        fputs("floor PROGRAM CLONE_FLAGS UID_MAP GID_MAP UID GID [KIND ATTRIBUTES FROM TO]...\n", stderr);
        return 2;
    }
    program = words[1];
    clone_flags = strtoul(words[2], NULL, 10);
    uid_map = words[3];
    gid_map = words[4];
    uid = (uid_t)strtoul(words[5], NULL, 10);
    gid = (gid_t)strtoul(words[6], NULL, 10);
    for (char **word = words + 7; *word; word += 4)
        operations[operation_count++] =
            (struct operation){.kind = word[0][0], .attributes = strtoull(word[1], NULL, 10), .from = word[2], .to = word[3]};
    setvbuf(stdout, NULL, _IOLBF, 0);
    char line[16];
    while (fgets(line, sizeof line, stdin))
        run_once();
    return 0;
}
