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

// loads has the loads that [Verify] runs. None of them is part of the calibration.
//
//go:embed loads/*.yaml
var loads embed.FS

// Checked is one load, its prediction and its runs.
type Checked struct {
	Load      string             `json:"load"`
	Predicted Figures            `json:"predicted"`
	Measured  Figures            `json:"measured"` // medians of the runs
	Runs      []Figures          `json:"runs"`
	Foreign   []float64          `json:"foreign_cores"` // used by other processes, of each run
	Errors    map[string]float64 `json:"errors"`        // by quantity: the relative error of the prediction against the median
	Beyond    map[string]float64 `json:"beyond"`        // by quantity: the relative distance of the prediction from the range of the runs
}

// Quantities returns the names of the errors of [Checked], in the order to show them in.
func Quantities() []string {
	return []string{"start p50", "start p99", "cores", "commits/s", "bytes/s"}
}

func quantities(f Figures) []float64 {
	return []float64{f.P50.Seconds(), f.P99.Seconds(), f.CPU, f.Commits, f.Bytes}
}

// Checking configures [Verify].
type Checking struct {
	Dir      string        // parent of the folders, on the calibrated disk
	Length   time.Duration // of each run
	Repeats  int           // number of runs of each load; the median counts
	Attempts int           // see Options
	Only     []string      // names of the loads; empty is all
	// Progress, unless nil, is called before each run.
	Progress func(load string)
}

// Loads returns the names of the loads that Verify runs.
func Loads() []string {
	entries, err := loads.ReadDir("loads")
	if err != nil {
		return nil // cannot happen: they are part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Verify runs loads on this machine, which must be the one of the curves, and predicts them. The
// same tasks are run and predicted, so the error is that of the model of the machine, and of changes
// of the machine since the curves were measured.
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

// VerifyModel is Verify with curves that are as old as the runs: each of o.Repeats rounds makes all
// runs of a calibration and one of each load. The error is then that of the model alone. VerifyModel
// returns the curves, too.
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

// check is a load under verification.
type check struct {
	Checked
	runs []simulated // the runs, to be predicted
}

// begin returns the loads to verify.
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

// run runs the load with new tasks.
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

// draws is the number of predictions of each run, each with another seed for the machine: single
// predictions differ as runs do.
const draws = 7

// predict predicts the runs of a load.
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

// compare computes the errors. A prediction between two runs of the same load is as good as possible:
// no other is nearer to both.
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

// builtIn reads a built-in load.
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

// Error returns the median and the largest of the errors of all loads, against the medians of the
// runs.
func Error(all []Checked) (med, worst float64) {
	return ofAll(all, func(c Checked) map[string]float64 { return c.Errors })
}

// ErrorBeyond returns the median and the largest distance of predictions from the range of the runs.
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
