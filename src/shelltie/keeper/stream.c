/* Whoever is connected to a keeper that stays: authentication, frames in and out, flow control.
 *
 * One holds us at a time. Others wait for a moment, and must show the token before anything else; a
 * newer one may take over, and the older one is told. Whatever is wrong on a connection ends that
 * connection alone, after an ERROR frame.
 */
#define _GNU_SOURCE
#include <poll.h>
#include "stay.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 8, GREETING_MAX = 4096, START_MAX = 8 * 1024 * 1024, TOKEN_MAX = 128 };
enum { PATIENCE = 5 * SECOND, LAST_WORDS = 2 * SECOND, FRAMES_A_TURN = 32 };
enum { OUT_FULL = 64 * 1024, OUT_MAX = 1024 * 1024 }; /* no more output; not even a word */
static const char magic[] = "shelltie-stream";

struct client {
    int socket; /* -1: free */
    bool known, closing, broken;
    long deadline; /* to say who it is, or to read our last words; 0 once it holds us */
    uint32_t head[2];
    size_t got;
    char *body;
    char *out; /* what it has not read yet */
    size_t start, count, room;
    int passed; /* a descriptor to be sent with the byte `pass_at` of `out`; -1: none */
    size_t pass_at;
};
static struct client clients[CLIENTS], *holder;
static int listener;
static char token[TOKEN_MAX];
static long heard;

bool held(void) { return holder != NULL; }

bool has_room(void) { return holder && holder->count < OUT_FULL; }

long last_heard(void) { return heard; }

/* ---- Fields of a body: decimal numbers and texts, each ended by NUL ---- */

char *take_text(struct body *body) {
    char *text = body->at, *end = memchr(text, 0, body->left);
    if (!end) return NULL;
    body->left -= end + 1 - text;
    body->at = end + 1;
    return text;
}

bool take_number(struct body *body, uint64_t *value) {
    char *text = take_text(body);
    if (!text || !*text || strlen(text) > 18 || text[strspn(text, "0123456789")]) return false;
    *value = strtoull(text, NULL, 10);
    return true;
}

/* ---- Out ---- */

static void drop(struct client *client) {
    if (client == holder) {
        holder = NULL;
        let_go();
    }
    close(client->socket);
    if (client->passed >= 0) close(client->passed);
    free(client->body);
    free(client->out);
    *client = (struct client){.socket = -1, .passed = -1};
}

static void append(struct client *client, const void *data, size_t count) {
    if (client->start && client->start + client->count + count > client->room) {
        memmove(client->out, client->out + client->start, client->count);
        client->start = 0;
    }
    if (client->start + client->count + count > client->room) {
        size_t room = client->count + count + 4096;
        char *larger = room > OUT_MAX + FRAME_MAX ? NULL : realloc(client->out, room);
        if (!larger) {
            client->broken = true; /* it asks, and does not read what we answer */
            return;
        }
        client->out = larger;
        client->room = room;
    }
    memcpy(client->out + client->start + client->count, data, count);
    client->count += count;
}

static void put(struct client *client, int kind, const char *fields, size_t length,
                const void *data, size_t count) {
    uint32_t head[2] = {htole32(length + count), htole32(kind)};
    if (client->broken || client->closing || client->count > OUT_MAX) {
        client->broken |= client->count > OUT_MAX;
        return;
    }
    append(client, head, sizeof head);
    append(client, fields, length);
    if (count) append(client, data, count);
}

/* Says it to whoever holds us. The format has a '|' for each NUL. */
void tell(int kind, const void *data, size_t count, const char *format, ...) {
    char fields[1024];
    va_list values;
    if (!holder) return;
    va_start(values, format);
    int length = vsnprintf(fields, sizeof fields, format, values);
    va_end(values);
    if (length >= (int)sizeof fields) length = sizeof fields - 1;
    for (int i = 0; i < length; i++)
        if (fields[i] == '|') fields[i] = 0;
    put(holder, kind, fields, length, data, count);
}

/* Where descriptors can be passed, the holder may look at the terminal itself. One at a time. */
bool tell_terminal(const char *run, int terminal) {
    if (!holder) return true;
    int copy = holder->passed >= 0 ? -1 : dup(terminal);
    if (copy < 0) return false;
    holder->passed = copy;
    holder->pass_at = holder->count;
    tell(TTY, NULL, 0, "%s|", run);
    return true;
}

static void say_last(struct client *client, const char *code, const char *why) {
    char fields[512];
    int length = snprintf(fields, sizeof fields, "%s%c%s", code, 0, why) + 1;
    if (length > (int)sizeof fields) length = sizeof fields;
    fields[length - 1] = 0;
    put(client, ERROR, fields, length, NULL, 0);
    if (client == holder) {
        holder = NULL;
        let_go();
    }
    client->closing = true;
    client->deadline = now() + LAST_WORDS;
}

static struct client *speaking; /* whose frame is being served */

void refuse_frame(const char *code, const char *why) { say_last(speaking, code, why); }

/* What a socket of the kernel's takes of it now. */
static void flush(struct client *client) {
    while (client->count && !client->broken) {
        struct iovec part = {client->out + client->start, client->count};
        char space[CMSG_SPACE(sizeof(int))] = {0};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        bool passes = client->passed >= 0 && client->pass_at == 0;
        if (client->passed >= 0 && client->pass_at) part.iov_len = client->pass_at;
        if (passes) {
            message.msg_control = space;
            message.msg_controllen = sizeof space;
            struct cmsghdr *carried = CMSG_FIRSTHDR(&message);
            carried->cmsg_level = SOL_SOCKET;
            carried->cmsg_type = SCM_RIGHTS;
            carried->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(carried), &client->passed, sizeof(int));
        }
        ssize_t sent = sendmsg(client->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) {
            client->broken = errno != EAGAIN;
            return;
        }
        client->start += sent;
        client->count -= sent;
        if (passes) {
            close(client->passed);
            client->passed = -1;
        } else if (client->passed >= 0)
            client->pass_at -= sent;
    }
    if (!client->count) client->start = 0;
}

/* ---- In ---- */

static pid_t parent_of(pid_t pid) {
    char path[32], stat[1024];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    stat[fread(stat, 1, sizeof stat - 1, file)] = 0;
    fclose(file);
    char *after_name = strrchr(stat, ')');
    if (after_name) sscanf(after_name, ") %*c %d", &parent);
    return parent;
}

/* What we hold may not hold us. Its orphans become our own children: nobody gets out of this. */
static bool is_on_leash(pid_t pid) {
    for (int steps = 0; pid > 1 && steps < 4096; steps++, pid = parent_of(pid))
        if (pid == getpid()) return true;
    return false;
}

static struct client *free_client(void) {
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i].socket < 0) return &clients[i];
    return NULL;
}

/* False when nobody waits at the door, or must wait on: those inside are soon known, or out. */
static bool let_in(void) {
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    struct client *free_one = free_client();
    int made = free_one ? accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    if (made < 0) return false;
    if (getsockopt(made, SOL_SOCKET, SO_PEERCRED, &peer, &size)) {
        close(made);
        return true;
    }
    *free_one = (struct client){.socket = made, .passed = -1, .deadline = now() + PATIENCE};
    if (peer.uid != geteuid())
        say_last(free_one, "user", "this keeper is another user's");
    else if (is_on_leash(peer.pid))
        say_last(free_one, "leash", "what a keeper holds may not hold it");
    return true;
}

/* The same time, however much of it is right. */
static bool is_token(const char *shown) {
    size_t length = strlen(token);
    unsigned char wrong = strlen(shown) != length;
    for (size_t i = 0; i < length; i++) wrong |= token[i] ^ shown[wrong ? 0 : i];
    return !wrong && length;
}

static void meet(struct client *client, struct body body) {
    char *name = take_text(&body), why[128];
    uint64_t version;
    if (!name || strcmp(name, magic) || !take_number(&body, &version)) {
        say_last(client, "garbage", "this is not the greeting of a stream");
        return;
    }
    if (version != STREAM_VERSION) {
        snprintf(why, sizeof why, "this keeper speaks version %d of the stream, and you speak %llu",
                 STREAM_VERSION, (unsigned long long)version);
        say_last(client, "version", why);
        return;
    }
    char *shown = take_text(&body), *how = take_text(&body);
    if (!shown || !how || body.left) say_last(client, "garbage", "a greeting has four fields");
    else if (!is_token(shown)) say_last(client, "token", "this is not the token of this keeper");
    else if (leaving) say_last(client, "ending", "this keeper is ending everything it holds");
    else if (holder && strcmp(how, "take"))
        say_last(client, "held", "another server holds this keeper");
    else {
        if (holder) say_last(holder, "taken", "a newer server has taken over this keeper");
        holder = client;
        client->known = true;
        client->deadline = 0;
        heard = now();
        greet();
    }
}

static size_t longest(const struct client *client) {
    if (!client->known) return GREETING_MAX;
    return le32toh(client->head[1]) == START ? START_MAX : FRAME_MAX;
}

static void serve_frame(struct client *client) {
    struct body body = {client->body, le32toh(client->head[0])};
    int kind = le32toh(client->head[1]);
    speaking = client;
    if (!client->known && kind != HELLO) say_last(client, "garbage", "the greeting is missing");
    else if (!client->known) meet(client, body);
    else if (kind <= HELLO || kind > LAST_ASKED) say_last(client, "garbage", "an unknown frame");
    else {
        heard = now();
        serve_request(kind, body);
    }
}

/* False when there is nothing more for now. */
static bool receive(struct client *client) {
    size_t length = le32toh(client->head[0]), at = client->got - sizeof client->head;
    bool in_head = client->got < sizeof client->head;
    void *to = in_head ? (char *)client->head + client->got : client->body + at;
    size_t wanted = in_head ? sizeof client->head - client->got : length - at;
    ssize_t count = recv(client->socket, to, wanted, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) {
        client->broken = true;
        return false;
    }
    client->got += count;
    if (client->got < sizeof client->head) return true;
    length = le32toh(client->head[0]);
    if (in_head) {
        if (length > longest(client))
            return say_last(client, "oversize", "a frame is longer than it may be"), false;
        client->body = malloc(length + 1);
        if (!client->body) return say_last(client, "memory", "no memory for a frame"), false;
        client->body[length] = 0;
    }
    if (client->got < sizeof client->head + length) return true;
    serve_frame(client);
    free(client->body);
    client->body = NULL;
    client->got = 0;
    return true;
}

/* ---- Turns ---- */

bool open_stream(int descriptor, const char *shown) {
    listener = descriptor;
    for (int i = 0; i < CLIENTS; i++) clients[i] = (struct client){.socket = -1, .passed = -1};
    if (strlen(shown) >= sizeof token) return false;
    strcpy(token, shown);
    heard = now();
    return true;
}

size_t stream_polls(struct pollfd *into) {
    into[0] = (struct pollfd){free_client() ? listener : -1, POLLIN, 0};
    for (int i = 0; i < CLIENTS; i++) {
        short wanted = (clients[i].closing ? 0 : POLLIN) | (clients[i].count ? POLLOUT : 0);
        into[i + 1] = (struct pollfd){clients[i].socket, wanted, 0};
    }
    return CLIENTS + 1;
}

long stream_deadline(void) {
    long first = 0;
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i].socket >= 0 && clients[i].deadline && (!first || clients[i].deadline < first))
            first = clients[i].deadline;
    return first;
}

void serve_stream(const struct pollfd *polled, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct client *client = &clients[i - 1];
        if (client->socket < 0 || client->socket != polled[i].fd) continue;
        for (int turns = 0; turns < FRAMES_A_TURN && polled[i].revents & (POLLIN | POLLHUP); turns++)
            if (client->closing || client->broken || !receive(client)) break;
    }
    for (int i = 0; i < CLIENTS && polled[0].revents && let_in(); i++)
        ;
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &clients[i];
        if (client->socket < 0) continue;
        flush(client);
        bool late = client->deadline && now() >= client->deadline;
        if (late && !client->closing && !client->broken)
            say_last(client, "late", "the greeting did not come in time");
        else if (client->broken || (client->closing && (late || !client->count)))
            drop(client);
    }
}

bool nothing_waits(void) { return !holder || !holder->count; }
