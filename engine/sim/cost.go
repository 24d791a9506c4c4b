package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Costs are the times of operations, as measured on a machine. CPU is time of one core.
type Costs struct {
	Submit     time.Duration `json:"submit_ns"`      // CPU of a caller of Submit until its task is in the inbox
	Ack        time.Duration `json:"ack_ns"`         // and from the answer on that the task is durable
	AckByte    float64       `json:"ack_byte_ns"`    // and for each byte of its payload, in nanoseconds
	Gather     time.Duration `json:"gather_ns"`      // the time from the wake-up of a writer until it collects its batch
	Commit     time.Duration `json:"commit_ns"`      // CPU of a transaction besides its rows, while it has the store to itself
	Insert     time.Duration `json:"insert_ns"`      // CPU of each row that is inserted, likewise
	InsertByte float64       `json:"insert_byte_ns"` // and of each byte of its payload, in nanoseconds
	Swap       time.Duration `json:"swap_ns"`        // CPU of each row that is changed, likewise
	Tell       time.Duration `json:"tell_ns"`        // CPU after a commit, before anything comes of it
	TellRow    time.Duration `json:"tell_row_ns"`    // and for each of its rows
	Start      time.Duration `json:"start_ns"`       // CPU of calling a handler
	End        time.Duration `json:"end_ns"`         // CPU of passing on the outcome of a handler

	// Background is CPU for each row that is written, and BackgroundByte nanoseconds of it
	// for each byte of payload in the log: it is sorted into files. It is spent in one piece
	// whenever so many bytes as BackgroundEvery have come together in memory: the bytes of the log,
	// and BackgroundRow for each row.
	Background      time.Duration `json:"background_ns"`
	BackgroundByte  float64       `json:"background_byte_ns"`
	BackgroundRow   float64       `json:"background_row_bytes"`
	BackgroundEvery float64       `json:"background_every_bytes"`

	// Wake is CPU that is spent whenever work comes while all cores are idle: threads are
	// woken, and look around before they sleep again.
	Wake time.Duration `json:"wake_ns"`
	// ColdWake is how much more that is if they were idle for a millisecond: caches are
	// cold, and a processor that sleeps deeply takes longer to wake up.
	ColdWake time.Duration `json:"cold_wake_ns"`
	// Stall is how long a transaction is held up before it is computed by whatever else goes
	// on in the machine and its host. It passes on the core and is not computed.
	Stall Quantiles `json:"stall_ns"`

	// Sync is how long the disk takes to make a commit durable, by its [Idleness]. It must
	// rise in After. SyncKiB is how much longer for each KiB of the log that it carries.
	Sync    ByIdleness    `json:"sync"`
	Sorting Quantiles     `json:"sorting_ns"` // and while background work is done, whatever its Idleness; empty: no longer
	SyncKiB time.Duration `json:"sync_kib_ns"`
	Log     Log           `json:"log"`
	Woken   ByIdleness    `json:"woken"`       // how long after a sync a caller that waits for it goes on, by the disk's Idleness
	SyncCPU time.Duration `json:"sync_cpu_ns"` // CPU that one sync needs
	// Serial says that a transaction keeps the store to itself until it is durable, as
	// bolt does. Else others go on in that time, and share the next sync.
	Serial bool `json:"serial"`

	CommitBytes float64 `json:"commit_bytes"` // written to the disk for each commit
	InsertBytes float64 `json:"insert_bytes"` // for each row that is inserted
	SwapBytes   float64 `json:"swap_bytes"`   // for each row that is changed
	Amplify     float64 `json:"amplify"`      // for each byte of payload
	// Inline is up to how many bytes a payload is part of its row, and written again with
	// each change of it.
	Inline int `json:"inline_bytes"`
}

func (c *Costs) check() error {
	for _, d := range []time.Duration{c.Submit, c.Ack, c.Gather, c.Commit, c.Insert, c.Swap, c.Tell, c.TellRow, c.Start, c.End, c.Background, c.Wake, c.ColdWake, c.SyncCPU, c.SyncKiB} {
		if d < 0 {
			return fmt.Errorf("sim: a cost is negative: %v", d)
		}
	}
	for _, f := range []float64{c.AckByte, c.InsertByte, c.BackgroundByte, c.BackgroundRow, c.BackgroundEvery, c.CommitBytes, c.InsertBytes, c.SwapBytes, c.Amplify, c.Log.Row, c.Log.Step, c.Log.Below, float64(c.Inline)} {
		if !(f >= 0) || math.IsInf(f, 0) {
			return fmt.Errorf("sim: a cost is negative or no number: %v", f)
		}
	}
	return errors.Join(
		c.Sync.check("Costs.Sync"), c.Log.Sync.check("Costs.Log.Sync"), c.Woken.check("Costs.Woken"),
		c.Stall.check(), c.Log.Grown.check(), c.Sorting.check(), c.Log.Sorting.check(),
	)
}

// Log is how the log of a store gets longer. The zero value is a log of which only
// Costs.Sync is known.
type Log struct {
	Row float64 `json:"row_bytes"` // in it for each row, besides the payload
	// Step is by how many bytes it is made longer at a time, ahead of the writes to it,
	// while syncs carry at most Below bytes of it on average. The filling is written,
	// too. The sync after it takes as long as Grown says, all others then as Costs.Sync.
	Step  float64   `json:"step_bytes"`
	Below float64   `json:"below_bytes"`
	Grown Quantiles `json:"grown_ns"`
	// Sync is Costs.Sync for a log that is not made longer ahead.
	Sync ByIdleness `json:"sync"`
	// Sorting is Costs.Sorting for such a log.
	Sorting Quantiles `json:"sorting_ns"`
}

// Carried is how many bytes of a log syncs carried, averaged over the last ones.
type Carried float64

// Note notes how many bytes the next one carries.
func (c *Carried) Note(bytes float64) {
	const syncs = 8 // that it remembers, roughly
	*c += (Carried(bytes) - *c) / syncs
}

// Ahead reports whether a log is made longer ahead, see Log.Step.
func (c *Carried) Ahead(below float64) bool { return float64(*c) <= below }

// Idleness is how long something was idle between its last uses, smoothed: a disk that has
// just been busy is served faster, also by the machine around it.
type Idleness time.Duration

// Note notes how long it was idle before a use, and returns the idleness then.
func (i *Idleness) Note(idle time.Duration) time.Duration {
	const uses = 2 // that it remembers, roughly
	*i += (Idleness(idle) - *i) / uses
	return time.Duration(*i)
}

// ByIdleness is the time of an operation after more and more idleness.
type ByIdleness []Idle

func (b ByIdleness) check(name string) error {
	for i, idle := range b {
		if err := idle.Takes.check(); err != nil || idle.After < 0 || i > 0 && idle.After <= b[i-1].After {
			return fmt.Errorf("sim: %s is negative, or does not rise", name)
		}
		for _, r := range idle.Ranks {
			if r > MaxRank {
				return fmt.Errorf("sim: a rank in %s is %d (want 0 to %d)", name, r, MaxRank)
			}
		}
	}
	return nil
}

// After returns the time after so much idleness: of the last element that does not
// begin later, or else of the first.
func (b ByIdleness) After(idle time.Duration) Quantiles {
	if len(b) == 0 {
		return nil
	}
	return b[b.at(idle)].Takes
}

// at returns which range so much idleness is in; the first if it is less.
func (b ByIdleness) at(idle time.Duration) (at int) {
	for i := range b {
		if b[i].After <= idle {
			at = i
		}
	}
	return at
}

// ranks returns the ranks of the range that so much idleness is in, or of one nearby.
func (b ByIdleness) ranks(idle time.Duration) []uint16 {
	at := b.at(idle)
	for far := range len(b) {
		for _, i := range []int{at - far, at + far} {
			if i >= 0 && i < len(b) && len(b[i].Ranks) > 0 {
				return b[i].Ranks
			}
		}
	}
	return nil
}

// Idle is the time of an operation that begins After so much idleness, or more.
type Idle struct {
	After time.Duration `json:"after_ns"`
	Takes Quantiles     `json:"takes_ns"`
	// Ranks are places in Takes, from 0 to MaxRank, of many that followed each other while
	// it mostly was about so idle: slow ones come together. If there are none, the ranks of the
	// next range do, and if there are none at all, chance decides for each.
	Ranks []uint16 `json:"ranks,omitempty"`
}

// MaxRank is that of the syncs that take longest.
const MaxRank = 10_000

// block is how many ranks are taken in a row, from anywhere.
const block = 64

// Quantiles are a distribution: its values at evenly spaced shares from 0 to 1. It must
// not fall. Without values it is always zero, with one always that.
type Quantiles []time.Duration

func (q Quantiles) check() error {
	if !slices.IsSorted(q) || len(q) > 0 && q[0] < 0 {
		return errors.New("sim: a distribution is negative, or falls")
	}
	return nil
}

// At returns the value that a share u (0 to 1) does not exceed, interpolated.
func (q Quantiles) At(u float64) time.Duration {
	switch len(q) {
	case 0:
		return 0
	case 1:
		return q[0]
	}
	at := min(max(u, 0), 1) * float64(len(q)-1)
	i := min(int(at), len(q)-2)
	return q[i] + time.Duration((at-float64(i))*float64(q[i+1]-q[i]))
}

// Mean returns the mean.
func (q Quantiles) Mean() time.Duration {
	if len(q) < 2 {
		return q.At(0)
	}
	sum := float64(q[0]+q[len(q)-1]) / 2
	for _, v := range q[1 : len(q)-1] {
		sum += float64(v)
	}
	return time.Duration(sum / float64(len(q)-1))
}
