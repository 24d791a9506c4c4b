package table

// Order asks the coordinator for permits of a limit, or gives some back.
type Order struct {
	Limit   string // its name for the coordinator
	Number  uint64 // of the Order: it grows with each of them
	Want    int    // how many the node wants to have in all
	Least   int    // with how many it can start a task; not more than it has if none waits
	Max     int    // how many there are for all nodes
	Version uint64 // of Max
}

// Holding has the permits of this node, from the coordinator. It answers an Order, or reports a
// change.
type Holding struct {
	Limit   string
	Number  uint64 // of the latest Order for the limit that the coordinator knew
	Held    int    // permits of this node
	Share   int    // the permits of each node if all that use the limit have the same
	Waiting int    // how many permits other nodes wait for
	Needed  int    // how many of these they need to have their share, plus how many permits all nodes have above the limit's maximum
}

// Draw asks the coordinator for tokens of a rate. It is answered by exactly one Drawn.
type Draw struct {
	Limit    string
	Interval int64 // nanoseconds between two tokens at the full rate
	Burst    int
	Tokens   int
}

// Drawn answers a Draw.
type Drawn struct {
	Limit  string
	Tokens int
	Next   int64 // nanoseconds until there is another token, if fewer were granted than asked for
}
