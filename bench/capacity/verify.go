package capacity

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"
)

// The loads that [Verify] runs. None of them is one of the calibration.
//
//go:embed loads/*.yaml
var loads embed.FS

// Checked is one load, predicted and then run.
type Checked struct {
	Load      string             `json:"load"`
	Predicted Figures            `json:"predicted"`
	Measured  Figures            `json:"measured"` // medians of the runs
	Runs      []Figures          `json:"runs"`
	Foreign   []float64          `json:"foreign_cores"` // of each run: what others used of the machine
	Errors    map[string]float64 `json:"errors"`        // by quantity: how far the prediction is off the median, as a share
	Beyond    map[string]float64 `json:"beyond"`        // by quantity: how far it is outside of what the runs were, as a share
}

// Quantities are the names of the errors of [Checked], in the order to show them in.
func Quantities() []string {
	return []string{"start p50", "start p99", "cores", "commits/s", "bytes/s"}
}

func quantities(f Figures) []float64 {
	return []float64{f.P50.Seconds(), f.P99.Seconds(), f.CPU, f.Commits, f.Bytes}
}

// Checking says how to verify.
type Checking struct {
	Dir      string        // where to make folders: on the disk that was calibrated
	Length   time.Duration // of each run
	Repeats  int           // runs of each load, of which the median counts
	Attempts int           // see Options
	Only     []string      // names of the loads; empty is all
	// Progress is called before each load; nil is nobody.
	Progress func(load string)
}

// Loads returns the names of the loads that Verify runs.
func Loads() []string {
	entries, err := loads.ReadDir("loads")
	if err != nil {
		return nil // they are part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Verify predicts loads and then runs them on this machine, which must be the one of the
// curves. The same tasks are predicted and run, so that what differs is the machine.
func Verify(ctx context.Context, c *Curves, o Checking) ([]Checked, error) {
	if o.Length <= 0 || o.Repeats < 1 {
		return nil, fmt.Errorf("verify: Checking.Length is %v and Repeats %d (want more than 0, and 1 or more)", o.Length, o.Repeats)
	}
	for _, name := range o.Only {
		if !slices.Contains(Loads(), name) {
			return nil, fmt.Errorf("verify: there is no load %q; use one of %s", name, strings.Join(Loads(), ", "))
		}
	}
	var all []Checked
	for _, name := range Loads() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, name) {
			continue
		}
		if o.Progress != nil {
			o.Progress(name)
		}
		checked, err := c.check(ctx, name, o)
		if err != nil {
			return nil, fmt.Errorf("verify: %s: %w", name, err)
		}
		all = append(all, checked)
	}
	return all, nil
}

// check predicts a load and runs it.
func (c *Curves) check(ctx context.Context, name string, o Checking) (Checked, error) {
	checked := Checked{Load: name}
	load, err := builtIn(name)
	if err != nil {
		return checked, err
	}
	set := load.policies(load.Slots)
	var predicted []Figures
	for seed := range uint64(o.Repeats) {
		tasks, skip := load.during(seed, o.Length, 1), o.Length/6
		m, err := c.simulate(simulated{policies: set, arrivals: tasks, skip: skip, cores: c.Machine.Cores, seed: seed, paced: true})
		if err != nil {
			return checked, err
		}
		predicted = append(predicted, m.Figures)
		f, err := trial{store: c.Store, dir: o.Dir, policies: set, arrivals: tasks, skip: skip}.quietly(ctx, o.Attempts)
		if err != nil {
			return checked, err
		}
		checked.Runs = append(checked.Runs, f.sum())
		checked.Foreign = append(checked.Foreign, f.foreign)
	}
	checked.Predicted, checked.Measured = median(predicted), median(checked.Runs)
	checked.compare()
	return checked, nil
}

// compare fills in the errors. A prediction that lies between two runs of the same load is
// as right as it can be: no other would be nearer to both.
func (c *Checked) compare() {
	c.Errors, c.Beyond = make(map[string]float64), make(map[string]float64)
	want := quantities(c.Measured)
	for i, got := range quantities(c.Predicted) {
		least, most := want[i], want[i]
		for _, run := range c.Runs {
			v := quantities(run)[i]
			least, most = min(least, v), max(most, v)
		}
		if least <= 0 {
			continue
		}
		name := Quantities()[i]
		c.Errors[name] = math.Abs(got-want[i]) / want[i]
		switch {
		case got < least:
			c.Beyond[name] = (least - got) / least
		case got > most:
			c.Beyond[name] = (got - most) / most
		default:
			c.Beyond[name] = 0
		}
	}
}

// builtIn reads one of the loads of the program.
func builtIn(name string) (*Load, error) {
	file, err := loads.Open(path.Join("loads", name+".yaml"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Read(name+".yaml", file)
}

// median returns the median of each figure.
func median(fs []Figures) Figures {
	of := func(get func(*Figures) float64) float64 {
		vs := make([]float64, len(fs))
		for i := range fs {
			vs[i] = get(&fs[i])
		}
		return middle(vs)
	}
	return Figures{
		P50:  time.Duration(of(func(f *Figures) float64 { return float64(f.P50) })),
		P99:  time.Duration(of(func(f *Figures) float64 { return float64(f.P99) })),
		Rate: of(func(f *Figures) float64 { return f.Rate }), CPU: of(func(f *Figures) float64 { return f.CPU }),
		Running: of(func(f *Figures) float64 { return f.Running }), Commits: of(func(f *Figures) float64 { return f.Commits }),
		Bytes: of(func(f *Figures) float64 { return f.Bytes }),
	}
}

// middle returns the median. It sorts vs.
func middle(vs []float64) float64 {
	slices.Sort(vs)
	if n := len(vs); n%2 == 0 && n > 0 {
		return (vs[n/2-1] + vs[n/2]) / 2
	}
	return vs[len(vs)/2]
}

// Error returns the median and the worst of all errors of all loads, against the medians
// of the runs.
func Error(all []Checked) (med, worst float64) {
	return ofAll(all, func(c Checked) map[string]float64 { return c.Errors })
}

// ErrorBeyond returns the same of how far predictions were outside of what the runs were.
func ErrorBeyond(all []Checked) (med, worst float64) {
	return ofAll(all, func(c Checked) map[string]float64 { return c.Beyond })
}

func ofAll(all []Checked, errors func(Checked) map[string]float64) (med, worst float64) {
	var es []float64
	for _, c := range all {
		es = slices.AppendSeq(es, maps.Values(errors(c)))
	}
	if len(es) == 0 {
		return 0, 0
	}
	return middle(es), slices.Max(es)
}
