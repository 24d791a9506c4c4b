package zk

// names is the list of servers of a connection: a [zk.HostProvider] that leaves their names to the dialer. That of the
// library looks them up once, so that it keeps to addresses that have changed, and no name can be compared with a
// certificate. The library calls it from one goroutine.
type names struct {
	servers []string
	at      int // the server that was tried last; -1: none
	round   int // where the present round began
}

// Init implements [zk.HostProvider]. The library has shuffled the servers.
func (n *names) Init(servers []string) error {
	*n = names{servers: servers, at: -1, round: -1}
	return nil
}

// Len implements [zk.HostProvider].
func (n *names) Len() int { return len(n.servers) }

// Next implements [zk.HostProvider].
func (n *names) Next() (server string, retryStart bool) {
	n.at = (n.at + 1) % len(n.servers)
	retryStart = n.at == n.round
	if n.round < 0 {
		n.round = n.at
	}
	return n.servers[n.at], retryStart
}

// Connected implements [zk.HostProvider].
func (n *names) Connected() { n.round = n.at }
