/*
 * churn ROUNDS [SECONDS]: attach, detach, rename and tear down a veth pair, over and over, flooded all the while by two senders.
 * Prints how many rounds were done, how often a flood stood still (2 s without a packet, both ends up), and how many packets passed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static int netlink, control;
static atomic_int sending_on; /* the index of vp, 0: none */
static atomic_ulong sent;

static struct {
    struct nlmsghdr head;
    union {
        struct ifinfomsg link;
        struct tcmsg tc;
    };
    char more[512];
} message;

static void begin(int type, int flags, size_t body)
{
    memset(&message, 0, sizeof message);
    message.head.nlmsg_len = NLMSG_LENGTH(body);
    message.head.nlmsg_type = type;
    message.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
}

static struct rtattr *add(int type, const void *data, size_t length)
{
    struct rtattr *at = (void *)((char *)&message + NLMSG_ALIGN(message.head.nlmsg_len));

    at->rta_type = type;
    at->rta_len = RTA_LENGTH(length);
    if (data)
        memcpy(RTA_DATA(at), data, length);
    message.head.nlmsg_len = NLMSG_ALIGN(message.head.nlmsg_len) + RTA_ALIGN(at->rta_len);
    return at;
}

static void end(struct rtattr *at)
{
    at->rta_len = (char *)&message + message.head.nlmsg_len - (char *)at;
}

static int ask(void)
{
    char answer[8192];

    send(netlink, &message, message.head.nlmsg_len, 0);
    recv(netlink, answer, sizeof answer, 0);
    return ((struct nlmsgerr *)NLMSG_DATA(answer))->error;
}

static int add_pair(void)
{
    struct rtattr *info, *data, *peer;
    struct ifinfomsg none = {0};

    begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof message.link);
    add(IFLA_IFNAME, "vp", 3);
    info = add(IFLA_LINKINFO, NULL, 0);
    add(IFLA_INFO_KIND, "veth", 4);
    data = add(IFLA_INFO_DATA, NULL, 0);
    peer = add(VETH_INFO_PEER, &none, sizeof none);
    add(IFLA_IFNAME, "vc", 3);
    end(peer), end(data), end(info);
    return ask();
}

static int delete_link(const char *name)
{
    begin(RTM_DELLINK, 0, sizeof message.link);
    message.link.ifi_index = if_nametoindex(name);
    return ask();
}

static int qdisc(const char *kind) /* none: away with it */
{
    begin(kind ? RTM_NEWQDISC : RTM_DELQDISC, kind ? NLM_F_CREATE | NLM_F_REPLACE : 0, sizeof message.tc);
    message.tc.tcm_ifindex = if_nametoindex("vp");
    message.tc.tcm_parent = TC_H_ROOT;
    if (kind)
        add(TCA_KIND, kind, strlen(kind) + 1);
    return ask();
}

static void set(const char *name, int up)
{
    struct ifreq request = {0};

    strcpy(request.ifr_name, name);
    ioctl(control, SIOCGIFFLAGS, &request);
    request.ifr_flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
    ioctl(control, SIOCSIFFLAGS, &request);
}

static void name(const char *from, const char *to)
{
    struct ifreq request = {0};

    strcpy(request.ifr_name, from);
    strcpy(request.ifr_newname, to);
    if (ioctl(control, SIOCSIFNAME, &request))
        perror("rename");
}

static void ethtool(const char *name, unsigned command, unsigned value)
{
    struct ethtool_value wanted = {command, value};
    struct ifreq request = {0};

    strcpy(request.ifr_name, name);
    request.ifr_data = (void *)&wanted;
    ioctl(control, SIOCETHTOOL, &request);
}

static void tx_usecs(unsigned value)
{
    struct ethtool_coalesce wanted = {.cmd = ETHTOOL_SCOALESCE, .tx_coalesce_usecs = value};
    struct ifreq request = {.ifr_name = "vp"};

    request.ifr_data = (void *)&wanted;
    ioctl(control, SIOCETHTOOL, &request); /* a stock veth has none */
}

static void *flood(void *unused)
{
    static const char frame[60] = {2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5};
    struct timeval moment = {0, 20000};
    int fd = -1, on = 0, size = 1 << 16;

    (void)unused;
    for (;;) {
        int now = atomic_load(&sending_on);

        if (now != on) {
            struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = now};

            if (fd >= 0)
                close(fd);
            fd = socket(AF_PACKET, SOCK_RAW, 0);
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &moment, sizeof moment);
            setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
            bind(fd, (void *)&to, sizeof to);
            on = now;
        }
        if (on && send(fd, frame, sizeof frame, 0) > 0)
            atomic_fetch_add(&sent, 1);
        else
            usleep(1000);
    }
    return NULL;
}

static int stands_still(void)
{
    unsigned long before = atomic_load(&sent);

    for (int waited_ms = 0; waited_ms < 2000; waited_ms++) {
        if (atomic_load(&sent) > before + 300) /* more than a ring holds */
            return 0;
        usleep(1000);
    }
    return 1;
}

int main(int argc, char **argv)
{
    int rounds = atoi(argv[1]), round, still = 0;
    time_t until = time(NULL) + (argc > 2 ? atoi(argv[2]) : 1 << 30);
    pthread_t sender;

    netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    control = socket(AF_INET, SOCK_DGRAM, 0);
    pthread_create(&sender, NULL, flood, NULL);
    pthread_create(&sender, NULL, flood, NULL);
    for (round = 0; round < rounds && time(NULL) < until; round++) {
        int error = add_pair();

        if (error) {
            printf("round %d: %s\n", round, strerror(-error));
            return 1;
        }
        ethtool("vp", ETHTOOL_STSO, 0);
        ethtool("vp", ETHTOOL_SGSO, 0);
        ethtool("vc", ETHTOOL_SGRO, 1);
        tx_usecs(round % 5 * 500);
        set("vp", 1), set("vc", 1);
        if (round % 8)
            qdisc(round % 2 ? "fq_codel" : "sfq");
        atomic_store(&sending_on, if_nametoindex("vp"));
        usleep(2000);
        switch (round % 7) {
        case 0: /* the consumer goes and comes, by another name in between */
            set("vc", 0), name("vc", "vd"), name("vd", "vc"), set("vc", 1);
            break;
        case 1: /* its poll goes, and comes back */
            ethtool("vc", ETHTOOL_SGRO, 0), usleep(1000), ethtool("vc", ETHTOOL_SGRO, 1);
            break;
        case 2:
            qdisc(NULL), usleep(1000), qdisc("pfifo");
            break;
        case 3: /* the producer goes and comes */
            set("vp", 0), name("vp", "vq"), name("vq", "vp"), set("vp", 1);
            break;
        case 4: /* an interface may be renamed while it is up */
            name("vp", "vq"), name("vq", "vp"), name("vc", "vd"), name("vd", "vc");
            break;
        case 5:
            tx_usecs(0), qdisc("fq_codel"), tx_usecs(8000000);
            break;
        }
        if (stands_still()) {
            printf("round %d stands still\n", round);
            still++;
        }
        delete_link("vp"); /* flooded to the last */
        atomic_store(&sending_on, 0);
    }
    printf("rounds %d\nstill %d\nsent %lu\n", round, still, atomic_load(&sent));
    return 0;
}
