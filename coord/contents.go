package coord

import (
	"context"
	"errors"
	"time"
)

// ErrInUse says that nodes use what was to be removed.
var ErrInUse = errors.New("nodes are alive")

// Keeper is implemented by coordinators that keep what nodes need below a prefix, beside what others keep there.
type Keeper interface {
	// Contents returns what is kept below the prefix.
	Contents(ctx context.Context) (Contents, error)

	// Clean removes all that is kept below the prefix, for nodes of all stores, and returns what it was. All nodes must
	// be stopped, and none may start meanwhile. The error wraps [ErrInUse] if one is alive nevertheless: then nothing is
	// removed, unless the node has come at the last moment.
	Clean(ctx context.Context) (Contents, error)
}

// Contents is what a coordinator keeps below a prefix. The parts are sorted: members by incarnation, the others by name.
type Contents struct {
	Cluster  string               // id of the prefix, which is a part of the [Identity] of its clusters; "": no node has ever used it
	Members  []StoreMember        // nodes that are alive
	Leaders  []Leader             // roles that are held
	Limits   []LimitContents      // limits of which permits are held or wanted
	Rates    []RateContents       // rates that are not full
	Settings map[string][]Setting // by name
}

// StoreMember is a node that is alive.
type StoreMember struct {
	Store string // id of the store of tasks that it shares with others; "": it has one of its own
	Member
}

// Leader is a role that a node has.
type Leader struct {
	Store string // as of [StoreMember]
	Role  string
	Node  string // name of the node; "" if it is not known
}

// LimitContents is a limit of which permits are held or wanted.
type LimitContents struct {
	Name    string
	Max     int
	Holders []Holder
}

// RateContents is a rate that is not full.
type RateContents struct {
	Name string
	Full time.Time // when it is, by the clock of rates
}
