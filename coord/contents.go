package coord

import (
	"context"
	"errors"
	"time"
)

// ErrInUse says that nothing can be removed, because nodes use it.
var ErrInUse = errors.New("nodes are alive")

// Keeper is implemented by coordinators that keep the data of nodes below a prefix, beside the data of other programs.
type Keeper interface {
	// Contents returns the data below the prefix.
	Contents(ctx context.Context) (Contents, error)

	// Clean removes all data below the prefix, for nodes of all stores, and returns it. All nodes must
	// be stopped, and none may start before it returns. The error wraps [ErrInUse] if one is alive nevertheless: then
	// nothing is removed, unless the node has joined at the last moment.
	Clean(ctx context.Context) (Contents, error)
}

// Contents is the data of a coordinator below a prefix. Its parts are sorted: members by incarnation, the others by name.
type Contents struct {
	Cluster  string               // id of the prefix, a part of the [Identity] of its clusters; "": no node has ever used it
	Members  []StoreMember        // nodes that are alive
	Leaders  []Leader             // roles that are held
	Limits   []LimitContents      // limits with permits that are held or wanted
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

// LimitContents is a limit with permits that are held or wanted.
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
