// Package limits measures what a machine can do at best, bare of any engine: how long
// the disk takes to sync, how fast the databases commit alone, what a call to another
// process costs, and what Go's scheduler and timers add. Measured in the same session as
// an engine, these limits show how much of what the machine has the engine makes of it.
//
// docs/benchmarks.md has a table of all limits.
package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// Names of limits that others set results against. See [All] for the rest.
const (
	// Fsync is the time in which one block of 4 KiB is appended to a file and synced, median.
	Fsync = "fsync/append/p50"
	// LivesPebble and LivesBolt are the most tasks that our stores insert and finish in a
	// second without an engine, 256 to a commit.
	LivesPebble = "lives/pebble"
	LivesBolt   = "lives/bolt"
)

// The units of limits.
const (
	Nanoseconds = "ns"    // less is better
	PerSecond   = "ops/s" // more is better
)

const (
	// DefaultBudget is how long all measurements take together without another choice.
	DefaultBudget = 10 * time.Second
	// LeastBudget is the smallest that is accepted. Its figures say little.
	LeastBudget = 100 * time.Millisecond
	// Repetitions is how often each limit is measured.
	Repetitions = 5
)

// ErrOptions says that options make no sense, whatever the machine.
var ErrOptions = errors.New("not measured")

// Options are the choices of [Measure]. The zero value measures everything on the disk
// of the current folder.
type Options struct {
	// Dir is a folder on the disk to measure; empty is the current one. A folder is made
	// in it, and removed.
	Dir string
	// Budget is how long the measurements take together, give or take; zero is
	// DefaultBudget. Preparing them takes about three seconds more.
	Budget time.Duration
	// Only names what to measure: limits, or what their names begin with up to a slash,
	// such as "fsync" or "grpc/unix"; nil is everything.
	Only []string
	// Progress is called with the name of each measurement before it begins; nil is nobody.
	Progress func(name string)
}

// Limit is what there is to know of a limit without measuring it.
type Limit struct {
	Name string
	Unit string // Nanoseconds or PerSecond
	What string // what it is, in a few words
}

// All returns all limits of this system in the order of their measurement.
func All() []Limit {
	var all []Limit
	for _, p := range probes() {
		all = append(all, p.limits...)
	}
	return all
}

// Measure measures the limits that are asked for and returns them in the order of [All].
// It uses the whole machine while it runs. What it has written is removed when it
// returns, whatever it returns. An error names the limit that could not be measured; it
// wraps the context's cause if that was why, and [ErrOptions] if nothing was tried.
func Measure(ctx context.Context, o Options) ([]result.Limit, error) {
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.Budget < LeastBudget {
		return nil, fmt.Errorf("limits: %w: a budget of %v is too short to measure anything, want at least %v", ErrOptions, o.Budget, LeastBudget)
	}
	chosen, err := choose(o.Only)
	if err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	dir, err := os.MkdirTemp(cmp.Or(o.Dir, "."), ".taskengine-limits-")
	if err != nil {
		return nil, fmt.Errorf("limits: make a folder to measure in: %w", err)
	}
	all, err := measureAll(ctx, chosen, dir, o)
	if failed := os.RemoveAll(dir); err == nil && failed != nil {
		err = fmt.Errorf("limits: remove what was written: %w", failed)
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(l result.Limit) bool { return !wanted(o.Only, l.Name) }), nil
}

// measureAll measures in the folder dir, which the caller removes.
func measureAll(ctx context.Context, chosen []probe, dir string, o Options) ([]result.Limit, error) {
	shares := 0
	for _, p := range chosen {
		shares += p.share
	}
	var all []result.Limit
	for _, p := range chosen {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("limits: %w", context.Cause(ctx))
		}
		if o.Progress != nil {
			o.Progress(p.name())
		}
		each := o.Budget * time.Duration(p.share) / time.Duration(shares*Repetitions)
		measured, err := p.run(ctx, dir, each)
		if err != nil {
			return nil, fmt.Errorf("limits: %s: %w", p.name(), err)
		}
		all = append(all, measured...)
	}
	return all, nil
}

// wanted reports whether a limit is among those asked for.
func wanted(only []string, name string) bool {
	return len(only) == 0 || slices.ContainsFunc(only, func(o string) bool { return covers(o, name) })
}

// covers reports whether a limit is what is asked for, or below it.
func covers(asked, name string) bool {
	return name == asked || strings.HasPrefix(name, asked+"/")
}

// choose returns the probes of the limits that are asked for.
func choose(only []string) ([]probe, error) {
	all := probes()
	for _, asked := range only {
		known := slices.ContainsFunc(All(), func(l Limit) bool { return covers(asked, l.Name) })
		if !known {
			return nil, fmt.Errorf("%w: there is no limit %q; there are %s, and those below them", ErrOptions, asked, strings.Join(groups(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(p probe) bool {
		return !slices.ContainsFunc(p.limits, func(l Limit) bool { return wanted(only, l.Name) })
	}), nil
}

// groups are the first words of the names of all limits, in order.
func groups() []string {
	var names []string
	for _, l := range All() {
		name, _, _ := strings.Cut(l.Name, "/")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
