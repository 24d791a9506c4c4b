package coord

// Coordinator has the ports by which a node coordinates. The zero Coordinator is that of a node alone. A
// backend returns one with the ports that it implements, and a program may replace or add ports of other backends: a
// [Bus] of package kafka, for instance, or an [Elector] of package guid. A Coordinator is a value: to copy it is safe, and
// it closes nothing.
type Coordinator struct {
	// Membership reports which nodes share a store of tasks. If it is nil, the node is the only one.
	Membership Membership

	// Elector elects the nodes that do the duties of one node of a store. If it is nil, this node does all of them.
	Elector Elector

	// Bus carries hints between the nodes of a store. If it is nil, a node finds within about a second the tasks that
	// other nodes have added for it.
	Bus Bus

	// Clock is the clock of tasks, which all nodes of a store share. It is read before the node becomes a member. If it
	// is nil, tasks go by the wall clock of the machine.
	Clock Clock

	// Settings keeps the changes of limits that operators make while nodes run. All nodes of a store need the same
	// Settings. If it is nil, the store keeps them.
	Settings Config

	// Semaphore and Rates grant the permits and tokens of limits of the cluster. Nodes with the same Semaphore and Rates
	// share such limits, by their names. Set both or none. If both are nil, only the tasks of this node count.
	Semaphore Semaphore
	Rates     Rates

	// Peers reports the nodes that share Settings, Semaphore and Rates with this one and have stores of their own. It is
	// for display: such nodes have no tasks in common. It may be nil.
	Peers Membership
}

// Apart returns the Coordinator of a node that has a store of its own and shares limits and settings with the nodes of c:
// its members become Peers, and it has no Elector, Bus and Clock.
func (c Coordinator) Apart() Coordinator {
	return Coordinator{Settings: c.Settings, Semaphore: c.Semaphore, Rates: c.Rates, Peers: c.Membership}
}
