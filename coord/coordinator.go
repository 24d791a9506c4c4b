package coord

// Coordinator is all that a node coordinates by: one port for each thing. The zero Coordinator is that of a node alone. A
// backend returns one with the ports that it has, and a program replaces or adds those that it takes from another: a
// [Bus] of package kafka, for instance, or an [Elector] of package guid. A Coordinator is a value: to copy it is safe, and
// it closes nothing.
type Coordinator struct {
	// Membership reports which nodes share a store of tasks. If it is nil, the node is the only one.
	Membership Membership

	// Elector elects the nodes that do what one node of a store should do. If it is nil, this node does all of it.
	Elector Elector

	// Bus carries hints between the nodes of a store. If it is nil, a node finds within about a second the tasks that
	// other nodes have added for it.
	Bus Bus

	// Clock is the clock by which tasks go, which all nodes of a store share. It was read before the node is a member. If it
	// is nil, tasks go by the wall clock of the machine.
	Clock Clock

	// Settings keeps how people change limits while nodes run. All nodes of a store need the same. If it is nil, the store
	// keeps them.
	Settings Config

	// Semaphore and Rates grant what limits of the cluster allow. Nodes with the same Semaphore and Rates share such
	// limits, by their names. Set both or none. If both are nil, the tasks of this node alone count.
	Semaphore Semaphore
	Rates     Rates

	// Peers reports which nodes share Settings, Semaphore and Rates with this one and have stores of their own. It is for
	// people: such nodes have no tasks in common. It may be nil.
	Peers Membership
}

// Apart returns the Coordinator of a node that has a store of its own and shares limits and settings with the nodes of c:
// its members become Peers, and it has no Elector, Bus and Clock.
func (c Coordinator) Apart() Coordinator {
	return Coordinator{Settings: c.Settings, Semaphore: c.Semaphore, Rates: c.Rates, Peers: c.Membership}
}
