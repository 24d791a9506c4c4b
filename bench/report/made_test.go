//go:build !race

package report_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
)

// maker makes up results that look like real ones.
type maker struct{ rng *rand.Rand }

func newMaker(seed uint64) *maker { return &maker{rand.New(rand.NewPCG(seed, 0))} }

// about returns v, off by up to a tenth.
func (m *maker) about(v float64) float64 { return v * (0.95 + 0.1*m.rng.Float64()) }

var madeMachine = machine.Info{
	OS: "linux", Arch: "amd64", Kernel: "6.1.0-40-amd64", CPU: "Intel(R) Xeon(R) Processor @ 2.60GHz", Cores: 2,
	Memory: 24 << 30, Disk: "ext4 on /dev/vda1 (virtio)", Go: "go1.26.0",
}

var madeLimits = []result.Limit{
	{Name: "fsync/append/p50", Value: 212e3, Unit: "ns", Low: 205e3, High: 231e3},
	{Name: "fsync/append/p99", Value: 910e3, Unit: "ns", Low: 840e3, High: 1.3e6},
	{Name: "group-commit/pebble/256", Value: 312_400, Unit: "ops/s", Low: 300_100, High: 320_900},
	{Name: "group-commit/bolt/256", Value: 201_000, Unit: "ops/s", Low: 190_000, High: 210_000},
	{Name: "lives/pebble", Value: 155_200, Unit: "ops/s", Low: 151_000, High: 158_000},
	{Name: "grpc/unix/pipelined", Value: 92_000, Unit: "ops/s", Low: 90_000, High: 95_000},
}

var (
	ours   = result.Subject{Name: "taskengine", Version: "v0.4.0", Revision: "a240a80f3b1c", Store: "pebble", Durability: "synced to disk in groups before it is acknowledged"}
	onBolt = result.Subject{Name: "taskengine", Version: "v0.4.0", Revision: "a240a80f3b1c", Store: "bolt", Durability: "synced to disk in groups before it is acknowledged"}
	river  = result.Subject{Name: "River", Version: "v0.26.0", Store: "PostgreSQL 15", Durability: "committed with synchronous_commit=on", Settings: "batch inserts of 500, 200 workers"}
	asynq  = result.Subject{Name: "asynq", Version: "v0.25.1", Store: "Redis 7", Durability: "appendfsync always", Settings: "concurrency 200"}
	asynqD = result.Subject{Name: "asynq", Version: "v0.25.1", Store: "Redis 7", Durability: "appendfsync everysec: the last second may be lost", Settings: "concurrency 200"}
)

// latency makes up a histogram around a median, with a tail that begins at the 98th
// percentile and is some times longer.
func (m *maker) latency(median time.Duration, tail float64, n int) *result.Histogram {
	h := result.NewHistogram()
	for range n {
		v := float64(median) * math.Exp(0.25*m.rng.NormFloat64())
		if m.rng.Float64() > 0.98 {
			v *= 1 + tail*m.rng.ExpFloat64()/3
		}
		h.Record(time.Duration(v))
	}
	return h
}

// run makes up a run at an offered load of a subject that can do at most capacity, and
// starts a task in base if it is idle.
func (m *maker) run(offered, capacity float64, base time.Duration) result.Run {
	rate, use := m.about(capacity), 1.0
	wait := 40.0
	if offered > 0 {
		use = offered / capacity
		rate = min(offered, m.about(capacity))
		wait = 1 + 0.15*use/max(0.02, 1-use)
		if use > 1 {
			wait = 2000 * (use - 0.9)
		}
	}
	scaled := func(f float64) time.Duration { return time.Duration(m.about(float64(base) * f)) }
	seconds, n := 30.0, 10_000
	ended := int64(rate * seconds)
	r := result.Run{
		Began: time.Date(2026, 11, 20, 9, 30, int(m.rng.Uint32()%60), 0, time.UTC), Elapsed: time.Duration(seconds * 1e9), Offered: offered,
		Submitted: ended, Finished: ended, Attempts: ended, Rate: rate,
		Latency: map[string]*result.Histogram{
			result.InsertAck:     m.latency(scaled(wait*0.7), 8, n),
			result.TriggerToGrab: m.latency(scaled(0.02), 6, n),
			result.InsertToStart: m.latency(scaled(wait), 10, n),
			result.FinishAck:     m.latency(scaled(0.7), 8, n),
			result.EndToEnd:      m.latency(scaled(wait+0.9), 10, n),
		},
		Cost: result.Cost{
			CPU: time.Duration(rate * seconds * m.about(14_100)), Resident: int64(m.about(180 << 20)), Written: int64(rate * seconds * m.about(930)),
			StoreSize: int64(rate * seconds * m.about(310)), Wakeups: m.about(8200), Allocated: int64(rate * seconds * m.about(2400)),
		},
		Check: result.Check{OK: true, Checked: []string{"every acknowledged task ended", "no task ran twice", "order per key"}},
	}
	if use > 1 {
		r.Late, r.Notes = ended/1000, []string{"the node was killed 2 times"}
	}
	for i := range int(seconds) {
		dip := 1.0
		if i%23 == 17 {
			dip = 0.6
		}
		r.Points = append(r.Points, result.Point{
			At: time.Duration(i+1) * time.Second, Submitted: int64(m.about(rate)), Finished: int64(m.about(rate) * dip),
			StartP50: scaled(wait), StartP99: scaled(wait * 3 / dip / dip), CPU: m.about(min(1.9, 0.1+1.8*use) * dip), Resident: int64(m.about(float64(100<<20) + float64(i)*2.6e6)),
		})
	}
	return r
}

func (m *maker) result(scenario, purpose string, subject result.Subject, runs int, offered, capacity float64, base time.Duration) *result.Result {
	res := &result.Result{
		Schema: result.Schema, Scenario: scenario, Purpose: purpose, Subject: subject, Machine: madeMachine, Limits: madeLimits,
		Config: json.RawMessage(`{"name":"` + scenario + `","payload":256,"slots":1000}`),
	}
	for range runs {
		res.Runs = append(res.Runs, m.run(offered, capacity, base))
	}
	return res
}

// some makes up a part of everything, for tests that look closely: a drain of three
// subjects, and a sweep of two.
func (m *maker) some() []*result.Result {
	all := m.everything()
	return slices.Concat(all[:3], all[8:12], all[17:])
}

// drains makes up a drain of up to five subjects.
func (m *maker) drains(subjects int) (out []*result.Result) {
	for _, s := range []struct {
		subject  result.Subject
		capacity float64
		base     time.Duration
	}{
		{ours, 104e3, 400 * time.Microsecond},
		{onBolt, 68e3, 600 * time.Microsecond},
		{river, 31e3, 1600 * time.Microsecond},
		{asynq, 3e3, 1300 * time.Microsecond},
		{asynqD, 11e3, 900 * time.Microsecond},
	}[:subjects] {
		out = append(out, m.result("drain-noop", "How many whole lives of tasks that do nothing a second has, everything durable.", s.subject, 3, 0, s.capacity, s.base))
	}
	return out
}

// everything makes up a drain of several subjects, and a sweep over loads.
func (m *maker) everything() []*result.Result {
	const steady = "How long a task that does nothing waits for its start, by offered load."
	out := append(m.drains(5),
		m.result("steady-1000", "How long a task waits for its start at 1 000 a second.", ours, 3, 1000, 104e3, 170*time.Microsecond),
		m.result("steady-1000", "", river, 3, 1000, 31e3, 1600*time.Microsecond),
		m.result("steady-1000", "", asynq, 3, 1000, 3e3, 1300*time.Microsecond),
	)
	for _, offered := range []float64{1e3, 5e3, 20e3, 40e3, 60e3, 80e3, 95e3, 130e3} {
		out = append(out, m.result("sweep-noop", steady, ours, 3, offered, 104e3, 170*time.Microsecond))
	}
	for _, offered := range []float64{1e3, 5e3, 10e3, 20e3, 28e3, 40e3} {
		out = append(out, m.result("sweep-noop", steady, river, 3, offered, 31e3, 1600*time.Microsecond))
	}
	return out
}
