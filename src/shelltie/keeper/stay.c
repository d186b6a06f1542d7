/* A keeper that stays: it outlives whoever started it, and is reached through a byte stream.
 *
 *   shelltie-keeper --stay DIRECTORY LISTENER LEASE
 *
 * DIRECTORY (0700) has the `token`, and gets a file for each stream of output. LISTENER is the
 * descriptor of a listening Unix socket, or `-`: then one is made, DIRECTORY/socket. LEASE is in
 * milliseconds: without a word for that long everything ends. stream_protocol.py has the words.
 *
 * Commands are started and ended by an ordinary keeper, our child, to which we are the server. So
 * everything that is promised of that one holds here, too: if we are killed, everything ends. We
 * have the other ends of the commands' streams, and write what comes to a spool.
 */
#define _GNU_SOURCE
#include <poll.h>
#include "stay.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { RUN = 1, SHOOT = 2, RUNS_MAX = 256, SEND_PATIENCE = 5, SPOOL_MIN = 64 * 1024 };
#define SPOOL_MOST ((uint64_t)1 << 40)

bool leaving;
long lease;
static long leaving_since;
static struct run **runs;
static size_t run_count, run_room, turn;
const char *directory;
static int listening;
static long numbers;
static pid_t keeper;
bool keeper_lives;

void greet(void) {
    tell(WELCOME, NULL, 0, "%d|%d|%ld|%zu|", STREAM_VERSION, getpid(), lease, run_count);
    for (size_t i = 0; i < run_count; i++) tell_row(runs[i]);
}

void let_go(void) {
    for (size_t i = 0; i < run_count; i++) {
        runs[i]->asked_terminal = false;
        for (int s = 0; s < STREAMS; s++) runs[i]->streams[s].followed = false;
    }
}

/* A piece of each, so that one that floods holds nobody up. */
static void send_everything(void) {
    bool more = true;
    while (more && has_room() && run_count) {
        more = false;
        for (size_t i = 0; i < run_count && has_room(); i++) {
            struct run *run = runs[++turn % run_count];
            for (int s = 0; s < STREAMS; s++) {
                uint64_t before = run->streams[s].sent;
                send_output(run, s);
                more |= run->streams[s].sent != before;
            }
        }
    }
}

/* ---- Starting ---- */

static struct run *run_of(const char *id) {
    for (size_t i = 0; id && i < run_count; i++)
        if (!strcmp(runs[i]->id, id)) return runs[i];
    return NULL;
}

static bool is_id(const char *id) {
    size_t length = id ? strlen(id) : 0;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)id[i]) && id[i] != '-' && id[i] != '_') return false;
    return length && length <= ID_MAX;
}

/* The frame of an ordinary keeper, with four descriptors on its first byte. False, with errno. */
static bool ask_keeper(int kind, const char *number, const char *rest, size_t length,
                       const int *descriptors) {
    char space[CMSG_SPACE(DESCRIPTORS * sizeof(int))] = {0};
    uint32_t head[2] = {htole32(strlen(number) + 1 + length), htole32(kind)};
    struct iovec parts[] = {{head, sizeof head}, {(char *)number, strlen(number) + 1},
                            {(char *)rest, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    if (descriptors) {
        message.msg_control = space;
        message.msg_controllen = sizeof space;
        struct cmsghdr *carried = CMSG_FIRSTHDR(&message);
        carried->cmsg_level = SOL_SOCKET;
        carried->cmsg_type = SCM_RIGHTS;
        carried->cmsg_len = CMSG_LEN(DESCRIPTORS * sizeof(int));
        memcpy(CMSG_DATA(carried), descriptors, DESCRIPTORS * sizeof(int));
    }
    /* It waits while the child reads; a child that does not is given up, see SO_SNDTIMEO. */
    size_t whole = sizeof head + strlen(number) + 1 + length, done = 0;
    while (done < whole) {
        ssize_t sent = sendmsg(server, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) {
            if (done) shutdown(server, SHUT_RDWR); /* half a frame: nothing can follow it */
            return false;
        }
        done += sent;
        message.msg_control = NULL;
        message.msg_controllen = 0;
        for (struct iovec *part = parts; part < parts + 3; part++) {
            size_t taken = (size_t)sent < part->iov_len ? (size_t)sent : part->iov_len;
            part->iov_base = (char *)part->iov_base + taken;
            part->iov_len -= taken;
            sent -= taken;
        }
    }
    return true;
}

static bool begin(struct run *run, const char *kind, uint64_t rows, uint64_t columns,
                  struct body rest) {
    int theirs[DESCRIPTORS] = {-1, -1, -1, -1}, pair[2] = {-1, -1};
    char number[24];
    bool done = open_streams(run, kind, theirs) && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    if (done) {
        resize(run, rows, columns);
        run->control = pair[0];
        theirs[CONTROL] = pair[1];
        run->number = ++numbers;
        snprintf(number, sizeof number, "%ld", run->number);
        done = ask_keeper(RUN, number, rest.at, rest.left, theirs);
    }
    int error = errno;
    for (int i = 0; i < DESCRIPTORS; i++) close_descriptor(&theirs[i]);
    return errno = error, done;
}

static void cannot_start(const char *id, const char *step) {
    char line[64];
    snprintf(line, sizeof line, "failed %s %d", step, errno);
    tell(WORD, NULL, 0, "%s|0|0|%s|", id, line);
    tell(WORD, NULL, 0, "%s|0|0|gone 0 0|", id);
    for (int s = 1; s <= STREAMS; s++) tell(END_OF_OUTPUT, NULL, 0, "%s|%d|0|", id, s);
}

/* id total grace bound streams rows columns, and then what a RUN frame has after its id. */
static void start(struct body body) {
    uint64_t total, grace, bound, rows, columns;
    char *id = take_text(&body);
    const char *step = "fork";
    bool sound = is_id(id) && take_number(&body, &total) && take_number(&body, &grace)
                 && take_number(&body, &bound);
    char *kind = sound ? take_text(&body) : NULL;
    sound = kind && take_number(&body, &rows) && take_number(&body, &columns) && body.left
            && !body.at[body.left - 1] && bound >= SPOOL_MIN && bound <= SPOOL_MOST
            && rows < 65536 && columns < 65536;
    if (!sound) return refuse_frame("garbage", "this start cannot be read");
    struct run *known = run_of(id);
    if (known) return tell_row(known); /* it was asked for twice, and is started once */
    struct run **larger = grown(runs, run_count, &run_room, sizeof *larger);
    if (larger) runs = larger;
    errno = EAGAIN;
    struct run *run = !larger || run_count >= RUNS_MAX || !keeper_lives || leaving
                          ? NULL
                          : new_run(id, bound, !strpbrk(kind, "po"), &step);
    if (!run) return cannot_start(id, step);
    if (!begin(run, kind, rows, columns, body)) {
        cannot_start(id, step);
        free_run(run);
        return;
    }
    runs[run_count++] = run;
    run->deadline = total ? now() + (long)total : 0;
    run->grace = grace;
    tell_row(run);
}

/* ---- What whoever holds us asks for ---- */

static void forget(struct run *run) {
    if (!run->gone) return refuse_frame("garbage", "it has not ended");
    for (size_t i = 0; i < run_count; i++)
        if (runs[i] == run) runs[i] = runs[--run_count];
    free_run(run);
}

static void leave(void) {
    if (leaving) return;
    leaving = true;
    leaving_since = now();
    for (size_t i = 0; i < run_count; i++) /* to a leash the end of file means kill */
        if (runs[i]->control >= 0) shutdown(runs[i]->control, SHUT_WR);
}

static void shoot(struct run *run) {
    char number[24];
    snprintf(number, sizeof number, "%ld", run->number);
    ask_keeper(SHOOT, number, NULL, 0, NULL);
}

static void serve_run(int kind, struct run *run, struct body body) {
    uint64_t first, second;
    bool one = kind == SIGNAL || kind == CLOSE || kind == LIMIT, two = kind == RESIZE;
    if ((one && !take_number(&body, &first))
        || (two && (!take_number(&body, &first) || !take_number(&body, &second)))
        || (kind == SIGNAL && (first < 1 || first >= NSIG)) || (two && (first | second) > 65535))
        return refuse_frame("garbage", "this request cannot be read");
    switch (kind) {
    case FOLLOW: return follow(run, body);
    case ACK: return acknowledge(run, body);
    case INPUT: return take_input(run, body);
    case FORGET: return forget(run);
    case SIGNAL: return order(run, first);
    case RESIZE: return resize(run, first, second);
    case SHOOT_LEASH: return shoot(run);
    case TERMINAL: run->asked_terminal = true; return;
    case CLOSE: run->closes = true, run->close_at = first; return;
    case LIMIT: run->deadline = first && !run->gone ? now() + (long)first : 0; return;
    }
}

void serve_request(int kind, struct body body) {
    if (kind == PING) {
        char *text = take_text(&body);
        if (!text || strlen(text) > 64) return refuse_frame("garbage", "this is no ping");
        return tell(PONG, NULL, 0, "%s|", text);
    }
    if (kind == FINISH) return leave();
    if (kind == START) return start(body);
    char *id = take_text(&body);
    struct run *run = run_of(id);
    if (!id) return refuse_frame("garbage", "this request names no run");
    if (run) serve_run(kind, run, body); /* of what is forgotten nothing more is to be done */
}

/* ---- Time, and the end ---- */

static void keep_limits(void) {
    for (size_t i = 0; i < run_count; i++) {
        struct run *run = runs[i];
        if (run->kill_at && now() >= run->kill_at) {
            order(run, SIGKILL);
            run->kill_at = now() + SECOND;
        }
        if (!run->deadline || now() < run->deadline) continue;
        add_word(run, "expired", true);
        order(run, SIGTERM);
        run->deadline = 0;
        run->kill_at = now() + run->grace;
    }
}

static long sooner(long one, long other) { return one && (!other || one < other) ? one : other; }

static int until_something_is_due(void) {
    long next = sooner(stream_deadline(), leaving ? 0 : last_heard() + lease);
    bool ticks = leaving || !keeper_lives;
    for (size_t i = 0; i < run_count; i++) {
        next = sooner(runs[i]->deadline, sooner(runs[i]->kill_at, next));
        for (int w = 0; w < runs[i]->word_count; w++) ticks |= !runs[i]->words[w].ready;
    }
    long left = next ? next - now() : SECOND;
    left = left < 0 ? 0 : left > 60 * SECOND ? 60 * SECOND : left;
    return ticks && left > TICK ? TICK : left;
}

static void hear_keeper(void) {
    static char said[4096];
    static size_t length;
    ssize_t count = recv(server, said + length, sizeof said - 1 - length, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
        keeper_lives = false;
        return;
    }
    length += count;
    said[length] = 0;
    for (char *end; (end = strchr(said, '\n'));) {
        long number;
        *end = 0;
        for (size_t i = 0; sscanf(said, "swept %ld", &number) == 1 && i < run_count; i++)
            if (runs[i]->number == number) {
                if (runs[i]->control >= 0) hear_leash(runs[i]); /* what it said before it died */
                note_end(runs[i], "gone 0 0");
            }
        length -= end + 1 - said;
        memmove(said, end + 1, length + 1);
    }
}

/* Without our keeper its leashes end as soon as their sockets do, and what was theirs becomes ours:
 * so we kill our children until there is none, and that is a proof as well. */
static bool bury_keeper(void) {
    int status;
    pid_t pid;
    for (size_t i = 0; i < run_count; i++)
        if (runs[i]->control >= 0) shutdown(runs[i]->control, SHUT_WR);
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
        ;
    if (pid == 0 && leaving_since && now() > leaving_since + 2 * SECOND) {
        find_children();
        for (size_t i = 0; i < found.count; i++)
            if (found.at[i] != keeper) kill_child(found.at[i]);
    }
    if (pid == 0) return false;
    for (size_t i = 0; i < run_count; i++) {
        if (runs[i]->control >= 0) hear_leash(runs[i]);
        note_end(runs[i], "gone 0 0");
    }
    return true;
}

/* True when nobody is left. */
static bool ended(void) {
    bool all_gone = true;
    for (size_t i = 0; i < run_count; i++) all_gone &= runs[i]->gone;
    if (keeper_lives && (all_gone || now() > leaving_since + 2 * SECOND))
        shutdown(server, SHUT_WR); /* it ends whoever is left, by force after a second */
    if (keeper_lives || !bury_keeper()) return false;
    for (size_t i = 0; i < run_count; i++)
        for (int w = 0; w < runs[i]->word_count; w++)
            if (!runs[i]->words[w].ready) return false;
    return true;
}

static void turn_of(struct run *run) {
    for (int s = 0; s < STREAMS; s++) read_output(run, &run->streams[s]);
    write_input(run);
    settle_words(run);
    if (run->asked_terminal && (run->terminal < 0 || tell_terminal(run->id, run->terminal)))
        run->asked_terminal = false;
}

/* Each run has four descriptors that we may wait for. */
static size_t run_polls(struct pollfd *into) {
    size_t count = 0;
    for (size_t i = 0; i < run_count; i++) {
        struct run *run = runs[i];
        into[count++] = (struct pollfd){run->control, POLLIN, 0};
        for (int s = 0; s < STREAMS; s++) {
            struct stream *stream = &run->streams[s];
            into[count++] = (struct pollfd){wants_more(stream) ? stream->source : -1, POLLIN, 0};
        }
        into[count++] = (struct pollfd){run->typed_count ? run->input : -1, POLLOUT, 0};
    }
    return count;
}

static void continue_keeper(void) {
    siginfo_t stopped = {.si_pid = 0};
    waitid(P_PID, keeper, &stopped, WSTOPPED | WNOHANG | __WALL);
    if (stopped.si_pid) kill(keeper, SIGCONT);
}

static void serve_everybody(void) {
    static struct pollfd polled[2 + 16 + 4 * RUNS_MAX];
    for (;;) {
        polled[0] = (struct pollfd){signals, POLLIN, 0};
        polled[1] = (struct pollfd){keeper_lives ? server : -1, POLLIN, 0};
        size_t streams = stream_polls(polled + 2), count = run_polls(polled + 2 + streams);
        poll(polled, 2 + streams + count, until_something_is_due());
        if (polled[0].revents && took(SIGTERM)) leave();
        continue_keeper();
        for (size_t i = 0; i < run_count; i++)
            if (polled[2 + streams + 4 * i].revents && runs[i]->control >= 0) hear_leash(runs[i]);
        if (polled[1].revents) hear_keeper();
        serve_stream(polled + 2, streams);
        /* Only now: a word that came in the last moment counts. */
        if (now() >= last_heard() + lease) leave();
        if (!keeper_lives && !leaving) leave(); /* somebody has shot it: nothing can be held */
        keep_limits();
        for (size_t i = 0; i < run_count; i++) turn_of(runs[i]);
        send_everything();
        if (leaving && ended()) return;
    }
}

/* False while output is on its way to whoever follows it. */
static bool all_sent(void) {
    for (size_t i = 0; i < run_count; i++)
        for (int s = 0; s < STREAMS; s++)
            if (runs[i]->streams[s].followed && !runs[i]->streams[s].end_told) return false;
    return nothing_waits();
}

static void say_farewell(void) {
    long patience = now() + 2 * SECOND;
    struct pollfd polled[16];
    tell(BYE, NULL, 0, "%s", "");
    for (;;) { /* what was printed last may still be on its way */
        send_everything();
        if (all_sent() || now() >= patience) return;
        size_t count = stream_polls(polled);
        polled[0].fd = -1;
        poll(polled, count, TICK);
        serve_stream(polled, count);
    }
}

static void clean_up(void) {
    static const char *names[] = {"token", "socket", "about"};
    char path[4096];
    while (run_count) free_run(runs[--run_count]);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

/* By a relative name: the address of a socket has 107 bytes, and a home may have more. */
static int listen_there(void) {
    struct sockaddr_un place = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0 || chdir(directory) || bind(made, (struct sockaddr *)&place, sizeof place)
        || listen(made, 16) || chdir("/"))
        return -1;
    return made;
}

static bool read_token(char *token, size_t size) {
    char path[4096];
    struct stat place;
    snprintf(path, sizeof path, "%s/token", directory);
    if (lstat(directory, &place) || !S_ISDIR(place.st_mode) || place.st_uid != geteuid()
        || place.st_mode & 077)
        return errno = EPERM, false;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t count = file < 0 ? -1 : read(file, token, size - 1);
    if (file >= 0) close(file);
    if (count <= 0) return false;
    token[count] = 0;
    token[strcspn(token, "\n")] = 0;
    return *token != 0;
}

static bool start_keeper(void) {
    int pair[2];
    struct timeval patience = {.tv_sec = SEND_PATIENCE};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return false;
    keeper = fork();
    if (keeper == 0) {
        close(pair[0]);
        close(listening); /* or whoever comes would wait for an answer when we are dead */
        _exit(serve_as_child(pair[1]));
    }
    close(pair[1]);
    server = pair[0];
    setsockopt(server, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    keeper_lives = keeper > 0;
    return keeper_lives;
}

/* Nobody's terminal or file is held open for hours. */
static void close_stdio(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; null >= 0 && i < STDIO; i++) dup2(null, i);
    if (null >= STDIO) close(null);
    if (chdir("/")) return; /* nor a directory; paths of ours are absolute */
}

int stay(int count, char **words) {
    char token[128], *end = "";
    lease = count == 5 ? strtol(words[4], &end, 10) : 0;
    if (lease <= 0 || *end)
        return fputs("usage: shelltie-keeper --stay DIRECTORY LISTENER LEASE\n", stderr), 2;
    directory = words[2];
    if (!read_token(token, sizeof token)) return perror(directory), 4;
    listening = strcmp(words[3], "-") ? atoi(words[3]) : listen_there();
    if (listening < STDIO || !unblock(listening) || !open_stream(listening, token))
        return perror("shelltie-keeper: no socket"), 4;
    pid_t child = fork(); /* whoever started us sees that it could be done, and has no child then */
    if (child) return child < 0 ? perror("shelltie-keeper: fork"), 4 : 0;
    setsid(); /* whoever started us may be a login that ends */
    close_stdio();
    if (!start_keeper()) return 4;
    prepare_signals();
    prctl(PR_SET_NAME, "shelltie-stay");
    serve_everybody();
    say_farewell();
    clean_up();
    return 0;
}
