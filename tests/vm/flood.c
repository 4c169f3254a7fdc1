/* flood ADDRESS PORT BYTES SECONDS: UDP datagrams as fast as a socket's buffer of 2 MiB takes them, then how many a second it was. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    static char payload[65536];
    struct sockaddr_in to = {.sin_family = AF_INET};
    int buffer = 1 << 20, fd = socket(AF_INET, SOCK_DGRAM, 0); /* the kernel doubles it */
    unsigned long sent = 0;
    double begin, end;

    if (argc != 5)
        return 2;
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    to.sin_port = htons(atoi(argv[2]));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    prctl(PR_SET_TIMERSLACK, 1);
    begin = now();
    end = begin + atof(argv[4]);
    while (now() < end) {
        if (sendto(fd, payload, atoi(argv[3]), MSG_DONTWAIT, (void *)&to, sizeof to) >= 0) {
            sent++;
        } else { /* full: leaves the core to others for a moment */
            struct timespec moment = {0, 50000};
            nanosleep(&moment, NULL);
        }
    }
    printf("%.0f\n", sent / (now() - begin));
}
