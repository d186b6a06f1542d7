/* Enters a living sandbox (setns), mounts overlayfs there for one program alone, and runs that.
 *
 *   shelltie-keeper --enter BWRAP FILTER LOWER DEVICE:INODE UPPER WORK TARGET -- PROGRAM...
 *
 * It does what `enter` of providers/bubblewrap/overlay_mount.py does, without the start of a Python
 * for each command. Who is already in there sees nothing of us before all rights are gone: until the
 * fork at the end we are in no pid namespace of theirs, and from setns() to exec the kernel lets
 * nobody look into us. What it says on stderr begins with "overlay: ".
 */
#define _GNU_SOURCE
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not every library of C knows the calls for mounts. Their numbers are the same on every machine. */
enum { CALL_MOVE_MOUNT = 429, CALL_FSOPEN = 430, CALL_FSCONFIG = 431, CALL_FSMOUNT = 432 };
enum { CONFIG_FLAG = 0, CONFIG_TEXT = 1, CONFIG_CREATE = 6, CLOSE_ON_EXEC = 1 };
enum { NO_SET_UID = 0x2, NO_DEVICES = 0x4, BY_DESCRIPTORS = 0x4 | 0x40 };
enum { OWNER_OF_NAMESPACE = 0xb701 }; /* NS_GET_USERNS */
enum { FILTER_MAX = 1 << 16, PROGRAM = 10 };

enum { MOUNTS, USERS, NETWORK, IPC, UTS, CGROUP, PIDS, SPACES };
static const struct {
    const char *name;
    int kind;
} spaces[SPACES] = {{"mnt", CLONE_NEWNS},      {"user", CLONE_NEWUSER}, {"net", CLONE_NEWNET},
                    {"ipc", CLONE_NEWIPC},     {"uts", CLONE_NEWUTS},   {"cgroup", CLONE_NEWCGROUP},
                    {"pid", CLONE_NEWPID}};
static int opened[SPACES];

static _Noreturn void give_up(const char *text) {
    fprintf(stderr, "overlay: %s\n", text);
    exit(1);
}

/* The three names have a remedy in overlay.py; any other error has its text. */
static long check(long answer, const char *what) {
    if (answer >= 0) return answer;
    const char *name = errno == EPERM ? "EPERM" : errno == ENODEV ? "ENODEV" : "EINVAL";
    if (errno == EPERM || errno == ENODEV || errno == EINVAL)
        fprintf(stderr, "overlay: %s: %s: %s\n", what, name, strerror(errno));
    else
        fprintf(stderr, "overlay: %s: %d: %s\n", what, errno, strerror(errno));
    exit(1);
}

static int open_checked(const char *path, int flags) {
    return check(open(path, flags | O_CLOEXEC), path);
}

/* 0 if it has none, or more than one. */
static pid_t only_child_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "re");
    pid_t child = 0, another;
    int count = file ? fscanf(file, "%d %d", &child, &another) : 0;
    if (file) fclose(file);
    return count == 1 ? child : 0;
}

/* All four users and groups of a process; false if it cannot be read. */
static bool users_of(const char *pid, unsigned ids[8]) {
    char path[64], line[256];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%s/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "Uid:", 4))
            count += sscanf(line + 4, "%u %u %u %u", ids, ids + 1, ids + 2, ids + 3);
        else if (!strncmp(line, "Gid:", 4))
            count += sscanf(line + 4, "%u %u %u %u", ids + 4, ids + 5, ids + 6, ids + 7);
    if (file) fclose(file);
    return count == 8;
}

/* Those of the first process of a sandbox. */
static void open_namespaces(pid_t bwrap) {
    char first[16], path[64];
    unsigned theirs[8], ours[8];
    pid_t child = only_child_of(bwrap);
    snprintf(first, sizeof first, "%d", child);
    for (int i = 0; i < SPACES; i++) {
        snprintf(path, sizeof path, "/proc/%s/ns/%s", first, spaces[i].name);
        opened[i] = child ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (opened[i] < 0) give_up("its sandbox has just ended");
    }
    bool known = users_of(first, theirs) && users_of("self", ours);
    if (only_child_of(bwrap) != child) /* else the number may be another's by now */
        give_up("its sandbox has just ended");
    if (!known || memcmp(theirs, ours, sizeof ours)) /* a bwrap of somebody's may have become another */
        give_up("its sandbox is another user's");
}

static void join(int space) { check(setns(opened[space], spaces[space].kind), "setns"); }

static void have_own_mounts(void) {
    check(unshare(CLONE_NEWNS), "unshare");
    check(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "mounts of one's own");
}

static bool is_directory(int descriptor, const char *identity) {
    struct stat found;
    char text[64];
    check(fstat(descriptor, &found), "stat");
    snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)found.st_dev,
             (unsigned long long)found.st_ino);
    return !strcmp(text, identity);
}

/* A mount that is nowhere yet, if the lower directory is still the one that was looked at. By
 * descriptors: no character in a name means anything to the kernel then. They are opened here, as
 * those of another mount namespace are refused. */
static int detached_overlay(char **paths, const char *identity) {
    static const char *options[] = {"lowerdir", "upperdir", "workdir"};
    /* userxattr: what it notes can be read by the user whose files they are. volatile: nothing is
       mounted again, so that the end of it need not wait for the disk. */
    static const char *flags[] = {"userxattr", "volatile"};
    char path[64];
    int directories[3];
    for (int i = 0; i < 3; i++) directories[i] = open_checked(paths[i], O_PATH | O_NOFOLLOW);
    if (!is_directory(directories[0], identity))
        give_up("the workspace is not the directory any more that was looked at");
    int made = check(syscall(CALL_FSOPEN, "overlay", CLOSE_ON_EXEC), "mount");
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", directories[i]);
        check(syscall(CALL_FSCONFIG, made, CONFIG_TEXT, options[i], path, 0), "mount");
    }
    for (int i = 0; i < 2; i++)
        check(syscall(CALL_FSCONFIG, made, CONFIG_FLAG, flags[i], NULL, 0), "mount");
    check(syscall(CALL_FSCONFIG, made, CONFIG_CREATE, NULL, NULL, 0), "mount");
    int mounted = check(syscall(CALL_FSMOUNT, made, CLOSE_ON_EXEC, NO_SET_UID | NO_DEVICES), "mount");
    for (int i = 0; i < 3; i++) close(directories[i]);
    close(made);
    return mounted;
}

/* As `bwrap --cap-drop ALL` does, for root, too. */
static void give_up_rights(void) {
    struct __user_cap_header_struct whose = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    for (int number = 0; number < 64 && !prctl(PR_CAPBSET_DROP, number, 0, 0, 0); number++)
        ;
    check(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient rights");
    check(syscall(SYS_capset, &whose, none), "rights");
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new rights");
}

/* Load a seccomp filter; with -1 there is none for this machine. */
static void filter_calls(int descriptor) {
    static struct sock_filter instructions[FILTER_MAX / sizeof(struct sock_filter)];
    if (descriptor < 0) return;
    ssize_t size = check(pread(descriptor, instructions, sizeof instructions, 0), "filter");
    struct sock_fprog program = {size / sizeof *instructions, instructions};
    close(descriptor);
    check(prctl(PR_SET_SECCOMP, 2 /* SECCOMP_MODE_FILTER */, &program, 0, 0), "filter of system calls");
}

/* In the pid namespace that was joined; this process only waits for it. Who waits for us may send
 * its command as soon as it has read the name of our mount namespace. */
static int run_program(int filter, const char *name, char **program) {
    int status;
    pid_t child = check(fork(), "fork");
    if (child == 0) {
        check(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "parent");
        check(chdir("/"), "directory");
        filter_calls(filter);
        fprintf(stderr, "%s\n", name);
        execv(program[0], program);
        check(-1, program[0]);
    }
    syscall(SYS_close_range, 3, ~0U, 0); /* only the program may hold the server's socket */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

int enter(int count, char **words) {
    if (count <= PROGRAM || strcmp(words[PROGRAM - 1], "--")) give_up("not enough words");
    pid_t bwrap = atoi(words[2]);
    int filter = atoi(words[3]);
    const char *identity = words[5], *target = words[8];
    char *paths[] = {words[4], words[6], words[7]}, name[64] = "";
    open_namespaces(bwrap);
    int own = open_checked("/proc/self", O_PATH); /* there it is another's /proc */
    int owner = check(ioctl(opened[MOUNTS], OWNER_OF_NAMESPACE), "owner");
    bool is_root = geteuid() == 0;
    if (!is_root) { /* in the namespace that owns the others one has the rights to join them */
        check(setns(owner, CLONE_NEWUSER), "setns");
        have_own_mounts(); /* where one may mount, as root may anywhere; a copy of them takes time */
    }
    int mounted = detached_overlay(paths, identity);
    for (int space = NETWORK; space < SPACES; space++) join(space);
    join(MOUNTS);
    have_own_mounts();
    int place = open_checked(target, O_PATH | O_NOFOLLOW | O_DIRECTORY);
    if (!is_directory(place, identity)) give_up("the workspace is another directory in its sandbox");
    check(syscall(CALL_MOVE_MOUNT, mounted, "", place, "", BY_DESCRIPTORS), "mount");
    check(readlinkat(own, "ns/mnt", name, sizeof name - 1), "mount namespace");
    struct stat outer, inner;
    check(fstat(owner, &outer) | fstat(opened[USERS], &inner), "stat");
    if (is_root || outer.st_ino != inner.st_ino) join(USERS);
    give_up_rights();
    return run_program(filter, name, words + PROGRAM);
}
