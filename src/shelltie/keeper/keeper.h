/* What keeper.c, leash.c, tree.c, enter.c, stay.c and bridge.c know of one another. */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What comes with a command, in this order; what is more are cgroups to join. */
enum { STDIO = 3, CONTROL = 3, DESCRIPTORS = 4, DESCRIPTORS_MAX = 8 };
enum { TICK = 20, SECOND = 1000 };                /* in milliseconds, as now() */
/* Keeper to leash: kill everybody. Not SIGTERM, for a command may well `kill $PPID`. */
#define END (SIGRTMIN + 5)

extern int server;  /* the keeper's socket */
extern int signals; /* one signalfd for all of us: it yields the signals of whoever reads it */

/* tree.c: who is there */
extern struct found {
    pid_t *at;
    size_t count, room;
} found;
void find_children(void);
void find_descendants(bool (*enough)(void));
void kill_child(pid_t pid);
void *grown(void *array, size_t count, size_t *room, size_t size);

/* leash.c: one command */
bool say(int to, const char *format, ...) __attribute__((format(printf, 2, 3)));
long now(void);
bool took(int wanted);
_Noreturn void leash(char *body, size_t length, const int *descriptors, int count);

/* enter.c: a program in a living sandbox, on an overlay */
int enter(int count, char **words);

/* keeper.c, and stay.c: one that outlives whoever started it */
void prepare_signals(void);
int serve_as_child(int descriptor);
int stay(int count, char **words);

/* bridge.c: stdin and stdout to the socket of a keeper that stays */
int bridge(const char *place);
