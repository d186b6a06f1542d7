/* One command of a keeper that stays: our ends of its streams, and what its leash has said. */
#define _GNU_SOURCE
#include <poll.h>
#include "stay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

enum { CHUNK = 16 * 1024, READS_A_TURN = 8, LAST_BYTES = 200 };

/* ---- Telling ---- */

static void tell_words(struct run *run) {
    for (int i = 0; i < run->word_count; i++) {
        struct word *word = &run->words[i];
        if (!word->ready) return;
        if (word->told || !held()) continue;
        tell(WORD, NULL, 0, "%s|%" PRIu64 "|%" PRIu64 "|%s|", run->id, word->at[OUT], word->at[ERR],
             word->line);
        word->told = true;
    }
}

void add_word(struct run *run, const char *line, bool ready) {
    if (run->word_count == WORDS) return;
    struct word *word = &run->words[run->word_count++];
    snprintf(word->line, sizeof word->line, "%s", line);
    for (int i = 0; i < STREAMS; i++) word->at[i] = run->streams[i].spool.end;
    word->ready = ready;
    tell_words(run);
}

void tell_row(struct run *run) {
    struct stream *out = &run->streams[OUT], *err = &run->streams[ERR];
    int problem = out->spool.problem ? out->spool.problem : err->spool.problem;
    tell(ROW, NULL, 0,
         "%s|%" PRIu64 "|%" PRIu64 "|%" PRIu64 "|%" PRIu64 "|%" PRIu64 "|%s|%d|", run->id,
         run->taken + run->typed_count, out->spool.first, out->spool.end, err->spool.first,
         err->spool.end, run->terminal >= 0 ? "t" : "", problem);
    for (int i = 0; i < run->word_count; i++) run->words[i].told = false;
    run->taken_told = UINT64_MAX; /* whoever comes now has room for so much more input */
    tell_words(run);
}

/* ---- What a command prints ---- */

void close_descriptor(int *descriptor) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

static void path_of(char *path, size_t size, const struct run *run, int stream) {
    snprintf(path, size, "%s/%s.%d", directory, run->id, stream + 1);
}

/* While somebody reads along, what they have not read yet is not overwritten: the command waits, as
 * it would before a pipe. Without anybody the oldest falls out. */
bool wants_more(const struct stream *stream) {
    const struct spool *spool = &stream->spool;
    return stream->source >= 0
           && (!stream->followed || spool->end - stream->acked + CHUNK <= spool->size);
}

void read_output(struct run *run, struct stream *stream) {
    char data[CHUNK];
    for (int reads = 0; reads < READS_A_TURN && wants_more(stream); reads++) {
        ssize_t count = read(stream->source, data, sizeof data);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) {
            stream->dry = true;
            return;
        }
        if (count <= 0) { /* EIO is how a terminal ends */
            stream->dry = true;
            if (stream->source == run->terminal) run->terminal = -1;
            if (stream->source == run->input) run->input = -1;
            close_descriptor(&stream->source);
            return;
        }
        add_to_spool(&stream->spool, data, count);
    }
}

void send_output(struct run *run, int number) {
    static char data[CHUNK];
    struct stream *stream = &run->streams[number];
    struct spool *spool = &stream->spool;
    if (!stream->followed) return;
    if (stream->sent < spool->first) stream->sent = spool->first;
    if (stream->acked < spool->first) stream->acked = spool->first;
    uint64_t there = spool->end - stream->sent, open = stream->acked + WINDOW - stream->sent;
    if (stream->sent >= stream->acked + WINDOW) open = 0;
    size_t wanted = there < open ? there : open;
    if (wanted > CHUNK) wanted = CHUNK;
    size_t count = wanted ? read_spool(spool, stream->sent, data, wanted) : 0;
    if (count)
        tell(OUTPUT, data, count, "%s|%d|%" PRIu64 "|", run->id, number + 1, stream->sent);
    stream->sent += count;
    if (wanted && !count) stream->sent = spool->first; /* the disk failed */
    if (stream->source < 0 && stream->sent == spool->end && !stream->end_told) {
        stream->end_told = true;
        tell(END_OF_OUTPUT, NULL, 0, "%s|%d|%" PRIu64 "|", run->id, number + 1, spool->end);
    }
}

static bool is_dry(const struct stream *stream) { return stream->source < 0 || stream->dry; }

/* What was printed before the end is read before the end is told. */
void settle_words(struct run *run) {
    for (int i = 0; i < run->word_count; i++) {
        struct word *word = &run->words[i];
        if (word->ready) continue;
        bool over = run->streams[OUT].source < 0 && run->streams[ERR].source < 0;
        bool dry = is_dry(&run->streams[OUT]) && is_dry(&run->streams[ERR]);
        bool last = !strncmp(word->line, "gone", 4);
        /* Nobody is left, so the end of file comes, if nobody else was given the other end. */
        if (last ? !over && (!dry || now() < run->gone_at + LAST_BYTES) : !dry) return;
        for (int s = 0; s < STREAMS; s++) {
            if (last) close_descriptor(&run->streams[s].source);
            word->at[s] = run->streams[s].spool.end;
        }
        if (last) run->terminal = run->input = -1;
        word->ready = true;
    }
    tell_words(run);
}

/* ---- What a leash says ---- */

void note_end(struct run *run, const char *line) {
    if (run->gone) return;
    run->gone = true;
    run->gone_at = now();
    run->deadline = run->kill_at = 0;
    close_descriptor(&run->control);
    if (run->input >= 0 && run->input != run->terminal) close_descriptor(&run->input);
    run->typed_count = 0;
    run->streams[OUT].dry = run->streams[ERR].dry = false;
    add_word(run, line, false);
}

static void hear_line(struct run *run, const char *line) {
    if (!strncmp(line, "gone ", 5))
        note_end(run, line);
    else if (!strncmp(line, "exited ", 7)) {
        run->streams[OUT].dry = run->streams[ERR].dry = false;
        add_word(run, line, false);
    } else if (!strncmp(line, "started ", 8) || !strncmp(line, "failed ", 7))
        add_word(run, line, true);
    else
        tell(WORD, NULL, 0, "%s|%" PRIu64 "|%" PRIu64 "|%s|", run->id, run->streams[OUT].spool.end,
             run->streams[ERR].spool.end, line);
}

void hear_leash(struct run *run) {
    ssize_t count = recv(run->control, run->line + run->line_length,
                         sizeof run->line - 1 - run->line_length, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) { /* shot, or too long a line: our keeper sweeps, and says so */
        close_descriptor(&run->control);
        if (!keeper_lives) note_end(run, "gone 0 0"); /* see bury_keeper() */
        return;
    }
    run->line_length += count;
    run->line[run->line_length] = 0;
    for (char *end; !run->gone && (end = strchr(run->line, '\n'));) {
        *end = 0;
        hear_line(run, run->line);
        run->line_length -= end + 1 - run->line;
        memmove(run->line, end + 1, run->line_length + 1);
    }
}

void order(struct run *run, int number) {
    char byte = number;
    if (run->control >= 0) send(run->control, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- What it reads ---- */

void follow(struct run *run, struct body body) {
    uint64_t number, from;
    if (!take_number(&body, &number) || number < 1 || number > STREAMS || !take_number(&body, &from)
        || from > run->streams[number - 1].spool.end)
        return refuse_frame("garbage", "there is nothing to follow there");
    struct stream *stream = &run->streams[number - 1];
    stream->followed = true;
    stream->end_told = false;
    stream->sent = stream->acked = from;
}

void acknowledge(struct run *run, struct body body) {
    uint64_t number, upto;
    if (!take_number(&body, &number) || number < 1 || number > STREAMS || !take_number(&body, &upto)
        || upto > run->streams[number - 1].sent)
        return refuse_frame("garbage", "this was not sent");
    struct stream *stream = &run->streams[number - 1];
    if (upto > stream->acked) stream->acked = upto;
}

/* Bytes that have come before are not typed again. */
void take_input(struct run *run, struct body body) {
    uint64_t from, next = run->taken + run->typed_count;
    if (!take_number(&body, &from) || from > next)
        return refuse_frame("garbage", "input is missing before this");
    size_t again = next - from;
    if (again >= body.left) return;
    if (body.left - again > sizeof run->typed - run->typed_count)
        return refuse_frame("window", "more input than there is room for");
    if (run->input < 0) { /* nobody reads it */
        run->taken += body.left - again;
        return;
    }
    memcpy(run->typed + run->typed_count, body.at + again, body.left - again);
    run->typed_count += body.left - again;
}

void write_input(struct run *run) {
    while (run->typed_count && run->input >= 0) {
        ssize_t count = write(run->input, run->typed, run->typed_count);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) break;
        if (count < 0) { /* nobody reads any more */
            count = run->typed_count;
            if (run->input != run->terminal) close_descriptor(&run->input);
        }
        run->taken += count;
        run->typed_count -= count;
        memmove(run->typed, run->typed + count, run->typed_count);
    }
    if (run->closes && run->taken >= run->close_at && run->input >= 0 && run->input != run->terminal)
        close_descriptor(&run->input);
    if (held() && run->taken != run->taken_told)
        tell(TAKEN, NULL, 0, "%s|%" PRIu64 "|", run->id, run->taken);
    run->taken_told = run->taken;
}

/* ---- Starting ---- */

bool unblock(int descriptor) {
    return fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) == 0;
}

void resize(struct run *run, uint64_t rows, uint64_t columns) {
    struct winsize size = {.ws_row = rows, .ws_col = columns};
    if (run->terminal >= 0) ioctl(run->terminal, TIOCSWINSZ, &size);
}

static int open_terminal(int ends[2]) {
    char name[64];
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0 || grantpt(ends[0]) || unlockpt(ends[0]) || ptsname_r(ends[0], name, sizeof name))
        return -1;
    ends[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return ends[1] < 0 ? -1 : 0;
}

/* Opens the command's three descriptors, and our ends of them. False, with errno. */
bool open_streams(struct run *run, const char *kind, int theirs[STDIO]) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    bool terminal = strchr(kind, 'p'), one = strchr(kind, 'o'), input = strchr(kind, 'i');
    bool opened = !(terminal ? open_terminal(out) : pipe2(out, O_CLOEXEC));
    run->streams[OUT].source = out[0];
    theirs[1] = out[1];
    if (terminal) run->terminal = out[0];
    if (terminal && !one) {
        theirs[0] = dup(out[1]);
        theirs[2] = dup(out[1]);
        run->input = out[0];
        return opened && theirs[0] >= 0 && theirs[2] >= 0 && unblock(out[0]);
    }
    opened = opened && (input ? !pipe2(in, O_CLOEXEC) : (in[0] = open("/dev/null", O_RDONLY)) >= 0);
    opened = opened && (one ? (err[1] = dup(out[1])) >= 0 : !pipe2(err, O_CLOEXEC));
    theirs[0] = in[0];
    theirs[2] = err[1];
    run->input = in[1];
    run->streams[ERR].source = err[0];
    return opened && unblock(out[0]) && (!input || unblock(in[1])) && (one || unblock(err[0]));
}

void free_run(struct run *run) {
    char path[4096];
    close_descriptor(&run->control);
    if (run->input >= 0 && run->input != run->streams[OUT].source) close_descriptor(&run->input);
    for (int s = 0; s < STREAMS; s++) {
        close_descriptor(&run->streams[s].source);
        if (run->streams[s].spool.file < 0) continue;
        close_descriptor(&run->streams[s].spool.file);
        path_of(path, sizeof path, run, s);
        unlink(path);
    }
    free(run);
}

/* NULL, with errno and perhaps the `step` that failed. */
struct run *new_run(const char *id, uint64_t bound, bool has_errors, const char **step) {
    char path[4096];
    struct run *run = calloc(1, sizeof *run);
    if (!run) return NULL;
    strcpy(run->id, id);
    run->control = run->input = run->terminal = -1;
    for (int s = 0; s < STREAMS; s++) {
        run->streams[s].source = run->streams[s].spool.file = -1;
        run->streams[s].spool.size = bound;
    }
    for (int s = 0; s < (has_errors ? STREAMS : 1); s++) {
        path_of(path, sizeof path, run, s);
        errno = open_spool(&run->streams[s].spool, path, bound);
        if (errno) {
            int error = errno;
            *step = "spool";
            free_run(run);
            return errno = error, NULL;
        }
    }
    return run;
}
