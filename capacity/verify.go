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
	Repeats  int           // rounds, in each of which each load is run once; the median counts
	Attempts int           // see Options
	Only     []string      // names of the loads; empty is all
	// Progress is called before each run; nil is nobody.
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

// Verify runs loads on this machine, which must be the one of the curves, and predicts
// them. The same tasks are run and predicted, so that what differs is the machine: the
// model of it, and what it has become since the curves were measured.
func Verify(ctx context.Context, c *Curves, o Checking) ([]Checked, error) {
	checks, err := o.begin()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	for range o.Repeats {
		if err := o.round(ctx, checks, c.Store); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	return c.predict(checks)
}

// VerifyModel is Verify with curves that are as old as the runs: in each of o.Repeats
// rounds everything is measured once that curves are made of, and each load is run. What
// then differs is the model. It returns the curves, too.
func VerifyModel(ctx context.Context, curves Options, o Checking) (*Curves, []Checked, error) {
	curves.Rounds = o.Repeats
	checks, err := o.begin()
	if err == nil {
		err = curves.check()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("verify: %w", err)
	}
	m := measuring{Options: curves}
	for range o.Repeats {
		err := m.round(ctx)
		if err == nil {
			err = o.round(ctx, checks, curves.Store)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("verify: %w", err)
		}
	}
	c, err := m.curves(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("verify: %w", err)
	}
	all, err := c.predict(checks)
	return c, all, err
}

// check is a load that is run.
type check struct {
	Checked
	runs []simulated // as they were made
}

// begin returns what is to be checked.
func (o *Checking) begin() ([]*check, error) {
	if o.Length <= 0 || o.Repeats < 1 {
		return nil, fmt.Errorf("Checking.Length is %v and Repeats %d (want more than 0, and 1 or more)", o.Length, o.Repeats)
	}
	for _, name := range o.Only {
		if !slices.Contains(Loads(), name) {
			return nil, fmt.Errorf("there is no load %q; use one of %s", name, strings.Join(Loads(), ", "))
		}
	}
	var all []*check
	for _, name := range Loads() {
		if len(o.Only) == 0 || slices.Contains(o.Only, name) {
			all = append(all, &check{Checked: Checked{Load: name}})
		}
	}
	return all, nil
}

// round runs each load once.
func (o *Checking) round(ctx context.Context, checks []*check, store string) error {
	for _, k := range checks {
		if o.Progress != nil {
			o.Progress(k.Load)
		}
		if err := k.run(ctx, store, o); err != nil {
			return fmt.Errorf("%s: %w", k.Load, err)
		}
	}
	return nil
}

// run runs the load with tasks that it has not been run with.
func (k *check) run(ctx context.Context, store string, o *Checking) error {
	load, err := builtIn(k.Load)
	if err != nil {
		return err
	}
	s := simulated{policies: load.policies(load.Slots), skip: o.Length / 6, seed: uint64(len(k.runs)), paced: true}
	s.arrivals = load.during(s.seed, o.Length, 1)
	f, err := trial{store: store, dir: o.Dir, policies: s.policies, arrivals: s.arrivals, skip: s.skip}.quietly(ctx, o.Attempts)
	if err != nil {
		return err
	}
	k.runs = append(k.runs, s)
	k.Runs = append(k.Runs, f.sum())
	k.Foreign = append(k.Foreign, f.foreign)
	return nil
}

// draws is how often each run is predicted, each time with another chance in the machine:
// one alone differs from the next as runs do.
const draws = 7

// predict predicts what was run.
func (c *Curves) predict(checks []*check) ([]Checked, error) {
	all := make([]Checked, len(checks))
	for i, k := range checks {
		var predicted []Figures
		for _, s := range k.runs {
			s.cores = c.Machine.Cores
			for draw := range uint64(draws) {
				again := s
				again.seed = s.seed*draws + draw
				m, err := c.simulate(again)
				if err != nil {
					return nil, fmt.Errorf("predict %s: %w", k.Load, err)
				}
				predicted = append(predicted, m.Figures)
			}
		}
		k.Predicted, k.Measured = median(predicted), median(k.Runs)
		k.compare()
		all[i] = k.Checked
	}
	return all, nil
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
