package coord

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Semaphore grants permits of limits that all nodes share. A holder orders how many permits of a limit
// it wants in all. Orders are served first come, first served. The semaphore takes no permit away while
// its holder lives.
type Semaphore interface {
	// Hold makes holder a holder of permits until ctx ends. It calls fn without holdings when the
	// holder lives and may order, and from then on with the answers to its orders and with later
	// changes of its holdings: one call at a time, each with a slice that fn may keep. fn must not
	// wait, and must not call Order.
	//
	// Hold returns nil when ctx has ended and the permits of the holder are given back. It returns an error
	// before that if it cannot prove any more that the holder lives: then all permits are lost, and
	// are granted to others only after Holds reports false. The id must be new with every call. If
	// the coordinator cannot be reached at the start, Hold waits for it.
	Hold(ctx context.Context, holder task.ID, fn func([]Holding)) error

	// Order replaces the orders of a holder, which holds by this connection, for the limits that it
	// names. It does not wait. Each order is answered by a call of fn with the holding, also if
	// nothing has changed; one call may answer several orders of a limit.
	//
	// A Want below the number of held permits gives the rest back: the holder must have stopped using it when it
	// calls Order. Permits that are given back and wanted again are granted again, after the orders of others that
	// wait. If there is no such holder, Order does nothing.
	Order(holder task.ID, orders ...Order)

	// Holds reports whether the holder, which holds by this connection, certainly lives now: no other holder
	// can have been granted one of its permits. Time during which the process or the
	// machine was stopped counts. It does not wait.
	Holds(holder task.ID) bool

	// Holders returns the holders that have permits of a limit, by fence, and then the holders that only wait
	// for some, in the order in which they will get them.
	Holders(ctx context.Context, name string) ([]Holder, error)
}

// MaxPermits is the largest number of permits of a limit. In an [Order] larger numbers count as this one.
const MaxPermits = 1<<31 - 1

// Order says how many permits of a limit a holder wants. Numbers below zero count as zero. An order for
// a name that is not valid UTF-8 without NUL is answered, and is never granted.
type Order struct {
	Name    string // of the limit
	Number  uint64 // of the order, which the holder chooses: see Holding
	Want    int    // how many permits the holder wants in all; 0 gives back all
	Least   int    // the least useful number in all: it is granted none before it can have that many
	Max     int    // the number of permits of the limit; an order with a larger Least waits, and others pass it
	Version uint64 // of Max: the Max of the highest version applies, and among equal versions that of the latest order
}

// Holding is the state of a holder at a limit. Share, Waiting and Needed are zero if it neither has nor wants
// permits. A holder learns of changes of these only if it has permits, and only when others begin to wait,
// or begin to need some of the permits that it has above its Share.
type Holding struct {
	Name string // of the limit

	// Number is that of the latest order for the limit that the holding takes into account. A holding
	// with an older number than that of the holder's latest order may be in a call of fn that began
	// before the order: it may count permits that the order has given back.
	Number uint64

	Held    int    // permits
	Fence   uint64 // number of the grant by which the holder last got permits; it grows with every grant of the limit to any holder, and does not start again as long as the coordinator keeps its state; 0 if Held is
	Share   int    // an equal share of Max for each holder that has or wants permits, rounded down
	Waiting int    // how many permits others wait for
	Needed  int    // the part of Waiting up to the Shares of the others, or up to their Least if that is more and they have none; and the permits that are held above Max
}

// Holder is a holder of a limit, as the coordinator knows it.
type Holder struct {
	Holder     task.ID
	Held, Want int
	Fence      uint64    // as in Holding
	Since      time.Time // when it last got permits, or if it has none, since when it waits
}

// Rates grants tokens of rates that all nodes share, by the clock of the coordinator. Over any
// time, no more than Burst tokens and one for each Interval in that time are granted (GCRA, ITU-T I.371).
// Used tokens stay used when nodes restart, as long as the coordinator keeps its state.
type Rates interface {
	// Draw takes up to Tokens tokens of each rate. The answers are in the order of the draws. The
	// Interval and Burst of the latest draw of a rate apply to the whole rate: also if several nodes draw,
	// or one call has several draws of a name. After an error the tokens may have been taken.
	Draw(ctx context.Context, draws ...Draw) ([]Drawn, error)
}

// Draw asks for tokens of a rate. An Interval or a Burst of less than one counts as one, and Tokens below
// zero as zero. A name that is not valid UTF-8 without NUL gets none, for ever.
type Draw struct {
	Name     string
	Interval time.Duration // between two tokens at the full rate
	Burst    int           // how many tokens there are at once after a rest
	Tokens   int           // how many are wanted
}

// Drawn is the answer to a [Draw].
type Drawn struct {
	Tokens int           // how many were granted
	Next   time.Duration // until the next token is there, or until it can be drawn ahead; 0 if all were granted
}
