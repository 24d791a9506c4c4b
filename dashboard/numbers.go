package dashboard

import (
	"strings"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Numbers are the numbers of the overview, of all nodes together. A terminal shows them, too.
type Numbers struct {
	Window    time.Duration // of the rates and latencies
	CountedAt time.Time     // when tasks were counted; zero: not yet
	All       Row
	Types     []Row // types that have tasks or do something, the busiest first
	Quiet     int   // the number of the others
}

// Row has the numbers of a type, or of all types.
type Row = typeRow

// Sum returns the numbers of all nodes together.
func Sum(nodes []*taskenginev1.NodeOverview) Numbers {
	o := new(overview)
	o.add(nodes)
	n := Numbers{Window: o.Window, All: o.All, Types: o.Types, Quiet: o.Quiet}
	if o.CountedAt != nil {
		n.CountedAt = o.CountedAt.AsTime()
	}
	return n
}

// Rate writes how often something happens in a second, in plain digits.
func Rate(perSecond float64) string { return strings.ReplaceAll(showRate(perSecond), "\u202f", "") }

// Delay writes a delay in seconds.
func Delay(seconds float64) string { return showDelay(seconds) }
