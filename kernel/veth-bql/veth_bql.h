/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Byte queue limits of a veth device.
 *
 * Written from the description of the series "veth: add Byte Queue Limits (BQL) support" (v7, netdev, June 2026),
 * without its text. Included by veth.c, which veth.patch changes to call what is here.
 *
 * One producer and one completer: a charge is made under the ring's producer lock, as the device takes no lock of
 * its own to transmit; a completion is the consumer's poll, or the teardown once that poll is gone.
 */
#ifndef VETH_BQL_H
#define VETH_BQL_H

/* In the pointers of the ring, beside VETH_XDP_FLAG: this packet was charged. Without a qdisc none is. */
#define VETH_BQL_FLAG		BIT(1)

/* A full poll, 64 packets, of a consumer that takes 250 ms for each. */
#define VETH_BQL_WATCHDOG_MS	(64 * 250)
#define VETH_BQL_TX_USECS	100

static bool bql_bytes;
module_param(bql_bytes, bool, 0444);
MODULE_PARM_DESC(bql_bytes, "charge a packet's bytes, as v1 of the series, not one unit");

static void veth_ptr_free(void *ptr);

static bool veth_bql_charged(void *ptr)
{
	return (unsigned long)ptr & VETH_BQL_FLAG;
}

static struct sk_buff *veth_bql_skb(void *ptr)
{
	return (void *)((unsigned long)ptr & ~VETH_BQL_FLAG);
}

static unsigned int veth_bql_units(const struct sk_buff *skb)
{
	return bql_bytes ? skb->len : 1;
}

/* The queue that a packet is charged to; without a qdisc, nothing could hold what a stopped queue holds back. */
static struct netdev_queue *veth_bql_txq(struct net_device *dev, int queue)
{
	struct netdev_queue *txq = netdev_get_tx_queue(dev, queue);

	return qdisc_txq_has_no_queue(txq) ? NULL : txq;
}

static int veth_bql_produce(struct veth_rq *rq, struct sk_buff *skb, struct netdev_queue *txq)
{
	void *ptr = skb;
	int err = -ENOSPC;

	spin_lock(&rq->xdp_ring.producer_lock);
	if (!__ptr_ring_full(&rq->xdp_ring)) {
		if (txq) {
			/* Before the consumer can see the packet, as it must not complete more than was charged. */
			txq_trans_cond_update(txq);
			netdev_tx_sent_queue(txq, veth_bql_units(skb));
			ptr = (void *)((unsigned long)skb | VETH_BQL_FLAG);
		}
		err = __ptr_ring_produce(&rq->xdp_ring, ptr);
	}
	spin_unlock(&rq->xdp_ring.producer_lock);
	return err;
}

static void veth_bql_complete(struct veth_rq *rq, struct netdev_queue *txq)
{
	if (txq && rq->bql_packets) {
		txq_trans_cond_update(txq);
		netdev_tx_completed_queue(txq, rq->bql_packets, rq->bql_units);
	}
	rq->bql_packets = 0;
	rq->bql_units = 0;
}

/* After every packet, charged or not. What is pending above the limit holds the queue stopped by itself. */
static void veth_bql_maybe_complete(struct veth_rq *rq, struct netdev_queue *txq)
{
#ifdef CONFIG_BQL
	struct veth_priv *priv = netdev_priv(rq->dev);
	u64 now;

	if (!rq->bql_packets || !txq)
		return;
	now = ktime_get_ns();
	if (now - rq->bql_completed_ns >= READ_ONCE(priv->tx_usecs) * (u64)NSEC_PER_USEC ||
	    rq->bql_units > READ_ONCE(txq->dql.limit)) {
		rq->bql_completed_ns = now;
		veth_bql_complete(rq, txq);
	}
#endif
}

/*
 * At the end of a poll that emptied the ring. A queue that stands still here waits for what is pending, whatever
 * the limit says by now: somebody may have raised it, in sysfs, since the queue was stopped.
 */
static void veth_bql_ring_empty(struct veth_rq *rq, struct netdev_queue *txq)
{
	if (txq && test_bit(__QUEUE_STATE_STACK_XOFF, &txq->state))
		veth_bql_complete(rq, txq);
}

/* The peer's queue that a ring's packets came from; one that is no longer in use may still have charges. */
static struct netdev_queue *veth_bql_peer_txq(struct net_device *peer, struct veth_rq *rq)
{
	struct veth_priv *priv = netdev_priv(rq->dev);
	unsigned int queue = rq - priv->rq;

	return peer && queue < peer->num_tx_queues ? netdev_get_tx_queue(peer, queue) : NULL;
}

static void veth_bql_init(struct veth_rq *rq)
{
	rq->bql_packets = 0;
	rq->bql_units = 0;
	rq->bql_completed_ns = ktime_get_ns();
}

/* Once neither poll nor producer can be in the ring: frees what is there, and completes every charge. */
static void veth_bql_teardown(struct veth_rq *rq)
{
	struct veth_priv *priv = netdev_priv(rq->dev);
	struct net_device *peer = rtnl_dereference(priv->peer);
	struct netdev_queue *txq = veth_bql_peer_txq(peer, rq);
	void *ptr;

	while ((ptr = ptr_ring_consume(&rq->xdp_ring))) {
		if (veth_bql_charged(ptr)) {
			rq->bql_packets++;
			rq->bql_units += veth_bql_units(veth_bql_skb(ptr));
		}
		veth_ptr_free(ptr);
	}
	veth_bql_complete(rq, txq);
	/* A producer may have stopped it for a full ring, too, and no poll is left to wake it. */
	if (txq && netif_running(peer))
		netif_tx_wake_queue(txq);
}

static void veth_tx_timeout(struct net_device *dev, unsigned int queue)
{
	struct netdev_queue *txq = netdev_get_tx_queue(dev, queue);

	/* Not netdev_tx_reset_queue(): the peer's poll may be completing right now. */
	clear_bit(__QUEUE_STATE_STACK_XOFF, &txq->state);
	netif_tx_wake_queue(txq);
	txq_trans_cond_update(txq);
}

static int veth_get_coalesce(struct net_device *dev, struct ethtool_coalesce *coalesce,
			     struct kernel_ethtool_coalesce *kernel, struct netlink_ext_ack *extack)
{
	struct veth_priv *priv = netdev_priv(dev);

	coalesce->tx_coalesce_usecs = READ_ONCE(priv->tx_usecs);
	return 0;
}

static int veth_set_coalesce(struct net_device *dev, struct ethtool_coalesce *coalesce,
			     struct kernel_ethtool_coalesce *kernel, struct netlink_ext_ack *extack)
{
	struct veth_priv *priv = netdev_priv(dev);
	struct net_device *peer = rtnl_dereference(priv->peer);

	if (coalesce->tx_coalesce_usecs > VETH_BQL_WATCHDOG_MS * USEC_PER_MSEC / 2) {
		NL_SET_ERR_MSG(extack, "tx-usecs may be half of the transmit watchdog's 16 s at most");
		return -ERANGE;
	}
	/* Both, as a completion reads the setting of the end that consumes. */
	WRITE_ONCE(priv->tx_usecs, coalesce->tx_coalesce_usecs);
	if (peer) {
		priv = netdev_priv(peer);
		WRITE_ONCE(priv->tx_usecs, coalesce->tx_coalesce_usecs);
	}
	return 0;
}

static void veth_bql_setup(struct net_device *dev)
{
	struct veth_priv *priv = netdev_priv(dev);

	priv->tx_usecs = VETH_BQL_TX_USECS;
	dev->watchdog_timeo = msecs_to_jiffies(VETH_BQL_WATCHDOG_MS);
}

/*
 * The series has a flag of the core for the files of byte_queue_limits in sysfs, which the core of this kernel does
 * not make for a device without locks or a queue. It looks when the device is registered: until then it has both.
 */
static void veth_bql_show(struct net_device *dev, bool show)
{
	dev->lltx = !show;
	if (show)
		dev->priv_flags &= ~IFF_NO_QUEUE;
	else
		dev->priv_flags |= IFF_NO_QUEUE;
}

#endif
