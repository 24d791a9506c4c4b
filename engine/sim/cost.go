package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Costs are what things take, as measured on a machine. CPU is time of one core.
type Costs struct {
	Submit     time.Duration `json:"submit_ns"`      // CPU of a caller of Submit until its task is in the inbox
	Ack        time.Duration `json:"ack_ns"`         // and from when it is told that the task is durable
	Commit     time.Duration `json:"commit_ns"`      // CPU of a transaction besides its rows, while it has the store to itself
	Insert     time.Duration `json:"insert_ns"`      // CPU of each row that is inserted, likewise
	InsertByte float64       `json:"insert_byte_ns"` // and of each byte of its payload, in nanoseconds
	Swap       time.Duration `json:"swap_ns"`        // CPU of each row that is changed, likewise
	Tell       time.Duration `json:"tell_ns"`        // CPU after a commit, before anything comes of it
	TellRow    time.Duration `json:"tell_row_ns"`    // and for each of its rows
	Start      time.Duration `json:"start_ns"`       // CPU of calling a handler
	End        time.Duration `json:"end_ns"`         // CPU of leaving word of what came of it

	// Background is CPU for each row that is written, and BackgroundByte nanoseconds of it
	// for each byte of payload: sorting files, collecting garbage. It is spent in one piece
	// whenever so many bytes as BackgroundEvery have been written.
	Background      time.Duration `json:"background_ns"`
	BackgroundByte  float64       `json:"background_byte_ns"`
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
	// rise in After. SyncKiB is how much longer than the median it takes
	// for each KiB of payload, if that is longer.
	Sync    ByIdleness `json:"sync"`
	SyncKiB Quantiles  `json:"sync_kib_ns"`
	// SyncRanks are the places in its distribution, from 0 to MaxRank, of many syncs that
	// followed each other: slow ones come together. If there are none, chance decides for each.
	SyncRanks []uint16      `json:"sync_ranks"`
	Told      Quantiles     `json:"told_ns"`     // how long after it who waits for it hears of it
	SyncCPU   time.Duration `json:"sync_cpu_ns"` // CPU that one sync needs meanwhile
	// Serial says that a transaction keeps the store to itself until it is durable, as
	// bolt does. Else others go on meanwhile, and share the next sync.
	Serial bool `json:"serial"`

	CommitBytes float64 `json:"commit_bytes"` // written to the disk for each commit
	InsertBytes float64 `json:"insert_bytes"` // for each row that is inserted
	SwapBytes   float64 `json:"swap_bytes"`   // for each row that is changed
	Amplify     float64 `json:"amplify"`      // for each byte of payload
}

func (c *Costs) check() error {
	for _, d := range []time.Duration{c.Submit, c.Ack, c.Commit, c.Insert, c.Swap, c.Tell, c.TellRow, c.Start, c.End, c.Background, c.Wake, c.ColdWake, c.SyncCPU} {
		if d < 0 {
			return fmt.Errorf("sim: a cost is negative: %v", d)
		}
	}
	for _, f := range []float64{c.InsertByte, c.BackgroundByte, c.BackgroundEvery, c.CommitBytes, c.InsertBytes, c.SwapBytes, c.Amplify} {
		if !(f >= 0) || math.IsInf(f, 0) {
			return fmt.Errorf("sim: a cost is negative or no number: %v", f)
		}
	}
	for i, sync := range c.Sync {
		if err := sync.Takes.check(); err != nil || sync.After < 0 || i > 0 && sync.After <= c.Sync[i-1].After {
			return errors.New("sim: Costs.Sync is negative, or does not rise")
		}
	}
	for _, r := range c.SyncRanks {
		if r > MaxRank {
			return fmt.Errorf("sim: Costs.SyncRanks has %d (want 0 to %d)", r, MaxRank)
		}
	}
	return errors.Join(c.Stall.check(), c.SyncKiB.check(), c.Told.check())
}

// Idleness is how long something was idle between its last uses, smoothed: a disk that has
// just been busy is served faster, also by the machine around it.
type Idleness time.Duration

// Note notes how long it was idle before a use, and returns the idleness then.
func (i *Idleness) Note(idle time.Duration) time.Duration {
	const uses = 8 // that it remembers, roughly
	*i += (Idleness(idle) - *i) / uses
	return time.Duration(*i)
}

// ByIdleness is what something takes that begins after more and more idleness.
type ByIdleness []Idle

// After returns what it takes after so much idleness: what the last one says that does not
// begin later, or else the first.
func (b ByIdleness) After(idle time.Duration) Quantiles {
	var takes Quantiles
	for _, i := range b {
		if i.After > idle && takes != nil {
			break
		}
		takes = i.Takes
	}
	return takes
}

// Idle is what something takes that begins After so much idleness, or more.
type Idle struct {
	After time.Duration `json:"after_ns"`
	Takes Quantiles     `json:"takes_ns"`
}

// MaxRank is that of the syncs that take longest.
const MaxRank = 1000

// sync returns what a sync takes after so much idleness that has so many bytes of payload:
// rank is its place in Sync, chance that in SyncKiB.
func (c *Costs) sync(idle time.Duration, rank, payload, chance float64) time.Duration {
	takes := c.Sync.After(idle)
	const kib = 1 << 10
	return max(takes.At(rank), takes.At(0.5)+time.Duration(payload/kib*float64(c.SyncKiB.At(chance))))
}

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
