/* Makes one system call of the helper's processes fail.
 *
 * usage: injector LOG ROLE NUMBER OCCURRENCE ERRNO PROGRAM ARGUMENTS...
 *
 * Runs PROGRAM and follows everything that it starts. The process that executes the helper image is the `spawner`, what
 * that forks is `child1`, `child2` and so on, and what those start is `child1.program` until it executes. The OCCURRENCE-th
 * call with this NUMBER in the process with this ROLE is not made and returns ERRNO. With ERRNO 0 nothing fails. Every call
 * of these processes up to the first execution of a program in a box goes to LOG, one line each: role and number; the one
 * that failed is followed by a line `injected`.
 *
 * strace counts calls in every process alike, so that it cannot leave out the program that uses the library, nor tell
 * the helper's processes apart. This does.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define INFO_ENTRY 1
#define INFO_EXIT 2
#define GET_SYSCALL_INFO 0x420e
#define EVENT_STOP 128
#define TASKS 8192
#define NUMBERS 1024

struct info {
    uint8_t op;
    uint8_t pad[3];
    uint32_t arch;
    uint64_t instruction_pointer;
    uint64_t stack_pointer;
    uint64_t number;
    uint64_t arguments[8];
};

struct task {
    pid_t pid;
    char role[32]; /* empty: not one of the helper's */
    int known;     /* its parent has told of it */
    int held;      /* it stopped before it was known */
    int children;
    int fails; /* the call that it is in is to fail */
    int counts[NUMBERS];
};

static struct task *tasks[TASKS];
static FILE *trace;
static int finished; /* a program was executed in a box: the set-up is over */

static void die(const char *what) {
    fprintf(stderr, "injector: %s: %s\n", what, strerror(errno));
    exit(70);
}

static struct task *find(pid_t pid) {
    for (int i = 0; i < TASKS; i++)
        if (tasks[i] && tasks[i]->pid == pid)
            return tasks[i];
    return NULL;
}

static struct task *add(pid_t pid) {
    for (int i = 0; i < TASKS; i++)
        if (!tasks[i]) {
            tasks[i] = calloc(1, sizeof(struct task));
            if (!tasks[i])
                die("no memory");
            tasks[i]->pid = pid;
            return tasks[i];
        }
    errno = EAGAIN;
    die("too many processes");
    return NULL;
}

static void forget(pid_t pid) {
    for (int i = 0; i < TASKS; i++)
        if (tasks[i] && tasks[i]->pid == pid) {
            free(tasks[i]);
            tasks[i] = NULL;
        }
}

static void go_on(struct task *task, int signal) {
    int how = task->role[0] && (!finished || task->fails) ? PTRACE_SYSCALL : PTRACE_CONT;
    /* It may have been killed meanwhile. */
    ptrace(how, task->pid, 0, (void *)(intptr_t)signal);
}

/* A call that every filter allows takes the place of the one that is to fail. */
static void skip_call(pid_t pid) {
#if defined(__x86_64__)
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, pid, 0, &registers) < 0)
        die("cannot read registers");
    registers.orig_rax = SYS_getpid;
    if (ptrace(PTRACE_SETREGS, pid, 0, &registers) < 0)
        die("cannot write registers");
#elif defined(__aarch64__)
    int number = SYS_getpid;
    struct iovec vector = {&number, sizeof number};
    if (ptrace(PTRACE_SETREGSET, pid, (void *)(intptr_t)NT_ARM_SYSTEM_CALL, &vector) < 0)
        die("cannot replace the call");
#else
#error "unknown architecture"
#endif
}

static void set_result(pid_t pid, long result) {
#if defined(__x86_64__)
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, pid, 0, &registers) < 0)
        return;
    registers.rax = (unsigned long)result;
    ptrace(PTRACE_SETREGS, pid, 0, &registers);
#elif defined(__aarch64__)
    struct user_regs_struct registers;
    struct iovec vector = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, pid, (void *)(intptr_t)NT_PRSTATUS, &vector) < 0)
        return;
    registers.regs[0] = (unsigned long)result;
    ptrace(PTRACE_SETREGSET, pid, (void *)(intptr_t)NT_PRSTATUS, &vector);
#endif
}

static int executes_helper(pid_t pid) {
    char path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    ssize_t length = readlink(path, target, sizeof target - 1);
    return length > 0 && strncmp(target, "/memfd:hotcell-helper", 21) == 0;
}

static void name_child(struct task *parent, struct task *child) {
    child->known = 1;
    if (!parent->role[0])
        return;
    if (strcmp(parent->role, "spawner") == 0)
        snprintf(child->role, sizeof child->role, "child%d", ++parent->children);
    else if (!strchr(parent->role, '.'))
        snprintf(child->role, sizeof child->role, "%.16s.program", parent->role);
}

int main(int count, char **words) {
    if (count < 7) {
        fprintf(stderr, "usage: injector LOG ROLE NUMBER OCCURRENCE ERRNO PROGRAM ARGUMENTS...\n");
        return 64;
    }
    const char *role = words[2];
    long number = atol(words[3]), occurrence = atol(words[4]), error = atol(words[5]);
    trace = fopen(words[1], "we");
    if (!trace)
        die("cannot write the log");

    int gate[2];
    if (pipe(gate) < 0)
        die("no pipe");
    pid_t first = fork();
    if (first < 0)
        die("cannot fork");
    if (first == 0) {
        char byte;
        close(gate[1]);
        if (read(gate[0], &byte, 1) < 0)
            _exit(71);
        close(gate[0]);
        execv(words[6], words + 6);
        _exit(72);
    }
    close(gate[0]);
    long follow = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
                  PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, first, 0, (void *)follow) < 0)
        die("cannot follow a child");
    add(first)->known = 1;
    close(gate[1]);

    int status, code = 73, spawners = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (pid < 0)
            continue;
        if (!WIFSTOPPED(status)) {
            if (pid == first)
                code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            forget(pid);
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        struct task *task = find(pid);
        if (!task) {
            task = add(pid);
            task->held = 1;
            continue;
        }
        if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
            unsigned long child = 0;
            ptrace(PTRACE_GETEVENTMSG, pid, 0, &child);
            struct task *other = find((pid_t)child);
            if (!other)
                other = add((pid_t)child);
            name_child(task, other);
            if (other->held) {
                other->held = 0;
                go_on(other, 0);
            }
            go_on(task, 0);
        } else if (event == PTRACE_EVENT_EXEC) {
            if (strchr(task->role, '.')) {
                finished = 1;
                task->role[0] = 0;
            } else if (!task->role[0] && executes_helper(pid)) {
                /* Only the first is looked at: a second one is started when that could not be used. */
                snprintf(task->role, sizeof task->role, spawners++ ? "later" : "spawner");
            }
            go_on(task, 0);
        } else if (event == EVENT_STOP) {
            if (signal == SIGTRAP)
                go_on(task, 0);
            else
                ptrace(PTRACE_LISTEN, pid, 0, 0);
        } else if (signal == (SIGTRAP | 0x80)) {
            struct info info;
            memset(&info, 0, sizeof info);
            ptrace(GET_SYSCALL_INFO, pid, (void *)sizeof info, &info);
            if (info.op == INFO_ENTRY && task->role[0] && !finished && info.number < NUMBERS) {
                fprintf(trace, "%s %llu\n", task->role, (unsigned long long)info.number);
                int times = ++task->counts[info.number];
                if (error && strcmp(task->role, role) == 0 && (long)info.number == number && times == occurrence) {
                    skip_call(pid);
                    task->fails = 1;
                    fprintf(trace, "injected\n");
                    fflush(trace);
                }
            } else if (info.op == INFO_EXIT && task->fails) {
                task->fails = 0;
                set_result(pid, -error);
            }
            go_on(task, 0);
        } else {
            /* A signal on its way; a bare SIGTRAP is ours. */
            go_on(task, event ? 0 : signal);
        }
    }
    fclose(trace);
    return code;
}
