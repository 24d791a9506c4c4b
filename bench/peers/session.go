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
)

// session measures subjects in turns.
type session struct {
	base  string // folder of all instances
	bin   string // folder of the servers that were built
	lock  string // file that is locked while a subject is measured; empty is none
	plan  plan   // of best settings
	usual plan   // of others
	log   io.Writer

	instances int                  // that were started
	others    map[string][]float64 // cores that others used while an instance ran, by subject
}

// measure measures every subject so many times: each once, then each once more, so that
// whatever else the machine does hits them alike. A subject that fails is left out, and
// the error says why.
func (s *session) measure(ctx context.Context, chosen []subject, runs int) ([]*result.Result, error) {
	about := machine(s.base)
	s.others = make(map[string][]float64)
	found := make(map[string]*result.Result) // by subject and scenario
	jobs := make(map[string]int)             // to drain, by subject
	var failures []error
	for n := range runs {
		for i, sub := range chosen {
			if ctx.Err() != nil {
				return sorted(chosen, found), errors.Join(append(failures, context.Cause(ctx))...)
			}
			unlock, err := lockFile(s.lock)
			if err != nil {
				return sorted(chosen, found), err
			}
			began := time.Now()
			runs, err := s.turn(ctx, sub, jobs)
			unlock()
			fmt.Fprintf(s.log, "run %d, %d of %d: %s in %.0f s; others used %.2f cores\n", n+1, i+1, len(chosen), sub.short, time.Since(began).Seconds(), median(s.others[sub.short]))
			if err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", sub.short, err))
				fmt.Fprintf(s.log, "  failed: %v\n", err)
			}
			for _, name := range slices.Sorted(maps.Keys(runs)) {
				run := runs[name]
				fmt.Fprintf(s.log, "  %s\n", line(name, run))
				key := sub.short + " " + name
				if found[key] == nil {
					found[key] = &result.Result{
						Schema: result.Schema, Scenario: name, Purpose: purposes[name],
						Subject: sub.Subject, Machine: about,
					}
				}
				found[key].Config = s.config(sub, jobs)
				found[key].Runs = append(found[key].Runs, run)
			}
		}
	}
	return sorted(chosen, found), errors.Join(failures...)
}

// settings are what a result records as the configuration of its scenario.
type settings struct {
	Subject  string        `json:"subject"`
	Best     bool          `json:"best_settings"`
	Durable  bool          `json:"durable"`
	Payload  int           `json:"payload_bytes"`
	InFlight int           `json:"in_flight"`
	Batch    int           `json:"batch"`
	Drain    int           `json:"drained_jobs"`
	Insert   time.Duration `json:"insert_ns"`
	Life     time.Duration `json:"life_ns"`
	Latency  time.Duration `json:"latency_ns"`
	Rate     int           `json:"latency_rate"`
	Others   []float64     `json:"others_cores"` // that other programs used in each measurement
}

// planOf returns how long things take for a subject.
func (s *session) planOf(sub subject) plan {
	if sub.best {
		return s.plan
	}
	return s.usual
}

func (s *session) config(sub subject, jobs map[string]int) json.RawMessage {
	pl := s.planOf(sub)
	b, _ := json.Marshal(settings{ // plain fields: cannot fail
		sub.short, sub.best, sub.durable, payloadSize, sub.singles, sub.batch, jobs[sub.short],
		pl.insert, pl.life, pl.latency, pl.rate, s.others[sub.short],
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

// turn measures everything of a subject once, each on an instance of its own.
func (s *session) turn(ctx context.Context, sub subject, jobs map[string]int) (map[string]result.Run, error) {
	pl := s.planOf(sub)
	fresh := func(use func(peer) error) error { return s.fresh(ctx, sub, use) }
	out := make(map[string]result.Run)
	if jobs[sub.short] == 0 {
		var err error
		if jobs[sub.short], err = enough(ctx, sub, pl, fresh); err != nil {
			return nil, fmt.Errorf("find how many jobs to drain: %w", err)
		}
	}
	var failures []error
	for _, m := range []func(p peer) (map[string]result.Run, error){
		func(p peer) (map[string]result.Run, error) { return inserts(ctx, sub, p, pl) },
		func(p peer) (map[string]result.Run, error) { return drained(ctx, sub, p, pl, jobs[sub.short]) },
		func(p peer) (map[string]result.Run, error) { return lives(ctx, sub, p, pl) },
		func(p peer) (map[string]result.Run, error) { return openLoop(ctx, sub, p, pl) },
	} {
		failures = append(failures, fresh(func(p peer) error {
			runs, err := m(p)
			if err == nil { // else they were cut short, and say nothing
				maps.Copy(out, runs)
			}
			return err
		}))
	}
	return out, errors.Join(failures...)
}

// fresh starts an instance, lets it be used, and removes it.
func (s *session) fresh(ctx context.Context, sub subject, use func(peer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.instances++
	e := env{dir: filepath.Join(s.base, strconv.Itoa(s.instances)), bin: s.bin, pool: filepath.Join(s.base, "pool")}
	if err := errors.Join(os.MkdirAll(e.pool, 0o755), os.Mkdir(e.dir, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(e.dir)
	before := busyNow()
	p, err := sub.open(ctx, e)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	err = use(p)
	if e := p.close(); e != nil {
		err = errors.Join(err, fmt.Errorf("stop: %w", e))
	}
	s.others[sub.short] = append(s.others[sub.short], before.others())
	return err
}

// lockFile waits until nobody else has the file locked.
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

// line is a run in short.
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

// round leaves three digits of a duration.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(cmp.Or(unit, 1))
}
