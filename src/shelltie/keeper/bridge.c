/* A bridge from stdin and stdout to a keeper that stays, where its socket cannot be forwarded.
 *
 *   shelltie-keeper --bridge DIRECTORY
 *
 * What comes on stdin goes to DIRECTORY/socket, and what comes from there to stdout, until one of
 * them ends. It holds nothing: when it is killed, the keeper waits for whoever comes next.
 */
#define _GNU_SOURCE
#include <poll.h>
#include "stay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PIPE = 64 * 1024 };

struct direction {
    int from, to;
    char data[PIPE];
    size_t start, count;
    bool over; /* the source has ended */
};

/* False when nobody takes it any more. */
static bool pump(struct direction *way, short readable, short writable) {
    if (readable && !way->over && !way->count) {
        ssize_t count = read(way->from, way->data, sizeof way->data);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        if (count <= 0) way->over = true;
        else way->count = count, way->start = 0, writable = POLLOUT;
    }
    if (writable && way->count) {
        ssize_t count = write(way->to, way->data + way->start, way->count);
        if (count < 0) return errno == EAGAIN || errno == EINTR;
        way->start += count;
        way->count -= count;
    }
    return true;
}

int bridge(const char *place) {
    static struct direction in, out;
    /* By a relative name: it may have 107 bytes. */
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0 || chdir(place) || connect(made, (struct sockaddr *)&address, sizeof address))
        return perror(place), 4;
    signal(SIGPIPE, SIG_IGN);
    in = (struct direction){.from = STDIN_FILENO, .to = made};
    out = (struct direction){.from = made, .to = STDOUT_FILENO};
    /* Only the socket: the others may be shared, and would not block for their owner either. */
    if (!unblock(made)) return perror(place), 4;
    for (;;) {
        struct pollfd polled[] = {
            {in.over || in.count ? -1 : in.from, POLLIN, 0},
            {made, (out.count ? 0 : POLLIN) | (in.count ? POLLOUT : 0), 0},
            {out.count ? out.to : -1, POLLOUT, 0},
        };
        poll(polled, 3, -1);
        short arrived = polled[1].revents & (POLLIN | POLLHUP | POLLERR);
        if (!pump(&in, polled[0].revents, polled[1].revents & POLLOUT)) return 0;
        if (!pump(&out, arrived && !out.count, polled[2].revents)) return 0;
        if ((in.over && !in.count) || (out.over && !out.count)) return 0;
    }
}
