package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
)

// comparison measures subjects in turns.
type comparison struct {
	base  string // folder of all instances
	bin   string // folder of the servers that were built
	lock  string // file that is locked while a subject is measured; empty is none
	plan  plan   // of the subjects that are compared
	usual plan   // of the other subjects
	log   io.Writer

	instances int                  // that were started
	others    map[string][]float64 // cores that other processes used while an instance ran, by subject
	about     machine.Info
	found     map[string]*result.Result // by subject and scenario
	strangers []string                  // other servers that ran before this comparison began
}

// measure measures every subject in each of the rounds. First it determines the best settings of each
// subject. In each round it makes one measurement with all subjects before the next measurement, and
// begins with another subject, so that other load of the machine affects all alike. It leaves out
// subjects that fail; the error has the failures of those that are compared.
func (s *comparison) measure(ctx context.Context, chosen []subject, rounds int) ([]*result.Result, error) {
	s.about, s.strangers = machine.Describe(s.base), strangers()
	s.others, s.found = make(map[string][]float64), make(map[string]*result.Result)
	var (
		all      []*tuned
		failures []error
	)
	fail := func(sub subject, err error) {
		if ctx.Err() != nil { // not a failure of the subject
			return
		}
		if sub.main { // the others may fail with their default settings, which the tables show
			failures = append(failures, fmt.Errorf("%s: %w", sub.short, err))
		}
		fmt.Fprintf(s.log, "%s failed: %v\n", sub.short, err)
	}
	began := time.Now()
	defer func() { fmt.Fprintf(s.log, "all of it in %.0f s\n", time.Since(began).Seconds()) }()
	for _, sub := range chosen {
		err := s.alone(ctx, func() error {
			began := time.Now()
			t, err := s.tune(ctx, sub)
			if err == nil {
				all = append(all, t)
				s.logTuned(t, time.Since(began))
			}
			return err
		})
		if err != nil {
			fail(sub, err)
		}
	}
	for n := range rounds {
		for _, m := range measurements() {
			for _, t := range turns(all, n) {
				if err := s.alone(ctx, func() error { return s.turn(ctx, t, m, n) }); err != nil {
					fail(t.subject, err)
				}
			}
		}
	}
	if ctx.Err() != nil {
		return sorted(chosen, s.found), context.Cause(ctx)
	}
	return sorted(chosen, s.found), errors.Join(failures...)
}

// turns returns the order of a round.
func turns(all []*tuned, round int) []*tuned {
	if len(all) == 0 {
		return nil
	}
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}

// alone calls fn while it holds the lock file, so that no other program that uses it measures. It does
// not call fn if ctx has ended.
func (s *comparison) alone(ctx context.Context, fn func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	unlock, err := lockFile(s.lock)
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}

// turn makes one measurement with one subject.
func (s *comparison) turn(ctx context.Context, t *tuned, m measurement, round int) error {
	pl := s.planOf(t.subject)
	var runs map[string]result.Run
	began := time.Now()
	note, err := s.fresh(ctx, t, m.of(t), func(p peer) (err error) {
		runs, err = m.measure(ctx, t, p, pl, round)
		return err
	})
	if err != nil { // it was interrupted and is not valid
		return err
	}
	others := s.others[t.short]
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		run := runs[name]
		run.Notes = append(noted(note), run.Notes...)
		s.add(t, name, run)
		fmt.Fprintf(s.log, "round %d, %3.0f s, others %.2f cores: %-24s %s\n", round+1, time.Since(began).Seconds(), others[len(others)-1], t.short, line(name, run))
	}
	return nil
}

// add keeps a run.
func (s *comparison) add(t *tuned, scenario string, run result.Run) {
	key := t.short + " " + scenario
	if s.found[key] == nil {
		s.found[key] = &result.Result{
			Schema: result.Schema, Scenario: scenario, Purpose: purposes[scenario],
			Subject: t.Subject, Machine: s.about,
		}
	}
	s.found[key].Config = s.config(t)
	s.found[key].Runs = append(s.found[key].Runs, run)
}

func (s *comparison) logTuned(t *tuned, took time.Duration) {
	fmt.Fprintf(s.log, "%s: %s on %s, %d jobs to drain; found out in %.0f s\n", t.short, t.Version, t.Store, t.jobs, took.Seconds())
	for _, x := range t.trials {
		fmt.Fprintf(s.log, "  %s: %.0f/s, start p90 %v %s\n", x.Says, x.Drain, round(x.Start), x.Failed)
	}
}

// settings is the configuration of a scenario in a result.
type settings struct {
	Subject  string        `json:"subject"`
	Main     bool          `json:"main"` // one of those that are compared
	Durable  bool          `json:"durable"`
	Payload  int           `json:"payload_bytes"`
	InFlight int           `json:"in_flight"`
	Batch    int           `json:"batch"`
	Drain    int           `json:"drained_jobs"`
	Insert   time.Duration `json:"insert_ns"`
	Life     time.Duration `json:"life_ns"`
	Latency  time.Duration `json:"latency_ns"`
	Rate     int           `json:"latency_rate"`
	Trials   []trial       `json:"trials,omitempty"` // of settings, before
	Drains   string        `json:"drains,omitempty"` // the settings of all about throughput
	Starts   string        `json:"starts,omitempty"` // and of latency
	Others   []float64     `json:"others_cores"`     // that other programs used in each measurement
	Servers  []string      `json:"other_servers,omitempty"`
}

// planOf returns the plan of a subject.
func (s *comparison) planOf(sub subject) plan {
	if sub.main {
		return s.plan
	}
	return s.usual
}

func (s *comparison) config(t *tuned) json.RawMessage {
	pl := s.planOf(t.subject)
	b, _ := json.Marshal(settings{ // plain fields: cannot fail
		Subject: t.short, Main: t.main, Durable: t.durable, Payload: payloadSize,
		InFlight: t.singles, Batch: t.batch, Drain: t.jobs,
		Insert: pl.insert, Life: pl.life, Latency: pl.latency, Rate: pl.rate,
		Trials: t.trials, Drains: t.drains.says, Starts: t.starts.says,
		Others: s.others[t.short], Servers: s.strangers,
	})
	return b
}

// sorted returns the results in the order of the subjects and scenarios.
func sorted(chosen []subject, found map[string]*result.Result) []*result.Result {
	var out []*result.Result
	for _, sub := range chosen {
		for _, name := range []string{insertOne, insertMany, drain, lifeOne, lifeMany, latency} {
			if r := found[sub.short+" "+name]; r != nil {
				out = append(out, r)
			}
		}
	}
	return out
}

// fresh starts an instance, which is the only one, calls a function with it, and removes it. The note
// describes disturbances of the machine meanwhile.
func (s *comparison) fresh(ctx context.Context, t *tuned, v variant, use func(peer) error) (note string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s.instances++
	e := env{dir: filepath.Join(s.base, strconv.Itoa(s.instances)), bin: s.bin, pool: filepath.Join(s.base, "pool")}
	if err := errors.Join(os.MkdirAll(e.pool, 0o755), os.Mkdir(e.dir, 0o755)); err != nil {
		return "", err
	}
	defer os.RemoveAll(e.dir)
	before := busyNow()
	p, err := v.open(ctx, e)
	if err != nil {
		return "", fmt.Errorf("start: %w", err)
	}
	if t.Version == "" {
		err = t.identify(ctx, p)
	}
	if err == nil {
		note = calm(ctx)
		err = use(p)
	}
	if closing := p.close(); closing != nil {
		err = errors.Join(err, fmt.Errorf("stop: %w", closing))
	}
	s.others[t.short] = append(s.others[t.short], before.others())
	return note, err
}

// identify records the versions that an instance reports.
func (t *tuned) identify(ctx context.Context, p peer) error {
	queue, store, err := p.version(ctx)
	if err != nil {
		return err
	}
	t.Version = queue
	if store != "" {
		t.Store = store
	}
	return nil
}

// lockFile waits until no other process has the file locked, and locks it.
func lockFile(path string) (unlock func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil
}

// line returns a run in one line.
func line(name string, r result.Run) string {
	text := fmt.Sprintf("%-18s %9.0f jobs/s", name, r.Rate)
	if h := r.Latency[result.InsertToStart]; h != nil {
		text += fmt.Sprintf(", start p50 %v p99 %v p99.9 %v max %v", round(h.Quantile(0.5)), round(h.Quantile(0.99)), round(h.Quantile(0.999)), round(h.Max()))
	}
	if twice := r.Attempts - r.Finished; twice > 0 {
		text += fmt.Sprintf(", %d ran twice", twice)
	}
	if !r.Check.OK {
		text += fmt.Sprintf(", NOT OK: %v", r.Check.Notes)
	}
	return text
}

// round rounds a duration to three digits.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(cmp.Or(unit, 1))
}
