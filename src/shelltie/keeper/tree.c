/* Looks at /proc for our children, and theirs. */
#define _GNU_SOURCE
#include "keeper.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PID_LIMIT = 1 << 22 }; /* the kernel's own */

struct found found;

/* Who is in `found`: a child moves to another list while we look, when its parent dies. */
static uint8_t seen[PID_LIMIT / 8];

static void forget(size_t from) {
    while (found.count > from) {
        pid_t pid = found.at[--found.count];
        seen[pid / 8] &= ~(1 << pid % 8);
    }
}

/* The array with room for one more than `count`, or NULL. */
void *grown(void *array, size_t count, size_t *room, size_t size) {
    if (count < *room) return array;
    void *larger = realloc(array, (2 * count + 64) * size);
    if (larger) *room = 2 * count + 64;
    return larger;
}

static void add(pid_t pid) {
    if (pid <= 1 || pid >= PID_LIMIT || seen[pid / 8] & 1 << pid % 8) return;
    pid_t *larger = grown(found.at, found.count, &found.room, sizeof *larger);
    if (!larger) return; /* whoever is missed now is found in the next round */
    found.at = larger;
    seen[pid / 8] |= 1 << pid % 8;
    found.at[found.count++] = pid;
}

static void add_listed(const char *path) {
    FILE *file = fopen(path, "re");
    if (!file) return;
    for (pid_t pid; fscanf(file, "%d", &pid) == 1;) add(pid);
    fclose(file);
}

/* Exact, because nobody but us removes somebody from this list: a parent reaps. */
void find_children(void) {
    forget(0);
    add_listed("/proc/thread-self/children");
}

/* With its whole group, which the kernel kills at once: a fork bomb outruns everything slower. No
 * session but ours has members from outside our tree, for nobody can join one; and as long as the
 * child is not reaped, its group cannot become another's. */
void kill_child(pid_t pid) {
    pid_t group = getpgid(pid), session = getsid(pid);
    if (group > 1 && session > 1 && session != getsid(0)) kill(-group, SIGKILL);
    kill(pid, SIGKILL);
}

/* The first thread may end before the others: such a process looks like a zombie, but lives. */
static bool alive(pid_t pid) {
    char path[32], stat[1024], state = 'X';
    int threads = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    stat[fread(stat, 1, sizeof stat - 1, file)] = 0;
    fclose(file);
    char *after_name = strrchr(stat, ')'); /* a name may contain anything, ')' too */
    if (after_name)
        sscanf(after_name, /* fields 3 and 20 of proc(5) */
               ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d",
               &state, &threads);
    return (state != 'Z' && state != 'X') || threads > 1;
}

static void add_children_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks) return;
    for (struct dirent *task; (task = readdir(tasks));) /* each thread has its own list */
        if (task->d_name[0] != '.') {
            snprintf(path, sizeof path, "/proc/%d/task/%.10s/children", pid, task->d_name);
            add_listed(path);
        }
    closedir(tasks);
}

/* Everybody who lives below us, at one moment more or less: good for telling and for asking
 * politely. A pid may be freed before we signal it; only find_children() is free of that.
 * There may be thousands who leave us no time to look: `enough`, if any, is asked now and then. */
void find_descendants(bool (*enough)(void)) {
    size_t living = 0;
    find_children();
    for (size_t i = 0; i < found.count; i++) {
        if (enough && i % 64 == 63 && enough()) break;
        add_children_of(found.at[i]);
        if (!alive(found.at[i])) continue;
        pid_t dead = found.at[living];
        found.at[living++] = found.at[i];
        found.at[i] = dead;
    }
    forget(living);
}
