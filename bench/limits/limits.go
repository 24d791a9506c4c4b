// Package limits measures the best performance of a machine without an engine: the time of a sync, the
// commit rate of the bare databases, the cost of a call to another process, and the delays of the
// scheduler and the timers of Go. Measured together with an engine, these limits show which part of
// the machine the engine uses.
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

// Names of limits that other packages compare results with. See [All] for the rest.
const (
	// Fsync is the median time to append a block of 4 KiB to a file and sync it.
	Fsync = "fsync/append/p50"
)

// Lives returns the name of the limit of a store: the tasks per second that it inserts and finishes without an engine,
// 256 to a commit.
func Lives(store string) string { return "lives/" + store }

// The units of limits.
const (
	Nanoseconds = "ns"    // less is better
	PerSecond   = "ops/s" // more is better
)

const (
	// DefaultBudget is the default time of all measurements together.
	DefaultBudget = 10 * time.Second
	// LeastBudget is the smallest valid budget. Its figures are imprecise.
	LeastBudget = 100 * time.Millisecond
	// Repetitions is the number of times that each limit is measured.
	Repetitions = 5
)

// ErrOptions means that the options are invalid on every machine.
var ErrOptions = errors.New("not measured")

// Options configure [Measure]. The zero value measures all limits on the disk of the current folder.
type Options struct {
	// Dir is a folder on the disk to measure; empty is the current folder. Measure makes a
	// folder in it and removes that again.
	Dir string
	// Budget is the approximate time of all measurements together; zero is DefaultBudget.
	// Preparing them takes about three seconds more.
	Budget time.Duration
	// Only has the limits to measure, as names or as prefixes of names up to a slash, such as
	// "fsync" or "grpc/unix"; nil is all limits.
	Only []string
	// Progress, unless nil, is called with the name of each measurement before it begins.
	Progress func(name string)
}

// Limit describes a limit.
type Limit struct {
	Name string
	Unit string // Nanoseconds or PerSecond
	What string // description, in a few words
}

// All returns all limits of this system in the order of their measurement.
func All() []Limit {
	var all []Limit
	for _, p := range probes() {
		all = append(all, p.limits...)
	}
	return all
}

// Measure measures the limits of o.Only and returns them in the order of [All]. It uses the whole
// machine while it runs. It removes its files before it returns, also with an error. An error names
// the limit that could not be measured. It wraps the cause of the context if ctx has ended, and
// [ErrOptions] if the options are invalid.
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

// wanted reports whether a limit is selected.
func wanted(only []string, name string) bool {
	return len(only) == 0 || slices.ContainsFunc(only, func(o string) bool { return covers(o, name) })
}

// covers reports whether asked is name, or a prefix of it up to a slash.
func covers(asked, name string) bool {
	return name == asked || strings.HasPrefix(name, asked+"/")
}

// choose returns the probes of the limits to measure.
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

// groups returns the first parts of the names of all limits, in order.
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
